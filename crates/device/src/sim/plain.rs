//! Plain memory of the simulated device.

use crate::books::AddressSpace;
use crate::books::Refusal;
use crate::{AddressRange, DevicePtr};
use std::collections::BTreeMap;

const START: u64 = 1 << 40;
const END: u64 = 1 << 46;

/// Sizes are rounded up to the granule; a freed address is the first to be used again for its rounded size.
#[derive(Debug)]
pub(super) struct Plain {
    granule: u64,
    space: AddressSpace,
    live: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Plain {
    pub(super) fn new(granule: u64) -> Plain {
        Plain { granule, space: AddressSpace::new(START, END), live: BTreeMap::new(), bytes: 0 }
    }

    /// What `bytes` takes from the device.
    pub(super) fn rounded(&self, bytes: u64) -> Result<u64, Refusal> {
        if bytes == 0 {
            return Err(Refusal::value("0 bytes can't be allocated"));
        }
        bytes.checked_next_multiple_of(self.granule).ok_or(Refusal::NoRoom)
    }

    pub(super) fn alloc(&mut self, rounded: u64) -> Result<DevicePtr, Refusal> {
        let start = self.space.take(rounded, self.granule).ok_or(Refusal::NoAddresses {
            free_bytes: self.space.unused_bytes(),
            total_bytes: self.space.span_bytes(START),
        })?;
        self.live.insert(start, rounded);
        self.bytes += rounded;
        Ok(DevicePtr(start))
    }

    /// The range of a live allocation.
    pub(super) fn find(&self, ptr: DevicePtr) -> Result<AddressRange, Refusal> {
        match self.live.get(&ptr.0) {
            Some(&bytes) => Ok(AddressRange::new(ptr, bytes)),
            None => Err(Refusal::value("no allocation that is still live begins there")),
        }
    }

    pub(super) fn free(&mut self, range: AddressRange) {
        if self.live.remove(&range.start.0).is_some() {
            self.bytes -= range.bytes;
            self.space.give_back(range.start.0, range.bytes);
        }
    }

    /// Whether the range lies in one live allocation.
    pub(super) fn holds(&self, range: AddressRange) -> bool {
        (START..END).contains(&range.start.0)
            && self
                .live
                .range(..=range.start.0)
                .next_back()
                .is_some_and(|(&start, &bytes)| range.end() <= start.saturating_add(bytes))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut next = 0;
        let mut held = 0;
        for (&start, &bytes) in &self.live {
            if start < next || !start.is_multiple_of(self.granule) {
                return Err(format!("plain memory at {start:#x} overlaps another or is out of place"));
            }
            next = start + bytes;
            held += bytes;
        }
        if held != self.bytes {
            return Err(format!("plain memory holds {held} bytes, the books say {}", self.bytes));
        }
        Ok(())
    }
}
