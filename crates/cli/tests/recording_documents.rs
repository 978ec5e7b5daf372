//! Every field of the reports about recorded runs is explained in the documentation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Folder, root};

#[test]
fn every_field_of_a_report_about_a_run_is_explained() {
    let page = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let folder = Folder::new();
    folder.write("run.csv", "op,id,bytes,stream\nalloc,1,4096,0\nfree,1,0,0\nalloc,2,8192,0\n");
    for args in ["summary run.csv", "explain-oom run.csv", "diff run.csv run.csv"] {
        folder.run(&format!("{args} --json out.json")).ok();
        let report = folder.json("out.json");
        let format = report["format"].as_str().unwrap().to_owned();
        let section = page.split("\n## ").find(|section| section.starts_with(&format!("{format}\n"))).unwrap();
        let names: String = section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
            .map(|names| format!("`{names} "))
            .collect();
        for field in report.as_object().unwrap().keys() {
            assert!(names.contains(&format!("`{field}`")), "{format}: {field} is not explained");
        }
    }
}
