//! Conflicts, offset assignment, hole merging, bounds and verification.

#![forbid(unsafe_code)]

mod plan;
mod problem;

pub use plan::{BoundKind, PlacedBuffer, Plan, Status};
pub use problem::{Buffer, Gap, Problem};
