//! The file as it stands, and its nodes with references resolved.

use hashbrown::HashMap;
use serde::de::IgnoredAny;

use crate::Result;
use crate::error::Fault;
use crate::ids::At;
use crate::json::{Items, Text, record};

record! {
    RawModule<'de>, Skip:
    may _format "format": IgnoredAny,
    may name "name": Option<Text<'de>>,
    may donated_parameters "donated_parameters": Items<u64>,
    must nodes "nodes": Items<RawNode<'de>>,
}

record! {
    RawNode<'de>, Skip:
    must name "name": Text<'de>,
    must op "op": Text<'de>,
    must inputs "inputs": Items<Text<'de>>,
    must outputs "outputs": Items<RawOutput<'de>>,
    may alias "alias": bool,
    may root "root": bool,
    may parameter "parameter": Option<u64>,
    may target "target": Option<Text<'de>>,
}

record! {
    RawOutput<'de>, Skip:
    may dtype "dtype": Text<'de>,
    may shape "shape": Items<u64>,
    must bytes "bytes": u64,
    may alloc "alloc": Option<u64>,
    may offset "offset": Option<u64>,
}

impl RawNode<'_> {
    /// Whether it takes one value out of a tuple.
    pub(super) fn is_get_tuple_element(&self) -> bool {
        self.alias && &*self.op == "get-tuple-element"
    }
}

impl RawOutput<'_> {
    /// What two values must share to be mistaken for each other.
    pub(super) fn type_key(&self) -> TypeKey<'_> {
        (&self.dtype, &self.shape.0, self.bytes)
    }
}

/// Type, shape and size of a value.
pub(super) type TypeKey<'a> = (&'a str, &'a [u64], u64);

/// The nodes, with inputs as positions.
pub(super) struct Module<'a> {
    pub(super) raw: &'a RawModule<'a>,
    inputs: Vec<Vec<u32>>,
    /// The node whose values are the results; `None` in an empty file.
    pub(super) root: Option<u32>,
}

impl<'a> Module<'a> {
    pub(super) fn new(raw: &'a RawModule<'a>, at: At<'_>) -> Result<Self> {
        let limit = u64::from(u32::MAX);
        if raw.nodes.0.len() as u64 > limit {
            return Err(at.fault("nodes", "", Fault::TooMany { what: "nodes", limit }));
        }
        let mut positions: HashMap<&str, u32> = HashMap::with_capacity(raw.nodes.0.len());
        for (node, position) in raw.nodes.0.iter().zip(0_u32..) {
            if let Some(first) = positions.insert(&node.name, position) {
                let fault =
                    Fault::Duplicate { what: "node", id: node.name.to_string(), first: format!("nodes[{first}]") };
                return Err(at.fault(format!("nodes[{position}].name"), "", fault));
            }
        }
        let find = |node: usize, item: usize, name: &str| {
            positions.get(name).copied().ok_or_else(|| {
                let (place, label) = (format!("nodes[{node}].inputs[{item}]"), label(&raw.nodes.0[node]));
                at.fault(place, label, Fault::Dangling { what: "node", id: name.to_owned() })
            })
        };
        let inputs =
            raw.nodes.0.iter().enumerate().map(|(node, raw)| {
                raw.inputs.0.iter().enumerate().map(|(item, name)| find(node, item, name)).collect()
            });
        let inputs = inputs.collect::<Result<_>>()?;
        // The corpus marks the root; a computation ends with it.
        let marked = raw.nodes.0.iter().position(|node| node.root);
        let root = marked.or(raw.nodes.0.len().checked_sub(1)).map(|position| position as u32);
        Ok(Self { raw, inputs, root })
    }

    pub(super) fn nodes(&self) -> &'a [RawNode<'a>] {
        &self.raw.nodes.0
    }

    /// The nodes that the file lists as inputs of `node`.
    pub(super) fn inputs(&self, node: u32) -> &[u32] {
        &self.inputs[node as usize]
    }

    /// The nodes whose values must be there while `node` runs: its inputs, and for the second half of an
    /// asynchronous op (`copy-done`) also those of the first, which goes on reading them until then.
    pub(super) fn operands(&self, node: u32) -> impl Iterator<Item = &u32> {
        let is_done = self.nodes()[node as usize].op.ends_with("-done");
        let starts = self.inputs(node).iter().filter(move |_| is_done);
        self.inputs(node).iter().chain(starts.flat_map(|&start| self.inputs(start)))
    }

    /// ``node `NAME` ``.
    pub(super) fn label(&self, node: u32) -> String {
        label(&self.nodes()[node as usize])
    }
}

fn label(node: &RawNode<'_>) -> String {
    format!("node `{}`", node.name)
}
