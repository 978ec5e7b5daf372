//! Attempts to break the allocator: failing devices, misuse, threads, guards, all settings, long random programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod guard;
mod machine;
mod misuse;
mod policy;
mod program;
mod settings;
mod snapshot;
mod soak;
mod threads;
