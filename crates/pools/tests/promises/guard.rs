//! Guards find whoever writes where it may not, and accuse nobody else.

use std::sync::{Arc, Mutex};

use device::{Completion, Device, DevicePtr, HostDevice, HostOptions, Place, StreamId};
use pools::{Allocator, Backing, Error, GuardFinding, GuardReport, Settings, Tag, Tier};

use crate::machine::Host;
use crate::program::{MIB, Program, seed};

const STREAM: StreamId = StreamId::DEFAULT;

fn settings(backing: Backing) -> Settings {
    let mut settings = Settings::default();
    (settings.backing, settings.guard) = (backing, true);
    settings
}

fn guarded(backing: Backing) -> (Arc<HostDevice>, Allocator) {
    let host = Arc::new(HostDevice::new(HostOptions::with_capacity(256 * MIB)).unwrap());
    let pools = Allocator::new(host.clone(), settings(backing)).unwrap();
    (host, pools)
}

fn poke(host: &HostDevice, at: u64) {
    host.write(Place::Device(DevicePtr(at)), &[7]).unwrap();
}

fn report<T: std::fmt::Debug>(result: Result<T, Error>) -> GuardReport {
    match result {
        Err(Error::Guard(report)) => *report,
        other => panic!("nothing was found: {other:?}"),
    }
}

/// A function of its own, so that its name is on the stack.
#[inline(never)]
fn the_guilty_request(pools: &Allocator, bytes: u64, tag: Tag) -> DevicePtr {
    pools.alloc_tagged(bytes, 0, STREAM, tag).unwrap()
}

#[test]
fn an_overrun_is_found_at_the_free_the_step_and_the_end_and_names_tag_and_stack() {
    let tag = Tag { tier: Tier::Cyclic, owner: 5, ..Tag::NONE }.with_op("softmax");
    for backing in [Backing::Segments, Backing::Range] {
        for (bytes, beyond) in [(1000, 0), (1000, 23), (1000, 500), (512, 0), (0, 0), (0, 511), (3 * MIB, 0)] {
            for when in ["free", "step", "check", "end"] {
                let (host, pools) = guarded(backing);
                let before = pools.alloc(2000, 0, STREAM).unwrap();
                let ptr = the_guilty_request(&pools, bytes, tag);
                let behind = pools.alloc(2000, 0, STREAM).unwrap();
                poke(&host, ptr.0 + bytes + beyond);
                let found = match when {
                    "free" => report(pools.free(ptr, None)),
                    "step" => report(pools.step()),
                    "check" => report(pools.check_guards()),
                    _ => {
                        let reports = Arc::new(Mutex::new(Vec::new()));
                        let keeps = reports.clone();
                        pools
                            .on_guard_finding(Some(Arc::new(move |report| keeps.lock().unwrap().push(report.clone()))));
                        drop(pools);
                        let mut reports = std::mem::take(&mut *reports.lock().unwrap());
                        assert_eq!(reports.len(), 1, "{reports:?}");
                        reports.remove(0)
                    }
                };
                assert_eq!((found.finding, found.ptr, found.tag), (GuardFinding::Overrun, ptr, tag));
                assert_eq!((found.requested_bytes, found.offset_bytes, found.found), (bytes, bytes + beyond, 7));
                let text = found.to_string();
                for part in ["softmax", "cyclic", "owner 5", "the_guilty_request"] {
                    assert!(text.contains(part), "{part} is missing in:\n{text}");
                }
                let _ = (before, behind);
            }
        }
    }
}

#[test]
fn a_block_whose_overrun_was_found_is_freed_all_the_same() {
    let (host, pools) = guarded(Backing::Auto);
    let ptr = pools.alloc(1000, 0, STREAM).unwrap();
    poke(&host, ptr.0 + 1000);
    report(pools.free(ptr, None));
    assert!(matches!(pools.free(ptr, None), Err(Error::DoubleFree { .. })));
    assert_eq!(pools.statistics().live.current_bytes, 0);
    pools.check().unwrap();
    pools.step().unwrap();
}

#[test]
fn an_underrun_is_found_as_damage_to_the_neighbour_before() {
    for backing in [Backing::Segments, Backing::Range] {
        for below in [1, 8, 400] {
            let (host, pools) = guarded(backing);
            let before = pools.alloc(100, 0, STREAM).unwrap();
            let ptr = pools.alloc(1000, 0, STREAM).unwrap();
            assert!(before < ptr);
            poke(&host, ptr.0 - below);
            let found = report(pools.step());
            assert_eq!((found.finding, found.ptr), (GuardFinding::Overrun, before));
            assert!(found.to_string().contains("or the one behind it was written below its beginning"));
        }
    }
}

#[test]
fn an_underrun_into_a_freed_neighbour_is_found() {
    let (host, pools) = guarded(Backing::Auto);
    let before = pools.alloc(100, 0, STREAM).unwrap();
    let ptr = pools.alloc(1000, 0, STREAM).unwrap();
    pools.free(before, None).unwrap();
    poke(&host, ptr.0 - 8);
    let found = report(pools.step());
    assert_eq!((found.finding, found.ptr), (GuardFinding::UseAfterFree, before));
}

#[test]
fn two_neighbours_that_both_overrun_are_both_found() {
    let (host, pools) = guarded(Backing::Auto);
    let (first, second) = (pools.alloc(600, 0, STREAM).unwrap(), pools.alloc(700, 0, STREAM).unwrap());
    poke(&host, first.0 + 600);
    poke(&host, second.0 + 700);
    assert_eq!(report(pools.free(first, None)).ptr, first);
    assert_eq!(report(pools.free(second, None)).ptr, second);
    pools.step().unwrap();
}

#[test]
fn a_use_after_free_is_found_at_the_next_request_the_step_and_the_end() {
    let tag = Tag::NONE.with_op("layer norm");
    for backing in [Backing::Segments, Backing::Range] {
        for bytes in [1000, 3 * MIB] {
            for when in ["alloc", "part", "step", "end"] {
                // A small request goes elsewhere than into a large hole.
                if when == "part" && bytes > MIB {
                    continue;
                }
                let (host, pools) = guarded(backing);
                let held = pools.alloc(512, 0, STREAM).unwrap();
                let ptr = the_guilty_request(&pools, bytes, tag);
                let behind = pools.alloc(512, 0, STREAM).unwrap();
                pools.free(ptr, None).unwrap();
                let at = if when == "part" { 100 } else { bytes - 1 };
                poke(&host, ptr.0 + at);
                let found = match when {
                    "alloc" => report(pools.alloc(bytes, 0, STREAM)),
                    "part" => report(pools.alloc(200, 0, STREAM)),
                    "step" => report(pools.step()),
                    _ => {
                        let reports = Arc::new(Mutex::new(Vec::new()));
                        let keeps = reports.clone();
                        pools
                            .on_guard_finding(Some(Arc::new(move |report| keeps.lock().unwrap().push(report.clone()))));
                        drop(pools.clone());
                        assert!(reports.lock().unwrap().is_empty(), "the allocator has not ended yet");
                        drop(pools);
                        let mut reports = std::mem::take(&mut *reports.lock().unwrap());
                        assert_eq!(reports.len(), 1, "{reports:?}");
                        reports.remove(0)
                    }
                };
                assert_eq!((found.finding, found.ptr, found.tag), (GuardFinding::UseAfterFree, ptr, tag), "{when}");
                assert_eq!((found.requested_bytes, found.offset_bytes, found.found), (bytes, at, 7));
                assert!(found.to_string().contains("layer norm"));
                let _ = (held, behind);
            }
        }
    }
}

#[test]
fn a_request_that_finds_a_use_after_free_takes_nothing_and_the_next_one_works() {
    let (host, pools) = guarded(Backing::Auto);
    let ptr = pools.alloc(1000, 0, STREAM).unwrap();
    pools.free(ptr, None).unwrap();
    poke(&host, ptr.0);
    report(pools.alloc(1000, 0, STREAM));
    let figures = pools.statistics();
    assert_eq!((figures.live.current_bytes, figures.allocated.current_bytes), (0, 0), "nobody has the block");
    pools.check().unwrap();
    let next = pools.alloc(1000, 0, STREAM).unwrap();
    pools.free(next, None).unwrap();
    pools.step().unwrap();
}

#[test]
fn copies_in_flight_at_the_free_are_waited_for() {
    for backing in [Backing::Segments, Backing::Range] {
        let mut options = HostOptions::with_capacity(256 * MIB);
        options.completion = Completion::Late { longest: std::time::Duration::from_millis(2), seed: seed() };
        let host = Arc::new(HostDevice::new(options).unwrap());
        let pools = Allocator::new(host.clone(), settings(backing)).unwrap();
        let (home, user) = (host.create_stream().unwrap(), host.create_stream().unwrap());
        for _ in 0..20 {
            let ptr = pools.alloc(MIB, 0, home).unwrap();
            host.fill(Place::Device(ptr), 1, MIB, home).unwrap();
            pools.record_use(ptr, user).unwrap();
            host.order_streams(home, user).unwrap();
            pools.stream_wait(home, user).unwrap();
            host.fill(Place::Device(ptr), 2, MIB, user).unwrap();
            pools.free(ptr, None).unwrap();
        }
        // One that writes too much, and is still at it when the block is dropped.
        let ptr = pools.alloc(1000, 0, home).unwrap();
        host.fill(Place::Device(ptr), 3, 1001, home).unwrap();
        let found = report(pools.free(ptr, None));
        assert_eq!((found.finding, found.ptr, found.offset_bytes), (GuardFinding::Overrun, ptr, 1000));
        pools.step().unwrap();
        pools.check().unwrap();
    }
}

#[test]
fn threads_that_write_only_their_own_blocks_raise_no_alarm() {
    let seed = seed();
    for backing in [Backing::Segments, Backing::Range] {
        let (host, pools) = guarded(backing);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (host, pools) = (&host, &pools);
                scope.spawn(move || {
                    let mut random = crate::program::Random::new(seed + thread);
                    let stream = host.create_stream().unwrap();
                    for round in 0..150 {
                        let bytes = random.below(50_000);
                        let ptr = pools.alloc(bytes, 0, stream).unwrap();
                        host.write(Place::Device(ptr), &vec![thread as u8; bytes as usize]).unwrap();
                        if round % 10 == 0 {
                            pools.step().unwrap();
                            pools.trim(8 * MIB).unwrap();
                        }
                        pools.free(ptr, None).unwrap();
                    }
                });
            }
        });
        pools.check_guards().unwrap();
        pools.check().unwrap();
    }
}

#[test]
fn long_random_programs_raise_no_alarm() {
    let seed = seed();
    for backing in [Backing::Segments, Backing::Range] {
        for round in 0..4 {
            let machine = Host::new(128 * MIB);
            let mut settings = settings(backing);
            settings.defragment_floor_bytes = 4 * MIB;
            settings.cached_limit_percent = 40;
            let mut program = Program::new(&machine, settings, seed + round, 16 * MIB).unwrap().with_many_streams();
            let at_the_end = Arc::new(Mutex::new(Vec::new()));
            let keeps = at_the_end.clone();
            program.pools.on_guard_finding(Some(Arc::new(move |report| keeps.lock().unwrap().push(report.clone()))));
            for step in 0..500 {
                match program.step() {
                    Ok(()) | Err(Error::OutOfMemory(_)) => {}
                    Err(error) => panic!("step {step}: {error}"),
                }
            }
            program.end();
            let reports = std::mem::take(&mut *at_the_end.lock().unwrap());
            assert!(reports.is_empty(), "{}", reports[0]);
        }
    }
}
