//! `libgpumem`: everything gpumem does, for programs in C and in whatever calls C. `include/gpumem.h` is made from this
//! crate and is its documentation for users; `ci/link.sh` makes the libraries.
//!
//! # What it promises
//! - Nothing unwinds into the program: every body runs in the `boundary!` macro, which catches panics, keeps the message
//!   of what failed for its thread, and answers with a status.
//! - Null, unaligned pointers, unknown struct sizes, foreign and destroyed handles are statuses and not accidents.
//! - Saying what went wrong takes no memory, and neither does a call that only hands out or takes back a block.
//!
//! # The idea
//! This crate translates and nothing more: check arguments, call, convert. C's pointers become references in two files,
//! `boundary` and `handles`, and nowhere else. What a function expects of its pointers is said once, at the top of the
//! header, and is what each call of an `unsafe` function in here vouches for.
//!
//! # What it costs
//! A call of alloc or free from C takes 5 to 9 ns more than from Rust, through the shared library (`cargo bench -p capi --bench
//! overhead` with `GPUMEM_LIBRARY`, thread CPU time, lowest of 15; 2026-11-29, x86-64, two shared cores, load 6, commit
//! bbe05dc: 30.3 and 40.9 ns a pair at 4 KiB, 46.0 and 64.0 ns at 3 MiB). The stripped library has 3.0 MB.
//!
//! # What it refuses
//! What the crates below refuse, each kind with a status of its own (`status`).

#![deny(unsafe_op_in_unsafe_fn)]
// Every function's duty is the same and stands at the top of the header (include/gpumem.h), made from cbindgen.toml.
#![allow(clippy::missing_safety_doc)]
// An error of a request that failed holds all there is to say, since making it may take no host memory.
#![allow(clippy::result_large_err)]

mod allocator;
mod boundary;
mod config;
mod devices;
mod failure;
mod figures;
mod graph;
mod handles;
mod last_error;
mod order;
mod plan;
mod planning;
mod status;
mod tags;
mod upkeep;
mod version;

pub use allocator::*;
pub use config::*;
pub use devices::*;
pub use figures::*;
pub use graph::*;
pub use last_error::{gpumem_last_error, gpumem_last_error_status};
pub use order::*;
pub use plan::*;
pub use planning::*;
pub use status::*;
pub use tags::*;
pub use upkeep::*;
pub use version::*;
