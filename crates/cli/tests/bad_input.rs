//! Bad input is refused by every command: exit code 2, one line that names the file, the place and the reason, nothing
//! on standard output, no file written or touched.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::Write;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use support::snapshots::{frame, pickle, snapshot};
use support::{Folder, Ran, example, files, shared, text_of};

/// A folder with an output that was there before, and a plan that is right.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("before.json", "what was there before");
    folder.run(&format!("plan {} --quiet --plan-out good.plan.json", example("example.dsa.csv"))).ok();
    folder
}

/// Gives `file` to each command in each place; each must refuse it with a message that begins with the file's name and
/// has all of `parts`.
fn is_refused(folder: &Folder, file: &str, parts: &[&str]) {
    let outputs = "--json before.json --plan-out new.json --html new.html --png new.png --svg new.svg \
                   --conflicts new.csv --explain x";
    let runs = [
        format!("plan {file} {outputs}"),
        format!("plan {file} --json - --quiet"),
        format!("convert {file} new.json"),
        format!("convert {file} before.json"),
        format!("verify good.plan.json {file} --quiet"),
    ];
    let names = folder.names();
    for args in runs {
        let message = folder.run(&args).refusal();
        println!("{message}");
        assert!(message.starts_with(&format!("{file}: ")), "{args}: {message}");
        for part in parts {
            assert!(message.contains(part), "{args}: no {part:?} in {message}");
        }
    }
    // Whatever it is, it isn't a plan, or not one that can be read.
    assert!(folder.run(&format!("verify {file}")).refusal().starts_with(&format!("{file}: ")));
    assert_eq!(folder.names(), names, "a file was left behind");
    assert_eq!(folder.text("before.json"), "what was there before");
}

fn each_is_refused(cases: &[(&str, &str, &[&str])]) {
    let folder = prepared();
    for (file, text, parts) in cases {
        folder.write(file, text);
        is_refused(&folder, file, parts);
    }
}

fn gzip(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_ref()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_empty_file_is_refused() {
    each_is_refused(&[("empty.csv", "", &["the file is empty"]), ("blank.json", " \n\n", &["the file is empty"])]);
    let folder = prepared();
    folder.write("empty.csv.gz", gzip(""));
    is_refused(&folder, "empty.csv.gz", &["the file is empty"]);
}

#[test]
fn a_damaged_or_truncated_archive_is_refused() {
    let folder = prepared();
    let rows: String = (0..5_000).map(|i| format!("b{i},{i},{},{}\n", i + 2 + i % 7, 1 + i * i % 4_093)).collect();
    let whole = gzip(format!("id,lower,upper,size\n{rows}"));
    for kept in [whole.len() - 1, whole.len() - 8, whole.len() / 2, 20, 10, 5] {
        folder.write("cut.csv.gz", &whole[..kept]);
        is_refused(&folder, "cut.csv.gz", &["gzip data is cut off"]);
    }
    // One bit, in the checksum and on the way there, where the damage may show as nonsense in a row.
    for (place, parts) in [(whole.len() - 6, &["gzip data is damaged"][..]), (whole.len() / 2, &[]), (12, &[])] {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x10;
        folder.write("flipped.csv.gz", &flipped);
        is_refused(&folder, "flipped.csv.gz", parts);
    }

    folder.write("whole.csv", format!("id,lower,upper,size\n{rows}"));
    folder.run("convert whole.csv whole.csv.zst").ok();
    let zstd = folder.bytes("whole.csv.zst");
    folder.write("cut.csv.zst", &zstd[..zstd.len() / 2]);
    is_refused(&folder, "cut.csv.zst", &["zstd data is cut off"]);
}

#[test]
fn a_csv_with_a_mistake_is_refused_with_its_line_and_column() {
    each_is_refused(&[
        ("column.csv", "id,lower,upper\na,0,1\n", &["line 1", "no column `size`"]),
        (
            "number.csv",
            "id,lower,upper,size\na,0,1,8\nb,0,x,8\n",
            &["line 3", "column `upper`", "`x` is not a whole number"],
        ),
        (
            "negative.csv",
            "id,lower,upper,size\na,-1,1,8\n",
            &["line 2", "column `lower`", "`-1` is not a whole number"],
        ),
        ("equal.csv", "id,lower,upper,size\na,3,3,8\n", &["line 2", "column `upper`", "upper 3 is not above lower 3"]),
        ("turned.csv", "id,lower,upper,size\na,5,3,8\n", &["line 2", "column `upper`", "upper 3 is not above lower 5"]),
        ("zero.csv", "id,lower,upper,size\na,0,1,8\nb,0,5,0\n", &["line 3", "column `size`", "must be at least 1"]),
        (
            "large.csv",
            "id,lower,upper,size\na,0,1,4611686018427387905\n",
            &["line 2", "column `size`", "above the limit"],
        ),
        (
            "twice.csv",
            "id,lower,upper,size\na,0,1,8\nb,0,1,8\na,2,3,8\n",
            &["line 4", "column `id`", "`a` is already that of row 1"],
        ),
        ("ragged.csv", "id,lower,upper,size\na,0,1\n", &["line 2", "3 fields", "header 4"]),
        ("bare.csv", "id,lower,upper,size\n", &["line 1", "no rows"]),
        (
            "alignment.csv",
            "id,lower,upper,size,alignment\na,0,1,8,0\n",
            &["line 2", "column `alignment`", "at least 1"],
        ),
        (
            "offset.csv",
            "id,lower,upper,size,alignment,offset\na,0,1,8,16,24\n",
            &["line 2", "24 is not a multiple", "16"],
        ),
        ("gap.csv", "id,lower,upper,size,gaps\na,0,9,8,7-3\n", &["line 2", "column `gaps`", "`7-3`"]),
    ]);
}

#[test]
fn sizes_that_add_up_to_too_much_are_refused() {
    let rows: String = (0..5).map(|i| format!("b{i},0,1,4611686018427387904\n")).collect();
    each_is_refused(&[(
        "sum.csv",
        &format!("id,lower,upper,size\n{rows}"),
        &["line 3", "add up to 2^63 bytes or more"],
    )]);
    let folder = prepared();
    // Readable, but rounded up to the alignment nothing could address it.
    folder.write("aligned.csv", "id,lower,upper,size\na,0,1,8\nb,0,1,8\nc,0,1,8\n");
    let message = folder.run("plan aligned.csv --alignment 4611686018427387904").refusal();
    assert!(message.starts_with("aligned.csv: ") && message.contains("add up to 2^63 bytes or more"), "{message}");
}

/// A graph of ours with these tensors and ops.
fn graph(tensors: &str, ops: &str) -> String {
    format!(r#"{{"format": "gpumem-graph/1", "tensors": [{tensors}], "ops": [{ops}]}}"#)
}

fn tensor(id: &str) -> String {
    format!(r#"{{"id": "{id}", "dtype": "f32", "shape": [4]}}"#)
}

fn op(id: &str, input: &str, output: &str) -> String {
    format!(r#"{{"id": "{id}", "kind": "k", "inputs": ["{input}"], "outputs": ["{output}"]}}"#)
}

#[test]
fn a_graph_with_a_mistake_is_refused_with_the_place_of_it() {
    let abc = [tensor("a"), tensor("b"), tensor("c")].join(", ");
    let with_input = format!(r#"{{"id": "x", "dtype": "f32", "shape": [4], "kind": "input"}}, {abc}"#);
    let cycle = graph(&abc, &[op("first", "c", "a"), op("second", "a", "b"), op("third", "b", "c")].join(", "));
    let early = graph(&with_input, &[op("first", "b", "a"), op("second", "x", "b"), op("third", "b", "c")].join(", "));
    let dangling = graph(&with_input, &op("only", "nowhere", "a"));
    let never = graph(&with_input, &op("only", "c", "a"));
    let twice = graph(&with_input, &[op("first", "x", "a"), op("second", "x", "a")].join(", "));
    let same_id = graph(&[tensor("a"), tensor("a")].join(", "), "");
    let in_itself = graph(r#"{"id": "a", "dtype": "f32", "shape": [4], "alias_of": "a"}"#, "");
    let mistyped = graph(r#"{"id": "a", "dtype": "f32", "shape": [4], "teir_hint": "cyclic"}"#, "");
    let overflow = graph(r#"{"id": "a", "dtype": "f64", "shape": [4294967296, 4294967296, 4294967296]}"#, "");
    each_is_refused(&[
        (
            "version.json",
            r#"{"format": "gpumem-graph/99", "tensors": [], "ops": []}"#,
            &["`gpumem-graph/99` is unknown", "gpumem-graph/1"],
        ),
        ("no-format.json", r#"{"tensors": [], "ops": []}"#, &["without a `format` field"]),
        ("cycle.json", &cycle, &["\"first\"", "\"second\"", "\"third\"", " -> "]),
        ("early.json", &early, &["\"first\"", "\"b\"", "\"second\""]),
        ("never.json", &never, &["\"c\""]),
        ("made-twice.json", &twice, &["\"a\"", "\"first\"", "\"second\""]),
        ("dangling.json", &dangling, &["ops[0].inputs[0]", "`only`", "`nowhere`"]),
        ("same-id.json", &same_id, &["tensors[1]", "`a`"]),
        ("alias.json", &in_itself, &["tensors[0]", "`a`"]),
        ("mistyped.json", &mistyped, &["tensors[0]", "teir_hint"]),
        ("overflow.json", &overflow, &["tensors[0]", "`a`"]),
        ("cut.json", &cycle[..cycle.len() / 2], &["line 1", "column"]),
    ]);
}

#[test]
fn a_corpus_graph_with_a_mistake_is_refused_with_the_place_of_it() {
    each_is_refused(&[
        (
            "dangling.json",
            r#"{"format": "gpumem-corpus-graph/1", "name": "t", "tensors": [
                {"id": 0, "name": "x", "dtype": "f32", "shape": [4], "bytes": 16, "kind": "input"}],
                "nodes": [{"id": 0, "name": "add", "op": "aten.add", "inputs": [0], "outputs": [7]}], "results": []}"#,
            &["nodes[0].outputs[0]", "`add`", "7"],
        ),
        ("version.json", r#"{"format": "gpumem-corpus-hlo/2", "nodes": []}"#, &["`gpumem-corpus-hlo/2` is unknown"]),
        (
            "nowhere.json",
            r#"{"format": "gpumem-corpus-hlo/1", "name": "t", "nodes": [
                {"name": "add", "op": "add", "inputs": ["nowhere"], "outputs": [{"dtype": "f32", "shape": [4], "bytes": 16}]}]}"#,
            &["nodes[0].inputs[0]", "`add`", "`nowhere`"],
        ),
    ]);
}

#[test]
fn binary_files_and_other_tools_files_are_refused_by_what_they_are() {
    let folder = prepared();
    folder.write("picture.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    is_refused(&folder, "picture.csv", &["a PNG picture"]);
    folder.write("noise.json", (0..4_096_u32).map(|i| (i * i % 251) as u8).collect::<Vec<_>>());
    is_refused(&folder, "noise.json", &["binary data"]);
    folder.write("archive.csv.gz.gz", gzip(gzip("id,lower,upper,size\na,0,1,1\n")));
    is_refused(&folder, "archive.csv.gz.gz", &["inside compressed data"]);
    folder.write("prose.txt", "Dear planner,\nplease make it fit.\n");
    is_refused(&folder, "prose.txt", &["Dear planner,"]);
    let Some(graphs) = shared("graphs") else { return };
    for file in files(&graphs.join("onnx"), ".onnx") {
        is_refused(&folder, &text_of(&file), &["not recognised"]);
    }
    for file in files(&graphs.join("snapshot"), ".gz") {
        is_refused(&folder, &text_of(&file), &["an allocator's history can't"]);
    }
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let folder = prepared();
    is_refused(&folder, "missing.csv", &["can't open", "No such file"]);
    std::fs::create_dir(folder.path("folder.csv")).unwrap();
    is_refused(&folder, "folder.csv", &["directory"]);
    folder.write("locked.csv", "id,lower,upper,size\na,0,1,1\n");
    let mut mode = std::fs::metadata(folder.path("locked.csv")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0);
    std::fs::set_permissions(folder.path("locked.csv"), mode).unwrap();
    if std::fs::File::open(folder.path("locked.csv")).is_ok() {
        println!("not run: a file without permission to read it (permissions don't bind this user)");
        return;
    }
    is_refused(&folder, "locked.csv", &["can't open", "Permission denied"]);
}

/// Runs `plan FILE` with so little address space that believing a claim ends in an abort.
fn plan_in_little_memory(folder: &Folder, file: &str) -> Ran {
    let script = format!("ulimit -v 2000000; exec '{}' plan {file} --threads 1", env!("CARGO_BIN_EXE_gpumem"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder.path("."));
    Ran::of(shell.output().unwrap())
}

#[test]
fn a_small_file_that_claims_ten_gigabytes_is_refused_without_taking_them() {
    const CLAIM: u64 = 10_000_000_000;
    let folder = prepared();
    // A zstd frame whose header states its length, once with a window as large.
    let mut single = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000];
    single.extend(CLAIM.to_le_bytes());
    let mut windowed = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1100_0000, 23 << 3];
    windowed.extend(CLAIM.to_le_bytes());
    for (name, mut frame) in [("single.csv.zst", single), ("windowed.csv.zst", windowed)] {
        let text = b"id,lower,upper,size\na,0,1,8\n";
        frame.extend([(1 | text.len() << 3) as u8, (text.len() >> 5) as u8, 0]);
        frame.extend(text);
        assert!(frame.len() < 100);
        folder.write(name, &frame);
        is_refused(&folder, name, &["zstd data"]);
        assert!(plan_in_little_memory(&folder, name).refusal().contains("zstd data"));
    }
    // A gzip header that claims an extra field, name and comment that never come.
    folder.write("header.csv.gz", b"\x1f\x8b\x08\x1c\0\0\0\0\0\x03\xff\xff----------");
    is_refused(&folder, "header.csv.gz", &["gzip data is cut off"]);
    // Counts that a reader might reserve room for.
    let huge = CLAIM.to_string();
    let name = "shape.json";
    folder.write(
        name,
        format!(
            r#"{{"format":"gpumem-graph/1","tensors":[{{"id":0,"dtype":"u8","shape":[{huge},{huge}]}}],"ops":[]}}"#
        ),
    );
    is_refused(&folder, name, &["tensors[0]"]);
    assert!(plan_in_little_memory(&folder, name).refusal().contains("tensors[0]"));
    // Ten gigabytes that are only planned for are fine.
    folder.write("tensor.csv", format!("id,lower,upper,size\na,0,{huge},{huge}\n"));
    assert_eq!(plan_in_little_memory(&folder, "tensor.csv").code, 0);
}

#[test]
fn a_long_name_that_many_stacks_share_is_not_copied_for_each() {
    const LONG: usize = 1 << 20;
    const STACKS: u32 = 3000;
    let folder = Folder::new();
    // The name stands in the file once, each further use is a reference to it.
    let events = (0..STACKS).map(|number| {
        json!({ "action": "alloc", "addr": 4096 * u64::from(number), "size": 4096, "stream": 0, "time_us": number,
                "frames": [frame("NAME", "NAME", number)], "user_metadata": "NAME" })
    });
    let placeholder = b"X\x04\0\0\0NAME";
    let mut bytes = Vec::new();
    let mut rest = &pickle(&snapshot(events.collect(), Vec::new()))[..];
    while let Some(at) = rest.windows(placeholder.len()).position(|window| window == placeholder) {
        let is_first = bytes.len() < LONG;
        bytes.extend_from_slice(&rest[..at]);
        if is_first {
            bytes.push(b'X');
            bytes.extend((LONG as u32).to_le_bytes());
            bytes.extend(std::iter::repeat_n(b'n', LONG));
            bytes.extend(b"q\0");
        } else {
            bytes.extend(b"h\0");
        }
        rest = &rest[at + placeholder.len()..];
    }
    bytes.extend_from_slice(rest);
    folder.write("long.pickle", bytes);
    for args in [
        "summary long.pickle",
        "explain-oom long.pickle",
        "diff long.pickle long.pickle",
        "memviz long.pickle -o out.html --png out.png --svg out.svg",
        "memviz long.pickle -o out.json",
        "memviz long.pickle -o out.sqlite",
        "convert long.pickle out.gmtrace",
    ] {
        // A gigabyte of address space, files of 64 MB, and five seconds of a processor.
        let line = format!("ulimit -v 1048576 -f 65536 -t 5; exec \"$0\" {args}");
        let mut command = Command::new("bash");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_gpumem")]).current_dir(folder.path("."));
        let ran = Ran::of(command.output().unwrap()).ok();
        assert!(ran.stdout.len() < 100_000, "{args}: {} bytes", ran.stdout.len());
    }
}

#[test]
fn a_decompression_bomb_is_refused_before_it_is_blown_up() {
    let folder = prepared();
    let mut bomb = gzip("id,lower,upper,size\na,0,1,8\n");
    let megabyte = gzip(vec![b'\n'; 1 << 20]);
    for _ in 0..10_000 {
        bomb.extend(&megabyte);
    }
    folder.write("bomb.csv.gz", &bomb);
    is_refused(&folder, "bomb.csv.gz", &["bomb", "250 times"]);
    assert!(plan_in_little_memory(&folder, "bomb.csv.gz").refusal().contains("bomb"));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let folder = prepared();
    let file = example("two-streams.graph.json");
    for (options, part) in [
        ("--capacity 12X", "12X"),
        ("--capacity -1", "-1"),
        ("--capacity 99999999999T", "--capacity"),
        ("--alignment 0", "--alignment"),
        ("--order best", "--order"),
        ("--tiers permanent", "permanent"),
        ("--tiers cyclic,", "--tiers"),
        ("--threads 2000", "--threads"),
        ("--node-limit many", "many"),
        ("--time-limit -1", "-1"),
        ("--conflicts graph.txt", ".csv or .dot"),
        ("--colour", "--colour"),
        ("--json", "--json"),
    ] {
        let ran = folder.run(&format!("plan {file} {options} --plan-out new.json"));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{options}: {ran:?}");
        assert!(ran.stderr.contains(part), "{options}: {}", ran.stderr);
    }
    for args in ["", "plan", "verify", "convert", "convert a.csv", "explain x", "verify a b --ignore-offsets c"] {
        assert_eq!(folder.run(args).code, 2, "{args}");
    }
    assert_eq!(folder.names(), ["before.json", "good.plan.json"]);
}

#[test]
fn a_tensor_that_is_not_there_is_refused_with_names_like_it() {
    let folder = prepared();
    let graph = example("two-streams.graph.json");
    let message = folder.run(&format!("plan {graph} --explain logit --plan-out new.json")).refusal();
    assert!(message.contains("\"logit\"") && message.contains("similar names: logits, d_logits"), "{message}");
    let message = folder.run(&format!("plan {graph} --explain reserve --plan-out new.json")).refusal();
    assert!(message.contains("reserve") && message.contains("no bytes"), "{message}");
    let message = folder.run(&format!("plan {graph} --tiers cyclic --explain w1 --plan-out new.json")).refusal();
    assert!(message.contains("w1") && message.contains("persistent") && message.contains("--tiers"), "{message}");
    let csv = example("example.dsa.csv");
    let message = folder.run(&format!("plan {csv} --explain gradients --plan-out new.json")).refusal();
    assert!(message.contains("`gradients`") && message.ends_with("similar ones: gradient"), "{message}");
    assert_eq!(folder.names(), ["before.json", "good.plan.json"]);
}

#[test]
fn outputs_that_cannot_be_written_are_refused_and_leave_the_others_alone() {
    let folder = prepared();
    let file = example("example.dsa.csv");
    let others = "--json before.json --plan-out new.json --svg new.svg";
    for (options, parts) in [
        ("--html missing/page.html", &["missing/page.html", "No such file"][..]),
        ("--html good.plan.json/page.html", &["good.plan.json/page.html", "Not a directory"]),
        ("--png .", &[".", "directory"]),
        ("--html new.svg", &["new.svg", "--html", "--svg"]),
    ] {
        let message = folder.run(&format!("plan {file} {others} {options}")).refusal();
        assert!(parts.iter().all(|part| message.contains(part)), "{options}: {message}");
    }
    // They are looked at before anything is read, let alone planned for a minute.
    let message = folder.run("plan nowhere.csv --html missing/page.html").refusal();
    assert!(message.starts_with("missing/page.html: "), "{message}");
    let rows: String = (0..2_100).map(|i| format!("b{i},0,1,1\n")).collect();
    folder.write("crowd.csv", format!("id,lower,upper,size\n{rows}"));
    let message = folder.run(&format!("plan crowd.csv {others} --conflicts new.csv")).refusal();
    assert!(message.contains("2203950 conflicts") && message.contains("2000000"), "{message}");
    let message = folder.run("convert good.plan.json missing/plan.csv").refusal();
    assert!(message.starts_with("missing/plan.csv: "), "{message}");
    assert_eq!(folder.names(), ["before.json", "crowd.csv", "good.plan.json"]);
    assert_eq!(folder.text("before.json"), "what was there before");
}

#[test]
fn pins_that_contradict_each_other_are_refused_by_name() {
    let folder = prepared();
    folder.write("pins.csv", "id,lower,upper,size,offset\nq,0,9,4,\nleft,0,2,10,0\nright,1,3,10,5\n");
    let message = folder.run("plan pins.csv --plan-out new.json").refusal();
    assert!(["pins.csv: ", "`left`", "`right`", "--ignore-offsets"].iter().all(|p| message.contains(p)), "{message}");
    folder.write("odd.csv", "id,lower,upper,size,offset\nq,0,2,10,\nodd,0,2,10,5\n");
    let message = folder.run("plan odd.csv --alignment 4 --plan-out new.json").refusal();
    assert!(["odd.csv: ", "`odd`", "offset 5", "4"].iter().all(|part| message.contains(part)), "{message}");
    folder.write("never.csv", "id,lower,upper,size,gaps\nq,0,2,10,\nnever,0,4,10,0-2 2-4\n");
    let message = folder.run("plan never.csv --plan-out new.json").refusal();
    assert!(message.starts_with("never.csv: ") && message.contains("of `never`"), "{message}");
    assert_eq!(folder.names(), ["before.json", "good.plan.json", "never.csv", "odd.csv", "pins.csv"]);
}
