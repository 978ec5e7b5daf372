//! The parts of a host device: virtual memory, page-locked memory, memory between processes.

use super::{HostDevice, limits};
use crate::books::Refusal;
use crate::{Access, AddressRange, Attempt, HandleId, HostPtr, Ipc, Mapping, PageLocked, Result, VirtualMemory};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

impl VirtualMemory for HostDevice {
    fn reserve_range(&self, bytes: u64, alignment: u64) -> Result<AddressRange> {
        self.call(Attempt::ReserveRange { bytes, alignment }, || Ok(self.enter()?.reserve(bytes, alignment)?))
    }

    fn release_range(&self, range: AddressRange) -> Result<()> {
        self.call(Attempt::ReleaseRange { range }, || Ok(self.enter()?.release_range(range)?))
    }

    fn create_handles(&self, bytes_each: u64, count: usize) -> Result<Vec<HandleId>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        self.call(Attempt::CreateHandles { bytes_each, count }, || Ok(self.enter()?.create(bytes_each, count)?))
    }

    fn release_handles(&self, handles: &[HandleId]) -> Result<()> {
        if handles.is_empty() {
            return Ok(());
        }
        let count = handles.len();
        let attempt = |index: usize| Attempt::ReleaseHandle { handle: handles[index], index, count };
        self.batch(attempt, || Ok(self.enter()?.release(handles)?))
    }

    fn map(&self, mappings: &[Mapping]) -> Result<()> {
        if mappings.is_empty() {
            return Ok(());
        }
        let count = mappings.len();
        let attempt = |index: usize| Attempt::Map { mapping: mappings[index], index, count };
        self.batch(attempt, || Ok(self.enter()?.map(mappings)?))
    }

    fn unmap(&self, ranges: &[AddressRange]) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let count = ranges.len();
        let attempt = |index: usize| Attempt::Unmap { range: ranges[index], index, count };
        self.mapping_batch(attempt, |memory| memory.unmap(ranges))
    }

    fn set_access(&self, ranges: &[AddressRange], access: Access) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let count = ranges.len();
        let attempt = |index: usize| Attempt::SetAccess { range: ranges[index], access, index, count };
        self.mapping_batch(attempt, |memory| memory.set_access(ranges, access))
    }
}

impl PageLocked for HostDevice {
    fn alloc_host(&self, bytes: u64) -> Result<HostPtr> {
        self.call(Attempt::HostAlloc { bytes }, || Ok(HostPtr(self.enter()?.alloc_locked(bytes)?)))
    }

    fn free_host(&self, ptr: HostPtr) -> Result<()> {
        self.call(Attempt::HostFree { ptr }, || {
            let mut memory = self.enter()?;
            let pages = memory.locked.take(ptr.0);
            let pages =
                pages.ok_or_else(|| Refusal::value("no page-locked allocation that is still live begins there"))?;
            match Arc::try_unwrap(pages) {
                Ok(mut pages) => {
                    let bytes = pages.bytes();
                    if let Err(errno) = pages.unmap() {
                        memory.locked.put_back(Arc::new(pages));
                        return Err(limits::of_mapping(errno, 0).into());
                    }
                    memory.locked.gone(bytes);
                    Ok(())
                }
                Err(pages) => {
                    memory.locked.put_back(pages);
                    Err(Refusal::State("a copy that uses it hasn't finished; wait for it first".into()).into())
                }
            }
        })
    }

    fn locked_bytes(&self) -> u64 {
        // In a forked child the lock may be held by a thread that isn't there.
        if self.is_here() { self.books().locked.bytes() } else { 0 }
    }
}

impl Ipc for HostDevice {
    fn export(&self, handle: HandleId) -> Result<OwnedFd> {
        self.call(Attempt::Export { handle }, || Ok(self.enter()?.export(handle)?))
    }

    fn import(&self, descriptor: BorrowedFd<'_>, bytes: u64) -> Result<HandleId> {
        self.call(Attempt::Import { bytes }, || Ok(self.enter()?.import(descriptor, bytes)?))
    }
}
