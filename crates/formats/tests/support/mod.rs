//! What several test files use.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod schema;
pub mod traces;

use std::path::{Path, PathBuf};

use coloring::Plan;
use formats::{Content, Document, Limits, NamedProblem, read_bytes};
use lifetime::{Graph, TensorId};
use records::Trace;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder of the shared data; `None`, with a note, where there is none.
pub fn shared(folder: &str) -> Option<PathBuf> {
    let base = std::env::var_os("GPUMEM_SHARED").map_or_else(|| root().join("../shared/data"), PathBuf::from);
    let path = base.join(folder);
    if !path.is_dir() {
        println!("not run: shared data absent");
        return None;
    }
    Some(path)
}

/// All files below `folder` whose names end in `ending`.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub fn read(text: impl AsRef<[u8]>) -> Document {
    read_bytes("f", text.as_ref(), &Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The message `text` is refused with.
pub fn refusal(text: impl AsRef<[u8]>) -> String {
    match read_bytes("f", text.as_ref(), &Limits::default()) {
        Ok(document) => panic!("was read: {document:?}"),
        Err(error) => error.to_string(),
    }
}

pub fn problem(text: impl AsRef<[u8]>) -> NamedProblem {
    as_problem(read(text))
}

pub fn graph(text: impl AsRef<[u8]>) -> Graph {
    as_graph(read(text))
}

pub fn plan(text: impl AsRef<[u8]>) -> Plan {
    match read(text).content {
        Content::Plan(plan) => plan,
        other => panic!("not a plan: {other:?}"),
    }
}

pub fn as_problem(document: Document) -> NamedProblem {
    match document.content {
        Content::Problem(problem) => problem,
        other => panic!("not a problem: {other:?}"),
    }
}

pub fn as_graph(document: Document) -> Graph {
    match document.content {
        Content::Graph(graph) => graph,
        other => panic!("not a graph: {other:?}"),
    }
}

pub fn trace(text: impl AsRef<[u8]>) -> Trace {
    as_trace(read(text))
}

pub fn as_trace(document: Document) -> Trace {
    match document.content {
        Content::Trace(trace) => trace,
        other => panic!("not a trace but {}", other.kind()),
    }
}

/// The tensor that owns the storage of `id`.
pub fn storage(graph: &Graph, mut id: TensorId) -> TensorId {
    while let Some(next) = graph.tensors[id.index()].alias_of {
        id = next;
    }
    id
}

/// Names of tensors.
pub fn names<'g>(graph: &'g Graph, ids: &[TensorId]) -> Vec<&'g str> {
    ids.iter().map(|id| graph.tensors[id.index()].name.as_str()).collect()
}

/// The tensor with this name.
pub fn tensor(graph: &Graph, name: &str) -> TensorId {
    let index = graph.tensors.iter().position(|tensor| tensor.name == name);
    TensorId(index.unwrap_or_else(|| panic!("no tensor {name}")) as u32)
}
