//! The models against the real caching allocator, on every shared trace, and the table of failures of the bug traces.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::HashMap;

use records::Trace;
use replay::{Policy, Program, Settings, drop_uses, replay};
use support::{shared, trace_at, traces_in};

/// What the real one did.
struct Real {
    trace: String,
    dropped: Vec<i64>,
    settings: Settings,
    is_ok: bool,
    peak_reserved_bytes: u64,
}

fn real_ones() -> Vec<Real> {
    let text = include_str!("data/real-caching.csv");
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("trace,"))
        .map(|line| {
            let columns: Vec<&str> = line.split(',').collect();
            let [trace, dropped, setting, capacity, status, peak] = columns[..] else { panic!("{line}") };
            let mut settings =
                Settings { measures_fragmentation: false, models_time: false, ..Settings::new(Policy::Caching) };
            match setting {
                "caching" => {}
                "caching-expandable" => settings.policy = Policy::CachingExpandable,
                "caching max_split_size_mb:256" => settings.caching.max_split_bytes = Some(256 << 20),
                "caching roundup_power2_divisions:4" => settings.caching.roundup_power2_divisions = 4,
                other => panic!("{other}"),
            }
            let capacity: u64 = capacity.parse().unwrap();
            settings.capacity_bytes = (capacity > 0).then_some(capacity);
            Real {
                trace: trace.to_owned(),
                dropped: if dropped.is_empty() { vec![] } else { std::iter::once(5).chain(16..=31).collect() },
                settings,
                is_ok: status == "ok",
                peak_reserved_bytes: peak.parse().unwrap(),
            }
        })
        .collect()
}

#[test]
fn the_models_reserve_what_the_real_allocator_reserves_on_every_shared_trace() {
    let mut traces: HashMap<(String, bool), Trace> = HashMap::new();
    let (mut runs, mut exact) = (0, 0);
    for real in real_ones() {
        let Some(path) = shared(&real.trace) else { return };
        let trace = traces.entry((real.trace.clone(), real.dropped.is_empty())).or_insert_with(|| {
            let mut trace = trace_at(&path);
            drop_uses(&mut trace, |stream| real.dropped.contains(&stream));
            trace
        });
        let program = Program::new(trace, None).unwrap();
        let outcome = replay(&program, &real.settings).unwrap();
        let reserved = outcome.all.peak_reserved_bytes;
        let what = format!("{} {:?}: {reserved} against {}", real.trace, real.settings, real.peak_reserved_bytes);
        assert_eq!(outcome.is_ok(), real.is_ok, "{what}");
        let off = reserved as f64 / real.peak_reserved_bytes as f64 - 1.0;
        assert!(off.abs() <= 0.03, "{what}");
        runs += 1;
        exact += u32::from(reserved == real.peak_reserved_bytes);
    }
    assert!(runs > 200, "{runs} runs");
    // Room for a later version of the real one that orders equal blocks otherwise.
    assert!(f64::from(exact) >= 0.98 * f64::from(runs), "{exact} of {runs} to the byte");
    println!("{exact} of {runs} to the byte");
}

#[test]
fn held_bytes_are_those_of_the_large_model_traces() {
    for (trace, held_gib, live_gib) in [
        ("llama7b_ZR_s1", 17.00, 13.75),
        ("gpt2_ZR_last_s1", 22.42, 14.92),
        ("llama7b_VR_s1", 19.76, 16.92),
        ("qwenmoe_ZR_s1", 26.88, 26.71),
    ] {
        let Some(path) = shared(&format!("traces/megatron/{trace}.csv.gz")) else { return };
        let trace = trace_at(&path);
        let program = Program::new(&trace, None).unwrap();
        let figures = replay(&program, &Settings::new(Policy::BestFit)).unwrap().all;
        let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
        assert!((gib(figures.peak_live_plus_held_bytes) - held_gib).abs() < 0.006, "{figures:?}");
        assert!((gib(figures.peak_live_bytes) - live_gib).abs() < 0.006, "{figures:?}");
    }
}

#[test]
fn every_bug_trace_replays_with_every_policy() {
    let Some(paths) = traces_in("traces/bugs") else { return };
    assert_eq!(paths.len(), 19);
    for path in paths {
        let trace = trace_at(&path);
        let program = Program::new(&trace, None).unwrap();
        for policy in Policy::ALL {
            let outcome = replay(&program, &Settings { passes: 2, ..Settings::new(policy) }).unwrap();
            assert!(outcome.is_ok(), "{} {policy}", path.display());
            assert!(outcome.all.peak_reserved_bytes >= outcome.all.peak_live_bytes);
            assert!(outcome.all.makespan_over_unlimited() >= 1.0, "{} {policy}", path.display());
        }
    }
}
