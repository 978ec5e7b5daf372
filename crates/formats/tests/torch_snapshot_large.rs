//! A snapshot of a million events. Alone in its file, as it looks at what the process takes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/training_run.rs"]
mod training_run;

use std::time::Instant;

use formats::{Content, Limits, Output, read_path, write_snapshot};

/// The most memory this process has had, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[test]
fn a_million_events_are_read_in_bounded_memory() {
    let path = std::env::temp_dir().join(format!("gpumem-large-{}.pickle", std::process::id()));
    let (events, peak_live) = {
        let history = training_run::training_run(1_000_000, 7);
        let mut out = Output::create(&path).unwrap();
        write_snapshot(&history, &mut out).unwrap();
        out.finish().unwrap();
        (history.devices[0].events.len(), history.devices[0].end.len())
    };
    // What it took to make the file doesn't count.
    let is_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = peak_memory();
    let start = Instant::now();
    let document = read_path(&path, &Limits::default());
    let taken = start.elapsed();
    std::fs::remove_file(&path).unwrap();
    let document = document.unwrap_or_else(|error| panic!("{error}"));
    let Content::History(history) = document.content else { panic!("not a history") };
    let device = &history.devices[0];
    assert_eq!((device.events.len(), device.end.len()), (events, peak_live));
    assert!(device.defects.is_empty(), "{:?}", device.defects);
    println!("{} events, {} bytes, {taken:?}, {:?} bytes at most", events, document.text_bytes, peak_memory());
    match (is_reset, before, peak_memory()) {
        // Freed memory that the allocator kept is part of what was there before.
        (true, Some(before), Some(peak)) => assert!(peak - before.min(peak) < 300 << 20, "{before} to {peak} bytes"),
        _ => println!("not run: the memory of a process can't be asked for here"),
    }
}
