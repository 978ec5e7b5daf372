//! `gpumem diff`, as a person runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use support::snapshots::{event, frame, pickle, snapshot};
use support::{Folder, shared, text_of};

/// Allocs of (line, tag, bytes), then a free of the first.
fn run(blocks: &[(u32, &str, u64)]) -> Vec<u8> {
    let mut events = Vec::new();
    for (index, (line, tag, bytes)) in blocks.iter().enumerate() {
        let mut alloc =
            event("alloc", (index as u64 + 1) << 30, *bytes, 0, vec![frame("forward", "net/layer.py", *line)]);
        alloc["user_metadata"] = Value::from(*tag);
        events.push(alloc);
    }
    for action in ["free_requested", "free_completed"] {
        events.push(event(action, 1 << 30, blocks[0].2, 0, vec![]));
    }
    pickle(&snapshot(events, vec![]))
}

#[test]
fn what_grew_is_told_by_stack_and_by_tag() {
    let folder = Folder::new();
    folder.write("a.pickle", run(&[(10, "x", 100), (20, "y", 1000), (30, "y", 50)]));
    // Line 20 has moved to 25, line 30 is gone, line 99 is new.
    folder.write("b.pickle", run(&[(10, "x", 150), (25, "y", 4000), (25, "y", 4000)]));
    let ran = folder.run("diff a.pickle b.pickle --json diff.json").ok();
    let found = folder.json("diff.json");
    assert_eq!(found["format"], "gpumem-diff/1");
    let side = |name: &str| {
        let side = &found[name];
        (side["peak_live_bytes"].as_u64(), side["end_live_bytes"].as_u64(), side["requests"].as_u64())
    };
    assert_eq!(side("before"), (Some(1150), Some(1050), Some(3)));
    assert_eq!(side("after"), (Some(8150), Some(8000), Some(3)));
    let told = |kind: &str| -> Vec<(String, i64, bool)> {
        let listed = found[kind]["listed"].as_array().unwrap().iter();
        listed
            .map(|change| {
                let label = change["label"]
                    .as_str()
                    .map_or_else(|| change["label"]["calls"][0].as_str().unwrap().to_owned(), str::to_owned);
                (label, change["change_bytes"].as_i64().unwrap(), change["lines_moved"] == true)
            })
            .collect()
    };
    let at = |line: u32| format!("forward net/layer.py:{line}");
    assert_eq!(told("by_stack"), [(at(25), 7000, true), (at(10), 50, false), (at(30), -50, false)]);
    assert_eq!(told("by_tag"), [("y".to_owned(), 6950, false), ("x".to_owned(), 50, false)]);
    assert!(ran.stdout.contains("+6.836 KiB") && ran.stdout.contains("(lines moved)"), "{}", ran.stdout);
    // At the end the first block of each is gone.
    folder.run("diff a.pickle b.pickle --at end --json end.json").ok();
    let end = folder.json("end.json");
    assert_eq!((end["before"]["live_bytes"].as_u64(), end["after"]["live_bytes"].as_u64()), (Some(1050), Some(8000)));
}

#[test]
fn a_run_is_equal_to_itself() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let path = text_of(&folder.join("synthetic-features.pickle.gz"));
    let ran = support::gpumem(["diff", &path, &path]).ok();
    assert!(ran.stdout.contains("none of 3 groups changed"), "{}", ran.stdout);
}

#[test]
fn real_runs_differ_by_what_their_context_length_makes_larger() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let path = |length: u32| text_of(&folder.join(format!("cuda-gpt-medium-{length}-training.pickle.gz")));
    let ran = support::gpumem(["diff", &path(128), &path(1024), "--json", "-"]).ok();
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let peaks = [&found["before"], &found["after"]].map(|side| side["peak_live_bytes"].as_u64().unwrap());
    assert_eq!(peaks, [7_013_335_044, 24_207_167_496]);
    let changes = found["by_stack"]["listed"].as_array().unwrap();
    let sum: i64 = changes.iter().map(|change| change["change_bytes"].as_i64().unwrap()).sum();
    assert_eq!(sum + found["by_stack"]["rest_bytes"].as_i64().unwrap(), peaks[1] as i64 - peaks[0] as i64);
    // Attention scores grow with the square of the length.
    assert!(changes[0]["label"]["calls"][0].as_str().unwrap().starts_with("softmax "), "{}", changes[0]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = Folder::new();
    folder.write("a.pickle", run(&[(10, "x", 100)]));
    assert!(folder.run("diff a.pickle missing.pickle").refusal().contains("missing.pickle"));
    assert!(folder.run("diff a.pickle a.pickle --device 4").refusal().contains("device 4"));
    assert_eq!(folder.run("diff a.pickle").code, 2);
    assert_eq!(folder.run("diff a.pickle a.pickle --at middle").code, 2);
}
