//! Reads the corpus' graphs, as far as these tests need, together with what the corpus knows and a planner must not.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub(crate) mod hlo;
pub(crate) mod torch;

use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
};

use lifetime::{Bytes, DType, Graph, Op, OpId, Tensor, TensorId, TensorKind};
use serde_json::Value;

/// A phase of the step, by the corpus' own word. Used as truth to compare with, never handed to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Forward,
    Backward,
    Optimizer,
    Unknown,
}

impl Phase {
    pub(crate) fn of(node: &Value) -> Self {
        match node["phase"].as_str() {
            Some("forward") => Self::Forward,
            Some("backward") => Self::Backward,
            Some("optimizer") => Self::Optimizer,
            _ => Self::Unknown,
        }
    }
}

/// A graph and the phases of its ops.
pub(crate) struct Sample {
    pub(crate) graph: Graph,
    pub(crate) phases: Vec<Phase>,
}

/// The files of a folder of the corpus' graphs; none, with a word about it, if there is no corpus.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let shared = env::var_os("GPUMEM_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let Ok(entries) = fs::read_dir(shared.join("data/graphs").join(folder)) else {
        println!("not run: shared data absent");
        return Vec::new();
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".graph.json.gz"));
    files.sort();
    files
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&text(path)).unwrap()
}

/// The rows of a CSV file without its header; what isn't a number counts as 0.
pub(crate) fn csv(path: &Path) -> Vec<Vec<u64>> {
    let row = |line: &str| line.split(',').map(|cell| cell.parse().unwrap_or(0)).collect();
    text(path).lines().skip(1).map(row).collect()
}

fn text(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().replace(".graph.json.gz", "")
}

pub(crate) fn tensor(name: &str, json: &Value, kind: TensorKind) -> Tensor {
    Tensor {
        name: name.to_owned(),
        dtype: DType::from_name(json["dtype"].as_str().unwrap()).unwrap_or(DType::Opaque),
        shape: json["shape"].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap()).collect(),
        bytes: Bytes(json["bytes"].as_u64().unwrap()),
        kind,
        alias_of: None,
        alignment: None,
        tier_hint: None,
    }
}

pub(crate) fn op(name: &str, kind: &str, inputs: Vec<TensorId>, outputs: Vec<TensorId>) -> Op {
    Op::new(name, kind, inputs, outputs)
}

/// The tensor that owns a tensor's storage.
pub(crate) fn owner(graph: &Graph, mut id: TensorId) -> TensorId {
    while let Some(target) = graph.tensors[id.index()].alias_of {
        id = target;
    }
    id
}

/// The ops that read or make a tensor of each storage, by the storage's owner, in issue order.
pub(crate) fn touches(graph: &Graph) -> Vec<Vec<OpId>> {
    let mut ops = vec![Vec::new(); graph.tensors.len()];
    for (index, op) in graph.ops.iter().enumerate() {
        for &id in op.inputs.iter().chain(&op.outputs) {
            let list: &mut Vec<OpId> = &mut ops[owner(graph, id).index()];
            if list.last() != Some(&OpId(index as u32)) {
                list.push(OpId(index as u32));
            }
        }
    }
    ops
}
