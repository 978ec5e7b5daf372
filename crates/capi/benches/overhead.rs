//! What a call from C costs over the same call from Rust: one pair of alloc and free, both ways, interleaved.
//!
//! `cargo bench -p capi --bench overhead` calls the C functions in this program; with `GPUMEM_LIBRARY` naming a
//! `libgpumem.so` it calls those in there, as a program in C does. Prints thread CPU time; each way is the lowest of 15.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::ptr;

use capi::*;
use device::StreamId;
use runtime::{Configuration, Instance};

type Create = unsafe extern "C" fn(*const gpumem_device, *const gpumem_config, *mut *mut gpumem_allocator) -> i32;
type Alloc = unsafe extern "C" fn(*const gpumem_allocator, u64, u64, u64, *mut *mut c_void) -> i32;
type Free = unsafe extern "C" fn(*const gpumem_allocator, *mut c_void, u64) -> i32;

const PAIRS: u64 = 200_000;
const ROUNDS: usize = 15;

/// CPU time of this thread, in ns.
fn now_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is good.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn per_pair(mut pair: impl FnMut()) -> f64 {
    let start = now_ns();
    for _ in 0..PAIRS {
        pair();
    }
    (now_ns() - start) / PAIRS as f64
}

/// A function of the library, as its address.
fn symbol(library: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: the library is open, and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null());
    found
}

fn functions() -> (Create, Alloc, Free) {
    let Some(path) = std::env::var_os("GPUMEM_LIBRARY") else {
        return (gpumem_allocator_create, gpumem_allocator_alloc, gpumem_allocator_free);
    };
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero; libgpumem's start-up code does nothing.
    let library = unsafe { libc::dlopen(path.as_ptr().cast::<c_char>(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "can't open {path:?}");
    let [create, alloc, free] =
        ["create", "alloc", "free"].map(|name| symbol(library, &format!("gpumem_allocator_{name}")));
    // SAFETY: the header declares them so.
    unsafe {
        (
            std::mem::transmute::<*mut c_void, Create>(create),
            std::mem::transmute::<*mut c_void, Alloc>(alloc),
            std::mem::transmute::<*mut c_void, Free>(free),
        )
    }
}

fn main() {
    let (create, alloc, free) = functions();
    let instance = Instance::new(Configuration::resolve("device=sim", &[], &|_| None).unwrap()).unwrap();
    let rust = instance.allocator();
    let config = gpumem_config {
        struct_size: size_of::<gpumem_config>(),
        settings: c"device=sim".as_ptr(),
        device: ptr::null(),
        capacity_bytes: 0,
        hard_budget_bytes: 0,
        soft_budget_bytes: 0,
        initial_bytes: 0,
        guard: 0,
        separate_precisions: 0,
    };
    let mut c = ptr::null_mut();
    // SAFETY: all pointers are good or null.
    assert_eq!(unsafe { create(ptr::null(), &config, &mut c) }, GPUMEM_STATUS_OK);
    for bytes in [4096_u64, 3 << 20] {
        let mut lowest = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            let from_rust = per_pair(|| {
                let block = rust.alloc(black_box(bytes), 0, StreamId(0)).unwrap();
                rust.free(black_box(block), None).unwrap();
            });
            let from_c = per_pair(|| {
                let mut block = ptr::null_mut();
                // SAFETY: the handle and the place are good.
                unsafe {
                    assert_eq!(alloc(black_box(c), black_box(bytes), 0, 0, &mut block), GPUMEM_STATUS_OK);
                    assert_eq!(free(black_box(c), black_box(block), GPUMEM_STREAM_HOME), GPUMEM_STATUS_OK);
                }
            });
            lowest = [lowest[0].min(from_rust), lowest[1].min(from_c)];
        }
        let [from_rust, from_c] = lowest;
        println!(
            "{bytes} bytes: alloc and free {from_rust:.1} ns from Rust, {from_c:.1} ns from C, {:.1} ns more a call",
            (from_c - from_rust) / 2.0
        );
    }
}
