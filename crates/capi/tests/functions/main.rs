//! Every C function, called with null, with handles of another kind and destroyed ones, with wrong struct sizes, and from
//! 32 threads at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod world;

use std::collections::BTreeSet;

use calls::CALLS;
use capi::*;
use world::World;

/// Those that null is nothing to, and those that take no pointer.
const FINE_WITH_NULL: &[&str] = &[
    "gpumem_allocator_destroy",
    "gpumem_device_destroy",
    "gpumem_graph_destroy",
    "gpumem_plan_destroy",
    "gpumem_tags_destroy",
    "gpumem_notice_drop",
    "gpumem_status_name",
    "gpumem_last_error",
    "gpumem_last_error_status",
    "gpumem_version",
    "gpumem_version_text",
    "gpumem_tag_pop",
    "gpumem_tags_leave",
];

fn last_error() -> String {
    // SAFETY: never null, ends with a zero, and this thread makes no call meanwhile.
    unsafe { std::ffi::CStr::from_ptr(gpumem_last_error()) }.to_str().unwrap().to_owned()
}

#[test]
fn the_list_of_calls_is_that_of_the_header() {
    let header = include_str!("../../../../include/gpumem.h");
    let mut declared = BTreeSet::new();
    for line in header.lines().filter(|line| !line.trim_start().starts_with('*') && !line.starts_with('#')) {
        let Some(at) = line.find("gpumem_") else { continue };
        if let Some(open) = line.find('(').filter(|_| line.starts_with(|c: char| c.is_ascii_lowercase())) {
            let name = line[..open].rsplit([' ', '*']).next().unwrap();
            if at < open && name.starts_with("gpumem_") && !line.starts_with("typedef") {
                declared.insert(name);
            }
        }
    }
    let called: BTreeSet<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    assert_eq!(called, declared);
    assert_eq!(called.len(), CALLS.len(), "a function is listed twice");
}

#[test]
fn null_is_refused_where_something_is_needed_and_nothing_else_happens() {
    let world = World::of_nulls();
    for (name, call) in CALLS {
        let status = call(&world);
        if FINE_WITH_NULL.contains(name) {
            let is_fine = [GPUMEM_STATUS_OK, GPUMEM_STATUS_INVALID_STATE].contains(&status);
            assert!(is_fine, "{name} with null: {status}");
        } else {
            let refused = [GPUMEM_STATUS_INVALID_ARGUMENT, GPUMEM_STATUS_INVALID_HANDLE];
            assert!(refused.contains(&status), "{name} with null: {status}");
            assert_eq!(gpumem_last_error_status(), status, "{name}");
            assert!(last_error().contains("null"), "{name}: {}", last_error());
        }
    }
}

#[test]
fn handles_of_another_kind_and_destroyed_ones_are_told_apart() {
    let whole = World::new();
    let wrong = whole.with_handles_mixed_up();
    let gone = World::new();
    gone.destroy();
    for (world, what) in [(&wrong, "of another kind"), (&gone, "destroyed")] {
        for (name, call) in CALLS {
            let takes_handles = !world.takes_no_handle(name);
            let status = call(world);
            if takes_handles {
                assert_eq!(status, GPUMEM_STATUS_INVALID_HANDLE, "{name} with a handle {what}");
            }
        }
    }
    whole.destroy();
}

#[test]
fn unknown_struct_sizes_are_refused() {
    for change in [-8, 8, 4096, isize::MIN] {
        let world = World::new().with_size_change(change);
        let mut refused = 0;
        let uses_up = |name: &str| name.ends_with("_destroy") || name.starts_with("gpumem_notice_");
        for (name, call) in CALLS.iter().filter(|(name, _)| !uses_up(name)) {
            world.take_sized();
            let status = call(&world);
            if world.take_sized() {
                assert_eq!(status, GPUMEM_STATUS_STRUCT_SIZE, "{name} with a size that is off by {change}");
                assert!(last_error().contains("struct_size"), "{name}: {}", last_error());
                refused += 1;
            }
        }
        assert!(refused >= 15, "{refused}");
        world.destroy();
    }
}

#[test]
fn every_function_may_be_called_from_32_threads() {
    let world = World::new();
    let tokens = world.tokens();
    std::thread::scope(|scope| {
        for thread in 0..32 {
            let tokens = &tokens;
            scope.spawn(move || {
                let world = World::from_tokens(tokens);
                for round in 0..10 {
                    // Each thread begins elsewhere.
                    for index in 0..CALLS.len() {
                        let (name, call) = CALLS[(index + thread * 3) % CALLS.len()];
                        if name.ends_with("_destroy") || name == "gpumem_allocator_trace_start" {
                            continue;
                        }
                        let status = call(&world);
                        assert_ne!(status, GPUMEM_STATUS_INTERNAL, "{name} in round {round}: {}", last_error());
                        assert_ne!(status, GPUMEM_STATUS_INVALID_HANDLE, "{name} in round {round}: {}", last_error());
                    }
                }
            });
        }
    });
    // SAFETY: the handle is good, and nobody else uses it any more.
    assert_eq!(unsafe { gpumem_allocator_check(world.allocator) }, GPUMEM_STATUS_OK, "{}", last_error());
    world.destroy();
}

#[test]
fn handles_are_made_and_destroyed_by_32_threads_without_mixing_them_up() {
    std::thread::scope(|scope| {
        for thread in 0..32_u32 {
            scope.spawn(move || {
                let mut graphs = Vec::new();
                for count in 0..20 {
                    let mut graph = std::ptr::null_mut();
                    // SAFETY: all pointers are good or null.
                    unsafe {
                        assert_eq!(gpumem_graph_create(std::ptr::null(), &mut graph), GPUMEM_STATUS_OK);
                        for _ in 0..(thread + count) % 5 {
                            let mut event = 0;
                            assert_eq!(gpumem_graph_event_add(graph, std::ptr::null(), &mut event), GPUMEM_STATUS_OK);
                        }
                    }
                    graphs.push(((thread + count) % 5, graph));
                }
                for (events, graph) in graphs {
                    let mut event = 0;
                    // SAFETY: as above; the graph is destroyed once, and then refused.
                    unsafe {
                        assert_eq!(gpumem_graph_event_add(graph, std::ptr::null(), &mut event), GPUMEM_STATUS_OK);
                        assert_eq!(event, events, "another thread's graph");
                        assert_eq!(gpumem_graph_destroy(graph), GPUMEM_STATUS_OK);
                        assert_eq!(gpumem_graph_destroy(graph), GPUMEM_STATUS_INVALID_HANDLE);
                    }
                }
            });
        }
    });
}
