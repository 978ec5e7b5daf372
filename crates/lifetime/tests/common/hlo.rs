//! `gpumem-corpus-hlo/1`, roughly: tuples are followed, and the element a get-tuple-element takes, which the file
//! doesn't say, is the next of its type.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use super::{Phase, Sample, json, name, op, tensor};
use lifetime::{Graph, TensorId, TensorKind};

pub(crate) fn read(path: &Path) -> Sample {
    let file = json(path);
    let mut graph = Graph { name: name(path), ..Graph::default() };
    let donated: HashSet<u64> =
        file["donated_parameters"].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
    let (mut phases, mut parameter_at) = (Vec::new(), HashMap::new());
    let mut values: HashMap<&str, Vec<TensorId>> = HashMap::new();
    let mut taken: HashSet<(&str, TensorId)> = HashSet::new();
    for node in file["nodes"].as_array().unwrap() {
        let (name, kind) = (node["name"].as_str().unwrap(), node["op"].as_str().unwrap());
        let operands: Vec<&str> = node["inputs"].as_array().unwrap().iter().map(|i| i.as_str().unwrap()).collect();
        let inputs: Vec<TensorId> = operands.iter().flat_map(|&input| values[input].clone()).collect();
        let outputs = node["outputs"].as_array().unwrap();
        if node["alias"] == true {
            let value = match kind {
                "tuple" => inputs,
                "get-tuple-element" => {
                    let is_type = |id: &TensorId| {
                        let made = &graph.tensors[id.index()];
                        let asked = tensor(name, &outputs[0], TensorKind::Intermediate);
                        made.dtype == asked.dtype && made.shape == asked.shape
                    };
                    let fits = |id: &&TensorId| is_type(id) && !taken.contains(&(operands[0], **id));
                    let element = inputs.iter().find(fits).or(inputs.iter().find(|id| is_type(id))).unwrap();
                    taken.insert((operands[0], *element));
                    vec![*element]
                }
                _ => inputs[..outputs.len()].to_vec(),
            };
            values.insert(name, value);
            continue;
        }
        let is_donated = node["parameter"].as_u64().is_some_and(|number| donated.contains(&number));
        let kind_of_tensor = match kind {
            "parameter" if is_donated => TensorKind::Parameter,
            "parameter" => TensorKind::Input,
            "constant" => TensorKind::Constant,
            _ => TensorKind::Intermediate,
        };
        let mut ids = Vec::new();
        let mut mutates = false;
        for output in outputs {
            let mut made = tensor(name, output, kind_of_tensor);
            let id = TensorId(graph.tensors.len() as u32);
            if let Some(alloc) = output["alloc"].as_u64() {
                match (kind, parameter_at.get(&alloc)) {
                    ("parameter", _) => drop(parameter_at.insert(alloc, id)),
                    (_, Some(&parameter)) => {
                        made.alias_of = Some(parameter);
                        mutates = true;
                    }
                    _ => {}
                }
            }
            graph.tensors.push(made);
            ids.push(id);
        }
        if !matches!(kind, "parameter" | "constant") {
            let mut op = op(name, kind, inputs, ids.clone());
            op.mutates = mutates;
            graph.ops.push(op);
            phases.push(Phase::of(node));
        }
        values.insert(name, ids);
    }
    let root = file["nodes"].as_array().unwrap().last().unwrap();
    graph.results = values[root["name"].as_str().unwrap()].clone();
    Sample { graph, phases }
}
