//! Nothing unwinds into the program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use capi::*;

static CALLS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C-unwind" fn panics(_: *const gpumem_shortage, _: *mut c_void) -> i32 {
    CALLS.fetch_add(1, Ordering::Relaxed);
    panic!("the callback of a test")
}

#[test]
fn a_callback_that_panics_counts_as_one_that_says_no() {
    let mut allocator = ptr::null_mut();
    let mut block = ptr::null_mut();
    let mut config = gpumem_config {
        struct_size: size_of::<gpumem_config>(),
        settings: ptr::null(),
        device: c"sim".as_ptr(),
        capacity_bytes: 64 << 20,
        hard_budget_bytes: 0,
        soft_budget_bytes: 0,
        initial_bytes: 0,
        guard: 0,
        separate_precisions: 0,
    };
    config.guard = GPUMEM_OFF;
    // SAFETY: all pointers are good or null; the callback needs no data.
    unsafe {
        assert_eq!(gpumem_allocator_create(ptr::null(), &config, &mut allocator), GPUMEM_STATUS_OK);
        let set = gpumem_allocator_on_out_of_memory(allocator, Some(panics), ptr::null_mut(), None);
        assert_eq!(set, GPUMEM_STATUS_OK);
        let status = gpumem_allocator_alloc(allocator, 100 << 20, 0, 0, &mut block);
        assert_eq!(status, GPUMEM_STATUS_OUT_OF_MEMORY);
        assert!(CStr::from_ptr(gpumem_last_error()).to_str().unwrap().contains("out of memory"));
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        // As before, and the next small request works.
        assert_eq!(gpumem_allocator_check(allocator), GPUMEM_STATUS_OK);
        assert_eq!(gpumem_allocator_alloc(allocator, 1 << 20, 0, 0, &mut block), GPUMEM_STATUS_OK);
        assert_eq!(gpumem_allocator_free(allocator, block, GPUMEM_STREAM_HOME), GPUMEM_STATUS_OK);
        assert_eq!(gpumem_allocator_destroy(allocator), GPUMEM_STATUS_OK);
    }
}

unsafe extern "C-unwind" fn panics_while_planning(_: *const gpumem_plan_progress, _: *mut c_void) -> i32 {
    panic!("the callback of a test")
}

#[test]
fn a_panic_while_planning_is_a_status() {
    let buffer = gpumem_buffer { birth: 0, death: 1, bytes: 64, alignment: 0, fixed_offset: GPUMEM_UNSET };
    let options = gpumem_plan_options {
        struct_size: size_of::<gpumem_plan_options>(),
        node_limit: 0,
        time_limit_ns: 0,
        capacity_bytes: 0,
        alignment: 0,
        seed: 0,
        progress: Some(panics_while_planning),
        progress_data: ptr::null_mut(),
        threads: 1,
        order: 0,
    };
    let mut plan = ptr::null_mut();
    // SAFETY: all pointers are good; the callback needs no data.
    unsafe {
        let status = gpumem_plan_create_for_buffers(&buffer, 1, size_of::<gpumem_buffer>(), &options, &mut plan);
        assert_eq!(status, GPUMEM_STATUS_INTERNAL);
        assert!(CStr::from_ptr(gpumem_last_error()).to_str().unwrap().contains("the callback of a test"));
    }
    assert!(plan.is_null());
}

#[test]
fn a_child_of_a_fork_gets_a_status() {
    let mut allocator = ptr::null_mut();
    let mut block: *mut c_void = ptr::null_mut();
    // SAFETY: all pointers are good or null. The child makes only calls that take no lock of another thread's, and ends
    // without running anything of the parent's.
    unsafe {
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
        assert_eq!(gpumem_allocator_create(ptr::null(), &config, &mut allocator), GPUMEM_STATUS_OK);
        assert_eq!(gpumem_allocator_alloc(allocator, 64, 0, 0, &mut block), GPUMEM_STATUS_OK);
        let path = std::env::temp_dir().join(format!("gpumem-fork-{}.gmtrace", libc::getpid()));
        let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        assert_eq!(gpumem_allocator_trace_start(allocator, path.as_ptr()), GPUMEM_STATUS_OK);
        let written = std::fs::metadata(path.to_str().unwrap()).unwrap().len();
        let child = libc::fork();
        if child == 0 {
            let mut other = ptr::null_mut();
            let answers = [
                gpumem_allocator_alloc(allocator, 64, 0, 0, &mut other),
                gpumem_allocator_free(allocator, block, GPUMEM_STREAM_HOME),
                gpumem_allocator_step(allocator),
                gpumem_allocator_trace_stop(allocator),
            ];
            let is_gone = gpumem_allocator_destroy(allocator) == GPUMEM_STATUS_OK;
            libc::_exit(i32::from(answers != [GPUMEM_STATUS_FORKED; 4] || !is_gone));
        }
        let mut ended = 0;
        assert_eq!(libc::waitpid(child, &mut ended, 0), child);
        assert!(libc::WIFEXITED(ended) && libc::WEXITSTATUS(ended) == 0, "{ended:#x}");
        // The trace is as the parent left it, and goes on.
        assert_eq!(std::fs::metadata(path.to_str().unwrap()).unwrap().len(), written);
        assert_eq!(gpumem_allocator_trace_stop(allocator), GPUMEM_STATUS_OK);
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        assert_eq!(gpumem_allocator_free(allocator, block, GPUMEM_STREAM_HOME), GPUMEM_STATUS_OK);
        assert_eq!(gpumem_allocator_destroy(allocator), GPUMEM_STATUS_OK);
    }
}
