//! The allocator. Imported by `steps`, `host-offload`, `monitor`, `runtime` and `capi`; knows devices and records, not
//! graphs.

mod tag;

pub use tag::{Precision, Tag, Tier};
