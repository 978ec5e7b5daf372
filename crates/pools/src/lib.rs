//! The allocator: one arena for all streams of a device, in the program's own stream order. Imported by `steps`,
//! `host-offload`, `monitor`, `runtime`, `replay` and `capi`; knows devices and records, not graphs.
//!
//! # What it promises
//! - No two live blocks share a byte. A block is handed out again only to work that is ordered behind all work that may
//!   still use it; what the allocator fails to see may cost memory, never bytes ([`Allocator::record_use`],
//!   [`Allocator::stream_wait`] and the calls beside it; the rules are in `docs/order.md`).
//! - A refused call leaves no trace: growth is a transaction, errors say what stood in the way ([`Shortage`]).
//! - No driver call is made and no user code runs under a lock. A free makes no driver call. Requests answered by a magazine
//!   take no host memory, and those answered by the shard of their stream only when the table of addresses runs out of nodes.
//! - Figures are always kept ([`Statistics`]); [`Allocator::check`] verifies every invariant at any moment.
//! - Any thread may free any block. A forked child is told so and never touches the device; at exit nothing is torn down.
//!
//! # The idea
//! From the call down:
//! 1. *Magazines* (Bonwick, "Magazines and Vmem", 2001): freed blocks of up to 1 MiB stay with the thread that freed them, for
//!    their stream, by exact size. What may be idle there is bounded.
//! 2. *Shards*: all blocks of the arena lie in runs, linked by address. Each belongs to the shard of a stream, in which
//!    everything free may be handed to that stream at once; so a free block carries no list of waits, only the moment of its
//!    free on its own stream's clock. Streams work side by side, each under the lock of its own shard. Free blocks lie in two-level bitmaps by
//!    size (Masmano et al., "TLSF", 2004) in coarse classes, lowest address first, the end of memory that can grow last.
//! 3. *Hand-over*: a request that finds nothing takes free blocks of other shards, as far as the vector clock of its
//!    stream (Lamport 1978; Mattern 1989) covers their frees, joined with its own where they are neighbours.
//! 4. *Supply*: memory from the device, by what is missing: separate segments, or handles of 256, 32 and 2 MiB mapped behind each other
//!    in one range of addresses. Persistent blocks have an end of the arena for themselves.
//! 5. *When memory is short*: idle memory goes back to the device, streams are made to wait, the program's callback is
//!    asked, then [`Reclaim`], then the host waits; only then a request fails.
//!
//! A block is found from its address by a radix table (`page_map`), and is one cache line in a flat table (`block`).
//!
//! # What it costs
//! On the traces of `benches/compare` (2026-11-29, two shared cores): 20 to 38 ns an operation, warm, with locks and figures, and 29 to 51
//! through the C functions; two threads with streams of their own do twice the work of one. What is held stays within 2.5 % of
//! what is live on single-stream traces of more than some pages, mutated training steps with recomputation excepted (11 %).
//! 5 GiB of addresses for tables of which 64 bytes a block and a few bytes for each 256 KiB held become memory; creating one maps and unmaps
//! them, so that allocators are for keeping. So are streams: each that ever asked for memory takes 12 KiB of host memory, and what it
//! leaves free stays its own until the device was seen to finish.
//!
//! # What it refuses
//! More than 16 million blocks, 262 144 streams times pools (ended ones count), requests beyond 64 TiB, alignments beyond 1 GiB; addresses it
//! didn't hand out, or that were freed; everything in a forked child ([`Error`]).
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use device::{HostDevice, HostOptions, StreamId};
//! use pools::{Allocator, Settings, Tag, Tier};
//!
//! let device = Arc::new(HostDevice::new(HostOptions::with_capacity(1 << 30))?);
//! let pools = Allocator::new(device, Settings::default())?;
//! let weights = pools.alloc_tagged(64 << 20, 0, StreamId::DEFAULT, Tag { tier: Tier::Persistent, ..Tag::NONE })?;
//! let scratch = pools.alloc(1000, 0, StreamId::DEFAULT)?;
//! pools.free(scratch, None)?;
//! assert_eq!(pools.alloc(1000, 0, StreamId::DEFAULT)?, scratch, "the same stream has it again at once");
//!
//! let figures = pools.statistics();
//! assert_eq!(figures.tiers[Tier::Persistent as usize].current_bytes, 64 << 20);
//! pools.check()?;
//! # pools.free(weights, None)?;
//! # Ok::<(), pools::Error>(())
//! ```

#![deny(unsafe_code)]
// An error of a request that failed holds all there is to say, since making it may take no host memory.
#![allow(clippy::result_large_err)]

mod account;
mod allocator;
mod arena;
#[allow(unsafe_code)]
mod asymmetric;
mod bins;
#[allow(unsafe_code)]
mod block;
mod clocks;
mod error;
#[allow(unsafe_code)]
mod fork;
mod latency;
#[allow(unsafe_code)]
mod lock;
mod magazine;
mod op_names;
#[allow(unsafe_code)]
mod page_map;
mod pool;
mod request;
mod settings;
mod shard;
mod span;
mod supply;
mod sync;
mod tag;
mod tags;
mod threads;
mod traits;
#[allow(unsafe_code)]
mod zeroed;

pub use allocator::{
    Allocator, BlockInfo, GuardCallback, GuardFinding, GuardReport, LevelFigures, OpPoolFigures, OrderFigures,
    SlowFigures, Snapshot, SnapshotBlock, SnapshotSpan, Statistics,
};
pub use clocks::Notice;
pub use error::{Error, Result, Shortage};
pub use latency::Quantiles;
pub use op_names::{op_name, op_number, ops_refused};
pub use settings::{Backing, Budget, HandOver, OpPool, Settings};
pub use tag::{Precision, Tag, TagText, Tier};
pub use tags::{TAG_DEPTH, TagScope, TagStack, tag_current, tag_pop, tag_push, tags_capture};
pub use traits::{Advisor, NoAdvice, NothingToReclaim, OutOfMemoryCallback, Reclaim, Reclaimed};
