//! What the allocator takes from the host: nothing where requests and frees are answered at once, nothing where a request
//! fails, little at 80 GiB. Counted by a global allocator of its own, so in a program of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::result_large_err)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use device::{DevicePtr, SimDevice, SimOptions, StreamId};
use pools::{Allocator, Backing, Budget, Error, Precision, Settings, Tag, Tier};

struct Counting;

thread_local! {
    /// Bytes that this thread took and has not given back.
    static HELD: Cell<i64> = const { Cell::new(0) };
    /// Allocations of this thread.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

fn note(bytes: i64) {
    // While a thread ends its storage is gone: nothing is counted then.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
    if bytes > 0 {
        let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
    }
}

// SAFETY:
// - each method hands its arguments to the system's allocator unchanged and returns its answer; what it counts besides
//   allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(-(layout.size() as i64));
        note(size as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Allocations that this thread makes in `work`.
fn taken(work: impl FnOnce()) -> u64 {
    let before = TAKEN.get();
    work();
    TAKEN.get() - before
}

const MIB: u64 = 1 << 20;

fn on(capacity: u64, change: impl FnOnce(&mut Settings)) -> Allocator {
    let device = Arc::new(SimDevice::new(SimOptions::with_capacity(capacity)).unwrap());
    let mut settings = Settings::default();
    change(&mut settings);
    Allocator::new(device, settings).unwrap()
}

/// A step of a program: requests of many sizes on some streams, tags and tiers, freed in another order.
fn step(pools: &Allocator, streams: u64, held: &mut Vec<DevicePtr>) {
    for round in 0..300_u64 {
        let bytes = [500, 5_000, 70_000, 900_000, 1_500_000, 5_000_000][(round % 6) as usize] + round * 64;
        let tier = Tier::ALL[(round / 7 % 3) as usize];
        let tag = Tag { tier, precision: Precision::Fp16, op: 1, owner: round as u32 };
        held.push(pools.alloc_tagged(bytes, 0, StreamId(round % streams), tag).unwrap());
        if round % 3 == 2 {
            let ptr = held.swap_remove((round * 7 % held.len() as u64) as usize);
            pools.free(ptr, None).unwrap();
        }
    }
    for ptr in held.drain(..) {
        pools.free(ptr, Some(StreamId::DEFAULT)).or_else(|_| pools.free(ptr, None)).unwrap();
    }
}

#[test]
fn warm_requests_and_frees_take_no_host_memory() {
    for backing in [Backing::Segments, Backing::Range] {
        for magazines in [true, false] {
            let pools = on(8 << 30, |settings| (settings.backing, settings.magazines) = (backing, magazines));
            let mut held = Vec::with_capacity(1000);
            for _ in 0..5 {
                step(&pools, 1, &mut held);
            }
            let warm = taken(|| {
                for _ in 0..20 {
                    step(&pools, 1, &mut held);
                }
            });
            assert_eq!(warm, 0, "{backing:?}, magazines: {magazines}");
        }
    }
}

#[test]
fn magazine_hits_the_shard_and_references_take_no_host_memory() {
    let pools = on(1 << 30, |_| {});
    let round = |bytes| {
        let ptr = pools.alloc(bytes, 0, StreamId::DEFAULT).unwrap();
        assert_eq!(pools.retain(ptr).unwrap(), 2);
        assert_eq!(pools.release(ptr).unwrap(), 1);
        assert_eq!(pools.block(ptr).unwrap().requested_bytes, bytes);
        pools.free(ptr, None).unwrap();
    };
    for bytes in [0, 1, 4096, MIB, 2 * MIB, 30 * MIB] {
        round(bytes);
        assert_eq!(taken(|| (0..100).for_each(|_| round(bytes))), 0, "{bytes} bytes");
    }
}

#[test]
fn a_request_that_fails_by_budget_takes_no_host_memory() {
    for backing in [Backing::Segments, Backing::Range] {
        for streams in [1, 8] {
            let pools = on(1 << 30, |settings| {
                settings.backing = backing;
                settings.budget = Budget { hard_bytes: Some(64 * MIB), soft_bytes: None };
                // Waiting is the device's work, and takes what the device takes.
                (settings.stream_waits, settings.host_waits) = (false, false);
            });
            let held: Vec<_> = (0..streams).map(|s| pools.alloc(3 * MIB, 0, StreamId(s)).unwrap()).collect();
            let fail = || {
                let refused = pools.alloc(100 * MIB, 0, StreamId::DEFAULT);
                assert!(matches!(refused, Err(Error::OutOfMemory(_))));
            };
            fail();
            assert_eq!(taken(|| (0..10).for_each(|_| fail())), 0, "{backing:?}, {streams} streams");
            for ptr in held {
                pools.free(ptr, None).unwrap();
            }
        }
    }
}

#[test]
fn wrong_frees_take_no_host_memory() {
    let pools = on(1 << 30, |_| {});
    let ptr = pools.alloc(5 * MIB, 0, StreamId::DEFAULT).unwrap();
    let wrong = || {
        for ptr in [DevicePtr(1), DevicePtr(ptr.0 + 512), DevicePtr(ptr.0 + 1), DevicePtr(u64::MAX)] {
            assert!(pools.free(ptr, None).is_err());
            assert!(pools.retain(ptr).is_err());
        }
    };
    wrong();
    assert_eq!(taken(wrong), 0);
    pools.free(ptr, None).unwrap();
    let twice = || assert!(matches!(pools.free(ptr, None), Err(Error::DoubleFree { .. })));
    assert_eq!(taken(twice), 0);
}

#[test]
fn a_thread_lets_go_of_allocators_that_have_ended() {
    let one = || {
        let pools = on(1 << 30, |_| {});
        for stream in 0..3 {
            let ptr = pools.alloc(1000, 0, StreamId(stream)).unwrap();
            pools.free(ptr, None).unwrap();
        }
    };
    one();
    one();
    let before = HELD.get();
    for _ in 0..5 {
        one();
    }
    assert!(HELD.get() <= before + MIB as i64, "{} bytes are left", HELD.get() - before);
}

/// Host memory that the simulated device's own books take for as many reservations.
fn books_of_device(segments: u64, handles: u64) -> i64 {
    use device::{Device, VirtualMemory};
    let device = SimDevice::new(SimOptions::with_capacity(128 << 30)).unwrap();
    let before = HELD.get();
    for _ in 0..segments {
        device.alloc(2 * MIB).unwrap();
    }
    let range = device.reserve_range(256 << 30, 0).unwrap();
    for (number, handle) in device.create_handles(2 * MIB, handles as usize).unwrap().into_iter().enumerate() {
        let at = DevicePtr(range.start.0 + number as u64 * 2 * MIB);
        device.map(&[device::Mapping { at, handle, bytes: 2 * MIB }]).unwrap();
    }
    HELD.get() - before
}

#[test]
fn eighty_gibibytes_and_a_hundred_thousand_blocks_take_little_host_memory() {
    for backing in [Backing::Segments, Backing::Range] {
        // A thread each: what a thread keeps of an allocator that has ended goes with it.
        std::thread::spawn(move || hundred_thousand_blocks(backing)).join().unwrap();
    }
}

fn hundred_thousand_blocks(backing: Backing) {
    const BLOCKS: u64 = 100_000;
    let mut blocks = Vec::with_capacity(BLOCKS as usize);
    {
        let before = HELD.get();
        let pools = on(128 << 30, |settings| settings.backing = backing);
        for number in 0..BLOCKS {
            // Two fit into a segment, and into its pages so that each has a node.
            let bytes = (if number % 2 == 0 { 700 << 10 } else { 1_100 << 10 }) - number % 7 * 512;
            blocks.push(pools.alloc(bytes, 0, StreamId::DEFAULT).unwrap());
        }
        let figures = pools.statistics();
        let counted = HELD.get() - before - books_of_device(figures.segments, figures.handles);
        // The tables of blocks and addresses are counted with all the addresses they have.
        let tables = (1_i64 << 24) * 64 + (1 << 30) * 4 + (1 << 22) * (64 + 8) * 4;
        println!(
            "{backing:?}: {BLOCKS} blocks, live {:.1} GiB, reserved {:.1} GiB: statistics say {:.1} MiB; \
             counted {:.1} MiB besides the tables",
            figures.live.current_bytes as f64 / (1 << 30) as f64,
            figures.reserved.current_bytes as f64 / (1 << 30) as f64,
            figures.host_bytes as f64 / MIB as f64,
            (counted - tables) as f64 / MIB as f64,
        );
        assert!(figures.reserved.current_bytes >= 80 << 30);
        assert!(figures.host_bytes <= 16 * MIB, "{}", figures.host_bytes);
        assert!(counted - tables <= 16 * MIB as i64, "{counted}");
        for ptr in blocks.drain(..) {
            pools.free(ptr, None).unwrap();
        }
    }
}
