//! Moments at which a block that somebody may still use could be taken for a free one.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use device::{Device, DriverCall, Fault, FaultKind, FaultPlan, SimDevice, SimOptions, StreamId, Touch, When};
use pools::{Allocator, Backing, Error, Reclaim, Reclaimed, Settings};

use crate::program::MIB;

fn on(change: impl FnOnce(&mut Settings)) -> (Arc<SimDevice>, Allocator) {
    let device = Arc::new(SimDevice::new(SimOptions::with_capacity(1 << 30)).unwrap());
    let mut settings = Settings::default();
    settings.budget.hard_bytes = Some(4 * MIB);
    change(&mut settings);
    let pools = Allocator::new(device.clone(), settings).unwrap();
    (device, pools)
}

fn fails(call: DriverCall) -> FaultPlan {
    FaultPlan::new([Fault::out_of_memory(call, When::Every(1)).with_kind(FaultKind::InvalidState)])
}

/// With `hand_over = recorded` a block stays until its home stream has made a request since the free, or all work of the
/// device was seen to finish: not if that was only tried.
#[test]
fn a_synchronization_of_the_device_that_failed_lets_no_block_leave_its_stream() {
    for asks in [true, false] {
        let (device, pools) = on(|settings| {
            settings.backing = Backing::Range;
            settings.stream_waits = false;
        });
        let (home, taker) = (device.create_stream().unwrap(), device.create_stream().unwrap());
        let block = pools.alloc(4 * MIB, 0, home).unwrap();
        pools.free(block, None).unwrap();
        device.set_faults(fails(DriverCall::DeviceSync));
        let refused = if asks { pools.alloc(4 * MIB, 0, taker).map(drop) } else { pools.trim(0).map(drop) };
        assert!(matches!(refused, Err(Error::Device(_))), "{refused:?}");
        pools.event_record(7, home).unwrap();
        pools.event_wait(7, taker).unwrap();
        assert!(pools.alloc(4 * MIB, 0, taker).is_err(), "home has made no request since the free");
        device.set_faults(FaultPlan::default());
        assert_eq!(pools.alloc(4 * MIB, 0, taker).unwrap(), block, "now the host has waited");
        pools.check().unwrap();
    }
}

#[test]
fn memory_that_the_device_did_not_take_back_waits_for_streams_that_are_gone_too() {
    let (device, pools) = on(|settings| {
        settings.backing = Backing::Segments;
        (settings.stream_waits, settings.host_waits) = (false, false);
    });
    let gone = device.create_stream().unwrap();
    let block = pools.alloc(4 * MIB, 0, gone).unwrap();
    device.launch(gone, &[Touch::begin(block, 4 * MIB)]).unwrap();
    pools.free(block, None).unwrap();
    pools.stream_destroyed(gone).unwrap();
    device.set_faults(fails(DriverCall::Free));
    assert!(pools.trim(0).is_err());
    assert!(pools.alloc(4 * MIB, 0, StreamId::DEFAULT).is_err(), "its work may go on");
    device.finish_all();
    pools.synchronized(None).unwrap();
    assert_eq!(pools.alloc(4 * MIB, 0, StreamId::DEFAULT).unwrap(), block);
    pools.check().unwrap();
}

/// Two blocks that another stream uses and that wait for it: it was marked between their uses.
fn marked_between(event: Option<u64>, is_destroyed: bool) -> (Arc<SimDevice>, Allocator, StreamId) {
    let (device, pools) = on(|settings| (settings.stream_waits, settings.host_waits) = (false, false));
    let (home, user) = (device.create_stream().unwrap(), device.create_stream().unwrap());
    let blocks = [(); 2].map(|()| pools.alloc(2 * MIB, 0, home).unwrap());
    let mut marked = None;
    for block in blocks {
        pools.record_use(block, user).unwrap();
        device.launch(user, &[Touch::begin(block, 2 * MIB)]).unwrap();
        pools.free(block, None).unwrap();
        if marked.is_none() {
            assert!(pools.alloc(2 * MIB, 0, home).is_err(), "it is in use");
            assert_eq!(pools.statistics().order.marks, 1);
            marked = Some(device.issued(user).unwrap());
        }
    }
    if let Some(event) = event {
        pools.event_record(event, user).unwrap();
    }
    if is_destroyed {
        pools.stream_destroyed(user).unwrap();
    }
    device.finish_up_to(user, marked.unwrap()).unwrap();
    (device, pools, home)
}

#[test]
fn an_event_of_the_program_is_never_taken_for_one_of_ours_whatever_its_number() {
    for event in [0, 1, 0xffff_0000_0000_0000, 0xffff_0000_0000_0001, u64::MAX] {
        let (_device, pools, home) = marked_between(Some(event), false);
        pools.alloc(2 * MIB, 0, home).unwrap();
        assert!(pools.alloc(2 * MIB, 0, home).is_err(), "the second block is still in use: event {event:#x}");
        pools.check().unwrap();
    }
}

#[test]
fn a_stream_that_ends_is_marked_though_an_earlier_mark_has_not_happened_yet() {
    let (device, pools, home) = marked_between(None, true);
    pools.alloc(2 * MIB, 0, home).unwrap();
    assert!(pools.alloc(2 * MIB, 0, home).is_err(), "the second block is still in use");
    device.finish_all();
    pools.alloc(2 * MIB, 0, home).unwrap();
    pools.check().unwrap();
}

/// Calls the allocator when it is dropped.
struct Tells(Allocator);

impl records::Sink for Tells {
    fn record(&self, _event: &records::Event) {}
}

impl Reclaim for Tells {
    fn reclaim(&self, _bytes: u64, _deadline: std::time::Instant) -> Reclaimed {
        Reclaimed::default()
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.set_sink(None);
        self.0.set_reclaim(None);
        let ptr = self.0.alloc(1000, 0, StreamId::DEFAULT).unwrap();
        self.0.free(ptr, None).unwrap();
    }
}

#[test]
fn what_is_replaced_may_call_the_allocator_while_it_is_dropped() {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        let (_device, pools) = on(|_| ());
        pools.set_sink(Some(Arc::new(Tells(pools.clone()))));
        pools.set_sink(None);
        pools.set_reclaim(Some(Arc::new(Tells(pools.clone()))));
        pools.set_reclaim(None);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(20)).expect("it hangs");
}

#[test]
fn a_stream_that_ended_is_not_counted_again_by_threads_that_knew_it() {
    let (device, pools) = on(|_| ());
    let ptr = pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
    let before = pools.statistics().order;
    for _ in 0..10 {
        let stream = device.create_stream().unwrap();
        let block = pools.alloc(1000, 0, stream).unwrap();
        pools.free(block, None).unwrap();
        pools.stream_destroyed(stream).unwrap();
        device.destroy_stream(stream).unwrap();
    }
    pools.free(ptr, None).unwrap();
    pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
    let after = pools.statistics().order;
    assert_eq!((after.streams, after.streams_ever), (before.streams, before.streams_ever + 10));
}
