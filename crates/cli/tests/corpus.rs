//! Every file of the shared data is planned once, and what came out is held against what was promised.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Folder, Report, files, shared, text_of};

/// A file, planned.
struct Planned {
    path: PathBuf,
    /// Its folder and name.
    name: String,
    report: Report,
    /// What `gpumem verify PLAN` and `gpumem verify PLAN FILE` said.
    verified: [Result<(), String>; 2],
    /// Highest load and peak with `--order memory`; graphs only.
    in_memory_order: Option<(u64, u64)>,
}

/// Every file, planned with the options a user gets by default, largest first.
static PLANNED: LazyLock<Vec<Planned>> = LazyLock::new(|| {
    let mut paths = Vec::new();
    for (folder, endings) in [("dsa", &[".csv"][..]), ("graphs", &[".temp.csv.gz", ".graph.json.gz"])] {
        let Some(folder) = shared(folder) else { return Vec::new() };
        paths.extend(endings.iter().flat_map(|ending| files(&folder, ending)));
    }
    paths.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
    in_parallel(&paths, |path| plan(path))
});

fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some((index, item)) = next_of(&next, items) {
            done.push((index, work(item)));
        }
        done
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(take)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn next_of<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, items.get(index)?))
}

fn plan(path: &Path) -> Planned {
    let folder = Folder::new();
    let file = text_of(path);
    let name = format!("{}/{}", folder_of(path), path.file_name().unwrap().to_str().unwrap());
    let report = |options: &str| folder.run(&format!("plan {file} --threads 1 {options}")).ok().report();
    let report_given = report("--json - --plan-out plan.json");
    let verify = |args: &str| match folder.run(&format!("verify --quiet {args}")) {
        ran if ran.code == 0 => Ok(()),
        ran => Err(ran.stderr),
    };
    let is_graph = name.ends_with(".graph.json.gz");
    let in_memory_order = is_graph.then(|| report("--json - --order memory --no-baselines"));
    let seconds = report_given.cpu_seconds + in_memory_order.as_ref().map_or(0.0, |report| report.cpu_seconds);
    println!("{seconds:7.2} CPU s  {name}");
    Planned {
        verified: [verify("plan.json"), verify(&format!("plan.json {file}"))],
        in_memory_order: in_memory_order.map(|report| (report.max_load_bytes, report.peak_bytes)),
        path: path.to_owned(),
        name,
        report: report_given,
    }
}

fn folder_of(path: &Path) -> &str {
    path.parent().unwrap().file_name().unwrap().to_str().unwrap()
}

/// The files whose names (with folder) pass; says so where there is no data.
fn planned(passes: impl Fn(&str) -> bool) -> Vec<&'static Planned> {
    if PLANNED.is_empty() {
        println!("not run: shared data absent");
        return Vec::new();
    }
    let found: Vec<_> = PLANNED.iter().filter(|planned| passes(&planned.name)).collect();
    assert!(!found.is_empty(), "no such file");
    found
}

fn is_dsa(name: &str) -> bool {
    ["idealloc/", "iopddl/", "minimalloc/", "omnimalloc-small/", "synth/"].iter().any(|set| name.starts_with(set))
}

/// Names of those for which `holds` is false.
fn departing(all: &[&Planned], holds: impl Fn(&Report) -> bool) -> Vec<String> {
    all.iter().filter(|planned| !holds(&planned.report)).map(|planned| planned.name.clone()).collect()
}

#[test]
fn every_list_of_temporaries_is_planned_at_its_bound_within_ten_processor_seconds() {
    let all = planned(|name| name.ends_with(".temp.csv.gz"));
    let at_bound = |r: &Report| {
        r.peak_bytes == r.lower_bound_bytes
            && r.peak_bytes == r.max_load_bytes
            && (r.status.as_str(), r.bound_kind.as_str()) == ("optimal", "load")
    };
    assert_eq!(departing(&all, at_bound), [""; 0]);
    assert_eq!(departing(&all, |r| r.cpu_seconds < 10.0), [""; 0]);
}

#[test]
fn no_peak_is_above_a_baseline() {
    let all = planned(|_| true);
    assert_eq!(departing(&all, |r| r.baselines.len() == 4), [""; 0]);
    assert_eq!(departing(&all, |r| r.baselines.values().all(|&peak| r.peak_bytes <= peak)), [""; 0]);
}

#[test]
fn figures_agree_with_each_other() {
    let all = planned(|_| true);
    let agree = |r: &Report| {
        let ends = r.placements.iter().map(|p| p.offset + p.bytes);
        let sums = (r.tiers.values().map(|t| t.count).sum(), r.tiers.values().map(|t| t.bytes).sum());
        ends.max() == Some(r.peak_bytes)
            && sums == (r.buffers, r.sum_bytes)
            && r.buffers == r.placements.len()
            && r.sum_bytes == r.placements.iter().map(|p| p.bytes).sum::<u64>()
            && r.max_load_bytes <= r.lower_bound_bytes
            && r.lower_bound_bytes <= r.peak_bytes
            && r.max_clique_bytes == r.max_load_bytes
            && r.deterministic
            && (r.status == "optimal") == (r.peak_bytes == r.lower_bound_bytes)
            && (r.gap == 0.0) == (r.peak_bytes == r.lower_bound_bytes)
    };
    assert_eq!(departing(&all, agree), [""; 0]);
}

#[test]
fn merging_holes_is_never_worse_and_better_on_half_of_the_problems() {
    let all = planned(|_| true);
    let never_worse = |r: &Report| {
        r.holes.pieces_mean_after <= r.holes.pieces_mean_before
            && r.holes.largest_free_min_after >= r.holes.largest_free_min_before
    };
    assert_eq!(departing(&all, never_worse), [""; 0]);
    let dsa = planned(is_dsa);
    let better = |r: &Report| {
        r.holes.pieces_mean_after < r.holes.pieces_mean_before
            || r.holes.largest_free_min_after > r.holes.largest_free_min_before
    };
    let unchanged = departing(&dsa, better);
    println!("no better on {} of {}: {unchanged:?}", unchanged.len(), dsa.len());
    assert!(2 * unchanged.len() <= dsa.len(), "{unchanged:?}");
}

#[test]
fn every_saved_plan_is_found_right_with_and_without_its_file() {
    for planned in planned(|_| true) {
        assert_eq!(planned.verified, [Ok(()), Ok(())], "{}", planned.name);
    }
}

#[test]
fn small_problems_reach_the_number_in_their_names() {
    for planned in planned(|name| name.starts_with("omnimalloc-small/")) {
        let number = planned.name.rsplit('.').nth(1).unwrap().parse::<u64>().unwrap();
        assert_eq!(planned.report.peak_bytes, number, "{}", planned.name);
    }
}

#[test]
fn hard_problems_are_planned_below_every_baseline() {
    let all = planned(|name| name.starts_with("minimalloc/") || name.starts_with("synth/"));
    let below = |r: &Report| {
        let best = *r.baselines.values().min().unwrap();
        r.peak_bytes < best || best == r.lower_bound_bytes
    };
    assert_eq!(departing(&all, below), [""; 0]);
    // A baseline that is at the bound leaves nothing to gain; only the smallest has one.
    let at_bound = |r: &Report| r.baselines.values().all(|&peak| peak > r.lower_bound_bytes);
    assert_eq!(departing(&all, at_bound), if all.is_empty() { vec![] } else { vec!["minimalloc/input.12.csv"] });
}

#[test]
fn an_order_for_memory_is_never_worse_than_the_given_one() {
    let mut lower = 0;
    for planned in planned(|name| name.ends_with(".graph.json.gz")) {
        let (load, peak) = planned.in_memory_order.unwrap();
        let given = &planned.report;
        assert!(load <= given.max_load_bytes, "{}: load {load} over {}", planned.name, given.max_load_bytes);
        assert!(peak <= given.peak_bytes, "{}: peak {peak} over {}", planned.name, given.peak_bytes);
        lower += usize::from(peak < given.peak_bytes);
    }
    println!("lower on {lower} graphs");
    assert!(lower > 0 || PLANNED.is_empty());
}

#[test]
fn xla_own_offsets_are_accepted_and_never_below_the_plan() {
    for planned in planned(|name| name.starts_with("xla/") && name.ends_with(".temp.csv.gz")) {
        let folder = Folder::new();
        let rows = text_of(&planned.path);
        let file = rows.replace(".temp.csv.gz", ".temp.xla-offsets.csv.gz");
        folder.run(&format!("verify {file} {rows}")).ok();
        // With every row pinned, what is left to say is how good XLA's answer is.
        let theirs = folder.run(&format!("plan {file} --json - --no-baselines --quiet")).ok().report();
        assert!(planned.report.peak_bytes <= theirs.peak_bytes, "{}", planned.name);
        assert_eq!(planned.report.lower_bound_bytes, theirs.max_load_bytes, "{}", planned.name);
        let stats = std::fs::read_to_string(rows.replace(".temp.csv.gz", ".stats.json")).unwrap();
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        assert_eq!(stats["xla_temp_bytes"], theirs.peak_bytes, "{}", planned.name);
        // Released, the rows are the same problem; it is enough to see that on the quick ones.
        if planned.report.buffers < 200 {
            let options = "--ignore-offsets --json - --no-baselines --quiet --plan-out plan.json";
            let anew = folder.run(&format!("plan {file} {options}")).ok().report();
            assert!(anew.placements == planned.report.placements, "{}", planned.name);
            folder.run(&format!("verify plan.json {file} --ignore-offsets")).ok();
            assert!(folder.run(&format!("verify plan.json {file}")).no().contains("is pinned at"));
        }
    }
}
