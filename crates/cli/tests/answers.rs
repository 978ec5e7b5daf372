//! What `gpumem plan` answers: figures, words, and exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Count, Folder, Ran, example, gpumem};

/// Eight columns by three rows: at time 1 three buffers are live, 60 bytes in all.
const THREE: &str = "id,lower,upper,size\nlong,0,9,10\nwide,1,2,30\nmiddle,1,5,20\n";

fn three() -> Folder {
    let folder = Folder::new();
    folder.write("three.csv", THREE);
    folder
}

#[test]
fn a_capacity_that_cannot_be_met_is_answered_with_no_and_what_is_live() {
    let folder = three();
    let message = folder.run("plan three.csv --capacity 59 --quiet").no();
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    assert_eq!(lines[0], "no plan can fit into 59 bytes: 60 are needed at least");
    assert_eq!(lines[1], "live at time 1: 3 buffers, 60 bytes");
    // Largest first.
    let names: Vec<&str> = lines[2..].iter().map(|line| line.split_whitespace().last().unwrap()).collect();
    assert_eq!(names, ["wide", "middle", "long"]);
    assert!(lines[2].starts_with("30 bytes"), "{message}");

    let report = folder.run("plan three.csv --capacity 59 --json -");
    assert_eq!(report.code, 1);
    let report = report.report();
    assert_eq!((report.status.as_str(), report.peak_bytes, report.capacity_bytes), ("infeasible", 60, Some(59)));

    let ran = folder.run("plan three.csv --capacity 60 --plan-out plan.json").ok();
    assert!(ran.stdout.contains("fits, 0 B left"), "{}", ran.stdout);
    assert_eq!(folder.json("plan.json")["capacity_bytes"], 60);
    folder.run("verify plan.json three.csv").ok();
}

#[test]
fn an_overloaded_graph_names_the_op_and_who_made_what() {
    let message = gpumem(["plan", &example("bert-large-train.graph.json.gz"), "--capacity", "1G", "--quiet"]).no();
    assert!(message.starts_with("no plan can fit into 1073741824 bytes: "), "{message}");
    assert!(message.lines().nth(1).unwrap().starts_with("live at half-step "), "{message}");
    assert!(message.contains(" persistent ") && message.contains(" cyclic ") && message.contains(" by "), "{message}");
    assert!(message.lines().last().unwrap().trim().ends_with(" more"), "{message}");
}

#[test]
fn a_plan_over_the_capacity_is_still_saved_and_says_so() {
    let folder = three();
    assert_eq!(folder.run("plan three.csv --capacity 1 --quiet --plan-out plan.json").code, 1);
    assert_eq!(folder.json("plan.json")["status"], "infeasible");
    assert!(folder.run("verify plan.json three.csv").ok().stdout.contains("infeasible"));
}

#[test]
fn json_on_standard_output_is_alone_there_and_has_every_field() {
    let folder = Folder::new();
    let file = example("two-streams.graph.json");
    let ran = folder.run(&format!("plan {file} --json - --explain h --html page.html --order memory")).ok();
    // The report's type names every field and refuses others.
    let report = ran.report();
    assert_eq!((report.format.as_str(), report.name.as_str()), ("gpumem-report/1", "two layers on two streams"));
    assert_eq!((report.input.path.as_str(), report.input.format.as_str()), (file.as_str(), "gpumem-graph/1"));
    assert_eq!(report.input.stored_bytes, std::fs::metadata(&file).unwrap().len());
    assert_eq!(report.zero_byte, ["reserve"]);
    assert!(report.placements.iter().all(|p| p.name != "reserve" && p.name != "a_t"));
    assert!(report.conflict_edges.unwrap() > 0 && report.given_order_load_bytes.is_some());
    assert!(report.wall_seconds > 0.0 && report.cpu_seconds > 0.0 && report.planning_seconds > 0.0);
    assert!(report.read_seconds > 0.0 && report.analysis_seconds > 0.0);
    let baselines: Vec<&str> = report.baselines.keys().map(String::as_str).collect();
    assert_eq!(baselines, ["best_fit_arrival", "first_fit_arrival", "greedy_by_size", "xla_best_of_six"]);
    // What was asked for besides goes where it disturbs nobody.
    assert!(ran.stderr.contains("lies at") && !ran.stderr.contains("lower bound"), "{}", ran.stderr);

    folder.run(&format!("plan {file} --json report.json --order memory --quiet")).ok();
    let saved = folder.json("report.json");
    assert_eq!(saved["placements"], serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["placements"]);
}

#[test]
fn every_field_has_a_line_in_the_table_of_a_plain_run() {
    let ran = gpumem(["plan", &example("bert-large-train.graph.json.gz")]).ok();
    for words in [
        "gpumem-corpus-graph/1",
        "tensors",
        "persistent",
        "cyclic",
        "temporary",
        "max load",
        "lower bound",
        "peak",
        "proved optimal, gap 0",
        "holes",
        "pieces at a time",
        "first fit arrival",
        "best fit arrival",
        "greedy by size",
        "xla best of six",
        "this plan",
        "in all: read",
        "of processor time",
        "deterministic",
    ] {
        assert!(ran.stdout.contains(words), "no {words:?} in {}", ran.stdout);
    }
    assert_eq!(ran.stderr, "");
}

#[test]
fn quiet_prints_nothing_but_what_was_asked_for() {
    let folder = three();
    let silent = |ran: Ran| assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    silent(folder.run("plan three.csv --quiet --plan-out plan.json --html page.html"));
    silent(folder.run("plan three.csv -q --order memory"));
    silent(folder.run("verify plan.json three.csv --quiet"));
    silent(folder.run("convert plan.json plan.csv"));
    silent(folder.run("plan plan.csv --quiet"));
    // Without it a person is told that nothing was left to plan.
    assert!(folder.run("plan plan.csv").ok().stderr.contains("--ignore-offsets"));
    let ran = folder.run("plan three.csv --quiet --explain wide").ok();
    assert!(ran.stdout.contains("wide") && !ran.stdout.contains("max load"), "{}", ran.stdout);
    assert!(folder.run("plan three.csv --json - --quiet").ok().report().buffers == 3);
}

#[test]
fn tiers_narrow_the_plan_to_what_was_asked_for() {
    let folder = Folder::new();
    let file = example("bert-large-train.graph.json.gz");
    let plan = |options: &str| {
        folder.run(&format!("plan {file} --no-baselines --node-limit 1000 --json - {options}")).ok().report()
    };
    let all = plan("");
    let of = |name: &str| all.tiers[name];
    let none = Count { count: 0, bytes: 0 };
    for (option, kept) in [
        ("persistent", &["persistent"][..]),
        ("temporary", &["temporary"]),
        ("cyclic,temporary", &["cyclic", "temporary"]),
        ("persistent,cyclic,temporary", &["persistent", "cyclic", "temporary"]),
    ] {
        let report = plan(&format!("--tiers {option}"));
        for name in ["persistent", "cyclic", "temporary"] {
            assert_eq!(report.tiers[name], if kept.contains(&name) { of(name) } else { none }, "{option}");
        }
        assert_eq!(report.buffers, kept.iter().map(|name| of(name).count).sum::<usize>());
        assert!(report.peak_bytes <= all.peak_bytes);
    }
    // Persistent buffers lie side by side at the bottom.
    let persistent = all.placements.iter().filter(|p| p.tier == "persistent").map(|p| p.offset + p.bytes).max();
    let others = all.placements.iter().filter(|p| p.tier != "persistent").map(|p| p.offset).min();
    assert!(persistent.unwrap() <= others.unwrap());
    assert_eq!(all.arena_base_bytes, others.unwrap());
    // A plan of nothing is a plan.
    folder.write("short.csv", "id,lower,upper,size\na,0,9,1\n");
    let ran = folder.run("plan short.csv --tiers persistent --json - --html page.html --svg plan.svg --png plan.png");
    assert_eq!(ran.ok().report().peak_bytes, 0);
}

#[test]
fn an_alignment_holds_for_every_buffer_and_a_pin_stays_where_it_is() {
    let folder = Folder::new();
    let file = example("two-streams.graph.json");
    for (option, unit) in [("--alignment 4K", 4096), ("--alignment 48", 48), ("--alignment 1", 1), ("", 256)] {
        let report = folder.run(&format!("plan {file} --no-baselines --json - {option}")).ok().report();
        assert!(report.placements.iter().all(|p| p.offset % unit == 0), "{option}");
    }
    let file = example("example.dsa.csv");
    let report = folder.run(&format!("plan {file} --alignment 96 --json -")).ok().report();
    assert_eq!(report.named("weights").offset, 0);
    assert!(report.placements.iter().all(|p| p.offset % 96 == 0));
    assert_eq!(report.named("input").offset % 768, 0, "its own 256 and the 96 asked for");
    folder.write("pinned.csv", "id,lower,upper,size,offset\na,0,2,10,100\nb,1,3,10,\n");
    let report = folder.run("plan pinned.csv --json -").ok().report();
    assert_eq!((report.named("a").offset, report.peak_bytes, report.bound_kind.as_str()), (100, 110, "fixed"));
    assert_eq!(folder.run("plan pinned.csv --json - --ignore-offsets").ok().report().peak_bytes, 20);
}

#[test]
fn an_explanation_says_tier_life_conflicts_place_and_neighbours() {
    let explain = |file: &str, name: &str| gpumem(["plan", &example(file), "-q", "--explain", name]).ok().stdout;
    let csv = explain("example.dsa.csv", "mask");
    let says =
        |text: &str, parts: &[&str]| parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
    // Within its own gap nothing of it is held, so that moment is not the tightest.
    says(
        &csv,
        &[
            "500 B",
            "judged by its life alone",
            "[2, 9), gap [3, 4), gap [5, 7)",
            "conflicts  5",
            "at time 4",
            "below it",
            "above it",
        ],
    );
    // Its gap holds the whole life of nobody, but `hidden` ends before it.
    says(&explain("example.dsa.csv", "output"), &["conflicts  3 buffers"]);

    let graph = "two-streams.graph.json";
    says(
        &explain(graph, "w1"),
        &[
            "persistent: it lives across steps, by its kind (Parameter)",
            "the beginning of the step",
            "the end of the step",
        ],
    );
    says(
        &explain(graph, "a"),
        &["cyclic: made by relu", "before the loss cross_entropy", "held for relu_grad", "last used by relu_grad"],
    );
    says(&explain(graph, "a_t"), &["lies in    a, whose bytes it shares"]);
    says(&explain(graph, "d_h"), &["lies in    d_a", "in place   relu_grad", "temporary"]);
    says(&explain(graph, "fc1.workspace"), &["temporary", "made by fc1", "last used by fc1", "256.000 KiB"]);
    // Nothing orders the second use of the input stream against compute, so it may share bytes with nobody there.
    says(&explain(graph, "next_x"), &["cyclic: the graph asks for it", "no event orders their streams", "d_w1"]);
    let both = gpumem(["plan", &example(graph), "-q", "--explain", "a", "--explain", "w1"]).ok().stdout;
    assert_eq!(both.matches("lies at").count(), 2);
}

#[test]
fn a_node_limit_of_nothing_still_gives_a_plan() {
    let folder = Folder::new();
    let file = example("bert-large-train.graph.json.gz");
    let report = folder.run(&format!("plan {file} --node-limit 0 --json - --plan-out plan.json")).ok().report();
    assert!(report.status != "infeasible" && report.deterministic);
    folder.run(&format!("verify plan.json {file} --quiet")).ok();
}

#[test]
fn help_and_version_are_answers() {
    assert!(gpumem(["--help"]).ok().stdout.contains("convert"));
    assert!(gpumem(["plan", "--help"]).ok().stdout.contains("--capacity <SIZE>"));
    assert_eq!(gpumem(["--version"]).ok().stdout, format!("gpumem {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_mistyped_column_is_named() {
    let folder = Folder::new();
    folder.write("typo.csv", "id,lower,upper,size,aligment\na,0,2,10,64\n");
    let ran = folder.run("plan typo.csv").ok();
    assert!(ran.stderr.contains("columns not looked at: aligment"), "{}", ran.stderr);
}

#[test]
fn a_low_node_limit_makes_no_plan_worse_than_a_baseline() {
    for limit in ["--node-limit 0", "--node-limit 5000", "--capacity 1G"] {
        let file = example("bert-large-train.graph.json.gz");
        let args = ["plan", &file, "--json", "-", "--quiet"];
        let report = gpumem(args.into_iter().chain(limit.split(' '))).report();
        assert!(report.baselines.values().all(|&peak| report.peak_bytes <= peak), "{limit}: {:?}", report.baselines);
    }
}

#[test]
fn tensors_are_called_what_the_file_calls_them() {
    let folder = Folder::new();
    let tensors = r#"{"id":1,"name":"one","dtype":"u8","shape":[10]},{"id":0,"name":"zero","dtype":"u8","shape":[20]},
        {"id":"r","name":"one","dtype":"u8","shape":[3]}"#;
    let ops = r#"{"id":"p","kind":"k","inputs":[],"outputs":[1,0,"r"],"workspace_bytes":7}"#;
    folder.write("g.json", format!(r#"{{"format":"gpumem-graph/1","tensors":[{tensors}],"ops":[{ops}]}}"#));
    folder.run("plan g.json --plan-out p.json --explain r --explain 0 --explain opp").ok();
    let plan = folder.json("p.json");
    let placed: Vec<(&str, u64)> = plan["placements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["id"].as_str().unwrap(), p["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(placed, [("1", 10), ("0", 20), ("r", 3), ("opp", 7)]);
    let said = folder.run("plan g.json -q --explain r").ok().stdout;
    assert!(said.contains("\nr\n  name       one\n  bytes      3 B"), "{said}");
    folder.run("verify p.json g.json").ok();
    folder.run("convert g.json h.json").ok();
    folder.run("verify p.json h.json").ok();
}

#[test]
fn an_alignment_asked_for_holds_beside_a_tensors_own() {
    let folder = Folder::new();
    let tensors =
        r#"{"id":0,"dtype":"u8","shape":[10],"alignment":8},{"id":1,"dtype":"u8","shape":[10],"alignment":1024}"#;
    let ops = r#"{"id":0,"kind":"k","inputs":[],"outputs":[0,1]}"#;
    folder.write("g.json", format!(r#"{{"format":"gpumem-graph/1","tensors":[{tensors}],"ops":[{ops}]}}"#));
    folder.run("plan g.json --alignment 256 --plan-out p.json").ok();
    let plan = folder.json("p.json");
    assert_eq!((&plan["placements"][0]["alignment"], &plan["placements"][1]["alignment"]), (&256.into(), &1024.into()));
}

#[test]
fn the_input_is_never_overwritten() {
    let folder = three();
    for option in ["--json", "--plan-out", "--html"] {
        let message = folder.run(&format!("plan three.csv {option} ./three.csv")).refusal();
        assert!(message.contains("would overwrite the input"), "{message}");
    }
    assert_eq!(folder.text("three.csv"), THREE);
}

#[test]
fn names_cannot_steer_the_terminal() {
    let folder = Folder::new();
    folder.write("esc.csv", "id,lower,upper,size\n\u{1b}[31mred,0,2,10\nb,0,2,10\n");
    let ran = folder.run("plan esc.csv --capacity 5 --explain b");
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    assert!(ran.stderr.contains("[31mred"), "{}", ran.stderr);
}

#[test]
fn an_order_for_memory_never_raises_the_peak() {
    let folder = Folder::new();
    // Its load can be lowered, but among streams that no event orders it then packs worse.
    let file = support::text_of(&support::root().join("crates/cli/tests/data/order-packs-worse.graph.json"));
    for options in ["--node-limit 20000", "--node-limit 0", "--tiers temporary", "--tiers cyclic", "--alignment 1"] {
        let plan = |order: &str| {
            let args = format!("plan {file} --order {order} --no-baselines --json - --plan-out {order}.json {options}");
            folder.run(&args).ok().report()
        };
        let [given, memory] = ["given", "memory"].map(plan);
        assert!(memory.peak_bytes <= given.peak_bytes, "{options}: {} over {}", memory.peak_bytes, given.peak_bytes);
        assert!(given.given_order_load_bytes.is_none() && memory.given_order_load_bytes.is_some());
        folder.run(&format!("verify memory.json {file}")).ok();
    }
    let ran = folder.run(&format!("plan {file} --order memory --node-limit 20000")).ok();
    assert!(ran.stdout.contains("order     as given: no better one was found"), "{}", ran.stdout);
}
