//! `gpumem memviz`, as a person runs it. What the page shows is tested in a browser, by `ci/picture-test.sh`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Folder, shared, text_of};

const TRACE: &str = "op,id,bytes,stream,tag\nalloc,1,4194304,0,weights\nstep,0,0,0,\nalloc,2,2097152,0,</script><b>\n\
                     free,2,0,0,\nstep,1,0,0,\nalloc,3,1048576,1,late\nstep,2,0,0,\n";

#[test]
fn a_trace_and_a_snapshot_become_pages_that_need_nothing_from_elsewhere() {
    let folder = Folder::new();
    folder.write("run.csv", TRACE);
    let ran = folder.run("memviz run.csv -o page.html").ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let mut pages = vec![folder.text("page.html")];
    if let Some(shared) = shared("graphs/snapshot") {
        let path = text_of(&shared.join("synthetic-features.pickle.gz"));
        support::gpumem(["memviz", &path, "-o", &text_of(&folder.path("real.html"))]).ok();
        pages.push(folder.text("real.html"));
    }
    for page in pages {
        assert!(page.to_lowercase().starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert!(!page.contains("</script><b>") && !page.contains("src=\"http"));
    }
}

#[test]
fn what_is_not_asked_for_is_not_drawn() {
    let folder = Folder::new();
    folder.write("run.csv", TRACE);
    let all = folder.run("memviz run.csv -o all.html").ok();
    assert_eq!(all.stderr, "");
    for options in ["--steps 1", "--steps 1..1", "--from 1 --to 4", "--theme dark --color-by tag"] {
        folder.run(&format!("memviz run.csv -o some.html {options}")).ok();
        assert_ne!(folder.bytes("some.html"), folder.bytes("all.html"), "{options}");
    }
    folder.run("memviz run.csv -o one.html --steps 1").ok();
    folder.run("memviz run.csv -o two.html --steps 1..1").ok();
    assert_eq!(folder.bytes("one.html"), folder.bytes("two.html"));
}

#[test]
fn other_viewers_get_files_and_only_what_was_asked_for() {
    let folder = Folder::new();
    folder.write("run.csv", TRACE);
    folder.run("memviz run.csv -o all.json --png run.png --svg run.svg").ok();
    folder.run("memviz run.csv -o all.db").ok();
    folder.run("memviz run.csv -o part.json --steps 2").ok();
    folder.run("memviz run.csv -o odd.name --format chrome").ok();
    assert!(folder.bytes("run.png").starts_with(b"\x89PNG") && folder.text("run.svg").contains("<svg"));
    assert!(folder.bytes("all.db").starts_with(b"SQLite format 3\0"));
    assert_eq!(folder.bytes("odd.name"), folder.bytes("all.json"));
    // Blocks by their tags: the one that is over before step 2 is not in its part.
    let has = |name: &str, tag: &str| folder.json(name)["traceEvents"].to_string().contains(tag);
    assert!(has("all.json", "late") && has("all.json", "</script><b>") && has("all.json", "weights"));
    assert!(has("part.json", "late") && !has("part.json", "</script><b>") && has("part.json", "weights"));
    assert!(folder.run("memviz run.csv -o part.json --from 90").refusal().contains("no event lies in the range"));
}

#[test]
fn what_cannot_be_drawn_is_refused_and_leaves_no_file() {
    let folder = Folder::new();
    folder.write("run.csv", TRACE);
    folder.write("plan.csv", "id,lower,upper,size\na,0,1,8\n");
    for (args, expected) in [
        ("run.csv -o out.html --steps 7..9", "there are steps 0 to 2"),
        ("run.csv -o out.html --device 5", "device 5"),
        ("run.csv -o run.csv", "overwrite the input"),
        ("run.csv -o nowhere/out.html", "nowhere"),
        ("plan.csv -o out.html", "says nothing of what happened at run time"),
        ("run.csv -o out.html --from 90", "90"),
    ] {
        let message = folder.run(&format!("memviz {args}")).refusal();
        assert!(message.contains(expected), "{args}: {message}");
        assert_eq!(folder.names(), ["plan.csv", "run.csv"], "{args}");
    }
    for args in ["run.csv", "run.csv -o out.html --steps 3..2", "run.csv -o out.html --theme loud"] {
        assert_eq!(folder.run(&format!("memviz {args}")).code, 2, "{args}");
    }
}
