//! Attempts to break the allocator: failing devices, misuse, threads, guards, all settings, long random programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// As in the crate itself.
#![allow(clippy::result_large_err)]

mod faults;
mod guard;
mod hazards;
mod machine;
mod misuse;
mod policy;
mod program;
mod settings;
mod snapshot;
mod soak;
mod threads;
