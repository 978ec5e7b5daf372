//! Every shared trace on our allocator over real memory, with the contents of all blocks checked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use formats::{Content, Limits, read_path};
use pools::{Backing, HandOver};
use records::{Operation, Row, Trace};
use replay::{ContentSettings, Error, GpumemSettings, Program, check_contents};

/// Peak live after scaling: what a test machine can spare.
const MOST_LIVE: u64 = 64 << 20;
/// Rows of a trace that are run.
const MOST_ROWS: usize = 3_000;

fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("GPUMEM_SHARED").map_or(beside, PathBuf::from);
    folder.join("traces").is_dir().then_some(folder)
}

fn traces(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for sub in ["traces/bugs", "traces/synthetic", "traces/megatron", "graphs/trace"] {
        let Ok(entries) = std::fs::read_dir(folder.join(sub)) else { continue };
        found.extend(
            entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.to_str().is_some_and(|name| name.ends_with(".csv") || name.ends_with(".csv.gz"))),
        );
    }
    found.sort();
    found
}

fn settings(program: &Program<'_>, backing: Backing, hand_over: HandOver) -> ContentSettings {
    let mut settings = ContentSettings::default();
    settings.scale = program.peak_live_bytes().div_ceil(MOST_LIVE).max(1);
    settings.capacity_bytes = Some(2 << 30);
    settings.gpumem = GpumemSettings { backing, hand_over, ..GpumemSettings::default() };
    settings
}

#[test]
fn every_shared_trace_finds_its_own_bytes_in_every_block() {
    let Some(folder) = shared() else {
        println!("not run: shared data absent");
        return;
    };
    let mut checked = 0;
    for (number, path) in traces(&folder).iter().enumerate() {
        let Ok(document) = read_path(path, &Limits::default()) else { continue };
        let Content::Trace(mut trace) = document.content else { continue };
        trace.rows.truncate(MOST_ROWS);
        let program = Program::new(&trace, None).unwrap();
        let backing = if number % 2 == 0 { Backing::Range } else { Backing::Segments };
        let hand_over = if number % 3 == 0 { HandOver::All } else { HandOver::Recorded };
        let outcome = check_contents(&program, &settings(&program, backing, hand_over), &mut |_| {});
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(outcome.failed, None, "{}", path.display());
        assert!(outcome.places >= outcome.blocks);
        checked += 1;
    }
    assert!(checked > 20, "{checked} traces were found");
}

/// A block that a slow stream still writes while its home hands the memory out again.
fn racing() -> Trace {
    let row = |operation, id, bytes, stream| Row { operation, id, bytes, stream, ..Row::default() };
    let mut rows = Vec::new();
    for id in 0..40 {
        rows.push(row(Operation::Alloc, id, 2 << 20, 0));
        // More work than home has, so that this stream falls behind.
        rows.extend([row(Operation::Use, id, 0, 1); 6]);
        rows.push(row(Operation::Free, id, 0, 0));
    }
    Trace { rows, ..Trace::default() }
}

#[test]
fn memory_that_goes_to_another_use_too_early_is_found() {
    let trace = racing();
    let program = Program::new(&trace, None).unwrap();
    let mut settings = settings(&program, Backing::Auto, HandOver::All);
    settings.scale = 1;
    settings.longest_us = 100;
    settings.capacity_bytes = Some(4 << 30);
    let told = check_contents(&program, &settings, &mut |_| {}).unwrap();
    assert_eq!((told.failed, told.blocks), (None, 40));
    settings.forgets_uses = true;
    let found = check_contents(&program, &settings, &mut |_| {});
    assert!(matches!(found, Err(Error::Contents { .. })), "{found:?}");
}
