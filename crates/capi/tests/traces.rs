//! What a program did through the C functions is in the trace, and the reader of traces takes it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::CString;
use std::ptr;

use capi::*;
use formats::{Content, Limits, read_path};
use records::Operation;

#[test]
fn a_trace_has_requests_frees_uses_waits_and_steps_in_order() {
    let path = std::env::temp_dir().join(format!("gpumem-capi-{}.gmtrace", std::process::id()));
    let c_path = CString::new(path.to_str().unwrap()).unwrap();
    let config = gpumem_config {
        struct_size: size_of::<gpumem_config>(),
        settings: c"device=host; capacity=64M".as_ptr(),
        device: ptr::null(),
        capacity_bytes: 0,
        hard_budget_bytes: 0,
        soft_budget_bytes: 0,
        initial_bytes: 0,
        guard: 0,
        separate_precisions: 0,
    };
    let (mut allocator, mut block, mut other) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let mut tag = gpumem_tag { struct_size: size_of::<gpumem_tag>(), values: gpumem_tag_values::default() };
    // SAFETY: all pointers are good or null.
    unsafe {
        let ok = |status| assert_eq!(status, GPUMEM_STATUS_OK);
        ok(gpumem_op_number(c"softmax".as_ptr(), &mut tag.values.op));
        ok(gpumem_allocator_create(ptr::null(), &config, &mut allocator));
        ok(gpumem_allocator_trace_start(allocator, c_path.as_ptr()));
        ok(gpumem_allocator_alloc_tagged(allocator, 5000, 0, 0, &tag, &mut block));
        ok(gpumem_allocator_record_use(allocator, block, 7));
        ok(gpumem_allocator_stream_waited(allocator, 7, 0));
        ok(gpumem_allocator_free(allocator, block, GPUMEM_STREAM_HOME));
        ok(gpumem_allocator_step(allocator));
        ok(gpumem_allocator_alloc(allocator, 6000, 0, 0, &mut other));
        ok(gpumem_allocator_synchronized(allocator, GPUMEM_STREAM_ALL));
        ok(gpumem_allocator_free(allocator, other, GPUMEM_STREAM_HOME));
        let refused = gpumem_allocator_alloc(allocator, 1 << 30, 0, 0, &mut other);
        assert_eq!(refused, GPUMEM_STATUS_OUT_OF_MEMORY);
        ok(gpumem_allocator_trace_stop(allocator));
        ok(gpumem_allocator_destroy(allocator));
    }
    let document = read_path(&path, &Limits::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let Content::Trace(trace) = document.content else { panic!("a trace") };
    assert!(!trace.is_cut);
    let told: Vec<_> = trace
        .rows
        .iter()
        .filter(|row| !matches!(row.operation, Operation::SegmentAlloc | Operation::SegmentFree))
        .map(|row| (row.operation, row.bytes, row.stream))
        .collect();
    assert_eq!(
        told,
        [
            (Operation::Alloc, 5000, 0),
            (Operation::Use, 0, 7),
            (Operation::Wait, 0, 0),
            (Operation::Free, 5000, 0),
            (Operation::Step, 0, 0),
            (Operation::Alloc, 6000, 0),
            (Operation::Sync, 0, -1),
            (Operation::Free, 6000, 0),
            (Operation::OutOfMemory, 1 << 30, 0),
        ]
    );
    assert_eq!(trace.names.get(trace.rows.iter().find(|row| row.bytes == 5000).unwrap().tag), "softmax");
}
