//! `gpumem explain-oom`, as a person runs it: each kind of death made on purpose.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use support::snapshots::{event, frame, out_of_memory, pickle, segment, snapshot};
use support::{Folder, shared, text_of};

const MIB: u64 = 1 << 20;
const BASE: u64 = 1 << 32;

/// One segment of 100 MiB with 4 MiB live in its middle, then a request of 60 MiB with so much left on the device.
fn one_segment(request_mib: u64, left_mib: u64, state: &str, segment_stream: u64) -> Value {
    let half = BASE + 48 * MIB;
    let by = |line| vec![frame("forward", "net/layer.py", line)];
    let mut events = vec![
        event("segment_alloc", BASE, 100 * MIB, segment_stream, vec![]),
        event("alloc", BASE, 48 * MIB, segment_stream, by(1)),
        event("alloc", half, 4 * MIB, segment_stream, by(2)),
        event("alloc", half + 4 * MIB, 48 * MIB, segment_stream, by(3)),
        event("free_requested", BASE, 48 * MIB, segment_stream, vec![]),
        event("free_requested", half + 4 * MIB, 48 * MIB, segment_stream, vec![]),
    ];
    if state == "inactive" {
        events.push(event("free_completed", BASE, 48 * MIB, segment_stream, vec![]));
        events.push(event("free_completed", half + 4 * MIB, 48 * MIB, segment_stream, vec![]));
    }
    events.push(out_of_memory(request_mib * MIB, left_mib * MIB, 0, by(9)));
    let asked = if state == "inactive" { 0 } else { 48 * MIB };
    let blocks = [(48 * MIB, asked, state), (4 * MIB, 4 * MIB, "active_allocated"), (48 * MIB, asked, state)];
    snapshot(events, vec![segment(BASE, segment_stream, &blocks)])
}

fn explained(folder: &Folder, snapshot: &Value, options: &str) -> (Value, String) {
    folder.write("run.pickle", pickle(snapshot));
    let ran = folder.run(&format!("explain-oom run.pickle --json out.json {options}")).ok();
    for line in ran.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    // Where a line breaks is nobody's business.
    (folder.json("out.json"), ran.stdout.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn a_request_larger_than_all_there_is_was_too_big() {
    let folder = Folder::new();
    let (found, text) = explained(&folder, &one_segment(120, 10, "inactive", 0), "");
    assert_eq!(found["verdict"]["cause"], "too_big");
    assert_eq!(found["limit"]["bytes"], 110 * MIB);
    assert_eq!(found["needed_bytes"], 124 * MIB);
    assert_eq!(found["verdict"]["short_bytes"], 14 * MIB);
    assert!(
        text.contains("Too big: 124.000 MiB were needed at once") && text.contains("short by 14.000 MiB"),
        "{text}"
    );
    let trials = found["trials"]["trials"].as_array().unwrap();
    assert!(trials.len() >= 10 && trials.iter().all(|trial| trial["passes"] == false), "{trials:?}");
}

#[test]
fn enough_in_pieces_is_fragmentation_and_the_block_between_is_named() {
    let folder = Folder::new();
    let (found, text) = explained(&folder, &one_segment(60, 10, "inactive", 0), "");
    assert_eq!(found["verdict"]["cause"], "fragmentation");
    let idle = &found["idle"];
    assert_eq!((idle["bytes"].as_u64(), idle["own_largest_bytes"].as_u64()), (Some(96 * MIB), Some(48 * MIB)));
    let window = &found["window"];
    assert_eq!((window["blocks"].as_u64(), window["blocked_bytes"].as_u64()), (Some(1), Some(4 * MIB)));
    assert_eq!(window["largest"][0]["stack"]["calls"][0], "forward net/layer.py:2");
    assert_eq!(found["request"]["stack"]["calls"][0], "forward net/layer.py:9");
    assert!(text.contains("Fragmentation: 60.000 MiB were asked for and 106.000 MiB were unused"), "{text}");
    // A plain model leaves 60 MiB nowhere either; pages that can be mapped elsewhere do.
    let trials = found["trials"]["trials"].as_array().unwrap();
    let passes =
        |name: &str| trials.iter().find(|t| t["name"].as_str().unwrap().contains(name)).unwrap()["passes"].clone();
    assert_eq!(passes("expandable_segments:True"), true);
    assert_eq!(found["trials"]["capacity_bytes"], 110 * MIB);
}

#[test]
fn what_streams_hold_is_told_as_freed_too_late() {
    let folder = Folder::new();
    let (found, text) = explained(&folder, &one_segment(60, 10, "active_pending_free", 0), "");
    assert_eq!(found["verdict"]["cause"], "pending_frees");
    assert_eq!(found["sums"]["pending_bytes"], 96 * MIB);
    assert!(text.contains("Freed too late: 96.000 MiB"), "{text}");
    let trials = found["trials"]["trials"].as_array().unwrap();
    assert!(trials.iter().any(|trial| trial["name"].as_str().unwrap().contains("frees that take effect at once")));
}

#[test]
fn what_only_another_stream_may_use_is_told() {
    let folder = Folder::new();
    let (found, _) = explained(&folder, &one_segment(60, 10, "inactive", 7), "");
    assert_eq!(found["verdict"]["cause"], "other_streams");
    assert_eq!(found["idle"]["other_streams_bytes"], 96 * MIB);
    assert_eq!(found["idle"]["own_bytes"], 0);
}

#[test]
fn what_others_hold_on_the_device_is_told() {
    let folder = Folder::new();
    let (found, text) = explained(&folder, &one_segment(120, 10, "inactive", 0), "--capacity 200M");
    assert_eq!(found["verdict"]["cause"], "outside_memory");
    assert_eq!(found["limit"]["outside_bytes"], 90 * MIB);
    assert!(text.contains("90.000 MiB were held by others"), "{text}");
}

#[test]
fn a_hole_that_was_large_enough_is_not_explained_away() {
    let folder = Folder::new();
    let (found, text) = explained(&folder, &one_segment(40, 10, "inactive", 0), "");
    assert_eq!(found["verdict"]["cause"], "unexplained");
    assert!(text.contains("Not explained by these figures"), "{text}");
}

#[test]
fn without_a_failure_the_tightest_request_is_looked_at() {
    let folder = Folder::new();
    let mut run = one_segment(60, 10, "inactive", 0);
    run["device_traces"][0].as_array_mut().unwrap().pop();
    let (found, text) = explained(&folder, &run, "");
    assert_eq!(found["request"]["why"], "most_reserved");
    assert_eq!(found["request"]["bytes"], 48 * MIB);
    assert_eq!(found["trials"]["capacity_bytes"], Value::Null);
    assert!(text.contains("Nothing failed."), "{text}");
    let (found, text) = explained(&folder, &run, "--capacity 90M");
    assert_eq!(found["request"]["why"], "over_capacity");
    assert!(text.contains("with 90.000 MiB this request would be the first to fail"), "{text}");
    let (found, text) = explained(&folder, &run, "--capacity 110M");
    assert_eq!(found["verdict"]["cause"], "passed");
    assert!(text.contains("left 10.000 MiB of 110.000 MiB"), "{text}");
    // Smaller than any single request.
    let (found, _) = explained(&folder, &run, "--capacity 1M");
    assert_eq!(found["verdict"]["cause"], "too_big");
}

#[test]
fn a_bug_reports_trace_dies_of_fragmentation_and_a_setting_saves_it() {
    let Some(folder) = shared("traces/bugs") else { return };
    let path = text_of(&folder.join("pt35901_shredded_segment.csv"));
    let ran = support::gpumem(["explain-oom", &path, "--capacity", "12.32G", "--json", "-"]).ok();
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["verdict"]["cause"], "fragmentation");
    // From its rows: the block is asked for again while 32 small ones lie in its old place.
    assert_eq!(found["request"]["bytes"], 11_643_387_904_u64);
    assert_eq!(found["window"]["blocks"], 32);
    let shown: Vec<&str> = (found["advice"].as_array().unwrap().iter())
        .filter(|advice| advice["is_shown_to_pass"] == true)
        .map(|advice| advice["text"].as_str().unwrap())
        .collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    for setting in ["expandable_segments:True", "max_split_size_mb:64"] {
        assert!(shown.iter().any(|text| text.contains(setting)), "{shown:?}");
    }
}

#[test]
fn shared_snapshots_are_explained_with_the_numbers_of_their_events() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let path = text_of(&folder.join("synthetic-features.pickle.gz"));
    let ran = support::gpumem(["explain-oom", &path, "--json", "-"]).ok();
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["request"]["why"], "failed");
    // Worked out by a Python program: live and reserved at the event, what the device had left as the event says.
    assert_eq!(found["request"]["bytes"], 7_516_192_768_u64);
    assert_eq!(found["sums"]["live_bytes"], 731_540_218);
    assert_eq!(found["sums"]["reserved_bytes"], 1_914_699_776);
    assert_eq!(found["limit"]["bytes"], 1_914_699_776 + 536_870_912_u64);
    assert_eq!(found["verdict"]["cause"], "too_big");
    let path = text_of(&folder.join("mosaic-fixture.pickle.gz"));
    let text = support::gpumem(["explain-oom", &path]).ok().stdout;
    assert!(text.contains("The file contradicts itself 520 times"), "{text}");
}

#[test]
fn nothing_to_explain_is_said_and_not_made_up() {
    let folder = Folder::new();
    let blocks = [(MIB, 0, "inactive")];
    folder.write("still.pickle", pickle(&snapshot(vec![], vec![segment(BASE, 0, &blocks)])));
    let message = folder.run("explain-oom still.pickle").refusal();
    assert!(message.contains("nothing was asked for"), "{message}");
    folder.write("trace.csv", "op,id,bytes,stream\nstep,1,0,0\n");
    let message = folder.run("explain-oom trace.csv").refusal();
    assert!(message.contains("trace.csv"), "{message}");
}

#[test]
fn the_device_that_ran_out_is_looked_at_unless_another_is_named() {
    let folder = Folder::new();
    let mut run = one_segment(60, 10, "inactive", 0);
    let failed = run["device_traces"][0].clone();
    // Device 0 did more, and nothing of it failed.
    let busy: Vec<Value> = (0..40)
        .map(|index| event(if index % 2 == 0 { "alloc" } else { "free_completed" }, 8 * BASE, MIB, 0, vec![]))
        .collect();
    run["device_traces"] = serde_json::json!([busy, failed]);
    run["segments"][0]["device"] = 1.into();
    let (found, text) = explained(&folder, &run, "");
    assert_eq!((found["device"].as_u64(), found["verdict"]["cause"].as_str()), (Some(1), Some("fragmentation")));
    assert!(text.contains("This is about device 1; the file has 2 devices"), "{text}");
    let summary = folder.run("summary run.pickle").ok().stdout;
    assert!(summary.contains("1 request ran out of memory"), "{summary}");
    let (found, _) = explained(&folder, &run, "--device 0");
    assert_eq!(found["request"]["why"], "most_active");
}

#[test]
fn the_settings_of_the_run_are_those_marked_as_recorded() {
    let folder = Folder::new();
    let recorded = |settings: Value| {
        let mut run = one_segment(60, 10, "inactive", 0);
        run["allocator_settings"] = settings;
        let (found, _) = explained(&folder, &run, "");
        let trials = found["trials"]["trials"].as_array().unwrap().clone();
        let marked = trials.iter().filter(|trial| trial["is_recorded"] == true);
        marked.map(|trial| trial["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    use serde_json::json;
    assert_eq!(recorded(json!({ "max_split_size": -1 })), ["PyTorch's default"]);
    assert_eq!(recorded(json!({ "max_split_size": 64 * MIB })), ["max_split_size_mb:64"]);
    assert_eq!(recorded(json!({ "max_split_size": 32 * MIB })), ["the run's own settings"]);
    let all = |divisions: u64| json!({ "roundup_power2_divisions": { "1": divisions, "64": divisions } });
    assert_eq!(recorded(all(8)), ["roundup_power2_divisions:8"]);
    assert_eq!(recorded(all(2)), ["the run's own settings"]);
    assert_eq!(recorded(json!({ "expandable_segments": true })), ["expandable_segments:True"]);
    // Nothing that a model can do, so none is marked.
    assert_eq!(recorded(json!({ "roundup_power2_divisions": { "1": 2, "64": 4 } })), Vec::<String>::new());
    assert_eq!(recorded(all(3)), Vec::<String>::new());
}

#[test]
fn where_nothing_has_to_be_done_no_advice_is_announced() {
    let folder = Folder::new();
    let events = vec![event("segment_alloc", BASE, 2 * MIB, 0, vec![]), event("alloc", BASE, MIB, 0, vec![])];
    let blocks = [(MIB, MIB, "active_allocated"), (MIB, 0, "inactive")];
    let mut run = snapshot(events, vec![segment(BASE, 0, &blocks)]);
    let (found, text) = explained(&folder, &run, "");
    assert_eq!(found["advice"].as_array().unwrap().is_empty(), !text.contains("What to do"), "{text}");
    run["device_traces"][0].as_array_mut().unwrap().push(out_of_memory(5 * MIB, 4 * MIB, 0, vec![]));
    let (_, text) = explained(&folder, &run, "");
    assert!(text.contains("What to do") && text.contains("unused, in 1 piece "), "{text}");
    // Nothing failed, so nothing is said to have.
    let mut run = one_segment(60, 10, "inactive", 0);
    run["device_traces"][0].as_array_mut().unwrap().pop();
    let (_, text) = explained(&folder, &run, "");
    assert!(!text.contains("enough to fail"), "{text}");
}

#[test]
fn what_a_trace_says_of_failures_is_told_and_explained_once_a_capacity_is_given() {
    let folder = Folder::new();
    let log = "Thread,Time,Action,Pointer,Size,Stream\n\
               1,15:47:02.1,allocate,0x7f0000000000,104857600,0x2\n\
               1,15:47:02.2,allocate failure,(nil),1073741824,0x2\n\
               1,15:47:02.3,free,0x7f0000000000,104857600,0x2\n";
    folder.write("rmm.log", log);
    let summary = folder.run("summary rmm.log --json s.json").ok().stdout;
    assert!(summary.contains("the file says that 1 request failed: 1.000 GiB on stream 2"), "{summary}");
    assert_eq!(folder.json("s.json")["out_of_memory"]["stated"]["last_bytes"], 1_u64 << 30);
    let text = folder.run("explain-oom rmm.log").ok().stdout;
    assert!(text.contains("1 request failed, of 1.000 GiB on stream 2") && !text.contains("Nothing failed"), "{text}");
    folder.run("explain-oom rmm.log --capacity 1G --json out.json").ok();
    let found = folder.json("out.json");
    assert_eq!(found["request"]["why"], "failed");
    assert_eq!(
        (found["request"]["bytes"].as_u64(), found["verdict"]["cause"].as_str()),
        (Some(1 << 30), Some("too_big"))
    );
    let text = folder.run("explain-oom rmm.log --capacity 2G").ok().stdout;
    assert!(text.contains("Nothing failed"), "{text}");
}
