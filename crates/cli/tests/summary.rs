//! `gpumem summary`, as a person runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::snapshots::{event, frame, out_of_memory, pickle, segment, snapshot};
use support::{Folder, shared, text_of};

fn summary(path: &str) -> Value {
    let ran = support::gpumem(["summary", path, "--json", "-"]).ok();
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Live and reserved bytes at their peaks, at which event, and live bytes at the end: worked out by a Python program from
/// the pickles, by walking back from the end.
const TRUTHS: [(&str, u64, u64, u64, u64, u64); 4] = [
    ("cuda-gpt-medium-1024-training", 24_207_167_496, 3738, 25_178_406_912, 0, 6_870_548_484),
    ("cuda-gpt-medium-128-training", 7_013_335_044, 9967, 7_235_174_400, 0, 6_808_535_044),
    ("cuda-gpt-medium-512-inference", 1_949_343_744, 316, 1_981_808_640, 0, 1_701_482_496),
    ("synthetic-features", 1_696_737_783, 415, 2_858_418_176, 515, 731_540_218),
];

#[test]
fn peaks_of_real_snapshots_are_those_of_their_own_events() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    for (name, live, live_event, reserved, reserved_event, end) in TRUTHS {
        let found = summary(&text_of(&folder.join(format!("{name}.pickle.gz"))));
        assert_eq!(found["format"], "gpumem-summary/1");
        let peaks = &found["peaks"];
        assert_eq!((peaks["live"]["bytes"].as_u64(), peaks["live"]["event"].as_u64()), (Some(live), Some(live_event)));
        let got = (peaks["reserved"]["bytes"].as_u64(), peaks["reserved"]["event"].as_u64());
        assert_eq!(got, (Some(reserved), Some(reserved_event)), "{name}");
        assert_eq!(found["end"]["live_bytes"], end, "{name}");
        let held = &found["holders_at_peak"];
        assert_eq!(held["live_bytes"], live);
        assert!(found["modelled"].is_null() && found["inconsistencies"].as_array().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn holders_are_told_by_the_programs_own_calls() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let found = summary(&text_of(&folder.join("synthetic-features.pickle.gz")));
    let holders: Vec<(&str, u64)> = (found["holders_at_peak"]["by_stack"].as_array().unwrap().iter())
        .map(|holder| (holder["label"]["calls"][0].as_str().unwrap(), holder["bytes"].as_u64().unwrap()))
        .collect();
    // Sums by the same Python program.
    let truth = [
        ("forward model/block.py:41", 698_332_271),
        ("step torch/optim/adamw.py:243", 633_977_480),
        ("run model/train.py:88", 364_428_032),
    ];
    assert_eq!(holders, truth);
    let failed = &found["out_of_memory"];
    assert_eq!((failed["count"].as_u64(), failed["last"]["bytes"].as_u64()), (Some(1), Some(7_516_192_768)));
}

#[test]
fn it_is_one_screen() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    for (name, ..) in TRUTHS {
        let text = support::gpumem(["summary", &text_of(&folder.join(format!("{name}.pickle.gz")))]).ok().stdout;
        assert!(text.lines().count() <= 45, "{name}: {} lines\n{text}", text.lines().count());
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
    }
}

#[test]
fn a_file_that_contradicts_itself_is_summed_up_and_says_so() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let path = text_of(&folder.join("mosaic-fixture.pickle.gz"));
    let found = summary(&path);
    let kinds = found["inconsistencies"].as_array().unwrap();
    let outside = kinds.iter().find(|kind| kind["kind"] == "outside_segment").unwrap();
    // Each of its allocs is outside of its segments.
    assert_eq!(outside["count"], 520);
    let text = support::gpumem(["summary", &path]).ok().stdout;
    assert!(text.contains("contradict each other") && text.contains("520 blocks outside of every segment"), "{text}");
}

#[test]
fn a_trace_is_summed_up_by_a_model_and_says_so() {
    let Some(folder) = shared("traces/bugs") else { return };
    let path = text_of(&folder.join("pt35901_shredded_segment.csv"));
    let found = summary(&path);
    // Its README: 11.62 GiB; exact from its rows.
    let peak = found["peaks"]["live"]["bytes"].as_u64().unwrap();
    assert_eq!(peak, peak_live(&std::fs::read_to_string(&path).unwrap()));
    assert!(found["modelled"]["policy"].as_str().unwrap().contains("model of PyTorch"));
    let text = support::gpumem(["summary", &path]).ok().stdout;
    assert!(text.contains("modelled"), "{text}");
}

fn peak_live(csv: &str) -> u64 {
    let mut bytes_of = std::collections::HashMap::new();
    let (mut live, mut peak) = (0_u64, 0);
    for line in csv.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        match fields[0] {
            "alloc" => {
                bytes_of.insert(fields[1].to_owned(), fields[2].parse::<u64>().unwrap());
                live += bytes_of[fields[1]];
            }
            "free" => live -= bytes_of[fields[1]],
            _ => {}
        }
        peak = peak.max(live);
    }
    peak
}

#[test]
fn growth_from_step_to_step_is_called_a_leak_and_its_place_named() {
    let folder = Folder::new();
    let mut rows = String::from("op,id,bytes,stream,tag\n");
    for step in 0..6 {
        rows.push_str(&format!("alloc,{},4194304,0,work\n", step * 10));
        rows.push_str(&format!("alloc,{},1048576,0,history of losses\n", step * 10 + 1));
        rows.push_str(&format!("free,{},0,0,\nstep,{step},0,0,\n", step * 10));
    }
    folder.write("leak.csv", rows);
    let ran = folder.run("summary leak.csv --json leak.json").ok();
    let found = folder.json("leak.json");
    assert_eq!(found["steps"]["count"], 6);
    assert_eq!(found["steps"]["growth_per_step_bytes"], 1 << 20);
    assert_eq!(found["steps"]["looks_like_leak"], true);
    assert!(ran.stdout.contains("LEAK?"), "{}", ran.stdout);
    let tags: Vec<&str> = (found["holders_at_peak"]["by_tag"].as_array().unwrap().iter())
        .map(|holder| holder["label"].as_str().unwrap())
        .collect();
    assert_eq!(tags, ["history of losses", "work"]);
}

#[test]
fn what_pins_a_hole_is_named_with_its_age() {
    let folder = Folder::new();
    let by = |line| vec![frame("_call_impl", "torch/nn/modules/module.py", 1), frame("forward", "net/layer.py", line)];
    let mib = 1 << 20;
    let events = vec![
        event("segment_alloc", 1 << 30, 60 * mib, 0, vec![]),
        event("alloc", 1 << 30, 20 * mib, 0, by(1)),
        event("alloc", (1 << 30) + 20 * mib, 2 * mib, 0, by(2)),
        event("free_requested", 1 << 30, 20 * mib, 0, vec![]),
        event("free_completed", 1 << 30, 20 * mib, 0, vec![]),
        out_of_memory(50 * mib, 3 * mib, 0, by(3)),
    ];
    let blocks = [(20 * mib, 0, "inactive"), (2 * mib, 2 * mib, "active_allocated"), (38 * mib, 0, "inactive")];
    folder.write("run.pickle", pickle(&snapshot(events, vec![segment(1 << 30, 0, &blocks)])));
    folder.run("summary run.pickle --json out.json").ok();
    let holes = &folder.json("out.json")["holes"];
    assert_eq!((holes["free_bytes"].as_u64(), holes["holes"].as_u64()), (Some(58 * mib), Some(2)));
    let largest = &holes["largest"][0];
    assert_eq!((largest["bytes"].as_u64(), largest["below"]["bytes"].as_u64()), (Some(38 * mib), Some(2 * mib)));
    assert_eq!(largest["below"]["stack"]["calls"], json!(["forward net/layer.py:2"]));
    assert_eq!(largest["below"]["age_events"], 2);
    assert!(largest["above"].is_null());
}

#[test]
fn bad_and_empty_input_is_refused_or_summed_up_in_words() {
    let folder = Folder::new();
    folder.write("nothing.pickle", pickle(&snapshot(vec![], vec![])));
    let message = folder.run("summary nothing.pickle").refusal();
    assert!(message.contains("nothing happened on any device"), "{message}");
    folder.write("graph.csv", "id,lower,upper,size\na,0,1,8\n");
    let message = folder.run("summary graph.csv").refusal();
    assert!(message.contains("says nothing of what happened at run time"), "{message}");
    assert!(folder.run("summary missing.pickle").refusal().contains("missing.pickle"));
    // Segments and no events; events and no segments; a device that isn't there.
    let blocks = [(1 << 20, 1000, "active_allocated"), (1 << 20, 0, "inactive")];
    folder.write("still.pickle", pickle(&snapshot(vec![], vec![segment(1 << 30, 0, &blocks)])));
    assert!(folder.run("summary still.pickle").ok().stdout.contains("0 events"));
    folder.write("loose.pickle", pickle(&snapshot(vec![event("alloc", 1 << 30, 1000, 0, vec![])], vec![])));
    assert!(folder.run("summary loose.pickle").ok().stdout.contains("outside of every segment"));
    let message = folder.run("summary still.pickle --device 3").refusal();
    assert!(message.contains("device 3") && message.contains("there is 0"), "{message}");
    assert!(folder.run("summary still.pickle --json still.pickle").refusal().contains("overwrite"));
}

#[test]
fn names_from_files_do_not_steer_the_terminal() {
    let folder = Folder::new();
    let wild = "\u{1b}[2J<script>alert(1)</script>\r";
    let events = vec![
        event("segment_alloc", 1 << 30, 2 << 20, 0, vec![]),
        event("alloc", 1 << 30, 1 << 20, 0, vec![frame(wild, wild, 7)]),
    ];
    let blocks = [(1 << 20, 1 << 20, "active_allocated"), (1 << 20, 0, "inactive")];
    folder.write("wild.pickle", pickle(&snapshot(events, vec![segment(1 << 30, 0, &blocks)])));
    for command in ["summary", "explain-oom"] {
        let ran = folder.run(&format!("{command} wild.pickle")).ok();
        assert!(!ran.stdout.contains(['\u{1b}', '\r']), "{:?}", ran.stdout);
    }
}
