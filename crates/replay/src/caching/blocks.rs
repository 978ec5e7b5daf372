//! Blocks and the sets they are found in.

use std::collections::BTreeSet;

use device::StreamId;
use smallvec::SmallVec;

use super::expandable::SegmentIndex;

/// A block's place in [`Blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BlockIndex(pub(super) u32);

/// Which of the two pools a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolKind {
    Small,
    Large,
}

/// A piece of a segment: handed out, free, or addresses without memory.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) requested_bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: PoolKind,
    pub(super) is_allocated: bool,
    /// Addresses of an expandable segment may have no memory.
    pub(super) is_mapped: bool,
    /// Events of other streams that still hold it back.
    pub(super) event_count: u32,
    /// Streams other than its own that use it.
    pub(super) uses: SmallVec<[StreamId; 2]>,
    /// The expandable segment it lies in.
    pub(super) segment: Option<SegmentIndex>,
    /// Neighbours in the segment.
    pub(super) below: Option<BlockIndex>,
    pub(super) above: Option<BlockIndex>,
}

impl Block {
    /// Whether its segment has other blocks.
    pub(super) fn is_split(&self) -> bool {
        self.below.is_some() || self.above.is_some()
    }

    /// Whether it may be joined with a neighbour or handed out.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_allocated && self.event_count == 0 && self.uses.is_empty()
    }
}

/// All blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    slots: Vec<Block>,
    spare: Vec<BlockIndex>,
}

impl Blocks {
    pub(super) fn get(&self, index: BlockIndex) -> &Block {
        &self.slots[index.0 as usize]
    }

    pub(super) fn get_mut(&mut self, index: BlockIndex) -> &mut Block {
        &mut self.slots[index.0 as usize]
    }

    pub(super) fn insert(&mut self, block: Block) -> BlockIndex {
        match self.spare.pop() {
            Some(index) => {
                *self.get_mut(index) = block;
                index
            }
            None => {
                let index = BlockIndex(self.slots.len() as u32);
                self.slots.push(block);
                index
            }
        }
    }

    pub(super) fn remove(&mut self, index: BlockIndex) {
        self.spare.push(index);
    }

    /// Puts `index` between two neighbours.
    pub(super) fn link(&mut self, below: Option<BlockIndex>, index: BlockIndex, above: Option<BlockIndex>) {
        self.get_mut(index).below = below;
        self.get_mut(index).above = above;
        if let Some(below) = below {
            self.get_mut(below).above = Some(index);
        }
        if let Some(above) = above {
            self.get_mut(above).below = Some(index);
        }
    }
}

/// Free blocks of one pool, in the orders in which they are searched.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Free blocks with memory, by stream, size and address.
    free: BTreeSet<(StreamId, u64, u64, BlockIndex)>,
    /// Addresses without memory, by stream and address.
    unmapped: BTreeSet<(StreamId, u64, BlockIndex)>,
}

impl Pool {
    pub(super) fn insert(&mut self, index: BlockIndex, block: &Block) {
        if block.is_mapped {
            self.free.insert((block.stream, block.bytes, block.address, index));
        } else {
            self.unmapped.insert((block.stream, block.address, index));
        }
    }

    pub(super) fn remove(&mut self, index: BlockIndex, block: &Block) {
        if block.is_mapped {
            self.free.remove(&(block.stream, block.bytes, block.address, index));
        } else {
            self.unmapped.remove(&(block.stream, block.address, index));
        }
    }

    /// Free blocks of a stream with at least `bytes`, smallest first, lowest first among equals.
    pub(super) fn at_least(&self, stream: StreamId, bytes: u64) -> impl Iterator<Item = BlockIndex> + '_ {
        let from = (stream, bytes, 0, BlockIndex(0));
        self.free.range(from..).take_while(move |entry| entry.0 == stream).map(|entry| entry.3)
    }

    /// Free blocks of a stream, largest first.
    pub(super) fn largest_first(&self, stream: StreamId) -> impl Iterator<Item = BlockIndex> + '_ {
        let all = (stream, 0, 0, BlockIndex(0))..=(stream, u64::MAX, u64::MAX, BlockIndex(u32::MAX));
        self.free.range(all).rev().map(|entry| entry.3)
    }

    /// All free blocks with memory.
    pub(super) fn free_blocks(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        self.free.iter().map(|entry| entry.3)
    }

    /// Addresses of a stream without memory, lowest first.
    pub(super) fn unmapped(&self, stream: StreamId) -> impl Iterator<Item = BlockIndex> + '_ {
        let from = (stream, 0, BlockIndex(0));
        self.unmapped.range(from..).take_while(move |entry| entry.0 == stream).map(|entry| entry.2)
    }
}
