//! Short ways to write graphs down in unit tests.
#![allow(clippy::expect_used)]

use crate::{Bytes, DType, Graph, Op, OpId, Tensor, TensorId, TensorKind};

/// An intermediate tensor of bytes.
pub(crate) fn tensor(name: &str, bytes: u64) -> Tensor {
    Tensor {
        name: name.to_owned(),
        dtype: DType::U8,
        shape: vec![bytes],
        bytes: Bytes(bytes),
        kind: TensorKind::Intermediate,
        alias_of: None,
        alignment: None,
        tier_hint: None,
    }
}

/// A tensor that shares the storage of another.
pub(crate) fn alias(name: &str, bytes: u64, of: u32) -> Tensor {
    Tensor { alias_of: Some(TensorId(of)), ..tensor(name, bytes) }
}

/// An op with inputs and outputs.
pub(crate) fn op(name: &str, inputs: &[u32], outputs: &[u32]) -> Op {
    let ids = |ids: &[u32]| ids.iter().map(|&id| TensorId(id)).collect();
    Op::new(name, "test", ids(inputs), ids(outputs))
}

/// Adds tensors and ops by name.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) graph: Graph,
}

impl Builder {
    /// A tensor handed in.
    pub(crate) fn input(&mut self, name: &str, bytes: u64, kind: TensorKind) -> TensorId {
        self.add(Tensor { kind, ..tensor(name, bytes) })
    }

    fn add(&mut self, tensor: Tensor) -> TensorId {
        self.graph.tensors.push(tensor);
        TensorId(self.graph.tensors.len() as u32 - 1)
    }

    /// An op with one output of its own name.
    pub(crate) fn op(&mut self, name: &str, inputs: &[TensorId], bytes: u64) -> TensorId {
        let output = self.add(tensor(name, bytes));
        self.push(name, inputs, &[output]);
        output
    }

    /// An op with one output that shares the storage of `of`.
    pub(crate) fn view(&mut self, name: &str, of: TensorId) -> TensorId {
        let bytes = self.graph.tensors[of.index()].bytes.0;
        let output = self.add(alias(name, bytes, of.0));
        self.push(name, &[of], &[output]);
        output
    }

    /// The same, but the op writes into the storage.
    pub(crate) fn mutate(&mut self, name: &str, of: TensorId, others: &[TensorId]) -> TensorId {
        let output = self.view(name, of);
        let op = self.last();
        op.mutates = true;
        op.inputs.extend(others);
        output
    }

    /// An op of any form.
    pub(crate) fn push(&mut self, name: &str, inputs: &[TensorId], outputs: &[TensorId]) -> OpId {
        let ids = |list: &[TensorId]| list.iter().map(|id| id.0).collect::<Vec<_>>();
        self.graph.ops.push(op(name, &ids(inputs), &ids(outputs)));
        OpId(self.graph.ops.len() as u32 - 1)
    }

    /// The op added last.
    pub(crate) fn last(&mut self) -> &mut Op {
        self.graph.ops.last_mut().expect("an op")
    }
}
