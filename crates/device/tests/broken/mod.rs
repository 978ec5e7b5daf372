//! Devices with one defect each.

mod bytes;

use bytes::Bytes;
use device::{
    Access, AddressRange, Attempt, Device, DeviceInfo, DevicePtr, DriverPools, Error, EventId, Failure, HandleId,
    HostPtr, Mapping, MemoryState, PageLocked, Place, PlainFree, PoolState, Result, SimDevice, SimOptions, StreamId,
    VirtualMemory, error::codes,
};
use std::sync::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    None,
    MisalignedAlloc,
    OverlappingAlloc,
    AllocOfNothing,
    LeakingFree,
    ForgivingFree,
    HastyFree,
    RefusalThatTakes,
    MisnamedRefusal,
    WrongKindOfRefusal,
    StickyRefusal,
    NoAccounts,
    StreamTwice,
    DeadStreamsAnswer,
    DefaultStreamGoes,
    SyncDoesNothing,
    EventsFollowTheirFirstRecord,
    WaitsAreForgotten,
    DeadEventsAnswer,
    DeviceSyncDoesNothing,
    CopiesAnything,
    MapsHalfABatch,
    MapsOverMappings,
    UnmapsHalfABatch,
    UnmapsForgivingly,
    ReleasesHalfABatch,
    CreatesHalfABatch,
    SetsAnyAccess,
    ReservesTwice,
    ReleasesRangesInUse,
    UnmapLeaks,
    PoolGrows,
    PoolNeverTrims,
    PoolForgivesFrees,
    LockedForgivesFrees,
    LockedIsNotCounted,
    ReservesPartsOfPages,
    NewEventsPend,
    EmptyBatchesFail,
    ReadsWhatItHasNot,
    PoolOverlaps,
    PoolTakesAnySize,
    WritesShort,
    CopiesNothing,
    CopiesNothingToTheHost,
    BytesStayAtAddresses,
}

/// What a defect has to break on a device that keeps bytes.
pub(crate) const DEFECTS_OF_BYTES: &[(Defect, &str)] = &[
    (Defect::WritesShort, "bytes_written_are_read"),
    (Defect::CopiesNothing, "copies_follow_their_streams"),
    (Defect::CopiesNothingToTheHost, "bytes_cross_between_host_and_device"),
    (Defect::BytesStayAtAddresses, "aliases_show_the_same_bytes"),
    (Defect::BytesStayAtAddresses, "bytes_stay_with_the_handle"),
];

/// What each defect has to break.
pub(crate) const DEFECTS: &[(Defect, &str)] = &[
    (Defect::MisalignedAlloc, "memory_is_aligned_and_never_overlaps"),
    (Defect::OverlappingAlloc, "memory_is_aligned_and_never_overlaps"),
    (Defect::AllocOfNothing, "no_bytes_are_refused"),
    (Defect::LeakingFree, "freed_memory_can_be_had_again"),
    (Defect::ForgivingFree, "only_what_is_live_can_be_freed"),
    (Defect::HastyFree, "a_free_waits_for_queued_work"),
    (Defect::RefusalThatTakes, "more_than_there_is_runs_out"),
    (Defect::MisnamedRefusal, "only_what_is_live_can_be_freed"),
    (Defect::WrongKindOfRefusal, "more_than_there_is_runs_out"),
    (Defect::StickyRefusal, "more_than_there_is_runs_out"),
    (Defect::NoAccounts, "memory_in_use_is_not_free"),
    (Defect::StreamTwice, "streams_are_new_and_idle"),
    (Defect::DeadStreamsAnswer, "a_destroyed_stream_is_refused"),
    (Defect::DefaultStreamGoes, "the_default_stream_stays"),
    (Defect::SyncDoesNothing, "a_record_happens_once_its_stream_is_there"),
    (Defect::EventsFollowTheirFirstRecord, "an_event_follows_its_last_record"),
    (Defect::WaitsAreForgotten, "a_wait_carries_order_on"),
    (Defect::WaitsAreForgotten, "waits_outlive_their_event"),
    (Defect::WaitsAreForgotten, "streams_can_be_ordered"),
    (Defect::DeadEventsAnswer, "a_destroyed_event_is_refused"),
    (Defect::DeviceSyncDoesNothing, "the_host_can_wait_for_everything"),
    (Defect::CopiesAnything, "copies_need_memory_at_both_ends"),
    (Defect::CopiesAnything, "mapped_memory_needs_access"),
    (Defect::MapsHalfABatch, "a_refused_batch_maps_nothing"),
    (Defect::MapsOverMappings, "nothing_is_mapped_over_a_mapping"),
    (Defect::UnmapsHalfABatch, "a_refused_batch_unmaps_nothing"),
    (Defect::UnmapsForgivingly, "mappings_are_unmapped_whole"),
    (Defect::ReleasesHalfABatch, "a_refused_batch_releases_nothing"),
    (Defect::CreatesHalfABatch, "more_handles_than_fit_are_none"),
    (Defect::SetsAnyAccess, "access_is_set_on_whole_mappings"),
    (Defect::ReservesTwice, "reserved_ranges_are_aligned_and_never_overlap"),
    (Defect::ReleasesRangesInUse, "ranges_are_released_whole_and_empty"),
    (Defect::UnmapLeaks, "a_released_handle_lives_while_mapped"),
    (Defect::PoolGrows, "a_pool_reuses_in_stream_order"),
    (Defect::PoolNeverTrims, "idle_pooled_memory_goes_back"),
    (Defect::PoolForgivesFrees, "only_live_pooled_memory_can_be_freed"),
    (Defect::LockedForgivesFrees, "locked_memory_is_accounted"),
    (Defect::LockedIsNotCounted, "locked_memory_is_accounted"),
    (Defect::ReservesPartsOfPages, "addresses_come_in_pages"),
    (Defect::NewEventsPend, "an_event_that_was_never_recorded_has_happened"),
    (Defect::EmptyBatchesFail, "empty_batches_are_no_calls"),
    (Defect::ReadsWhatItHasNot, "parts_are_those_of_the_info"),
    (Defect::PoolOverlaps, "pooled_memory_never_overlaps"),
    (Defect::PoolTakesAnySize, "pools_refuse_what_cannot_be"),
];

/// Does what a simulated device does, but for one thing.
pub(crate) struct Broken {
    inner: SimDevice,
    info: DeviceInfo,
    bytes: Mutex<Bytes>,
    defect: Defect,
    last_alloc: Mutex<Option<DevicePtr>>,
    last_stream: Mutex<Option<StreamId>>,
    last_range: Mutex<Option<AddressRange>>,
    recorded: Mutex<Vec<EventId>>,
}

impl Broken {
    pub(crate) fn new(defect: Defect) -> Broken {
        let plain_free = if defect == Defect::HastyFree { PlainFree::Refuses } else { PlainFree::Waits };
        let options = SimOptions { plain_free, ..SimOptions::with_capacity(1 << 30) };
        let inner = SimDevice::new(options).unwrap();
        Broken {
            info: inner.info().clone(),
            bytes: Mutex::default(),
            inner,
            defect,
            last_alloc: Mutex::default(),
            last_stream: Mutex::default(),
            last_range: Mutex::default(),
            recorded: Mutex::default(),
        }
    }

    /// The same, on a device that keeps what is written. Copies are done as soon as they are queued.
    pub(crate) fn with_bytes(defect: Defect) -> Broken {
        let mut device = Broken::new(defect);
        device.info.has_bytes = true;
        device
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// Calls a refused call done.
    fn forgive(&self, defect: Defect, result: Result<()>) -> Result<()> {
        if self.is(defect) { Ok(()) } else { result }
    }
}

impl Device for Broken {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryState> {
        let state = self.inner.memory()?;
        let free_bytes = if self.is(Defect::NoAccounts) { state.total_bytes } else { state.free_bytes };
        Ok(MemoryState { free_bytes, ..state })
    }

    fn alloc(&self, bytes: u64) -> Result<DevicePtr> {
        let bytes = if self.is(Defect::AllocOfNothing) { bytes.max(1) } else { bytes };
        let refusal = match self.inner.alloc(bytes) {
            Ok(ptr) if self.is(Defect::MisalignedAlloc) => return Ok(DevicePtr(ptr.0 + 1)),
            Ok(ptr) if self.is(Defect::OverlappingAlloc) => {
                return Ok(*self.last_alloc.lock().unwrap().get_or_insert(ptr));
            }
            Ok(ptr) => return Ok(ptr),
            Err(error) => error,
        };
        match refusal {
            Error::OutOfMemory { failure, .. } if self.is(Defect::WrongKindOfRefusal) => Err(Error::Device(failure)),
            Error::OutOfMemory { failure, free_bytes, total_bytes } if self.is(Defect::StickyRefusal) => {
                let failure = Box::new(failure.with_sticky(true));
                Err(Error::OutOfMemory { failure, free_bytes, total_bytes })
            }
            other => {
                if self.is(Defect::RefusalThatTakes) {
                    self.inner.alloc(1)?;
                }
                Err(other)
            }
        }
    }

    fn free(&self, ptr: DevicePtr) -> Result<()> {
        match self.defect {
            Defect::LeakingFree => Ok(()),
            Defect::MisnamedRefusal => self.inner.free(ptr).map_err(|_| {
                let attempt = Attempt::Free { ptr: DevicePtr(0) };
                Error::InvalidValue(Box::new(Failure::new(attempt, codes::INVALID_VALUE, "no")))
            }),
            _ => self.forgive(Defect::ForgivingFree, self.inner.free(ptr)),
        }
    }

    fn create_stream(&self) -> Result<StreamId> {
        let stream = self.inner.create_stream()?;
        if self.is(Defect::StreamTwice) {
            return Ok(*self.last_stream.lock().unwrap().get_or_insert(stream));
        }
        Ok(stream)
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        if self.is(Defect::DefaultStreamGoes) && stream == StreamId::DEFAULT {
            return Ok(());
        }
        self.inner.destroy_stream(stream)
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        let answer = self.inner.query_stream(stream);
        if self.is(Defect::DeadStreamsAnswer) { answer.or(Ok(true)) } else { answer }
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        if self.is(Defect::SyncDoesNothing) {
            return self.inner.query_stream(stream).map(|_| ());
        }
        self.inner.synchronize_stream(stream)
    }

    fn create_event(&self) -> Result<EventId> {
        self.inner.create_event()
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        self.inner.destroy_event(event)
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        let mut recorded = self.recorded.lock().unwrap();
        if self.is(Defect::EventsFollowTheirFirstRecord) && recorded.contains(&event) {
            return Ok(());
        }
        self.inner.record_event(event, stream)?;
        recorded.push(event);
        Ok(())
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        let answer = self.inner.query_event(event);
        if self.is(Defect::NewEventsPend) && !self.recorded.lock().unwrap().contains(&event) {
            return answer.map(|_| false);
        }
        if self.is(Defect::DeadEventsAnswer) { answer.or(Ok(true)) } else { answer }
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        self.inner.synchronize_event(event)
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        if self.is(Defect::WaitsAreForgotten) {
            self.inner.query_stream(stream)?;
            return self.inner.query_event(event).map(|_| ()).map_err(|_| unknown_wait(stream, event));
        }
        self.inner.wait_event(stream, event)
    }

    fn synchronize(&self) -> Result<()> {
        if self.is(Defect::DeviceSyncDoesNothing) {
            return self.inner.synchronize_stream(StreamId::DEFAULT);
        }
        self.inner.synchronize()
    }

    fn copy(&self, to: Place, from: Place, bytes: u64, stream: StreamId) -> Result<()> {
        self.forgive(Defect::CopiesAnything, self.inner.copy(to, from, bytes, stream))?;
        let to_host = matches!(to, Place::Host(_)) && self.is(Defect::CopiesNothingToTheHost);
        if self.info.has_bytes && !self.is(Defect::CopiesNothing) && !to_host {
            let mut moved = vec![0; usize::try_from(bytes).unwrap()];
            let mut memory = self.bytes.lock().unwrap();
            memory.read(from, &mut moved, self.defect);
            memory.write(to, &moved, self.defect);
        }
        Ok(())
    }

    fn write(&self, to: Place, from: &[u8]) -> Result<()> {
        if self.info.has_bytes {
            let short = usize::from(self.is(Defect::WritesShort));
            self.bytes.lock().unwrap().write(to, &from[..from.len() - short], self.defect);
            return Ok(());
        }
        self.inner.write(to, from)
    }

    fn read(&self, from: Place, to: &mut [u8]) -> Result<()> {
        if self.info.has_bytes {
            self.bytes.lock().unwrap().read(from, to, self.defect);
            return Ok(());
        }
        self.forgive(Defect::ReadsWhatItHasNot, self.inner.read(from, to))
    }

    fn vmm(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }

    fn driver_pools(&self) -> Option<&dyn DriverPools> {
        Some(self)
    }

    fn page_locked(&self) -> Option<&dyn PageLocked> {
        Some(self)
    }
}

fn unknown_wait(stream: StreamId, event: EventId) -> Error {
    let attempt = Attempt::WaitEvent { stream, event };
    Error::InvalidValue(Box::new(Failure::new(attempt, codes::INVALID_HANDLE, "no such event")))
}

impl VirtualMemory for Broken {
    fn reserve_range(&self, bytes: u64, alignment: u64) -> Result<AddressRange> {
        let page = self.info().page_bytes.unwrap();
        let bytes = if self.is(Defect::ReservesPartsOfPages) { bytes.div_ceil(page) * page } else { bytes };
        let range = self.inner.reserve_range(bytes, alignment)?;
        if self.is(Defect::ReservesTwice) {
            let start = self.last_range.lock().unwrap().get_or_insert(range).start;
            return Ok(AddressRange::new(start, bytes));
        }
        Ok(range)
    }

    fn release_range(&self, range: AddressRange) -> Result<()> {
        self.forgive(Defect::ReleasesRangesInUse, self.inner.release_range(range))
    }

    fn create_handles(&self, bytes_each: u64, count: usize) -> Result<Vec<HandleId>> {
        self.inner.create_handles(bytes_each, count).inspect_err(|_| {
            if self.is(Defect::CreatesHalfABatch) && count > 1 {
                let _ = self.inner.create_handles(bytes_each, 1);
            }
        })
    }

    fn release_handles(&self, handles: &[HandleId]) -> Result<()> {
        let released = self.inner.release_handles(handles);
        if released.is_err() && self.is(Defect::ReleasesHalfABatch) && handles.len() > 1 {
            let _ = self.inner.release_handles(&handles[..1]);
        }
        released
    }

    fn map(&self, mappings: &[Mapping]) -> Result<()> {
        if self.is(Defect::EmptyBatchesFail) && mappings.is_empty() {
            return self.inner.free(DevicePtr(0));
        }
        let mapped = self.inner.map(mappings);
        if mapped.is_ok() {
            self.bytes.lock().unwrap().map(mappings);
        }
        if mapped.is_err() && self.is(Defect::MapsHalfABatch) && mappings.len() > 1 {
            let _ = self.inner.map(&mappings[..1]);
        }
        self.forgive(Defect::MapsOverMappings, mapped)
    }

    fn unmap(&self, ranges: &[AddressRange]) -> Result<()> {
        let unmapped = self.inner.unmap(ranges);
        if unmapped.is_ok() {
            ranges.iter().for_each(|range| self.bytes.lock().unwrap().unmap(range.start, range.end()));
        }
        if unmapped.is_err() && self.is(Defect::UnmapsHalfABatch) && ranges.len() > 1 {
            let _ = self.inner.unmap(&ranges[..1]);
        }
        if unmapped.is_ok() && self.is(Defect::UnmapLeaks) {
            let _ = self.inner.alloc(1);
        }
        self.forgive(Defect::UnmapsForgivingly, unmapped)
    }

    fn set_access(&self, ranges: &[AddressRange], access: Access) -> Result<()> {
        self.forgive(Defect::SetsAnyAccess, self.inner.set_access(ranges, access))
    }
}

impl DriverPools for Broken {
    fn alloc_async(&self, bytes: u64, stream: StreamId) -> Result<DevicePtr> {
        let bytes = if self.is(Defect::PoolTakesAnySize) { bytes.clamp(1, 1 << 20) } else { bytes };
        let ptr = self.inner.alloc_async(bytes, stream)?;
        if self.is(Defect::PoolOverlaps) {
            return Ok(*self.last_alloc.lock().unwrap().get_or_insert(ptr));
        }
        Ok(ptr)
    }

    fn free_async(&self, ptr: DevicePtr, stream: StreamId) -> Result<()> {
        if self.is(Defect::PoolGrows) {
            return Ok(());
        }
        self.forgive(Defect::PoolForgivesFrees, self.inner.free_async(ptr, stream))
    }

    fn trim(&self, keep_bytes: u64) -> Result<()> {
        if self.is(Defect::PoolNeverTrims) { Ok(()) } else { self.inner.trim(keep_bytes) }
    }

    fn pool_state(&self) -> Result<PoolState> {
        self.inner.pool_state()
    }
}

impl PageLocked for Broken {
    fn alloc_host(&self, bytes: u64) -> Result<HostPtr> {
        self.inner.alloc_host(bytes)
    }

    fn free_host(&self, ptr: HostPtr) -> Result<()> {
        self.forgive(Defect::LockedForgivesFrees, self.inner.free_host(ptr))
    }

    fn locked_bytes(&self) -> u64 {
        if self.is(Defect::LockedIsNotCounted) { 0 } else { self.inner.locked_bytes() }
    }
}
