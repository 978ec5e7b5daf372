//! `gpumem replay` as a user runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// The same checker that the formats' schemas are held against.
#[path = "../../formats/tests/support/schema.rs"]
#[allow(unreachable_pub)]
mod schema;
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use support::{Folder, files, gpumem, gunzip, root, shared, text_of};

/// Two streams, a use, a wait, steps, and a block larger than half of the rest.
const TRACE: &str = "op,id,bytes,stream\n\
    alloc,1,3000000,0\nalloc,2,40000000,1\nuse,1,0,1\nwait,1,0,0\nfree,1,0,0\nstep,1,0,0\n\
    alloc,3,5000000,0\nfree,2,0,0\nsync,0,0,1\nalloc,4,30000000,0\nalloc,5,0,0\nfree,5,0,0\nstep,2,0,0\n";

fn replayed(folder: &Folder, args: &str) -> Value {
    let ran = folder.run(&format!("replay {args} --json -"));
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn every_replay_fits_its_schema_and_every_field_is_explained() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    let schema: Value =
        serde_json::from_slice(&std::fs::read(root().join("docs/gpumem-replay-1.schema.json")).unwrap()).unwrap();
    let page = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("gpumem-replay/1\n")).unwrap();
    for args in [
        "t.csv",
        "t.csv --policy best-fit --passes 3",
        "t.csv --policy caching-expandable --min-capacity --lag 0",
        "t.csv --capacity 1.0x --policy caching --max-split-size 21M --roundup-power2-divisions 4",
        "t.csv --capacity 0",
        "t.csv --policy gpumem --min-capacity --passes 2 --backing segments --hand-over all --reading seen",
        "t.csv --policy gpumem --hard-budget 80M --soft-budget 60M",
    ] {
        let report = replayed(&folder, args);
        assert_eq!(schema::validate(&schema, &report), Ok(()), "{args}");
        for name in report.as_object().unwrap().keys() {
            assert!(schema["properties"].get(name).is_some(), "the schema has no {name}");
            assert!(section.contains(&format!("`{name}`")), "the page has no {name}");
        }
    }
}

#[test]
fn figures_of_a_small_trace_are_those_of_a_hand_calculation() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    let report = replayed(&folder, "t.csv --policy caching");
    assert_eq!(report["status"], "ok");
    assert_eq!((&report["allocs"], &report["frees"]), (&5.into(), &3.into()));
    assert_eq!(report["peak_live_bytes"], 45_000_000);
    // 5 000 000 and 30 000 000 live after block 2 was dropped: what stream 1 holds of block 1 until its sync counts.
    assert_eq!(report["peak_live_plus_held_bytes"], 48_000_000);
    let round = |bytes: u64| bytes.next_multiple_of(512);
    assert_eq!(report["peak_live_rounded_bytes"], round(40_000_000) + round(5_000_000));
    // 20 MiB for block 1, 40 000 000 rounded up to 2 MiB for block 2, block 3 beside the held block 1, 30 MB anew.
    let reserved = (20 << 20) + 40_000_000_u64.next_multiple_of(2 << 20) + 30_000_000_u64.next_multiple_of(2 << 20);
    assert_eq!(report["peak_reserved_bytes"], reserved);
    assert_eq!(report["driver_calls"]["alloc"]["calls"], 3);
    assert_eq!(report["event_records"], 1);
    let least = replayed(&folder, "t.csv --policy best-fit --min-capacity");
    assert!(least["min_capacity_over_live"].as_f64().unwrap() < 1.1, "{least}");
}

#[test]
fn a_request_that_cannot_be_served_ends_with_exit_code_1_and_its_row() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    let ran = folder.run("replay t.csv --capacity 50M --policy caching");
    let message = ran.no();
    assert!(
        message.starts_with("out of memory in row 1: block 2 of 38.147 MiB = 40 000 000 B on stream 1"),
        "{message}"
    );
    let report = replayed(&folder, "t.csv --capacity 50M");
    assert_eq!((&report["status"], &report["failed_at"]), (&"oom".into(), &1.into()));
    assert_eq!(report["failed_request"]["bytes"], 40_000_000);
    // What the trace is like doesn't depend on where a replay ended.
    assert_eq!(report["peak_live_bytes"], 45_000_000);
}

#[test]
fn driver_calls_cost_what_they_are_told_to() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    let free = "--price event_create=0 --price event_destroy=0 --price event_record=0 --price event_query=0";
    let report = replayed(&folder, &format!("t.csv --price alloc=1000000000 {free}"));
    assert_eq!(report["driver_calls"]["alloc"]["calls"], 3);
    assert_eq!(report["modelled_driver_seconds"], 3.0);
    assert!(
        report["makespan_over_unlimited"].as_f64() > replayed(&folder, "t.csv")["makespan_over_unlimited"].as_f64()
    );
}

#[test]
fn steady_figures_are_of_a_pass_that_finds_the_caches_warm() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    let report = replayed(&folder, "t.csv --passes 3");
    assert_eq!(report["allocs"], 15);
    assert_eq!(report["steady"]["allocs"], 5);
    assert_eq!(report["steady"]["driver_calls"].get("alloc"), None);
    assert_eq!(replayed(&folder, "t.csv")["steady"], Value::Null);
}

/// Checks a log by the trace alone: blocks that are live never share a byte, and all of them have memory.
fn check_log(trace: &str, log: &str) {
    let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut addresses: BTreeMap<&str, u64> = BTreeMap::new();
    let mut entries = log.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()).peekable();
    let rows = trace.lines().filter(|line| !line.starts_with('#')).skip(1);
    for (number, row) in rows.enumerate() {
        let columns: Vec<&str> = row.split(',').collect();
        if columns[0] == "free" {
            addresses.remove(columns[1]).map(|address| live.remove(&address));
        }
        while let Some(entry) = entries.next_if(|entry| entry[1].parse::<usize>().unwrap() == number) {
            let [op, _, id, address, bytes, ..] = entry[..] else { panic!("{entry:?}") };
            let (address, bytes): (u64, u64) = (address.parse().unwrap(), bytes.parse().unwrap());
            match op {
                "map" => assert_eq!(memory.insert(address, address + bytes), None),
                "unmap" => assert_eq!(memory.remove(&address), Some(address + bytes)),
                "alloc" => {
                    assert_eq!((id, columns[0]), (columns[1], "alloc"));
                    assert_eq!(bytes, columns[2].parse::<u64>().unwrap());
                    let before = live.range(..address + bytes).next_back();
                    assert!(before.is_none_or(|(_, end)| *end <= address), "row {number} overlaps a live block");
                    let mut covered = address;
                    while covered < address + bytes {
                        let (_, end) = memory.range(..=covered).next_back().expect("memory below");
                        assert!(*end > covered, "row {number} has no memory at {covered:#x}");
                        covered = *end;
                    }
                    live.insert(address, address + bytes);
                    addresses.insert(columns[1], address);
                }
                other => panic!("{other}"),
            }
        }
    }
    assert_eq!(entries.next(), None);
}

#[test]
fn the_allocator_itself_is_a_policy_with_settings_of_its_own() {
    let folder = Folder::new();
    // A block that stream 1 uses is dropped after stream 0 waited for it: only who sees all work knows that it is over.
    folder.write(
        "t.csv",
        "op,id,bytes,stream\nalloc,1,4000000,0\nuse,1,0,1\nwait,1,0,0\nfree,1,0,0\nalloc,2,4000000,0\n",
    );
    let reserved =
        |args: &str| replayed(&folder, &format!("t.csv --policy gpumem {args}"))["peak_reserved_bytes"].as_u64();
    assert_eq!(reserved("--reading seen"), Some(4 << 20));
    assert_eq!(reserved("--reading blind"), Some(8 << 20));
    let report = replayed(&folder, "t.csv --policy gpumem --hand-over off --backing segments");
    assert_eq!((&report["policy"], &report["is_model"]), (&"gpumem".into(), &false.into()));
    assert_eq!(
        (&report["hand_over"], &report["backing"], &report["reading"]),
        (&"off".into(), &"segments".into(), &"blind".into())
    );
    assert_eq!(report["driver_calls"]["alloc"]["calls"], 2);
    assert_eq!(replayed(&folder, "t.csv --policy gpumem")["driver_calls"].get("alloc"), None);
    // At the budget the block comes back once its stream has been waited for.
    let tight = replayed(&folder, "t.csv --policy gpumem --hard-budget 4M");
    assert_eq!((&tight["status"], &tight["peak_reserved_bytes"]), (&"ok".into(), &(4_u64 << 20).into()));
    let text = folder.run("replay t.csv --policy gpumem --soft-budget 6M").stdout;
    assert!(
        text.contains("gpumem's own allocator, hand over recorded, backing auto, blind reading, soft budget 6"),
        "{text}"
    );
    let message = folder.run("replay t.csv --policy gpumem --hard-budget 4M --soft-budget 6M").refusal();
    assert!(message.contains("it is above the hard budget"), "{message}");
    let other = replayed(&folder, "t.csv --policy best-fit --hand-over off");
    assert_eq!((&other["hand_over"], &other["reading"]), (&Value::Null, &Value::Null));
}

#[test]
fn contents_are_checked_on_real_memory_and_what_does_not_fit_is_said() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    let ran = folder.run("replay t.csv --contents");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("t.csv: 5 blocks held their own bytes at "), "{ran:?}");
    let ran = folder.run("replay t.csv --contents --scale 1000 --backing segments --hand-over all");
    assert!(ran.code == 0 && ran.stdout.contains("sizes divided by 1000"), "{ran:?}");
    let ran = folder.run("replay t.csv --contents --hard-budget 20M");
    assert!(ran.code == 1 && ran.stderr.contains("row 1: out of memory"), "{ran:?}");
    assert_eq!(folder.run("replay t.csv --scale 2").code, 2);
    assert_eq!(folder.run("replay t.csv --contents --json -").code, 2);
}

#[test]
fn the_log_shows_blocks_that_never_overlap_and_always_have_memory() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    for policy in ["gpumem", "first-fit", "best-fit", "caching", "caching-expandable"] {
        folder.run(&format!("replay t.csv --policy {policy} --log log.csv --quiet")).ok();
        check_log(TRACE, &folder.text("log.csv"));
    }
    let log = folder.text("log.csv");
    assert!(log.starts_with("op,row,id,address,bytes,stream,waits,handle\n"), "{log}");
    // Block 4 takes what stream 1 used, before the host has seen it: best fit makes its stream wait.
    folder.write("w.csv", "op,id,bytes,stream\nalloc,1,4000000,1\nfree,1,0,0\nalloc,2,4000000,0\n");
    folder.run("replay w.csv --policy best-fit --log w.log --quiet").ok();
    assert!(folder.text("w.log").lines().any(|line| line.starts_with("alloc,2,2,") && line.ends_with(",0,1,")));
    let Some(data) = shared("traces/bugs") else { return };
    for trace in files(&data, ".csv") {
        for policy in ["gpumem", "best-fit", "caching", "caching-expandable"] {
            folder.run(&format!("replay {} --policy {policy} --log log.csv.gz --quiet", text_of(&trace))).ok();
            check_log(&std::fs::read_to_string(&trace).unwrap(), &gunzip(&folder.path("log.csv.gz")));
        }
    }
}

#[test]
fn large_model_traces_reserve_what_their_page_says_of_the_real_allocators() {
    let Some(data) = shared("traces/megatron") else { return };
    let folder = Folder::new();
    // Reserved over peak live: by default and with expandable segments; then with the collectives' uses left out.
    for (trace, seen, dropped) in [
        ("gpt2_ZR_last_s1", [1.73, 1.57], [1.198, 1.021]),
        ("llama7b_ZR_s1", [1.52, 1.34], [1.253, 1.098]),
        ("llama7b_VR_s1", [1.22, 1.19], [1.036, 1.019]),
        ("qwenmoe_ZR_s1", [1.41, 1.08], [1.300, 1.043]),
    ] {
        let path = text_of(&data.join(format!("{trace}.csv.gz")));
        for (policy, column) in [("caching", 0), ("caching-expandable", 1)] {
            for (option, said) in [("", seen[column]), ("--drop-use 16-31,5", dropped[column])] {
                let report = replayed(&folder, &format!("{path} --policy {policy} {option}"));
                let ratio = report["reserved_over_live"].as_f64().unwrap();
                assert!((ratio / said - 1.0).abs() < 0.03, "{trace} {policy} {option}: {ratio} for {said}");
            }
        }
    }
}

#[test]
fn the_models_fail_at_the_capacities_where_the_real_ones_do() {
    let Some(data) = shared("traces/bugs") else { return };
    let fails = |trace: &Path, policy: &str| {
        let text = std::fs::read_to_string(trace).unwrap();
        let capacity = text.lines().find_map(|line| line.strip_prefix("# capacity: ")).unwrap();
        let ran = gpumem(["replay", &text_of(trace), "--quiet", "--policy", policy, "--capacity", capacity]);
        assert!(ran.code == 0 || ran.code == 1, "{ran:?}");
        ran.code == 1
    };
    let named = |policy: &str| -> Vec<String> {
        let failing = files(&data, ".csv").into_iter().filter(|trace| fails(trace, policy));
        failing.map(|trace| trace.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        named("caching"),
        ["dorado1358_cached_block_stolen", "pt35901_shredded_segment", "tf6111_growth_doubling"]
    );
    assert_eq!(named("caching-expandable"), ["rmm1957_initial_then_max"]);
}

#[test]
fn what_a_policy_did_can_be_drawn_and_opened_as_a_snapshot() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    folder.run("replay t.csv --policy caching --html t.html --snapshot t.pickle --quiet").ok();
    assert!(folder.text("t.html").starts_with("<!doctype html>"));
    // The snapshot replays to the same figures.
    let (trace, snapshot) = (replayed(&folder, "t.csv"), replayed(&folder, "t.pickle"));
    for figure in ["peak_live_bytes", "peak_live_rounded_bytes", "peak_reserved_bytes"] {
        assert_eq!(trace[figure], snapshot[figure], "{figure}");
    }
}

#[test]
fn what_cannot_be_replayed_is_refused_with_the_reason() {
    let folder = Folder::new();
    folder.write("t.csv", TRACE);
    folder.write("two.csv", "op,id,bytes,stream,device\nalloc,1,8,0,0\nalloc,2,8,0,1\n");
    folder.write("plan.csv", "id,lower,upper,size\na,0,2,64\n");
    folder.write("empty.csv", "op,id,bytes,stream\nstep,0,0,0\n");
    for (args, reason) in [
        ("t.csv --policy slab", "a policy is one of"),
        ("t.csv --capacity 0x", "not a multiple of peak live"),
        ("t.csv --capacity lots", "a size is a number"),
        ("t.csv --drop-use 3-1", "no stream in it"),
        ("t.csv --passes 0", "0 is not in 1..=10000"),
    ] {
        let ran = folder.run(&format!("replay {args}"));
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(reason), "{ran:?}");
    }
    for (args, reason) in [
        ("t.csv --max-split-size 20M", "more than 20 MiB"),
        ("t.csv --capacity 33T", "simulated devices have at most 35184372088832 (32 TiB)"),
        ("t.csv --roundup-power2-divisions 3", "a power of two"),
        ("two.csv", "devices 0 and 1; choose one"),
        ("plan.csv", "says nothing of who asked for memory when"),
        ("missing.csv", "missing.csv"),
        ("t.csv --log t.csv", "would overwrite the input"),
        ("t.csv --log nowhere/log.csv", "nowhere/log.csv"),
    ] {
        let message = folder.run(&format!("replay {args}")).refusal();
        assert!(message.contains(reason), "{args}: {message}");
    }
    folder.run("replay two.csv --device 1 --quiet").ok();
    // Nothing asked for is nothing to fail.
    let report = replayed(&folder, "empty.csv --min-capacity");
    assert_eq!((&report["status"], &report["peak_live_bytes"]), (&"ok".into(), &0.into()));
    assert_eq!(report["reserved_over_live"], 0.0);
}

#[test]
fn more_than_any_simulated_device_has_is_never_enough() {
    let folder = Folder::new();
    folder.write("huge.csv", "op,id,bytes\nalloc,1,2305843009213693952\nfree,1,\n");
    folder.write("large.csv", "op,id,bytes\nalloc,1,30000000000000\nfree,1,\n");
    let refusal = folder.run("replay huge.csv --min-capacity --quiet").no();
    assert!(refusal.contains("row 0"), "{refusal}");
    for policy in ["first-fit", "best-fit", "caching", "caching-expandable"] {
        let ran = folder.run(&format!("replay huge.csv --min-capacity --policy {policy} --json -"));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &report["min_capacity_bytes"]), (1, &Value::Null), "{policy}");
        let report = replayed(&folder, &format!("large.csv --min-capacity --policy {policy}"));
        let least = report["min_capacity_bytes"].as_u64().unwrap();
        assert!((30_000_000_000_000..=1 << 45).contains(&least), "{policy}: {least}");
    }
}
