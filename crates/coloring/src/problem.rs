//! What is to be placed.

use lifetime::{Bytes, HalfStep, LiveRange, Offset};

/// A part of a live range during which a buffer keeps only some of its bytes, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When; lies inside the buffer's live range.
    pub range: LiveRange,
    /// The bytes kept, `[from, to)` counted from the buffer's own start; `None` keeps nothing.
    pub kept: Option<(Offset, Offset)>,
}

/// One buffer to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// When it is live.
    pub range: LiveRange,
    /// Bytes it needs; never 0.
    pub size: Bytes,
    /// Its offset is a multiple of this; never 0, need not be a power of two.
    pub alignment: u64,
    /// The offset it must have, if any.
    pub fixed: Option<Offset>,
    /// Times at which it needs less, in order and apart from each other.
    pub gaps: Vec<Gap>,
}

impl Buffer {
    /// A buffer without constraints of its own.
    pub fn new(range: LiveRange, size: Bytes) -> Self {
        Self { range, size, alignment: 1, fixed: None, gaps: Vec::new() }
    }
}

/// Buffers that share one arena.
///
/// Two buffers conflict when their live ranges overlap (gaps taken out), or when `separations` says so. The conflicts
/// of live ranges are never written down one by one: for one stream they form an interval graph, and the largest one
/// measured has 180 million edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// What is to be placed; an index here is a buffer's number everywhere in this crate.
    pub buffers: Vec<Buffer>,
    /// Further conflicts, as pairs of numbers, the smaller first, sorted, each once: buffers whose live ranges are
    /// apart in issue order but not by any proof between their streams.
    pub separations: Vec<(u32, u32)>,
    /// Bytes available, if limited.
    pub capacity: Option<Bytes>,
}

impl Problem {
    /// The moment after the last death; 0 without buffers.
    pub fn end(&self) -> HalfStep {
        self.buffers.iter().map(|b| b.range.death).max().unwrap_or_default()
    }
}
