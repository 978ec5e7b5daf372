//! Graph model, topological scan, live ranges and tiers. Imported by `coloring`, `formats`, `memviz`, `steps` and the
//! command; knows nothing of devices or of where bytes end up.
//!
//! # What it promises
//!
//! [`analyse`] turns a [`Graph`] into [`Buffer`]s: tensors that share a storage folded into one, each with the
//! half-open range of half-steps in which it needs its bytes, and a [`Tier`] with the rule and the ops that decided it.
//! - The op at position `i` owns the half-steps `2i` and `2i + 1`. What it makes, and its workspace, goes live at `2i`;
//!   what it uses last is released after `2i`. So an op's inputs and outputs conflict, unless the op may run in place.
//! - Persistent buffers and results are live to the end of the step, inputs from its start. A view is a use.
//! - A storage that an op writes in place (`mutates`) keeps the order of its reads and writes; other ops move freely.
//! - With several streams, two buffers whose ranges are apart conflict all the same unless the order of events proves
//!   that one is dead before the other is born: [`Analysis::separations`] lists exactly those pairs. A tensor read on
//!   another stream than it was made on counts as a wait, since whoever runs the graph has to wait there.
//! - In-place pairs of the graph are taken where they don't raise the load; [`Analysis::in_place`] lists them.
//! - The same graph and options give the same analysis, on every machine.
//!
//! [`check`] is the first half alone: is this a graph at all. [`explain`] says what is known about one buffer.
//!
//! # Where the ideas come from
//!
//! Live ranges and alias folding are those of compilers. The tiers ask where forward turns into backward: at the loss,
//! which is found from the shape of the graph, never from names. Between streams, vector clocks (Fidge 1988, Mattern 1989)
//! prove order. [`Order::Memory`] schedules lists forwards and backwards, by segments in the way of Liu (1987), and
//! improves the best by moves and by exact search in windows around the worst moment.
//!
//! # What it costs
//!
//! Time and memory are linear in the size of the graph up to logarithms: a few milliseconds for 10 000 ops.
//! `Order::Memory` searches for at most [`AnalysisOptions::order_budget`] visits. Several streams add a table of clocks,
//! of a row for each op that learns of another stream, and the separations, up to [`AnalysisOptions::max_separations`].
//!
//! # What it refuses
//!
//! Everything that [`Error`] lists: dangling ids, cycles of ops or of aliases (printed), tensors read before they are
//! made, made twice or never, events recorded twice or never, sizes that overflow. The size of an error is bounded,
//! whatever the graph's names are.
//!
//! # Example
//!
//! ```
//! use lifetime::{AnalysisOptions, Bytes, DType, Graph, Op, OpId, StreamId, Tensor, TensorId, TensorKind, analyse};
//!
//! let tensor = |name: &str, kind| Tensor {
//!     name: name.to_owned(),
//!     dtype: DType::F32,
//!     shape: vec![256],
//!     bytes: Bytes(1024),
//!     kind,
//!     alias_of: None,
//!     alignment: None,
//!     tier_hint: None,
//! };
//! let op = |name: &str, inputs: &[u32], outputs: &[u32]| Op {
//!     name: name.to_owned(),
//!     kind: name.to_owned(),
//!     inputs: inputs.iter().copied().map(TensorId).collect(),
//!     outputs: outputs.iter().copied().map(TensorId).collect(),
//!     in_place: vec![],
//!     mutates: false,
//!     workspace: Bytes(0),
//!     stream: StreamId(0),
//!     waits: vec![],
//!     records: vec![],
//!     after: vec![],
//!     duration_ns: None,
//! };
//! let graph = Graph {
//!     tensors: vec![
//!         tensor("weight", TensorKind::Parameter),
//!         tensor("hidden", TensorKind::Intermediate),
//!         tensor("logits", TensorKind::Intermediate),
//!     ],
//!     ops: vec![op("scale", &[0], &[1]), op("relu", &[1], &[2])],
//!     results: vec![TensorId(2)],
//!     ..Graph::default()
//! };
//! let analysis = analyse(&graph, &AnalysisOptions::default())?;
//! assert_eq!(analysis.max_load(|_| true), Bytes(3 * 1024));
//! assert_eq!(analysis.order, [OpId(0), OpId(1)]);
//! # Ok::<(), lifetime::Error>(())
//! ```

#![forbid(unsafe_code)]

mod analyse;
mod analysis;
mod check;
mod classify;
mod clocks;
mod csr;
mod dependencies;
mod dtype;
mod error;
mod explain;
mod graph;
mod in_place;
mod load;
mod memory_order;
mod ordered;
mod separate;
mod storage;
#[cfg(test)]
mod testing;
mod tier;
mod turning;
mod units;

pub use analyse::{AnalysisOptions, Order, analyse};
pub use analysis::{Analysis, Buffer, BufferSource, Limit, TierRule, TurningPoint};
pub use check::check;
pub use dtype::DType;
pub use error::{Error, EventPlace, InPlaceFault, Loop, Mention, OpPlace, TensorPlace};
pub use explain::{Bound, Explanation, OpAt, Subject, TakenInPlace, explain};
pub use graph::{Graph, InPlace, Op, Tensor, TensorKind};
pub use tier::Tier;
pub use units::{BufferId, Bytes, EventId, HalfStep, LiveRange, Offset, OpId, StreamId, TensorId};
