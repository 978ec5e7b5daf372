//! The examples in the documentation and in `examples/` are what they claim to be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use formats::{Content, Format, Limits, read_path};
use support::schema::validate;
use support::{graph, read, root};

/// The blocks of `docs/formats.md` in `language`.
fn blocks(language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn schema(name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(root().join("docs").join(name)).unwrap()).unwrap()
}

#[test]
fn every_format_has_an_example_that_is_read_and_fits_its_schema() {
    let mut seen = Vec::new();
    for block in blocks("json").into_iter().chain(blocks("csv")) {
        let document = read(&block);
        let name = match document.format {
            Format::Graph => "gpumem-graph-1.schema.json",
            Format::Plan => "gpumem-plan-1.schema.json",
            other => {
                seen.push(other);
                continue;
            }
        };
        seen.push(document.format);
        assert_eq!(validate(&schema(name), &serde_json::from_str(&block).unwrap()), Ok(()));
    }
    // What isn't text can't stand on a page.
    let sample = root().join("crates/formats/tests/data/cuda-gpt-medium-512-inference.pickle.gz");
    seen.push(read_path(sample, &Limits::default()).unwrap().format);
    let is_text = |format: &Format| *format != Format::Trace;
    for format in Format::ALL.into_iter().filter(is_text) {
        assert!(seen.contains(&format), "no example of {format}");
    }
}

#[test]
fn the_documented_graphs_say_what_the_text_says() {
    let blocks = blocks("json");
    let find = |format: &str| graph(blocks.iter().find(|block| block.contains(&format!("\"{format}\""))).unwrap());
    let ours = find("gpumem-graph/1");
    assert_eq!(
        ours.tensors.iter().map(|tensor| tensor.bytes.0).sum::<u64>(),
        2 * 32 * 784 * 4 + 784 * 10 * 4 + 3 * 1280 + 4
    );
    let torch = find("gpumem-corpus-graph/1");
    assert_eq!(torch.ops.iter().map(|op| op.mutates).collect::<Vec<_>>(), [false, true]);
    let hlo = find("gpumem-corpus-hlo/1");
    assert_eq!(hlo.ops.len(), 1);
    assert!(hlo.ops[0].mutates);
    assert_eq!(hlo.tensors[2].alias_of, Some(lifetime::TensorId(0)));
}

#[test]
fn the_bundled_examples_are_read() {
    let mut read = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending != "md") {
            let document = read_path(&path, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
            if let Content::Problem(problem) = &document.content {
                assert!(problem.ignored_columns.is_empty() && problem.zero_size.is_empty(), "{}", path.display());
            }
            read += 1;
        }
    }
    assert!(read > 0);
}
