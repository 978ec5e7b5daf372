//! What the settings promise: operators' pools, precisions, budgets, cached limit, tidying up.

use std::sync::Arc;

use device::{Device, SimDevice, SimOptions, StreamId};
use pools::{Allocator, Backing, Budget, Error, OpPool, Precision, Settings, Tag};

use crate::program::MIB;

const STREAM: StreamId = StreamId::DEFAULT;

fn on(capacity: u64, change: impl FnOnce(&mut Settings)) -> (Arc<SimDevice>, Allocator) {
    let device = Arc::new(SimDevice::new(SimOptions::with_capacity(capacity)).unwrap());
    let mut settings = Settings::default();
    change(&mut settings);
    let pools = Allocator::new(device.clone(), settings).unwrap();
    (device, pools)
}

#[test]
fn a_hot_operators_requests_come_from_its_pool_and_beyond_its_size_from_the_common_one() {
    for backing in [Backing::Segments, Backing::Range] {
        let (_device, pools) = on(1 << 30, |settings| {
            settings.backing = backing;
            settings.op_pools = vec![OpPool { op: "attention".into(), bytes: 16 * MIB }];
        });
        let hot = Tag::NONE.with_op("attention");
        assert_eq!(pools.statistics().reserved.current_bytes, 0, "set apart when it first asks");
        let held: Vec<_> = (0..4).map(|_| pools.alloc_tagged(4 * MIB, 0, STREAM, hot).unwrap()).collect();
        let figures = pools.statistics();
        assert_eq!((figures.op_pools[0].bytes, figures.op_pools[0].allocated_bytes), (16 * MIB, 16 * MIB));
        assert_eq!(figures.reserved.current_bytes, 16 * MIB);
        // It is full: the next goes elsewhere, and others never get into it.
        let beyond = pools.alloc_tagged(4 * MIB, 0, STREAM, hot).unwrap();
        assert_eq!(pools.statistics().op_pools[0].allocated_bytes, 16 * MIB);
        pools.free(held[1], None).unwrap();
        let cold = pools.alloc(4 * MIB, 0, STREAM).unwrap();
        let own = held.iter().map(|ptr| ptr.0).min().unwrap()..held.iter().map(|ptr| ptr.0).max().unwrap() + 4 * MIB;
        assert!(!own.contains(&cold.0) && !own.contains(&beyond.0));
        assert_eq!(pools.alloc_tagged(4 * MIB, 0, STREAM, hot).unwrap(), held[1], "its own hole is used first");
        pools.check().unwrap();
        // A request larger than the whole pool is no error either.
        assert!(pools.alloc_tagged(40 * MIB, 0, STREAM, hot).is_ok());
    }
}

#[test]
fn an_operator_named_after_the_allocator_was_made_has_its_pool() {
    let (_device, pools) = on(1 << 30, |settings| {
        settings.op_pools = vec![OpPool { op: "named only later".into(), bytes: 4 * MIB }];
    });
    let ptr = pools.alloc_tagged(1000, 0, STREAM, Tag::NONE.with_op("named only later")).unwrap();
    assert_eq!(pools.statistics().op_pools[0].allocated_bytes, 1024);
    pools.free(ptr, None).unwrap();
}

#[test]
fn streams_share_a_hot_operators_pool_as_their_order_allows() {
    let (device, pools) = on(1 << 30, |settings| {
        settings.op_pools = vec![OpPool { op: "shared op".into(), bytes: 8 * MIB }];
        settings.hand_over = pools::HandOver::All;
    });
    let hot = Tag::NONE.with_op("shared op");
    let (one, two) = (device.create_stream().unwrap(), device.create_stream().unwrap());
    let ptr = pools.alloc_tagged(8 * MIB, 0, one, hot).unwrap();
    pools.free(ptr, None).unwrap();
    let elsewhere = pools.alloc_tagged(8 * MIB, 0, two, hot).unwrap();
    assert_ne!(elsewhere, ptr, "nothing orders the second stream behind the first");
    pools.free(elsewhere, None).unwrap();
    pools.stream_wait(one, two).unwrap();
    assert_eq!(pools.alloc_tagged(8 * MIB, 0, two, hot).unwrap(), ptr);
    pools.check().unwrap();
}

#[test]
fn an_operators_pool_is_set_apart_once_whoever_asks_first() {
    for _ in 0..50 {
        let (_device, pools) = on(1 << 30, |settings| {
            settings.op_pools = vec![OpPool { op: "raced op".into(), bytes: 8 * MIB }];
        });
        let hot = Tag::NONE.with_op("raced op");
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (pools, barrier) = (&pools, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    pools.alloc_tagged(1000, 0, StreamId(thread), hot).unwrap();
                });
            }
        });
        let figures = pools.statistics();
        assert!(figures.op_pools[0].allocated_bytes <= 8 * MIB);
        let hot_spans = figures.reserved.current_bytes;
        assert!(hot_spans <= 8 * MIB + 4 * 2 * MIB, "{hot_spans} bytes are held: it was set apart more than once");
        pools.check().unwrap();
    }
}

#[test]
fn precisions_have_free_blocks_of_their_own() {
    let (_device, pools) = on(1 << 30, |settings| settings.separate_precisions = true);
    let of = |precision| Tag { precision, ..Tag::NONE };
    let half = pools.alloc_tagged(4 * MIB, 0, STREAM, of(Precision::Fp16)).unwrap();
    pools.free(half, None).unwrap();
    let single = pools.alloc_tagged(4 * MIB, 0, STREAM, of(Precision::Fp32)).unwrap();
    assert_ne!(single, half);
    assert_eq!(pools.alloc_tagged(4 * MIB, 0, STREAM, of(Precision::Fp16)).unwrap(), half);
    let figures = pools.statistics();
    let live = |precision: Precision| figures.precisions[precision as usize].current_bytes;
    assert_eq!((live(Precision::Fp16), live(Precision::Fp32), live(Precision::Fp64)), (4 * MIB, 4 * MIB, 0));
    pools.check().unwrap();
}

#[test]
fn another_precisions_idle_memory_is_given_back_before_a_request_fails() {
    for backing in [Backing::Segments, Backing::Range] {
        let (_device, pools) = on(64 * MIB, |settings| {
            (settings.separate_precisions, settings.backing) = (true, backing);
        });
        let of = |precision| Tag { precision, ..Tag::NONE };
        let half = pools.alloc_tagged(40 * MIB, 0, STREAM, of(Precision::Fp16)).unwrap();
        pools.free(half, None).unwrap();
        let single = pools.alloc_tagged(40 * MIB, 0, STREAM, of(Precision::Fp32)).unwrap();
        pools.free(single, None).unwrap();
        pools.check().unwrap();
    }
}

#[test]
fn above_the_soft_budget_idle_memory_goes_back_before_more_is_taken() {
    let (_device, pools) = on(1 << 30, |settings| {
        settings.backing = Backing::Segments;
        settings.budget = Budget { hard_bytes: None, soft_bytes: Some(64 * MIB) };
    });
    // Four segments of 16 MiB, all idle: a request for 32 MiB fits none of them.
    let held: Vec<_> = (0..4).map(|_| pools.alloc(16 * MIB, 0, STREAM).unwrap()).collect();
    for ptr in held {
        pools.free(ptr, None).unwrap();
    }
    assert_eq!(pools.statistics().reserved.current_bytes, 64 * MIB);
    let large = pools.alloc(32 * MIB, 0, STREAM).unwrap();
    let figures = pools.statistics();
    assert!(figures.reserved.peak_bytes <= 66 * MIB, "{figures:?}");
    // A soft budget is no reason to fail.
    let more = pools.alloc(128 * MIB, 0, STREAM).unwrap();
    assert!(pools.statistics().reserved.current_bytes >= 160 * MIB);
    pools.free(large, None).unwrap();
    pools.free(more, None).unwrap();
    // A lower one makes idle memory go at once.
    pools.set_budget(Budget { hard_bytes: None, soft_bytes: Some(8 * MIB) }).unwrap();
    assert!(pools.statistics().reserved.current_bytes <= 8 * MIB);
    pools.check().unwrap();
}

#[test]
fn a_hard_budget_below_what_is_held_refuses_more_until_something_is_freed() {
    let (_device, pools) = on(1 << 30, |_| {});
    let held = pools.alloc(64 * MIB, 0, STREAM).unwrap();
    pools.set_budget(Budget { hard_bytes: Some(32 * MIB), soft_bytes: None }).unwrap();
    let Err(Error::OutOfMemory(shortage)) = pools.alloc(MIB, 0, STREAM) else { panic!("beyond the budget") };
    assert!(shortage.to_string().contains("the budget is what stands in the way"), "{shortage}");
    let Err(Error::OutOfMemory(shortage)) = pools.alloc(2 << 30, 0, STREAM) else { panic!("beyond the device") };
    assert!(shortage.to_string().contains("more than the whole device"), "{shortage}");
    pools.free(held, None).unwrap();
    pools.alloc(MIB, 0, STREAM).unwrap();
}

#[test]
fn at_a_steps_end_what_is_idle_beyond_the_cached_limit_goes_back() {
    for backing in [Backing::Segments, Backing::Range] {
        let (device, pools) = on(1000 * MIB, |settings| {
            (settings.backing, settings.cached_limit_percent) = (backing, 20);
        });
        let blocks: Vec<_> = (0..50).map(|_| pools.alloc(10 * MIB, 0, STREAM).unwrap()).collect();
        for ptr in &blocks[..15] {
            pools.free(*ptr, None).unwrap();
        }
        pools.step().unwrap();
        assert_eq!(pools.statistics().reserved.current_bytes, 500 * MIB, "150 MiB idle are within 20 % of 1000");
        for ptr in &blocks[15..] {
            pools.free(*ptr, None).unwrap();
        }
        device.observe_all();
        pools.synchronized(None).unwrap();
        pools.alloc(1, 0, STREAM).unwrap();
        pools.synchronized(None).unwrap();
        pools.step().unwrap();
        let left = pools.statistics().reserved.current_bytes;
        assert!((180 * MIB..=202 * MIB).contains(&left), "{left} of 200 MiB, {backing:?}");
        pools.check().unwrap();
    }
}

/// Holes of 2 MiB between blocks that stay.
fn fragment(pools: &Allocator, count: u64) -> Vec<device::DevicePtr> {
    let blocks: Vec<_> = (0..2 * count).map(|_| pools.alloc(2 * MIB, 0, STREAM).unwrap()).collect();
    for ptr in blocks.iter().step_by(2) {
        pools.free(*ptr, None).unwrap();
    }
    blocks.into_iter().skip(1).step_by(2).collect()
}

#[test]
fn a_fragmented_arena_is_tidied_up_at_a_steps_end_once_and_again_after_a_failure_or_recovery() {
    let (_device, pools) = on(1 << 30, |settings| {
        settings.backing = Backing::Segments;
        (settings.defragment_percent, settings.defragment_floor_bytes) = (30, 16 * MIB);
        settings.budget.hard_bytes = Some(512 * MIB);
    });
    let held = fragment(&pools, 20);
    let before = pools.statistics();
    assert!(before.fragmentation_percent > 90.0);
    pools.step().unwrap();
    let after = pools.statistics();
    assert_eq!(after.defragmentations, 1);
    assert!(after.reserved.current_bytes < before.reserved.current_bytes, "whole idle segments went back");
    // Nothing has happened since: it is left alone.
    pools.step().unwrap();
    assert_eq!(pools.statistics().defragmentations, 1);
    // Growing alone doesn't start it again while fragmentation has not fallen; a failure does.
    let more = fragment(&pools, 20);
    pools.step().unwrap();
    assert_eq!(pools.statistics().defragmentations, 1, "spent");
    assert!(pools.alloc(600 * MIB, 0, STREAM).is_err());
    let again = fragment(&pools, 20);
    pools.step().unwrap();
    assert_eq!(pools.statistics().defragmentations, 2);
    for ptr in held.into_iter().chain(more).chain(again) {
        pools.free(ptr, None).unwrap();
    }
    pools.check().unwrap();
}

#[test]
fn little_or_well_joined_free_memory_is_left_alone() {
    let (_device, pools) = on(1 << 30, |settings| {
        settings.backing = Backing::Segments;
        (settings.defragment_percent, settings.defragment_floor_bytes) = (30, 64 * MIB);
    });
    let held = fragment(&pools, 20);
    pools.step().unwrap();
    assert_eq!(pools.statistics().defragmentations, 0, "40 MiB free are below the floor");
    for ptr in held {
        pools.free(ptr, None).unwrap();
    }
    pools.trim(0).unwrap();
    let large = pools.alloc(200 * MIB, 0, STREAM).unwrap();
    pools.free(large, None).unwrap();
    pools.step().unwrap();
    assert_eq!(pools.statistics().defragmentations, 0, "one piece is not fragmented");
}
