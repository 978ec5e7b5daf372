//! Page-locked memory of the simulated device: accounts only.

use crate::HostPtr;
use crate::books::AddressSpace;
use crate::books::Refusal;
use std::collections::BTreeMap;

const START: u64 = 1 << 40;
const END: u64 = 1 << 47;
const PAGE: u64 = 4096;

#[derive(Debug)]
pub(super) struct Locked {
    space: AddressSpace,
    live: BTreeMap<u64, u64>,
    bytes: u64,
    limit_bytes: u64,
}

impl Locked {
    pub(super) fn new(limit_bytes: u64) -> Locked {
        Locked { space: AddressSpace::new(START, END), live: BTreeMap::new(), bytes: 0, limit_bytes }
    }

    pub(super) fn alloc(&mut self, bytes: u64) -> Result<HostPtr, Refusal> {
        if bytes == 0 {
            return Err(Refusal::value("0 bytes can't be allocated"));
        }
        let refusal = Refusal::NoAddresses { free_bytes: self.limit_bytes - self.bytes, total_bytes: self.limit_bytes };
        let rounded = bytes.checked_next_multiple_of(PAGE).filter(|bytes| *bytes <= self.limit_bytes - self.bytes);
        let Some((rounded, start)) = rounded.and_then(|bytes| Some((bytes, self.space.take(bytes, PAGE)?))) else {
            return Err(refusal);
        };
        self.live.insert(start, rounded);
        self.bytes += rounded;
        Ok(HostPtr(start))
    }

    pub(super) fn free(&mut self, ptr: HostPtr) -> Result<(), Refusal> {
        let Some(bytes) = self.live.remove(&ptr.0) else {
            return Err(Refusal::value("no page-locked allocation that is still live begins there"));
        };
        self.bytes -= bytes;
        self.space.give_back(ptr.0, bytes);
        Ok(())
    }

    /// Whether the range lies in one live allocation.
    pub(super) fn holds(&self, ptr: HostPtr, bytes: u64) -> bool {
        let end = ptr.0.checked_add(bytes);
        self.live
            .range(..=ptr.0)
            .next_back()
            .is_some_and(|(&start, &held)| end.is_some_and(|end| end <= start.saturating_add(held)))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let held: u64 = self.live.values().sum();
        if held != self.bytes || held > self.limit_bytes {
            return Err(format!("{held} bytes are locked, the books say {} of {}", self.bytes, self.limit_bytes));
        }
        Ok(())
    }
}
