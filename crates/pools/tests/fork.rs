//! A forked child never touches the allocator of its parent, and neither hangs nor crashes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::result_large_err)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use device::{DevicePtr, HostDevice, HostOptions, StreamId};
use pools::{Allocator, Error, Settings};

/// Runs `child` in a forked child and returns what its process ended with; 1000 if it hangs.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY:
    // - the child runs only code that takes no lock of another thread's (which is what these tests are about), and ends
    //   by `exit`, without returning into the test harness.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: ends the child by the usual way, with its exit handlers.
        unsafe { libc::exit(answer) }
    }
    let started = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call, and the child is ours.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if ended == pid {
            return if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) };
        }
        if started.elapsed() > Duration::from_secs(20) {
            // SAFETY: the child is ours and still there: it has not been waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            return 1000;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn allocator() -> Allocator {
    let host = HostDevice::new(HostOptions::with_capacity(256 << 20)).unwrap();
    Allocator::new(Arc::new(host), Settings::default()).unwrap()
}

/// Every call answers, and says why not.
fn is_refused(pools: &Allocator, ptr: DevicePtr) -> bool {
    let stream = StreamId::DEFAULT;
    let answers = [
        pools.alloc(100, 0, stream).map(drop),
        pools.alloc(100 << 20, 0, stream).map(drop),
        pools.free(ptr, None),
        pools.free(ptr, Some(stream)),
        pools.record_use(ptr, StreamId(1)),
        pools.use_done(ptr, StreamId(1)),
        pools.retain(ptr).map(drop),
        pools.release(ptr).map(drop),
        pools.block(ptr).map(drop),
        pools.stream_wait(stream, StreamId(1)),
        pools.event_record(1, stream),
        pools.event_wait(1, stream),
        pools.event_synchronized(1),
        pools.event_destroyed(1),
        pools.stream_destroyed(StreamId(1)),
        pools.synchronized(None),
        pools.work_queued(stream),
        pools.step(),
        pools.trim(0).map(drop),
        pools.set_budget(pools::Budget::default()),
        pools.check(),
        pools.check_guards(),
    ];
    pools.on_out_of_memory(None);
    pools.on_guard_finding(None);
    pools.set_reclaim(None);
    pools.set_sink(None);
    let quiet = pools.statistics() == pools::Statistics::default() && pools.snapshot().blocks.is_empty();
    quiet && answers.iter().all(|answer| matches!(answer, Err(Error::Forked)))
}

#[test]
fn a_forked_child_is_told_so_and_ends_well_while_the_parent_goes_on() {
    let pools = allocator();
    let ptr = pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
    let kept = pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
    pools.free(kept, None).unwrap();
    let copy = pools.clone();
    let answer = in_child(move || {
        let refused = is_refused(&copy, ptr);
        // All its names go, with magazines of this thread still there.
        drop(copy);
        i32::from(!refused)
    });
    assert_eq!(answer, 0);
    assert_eq!(pools.block(ptr).unwrap().requested_bytes, 1000);
    pools.free(ptr, None).unwrap();
    pools.check().unwrap();
}

#[test]
fn a_child_forked_while_others_hold_locks_neither_hangs_nor_crashes() {
    let pools = allocator();
    let ptr = pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (pools, stop) = (&pools, &stop);
            scope.spawn(move || {
                let mut round = thread;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    let own = pools.alloc(1 + round % 40 * 100_000, 0, StreamId::DEFAULT).unwrap();
                    pools.free(own, None).unwrap();
                    match round % 64 {
                        0 => pools.check().unwrap(),
                        1 => drop(pools.statistics()),
                        2 => drop(pools.trim(0).unwrap()),
                        _ => {}
                    }
                }
            });
        }
        for round in 0..60 {
            let answer = in_child(|| i32::from(!is_refused(&pools, ptr)));
            assert_eq!(answer, 0, "fork {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    pools.free(ptr, None).unwrap();
    pools.check().unwrap();
}

#[test]
fn a_child_may_make_an_allocator_of_its_own() {
    let pools = allocator();
    let ptr = pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
    let answer = in_child(|| {
        let own = allocator();
        let ptr = own.alloc(5000, 0, StreamId::DEFAULT).unwrap();
        own.free(ptr, None).unwrap();
        own.check().unwrap();
        i32::from(own.statistics().allocs != 1)
    });
    assert_eq!(answer, 0);
    pools.free(ptr, None).unwrap();
}

#[test]
fn a_process_may_exit_while_its_threads_allocate() {
    // In a child, since it has to end.
    for _ in 0..20 {
        let answer = in_child(|| {
            let pools = allocator();
            for stream in 0..3 {
                let pools = pools.clone();
                std::thread::spawn(move || {
                    loop {
                        let ptr = pools.alloc(3000 + stream, 0, StreamId::DEFAULT).unwrap();
                        pools.free(ptr, None).unwrap();
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(2));
            7
        });
        assert_eq!(answer, 7);
    }
}
