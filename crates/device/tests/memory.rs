//! Capacity, addresses, counts, prices, failures and time of the simulated device.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{
    Access, AddressRange, Attempt, CallCount, CostModel, Device, DevicePtr, DriverCall, DriverPools, Error, Fault,
    FaultKind, FaultPlan, Mapping, PageLocked, Price, SimDevice, SimOptions, StreamId, Timeline, TimelineOptions,
    Touch, VirtualMemory, When,
};

const MIB: u64 = 1 << 20;
const A: StreamId = StreamId::DEFAULT;

fn sim(capacity: u64) -> SimDevice {
    SimDevice::new(SimOptions::with_capacity(capacity)).unwrap()
}

#[test]
fn plain_memory_is_rounded_to_the_granule_and_freed_addresses_come_last_first() {
    let device = sim(10 * MIB);
    let first = device.alloc(1).unwrap();
    let second = device.alloc(2 * MIB).unwrap();
    let large = device.alloc(2 * MIB + 1).unwrap();
    assert_eq!(device.stats().in_use_bytes, 8 * MIB);
    assert_eq!((second.0 - first.0, large.0 - second.0), (2 * MIB, 2 * MIB));
    device.free(first).unwrap();
    device.free(second).unwrap();
    assert_eq!(device.alloc(5).unwrap(), second);
    assert_eq!(device.alloc(MIB).unwrap(), first);
    device.free(large).unwrap();
    assert_eq!(device.alloc(MIB).unwrap().0, large.0 + 4 * MIB, "only the same rounded size uses an address again");
    assert_eq!(device.stats().peak_bytes, 8 * MIB);
}

#[test]
fn running_out_says_what_was_asked_and_what_was_free() {
    let device = sim(10 * MIB);
    device.alloc(7 * MIB).unwrap();
    let error = device.alloc(3 * MIB).unwrap_err();
    let Error::OutOfMemory { failure, free_bytes, total_bytes } = &error else { panic!("{error}") };
    assert_eq!((*free_bytes, *total_bytes), (2 * MIB, 10 * MIB));
    assert_eq!((failure.code, failure.name.as_ref()), (2, "CUDA_ERROR_OUT_OF_MEMORY"));
    assert_eq!(
        error.to_string(),
        "can't allocate 3145728 bytes: the device has no room for it (CUDA_ERROR_OUT_OF_MEMORY, 2); \
         2097152 of 10485760 bytes were free"
    );
}

#[test]
fn plain_memory_handles_and_pools_share_the_capacity() {
    let device = sim(64 * MIB);
    device.alloc(10 * MIB).unwrap();
    let handles = device.create_handles(2 * MIB, 5).unwrap();
    device.alloc_async(20 * MIB, A).unwrap();
    let stats = device.stats();
    assert_eq!((stats.plain_bytes, stats.handle_bytes, stats.pool_bytes), (10 * MIB, 10 * MIB, 32 * MIB));
    assert!(device.alloc(13 * MIB).is_err());
    device.release_handles(&handles).unwrap();
    device.alloc(13 * MIB).unwrap();
    device.reset_peak();
    assert_eq!(device.stats().peak_bytes, 56 * MIB);
    device.check().unwrap();
}

#[test]
fn a_batch_is_one_call_with_its_handles() {
    let device = sim(1 << 30);
    let range = device.reserve_range(16 * MIB, 0).unwrap();
    let handles = device.create_handles(2 * MIB, 8).unwrap();
    let at = |page: u64| DevicePtr(range.start.0 + page * 2 * MIB);
    let batch: Vec<_> =
        (0..).zip(&handles).map(|(page, &handle)| Mapping { at: at(page), handle, bytes: 2 * MIB }).collect();
    device.map(&batch).unwrap();
    device.map(&[]).unwrap();
    assert!(device.map(&batch[..2]).is_err());
    device.set_access(&[range], Access::ReadWrite).unwrap();
    device.unmap(&[AddressRange::new(at(0), 4 * MIB), AddressRange::new(at(3), 2 * MIB)]).unwrap();
    let counts = device.counts();
    let model = CostModel::default();
    let due = |call: DriverCall, calls, failed, handles, bytes| {
        let price = model.price(call);
        let ns = price.of(handles, bytes) + (calls - 1) * price.base_ns;
        CallCount { calls, failed, handles, bytes, ns }
    };
    for (call, due) in [
        (DriverCall::HandleCreate, due(DriverCall::HandleCreate, 1, 0, 8, 16 * MIB)),
        (DriverCall::Map, due(DriverCall::Map, 2, 1, 8, 16 * MIB)),
        (DriverCall::SetAccess, due(DriverCall::SetAccess, 1, 0, 8, 16 * MIB)),
        (DriverCall::Unmap, due(DriverCall::Unmap, 1, 0, 3, 6 * MIB)),
    ] {
        assert_eq!(counts.of(call), due, "{call}");
    }
    let sum: u64 = counts.iter().map(|(_, count)| count.ns).sum();
    assert_eq!(counts.total_ns(), sum);
    assert!((counts.modelled_driver_seconds() - sum as f64 / 1e9).abs() < 1e-12);
}

#[test]
fn host_waits_are_counted_only_when_there_was_something_to_wait_for() {
    let device = sim(1 << 30);
    let other = device.create_stream().unwrap();
    device.synchronize_stream(A).unwrap();
    device.synchronize().unwrap();
    assert_eq!(device.stats().host_waits, 0);
    device.launch(A, &[]).unwrap();
    device.synchronize_stream(other).unwrap();
    assert_eq!(device.stats().host_waits, 0, "the other stream has nothing to do");
    device.synchronize_stream(A).unwrap();
    device.launch(other, &[]).unwrap();
    device.synchronize().unwrap();
    let event = device.create_event().unwrap();
    device.record_event(event, A).unwrap();
    device.synchronize_event(event).unwrap();
    device.synchronize_event(event).unwrap();
    assert_eq!(device.stats().host_waits, 3);
    device.launch(A, &[]).unwrap();
    device.observe_all();
    assert_eq!(device.stats().host_waits, 3, "the program's own waits are not the allocator's");
}

/// Device time without driver calls is that of a timeline alone; the makespan grows by what calls cost.
#[test]
fn the_makespan_adds_prices_waits_and_stalls_to_the_base() {
    let timeline = TimelineOptions { work_ns: 100, bytes_per_second: 1_000_000_000, host_row_ns: 10, work_ahead: 448 };
    let costs = CostModel::free_of_charge()
        .with_price(DriverCall::Alloc, Price::per_call(1_000))
        .with_price(DriverCall::Free, Price { base_ns: 500, stalls_device: true, ..Price::default() });
    let device = SimDevice::new(SimOptions { timeline, costs, ..SimOptions::with_capacity(1 << 30) }).unwrap();
    let b = device.create_stream().unwrap();
    let block = device.alloc(MIB).unwrap();
    let mut base = Timeline::new(timeline);
    for (stream, place, bytes) in [(A, 0, 900), (b, 1, 400)] {
        device.host_row();
        device.launch(stream, &[Touch::begin(DevicePtr(block.0 + 4096 * place), bytes)]).unwrap();
        base.host_row();
        base.work(place as usize, bytes);
    }
    assert_eq!(base.makespan_ns(), 10 + 1_000);
    assert_eq!(device.stats().makespan_ns, 1_000 + 10 + 1_000, "the alloc delays all");
    device.free(block).unwrap();
    assert_eq!(device.stats().host_ns, 2_010 + 500, "the free waits for the device");
    device.launch(A, &[]).unwrap();
    let event = device.create_event().unwrap();
    device.record_event(event, A).unwrap();
    device.wait_event(b, event).unwrap();
    device.launch(b, &[]).unwrap();
    assert_eq!(device.stats().makespan_ns, 2_510 + 200, "b starts behind A");
    device.synchronize_event(event).unwrap();
    assert_eq!(device.stats().host_ns, 2_510 + 100);
    device.finish_all();
    assert_eq!(device.stats().host_ns, 2_510 + 100, "what nobody waits for holds nobody back");
}

#[test]
fn a_call_that_stalls_the_device_waits_for_all_streams_whatever_it_touches() {
    for (stalls_device, due) in [(false, 50), (true, 5_000 + 50)] {
        let costs = CostModel::free_of_charge()
            .with_price(DriverCall::Unmap, Price { base_ns: 50, stalls_device, ..Price::default() });
        let device = SimDevice::new(SimOptions { costs, ..SimOptions::with_capacity(1 << 30) }).unwrap();
        let range = device.reserve_range(2 * MIB, 0).unwrap();
        let handle = device.create_handles(2 * MIB, 1).unwrap()[0];
        device.map(&[Mapping { at: range.start, handle, bytes: 2 * MIB }]).unwrap();
        device.launch(A, &[]).unwrap();
        device.unmap(&[range]).unwrap();
        assert_eq!(device.stats().host_ns, due);
        assert_eq!(device.stats().host_waits, 0, "the host did not ask for it");
    }
}

#[test]
fn a_pool_gives_to_streams_that_are_behind_the_free_and_grows_for_others() {
    let device = sim(256 * MIB);
    let b = device.create_stream().unwrap();
    let first = device.alloc_async(32 * MIB, A).unwrap();
    device.launch(A, &[Touch::begin(first, 32 * MIB)]).unwrap();
    device.free_async(first, A).unwrap();
    let elsewhere = device.alloc_async(32 * MIB, b).unwrap();
    assert_ne!(elsewhere, first);
    assert_eq!(device.alloc_async(32 * MIB, A).unwrap(), first);
    device.free_async(first, A).unwrap();
    device.order(A, b).unwrap();
    assert_eq!(device.alloc_async(32 * MIB, b).unwrap(), first);
    device.launch(b, &[Touch::begin(first, 32 * MIB)]).unwrap();
    device.check().unwrap();
}

#[test]
fn neighbours_that_a_pool_joins_are_free_when_both_are() {
    let device = sim(256 * MIB);
    let b = device.create_stream().unwrap();
    for (left, right) in [(A, b), (b, A)] {
        let first = device.alloc_async(16 * MIB, A).unwrap();
        let second = device.alloc_async(16 * MIB, A).unwrap();
        assert_eq!(second.0 - first.0, 16 * MIB);
        device.free_async(first, left).unwrap();
        device.free_async(second, right).unwrap();
        let elsewhere = device.alloc_async(32 * MIB, b).unwrap();
        assert_ne!(elsewhere, first, "A's free is still pending");
        device.order(A, b).unwrap();
        assert_eq!(device.alloc_async(32 * MIB, b).unwrap(), first);
    }
}

#[test]
fn a_pool_without_room_waits_for_the_device_joins_and_trims() {
    let device = sim(64 * MIB);
    let b = device.create_stream().unwrap();
    let parts: Vec<_> = (0..2).map(|_| device.alloc_async(16 * MIB, A).unwrap()).collect();
    assert_eq!(device.pool_state().unwrap().reserved_bytes, 32 * MIB);
    for part in parts {
        device.launch(A, &[Touch::begin(part, 16 * MIB)]).unwrap();
        device.free_async(part, A).unwrap();
    }
    let large = device.alloc_async(60 * MIB, b).unwrap();
    assert_eq!(device.stats().host_waits, 1);
    assert_eq!(device.pool_state().unwrap().reserved_bytes, 60 * MIB);
    device.launch(b, &[Touch::begin(large, 60 * MIB)]).unwrap();
    assert!(device.alloc_async(8 * MIB, b).unwrap_err().is_out_of_memory());
    device.check().unwrap();
}

#[test]
fn page_locked_memory_has_a_limit_of_its_own() {
    let device =
        SimDevice::new(SimOptions { page_locked_limit_bytes: 10 * MIB, ..SimOptions::with_capacity(MIB) }).unwrap();
    let ptr = device.alloc_host(8 * MIB - 1).unwrap();
    assert_eq!(device.locked_bytes(), 8 * MIB);
    let error = device.alloc_host(3 * MIB).unwrap_err();
    let Error::OutOfMemory { free_bytes, total_bytes, .. } = error else { panic!("{error}") };
    assert_eq!((free_bytes, total_bytes), (2 * MIB, 10 * MIB));
    device.free_host(ptr).unwrap();
    device.check().unwrap();
}

#[test]
fn threads_share_a_device_without_losing_bytes() {
    let device = sim(1 << 30);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stream = device.create_stream().unwrap();
                for round in 0..200 {
                    let ptr = device.alloc_async(MIB + round, stream).unwrap();
                    device.launch(stream, &[Touch::begin(ptr, MIB)]).unwrap();
                    device.free_async(ptr, stream).unwrap();
                }
                device.destroy_stream(stream).unwrap();
            });
        }
    });
    device.check().unwrap();
    device.synchronize().unwrap();
    device.trim(0).unwrap();
    assert_eq!(device.stats().in_use_bytes, 0);
}

#[test]
fn options_that_cannot_be_are_refused() {
    let base = || SimOptions::with_capacity(1 << 30);
    for options in [
        SimOptions { plain_granule_bytes: 0, ..base() },
        SimOptions { plain_granule_bytes: 3 << 20, ..base() },
        SimOptions { page_bytes: Some(0), ..base() },
        SimOptions { page_bytes: Some(1 << 41), ..base() },
        SimOptions { page_bytes: Some(2048), ..base() },
        SimOptions { capacity_bytes: u64::MAX, ..base() },
        SimOptions { page_locked_limit_bytes: u64::MAX, ..base() },
    ] {
        let error = SimDevice::new(options).unwrap_err();
        assert!(matches!(&error, Error::InvalidValue(failure) if failure.attempt == Attempt::Open), "{error}");
    }
}

/// One call of each kind, but for those that another's failure leaves nothing to do.
fn each_call(device: &SimDevice) -> Vec<(DriverCall, device::Result<()>)> {
    use DriverCall as C;
    let mut made = Vec::new();
    let mut log = |call, result: device::Result<()>| made.push((call, result));
    log(C::MemoryInfo, device.memory().map(drop));
    let plain = device.alloc(MIB);
    let range = device.reserve_range(4 * MIB, 0);
    let handles = device.create_handles(2 * MIB, 2);
    let stream = device.create_stream();
    let event = device.create_event();
    let pooled = device.alloc_async(MIB, A);
    let locked = device.alloc_host(MIB);
    if let (Ok(range), Ok(handles)) = (&range, &handles) {
        let at = |page: u64| DevicePtr(range.start.0 + page * 2 * MIB);
        let batch = [0, 1].map(|page| Mapping { at: at(page), handle: handles[page as usize], bytes: 2 * MIB });
        let mapped = device.map(&batch);
        let mut empty = true;
        if mapped.is_ok() {
            log(C::SetAccess, device.set_access(&[*range], Access::ReadWrite));
            let unmapped = device.unmap(&[*range]);
            empty = unmapped.is_ok();
            log(C::Unmap, unmapped);
        }
        log(C::Map, mapped);
        log(C::HandleRelease, device.release_handles(handles));
        if empty {
            log(C::RangeRelease, device.release_range(*range));
        }
    }
    if let (Ok(event), Ok(stream)) = (&event, &stream) {
        log(C::EventRecord, device.record_event(*event, *stream));
        log(C::StreamWait, device.wait_event(A, *event));
        log(C::EventQuery, device.query_event(*event).map(drop));
        log(C::EventSync, device.synchronize_event(*event));
        log(C::EventDestroy, device.destroy_event(*event));
        log(C::StreamQuery, device.query_stream(*stream).map(drop));
        log(C::StreamSync, device.synchronize_stream(*stream));
        log(C::StreamDestroy, device.destroy_stream(*stream));
    }
    if let (Ok(plain), Ok(pooled)) = (&plain, &pooled) {
        let (to, from) = (device::Place::Device(*plain), device::Place::Device(*pooled));
        log(C::Copy, device.copy(to, from, 512, A));
    }
    log(C::DeviceSync, device.synchronize());
    if let Ok(pooled) = &pooled {
        log(C::PoolFree, device.free_async(*pooled, A));
    }
    log(C::PoolTrim, device.trim(0));
    if let Ok(plain) = &plain {
        log(C::Free, device.free(*plain));
    }
    if let Ok(locked) = &locked {
        log(C::HostFree, device.free_host(*locked));
    }
    log(C::Alloc, plain.map(drop));
    log(C::RangeReserve, range.map(drop));
    log(C::HandleCreate, handles.map(drop));
    log(C::StreamCreate, stream.map(drop));
    log(C::EventCreate, event.map(drop));
    log(C::PoolAlloc, pooled.map(drop));
    log(C::HostAlloc, locked.map(drop));
    made
}

#[test]
fn every_kind_of_call_can_be_made_to_fail_and_only_that_call_fails() {
    let healthy = each_call(&sim(1 << 30));
    assert_eq!(healthy.len(), DriverCall::COUNT, "a kind is not tried");
    assert!(healthy.iter().all(|(_, result)| result.is_ok()), "{healthy:?}");
    for &call in DriverCall::ALL {
        for kind in [FaultKind::OutOfMemory, FaultKind::InvalidState, FaultKind::Device] {
            let device = sim(1 << 30);
            device.set_faults(FaultPlan::new([Fault::out_of_memory(call, When::Nth(1)).with_kind(kind)]));
            for (made, result) in each_call(&device) {
                assert_eq!(result.is_err(), made == call, "{made} with {call} made to fail: {result:?}");
                if let Err(error) = result {
                    let failure = error.failure().unwrap();
                    assert_eq!(failure.attempt.call(), Some(call));
                    assert!(!failure.sticky);
                    assert_eq!(error.is_out_of_memory(), kind == FaultKind::OutOfMemory);
                }
            }
            device.check().unwrap();
            let count = device.counts().of(call);
            assert_eq!(count.failed, 1, "{call}");
        }
    }
}

#[test]
fn a_lost_device_says_so_at_every_call() {
    let device = sim(1 << 30);
    let lost = Fault::out_of_memory(None, When::Nth(3)).with_kind(FaultKind::Device).sticky();
    device.set_faults(FaultPlan::new([lost]));
    device.alloc(MIB).unwrap();
    device.create_event().unwrap();
    let error = device.synchronize().unwrap_err();
    assert!(error.is_sticky());
    assert!(error.to_string().contains("the device is lost"), "{error}");
    for (call, result) in each_call(&device) {
        assert_eq!(result.unwrap_err(), error, "{call}");
    }
    assert_eq!(device.launch(A, &[]).unwrap_err(), error);
}
