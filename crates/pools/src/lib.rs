//! The allocator. Imported by `steps`, `host-offload`, `monitor`, `runtime` and `capi`; knows devices and records, not
//! graphs.

#[allow(dead_code, reason = "the arena takes it up")]
mod clocks;
#[allow(dead_code, reason = "the statistics take it up")]
mod latency;
mod op_names;
mod tag;
mod tags;

pub use clocks::Notice;
pub use latency::Quantiles;
pub use op_names::{op_name, op_number, ops_refused};
pub use tag::{Precision, Tag, Tier};
pub use tags::{TAG_DEPTH, TagScope, TagStack, tag_current, tag_pop, tag_push, tags_capture};
