//! The simulated driver's own stream-ordered pool.
//!
//! A plain model of `cuMemAllocAsync` with a default pool that keeps everything: best fit over segments, neighbours
//! joined, and a freed block goes to a stream that is ordered behind the free, or to anyone once the device has
//! finished the work before it. Real drivers don't say what they do.

use super::streams::{Entry, Standard, Streams};
use crate::books::AddressSpace;
use crate::books::Refusal;
use crate::{AddressRange, DevicePtr, PoolState};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

const START: u64 = 1 << 46;
const END: u64 = 1 << 47;
const UNIT: u64 = 512;
const GRANULE: u64 = 2 << 20;
const SEGMENT: u64 = 32 << 20;

#[derive(Debug)]
struct Block {
    bytes: u64,
    /// The start of the segment it lies in.
    segment: u64,
    /// `None` while handed out, else what the next user must be ordered behind.
    after: Option<SmallVec<[Entry; 2]>>,
}

#[derive(Debug)]
pub(super) struct Pool {
    space: AddressSpace,
    segments: BTreeMap<u64, u64>,
    blocks: BTreeMap<u64, Block>,
    free: BTreeSet<(u64, u64)>,
    state: PoolState,
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool {
            space: AddressSpace::new(START, END),
            segments: BTreeMap::new(),
            blocks: BTreeMap::new(),
            free: BTreeSet::new(),
            state: PoolState::default(),
        }
    }

    pub(super) fn state(&self) -> PoolState {
        self.state
    }

    pub(super) fn rounded(bytes: u64) -> Result<u64, Refusal> {
        if bytes == 0 {
            return Err(Refusal::value("0 bytes can't be allocated"));
        }
        bytes.checked_next_multiple_of(UNIT).ok_or(Refusal::NoRoom)
    }

    /// The smallest free block that work on `place` may have.
    fn best(&self, rounded: u64, place: u32, streams: &Streams) -> Option<(u64, u64)> {
        let is_ready = |entry: &Entry| streams.is_before(*entry, place, Standard::Finished);
        let fits = |start| self.blocks.get(start).and_then(|block| block.after.as_ref());
        let mut blocks = self.free.range((rounded, 0)..);
        blocks.find(|(_, start)| fits(start).is_some_and(|after| after.iter().all(is_ready))).copied()
    }

    /// Whether [`take`](Self::take) has a block to give.
    pub(super) fn has(&self, rounded: u64, place: u32, streams: &Streams) -> bool {
        self.best(rounded, place, streams).is_some()
    }

    /// A free block for work on `place`.
    pub(super) fn take(&mut self, rounded: u64, place: u32, streams: &Streams) -> Option<AddressRange> {
        let (bytes, start) = self.best(rounded, place, streams)?;
        self.free.remove(&(bytes, start));
        let block = self.blocks.get_mut(&start)?;
        let after = block.after.take();
        block.bytes = rounded;
        let segment = block.segment;
        if bytes > rounded {
            let rest = Block { bytes: bytes - rounded, segment, after };
            self.free.insert((rest.bytes, start + rounded));
            self.blocks.insert(start + rounded, rest);
        }
        self.state.live_bytes += rounded;
        Some(AddressRange::new(DevicePtr(start), rounded))
    }

    /// Bytes of a segment for a block: the usual size, or just enough.
    pub(super) fn segment_bytes(rounded: u64, just_enough: bool) -> Option<u64> {
        let enough = rounded.checked_next_multiple_of(GRANULE)?;
        Some(if just_enough { enough } else { enough.max(SEGMENT) })
    }

    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        let start = self.space.take(bytes, GRANULE).ok_or(Refusal::NoAddresses {
            free_bytes: self.space.unused_bytes(),
            total_bytes: self.space.span_bytes(START),
        })?;
        self.segments.insert(start, bytes);
        self.blocks.insert(start, Block { bytes, segment: start, after: Some(SmallVec::new()) });
        self.free.insert((bytes, start));
        self.state.reserved_bytes += bytes;
        Ok(())
    }

    pub(super) fn find(&self, ptr: DevicePtr) -> Result<AddressRange, Refusal> {
        match self.blocks.get(&ptr.0) {
            Some(block) if block.after.is_none() => Ok(AddressRange::new(ptr, block.bytes)),
            _ => Err(Refusal::value("no stream-ordered allocation that is still live begins there")),
        }
    }

    /// Frees a block that [`find`](Self::find) found, behind `entry`.
    pub(super) fn free(&mut self, range: AddressRange, entry: Entry) {
        let Some(block) = self.blocks.remove(&range.start.0) else { return };
        self.state.live_bytes -= block.bytes;
        let (mut start, mut end) = (range.start.0, range.end());
        let mut after: SmallVec<[Entry; 2]> = SmallVec::from_slice(&[entry]);
        if let Some((&before, neighbour)) = self.blocks.range(..start).next_back()
            && let Some(theirs) = joinable(neighbour, block.segment)
        {
            join(&mut after, theirs);
            self.free.remove(&(neighbour.bytes, before));
            self.blocks.remove(&before);
            start = before;
        }
        if let Some(neighbour) = self.blocks.get(&end)
            && let Some(theirs) = joinable(neighbour, block.segment)
        {
            join(&mut after, theirs);
            let bytes = neighbour.bytes;
            self.free.remove(&(bytes, end));
            self.blocks.remove(&end);
            end += bytes;
        }
        self.free.insert((end - start, start));
        self.blocks.insert(start, Block { bytes: end - start, segment: block.segment, after: Some(after) });
    }

    /// Gives idle segments back, from the highest address down, while more than `keep_bytes` are reserved. Returns their
    /// ranges.
    pub(super) fn trim(&mut self, keep_bytes: u64, streams: &Streams) -> Vec<AddressRange> {
        let idle: Vec<(u64, u64)> = self
            .segments
            .iter()
            .rev()
            .filter(|(start, bytes)| {
                self.blocks.get(start).is_some_and(|block| {
                    block.bytes == **bytes
                        && block
                            .after
                            .as_ref()
                            .is_some_and(|after| after.iter().all(|&entry| streams.is_finished(entry)))
                })
            })
            .map(|(&start, &bytes)| (start, bytes))
            .collect();
        let mut given = Vec::new();
        for (start, bytes) in idle {
            if self.state.reserved_bytes <= keep_bytes {
                break;
            }
            self.segments.remove(&start);
            self.blocks.remove(&start);
            self.free.remove(&(bytes, start));
            self.space.give_back(start, bytes);
            self.state.reserved_bytes -= bytes;
            given.push(AddressRange::new(DevicePtr(start), bytes));
        }
        given
    }

    /// Whether the range lies in one live block.
    pub(super) fn holds(&self, range: AddressRange) -> bool {
        (START..END).contains(&range.start.0)
            && self
                .blocks
                .range(..=range.start.0)
                .next_back()
                .is_some_and(|(&start, block)| block.after.is_none() && range.end() <= start + block.bytes)
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut live = 0;
        let mut free = 0;
        let mut next = 0;
        for (&start, block) in &self.blocks {
            let Some(&bytes) = self.segments.get(&block.segment) else {
                return Err(format!("the pool's block at {start:#x} has no segment"));
            };
            if start < next || start + block.bytes > block.segment + bytes {
                return Err(format!("the pool's block at {start:#x} overlaps another or leaves its segment"));
            }
            next = start + block.bytes;
            match block.after {
                None => live += block.bytes,
                Some(_) => {
                    free += block.bytes;
                    if !self.free.contains(&(block.bytes, start)) {
                        return Err(format!("the pool's free block at {start:#x} can't be found by size"));
                    }
                }
            }
        }
        let reserved: u64 = self.segments.values().sum();
        if live != self.state.live_bytes || reserved != self.state.reserved_bytes || live + free != reserved {
            return Err(format!(
                "the pool's books say {:?}; live {live}, free {free}, reserved {reserved}",
                self.state
            ));
        }
        Ok(())
    }
}

/// What a free neighbour in the same segment has to be behind.
fn joinable(neighbour: &Block, segment: u64) -> Option<&[Entry]> {
    if neighbour.segment == segment { neighbour.after.as_deref() } else { None }
}

fn join(after: &mut SmallVec<[Entry; 2]>, theirs: &[Entry]) {
    for their in theirs {
        match after.iter_mut().find(|known| known.place == their.place) {
            Some(known) => known.sequence = known.sequence.max(their.sequence),
            None => after.push(*their),
        }
    }
}
