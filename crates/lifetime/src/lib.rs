//! Graph model, topological scan, live ranges and tiers. Imported by `coloring`, `formats`, `memviz`, `steps` and the
//! command; knows nothing of devices or of where bytes end up.

#![forbid(unsafe_code)]

mod analysis;
mod dtype;
mod graph;
mod tier;
mod units;

pub use analysis::{Analysis, Buffer, BufferSource, Limit, TierRule, TurningPoint};
pub use dtype::DType;
pub use graph::{Graph, InPlace, Op, Tensor, TensorKind};
pub use tier::Tier;
pub use units::{BufferId, Bytes, EventId, HalfStep, LiveRange, Offset, OpId, StreamId, TensorId};
