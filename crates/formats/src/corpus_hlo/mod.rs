//! `gpumem-corpus-hlo/1`: a compiled and scheduled HLO entry computation.
//!
//! HLO knows tuples; our graph doesn't. So a *value* of a tuple is followed to the tensors behind it, and nodes that
//! take no memory (`alias`: tuple, get-tuple-element, bitcast) become neither ops nor tensors. The file doesn't say
//! which element a get-tuple-element takes; [`values`] says how that is decided. [`storage`] decides which outputs
//! are written into a storage that is already there. The file's `phase` is never looked at.

mod raw;
mod storage;
mod values;

use hashbrown::HashSet;
use lifetime::{Bytes, DType, Graph, Op, Tensor, TensorId, TensorKind};

use crate::error::Fault;
use crate::graph_checks::{self, Places};
use crate::ids::At;
use crate::input::Input;
use crate::{Result, document, json};
use raw::{Module, RawModule};
use values::Values;

/// Reads a computation.
pub(crate) fn read(input: &mut Input<'_>) -> Result<Graph> {
    input.read_all()?;
    let at = At { file: input.file() };
    let raw: RawModule<'_> = json::parse(input.text(), at.file)?;
    let module = Module::new(&raw, at)?;
    let mut graph = Graph {
        name: raw.name.as_ref().map_or_else(|| document::stem(at.file), ToString::to_string),
        ..Graph::default()
    };
    let made = make_tensors(&module, &mut graph, at)?;
    let values = Values::new(&module, &made, &mut graph, at)?;
    make_ops(&module, &values, &made, &mut graph, at)?;
    for leaf in values.of(module.root.unwrap_or_default()).iter().filter(|_| module.root.is_some()) {
        graph.results.extend_from_slice(leaf.tensors());
    }
    storage::hand_on(&module, &values, &made, &mut graph);
    storage::update_donated(&module, &values, &made, &mut graph);
    let places = Places {
        tensor: &|index| {
            let (node, output) = made.source[index];
            format!("nodes[{node}].outputs[{output}]")
        },
        op: &|index| format!("nodes[{}]", made.node_of_op[index]),
    };
    graph_checks::check(&graph, &places, at)?;
    Ok(graph)
}

/// Which tensors and ops the nodes have become.
struct Made {
    /// For each node its first tensor; the others follow. `None` for alias nodes.
    first_tensor: Vec<Option<TensorId>>,
    /// For each tensor its node and which output of it.
    source: Vec<(u32, u32)>,
    /// For each op its node.
    node_of_op: Vec<u32>,
    /// For each node its op. `None` for alias nodes, parameters and constants.
    op_of_node: Vec<Option<u32>>,
}

impl Made {
    /// The tensor of output `output` of `node`, which must not be an alias node.
    fn tensor(&self, node: u32, output: usize) -> TensorId {
        debug_assert!(self.first_tensor[node as usize].is_some(), "alias nodes have no tensors");
        TensorId(self.first_tensor[node as usize].map_or(0, |first| first.0) + output as u32)
    }
}

/// Makes a tensor for every output that takes memory.
fn make_tensors(module: &Module<'_>, graph: &mut Graph, at: At<'_>) -> Result<Made> {
    let donated: HashSet<u64> = module.raw.donated_parameters.0.iter().copied().collect();
    let count = module.nodes().len();
    let mut made = Made {
        first_tensor: vec![None; count],
        source: Vec::new(),
        node_of_op: Vec::new(),
        op_of_node: vec![None; count],
    };
    for (node, index) in module.nodes().iter().zip(0_u32..) {
        if node.alias {
            continue;
        }
        let kind = match &*node.op {
            // What is donated is handed on to the next step: a weight or the optimizer's state, which the file
            // doesn't tell apart. What isn't is a batch.
            "parameter" if node.parameter.is_some_and(|number| donated.contains(&number)) => TensorKind::Parameter,
            "parameter" => TensorKind::Input,
            "constant" => TensorKind::Constant,
            _ => TensorKind::Intermediate,
        };
        let is_op = !matches!(&*node.op, "parameter" | "constant");
        if is_op {
            made.op_of_node[index as usize] = Some(made.node_of_op.len() as u32);
            made.node_of_op.push(index);
        }
        let limit = u64::from(u32::MAX);
        let Ok(first) = u32::try_from(graph.tensors.len() + node.outputs.0.len()) else {
            return Err(at.fault(
                format!("nodes[{index}]"),
                module.label(index),
                Fault::TooMany { what: "tensors", limit },
            ));
        };
        made.first_tensor[index as usize] = Some(TensorId(first - node.outputs.0.len() as u32));
        for (output, position) in node.outputs.0.iter().zip(0_u32..) {
            let name = match node.outputs.0.len() {
                1 => node.name.to_string(),
                _ => format!("{}{{{position}}}", node.name),
            };
            made.source.push((index, position));
            graph.tensors.push(Tensor {
                name,
                dtype: DType::from_name(&output.dtype).unwrap_or(DType::Opaque),
                shape: output.shape.0.clone(),
                bytes: Bytes(output.bytes),
                kind,
                alias_of: None,
                alignment: None,
                tier_hint: None,
            });
        }
    }
    Ok(made)
}

/// Makes an op for every node that computes something, in the order of the file.
fn make_ops(module: &Module<'_>, values: &Values, made: &Made, graph: &mut Graph, at: At<'_>) -> Result<()> {
    // A tuple read as a whole counts with all its values, so a small file can say a lot.
    const MAX_READS: usize = 1 << 24;
    let mut reads = 0;
    for &index in &made.node_of_op {
        let node = &module.nodes()[index as usize];
        let mut inputs: Vec<TensorId> = Vec::new();
        for &input in module.operands(index) {
            for leaf in values.of(input) {
                inputs.extend_from_slice(leaf.tensors());
                if reads + inputs.len() > MAX_READS {
                    let fault = Fault::TooMany { what: "tensors read by all nodes", limit: MAX_READS as u64 };
                    return Err(at.fault(format!("nodes[{index}]"), module.label(index), fault));
                }
            }
        }
        reads += inputs.len();
        let first = made.first_tensor[index as usize].map_or(0, |tensor| tensor.0);
        let kind = match &node.target {
            Some(target) => format!("{}({target})", node.op),
            None => node.op.to_string(),
        };
        let outputs = (first..).take(node.outputs.0.len()).map(TensorId).collect();
        graph.ops.push(Op::new(&*node.name, kind, inputs, outputs));
    }
    Ok(())
}
