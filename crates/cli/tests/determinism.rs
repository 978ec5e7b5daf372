//! Equal input, options and seed give equal bytes, however many threads there are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Folder, Report, example, shared, text_of};

/// Plans `file` and gives back the report's text of placements and the saved plan's bytes.
fn plan(file: &str, options: &str) -> (String, Vec<u8>, Report) {
    let folder = Folder::new();
    let ran = folder.run(&format!("plan {file} --no-baselines --json - --plan-out plan.json {options}")).ok();
    let placements = ran.stdout.split_once("\"placements\":").unwrap().1.to_owned();
    (placements, folder.bytes("plan.json"), ran.report())
}

fn same_at_any_number_of_threads(file: &str, options: &str) -> Report {
    let (placements, saved, report) = plan(file, &format!("{options} --threads 1"));
    assert!(report.deterministic);
    for threads in [1, 2, 4] {
        let (again, saved_again, report_again) = plan(file, &format!("{options} --threads {threads}"));
        assert!(again == placements, "{file} {options}: other placements at {threads} threads");
        assert!(saved_again == saved, "{file} {options}: another plan at {threads} threads");
        assert_eq!(report_again.nodes, report.nodes, "{file} {options} at {threads} threads");
    }
    report
}

#[test]
fn a_bundled_graph_is_planned_alike_at_any_number_of_threads() {
    same_at_any_number_of_threads(&example("bert-large-train.graph.json.gz"), "");
    same_at_any_number_of_threads(&example("two-streams.graph.json"), "--order memory");
}

#[test]
fn hard_problems_are_planned_alike_at_any_number_of_threads_and_by_seed() {
    let Some(folder) = shared("dsa") else { return };
    let mut differ_by_seed = 0;
    for name in ["minimalloc/A.1048576.csv", "minimalloc/C.1048576.csv", "synth/tight_n300_s11.csv"] {
        let file = text_of(&folder.join(name));
        let reports =
            [0, 1].map(|seed| same_at_any_number_of_threads(&file, &format!("--node-limit 400000 --seed {seed}")));
        differ_by_seed += usize::from(reports[0].placements != reports[1].placements);
    }
    println!("the seed made a difference on {differ_by_seed} of 3");
}

#[test]
fn an_order_for_memory_is_chosen_alike_at_any_number_of_threads() {
    let Some(folder) = shared("graphs") else { return };
    let file = text_of(&folder.join("xla/xla-cpu-gpt2-small-b2-s1024-f32-remat.graph.json.gz"));
    same_at_any_number_of_threads(&file, "--order memory --node-limit 300000");
}

#[test]
fn a_time_limit_is_not_called_deterministic() {
    let file = example("example.dsa.csv");
    let (.., limited) = plan(&file, "--time-limit 0.05");
    assert!(!limited.deterministic);
    // Too short for anything but the first answer, which is a plan all the same.
    let (.., shortest) = plan(&file, "--time-limit 0");
    assert!(!shortest.deterministic);
    assert_eq!(shortest.buffers, limited.buffers);
    let (.., unlimited) = plan(&file, "--node-limit 0");
    assert!(unlimited.deterministic);
}

#[test]
fn a_time_limit_is_kept() {
    let Some(folder) = shared("dsa") else { return };
    let file = text_of(&folder.join("minimalloc/D.1048576.csv"));
    let folder = Folder::new();
    let options = "--no-baselines --json - --time-limit 0.2 --node-limit 1000000000 --threads 1";
    let report = folder.run(&format!("plan {file} {options}")).ok().report();
    // Without the limit it would search for minutes.
    assert!(report.cpu_seconds < 5.0, "{} s", report.cpu_seconds);
    assert!(!report.deterministic);
}
