//! A snapshot of a million events. Alone in its file, as it looks at what the process takes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/training_run.rs"]
mod training_run;

use std::time::Instant;

use formats::{Content, Limits, Output, read_bytes, read_path, write_snapshot};
use records::{Action, DeviceHistory, Event, Frame, FrameId, History};

/// The most memory this process has had, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[test]
fn a_million_events_are_read_in_bounded_memory() {
    let path = std::env::temp_dir().join(format!("gpumem-large-{}.pickle", std::process::id()));
    let (events, segments) = {
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
    assert_eq!((device.events.len(), device.end.len()), (events, segments));
    assert!(device.defects.is_empty(), "{:?}", device.defects);
    println!("{} events, {} bytes, {taken:?}, {:?} bytes at most", events, document.text_bytes, peak_memory());
    match (is_reset, before, peak_memory()) {
        // Freed memory that the allocator kept is part of what was there before.
        (true, Some(before), Some(peak)) => assert!(peak - before.min(peak) < 150 << 20, "{before} to {peak} bytes"),
        _ => println!("not run: the memory of a process can't be asked for here"),
    }
    a_million_distinct_stacks();
}

/// As hostile as a file can be to tables: every event has a stack of its own.
fn a_million_distinct_stacks() {
    const SIDE: u32 = 1000;
    let mut history = History::default();
    let frames: Vec<FrameId> =
        (0..SIDE).map(|line| history.stacks.intern_frame(Frame { line, ..Frame::default() })).collect();
    let mut device = DeviceHistory { granule_bytes: 512, ..DeviceHistory::default() };
    for (index, pair) in (0..SIDE).flat_map(|a| (0..SIDE).map(move |b| [a, b])).enumerate() {
        let stack = history.stacks.intern(&pair.map(|line| frames[line as usize]));
        let event = Event { address: 512 * (index as u64 % 7), bytes: 1, stack, ..Event::default() };
        let action = if index % 14 < 7 { Action::Alloc } else { Action::FreeCompleted };
        device.events.push(Event { action, ..event });
    }
    history.devices.push(device);
    let mut bytes = Vec::new();
    write_snapshot(&history, &mut bytes).unwrap();
    drop(history);
    let document = read_bytes("f", &bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    let Content::History(history) = document.content else { panic!("not a history") };
    assert_eq!(history.stacks.len(), (SIDE * SIDE) as usize);
    assert_eq!(history.devices[0].events.len(), (SIDE * SIDE) as usize);
}
