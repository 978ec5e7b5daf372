//! `gpumem-corpus-graph/1`: a framework's graph with every tensor named, kinds of inputs, and aliases.
//!
//! The file's `phase` is never looked at: what a planner could not know from the graph must not reach it.

use hashbrown::HashSet;
use lifetime::{Bytes, DType, Graph, Op, Tensor, TensorId, TensorKind};
use serde::de::IgnoredAny;

use crate::error::Fault;
use crate::graph_checks::{self, Places, storages};
use crate::ids::{At, Positions};
use crate::input::Input;
use crate::json::{self, Id, Items, Text, record};
use crate::words::{Spelled, Word};
use crate::{Result, document};

record! {
    RawGraph<'de>, Skip:
    may _format "format": IgnoredAny,
    may name "name": Option<Text<'de>>,
    must tensors "tensors": Items<RawTensor<'de>>,
    must nodes "nodes": Items<RawNode<'de>>,
    may results "results": Items<Id<'de>>,
}

record! {
    RawTensor<'de>, Skip:
    must id "id": Id<'de>,
    may name "name": Option<Text<'de>>,
    may dtype "dtype": Text<'de>,
    may shape "shape": Items<u64>,
    must bytes "bytes": u64,
    must kind "kind": Spelled<Kind>,
    may alias_of "alias_of": Option<Id<'de>>,
    may storage_bytes "storage_bytes": Option<u64>,
}

record! {
    RawNode<'de>, Skip:
    may name "name": Option<Text<'de>>,
    must op "op": Text<'de>,
    must inputs "inputs": Items<Id<'de>>,
    must outputs "outputs": Items<Id<'de>>,
}

/// The corpus' words for [`TensorKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Param,
    Buffer,
    OptimizerState,
    Input,
    Constant,
    Temp,
}

impl Word for Kind {
    const WHAT: &'static str = "kind";
    const ALL: &'static [Self] =
        &[Self::Param, Self::Buffer, Self::OptimizerState, Self::Input, Self::Constant, Self::Temp];

    fn word(self) -> &'static str {
        match self {
            Self::Param => "param",
            Self::Buffer => "buffer",
            Self::OptimizerState => "optimizer_state",
            Self::Input => "input",
            Self::Constant => "constant",
            Self::Temp => "temp",
        }
    }
}

impl From<Kind> for TensorKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Param => Self::Parameter,
            Kind::Buffer => Self::ModuleState,
            Kind::OptimizerState => Self::OptimizerState,
            Kind::Input => Self::Input,
            Kind::Constant => Self::Constant,
            Kind::Temp => Self::Intermediate,
        }
    }
}

/// Reads a graph.
pub(crate) fn read(input: &mut Input<'_>) -> Result<Graph> {
    input.read_all()?;
    let at = At { file: input.file() };
    let raw: RawGraph<'_> = json::parse(input.text(), at.file)?;
    let positions = Positions::new(raw.tensors.0.iter().map(|tensor| &tensor.id), "tensors", "tensor", at)?;
    let find = |id: &Id<'_>, place: &dyn Fn() -> String, name: &dyn Fn() -> String| {
        let dangling = || at.fault(place(), name(), Fault::Dangling { what: "tensor", id: id.to_string() });
        positions.find(id).map(TensorId).ok_or_else(dangling)
    };
    let find_all = |ids: &Items<Id<'_>>, list: &str, name: &dyn Fn() -> String| -> Result<Vec<TensorId>> {
        let item = |(item, id)| find(id, &|| format!("{list}[{item}]"), name);
        ids.0.iter().enumerate().map(item).collect()
    };
    let mut graph = Graph {
        name: raw.name.as_ref().map_or_else(|| document::stem(at.file), ToString::to_string),
        ..Graph::default()
    };
    for (index, tensor) in raw.tensors.0.iter().enumerate() {
        let name = tensor.name.as_ref().map_or_else(|| tensor.id.to_string(), ToString::to_string);
        let (place, label) = (|| format!("tensors[{index}].alias_of"), || format!("tensor `{name}`"));
        let alias_of = tensor.alias_of.as_ref().map(|id| find(id, &place, &label)).transpose()?;
        graph.tensors.push(Tensor {
            dtype: DType::from_name(&tensor.dtype).unwrap_or(DType::Opaque),
            shape: tensor.shape.0.clone(),
            bytes: Bytes(tensor.bytes),
            kind: tensor.kind.0.into(),
            alias_of,
            alignment: None,
            tier_hint: None,
            name,
        });
    }
    for (index, node) in raw.nodes.0.iter().enumerate() {
        let name = node.name.as_ref().map_or_else(|| format!("nodes[{index}]"), ToString::to_string);
        let label = || format!("op `{name}`");
        let inputs = find_all(&node.inputs, &format!("nodes[{index}].inputs"), &label)?;
        let outputs = find_all(&node.outputs, &format!("nodes[{index}].outputs"), &label)?;
        graph.ops.push(Op::new(name, &*node.op, inputs, outputs));
    }
    graph.results = find_all(&raw.results, "results", &String::new)?;
    let places = Places { tensor: &|index| format!("tensors[{index}]"), op: &|index| format!("nodes[{index}]") };
    graph_checks::check(&graph, &places, at)?;
    let storages = storages(&graph);
    size_storages(&mut graph, &storages, &raw.tensors.0);
    graph_checks::check(&graph, &places, at)?;
    mark_mutations(&mut graph, &storages);
    Ok(graph)
}

/// Gives each storage the size that the file states for it, and each alias no more than that: an expanded view has
/// more elements than its storage has bytes for.
fn size_storages(graph: &mut Graph, storages: &[TensorId], raw: &[RawTensor<'_>]) {
    for (raw, storage) in raw.iter().zip(storages) {
        let storage = &mut graph.tensors[storage.index()];
        storage.bytes = storage.bytes.max(Bytes(raw.storage_bytes.unwrap_or_default()));
    }
    for (index, storage) in storages.iter().enumerate() {
        let limit = graph.tensors[storage.index()].bytes;
        let tensor = &mut graph.tensors[index];
        tensor.bytes = tensor.bytes.min(limit);
    }
}

/// PyTorch names operators that write into an argument with a trailing underscore: `aten.add_.Tensor`.
fn mark_mutations(graph: &mut Graph, storages: &[TensorId]) {
    let storage = |id: &TensorId| storages[id.index()];
    for op in &mut graph.ops {
        let base = op.kind.strip_prefix("aten.").unwrap_or(&op.kind).split('.').next().unwrap_or_default();
        if base.ends_with('_') && !base.ends_with("__") {
            let read: HashSet<TensorId> = op.inputs.iter().map(storage).collect();
            op.mutates = op.outputs.iter().map(storage).any(|output| read.contains(&output));
        }
    }
}
