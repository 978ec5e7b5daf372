//! What can be wrong with a graph.

use std::fmt;

use crate::{Bytes, EventId, Graph, OpId, StreamId, TensorId};

/// Longest name an error repeats, in characters; the rest is cut.
const NAME_CHARS: usize = 96;
/// Most ops or tensors of a cycle an error names; the others are counted.
const CYCLE_NAMES: usize = 12;

/// Declares a place: an index with the name that stands there.
macro_rules! place {
    ($(#[$doc:meta] $place:ident $id:ident $word:literal),+ $(,)?) => {$(
        #[$doc]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $place {
            /// Its index.
            pub id: $id,
            /// The name the graph gives it, cut to a readable length; empty if it has none.
            pub name: String,
        }

        impl fmt::Display for $place {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {} ({:?})"), self.id.0, self.name)
            }
        }
    )+};
}

place! {
    /// An op as an error names it.
    OpPlace OpId "op",
    /// A tensor as an error names it.
    TensorPlace TensorId "tensor",
    /// An event as an error names it.
    EventPlace EventId "event",
}

/// The name, cut to a readable length.
pub(crate) fn clip(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}...", &name[..end]),
    }
}

impl OpPlace {
    pub(crate) fn new(graph: &Graph, id: OpId) -> Self {
        Self { id, name: graph.ops.get(id.index()).map(|op| clip(&op.name)).unwrap_or_default() }
    }
}

impl TensorPlace {
    pub(crate) fn new(graph: &Graph, id: TensorId) -> Self {
        Self { id, name: graph.tensors.get(id.index()).map(|tensor| clip(&tensor.name)).unwrap_or_default() }
    }
}

impl EventPlace {
    pub(crate) fn new(graph: &Graph, id: EventId) -> Self {
        Self { id, name: graph.events.get(id.index()).map(|name| clip(name)).unwrap_or_default() }
    }
}

/// Ops or tensors that lead back to the first of them, each to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop<P> {
    /// The first of them, in order.
    pub places: Vec<P>,
    /// How many more there are.
    pub more: usize,
}

impl<P> Loop<P> {
    pub(crate) fn new<I>(ids: Vec<I>, place: impl FnMut(I) -> P) -> Self {
        let more = ids.len().saturating_sub(CYCLE_NAMES);
        Self { places: ids.into_iter().take(CYCLE_NAMES).map(place).collect(), more }
    }
}

impl<P: fmt::Display> fmt::Display for Loop<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in &self.places {
            write!(f, "{place} -> ")?;
        }
        if self.more > 0 {
            write!(f, "{} more -> ", self.more)?;
        }
        match self.places.first() {
            Some(first) => write!(f, "{first}"),
            None => Ok(()),
        }
    }
}

/// Who names a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mention {
    /// An op's list of inputs.
    Input(OpPlace),
    /// An op's list of outputs.
    Output(OpPlace),
    /// An op's in-place pair.
    InPlace(OpPlace),
    /// The `alias_of` of a tensor.
    AliasOf(TensorPlace),
    /// The graph's results, at this index.
    Result(usize),
    /// The graph's loss.
    Loss,
}

impl fmt::Display for Mention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(op) => write!(f, "{op}, as an input"),
            Self::Output(op) => write!(f, "{op}, as an output"),
            Self::InPlace(op) => write!(f, "{op}, in an in-place pair"),
            Self::AliasOf(tensor) => write!(f, "{tensor}, as the tensor whose storage it shares"),
            Self::Result(index) => write!(f, "the graph's results, at index {index}"),
            Self::Loss => f.write_str("the graph, as its loss"),
        }
    }
}

/// What is wrong with an in-place pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InPlaceFault {
    /// The op doesn't read the pair's input.
    InputNotRead,
    /// The op doesn't make the pair's output.
    OutputNotMade,
    /// The output doesn't fit into the input.
    OutputLarger {
        /// Bytes of the input.
        input: Bytes,
        /// Bytes of the output.
        output: Bytes,
    },
}

impl fmt::Display for InPlaceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InputNotRead => f.write_str("the op doesn't read that input"),
            Self::OutputNotMade => f.write_str("the op doesn't make that output"),
            Self::OutputLarger { input, output } => {
                write!(f, "the output needs {} bytes and the input has {}", output.0, input.0)
            }
        }
    }
}

/// Why a graph can't be analysed, or a question about it not answered. All but [`Error::Internal`] mean that the input
/// is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More of something than an index of 32 bits can count.
    #[error("the graph has {count} {what}; at most {limit} can be counted")]
    TooMany {
        /// `tensors`, `ops`, `streams` or `events`.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: u64,
    },
    /// A tensor is named that the graph doesn't have.
    #[error("tensor {} is named by {by}, but the graph has {tensors} tensors", .id.0)]
    UnknownTensor {
        /// The tensor that isn't there.
        id: TensorId,
        /// How many tensors there are.
        tensors: usize,
        /// Who names it.
        by: Mention,
    },
    /// An op is to come after one that the graph doesn't have.
    #[error("{by} is to come after op {}, but the graph has {ops} ops", .id.0)]
    UnknownOp {
        /// The op that isn't there.
        id: OpId,
        /// How many ops there are.
        ops: usize,
        /// Who names it.
        by: OpPlace,
    },
    /// An op runs on a stream that the graph doesn't have.
    #[error("{by} runs on stream {}, but the graph has {streams} (a graph that names none has one, 0)", .id.0)]
    UnknownStream {
        /// The stream that isn't there.
        id: StreamId,
        /// How many streams there are.
        streams: usize,
        /// Who names it.
        by: OpPlace,
    },
    /// An op waits for or records an event that the graph doesn't have.
    #[error("{by} {} event {}, but the graph has {events} events", if *.recorded { "records" } else { "waits for" }, .id.0)]
    UnknownEvent {
        /// The event that isn't there.
        id: EventId,
        /// How many events there are.
        events: usize,
        /// Who names it.
        by: OpPlace,
        /// Whether the op records it; otherwise it waits for it.
        recorded: bool,
    },
    /// Tensors share each other's storage in a ring, so that none owns it.
    #[error("tensors share storage in a cycle, so none of them owns it: {cycle}")]
    AliasCycle {
        /// Each shares the storage of the next.
        cycle: Loop<TensorPlace>,
    },
    /// Two ops make one tensor, or one op makes it twice.
    #[error("{tensor} is made twice: by {first} and by {second}")]
    MadeTwice {
        /// The tensor.
        tensor: TensorPlace,
        /// Its first maker.
        first: OpPlace,
        /// Its second maker.
        second: OpPlace,
    },
    /// A tensor that no op makes and that isn't handed in is read or returned.
    #[error("{tensor} is needed by {by}, but no op makes it and it isn't handed in")]
    NeverMade {
        /// The tensor.
        tensor: TensorPlace,
        /// Who needs it.
        by: Mention,
    },
    /// An op reads a tensor that a later op makes.
    #[error("{reader} reads {tensor} before {maker} makes it")]
    ReadBeforeMade {
        /// The tensor.
        tensor: TensorPlace,
        /// The op that reads it.
        reader: OpPlace,
        /// The op that makes it, later.
        maker: OpPlace,
    },
    /// An op is issued before one that it must come after.
    #[error(
        "{op} must come after {needs}{}, but stands before it",
        .event.as_ref().map(|e| format!(", which records {e}")).unwrap_or_default()
    )]
    IssuedTooEarly {
        /// The op that comes too early.
        op: OpPlace,
        /// The op it must follow.
        needs: OpPlace,
        /// The event between them, if it isn't a plain order.
        event: Option<EventPlace>,
    },
    /// Ops need each other in a ring, so none can run first.
    #[error("the ops form a cycle, so none of them can run first: {cycle}")]
    Cycle {
        /// Each must run before the next.
        cycle: Loop<OpPlace>,
    },
    /// An event is waited for and nobody records it.
    #[error("{waiter} waits for {event}, which no op records")]
    EventNeverRecorded {
        /// The event.
        event: EventPlace,
        /// The op that waits.
        waiter: OpPlace,
    },
    /// An event is recorded twice, so a wait for it would mean two things.
    #[error("{event} is recorded twice: by {first} and by {second}")]
    EventRecordedTwice {
        /// The event.
        event: EventPlace,
        /// The op that records it first.
        first: OpPlace,
        /// The op that records it again.
        second: OpPlace,
    },
    /// An in-place pair that can't be carried out.
    #[error("{op} can't write {output} into {input}: {fault}")]
    BadInPlace {
        /// The op.
        op: OpPlace,
        /// The pair's input.
        input: TensorPlace,
        /// The pair's output.
        output: TensorPlace,
        /// What is wrong.
        fault: InPlaceFault,
    },
    /// An alignment that isn't a power of two.
    #[error("{tensor} asks for an alignment of {alignment} bytes, which isn't a power of two")]
    BadAlignment {
        /// The tensor.
        tensor: TensorPlace,
        /// What it asks for.
        alignment: u64,
    },
    /// All storages and workspaces together have more than 2^64 - 1 bytes.
    #[error("the sizes of all storages and workspaces add up to more than 2^64 - 1 bytes, at {at}")]
    TooManyBytes {
        /// The storage or workspace at which the sum overflows.
        at: String,
    },
    /// The graph's loss isn't made by an op.
    #[error("{tensor} is named as the loss, but no op makes it")]
    LossNotMade {
        /// The tensor.
        tensor: TensorPlace,
    },
    /// A share that isn't a number from 0 up.
    #[error("the share of the step that makes a buffer cyclic is {share}; it must be a number, 0 or more")]
    BadShare {
        /// The share asked for.
        share: f64,
    },
    /// A name that the graph doesn't have.
    #[error(
        "no tensor or workspace is named {name:?}{}{}",
        if .similar.is_empty() { "" } else { "; similar names: " },
        .similar.join(", ")
    )]
    UnknownName {
        /// The name asked for.
        name: String,
        /// Names that hold it or begin like it.
        similar: Vec<String>,
    },
    /// A tensor that takes no bytes, so there is nothing to say about its place.
    #[error("{tensor} takes no bytes: {}", if *.zero_byte { "its storage is empty" } else { "nothing makes or reads it" })]
    NotPlaced {
        /// The tensor.
        tensor: TensorPlace,
        /// Whether its storage has zero bytes; otherwise no op makes or reads it.
        zero_byte: bool,
    },
    /// A buffer that the analysis doesn't have.
    #[error("buffer {id} is asked for, but the analysis has {buffers} buffers")]
    UnknownBuffer {
        /// The buffer asked for.
        id: u32,
        /// How many there are.
        buffers: usize,
    },
    /// A fault of this crate.
    #[error("internal error: {broken}")]
    Internal {
        /// The invariant that broke.
        broken: &'static str,
    },
}
