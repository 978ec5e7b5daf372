//! The files a plan is written to, and what may go wrong on the way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{Folder, Ran, Report, example};

#[test]
fn pictures_are_whole_files_that_need_nothing_from_elsewhere() {
    let folder = Folder::new();
    let file = example("bert-large-train.graph.json.gz");
    let outputs = "--html plan.html --png plan.png --svg plan.svg";
    folder.run(&format!("plan {file} --quiet --no-baselines {outputs}")).ok();
    let page = folder.text("plan.html");
    assert!(page.to_lowercase().starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("torch-bert-large-b8-s128-fp32"), "the name is missing");
    let svg = folder.text("plan.svg");
    assert!(svg.trim_start().starts_with('<') && svg.contains("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in [&page, &svg] {
        for attribute in ["src=\"", "href=\"", "url("] {
            for value in text.split(attribute).skip(1) {
                let is_inside = value.starts_with("data:") || value.starts_with('#') || value.starts_with("\"data:");
                assert!(is_inside, "{attribute}{}", value.chars().take(60).collect::<String>());
            }
        }
    }
    let png = folder.bytes("plan.png");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xaeB`\x82"));
    let [width, height] = [16, 20].map(|at| u32::from_be_bytes(png[at..at + 4].try_into().unwrap()));
    assert!((400..10_000).contains(&width) && (200..10_000).contains(&height), "{width} x {height}");
}

fn rows(csv: &str) -> impl Iterator<Item = (&str, &str)> {
    csv.lines().skip(1).map(|line| line.split_once(',').unwrap())
}

#[test]
fn a_conflict_graph_has_each_conflict_once() {
    let folder = Folder::new();
    for (file, separated) in [("bert-large-train.graph.json.gz", 0), ("two-streams.graph.json", 14)] {
        let file = example(file);
        let tiers = "--tiers cyclic,temporary --no-baselines --node-limit 0";
        let report = folder.run(&format!("plan {file} {tiers} --json - --conflicts edges.csv")).ok().report();
        let text = folder.text("edges.csv");
        assert!(text.starts_with("first,second\n"));
        assert_eq!(rows(&text).count() as u64, report.conflict_edges.unwrap());
        let by_id: HashMap<&str, _> = report.placements.iter().map(|p| (p.id.as_str(), p)).collect();
        let mut apart_in_time = 0;
        for (a, b) in rows(&text) {
            let (a, b) = (by_id[a], by_id[b]);
            assert!(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset, "{a:?} {b:?}");
            apart_in_time += usize::from(a.death <= b.birth || b.death <= a.birth);
        }
        assert_eq!(apart_in_time, separated, "{file}");
        folder.run(&format!("plan {file} {tiers} --quiet --conflicts edges.dot")).ok();
        let dot = folder.text("edges.dot");
        assert!(dot.starts_with("graph conflicts {\n") && dot.trim_end().ends_with('}'));
        assert_eq!(dot.matches(" -- ").count() as u64, report.conflict_edges.unwrap());
        assert_eq!(dot.matches("[label=").count(), report.buffers);
    }
}

#[test]
fn awkward_names_reach_every_output_unharmed() {
    let folder = Folder::new();
    let name = r#"a "b"</script><b>,\n"#;
    let quoted = name.replace('"', "\"\"");
    folder.write("odd.csv", format!("id,lower,upper,size\n\"{quoted}\",0,2,8\nplain,0,2,8\n"));
    let outputs = "--json - --plan-out plan.json --conflicts edges.csv --html page.html --svg plan.svg --png plan.png";
    let report = folder.run(&format!("plan odd.csv {outputs}")).ok().report();
    assert_eq!(report.placements[0].id, name);
    assert_eq!(folder.json("plan.json")["placements"][0]["id"], name);
    folder.run("verify plan.json odd.csv").ok();
    assert_eq!(folder.text("edges.csv"), format!("first,second\n\"{quoted}\",plain\n"));
    assert!(!folder.text("page.html").contains("</script><b>"));
    assert!(!folder.text("plan.svg").contains("</script><b>"));
    folder.run("plan odd.csv --quiet --conflicts edges.dot").ok();
    assert!(
        folder.text("edges.dot").contains(r#"0 [label="a \"b\"</script><b>,\\n\n8 B"];"#),
        "{}",
        folder.text("edges.dot")
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let file = example("bert-large-train.graph.json.gz");
    let fast = ["plan", &file, "--no-baselines", "--node-limit", "0"];
    for more in [&["--json", "-"][..], &[], &["--quiet", "--explain", "mm"]] {
        for first in [0, 10] {
            let args: Vec<&str> = fast.iter().chain(more).copied().collect();
            let mut child = folder.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            stdout.read_exact(&mut vec![0; first]).unwrap();
            drop(stdout);
            let ran = Ran::of(child.wait_with_output().unwrap());
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        }
    }
}

#[test]
fn a_closed_standard_error_changes_no_exit_code() {
    let folder = Folder::new();
    folder.write("rows.csv", "id,lower,upper,size\na,0,1,8\n");
    for (args, code) in [
        ("plan missing.csv", 2),
        ("plan rows.csv --capacity 1", 1),
        ("plan rows.csv --capacity 1X", 2),
        ("plan rows.csv", 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = folder.command(&args.split(' ').collect::<Vec<_>>());
        let status = command.stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(code), "{args}");
    }
}

#[test]
fn a_file_named_twice_is_found_out_however_it_is_spelt() {
    let folder = Folder::new();
    let file = example("example.dsa.csv");
    std::fs::create_dir(folder.path("sub")).unwrap();
    for other in ["out", "./out", "sub/../out"] {
        let message = folder.run(&format!("plan {file} --quiet --html out --svg {other}")).refusal();
        assert!(message.contains("named by both --html and --svg"), "{message}");
    }
    folder.run(&format!("plan {file} --quiet --html out --svg sub/out")).ok();
}

#[test]
fn no_name_steers_a_terminal() {
    let folder = Folder::new();
    let name = "a\u{9b}31m\u{202e}b\u{2066}\u{2028}\u{7f}";
    folder.write("odd.csv", format!("id,lower,upper,size\n{name},0,2,8\n"));
    folder.write("odd.trace.csv", format!("op,id,bytes,tag\nalloc,1,4096,{name}\n"));
    for args in
        ["plan odd.csv", "summary odd.trace.csv", "explain-oom odd.trace.csv", "diff odd.trace.csv odd.trace.csv"]
    {
        for json in ["", " --json -"] {
            let ran = folder.run(&format!("{args}{json}")).ok();
            let wild = |c: char| "\u{9b}\u{202e}\u{2066}\u{2028}\u{7f}".contains(c);
            assert!(!ran.stdout.contains(wild), "{args}{json}: {:?}", ran.stdout);
            if !json.is_empty() {
                let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
                assert!(format!("{report:#}").contains(name), "{args}: the name is not what it was");
            }
        }
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        println!("not run: a full disk (no /dev/full)");
        return;
    }
    let folder = Folder::new();
    let file = example("example.dsa.csv");
    for option in ["--json", "--plan-out", "--html", "--svg", "--png"] {
        let message = folder.run(&format!("plan {file} --quiet {option} /dev/full")).refusal();
        assert!(message.starts_with("/dev/full: can't write: No space left"), "{option}: {message}");
    }
    // More than any buffer on the way holds, so that it is a write in the middle that fails.
    let rows: String = (0..9000).map(|id| format!("alloc,{id},{}\n", 4096 + id)).collect();
    folder.write("t.csv", format!("op,id,bytes\n{rows}"));
    for args in [
        "replay t.csv --quiet --log",
        "replay t.csv --quiet --snapshot",
        "memviz t.csv --format html -o",
        "memviz t.csv --format chrome -o",
    ] {
        let message = folder.run(&format!("{args} /dev/full")).refusal();
        assert!(message.starts_with("/dev/full: can't write: No space left"), "{args}: {message}");
    }
    for args in [&["plan", &file][..], &["plan", &file, "--json", "-"], &["plan", "--help"]] {
        let stdout = std::fs::OpenOptions::new().write(true).open(full).unwrap();
        let output = folder.command(args).stdout(stdout).output().unwrap();
        let ran = Ran::of(output);
        if args[1] != "--help" {
            assert_eq!(ran.code, 2, "{args:?}");
            assert!(ran.stderr.contains("standard output") && ran.stderr.contains("No space left"), "{}", ran.stderr);
        }
    }
}

/// Rows that take a moment to plan and write.
fn many_rows(folder: &Folder, name: &str, count: u64, seed: u64) {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::from("id,lower,upper,size\n");
    for i in 0..count {
        let lower = random(count);
        text.push_str(&format!("buffer-{i},{lower},{},{}\n", lower + 1 + random(40), 1 + random(1 << 20)));
    }
    folder.write(name, text);
}

#[test]
fn processes_that_write_one_file_at_once_leave_one_whole_file() {
    let folder = Folder::new();
    let seeds = [1, 2, 3, 4];
    let plan = |seed: u64, to: &str| {
        let file = format!("rows-{seed}.csv");
        let args = ["plan", &file, "--quiet", "--node-limit", "0", "--no-baselines", "--plan-out", to];
        folder.command(&args).spawn().unwrap()
    };
    let mut whole = Vec::new();
    for seed in seeds {
        // Compression makes writing slow enough for the others to come in between.
        many_rows(&folder, &format!("rows-{seed}.csv"), 4_000, seed);
        assert!(plan(seed, "alone.json.gz").wait().unwrap().success());
        whole.push(folder.bytes("alone.json.gz"));
    }
    for round in 0..5 {
        let children = seeds.map(|seed| plan(seed, "one.json.gz"));
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        assert!(whole.contains(&folder.bytes("one.json.gz")), "round {round}: a mixture");
    }
    assert!(folder.names().iter().all(|name| !name.contains("partial")), "{:?}", folder.names());
}

#[test]
fn a_killed_process_leaves_no_half_file_under_the_name() {
    let folder = Folder::new();
    many_rows(&folder, "rows.csv", 6_000, 7);
    let args = [
        "plan",
        "rows.csv",
        "-q",
        "--node-limit",
        "0",
        "--no-baselines",
        "--plan-out",
        "plan.json",
        "--html",
        "plan.html",
    ];
    let start = Instant::now();
    assert!(folder.command(&args).status().unwrap().success());
    let whole_run = start.elapsed();
    let whole = [folder.bytes("plan.json"), folder.bytes("plan.html")];
    let mut killed = 0;
    for tenth in 0..=10 {
        folder.write("plan.json", "before");
        folder.write("plan.html", "before");
        let mut child = folder.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole_run * tenth / 10 + Duration::from_micros(100));
        child.kill().unwrap();
        killed += usize::from(child.wait().unwrap().signal().is_some());
        for (name, whole) in ["plan.json", "plan.html"].into_iter().zip(&whole) {
            let found = folder.bytes(name);
            assert!(found == b"before" || found == *whole, "{name} after {tenth} tenths: {} bytes", found.len());
        }
    }
    println!("killed {killed} of 11");
    assert!(killed > 0);
}

#[test]
fn a_pipe_is_written_to_where_it_is() {
    let folder = Folder::new();
    let file = example("example.dsa.csv");
    let fifo = folder.path("fifo");
    if !std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()) {
        println!("not run: writing to a named pipe (no mkfifo)");
        return;
    }
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read_to_string(fifo).unwrap()
    });
    folder.run(&format!("plan {file} --quiet --json fifo")).ok();
    let report: Report = serde_json::from_str(&reader.join().unwrap()).unwrap();
    assert_eq!(report.buffers, 7);
    assert_eq!(folder.names(), ["fifo"]);
}

#[test]
fn long_work_shows_progress_on_a_terminal_and_nowhere_else() {
    let folder = Folder::new();
    many_rows(&folder, "rows.csv", 3_000, 11);
    let ran = folder.run("plan rows.csv --no-baselines").ok();
    assert_eq!(ran.stderr, "");
    // `script` gives its command a terminal.
    let on_terminal = |options: &str| {
        let line = format!("'{}' plan rows.csv --no-baselines {options}", env!("CARGO_BIN_EXE_gpumem"));
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(folder.path(".")).stdin(Stdio::null());
        script.output().ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (Some(shown), Some(quiet)) = (on_terminal(""), on_terminal("--quiet")) else {
        println!("not run: progress on a terminal (no script command)");
        return;
    };
    assert!(shown.contains("planning: peak") && shown.contains("over the bound"), "{shown:?}");
    assert_eq!(quiet, "");
}
