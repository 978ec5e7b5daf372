//! Memory is not taken from work that may still use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{
    Access, AddressRange, ContractMode, Device, DevicePtr, Error, HandleId, Later, Mapping, OrderCheck, PlainFree,
    Sequence, SimDevice, SimOptions, StreamId, Touch, Violation, VirtualMemory,
};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;
const A: StreamId = StreamId::DEFAULT;

fn device(change: impl FnOnce(&mut SimOptions)) -> (SimDevice, StreamId) {
    let mut options = SimOptions::with_capacity(1 << 30);
    change(&mut options);
    let device = SimDevice::new(options).unwrap();
    let b = device.create_stream().unwrap();
    (device, b)
}

fn begin(device: &SimDevice, stream: StreamId, ptr: DevicePtr) -> device::Result<Sequence> {
    device.launch(stream, &[Touch::begin(ptr, PAGE)])
}

fn violation(result: device::Result<impl std::fmt::Debug>) -> Violation {
    match result.expect_err("a violation was not noticed") {
        Error::Contract { violation, failure } => {
            assert!(failure.sticky);
            *violation
        }
        other => panic!("{other}"),
    }
}

/// Reserves addresses and maps new handles of one page each.
fn mapped(device: &SimDevice, pages: u64) -> (AddressRange, Vec<HandleId>) {
    let vmm = device.vmm().unwrap();
    let range = vmm.reserve_range(pages * PAGE, 0).unwrap();
    let handles = vmm.create_handles(PAGE, pages as usize).unwrap();
    let at = |page: u64| DevicePtr(range.start.0 + page * PAGE);
    let mappings: Vec<_> =
        (0..pages).zip(&handles).map(|(page, &handle)| Mapping { at: at(page), handle, bytes: PAGE }).collect();
    vmm.map(&mappings).unwrap();
    vmm.set_access(&[range], Access::ReadWrite).unwrap();
    (range, handles)
}

#[test]
fn reuse_on_the_same_stream_needs_no_wait() {
    let (device, _) = device(|_| ());
    let block = device.alloc(PAGE).unwrap();
    for _ in 0..3 {
        begin(&device, A, block).unwrap();
    }
    device.check().unwrap();
}

#[test]
fn reuse_on_another_stream_is_refused_and_both_uses_are_named() {
    let (device, b) = device(|_| ());
    let block = device.alloc(PAGE).unwrap();
    begin(&device, A, block).unwrap();
    let error = device.launch(b, &[Touch::begin(block, PAGE)]).unwrap_err();
    let text = error.to_string();
    for part in ["run work on stream 1", "entry 1 of stream 1", "entry 1 of stream 0", "make it wait for entry 1"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // The device is lost: whatever comes next says the same.
    assert_eq!(device.alloc(1).unwrap_err(), error);
    assert_eq!(device.launch(A, &[]).unwrap_err(), error);
    assert_eq!(device.stats().violations, 1);
}

#[test]
fn reuse_is_allowed_after_a_wait_a_query_a_synchronize_or_an_observed_finish() {
    type Settle = fn(&SimDevice, StreamId);
    let ways: [(&str, Settle); 6] = [
        ("wait", |device, b| device.order_streams(A, b).unwrap()),
        ("program's wait", |device, b| device.order(A, b).unwrap()),
        ("query", |device, _| {
            let event = device.create_event().unwrap();
            device.record_event(event, A).unwrap();
            device.finish(A).unwrap();
            assert!(device.query_event(event).unwrap());
        }),
        ("synchronize", |device, _| device.synchronize_stream(A).unwrap()),
        ("sync row", |device, _| device.observe(A).unwrap()),
        ("poll", |device, _| {
            device.finish(A).unwrap();
            device.poll(A).unwrap();
        }),
    ];
    for (name, settle) in ways {
        let (device, b) = device(|_| ());
        let block = device.alloc(PAGE).unwrap();
        begin(&device, A, block).unwrap();
        settle(&device, b);
        begin(&device, b, block).unwrap_or_else(|error| panic!("{name}: {error}"));
        device.check().unwrap();
    }
}

#[test]
fn what_a_stream_waited_for_finishes_with_it_unless_streams_finish_by_name_alone() {
    for waits_finish in [true, false] {
        let (device, b) = device(|options| options.waits_finish = waits_finish);
        let event = device.create_event().unwrap();
        device.launch(A, &[]).unwrap();
        device.record_event(event, A).unwrap();
        device.wait_event(b, event).unwrap();
        device.launch(b, &[]).unwrap();
        device.observe(b).unwrap();
        assert_eq!(device.query_event(event).unwrap(), waits_finish);
        device.observe(A).unwrap();
        assert!(device.query_event(event).unwrap());
        device.check().unwrap();
    }
}

#[test]
fn work_that_nobody_saw_finish_counts_as_running_unless_told_otherwise() {
    for (check_order, passes) in [(OrderCheck::Seen, false), (OrderCheck::Finished, true), (OrderCheck::Off, true)] {
        let (device, b) = device(|options| options.check_order = check_order);
        let block = device.alloc(PAGE).unwrap();
        begin(&device, A, block).unwrap();
        device.finish(A).unwrap();
        assert_eq!(begin(&device, b, block).is_ok(), passes, "{check_order:?}");
    }
}

#[test]
fn a_wait_covers_what_was_queued_before_its_record_and_nothing_later() {
    let (device, b) = device(|_| ());
    let (early, late) = (device.alloc(PAGE).unwrap(), device.alloc(PAGE).unwrap());
    begin(&device, A, early).unwrap();
    let event = device.create_event().unwrap();
    device.record_event(event, A).unwrap();
    begin(&device, A, late).unwrap();
    device.wait_event(b, event).unwrap();
    begin(&device, b, early).unwrap();
    let Violation::Unordered { earlier, waits_for, .. } = violation(begin(&device, b, late)) else { panic!() };
    assert_eq!((earlier.sequence, waits_for), (Sequence(3), Some(Sequence(2))));
}

#[test]
fn order_passes_on_through_streams() {
    let (device, b) = device(|_| ());
    let c = device.create_stream().unwrap();
    let block = device.alloc(PAGE).unwrap();
    begin(&device, A, block).unwrap();
    device.order(A, b).unwrap();
    device.order(b, c).unwrap();
    begin(&device, c, block).unwrap();
    // And so does what the host sees: c behind b behind A.
    device.synchronize_stream(c).unwrap();
    assert_eq!(device.finished(A).unwrap(), device.issued(A).unwrap());
    assert_eq!(device.finished(b).unwrap(), Sequence(2));
    device.check().unwrap();
}

#[test]
fn a_further_use_on_another_stream_is_the_programs_business_and_guards_the_block() {
    let (device, b) = device(|_| ());
    let block = device.alloc(2 * PAGE).unwrap();
    begin(&device, A, block).unwrap();
    device.launch(b, &[Touch::again(block, PAGE)]).unwrap();
    let Violation::Unordered { earlier, later: Later::Reuse(later), .. } = violation(begin(&device, A, block)) else {
        panic!()
    };
    assert_eq!((earlier.stream, later.stream), (b, A));
}

#[test]
fn only_the_bytes_that_are_shared_count() {
    let (device, b) = device(|_| ());
    let block = device.alloc(4 * PAGE).unwrap();
    device.launch(A, &[Touch::begin(block, PAGE + 512)]).unwrap();
    let behind = DevicePtr(block.0 + PAGE + 512);
    begin(&device, b, behind).unwrap();
    let overlapping = DevicePtr(behind.0 - 1);
    violation(device.launch(b, &[Touch::begin(overlapping, 1)]));
}

#[test]
fn unmapping_what_a_stream_may_use_is_refused_and_leaves_the_mapping() {
    let (device, _) = device(|options| options.contract = ContractMode::Abort);
    let (range, _) = mapped(&device, 2);
    device.launch(A, &[Touch::begin(range.start, PAGE)]).unwrap();
    let unused = AddressRange::new(DevicePtr(range.start.0 + PAGE), PAGE);
    device.unmap(&[unused]).unwrap();
    let used = AddressRange::new(range.start, PAGE);
    let Violation::Unordered { later, .. } = violation(device.unmap(&[used])) else { panic!() };
    assert_eq!(later, Later::Unmap(used));
    assert_eq!(device.stats().handle_bytes, 2 * PAGE);
    device.check().unwrap();
}

#[test]
fn unmapping_is_fine_once_the_host_has_seen_the_work_finish() {
    let (device, b) = device(|_| ());
    let (range, _) = mapped(&device, 1);
    begin(&device, A, range.start).unwrap();
    // A new life on b, ordered behind A: seeing b finish is seeing A finish.
    device.order(A, b).unwrap();
    begin(&device, b, range.start).unwrap();
    device.synchronize_stream(b).unwrap();
    device.unmap(&[range]).unwrap();
}

#[test]
fn a_page_moved_by_alias_is_taken_behind_its_giver_and_the_old_mapping_outlives_it() {
    let (device, b) = device(|_| ());
    let vmm = device.vmm().unwrap();
    let (old, handles) = mapped(&device, 1);
    begin(&device, A, old.start).unwrap();
    let new = vmm.reserve_range(PAGE, 0).unwrap();
    vmm.map(&[Mapping { at: new.start, handle: handles[0], bytes: PAGE }]).unwrap();
    vmm.set_access(&[new], Access::ReadWrite).unwrap();
    device.order(A, b).unwrap();
    begin(&device, b, new.start).unwrap();
    // The old mapping may go once A's work is seen; the new one stays in use.
    device.synchronize_stream(A).unwrap();
    vmm.unmap(&[old]).unwrap();
    violation(vmm.unmap(&[new]));
}

#[test]
fn bytes_used_at_one_address_are_not_free_at_another() {
    let (device, b) = device(|_| ());
    let vmm = device.vmm().unwrap();
    let (old, handles) = mapped(&device, 2);
    device.launch(A, &[Touch::begin(DevicePtr(old.start.0 + PAGE + 512), 512)]).unwrap();
    let new = vmm.reserve_range(PAGE, 0).unwrap();
    vmm.map(&[Mapping { at: new.start, handle: handles[1], bytes: PAGE }]).unwrap();
    vmm.set_access(&[new], Access::ReadWrite).unwrap();
    device.launch(b, &[Touch::begin(new.start, 512)]).unwrap();
    let Violation::Unordered { earlier, .. } =
        violation(device.launch(b, &[Touch::begin(DevicePtr(new.start.0 + 512), 512)]))
    else {
        panic!()
    };
    assert_eq!(earlier.stream, A);
}

#[test]
fn work_on_memory_that_is_not_there_is_refused() {
    let (device, _) = device(|options| options.contract = ContractMode::Count);
    let vmm = device.vmm().unwrap();
    let (range, _) = mapped(&device, 3);
    let at = |page: u64| DevicePtr(range.start.0 + page * PAGE);
    device.launch(A, &[Touch::begin(at(0), 3 * PAGE)]).unwrap();
    device.observe_all();
    assert_eq!(device.stats().violations, 0);
    vmm.set_access(&[AddressRange::new(at(2), PAGE)], Access::None).unwrap();
    vmm.unmap(&[AddressRange::new(at(1), PAGE)]).unwrap();
    let plain = device.alloc(PAGE).unwrap();
    let nowhere = [
        (at(0), PAGE + 1, at(1).0),
        (at(1), 1, at(1).0),
        (at(2), 1, at(2).0),
        (DevicePtr(1), 1, 1),
        (plain, PAGE + 1, plain.0),
        (DevicePtr(u64::MAX - 1), 8, u64::MAX - 1),
    ];
    for (ptr, bytes, missing) in nowhere {
        device.launch(A, &[Touch::again(ptr, bytes)]).unwrap();
        let Some(Violation::NoMemory { at, .. }) = device.violations().last().cloned() else { panic!("{ptr}") };
        assert_eq!(at, missing, "{ptr}");
    }
    assert_eq!(device.stats().violations, 6);
}

#[test]
fn counting_goes_on_after_a_violation() {
    let (device, b) = device(|options| options.contract = ContractMode::Count);
    let block = device.alloc(PAGE).unwrap();
    for _ in 0..20 {
        begin(&device, A, block).unwrap();
        begin(&device, b, block).unwrap();
    }
    assert_eq!(device.stats().violations, 39);
    assert_eq!(device.violations().len(), 16);
}

#[test]
fn what_was_unmapped_too_early_is_counted_once() {
    let (device, b) = device(|options| options.contract = ContractMode::Count);
    let (range, handles) = mapped(&device, 1);
    begin(&device, A, range.start).unwrap();
    device.unmap(&[range]).unwrap();
    assert_eq!(device.stats().violations, 1);
    device.map(&[Mapping { at: range.start, handle: handles[0], bytes: PAGE }]).unwrap();
    device.set_access(&[range], Access::ReadWrite).unwrap();
    begin(&device, b, range.start).unwrap();
    assert_eq!(device.stats().violations, 1);
}

#[test]
fn a_free_waits_refuses_or_ignores_work_that_may_use_the_memory() {
    let (waiting, b) = device(|_| ());
    let block = waiting.alloc(PAGE).unwrap();
    begin(&waiting, b, block).unwrap();
    waiting.free(block).unwrap();
    assert_eq!(waiting.stats().device_stalls, 1);
    assert_eq!(waiting.finished(b).unwrap(), Sequence(1));
    assert_eq!(waiting.alloc(PAGE).unwrap(), block, "the address is the first to be used again");
    begin(&waiting, A, block).unwrap();

    let (hasty, b) = device(|options| options.plain_free = PlainFree::Refuses);
    let (idle, block) = (hasty.alloc(PAGE).unwrap(), hasty.alloc(PAGE).unwrap());
    begin(&hasty, b, block).unwrap();
    hasty.free(idle).unwrap();
    assert_eq!(hasty.finished(b).unwrap(), Sequence(0));
    let Violation::Unordered { later: Later::Free(range), .. } = violation(hasty.free(block)) else { panic!() };
    assert_eq!(range.start, block);

    let (trusting, b) = device(|options| options.plain_free = PlainFree::Ignores);
    let block = trusting.alloc(PAGE).unwrap();
    begin(&trusting, b, block).unwrap();
    trusting.free(block).unwrap();
    assert_eq!((trusting.finished(b).unwrap(), trusting.stats().device_stalls), (Sequence(0), 1));
}

#[test]
fn a_pools_free_has_to_lie_behind_the_uses_and_its_next_block_needs_no_look() {
    let (device, b) = device(|_| ());
    let pools = device.driver_pools().unwrap();
    let block = pools.alloc_async(PAGE, A).unwrap();
    begin(&device, A, block).unwrap();
    pools.free_async(block, A).unwrap();
    // The driver knows that A's work is done, though the host never asked.
    device.finish(A).unwrap();
    assert_eq!(pools.alloc_async(PAGE, b).unwrap(), block);
    begin(&device, b, block).unwrap();
    let Violation::Unordered { earlier, waits_for, later, .. } = violation(pools.free_async(block, A)) else {
        panic!()
    };
    assert_eq!((earlier.stream, waits_for), (b, Some(Sequence(0))));
    assert_eq!(later, Later::PoolFree { range: AddressRange::new(block, PAGE), stream: A });
}

#[test]
fn streams_come_and_go_without_end() {
    let (device, b) = device(|_| ());
    for _ in 0..10_000 {
        let stream = device.create_stream().unwrap();
        device.order(stream, b).unwrap();
        device.destroy_stream(stream).unwrap();
        device.synchronize_stream(b).unwrap();
    }
    device.check().unwrap();
}

#[test]
fn a_new_stream_in_an_old_place_is_not_ordered_behind_it() {
    let (device, b) = device(|_| ());
    // All places but b's are taken.
    let others: Vec<_> = (0..4094).map(|_| device.create_stream().unwrap()).collect();
    assert!(device.create_stream().unwrap_err().is_out_of_memory());
    let block = device.alloc(PAGE).unwrap();
    begin(&device, b, block).unwrap();
    device.destroy_stream(b).unwrap();
    assert!(device.create_stream().is_err(), "b's work may still run");
    device.synchronize().unwrap();
    let again = device.create_stream().unwrap();
    assert!(again != b && !others.contains(&again));
    assert!(device.query_stream(b).is_err());
    begin(&device, again, block).unwrap();
    device.check().unwrap();
}
