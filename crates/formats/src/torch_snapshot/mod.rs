//! PyTorch's CUDA memory snapshots: pickles of `torch.cuda.memory._snapshot()`, and of the bare list of segments that
//! `torch.cuda.memory_snapshot()` gives.
//!
//! A pickle is a program for a stack machine. Ours knows the opcodes that build plain values and refuses all others. It
//! never recurses, believes no count, and turns each event into its final form as soon as its dict is complete, so that
//! a million of them take some 100 MB.

mod convert;
mod finish;
mod machine;
mod opcodes;
mod pickle;
mod problem;
mod read;
mod settings;
mod source;
mod store;
mod value;
mod words;
mod write;

pub use problem::{SnapshotError, SnapshotProblem};
pub(crate) use read::read;
pub use write::write_snapshot;

/// What torch's allocator rounds requests up to.
const GRANULE_BYTES: u64 = 512;

/// Highest number of a device, which is also its place in a list.
const MAX_DEVICE: u32 = 65_535;

/// Whose doing a snapshot is, unless it says.
const ALLOCATOR: &str = "PyTorch's caching allocator";

/// Whether a text begins as a pickle of a protocol that is read.
pub(crate) fn has_magic(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, ..])
}
