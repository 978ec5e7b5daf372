//! The computation graph: tensors, ops and what connects them.

use std::borrow::Cow;

use crate::{Bytes, EventId, OpId, StreamId, TensorId, dtype::DType, tier::Tier};

/// Where a tensor comes from, as far as the graph says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// A trained weight.
    Parameter,
    /// State of a module that isn't trained (running mean, position table).
    ModuleState,
    /// State of the optimizer (momentum, variance).
    OptimizerState,
    /// A value fixed when the graph was made.
    Constant,
    /// Handed in anew for every step (a batch).
    Input,
    /// Produced by an op of the graph.
    Intermediate,
}

/// A value of the graph. Several tensors may share one storage (views, in-place results): all but one name the
/// other in `alias_of`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The name the graph gives it; unique names aren't required.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extent of each dimension; empty for a scalar.
    pub shape: Vec<u64>,
    /// Size of its storage; for an alias, how much of the other's storage it needs. A storage gets what the largest of
    /// its tensors needs, so an expanded view must not claim more than it looks at.
    pub bytes: Bytes,
    /// Where it comes from.
    pub kind: TensorKind,
    /// The tensor whose storage it shares. May itself be an alias; never a cycle.
    pub alias_of: Option<TensorId>,
    /// Alignment of the storage in bytes, a power of two; `None` takes the planner's.
    pub alignment: Option<u64>,
    /// Tier asked for by whoever made the graph; decides over every rule.
    pub tier_hint: Option<Tier>,
}

/// An op may write `output` into the bytes of `input`, if nothing reads `input` later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// One of the op's inputs.
    pub input: TensorId,
    /// One of its outputs, no larger than the input.
    pub output: TensorId,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// The name the graph gives it.
    pub name: String,
    /// What it computes (`aten.mm.default`, `fusion`).
    pub kind: String,
    /// Tensors it reads, in the graph's order; one may stand twice.
    pub inputs: Vec<TensorId>,
    /// Tensors it makes. A tensor is made by one op at most.
    pub outputs: Vec<TensorId>,
    /// Pairs that may share bytes.
    pub in_place: Vec<InPlace>,
    /// Whether it writes into the storage of an input it shares with an output (an optimizer's update); such an op
    /// keeps its place relative to every other use of that storage.
    pub mutates: bool,
    /// Scratch bytes needed only while it runs.
    pub workspace: Bytes,
    /// The stream it runs on.
    pub stream: StreamId,
    /// Events its stream waits for before it runs.
    pub waits: Vec<EventId>,
    /// Events recorded on its stream after it.
    pub records: Vec<EventId>,
    /// Ops that must come before it without handing it a tensor.
    pub after: Vec<OpId>,
    /// How long it runs, in nanoseconds, if known.
    pub duration_ns: Option<u64>,
}

impl Op {
    /// An op on stream 0 that reads and makes tensors, and nothing else.
    pub fn new(
        name: impl Into<String>,
        kind: impl Into<String>,
        inputs: Vec<TensorId>,
        outputs: Vec<TensorId>,
    ) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            inputs,
            outputs,
            in_place: Vec::new(),
            mutates: false,
            workspace: Bytes(0),
            stream: StreamId(0),
            waits: Vec::new(),
            records: Vec::new(),
            after: Vec::new(),
            duration_ns: None,
        }
    }
}

/// A whole step: what it reads, computes and leaves behind. `ops` stand in the order in which the program issues them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Name of the model or file.
    pub name: String,
    /// All tensors; a [`TensorId`] is an index here.
    pub tensors: Vec<Tensor>,
    /// All ops in issue order; an [`OpId`] is an index here.
    pub ops: Vec<Op>,
    /// Tensors that stay live past the last op (the loss, the logits).
    pub results: Vec<TensorId>,
    /// The tensor at which forward turns into backward, if the graph says so.
    pub loss: Option<TensorId>,
    /// Names of the streams; `StreamId(i)` is the i-th. Empty means one.
    pub streams: Vec<String>,
    /// Names of the events; `EventId(i)` is the i-th.
    pub events: Vec<String>,
    /// What the file calls each tensor, no two the same; empty where that is its position.
    pub tensor_ids: Vec<String>,
    /// What the file calls each op, no two the same; empty where that is its position.
    pub op_ids: Vec<String>,
}

impl Graph {
    /// What the file calls a tensor.
    pub fn tensor_id(&self, tensor: TensorId) -> Cow<'_, str> {
        self.tensor_ids.get(tensor.index()).map_or_else(|| tensor.0.to_string().into(), |id| id.as_str().into())
    }

    /// What the file calls an op.
    pub fn op_id(&self, op: OpId) -> Cow<'_, str> {
        self.op_ids.get(op.index()).map_or_else(|| op.0.to_string().into(), |id| id.as_str().into())
    }

    /// The tensor that the file calls this.
    pub fn tensor_called(&self, id: &str) -> Option<TensorId> {
        let position = match self.tensor_ids.as_slice() {
            [] => id.parse().ok().filter(|&position: &usize| position < self.tensors.len()),
            ids => ids.iter().position(|other| other == id),
        };
        position.and_then(|position| u32::try_from(position).ok()).map(TensorId)
    }
}
