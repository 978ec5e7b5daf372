//! `gpumem-corpus-graph/1`.

use std::path::Path;

use super::{Phase, Sample, json, name, op, owner, tensor};
use lifetime::{Graph, TensorId, TensorKind};

pub(crate) fn read(path: &Path) -> Sample {
    let file = json(path);
    let mut graph = Graph { name: name(path), ..Graph::default() };
    for (index, json) in file["tensors"].as_array().unwrap().iter().enumerate() {
        assert_eq!(json["id"], index);
        let kind = match json["kind"].as_str().unwrap() {
            "param" => TensorKind::Parameter,
            "buffer" => TensorKind::ModuleState,
            "optimizer_state" => TensorKind::OptimizerState,
            "constant" => TensorKind::Constant,
            "input" => TensorKind::Input,
            _ => TensorKind::Intermediate,
        };
        let mut tensor = tensor(json["name"].as_str().unwrap(), json, kind);
        tensor.alias_of = json["alias_of"].as_u64().map(|id| TensorId(id as u32));
        graph.tensors.push(tensor);
    }
    for index in 0..graph.tensors.len() {
        // An expanded view has more elements than its storage has bytes for.
        let limit = graph.tensors[owner(&graph, TensorId(index as u32)).index()].bytes;
        let tensor = &mut graph.tensors[index];
        tensor.bytes = tensor.bytes.min(limit);
    }
    let ids = |list: &serde_json::Value| -> Vec<TensorId> {
        list.as_array().unwrap().iter().map(|id| TensorId(id.as_u64().unwrap() as u32)).collect()
    };
    let mut phases = Vec::new();
    for json in file["nodes"].as_array().unwrap() {
        let kind = json["op"].as_str().unwrap();
        let mut op = op(json["name"].as_str().unwrap(), kind, ids(&json["inputs"]), ids(&json["outputs"]));
        let is_in_place = kind.split('.').nth(1).is_some_and(|base| base.ends_with('_'));
        op.mutates = is_in_place && op.outputs.iter().any(|id| graph.tensors[id.index()].alias_of.is_some());
        graph.ops.push(op);
        phases.push(Phase::of(json));
    }
    graph.results = ids(&file["results"]);
    Sample { graph, phases }
}

/// The forward pass alone, as inference would run it: its results are what the loss was computed from.
pub(crate) fn forward_only(sample: &Sample) -> Graph {
    let mut graph = sample.graph.clone();
    let ops = std::mem::take(&mut graph.ops);
    let is_forward = |phase: &Phase| *phase == Phase::Forward;
    graph.ops = ops.into_iter().zip(&sample.phases).filter(|(_, phase)| is_forward(phase)).map(|(op, _)| op).collect();
    let is_loss = |op: &lifetime::Op| op.kind.contains("nll_loss") || op.kind.contains("log_softmax");
    let logits = graph.ops.iter().find(|op| is_loss(op)).unwrap().inputs[0];
    let first = graph.ops.iter().position(is_loss).unwrap();
    graph.ops.truncate(first);
    graph.results = vec![logits];
    graph
}
