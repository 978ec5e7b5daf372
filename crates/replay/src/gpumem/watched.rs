//! The simulated device with an ear at the door: what the allocator does to memory and streams, as it happens.

use std::sync::{Arc, Mutex, PoisonError};

use device::{
    Access, AddressRange, Device, DeviceInfo, DevicePtr, DriverPools, EventId, HandleId, Mapping, MemoryState,
    PageLocked, Place, Result, SimDevice, StreamId, VirtualMemory,
};
use hashbrown::HashMap;

/// Something that the allocator did, and the device allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Took plain memory.
    Alloc { address: u64, bytes: u64 },
    /// Gave it back.
    Free { address: u64, bytes: u64 },
    /// Brought memory to an address.
    Map { address: u64, bytes: u64, handle: HandleId },
    /// Took it away.
    Unmap { address: u64, bytes: u64, handle: HandleId },
    /// Made a stream wait for another.
    Wait { of: StreamId },
}

/// What is remembered between two calls of the policy.
#[derive(Debug, Default)]
struct Notes {
    deeds: Vec<Deed>,
    /// Bytes of plain memory by address.
    plain: HashMap<u64, u64>,
    /// What is mapped: by address, bytes and handle.
    mapped: HashMap<u64, (u64, HandleId)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Watched {
    device: Arc<SimDevice>,
    notes: Mutex<Notes>,
}

impl Watched {
    pub(super) fn new(device: Arc<SimDevice>) -> Self {
        Self { device, notes: Mutex::default() }
    }

    fn note(&self, write: impl FnOnce(&mut Notes)) {
        // Notes are whole at any time.
        write(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes what was done since the last time, in order.
    pub(super) fn take(&self) -> Vec<Deed> {
        let mut deeds = Vec::new();
        self.note(|notes| deeds = std::mem::take(&mut notes.deeds));
        deeds
    }
}

impl Device for Watched {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn memory(&self) -> Result<MemoryState> {
        self.device.memory()
    }

    fn alloc(&self, bytes: u64) -> Result<DevicePtr> {
        let ptr = self.device.alloc(bytes)?;
        self.note(|notes| {
            notes.plain.insert(ptr.0, bytes);
            notes.deeds.push(Deed::Alloc { address: ptr.0, bytes });
        });
        Ok(ptr)
    }

    fn free(&self, ptr: DevicePtr) -> Result<()> {
        self.device.free(ptr)?;
        self.note(|notes| {
            let bytes = notes.plain.remove(&ptr.0).unwrap_or(0);
            notes.deeds.push(Deed::Free { address: ptr.0, bytes });
        });
        Ok(())
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.device.create_stream()
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        self.device.destroy_stream(stream)
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        self.device.query_stream(stream)
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        self.device.synchronize_stream(stream)
    }

    fn create_event(&self) -> Result<EventId> {
        self.device.create_event()
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        self.device.destroy_event(event)
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        self.device.record_event(event, stream)
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        self.device.query_event(event)
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        self.device.synchronize_event(event)
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.device.wait_event(stream, event)
    }

    fn order_streams(&self, first: StreamId, then: StreamId) -> Result<()> {
        self.device.order_streams(first, then)?;
        self.note(|notes| notes.deeds.push(Deed::Wait { of: first }));
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }

    fn copy(&self, to: Place, from: Place, bytes: u64, stream: StreamId) -> Result<()> {
        self.device.copy(to, from, bytes, stream)
    }

    fn write(&self, to: Place, from: &[u8]) -> Result<()> {
        self.device.write(to, from)
    }

    fn read(&self, from: Place, to: &mut [u8]) -> Result<()> {
        self.device.read(from, to)
    }

    fn vmm(&self) -> Option<&dyn VirtualMemory> {
        self.device.vmm().map(|_| self as &dyn VirtualMemory)
    }

    fn driver_pools(&self) -> Option<&dyn DriverPools> {
        self.device.driver_pools()
    }

    fn page_locked(&self) -> Option<&dyn PageLocked> {
        self.device.page_locked()
    }
}

impl VirtualMemory for Watched {
    fn reserve_range(&self, bytes: u64, alignment: u64) -> Result<AddressRange> {
        self.device.reserve_range(bytes, alignment)
    }

    fn release_range(&self, range: AddressRange) -> Result<()> {
        self.device.release_range(range)
    }

    fn create_handles(&self, bytes_each: u64, count: usize) -> Result<Vec<HandleId>> {
        self.device.create_handles(bytes_each, count)
    }

    fn release_handles(&self, handles: &[HandleId]) -> Result<()> {
        self.device.release_handles(handles)
    }

    fn map(&self, mappings: &[Mapping]) -> Result<()> {
        self.device.map(mappings)?;
        self.note(|notes| {
            for &Mapping { at, handle, bytes } in mappings {
                notes.mapped.insert(at.0, (bytes, handle));
                notes.deeds.push(Deed::Map { address: at.0, bytes, handle });
            }
        });
        Ok(())
    }

    fn unmap(&self, ranges: &[AddressRange]) -> Result<()> {
        self.device.unmap(ranges)?;
        self.note(|notes| {
            for range in ranges {
                let mut address = range.start.0;
                while address < range.end()
                    && let Some((bytes, handle)) = notes.mapped.remove(&address)
                {
                    notes.deeds.push(Deed::Unmap { address, bytes, handle });
                    address += bytes;
                }
            }
        });
        Ok(())
    }

    fn set_access(&self, ranges: &[AddressRange], access: Access) -> Result<()> {
        self.device.set_access(ranges, access)
    }
}
