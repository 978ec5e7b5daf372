//! Reads bytes, and if they are a file of ours, writes and reads back what they hold. Shared with the fuzz targets.

#![allow(dead_code, unreachable_pub)]

#[path = "same.rs"]
mod same;

use formats::{
    Content, Format, Limits, NamedProblem, read_bytes, write_csv, write_graph, write_plan, write_snapshot, write_trace,
    write_trace_csv,
};
use records::Trace;

/// The format of `data` if it was recognised and read.
///
/// # Panics
/// If anything that was read is not written and read back as it was, or an error says nothing.
pub fn round(data: &[u8]) -> Option<Format> {
    let mut limits = Limits::default();
    limits.max_text_bytes = 16 << 20;
    limits.max_record_bytes = 1 << 20;
    let document = match read_bytes("f", data, &limits) {
        Ok(document) => document,
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("f: ") && text.len() > 10, "{text}");
            assert!(!text.contains(char::is_control), "{text:?}");
            return None;
        }
    };
    let mut text = Vec::new();
    match &document.content {
        Content::Problem(problem) => write_csv(problem, &mut text),
        Content::Graph(graph) => write_graph(graph, &mut text),
        Content::Plan(plan) => write_plan(plan, &mut text),
        Content::Trace(trace) if document.format == Format::Trace => write_trace(trace, &mut text),
        Content::Trace(trace) => write_trace_csv(trace, &mut text),
        Content::History(history) => write_snapshot(history, &mut text),
        _ => panic!("a kind of content that this test doesn't know"),
    }
    .expect("what was read can be written");
    let again = read_bytes("f", &text, &Limits::default()).expect("what was written can be read");
    let is_same = match (&document.content, &again.content) {
        (Content::Problem(problem), Content::Problem(again)) => {
            let expected = NamedProblem { zero_size: Vec::new(), ignored_columns: Vec::new(), ..problem.clone() };
            expected == *again
        }
        (Content::Graph(graph), Content::Graph(again)) => graph == again,
        (Content::Plan(plan), Content::Plan(again)) => plan == again,
        (Content::Trace(trace), Content::Trace(again)) if document.format == Format::Trace => trace == again,
        (Content::Trace(trace), Content::Trace(again)) => same_rows(trace, again),
        (Content::History(history), Content::History(again)) => {
            same::assert_same(history, again);
            true
        }
        _ => false,
    };
    assert!(is_same, "what was read back differs");
    Some(document.format)
}

/// Whether two traces say the same, whatever the order of their names; stacks are not compared.
pub fn same_rows(a: &Trace, b: &Trace) -> bool {
    let bare =
        |row: &records::Row| records::Row { tag: records::NameId::EMPTY, stack: records::StackId::EMPTY, ..*row };
    a.rows.len() == b.rows.len()
        && a.rows.iter().zip(&b.rows).all(|(x, y)| bare(x) == bare(y) && a.names.get(x.tag) == b.names.get(y.tag))
}
