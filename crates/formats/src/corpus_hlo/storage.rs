//! Outputs that are written into a storage that is already there.
//!
//! - A `while` loop carries its state in place: its k-th output is the k-th value of its initial tuple.
//! - The halves of an asynchronous op (`copy-start`, `copy-done`) hand storages to each other; which ones is told by
//!   the place the compiler gave them.
//! - A result that the compiler put into a donated parameter's allocation is that parameter's new value
//!   (`input_output_alias` in HLO, which the file leaves out). In the corpus this finds all 6 171 of them, with
//!   equal sizes.
//!
//! Allocations are used for nothing else: that a temporary reuses a dead parameter's bytes was the compiler's choice.

use hashbrown::{HashMap, HashSet};
use lifetime::{Graph, TensorId};

use super::Made;
use super::raw::{Module, RawOutput};
use super::values::{Leaf, Values};

/// Whether an op's outputs may be its inputs' own storages, so that two of one type are not alike.
pub(super) fn hands_on_storage(op: &str) -> bool {
    op == "while" || is_half(op)
}

fn is_half(op: &str) -> bool {
    op.ends_with("-start") || op.ends_with("-update") || op.ends_with("-done")
}

/// Lets the outputs of loops and asynchronous ops share the storages they are handed.
pub(super) fn hand_on(module: &Module<'_>, values: &Values, made: &Made, graph: &mut Graph) {
    for (op, &index) in made.node_of_op.iter().enumerate() {
        let node = &module.nodes()[index as usize];
        let pairs = match &*node.op {
            "while" => by_position(module, values, index),
            kind if is_half(kind) => by_place(module, values, made, index),
            _ => continue,
        };
        let mut taken: HashSet<TensorId> = HashSet::new();
        for (output, input) in pairs {
            let tensor = made.tensor(index, output);
            let is_earlier = made.source[input.index()].0 < index;
            let is_equal = graph.tensors[input.index()].bytes == graph.tensors[tensor.index()].bytes;
            // Two values of one loop that began as the same tensor part ways in its body.
            if is_earlier && is_equal && taken.insert(input) {
                graph.tensors[tensor.index()].alias_of = Some(input);
                graph.ops[op].mutates |= !node.op.ends_with("-done");
            }
        }
    }
}

/// Output and input of equal position.
fn by_position(module: &Module<'_>, values: &Values, node: u32) -> Vec<(usize, TensorId)> {
    let initial = module.inputs(node).iter().flat_map(|&input| values.of(input));
    let pair = |(output, leaf): (usize, &Leaf)| match leaf {
        Leaf::One(tensor) => Some((output, *tensor)),
        Leaf::Any(_) => None,
    };
    let count: usize = module.inputs(node).iter().map(|&input| values.of(input).len()).sum();
    let listed = module.nodes()[node as usize].outputs.0.len();
    if count == listed { initial.enumerate().filter_map(pair).collect() } else { Vec::new() }
}

/// Output and input that the compiler put in the same place.
fn by_place(module: &Module<'_>, values: &Values, made: &Made, node: u32) -> Vec<(usize, TensorId)> {
    let place_of = |output: &RawOutput<'_>| Some((output.alloc?, output.offset?, output.bytes));
    let mut inputs: HashMap<(u64, u64, u64), TensorId> = HashMap::new();
    for leaf in module.inputs(node).iter().flat_map(|&input| values.of(input)) {
        for tensor in leaf.tensors() {
            let (source, output) = made.source[tensor.index()];
            if let Some(place) = place_of(&module.nodes()[source as usize].outputs.0[output as usize]) {
                inputs.entry(place).or_insert(*tensor);
            }
        }
    }
    let outputs = module.nodes()[node as usize].outputs.0.iter().enumerate();
    outputs.filter_map(|(output, raw)| Some((output, *inputs.get(&place_of(raw)?)?))).collect()
}

/// Makes results in a donated parameter's allocation aliases of that parameter.
pub(super) fn update_donated(module: &Module<'_>, values: &Values, made: &Made, graph: &mut Graph) {
    let Some(root) = module.root else {
        return;
    };
    let mut donations = Donations::new(module, made);
    for leaf in values.of(root) {
        let Leaf::One(tensor) = leaf else {
            continue;
        };
        let (node, output) = made.source[tensor.index()];
        let (Some(op), Some(alloc)) =
            (made.op_of_node[node as usize], module.nodes()[node as usize].outputs.0[output as usize].alloc)
        else {
            continue;
        };
        let parameter = donations.parameters.get(&alloc).copied();
        let is_equal =
            |parameter: &TensorId| graph.tensors[parameter.index()].bytes == graph.tensors[tensor.index()].bytes;
        if let (Some(parameter), None) = (parameter.filter(is_equal), graph.tensors[tensor.index()].alias_of) {
            donations.parameters.remove(&alloc);
            graph.tensors[tensor.index()].alias_of = Some(parameter);
            graph.ops[op as usize].mutates = true;
        }
    }
}

/// Which allocations belong to donated parameters, and which results are likely to be their new values.
pub(super) struct Donations {
    /// Parameter by allocation.
    parameters: HashMap<u64, TensorId>,
    /// For nodes that hand a result to the root: the allocation of the donated parameter at the same position.
    wanted: HashMap<u32, Option<u64>>,
}

impl Donations {
    pub(super) fn new(module: &Module<'_>, made: &Made) -> Self {
        let donated: HashSet<u64> = module.raw.donated_parameters.0.iter().copied().collect();
        let mut parameters = HashMap::new();
        let mut alloc_of: HashMap<u64, u64> = HashMap::new();
        for (node, index) in module.nodes().iter().zip(0_u32..) {
            let Some(number) = node.parameter.filter(|number| !node.alias && donated.contains(number)) else {
                continue;
            };
            if let ("parameter", [output]) = (&*node.op, &node.outputs.0[..])
                && let Some(alloc) = output.alloc
            {
                parameters.insert(alloc, made.tensor(index, 0));
                alloc_of.insert(number, alloc);
            }
        }
        let mut wanted = HashMap::new();
        let mut position = 0;
        for &input in module.root.iter().flat_map(|&root| module.inputs(root)) {
            let parameter = module.raw.donated_parameters.0.get(position);
            let alloc = parameter.and_then(|number| alloc_of.get(number)).copied();
            wanted.insert(behind_bitcasts(module, input), alloc);
            position += module.nodes()[input as usize].outputs.0.len();
        }
        Self { parameters, wanted }
    }

    /// Whether the allocation is a donated parameter's.
    pub(super) fn has(&self, alloc: u64) -> bool {
        self.parameters.contains_key(&alloc)
    }

    /// If `node` hands a result to the root, the allocation its value should be in, where one is known.
    pub(super) fn wanted_by(&self, node: u32) -> Option<Option<u64>> {
        self.wanted.get(&node).copied()
    }
}

/// The node whose value `node` passes on unchanged.
fn behind_bitcasts(module: &Module<'_>, mut node: u32) -> u32 {
    // Inputs stand before their readers in every file of the corpus; going only backwards ends in any file.
    while let (true, [input, ..]) = (module.nodes()[node as usize].alias, module.inputs(node))
        && &*module.nodes()[node as usize].op == "bitcast"
        && *input < node
    {
        node = *input;
    }
    node
}
