//! What the documentation says about the command is what the command does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// The same checker that the other formats' schemas are held against.
#[path = "../../formats/tests/support/schema.rs"]
#[allow(unreachable_pub)]
mod schema;
mod support;

use serde_json::Value;
use support::{Folder, Report, example, root};

fn report_schema() -> Value {
    serde_json::from_slice(&std::fs::read(root().join("docs/gpumem-report-1.schema.json")).unwrap()).unwrap()
}

fn formats_page() -> String {
    std::fs::read_to_string(root().join("docs/formats.md")).unwrap()
}

/// The part of the page about the report.
fn report_section(page: &str) -> &str {
    page.split("\n## ").find(|section| section.starts_with("gpumem-report/1\n")).unwrap()
}

#[test]
fn every_report_fits_its_schema() {
    let folder = Folder::new();
    let schema = report_schema();
    for args in [
        example("two-streams.graph.json"),
        example("bert-large-train.graph.json.gz") + " --order memory --node-limit 1000",
        example("example.dsa.csv"),
        example("example.dsa.csv") + " --tiers persistent --no-baselines --time-limit 1",
        example("example.dsa.csv") + " --capacity 1",
    ] {
        let ran = folder.run(&format!("plan {args} --json -"));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(schema::validate(&schema, &report), Ok(()), "{args}");
        // And the schema knows every field.
        for name in report.as_object().unwrap().keys() {
            assert!(schema["properties"].get(name).is_some(), "the schema has no {name}");
        }
        for name in report["baselines"].as_object().unwrap().keys() {
            assert!(schema["properties"]["baselines"]["properties"].get(name).is_some(), "the schema has no {name}");
        }
    }
    assert!(schema::validate(&schema, &serde_json::json!({"format": "gpumem-report/1"})).is_err());
}

#[test]
fn the_documented_report_is_one_and_every_field_is_explained() {
    let page = formats_page();
    let section = report_section(&page);
    let block = section.split("```jsonc\n").nth(1).unwrap().split("```").next().unwrap();
    let value: Value = serde_json::from_str(block).unwrap();
    assert_eq!(schema::validate(&report_schema(), &value), Ok(()));
    let report: Report = serde_json::from_str(block).unwrap();
    assert_eq!((report.buffers, report.max_load_bytes), (report.placements.len(), report.peak_bytes));
    let rows: String = section.lines().filter(|line| line.starts_with("| `")).collect();
    for name in value.as_object().unwrap().keys() {
        assert!(rows.contains(&format!("`{name}`")), "{name} is not in the table");
    }
}

#[test]
fn the_commands_of_the_examples_page_work() {
    let page = std::fs::read_to_string(root().join("examples/README.md")).unwrap();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("cargo run --release -- ")).collect();
    assert!(commands.len() >= 3, "{commands:?}");
    // What they write must not stay in the repository.
    let folder = support::Folder::new();
    std::os::unix::fs::symlink(root().join("examples"), folder.path("examples")).unwrap();
    for command in commands {
        let args = command.split(" #").next().unwrap().split_whitespace();
        let output = support::command(args).current_dir(folder.path("")).output().unwrap();
        let expected = if command.contains("# exit code 1") { 1 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_option_of_the_readme_exists() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let help = support::gpumem(["plan", "--help"]).ok().stdout;
    let words = page.lines().filter(|line| line.starts_with("gpumem plan")).flat_map(str::split_whitespace);
    let options: Vec<&str> = words.filter(|word| word.starts_with("--")).collect();
    assert!(!options.is_empty());
    for option in options {
        assert!(help.contains(option.trim_end_matches([',', ')'])), "{option}");
    }
}
