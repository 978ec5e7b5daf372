//! Traces for Perfetto: whatever the history, the JSON is whole, in order, and of a size that can be opened.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use formats::{Content, Limits, read_path, write_chrome};
use records::{Action, Annotation, DeviceHistory, Event, Frame, History, MemoryMap, Stage};
use serde_json::Value;
use support::{files, root, shared};

struct Written {
    entries: Vec<Value>,
    bytes: usize,
}

/// Writes, parses and checks what holds for every file.
fn written(history: &History) -> Written {
    let mut text = Vec::new();
    write_chrome(history, &mut text).unwrap();
    let whole: Value = serde_json::from_slice(&text).unwrap();
    let entries = whole["traceEvents"].as_array().unwrap().clone();
    let ns = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut lane_ends: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry["ph"] != "M") {
        let (pid, ts) = (entry["pid"].as_u64().unwrap(), ns(&entry["ts"]));
        let before = last.insert(pid, ts).unwrap_or_default();
        assert!(ts >= before, "time runs backwards at {entry}");
        match entry["ph"].as_str().unwrap() {
            "X" => {
                let lane = lane_ends.entry((pid, entry["tid"].as_u64().unwrap())).or_default();
                assert!(ts >= *lane, "{entry} begins before {lane}, when its lane is free");
                *lane = ts + ns(&entry["dur"]);
            }
            "C" => assert!(entry["args"]["bytes"].is_u64()),
            "i" => assert_eq!(entry["s"], "p"),
            other => panic!("{other}"),
        }
    }
    Written { entries, bytes: text.len() }
}

fn of_kind<'a>(written: &'a Written, kind: &str) -> Vec<&'a Value> {
    written.entries.iter().filter(|entry| entry["ph"] == kind).collect()
}

fn peak(written: &Written, name: &str) -> u64 {
    let sums = of_kind(written, "C").into_iter().filter(|entry| entry["name"] == name);
    sums.map(|entry| entry["args"]["bytes"].as_u64().unwrap()).max().unwrap()
}

fn event(action: Action, address: u64, bytes: u64, time_ns: u64) -> Event {
    Event { action, address, bytes, time_ns, ..Event::default() }
}

#[test]
fn blocks_sums_marks_and_names_are_all_there() {
    let mut history = History { name: "run \"1\"".to_owned(), ..History::default() };
    let tag = history.names.intern("conv </script>");
    let (function, file) = (history.names.intern("forward"), history.names.intern("model.py"));
    let frame = history.stacks.intern_frame(Frame { function, file, line: 7 });
    let stack = history.stacks.intern(&[frame]);
    let events = vec![
        event(Action::SegmentAlloc, 0x1000, 8192, 5_000),
        Event { tag, ..event(Action::Alloc, 0x1000, 1000, 6_000) },
        Event { stack, ..event(Action::Alloc, 0x2000, 2000, 6_500) },
        event(Action::FreeRequested, 0x1000, 1000, 7_000),
        event(Action::FreeCompleted, 0x1000, 1000, 9_000),
        event(Action::OutOfMemory, 0, 77, 9_001),
        event(Action::Step, 0, 0, 9_002),
    ];
    history.devices.push(DeviceHistory { device: 3, granule_bytes: 512, events, ..DeviceHistory::default() });
    let epoch = history.names.intern("epoch");
    let mark = |stage, time_ns| Annotation { stage, name: epoch, device: 3, time_ns };
    history.annotations.extend([mark(Stage::Start, 5_500), mark(Stage::Start, 6_000), mark(Stage::End, 8_000)]);
    let written = written(&history);
    let blocks: Vec<&Value> =
        of_kind(&written, "X").into_iter().filter(|entry| entry["args"]["address"].is_string()).collect();
    assert_eq!(blocks[0]["name"], "conv </script>");
    assert_eq!(
        (&blocks[0]["ts"], &blocks[0]["dur"], &blocks[0]["args"]["pending"]),
        (&1.0.into(), &3.0.into(), &2.0.into())
    );
    assert_eq!(blocks[1]["name"], "forward (model.py:7)");
    assert_eq!(blocks[1]["args"]["requested_bytes"], 2000);
    assert_eq!((peak(&written, "live"), peak(&written, "allocated"), peak(&written, "reserved")), (3000, 3072, 8192));
    let marks: Vec<&str> = of_kind(&written, "i").iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(marks, ["out of memory: 77 bytes asked for", "step"]);
    assert_eq!(of_kind(&written, "X").iter().filter(|entry| entry["name"] == "epoch").count(), 2);
    assert_eq!(of_kind(&written, "M")[0]["args"]["name"], "device 3: run \"1\"");
}

#[test]
fn real_snapshots_are_written_with_their_peaks() {
    let mut paths = vec![root().join("crates/formats/tests/data/cuda-gpt-medium-512-inference.pickle.gz")];
    if let Some(folder) = shared("graphs/snapshot") {
        paths.extend(files(&folder, ".pickle.gz"));
    }
    for path in paths {
        let Content::History(history) = read_path(&path, &Limits::default()).unwrap().content else { panic!() };
        let written = written(&history);
        for device in history.devices.iter().filter(|device| !device.events.is_empty()) {
            let mut map = MemoryMap::new(device);
            let reserved = device.events.iter().map(|event| {
                map.apply(event);
                map.totals().reserved
            });
            assert!(peak(&written, "reserved") >= reserved.max().unwrap(), "{}", path.display());
        }
        println!("{} bytes for {}", written.bytes, path.display());
    }
}

#[test]
fn a_million_events_stay_small_enough_to_open() {
    let mut events = vec![event(Action::SegmentAlloc, 0, 1 << 40, 1)];
    for number in 0..500_000_u64 {
        let address = (number % 1000) << 20;
        let bytes = 1 + number * 7919 % (1 << 20);
        if number >= 1000 {
            events.push(event(Action::FreeCompleted, address, 0, 10 * number));
        }
        events.push(event(Action::Alloc, address, bytes, 10 * number + 5));
    }
    // One moment above all others.
    events.insert(600_000, event(Action::Alloc, 1 << 35, 1 << 35, 3_000_000));
    events.insert(600_001, event(Action::FreeCompleted, 1 << 35, 1 << 35, 3_000_000));
    let device = DeviceHistory { granule_bytes: 512, events, ..DeviceHistory::default() };
    let history = History { devices: vec![device], ..History::default() };
    let start = std::time::Instant::now();
    let written = written(&history);
    println!("{} bytes in {:.2} s", written.bytes, start.elapsed().as_secs_f64());
    assert!(peak(&written, "live") > 1 << 35, "the moment was lost");
    assert!(written.bytes < 24 << 20, "{}", written.bytes);
    let blocks = of_kind(&written, "X").len();
    assert!((10_000..=20_000).contains(&blocks), "{blocks}");
}

#[test]
fn a_history_without_times_or_events_is_written_too() {
    written(&History::default());
    let untimed = DeviceHistory {
        events: vec![event(Action::Alloc, 0, 8, 0), event(Action::FreeCompleted, 0, 8, 0)],
        ..DeviceHistory::default()
    };
    let backwards = DeviceHistory {
        device: 1,
        events: vec![
            event(Action::Alloc, 0, 8, 900),
            event(Action::FreeCompleted, 0, 8, 5),
            event(Action::Alloc, 0, u64::MAX, 7),
        ],
        ..DeviceHistory::default()
    };
    let written = written(&History {
        devices: vec![untimed, backwards, DeviceHistory { device: 2, ..DeviceHistory::default() }],
        ..History::default()
    });
    assert_eq!(of_kind(&written, "X")[0]["dur"], 1.0);
}
