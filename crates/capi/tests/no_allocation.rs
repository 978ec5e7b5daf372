//! Handing out and taking back blocks that are at hand, and saying what went wrong, takes no host memory: counted by an
//! allocator that counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use capi::*;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator; counting takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller keeps what `System` asks.
        unsafe { System.alloc(layout) }
    }

    // Large tables are zeroed memory that nobody touches.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Host allocations and frees of this thread while `work` runs.
fn counted(work: impl FnOnce()) -> u64 {
    let before = CALLS.with(Cell::get);
    work();
    CALLS.with(Cell::get) - before
}

fn allocator() -> *mut gpumem_allocator {
    let mut config = gpumem_config {
        struct_size: size_of::<gpumem_config>(),
        settings: c"device=sim; capacity=1G".as_ptr(),
        device: ptr::null(),
        capacity_bytes: GPUMEM_UNSET,
        hard_budget_bytes: GPUMEM_UNSET,
        soft_budget_bytes: GPUMEM_UNSET,
        initial_bytes: GPUMEM_UNSET,
        guard: 0,
        separate_precisions: 0,
    };
    config.initial_bytes = 64 << 20;
    let mut allocator = ptr::null_mut();
    // SAFETY: all pointers are good.
    assert_eq!(unsafe { gpumem_allocator_create(ptr::null(), &config, &mut allocator) }, GPUMEM_STATUS_OK);
    allocator
}

fn alloc(allocator: *const gpumem_allocator, bytes: u64) -> *mut c_void {
    let mut block = ptr::null_mut();
    // SAFETY: the handle and the place are good.
    assert_eq!(unsafe { gpumem_allocator_alloc(allocator, bytes, 0, 0, &mut block) }, GPUMEM_STATUS_OK);
    block
}

fn free(allocator: *const gpumem_allocator, block: *mut c_void) {
    // SAFETY: the handle is good.
    assert_eq!(unsafe { gpumem_allocator_free(allocator, block, GPUMEM_STREAM_HOME) }, GPUMEM_STATUS_OK);
}

#[test]
fn blocks_come_and_go_without_host_memory() {
    let allocator = allocator();
    let sizes = [512_u64, 4096, 100_000, 1 << 20, 3 << 20, 9 << 20];
    let round = || {
        let mut blocks = [ptr::null_mut(); 6];
        for (block, bytes) in blocks.iter_mut().zip(sizes) {
            *block = alloc(allocator, bytes);
        }
        for block in blocks {
            free(allocator, block);
        }
    };
    for _ in 0..50 {
        round();
    }
    assert_eq!(counted(|| (0..2000).for_each(|_| round())), 0);
    // SAFETY: the handle is good.
    unsafe { gpumem_allocator_destroy(allocator) };
}

#[test]
fn saying_what_went_wrong_takes_no_host_memory() {
    let allocator = allocator();
    let live = alloc(allocator, 5000);
    let mut nothing = ptr::null_mut();
    let mut wrong = || {
        // SAFETY: the handle and the place are good; the other pointers are wrong in ways that are told.
        unsafe {
            let inside = live.cast::<u8>().wrapping_add(512).cast();
            [
                gpumem_allocator_alloc(allocator, 64, 0, 0, ptr::null_mut()),
                gpumem_allocator_alloc(ptr::null(), 64, 0, 0, &mut nothing),
                gpumem_allocator_alloc(allocator, 64, 3, 0, &mut nothing),
                gpumem_allocator_alloc(allocator, 1 << 63, 0, 0, &mut nothing),
                gpumem_allocator_free(allocator, inside, GPUMEM_STREAM_HOME),
                gpumem_allocator_free(allocator, ptr::without_provenance_mut(77), GPUMEM_STREAM_HOME),
            ]
        }
    };
    let expected = [
        GPUMEM_STATUS_INVALID_ARGUMENT,
        GPUMEM_STATUS_INVALID_HANDLE,
        GPUMEM_STATUS_INVALID_ARGUMENT,
        GPUMEM_STATUS_INVALID_ARGUMENT,
        GPUMEM_STATUS_INTERIOR_POINTER,
        GPUMEM_STATUS_FOREIGN_POINTER,
    ];
    assert_eq!(wrong(), expected);
    assert_eq!(counted(|| assert_eq!(wrong(), expected)), 0);
    free(allocator, live);
    // SAFETY: the handle is good.
    unsafe { gpumem_allocator_destroy(allocator) };
}

/// The search for bytes before a request fails may take some; saying that it failed takes none.
#[test]
fn running_out_is_told_in_full() {
    let allocator = allocator();
    let held = alloc(allocator, 700 << 20);
    let mut nothing = ptr::null_mut();
    // SAFETY: the handle and the place are good; the text ends with a zero, and no call is made while it is looked at.
    let text = unsafe {
        let status = gpumem_allocator_alloc(allocator, 600 << 20, 0, 0, &mut nothing);
        assert_eq!(status, GPUMEM_STATUS_OUT_OF_MEMORY);
        std::ffi::CStr::from_ptr(gpumem_last_error()).to_str().unwrap()
    };
    assert!(nothing.is_null());
    for part in ["600.00 MiB", "Largest free block", "Live by tier", "Largest holders", "What would help"] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    free(allocator, held);
    // SAFETY: the handle is good.
    unsafe { gpumem_allocator_destroy(allocator) };
}
