//! What the allocator asks of others. Each is somebody else's part; the fakes are for tests and for builds without that part.

use std::sync::Arc;
use std::time::Instant;

use device::DevicePtr;

use crate::Shortage;

/// Asked before a request fails; says whether it is worth trying again. Called outside every lock: it may allocate, free and
/// trim. One that panics counts as one that says no.
pub type OutOfMemoryCallback = Arc<dyn Fn(&Shortage) -> bool + Send + Sync>;

/// What was done for bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes freed: requests can have them.
    pub freed_bytes: u64,
    /// Bytes that will be free once work that was queued for it is over.
    pub pending_bytes: u64,
}

/// Makes room by moving blocks elsewhere, to page-locked memory or a disk. Called outside every lock; frees through the
/// allocator and never asks it for memory.
pub trait Reclaim: Send + Sync {
    /// Frees `bytes` bytes or more by `deadline`, or as much as it can.
    fn reclaim(&self, bytes: u64, deadline: Instant) -> Reclaimed;
}

/// Knows when blocks are used next: a plan, or what was learned of a step.
pub trait Advisor: Send + Sync {
    /// How many requests from now a block is used next; `None` if that isn't known.
    fn next_use(&self, ptr: DevicePtr) -> Option<u64>;
}

/// Has nothing to give.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingToReclaim;

impl Reclaim for NothingToReclaim {
    fn reclaim(&self, _bytes: u64, _deadline: Instant) -> Reclaimed {
        Reclaimed::default()
    }
}

/// Knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAdvice;

impl Advisor for NoAdvice {
    fn next_use(&self, _ptr: DevicePtr) -> Option<u64> {
        None
    }
}
