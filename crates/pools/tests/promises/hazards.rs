//! Moments at which a block that somebody may still use could be taken for a free one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use device::{
    Device, DeviceInfo, DevicePtr, DriverCall, EventId, Fault, FaultKind, FaultPlan, MemoryState, Place, SimDevice,
    SimOptions, StreamId, Touch, When,
};
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

/// A stream's handle may be another's as soon as it was said to go: no call of ours may still be on its way to it.
#[test]
fn the_end_of_a_stream_waits_for_calls_of_ours_that_name_it() {
    let (device, pools) = on(|settings| (settings.stream_waits, settings.host_waits) = (false, false));
    let (home, user) = (device.create_stream().unwrap(), device.create_stream().unwrap());
    let slow = Arc::new(Slow { device, entered: AtomicBool::new(false), may_go: AtomicBool::new(false) });
    let mut settings = pools.settings().clone();
    settings.backing = Backing::Segments;
    let pools = Allocator::new(slow.clone(), settings).unwrap();
    let block = pools.alloc(4 * MIB, 0, home).unwrap();
    pools.record_use(block, user).unwrap();
    pools.free(block, None).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| pools.alloc(4 * MIB, 0, home));
        while !slow.entered.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let ended = scope.spawn(|| pools.stream_destroyed(user));
        // Its own mark comes first; that one may be held up, too.
        std::thread::sleep(Duration::from_millis(100));
        let has_ended = ended.is_finished();
        slow.may_go.store(true, Ordering::SeqCst);
        ended.join().unwrap().unwrap();
        assert!(!has_ended, "the stream was being named");
    });
    pools.check().unwrap();
}

/// A device whose first record of an event takes until it is told.
#[derive(Debug)]
struct Slow {
    device: Arc<SimDevice>,
    entered: AtomicBool,
    may_go: AtomicBool,
}

#[rustfmt::skip]
impl Device for Slow {
    fn record_event(&self, event: EventId, stream: StreamId) -> device::Result<()> {
        if !self.entered.swap(true, Ordering::SeqCst) {
            while !self.may_go.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        self.device.record_event(event, stream)
    }
    fn info(&self) -> &DeviceInfo { self.device.info() }
    fn memory(&self) -> device::Result<MemoryState> { self.device.memory() }
    fn alloc(&self, bytes: u64) -> device::Result<DevicePtr> { self.device.alloc(bytes) }
    fn free(&self, ptr: DevicePtr) -> device::Result<()> { self.device.free(ptr) }
    fn create_stream(&self) -> device::Result<StreamId> { self.device.create_stream() }
    fn destroy_stream(&self, stream: StreamId) -> device::Result<()> { self.device.destroy_stream(stream) }
    fn query_stream(&self, stream: StreamId) -> device::Result<bool> { self.device.query_stream(stream) }
    fn synchronize_stream(&self, stream: StreamId) -> device::Result<()> { self.device.synchronize_stream(stream) }
    fn create_event(&self) -> device::Result<EventId> { self.device.create_event() }
    fn destroy_event(&self, event: EventId) -> device::Result<()> { self.device.destroy_event(event) }
    fn query_event(&self, event: EventId) -> device::Result<bool> { self.device.query_event(event) }
    fn synchronize_event(&self, event: EventId) -> device::Result<()> { self.device.synchronize_event(event) }
    fn wait_event(&self, s: StreamId, event: EventId) -> device::Result<()> { self.device.wait_event(s, event) }
    fn synchronize(&self) -> device::Result<()> { self.device.synchronize() }
    fn copy(&self, to: Place, from: Place, n: u64, s: StreamId) -> device::Result<()> { self.device.copy(to, from, n, s) }
    fn write(&self, to: Place, from: &[u8]) -> device::Result<()> { self.device.write(to, from) }
    fn read(&self, from: Place, to: &mut [u8]) -> device::Result<()> { self.device.read(from, to) }
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
