//! `gpumem convert`: what comes out says what went in.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Folder, Report, example, files, root, shared, text_of};

fn plan(folder: &Folder, file: &str, options: &str) -> Report {
    folder.run(&format!("plan {file} --no-baselines --json - {options}")).ok().report()
}

#[test]
fn a_corpus_graph_in_our_own_form_gets_the_same_plan() {
    let Some(graphs) = shared("graphs") else { return };
    let folder = Folder::new();
    for path in files(&graphs, ".graph.json.gz") {
        let file = text_of(&path);
        folder.run(&format!("convert {file} own.json.gz")).ok();
        // Equal rows in each tier get equal plans; the plans themselves are compared where that is quick.
        for tiers in ["persistent", "cyclic", "temporary"] {
            let [theirs, ours] = [(file.as_str(), "theirs.csv"), ("own.json.gz", "ours.csv")].map(|(from, to)| {
                folder.run(&format!("convert {from} {to} --tiers {tiers}")).ok();
                folder.bytes(to)
            });
            assert!(theirs == ours, "{file}: {tiers}");
        }
        if path.metadata().unwrap().len() < 40_000 {
            let [theirs, ours] = [file.as_str(), "own.json.gz"].map(|file| plan(&folder, file, "--node-limit 1000"));
            assert_eq!(ours.input.format, "gpumem-graph/1");
            assert!(theirs.placements == ours.placements, "{file}");
            assert_eq!((theirs.name, theirs.zero_byte), (ours.name, ours.zero_byte));
        }
        // What was written is what is written again.
        let before = folder.bytes("own.json.gz");
        folder.run("convert own.json.gz again.json.gz").ok();
        assert!(folder.bytes("again.json.gz") == before, "{file}");
    }
}

#[test]
fn a_graph_becomes_the_rows_that_are_planned() {
    let folder = Folder::new();
    let file = example("bert-large-train.graph.json.gz");
    folder.run(&format!("convert {file} rows.csv")).ok();
    let rows = plan(&folder, "rows.csv", "--node-limit 0");
    let graph = plan(&folder, &file, "--node-limit 0 --alignment 1");
    assert_eq!(
        (rows.buffers, rows.sum_bytes, rows.max_load_bytes),
        (graph.buffers, graph.sum_bytes, graph.max_load_bytes)
    );
    assert_eq!(rows.conflict_edges, graph.conflict_edges);
    folder.run(&format!("convert {file} some.csv --tiers cyclic,temporary")).ok();
    let some = plan(&folder, "some.csv", "");
    let arena = plan(&folder, &file, "--alignment 1 --tiers cyclic,temporary");
    assert_eq!(
        (some.buffers, some.peak_bytes, some.max_load_bytes),
        (arena.buffers, arena.peak_bytes, arena.max_load_bytes)
    );
}

#[test]
fn a_plan_becomes_rows_with_offsets_and_is_still_right() {
    let folder = Folder::new();
    let file = example("bert-large-train.graph.json.gz");
    folder.run(&format!("plan {file} --quiet --no-baselines --plan-out plan.json")).ok();
    folder.run("convert plan.json plan.csv").ok();
    folder.run(&format!("verify plan.csv {file}")).ok();
    folder.run("convert plan.csv back.json").ok();
    folder.run(&format!("verify back.json {file}")).ok();
    assert_eq!(folder.json("back.json")["peak_bytes"], folder.json("plan.json")["peak_bytes"]);
    folder.run("convert back.json again.csv").ok();
    assert_eq!(folder.text("again.csv"), folder.text("plan.csv"));
}

#[test]
fn an_earlier_plan_can_be_planned_again() {
    let folder = Folder::new();
    let file = example("two-streams.graph.json");
    folder.run(&format!("plan {file} --quiet --node-limit 0 --plan-out first.json")).ok();
    let again = plan(&folder, "first.json", "--plan-out second.json");
    assert_eq!(again.input.format, "gpumem-plan/1");
    assert!(again.placements.iter().any(|p| p.name == "w1" && p.tier == "persistent"));
    folder.run(&format!("verify second.json {file}")).ok();
}

#[test]
fn files_are_compressed_as_their_names_ask_and_read_by_what_they_hold() {
    let folder = Folder::new();
    let file = example("example.dsa.csv");
    let steps = ["a.csv", "b.csv.gz", "c.csv.zst", "d.csv"];
    let mut from = file.clone();
    for to in steps {
        folder.run(&format!("convert {from} {to}")).ok();
        // The next step has to find out by itself.
        std::fs::copy(folder.path(to), folder.path("nameless")).unwrap();
        from = "nameless".to_owned();
    }
    assert_eq!(folder.text("a.csv"), folder.text("d.csv"));
    assert!(folder.bytes("b.csv.gz").starts_with(&[0x1f, 0x8b]));
    assert!(folder.bytes("c.csv.zst").starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    let [plain, packed] = [&file, "c.csv.zst"].map(|file| plan(&folder, file, ""));
    assert_eq!((packed.input.compression.as_str(), plain.input.compression.as_str()), ("zstd", "plain"));
    assert_eq!(packed.placements, plain.placements);
    for name in ["plan.json", "plan.json.gz", "plan.json.zst"] {
        folder.run(&format!("plan {file} --quiet --plan-out {name}")).ok();
        folder.run(&format!("verify {name} {file} --quiet")).ok();
    }
}

#[test]
fn what_a_format_cannot_carry_is_refused() {
    let folder = Folder::new();
    let graph = example("two-streams.graph.json");
    folder.write("rows.csv", "id,lower,upper,size\na,0,1,1\n");
    folder.write("trace.csv", "op,id,bytes\nalloc,1,8\n");
    folder.run(&format!("plan {graph} --quiet --plan-out plan.json")).ok();
    for (args, part) in [
        ("convert rows.csv graph.json", "no ops"),
        (&format!("convert {graph} out.csv"), "streams"),
        ("convert plan.json out.csv", "separations"),
        ("convert rows.csv out.txt", "the ending says the format: .csv, .json, .gmtrace, .pickle, then"),
        ("convert rows.csv out", "the ending says the format"),
        ("convert rows.csv out.csv --tiers cyclic", "--tiers"),
        ("convert rows.csv out.gmtrace", "a list of buffers with live ranges can't become out.gmtrace"),
        ("convert trace.csv out.json", "a trace of requests can't become out.json"),
        ("convert trace.csv out.pickle", "`gpumem replay trace.csv --snapshot out.pickle`"),
    ] {
        let message = folder.run(args).refusal();
        assert!(message.contains(part), "{args}: {message}");
    }
    folder.run("plan rows.csv --quiet --tiers persistent --plan-out none.json").ok();
    assert!(folder.run("convert none.json out.csv").refusal().contains("no buffers"));
    assert_eq!(folder.names(), ["none.json", "plan.json", "rows.csv", "trace.csv"]);
}

#[test]
fn traces_go_through_every_form_and_come_back() {
    let folder = Folder::new();
    let text = "# model: tiny\nop,id,bytes,stream,thread,tag,time_ns\nalloc,1,64,0,7,conv,5\nuse,1,0,3,7,,6\n\
                free,1,0,0,7,,9\nstep,1,0,0,7,,11\n";
    folder.write("a.csv", text);
    let mut from = "a.csv";
    for to in ["b.gmtrace", "c.gmtrace.gz", "d.csv.zst", "e.gmtrace", "f.csv"] {
        folder.run(&format!("convert {from} {to}")).ok();
        from = to;
    }
    assert_eq!(folder.text("f.csv"), text);
    assert!(folder.bytes("b.gmtrace").starts_with(b"\x89GPUMEM\n"));
}

#[test]
fn a_trace_that_was_cut_is_converted_as_far_as_it_goes_and_says_so() {
    let folder = Folder::new();
    folder.write("a.csv", "op,id,bytes\nalloc,1,64\nfree,1,0\n");
    folder.run("convert a.csv b.gmtrace").ok();
    let whole = folder.bytes("b.gmtrace");
    std::fs::write(folder.path("cut.gmtrace"), &whole[..whole.len() - 13]).unwrap();
    let done = folder.run("convert cut.gmtrace c.csv").ok();
    assert!(
        done.stderr.contains("cut.gmtrace: the trace is cut after 2 rows: the file stops there"),
        "{}",
        done.stderr
    );
    assert_eq!(folder.text("c.csv"), "op,id,bytes,stream\nalloc,1,64,0\nfree,1,0,0\n");
    std::fs::write(folder.path("head.gmtrace"), &whole[..12]).unwrap();
    let refused = folder.run("convert head.gmtrace d.csv");
    assert!(refused.code == 2 && refused.stderr.contains("there are no rows to write"), "{}", refused.stderr);
}

#[test]
fn snapshots_and_logs_become_traces() {
    let folder = Folder::new();
    folder.write(
        "log.csv",
        "Thread,Time,Action,Pointer,Size,Stream\n1,00:00:01,allocate,0xff00,64,0x2\n1,00:00:02,free,0xff00,64,0x2\n",
    );
    folder.run("convert log.csv log.gmtrace").ok();
    folder.run("convert log.gmtrace rows.csv").ok();
    assert_eq!(
        folder.text("rows.csv"),
        "op,id,bytes,stream,thread,time_ns\nalloc,0,64,2,1,1000000000\nfree,0,64,2,1,2000000000\n"
    );
    let snapshot = root().join("crates/formats/tests/data/cuda-gpt-medium-512-inference.pickle.gz");
    let snapshot = text_of(&snapshot);
    folder.run(&format!("convert {snapshot} snapshot.csv")).ok();
    folder.run(&format!("convert {snapshot} again.pickle.gz")).ok();
    folder.run("convert again.pickle.gz again.csv").ok();
    assert_eq!(folder.text("again.csv"), folder.text("snapshot.csv"));
    assert_eq!(folder.text("snapshot.csv").lines().filter(|line| line.starts_with("alloc,")).count(), 1889);
}
