//! What every device can do.

use crate::{DevicePtr, DriverPools, EventId, HostPtr, Ipc, PageLocked, Result, StreamId, VirtualMemory};
use std::fmt;

/// What a device is. Doesn't change while the device lives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// What a person calls it.
    pub name: String,
    /// All bytes of memory it has, free or not.
    pub total_bytes: u64,
    /// Plain memory takes a multiple of this many bytes from the device.
    pub plain_granule_bytes: u64,
    /// Addresses of plain memory are multiples of this.
    pub plain_alignment_bytes: u64,
    /// Sizes and addresses of virtual memory are multiples of this; `None` without virtual memory.
    pub page_bytes: Option<u64>,
    /// Whether memory keeps what is written to it. A device of addresses only doesn't.
    pub has_bytes: bool,
}

impl DeviceInfo {
    /// A device with plain memory only: no rounding, addresses aligned to 256 bytes, bytes kept.
    #[must_use]
    pub fn new(name: impl Into<String>, total_bytes: u64) -> DeviceInfo {
        DeviceInfo {
            name: name.into(),
            total_bytes,
            plain_granule_bytes: 1,
            plain_alignment_bytes: 256,
            page_bytes: None,
            has_bytes: true,
        }
    }
}

/// How much memory there is at this moment, by the device's own account: other processes and the driver itself count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryState {
    /// Bytes nobody holds.
    pub free_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Memory of the device.
    Device(DevicePtr),
    /// Page-locked memory of this device's [`PageLocked`] part.
    Host(HostPtr),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Device(ptr) => ptr.fmt(f),
            Place::Host(ptr) => ptr.fmt(f),
        }
    }
}

/// A device: plain memory, streams, events, copies; and parts that may be absent.
///
/// # Promises
/// [`contract::check`](crate::contract::check) tests them on any implementation.
/// - A refused call leaves no trace, and its error says what was attempted with which values. Batches are all or nothing.
/// - Ids and pointers that the device didn't hand out, or that were given back, are refused.
/// - All methods may be called from several threads.
///
/// # Order
/// Work of one stream runs in the order it was queued. Between streams nothing is ordered, except by
/// [`wait_event`](Device::wait_event) and by what the host has seen finish before it queued more. The default stream is
/// no exception.
pub trait Device: Send + Sync {
    /// What this device is.
    fn info(&self) -> &DeviceInfo;

    /// How much memory is free now.
    fn memory(&self) -> Result<MemoryState>;

    /// Plain memory of at least `bytes` bytes, for all streams. Several of them never overlap. 0 bytes are refused.
    fn alloc(&self, bytes: u64) -> Result<DevicePtr>;

    /// Gives plain memory back. `ptr` is what [`alloc`](Device::alloc) returned. Waits until the device has finished all
    /// work queued so far, as CUDA's does, so that it is safe at any moment and slow.
    fn free(&self, ptr: DevicePtr) -> Result<()>;

    /// A new stream.
    fn create_stream(&self) -> Result<StreamId>;

    /// Gives a stream up. Work it still has runs to its end. The default stream is refused.
    fn destroy_stream(&self, stream: StreamId) -> Result<()>;

    /// Whether all work queued on the stream so far has finished.
    fn query_stream(&self, stream: StreamId) -> Result<bool>;

    /// The host waits until all work queued on the stream so far has finished.
    fn synchronize_stream(&self, stream: StreamId) -> Result<()>;

    /// A new event. Until it is recorded it counts as having happened.
    fn create_event(&self) -> Result<EventId>;

    /// Gives an event up. Waits that were queued for it hold.
    fn destroy_event(&self, event: EventId) -> Result<()>;

    /// Puts the event behind all work queued on the stream so far. An earlier record of it is forgotten; waits that were
    /// queued for that one hold.
    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()>;

    /// Whether the event's last record has happened.
    fn query_event(&self, event: EventId) -> Result<bool>;

    /// The host waits until the event's last record has happened.
    fn synchronize_event(&self, event: EventId) -> Result<()>;

    /// Work queued on `stream` from now on starts only once the event's last record has happened. The host goes on.
    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()>;

    /// Work queued on `then` from now on starts only once everything queued on `first` so far has finished. The host
    /// goes on. Costs an event; who orders often keeps events and calls [`wait_event`](Device::wait_event).
    fn order_streams(&self, first: StreamId, then: StreamId) -> Result<()> {
        let event = self.create_event()?;
        let ordered = self.record_event(event, first).and_then(|()| self.wait_event(then, event));
        let destroyed = self.destroy_event(event);
        ordered.and(destroyed)
    }

    /// The host waits until all streams have finished.
    fn synchronize(&self) -> Result<()>;

    /// Copies `bytes` bytes in order of the stream. The two places don't overlap.
    fn copy(&self, to: Place, from: Place, bytes: u64, stream: StreamId) -> Result<()>;

    /// Copies the host's bytes to the device, or to page-locked memory, before it returns. In no stream's order: the
    /// caller sees to it that nobody uses the place.
    fn write(&self, to: Place, from: &[u8]) -> Result<()>;

    /// Copies from the device, or from page-locked memory, to the host before it returns. In no stream's order.
    fn read(&self, from: Place, to: &mut [u8]) -> Result<()>;

    /// Addresses apart from memory, where the device can do it.
    fn vmm(&self) -> Option<&dyn VirtualMemory> {
        None
    }

    /// The driver's own stream-ordered pools, where it has them.
    fn driver_pools(&self) -> Option<&dyn DriverPools> {
        None
    }

    /// Page-locked memory on the host, where it makes copies faster.
    fn page_locked(&self) -> Option<&dyn PageLocked> {
        None
    }

    /// Memory shared with other processes, where the device can do it.
    fn ipc(&self) -> Option<&dyn Ipc> {
        None
    }
}
