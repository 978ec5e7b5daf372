//! The simulated device: the driver's calls over [`State`].

mod locked;
mod options;
mod plain;
mod pool;
mod program;
mod state;
mod streams;
mod touched;

pub use options::{ContractMode, OrderCheck, PlainFree, SimOptions};
pub use program::Touch;
pub use state::SimStats;

use crate::books::Refusal;
use crate::error::codes;
use crate::{
    Access, AddressRange, Attempt, Device, DeviceInfo, DevicePtr, DriverPools, Error, EventId, Failure, HandleId,
    HostPtr, Mapping, MemoryState, PageLocked, Place, PoolState, Result, StreamId, VirtualMemory,
};
use state::State;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A device of addresses only: no bytes, no hardware, and time that passes when the caller says so.
///
/// Work on a stream finishes when [`finish`](SimDevice::finish) and its kin say so, or when the host waits for it. The
/// same calls give the same answers, addresses and times on any machine.
///
/// Three groups of methods: [`Device`] and its parts are the driver's calls, which the allocator makes; they are
/// counted, priced and may be made to fail. `launch`, `order`, `observe` and `host_row` are what the program does.
/// `finish`, `finish_up_to` and `finish_all` are what the device does behind everyone's back.
#[derive(Debug)]
pub struct SimDevice {
    info: DeviceInfo,
    state: Mutex<State>,
}

impl SimDevice {
    /// A device without any memory taken, with the default stream.
    ///
    /// # Errors
    /// A granule or page that isn't a power of two, or larger than 2^40 bytes; a page below 4096; a capacity beyond 2^45 bytes (32 TiB) or
    /// page-locked memory beyond 2^46.
    pub fn new(options: SimOptions) -> Result<SimDevice> {
        let refuse =
            |reason| Err(Error::InvalidValue(Box::new(Failure::new(Attempt::Open, codes::INVALID_VALUE, reason))));
        let is_granule = |bytes: u64| bytes.is_power_of_two() && bytes <= 1 << 40;
        let is_page = |bytes: u64| is_granule(bytes) && bytes >= 4096;
        if !is_granule(options.plain_granule_bytes) || !options.page_bytes.is_none_or(is_page) {
            return refuse("granule and page have to be powers of two, of at most 2^40 bytes, the page at least 4096");
        }
        if options.capacity_bytes > 1 << 45 || options.page_locked_limit_bytes > 1 << 46 {
            return refuse("simulated addresses end at 2^45 bytes of memory and 2^46 bytes of page-locked memory");
        }
        let mut info = DeviceInfo::new(options.name.clone(), options.capacity_bytes);
        info.plain_granule_bytes = options.plain_granule_bytes;
        info.plain_alignment_bytes = options.plain_granule_bytes;
        info.page_bytes = options.page_bytes;
        info.has_bytes = false;
        Ok(SimDevice { info, state: Mutex::new(State::new(options)) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each call changes the state after the last thing that can fail, so what a panicking thread left is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, attempt: Attempt, body: impl FnOnce(&mut State) -> std::result::Result<T, Refusal>) -> Result<T> {
        self.lock().call(attempt, 1, 0, body)
    }

    /// A call with `count` entries; none at all is no call. `size` says the handles and bytes in it.
    fn batch(
        &self,
        count: usize,
        attempt: impl Fn(usize) -> Attempt,
        size: impl FnOnce(&State) -> (u64, u64),
        body: impl FnOnce(&mut State) -> std::result::Result<(), Refusal>,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        let (handles, bytes) = size(&state);
        state.call_batch(attempt, handles, bytes, body)
    }
}

impl Device for SimDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryState> {
        self.call(Attempt::MemoryInfo, |state| Ok(state.memory()))
    }

    fn alloc(&self, bytes: u64) -> Result<DevicePtr> {
        self.lock().call(Attempt::Alloc { bytes }, 1, bytes, |state| state.alloc(bytes))
    }

    fn free(&self, ptr: DevicePtr) -> Result<()> {
        self.call(Attempt::Free { ptr }, |state| state.free(ptr))
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.call(Attempt::CreateStream, |state| {
            state.streams.create().map(StreamId).ok_or(Refusal::TooMany("4096 streams are in use"))
        })
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        self.call(Attempt::DestroyStream { stream }, |state| {
            let place = state.place(stream)?;
            if stream == StreamId::DEFAULT {
                return Err(Refusal::value("the default stream stays"));
            }
            state.streams.destroy(place);
            Ok(())
        })
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        self.call(Attempt::QueryStream { stream }, |state| {
            let last = state.last(stream)?;
            let finished = state.streams.is_finished(last);
            if finished {
                state.streams.see_stream(last);
            }
            Ok(finished)
        })
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        self.call(Attempt::SynchronizeStream { stream }, |state| {
            let last = state.last(stream)?;
            state.count_host_wait(last);
            state.observe(last);
            Ok(())
        })
    }

    fn create_event(&self) -> Result<EventId> {
        self.call(Attempt::CreateEvent, |state| {
            state.streams.create_event().map(EventId).ok_or(Refusal::TooMany("all ids of events are taken"))
        })
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        self.call(Attempt::DestroyEvent { event }, |state| {
            if state.streams.destroy_event(event.0) { Ok(()) } else { Err(state::no_event()) }
        })
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        self.call(Attempt::RecordEvent { event, stream }, |state| {
            let place = state.place(stream)?;
            state.mark(event)?;
            let ns = state.timeline.stream_ns(place as usize);
            state.streams.record(event.0, place, ns);
            Ok(())
        })
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        self.call(Attempt::QueryEvent { event }, |state| {
            let Some(mark) = state.mark(event)? else { return Ok(true) };
            let finished = state.streams.is_finished(mark.entry);
            if finished {
                state.streams.see_mark(&mark);
            }
            Ok(finished)
        })
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        self.call(Attempt::SynchronizeEvent { event }, |state| {
            let Some(mark) = state.mark(event)? else { return Ok(()) };
            state.count_host_wait(mark.entry);
            state.streams.finish(mark.entry);
            state.streams.see_mark(&mark);
            state.timeline.host_wait(mark.ns);
            Ok(())
        })
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.call(Attempt::WaitEvent { stream, event }, |state| {
            let place = state.place(stream)?;
            if let Some(mark) = state.mark(event)? {
                state.streams.wait(place, &mark);
                state.timeline.wait(place as usize, mark.ns);
            }
            Ok(())
        })
    }

    fn synchronize(&self) -> Result<()> {
        self.call(Attempt::Synchronize, |state| {
            state.count_device_wait();
            state.observe_all();
            Ok(())
        })
    }

    fn copy(&self, to: Place, from: Place, bytes: u64, stream: StreamId) -> Result<()> {
        self.lock().call(Attempt::Copy { to, from, bytes, stream }, 1, bytes, |state| {
            let place = state.place(stream)?;
            state.copy(to, from, bytes, place)
        })
    }

    fn write(&self, to: Place, from: &[u8]) -> Result<()> {
        let bytes = from.len() as u64;
        self.call(Attempt::Write { to, bytes }, |_| Err(Refusal::Unsupported("a simulated device has addresses only")))
    }

    fn read(&self, from: Place, to: &mut [u8]) -> Result<()> {
        let bytes = to.len() as u64;
        self.call(Attempt::Read { from, bytes }, |_| Err(Refusal::Unsupported("a simulated device has addresses only")))
    }

    fn vmm(&self) -> Option<&dyn VirtualMemory> {
        self.info.page_bytes.map(|_| self as &dyn VirtualMemory)
    }

    fn driver_pools(&self) -> Option<&dyn DriverPools> {
        Some(self)
    }

    fn page_locked(&self) -> Option<&dyn PageLocked> {
        Some(self)
    }
}

impl VirtualMemory for SimDevice {
    fn reserve_range(&self, bytes: u64, alignment: u64) -> Result<AddressRange> {
        self.call(Attempt::ReserveRange { bytes, alignment }, |state| state.virt.reserve(bytes, alignment))
    }

    fn release_range(&self, range: AddressRange) -> Result<()> {
        self.call(Attempt::ReleaseRange { range }, |state| state.virt.release_range(range))
    }

    fn create_handles(&self, bytes_each: u64, count: usize) -> Result<Vec<HandleId>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let total = bytes_each.saturating_mul(count as u64);
        self.lock().call(Attempt::CreateHandles { bytes_each, count }, count as u64, total, |state| {
            let total = state.virt.size_of(bytes_each, count)?;
            state.check_room(total)?;
            let made = state.virt.create(bytes_each, count, || Ok(()))?;
            state.raise_peak();
            Ok(made)
        })
    }

    fn release_handles(&self, handles: &[HandleId]) -> Result<()> {
        let count = handles.len();
        let attempt = |index: usize| Attempt::ReleaseHandle { handle: handles[index], index, count };
        self.batch(count, attempt, |_| (count as u64, 0), |state| state.virt.release(handles))
    }

    fn map(&self, mappings: &[Mapping]) -> Result<()> {
        let count = mappings.len();
        let attempt = |index: usize| Attempt::Map { mapping: mappings[index], index, count };
        let bytes = mappings.iter().fold(0u64, |sum, mapping| sum.saturating_add(mapping.bytes));
        self.batch(count, attempt, |_| (count as u64, bytes), |state| state.virt.map(mappings))
    }

    fn unmap(&self, ranges: &[AddressRange]) -> Result<()> {
        let count = ranges.len();
        let attempt = |index: usize| Attempt::Unmap { range: ranges[index], index, count };
        self.batch(count, attempt, |state| state.virt.size_of_ranges(ranges), |state| state.unmap(ranges))
    }

    fn set_access(&self, ranges: &[AddressRange], access: Access) -> Result<()> {
        let count = ranges.len();
        let attempt = |index: usize| Attempt::SetAccess { range: ranges[index], access, index, count };
        self.batch(
            count,
            attempt,
            |state| state.virt.size_of_ranges(ranges),
            |state| state.virt.set_access(ranges, access),
        )
    }
}

impl DriverPools for SimDevice {
    fn alloc_async(&self, bytes: u64, stream: StreamId) -> Result<DevicePtr> {
        self.lock().call(Attempt::PoolAlloc { bytes, stream }, 1, bytes, |state| {
            let place = state.place(stream)?;
            state.pool_alloc(bytes, place)
        })
    }

    fn free_async(&self, ptr: DevicePtr, stream: StreamId) -> Result<()> {
        self.call(Attempt::PoolFree { ptr, stream }, |state| state.pool_free(ptr, stream))
    }

    fn trim(&self, keep_bytes: u64) -> Result<()> {
        self.call(Attempt::PoolTrim { keep_bytes }, |state| {
            state.pool_trim(keep_bytes);
            Ok(())
        })
    }

    fn pool_state(&self) -> Result<PoolState> {
        Ok(self.lock().pool.state())
    }
}

impl PageLocked for SimDevice {
    fn alloc_host(&self, bytes: u64) -> Result<HostPtr> {
        self.lock().call(Attempt::HostAlloc { bytes }, 1, bytes, |state| state.locked.alloc(bytes))
    }

    fn free_host(&self, ptr: HostPtr) -> Result<()> {
        self.call(Attempt::HostFree { ptr }, |state| state.locked.free(ptr))
    }

    fn locked_bytes(&self) -> u64 {
        self.lock().locked.bytes()
    }
}
