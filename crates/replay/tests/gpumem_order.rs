//! Our allocator on every shared trace, watched by the simulated device: memory that a stream may still use never goes to
//! another stream unordered.
//!
//! A `use` row is a launch on that stream where the row stands. Under the blind reading the block may be used by its home
//! stream and all users up to its free, so the device is told of work on each of them at the free as well.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;

use records::{MemoryMap, Operation, Row, Trace};
use replay::{Backing, GpumemSettings, HandOver, Outcome, Policy, Program, Reading, Settings, replay};
use support::{trace_at, traces_in};

/// Rows of a long trace that are run: streams meet in the first steps already.
const MOST_ROWS: usize = 40_000;

fn settings(gpumem: GpumemSettings) -> Settings {
    Settings { gpumem, measures_fragmentation: false, models_time: false, ..Settings::new(Policy::Gpumem) }
}

fn run(program: &Program<'_>, settings: &Settings, path: &Path) -> Outcome {
    replay(program, settings).unwrap_or_else(|error| panic!("{}, {:?}: {error}", path.display(), settings.gpumem))
}

fn check_folder(folder: &str, count: usize) {
    let Some(paths) = traces_in(folder) else { return };
    assert_eq!(paths.len(), count, "traces in {folder}");
    for path in paths {
        let mut trace = trace_at(&path);
        trace.rows.truncate(MOST_ROWS);
        check_trace(&path, &trace);
    }
}

fn check_trace(path: &Path, trace: &Trace) {
    let program = Program::new(trace, None).unwrap();
    for reading in Reading::ALL {
        for hand_over in [HandOver::Recorded, HandOver::All, HandOver::Off] {
            let gpumem = GpumemSettings { reading, hand_over, ..GpumemSettings::default() };
            let without_limit = run(&program, &Settings { checks_policy: true, ..settings(gpumem) }, path);
            assert!(without_limit.is_ok(), "{}", path.display());
            let reserved = without_limit.all.peak_reserved_bytes;
            assert!(reserved >= program.peak_live_bytes());
            // Between what it takes and what is live every stage of a shortage is gone through.
            let live = program.peak_live_bytes();
            for capacity in [live + (reserved - live) / 2, live + live / 100, live / 2] {
                run(&program, &Settings { capacity_bytes: Some(capacity), ..settings(gpumem) }, path);
            }
        }
    }
}

#[test]
fn no_memory_goes_to_unordered_work_in_any_bug_trace() {
    check_folder("traces/bugs", 19);
}

#[test]
fn no_memory_goes_to_unordered_work_in_any_synthetic_trace() {
    check_folder("traces/synthetic", 8);
}

#[test]
fn no_memory_goes_to_unordered_work_in_any_large_model_trace() {
    check_folder("traces/megatron", 4);
}

#[test]
fn no_memory_goes_to_unordered_work_in_any_recorded_trace() {
    check_folder("graphs/trace", 10);
}

#[test]
fn a_free_block_goes_to_any_stream_once_the_host_has_seen_the_whole_device_finish() {
    let row = |operation, id, stream| Row { operation, id, bytes: 8 << 20, stream, ..Row::default() };
    let reserved = |sync: i64| {
        let rows = vec![
            row(Operation::Alloc, 1, 0),
            row(Operation::Free, 1, 0),
            row(Operation::Sync, 0, sync),
            row(Operation::Alloc, 2, 1),
        ];
        let trace = Trace { rows, ..Trace::default() };
        let program = Program::new(&trace, None).unwrap();
        replay(&program, &Settings::new(Policy::Gpumem)).unwrap().all.peak_reserved_bytes
    };
    assert_eq!(reserved(Row::ALL_STREAMS), 8 << 20);
    // Of its home stream alone it isn't enough: another may use the block without anybody having said so.
    assert_eq!(reserved(0), 16 << 20);
}

#[test]
fn histories_of_shared_traces_hold_together() {
    for (folder, rows) in [("traces/bugs", MOST_ROWS), ("traces/megatron", 10_000), ("traces/synthetic", 10_000)] {
        let Some(paths) = traces_in(folder) else { return };
        for path in paths {
            let mut trace = trace_at(&path);
            trace.rows.truncate(rows);
            let program = Program::new(&trace, None).unwrap();
            for backing in [Backing::Range, Backing::Segments] {
                let gpumem = GpumemSettings { backing, ..GpumemSettings::default() };
                let capacity_bytes = Some(program.peak_live_bytes() + program.peak_live_bytes() / 20);
                for capacity_bytes in [None, capacity_bytes] {
                    let settings = Settings { capacity_bytes, keeps_history: true, ..settings(gpumem) };
                    let outcome = run(&program, &Settings { checks_policy: true, ..settings }, &path);
                    check_history(&outcome, &path);
                    // Somebody who watches changes nothing.
                    let alone = run(&program, &Settings { keeps_history: false, ..settings }, &path);
                    assert_eq!(alone.all.driver_calls, outcome.all.driver_calls, "{}", path.display());
                }
            }
        }
    }
}

fn check_history(outcome: &Outcome, path: &Path) {
    let history = &outcome.history.as_ref().unwrap().devices[0];
    let mut map = MemoryMap::new(history);
    let mut most_live = 0;
    for event in &history.events {
        map.apply(event);
        let totals = map.totals();
        assert!(totals.live <= totals.allocated && totals.allocated <= totals.active, "{}: {totals:?}", path.display());
        assert!(totals.active <= totals.reserved, "{}: {totals:?}", path.display());
        most_live = most_live.max(totals.live);
    }
    assert_eq!(map.check(), Ok(()));
    assert!(map.defects().is_empty(), "{}: {:?}", path.display(), map.defects());
    assert!(!outcome.is_ok() || most_live == outcome.all.peak_live_bytes, "{}", path.display());
}
