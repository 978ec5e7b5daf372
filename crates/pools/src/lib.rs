//! The allocator. Imported by `steps`, `host-offload`, `monitor`, `runtime` and `capi`; knows devices and records, not
//! graphs.

#[allow(dead_code, reason = "the arena takes it up")]
mod clocks;
mod tag;

pub use clocks::Notice;
pub use tag::{Precision, Tag, Tier};
