//! Callers that do what they may not, and callbacks that do what they like.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use device::{DevicePtr, StreamId};
use pools::{Allocator, Backing, Error, Settings};

use crate::machine::{Machine, Sim};
use crate::program::{MIB, Random, seed};

const STREAM: StreamId = StreamId::DEFAULT;

fn pools_on(machine: &Sim, backing: Backing) -> Allocator {
    let mut settings = Settings::default();
    settings.backing = backing;
    Allocator::new(machine.device(), settings).unwrap()
}

#[test]
fn of_threads_that_free_a_block_at_once_exactly_one_succeeds() {
    let machine = Sim::new(1 << 30);
    for (bytes, references) in [(1000, 1), (4 * MIB, 1), (1000, 3), (4 * MIB, 3)] {
        let pools = pools_on(&machine, Backing::Auto);
        for _ in 0..300 {
            let ptr = pools.alloc(bytes, 0, STREAM).unwrap();
            for _ in 1..references {
                pools.retain(ptr).unwrap();
            }
            let (barrier, freed) = (Barrier::new(4), AtomicU32::new(0));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        barrier.wait();
                        match pools.free(ptr, None) {
                            Ok(()) => {
                                freed.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(Error::DoubleFree { .. } | Error::ForeignPointer { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    });
                }
            });
            assert_eq!(freed.into_inner(), references);
        }
        pools.check().unwrap();
        assert_eq!(pools.statistics().live.current_bytes, 0);
    }
}

#[test]
fn of_threads_that_release_a_block_each_gets_a_count_of_its_own_and_one_gets_zero() {
    let machine = Sim::new(1 << 30);
    let pools = pools_on(&machine, Backing::Auto);
    for _ in 0..1000 {
        let ptr = pools.alloc(1000, 0, STREAM).unwrap();
        for _ in 1..4 {
            pools.retain(ptr).unwrap();
        }
        let (barrier, counts) = (Barrier::new(4), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    let left = pools.release(ptr).unwrap();
                    counts.lock().unwrap().push(left);
                });
            }
        });
        let mut counts = counts.into_inner().unwrap();
        counts.sort_unstable();
        assert_eq!(counts, [0, 1, 2, 3]);
    }
}

#[test]
fn random_addresses_are_refused_and_change_nothing() {
    let mut random = Random::new(seed());
    for backing in [Backing::Segments, Backing::Range] {
        let machine = Sim::new(1 << 30);
        let pools = pools_on(&machine, backing);
        let blocks: Vec<DevicePtr> = (0..200).map(|i| pools.alloc(700 * i, 0, STREAM).unwrap()).collect();
        let (low, high) = (blocks.iter().min().unwrap().0, blocks.iter().max().unwrap().0);
        for _ in 0..20_000 {
            let ptr = DevicePtr(match random.below(4) {
                0 => random.next() << 8,
                1 => low + random.below(high - low),
                2 => (low + random.below(high - low)) / 512 * 512,
                _ => [0, 1, 511, 512, u64::MAX, u64::MAX - 511, 1 << 47, 1 << 48, (1 << 48) - 512]
                    [random.below(9) as usize],
            });
            if blocks.contains(&ptr) {
                continue;
            }
            let refused = [
                pools.free(ptr, None).unwrap_err(),
                pools.free(ptr, Some(STREAM)).unwrap_err(),
                pools.retain(ptr).unwrap_err(),
                pools.record_use(ptr, STREAM).unwrap_err(),
                pools.block(ptr).unwrap_err(),
            ];
            for error in refused {
                let is_right = match error {
                    Error::InteriorPointer { block, into, .. } => blocks.contains(&block) && block.0 + into == ptr.0,
                    Error::ForeignPointer { .. } | Error::DoubleFree { .. } => true,
                    _ => false,
                };
                assert!(is_right, "{error}");
            }
        }
        pools.check().unwrap();
        for ptr in blocks {
            pools.free(ptr, None).unwrap();
        }
        assert_eq!(pools.statistics().live.current_bytes, 0);
    }
}

#[test]
fn a_use_recorded_too_late_leaves_nothing_behind() {
    let machine = Sim::new(1 << 30);
    let other = machine.create_stream();
    let pools = pools_on(&machine, Backing::Auto);
    for _ in 0..200 {
        let ptr = pools.alloc(2 * MIB, 0, STREAM).unwrap();
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                // Either in time, or told that it is too late.
                let _ = pools.record_use(ptr, other);
            });
            barrier.wait();
            pools.free(ptr, None).unwrap();
        });
        pools.synchronized(None).unwrap();
        let next = pools.alloc(2 * MIB, 0, STREAM).unwrap();
        assert!(matches!(pools.use_done(next, other), Err(Error::NoSuchUse { .. })), "a use of the block before");
        pools.free(next, None).unwrap();
        pools.synchronized(None).unwrap();
    }
}

#[test]
fn an_allocator_outlives_its_names_and_its_threads() {
    let machine = Sim::new(1 << 30);
    let pools = pools_on(&machine, Backing::Auto);
    let first = pools.alloc(1000, 0, STREAM).unwrap();
    let copy = pools.clone();
    drop(pools);
    assert_eq!(copy.block(first).unwrap().requested_bytes, 1000);
    // Another thread has magazines of it when it ends, and still does when the allocator has ended.
    let (barrier, ended) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let thread = std::thread::spawn({
        let (copy, barrier, ended) = (copy.clone(), barrier.clone(), ended.clone());
        move || {
            for stream in 0..3 {
                let ptr = copy.alloc(3000, 0, StreamId(stream)).unwrap();
                copy.free(ptr, None).unwrap();
            }
            drop(copy);
            barrier.wait();
            ended.wait();
        }
    });
    barrier.wait();
    copy.free(first, None).unwrap();
    copy.check().unwrap();
    drop(copy);
    assert_eq!(machine.taken_bytes(), 0, "all bytes are back although a thread still has magazines");
    ended.wait();
    thread.join().unwrap();
    machine.check();
}

/// Answers each shortage by what a test says.
fn on_shortage(pools: &Allocator, answer: impl Fn(&pools::Shortage) -> bool + Send + Sync + 'static) {
    pools.on_out_of_memory(Some(Arc::new(answer)));
}

#[test]
fn a_callback_may_allocate_free_trim_and_ask() {
    for backing in [Backing::Segments, Backing::Range] {
        let machine = Sim::new(64 * MIB);
        let pools = pools_on(&machine, backing);
        let held = Arc::new(Mutex::new(vec![
            pools.alloc(20 * MIB, 0, STREAM).unwrap(),
            pools.alloc(20 * MIB, 0, STREAM).unwrap(),
        ]));
        let (other, calls) = (pools.clone(), Arc::new(AtomicU32::new(0)));
        let (holds, counts) = (held.clone(), calls.clone());
        on_shortage(&pools, move |shortage| {
            counts.fetch_add(1, Ordering::Relaxed);
            assert!(shortage.live_bytes >= 20 * MIB);
            let small = other.alloc(1000, 0, STREAM).unwrap();
            other.check().unwrap();
            let _ = (other.statistics(), other.snapshot());
            other.free(small, None).unwrap();
            other.trim(0).unwrap();
            match holds.lock().unwrap().pop() {
                Some(ptr) => other.free(ptr, None).is_ok(),
                None => false,
            }
        });
        let ptr = pools.alloc(50 * MIB, 0, STREAM).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        pools.free(ptr, None).unwrap();
        pools.check().unwrap();
        pools.on_out_of_memory(None);
    }
}

#[test]
fn a_callback_that_runs_out_of_memory_itself_is_not_asked_again() {
    let machine = Sim::new(64 * MIB);
    let pools = pools_on(&machine, Backing::Auto);
    let (depth, deepest) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (other, inside, most) = (pools.clone(), depth.clone(), deepest.clone());
    on_shortage(&pools, move |_| {
        let now = inside.fetch_add(1, Ordering::Relaxed) + 1;
        most.fetch_max(now, Ordering::Relaxed);
        assert!(now < 50, "the callback calls itself");
        let refused = other.alloc(1 << 30, 0, STREAM);
        assert!(matches!(refused, Err(Error::OutOfMemory(_))));
        inside.fetch_sub(1, Ordering::Relaxed);
        false
    });
    assert!(matches!(pools.alloc(1 << 30, 0, STREAM), Err(Error::OutOfMemory(_))));
    assert_eq!(deepest.load(Ordering::Relaxed), 1);
    pools.check().unwrap();
    pools.on_out_of_memory(None);
}

#[test]
fn a_callback_that_panics_or_always_promises_more_ends_in_an_error() {
    let machine = Sim::new(64 * MIB);
    let pools = pools_on(&machine, Backing::Auto);
    let held = pools.alloc(MIB, 0, STREAM).unwrap();
    for panics in [true, false] {
        let calls = Arc::new(AtomicU64::new(0));
        let counts = calls.clone();
        on_shortage(&pools, move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
            assert!(!panics, "a callback of the user's");
            true
        });
        assert!(matches!(pools.alloc(1 << 30, 0, STREAM), Err(Error::OutOfMemory(_))));
        assert!((1..100).contains(&calls.load(Ordering::Relaxed)));
        pools.check().unwrap();
    }
    pools.on_out_of_memory(None);
    pools.free(held, None).unwrap();
}

#[test]
fn a_callback_may_take_itself_away() {
    let machine = Sim::new(64 * MIB);
    let pools = pools_on(&machine, Backing::Auto);
    let other = pools.clone();
    let was_asked = Arc::new(AtomicBool::new(false));
    let asked = was_asked.clone();
    on_shortage(&pools, move |_| {
        asked.store(true, Ordering::Relaxed);
        other.on_out_of_memory(None);
        false
    });
    assert!(pools.alloc(1 << 30, 0, STREAM).is_err());
    assert!(was_asked.load(Ordering::Relaxed));
}
