//! The allocator: one arena for all streams of a device, in the program's own stream order. Imported by `steps`,
//! `host-offload`, `monitor`, `runtime` and `capi`; knows devices and records, not graphs.

#![deny(unsafe_code)]
// An error of a request that failed holds all there is to say, since making it may take no host memory.
#![allow(clippy::result_large_err)]

mod account;
mod allocator;
mod arena;
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
