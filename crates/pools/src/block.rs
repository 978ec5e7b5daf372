//! What is known about each block: one cache line a block, in a table that only grows.
//!
//! All fields are atomics, nearly all read and written relaxed, so that the table is shared without unsafe code. Who may write
//! them is a matter of the lock of the block's shard; the exceptions (`state` and the links between shards) are told at
//! `Shard`.

use std::sync::Mutex;

use crate::sync::{AtomicU32, AtomicU64, Ordering, locked};
use crate::zeroed::{Zeroable, ZeroedTable};

/// Sizes and addresses of blocks are multiples of this many bytes.
pub(crate) const GRANULE: u64 = 512;

/// A block by its number. 0 is none.
pub(crate) type BlockId = u32;
/// No block.
pub(crate) const NIL: BlockId = 0;

/// Blocks there can be. Their table takes 64 bytes of addresses for each, and memory for those in use.
const MOST_BLOCKS: usize = if cfg!(loom) {
    4
} else if cfg!(miri) {
    1 << 10
} else {
    1 << 24
};
/// Numbers that are made at once.
const CHUNK: usize = if cfg!(loom) {
    4
} else if cfg!(miri) {
    1 << 8
} else {
    1 << 14
};

/// What a block is, in the low bits of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// The number belongs to no block.
    Vacant = 0,
    /// In its shard's bins.
    Free = 1,
    /// Handed out.
    Live = 2,
    /// In a magazine.
    Cached = 3,
    /// Freed by the host; work on other streams may still use it.
    Pending = 4,
    /// The end of a run of blocks; has no bytes.
    Fence = 5,
    /// On its way from one of the above to another, by the thread that set it.
    Moving = 6,
}

/// A block's state in one word: its kind, flags, and the references to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u32);

impl State {
    const KIND: u32 = 0xf;
    /// Other streams have been recorded as users.
    pub(crate) const HAS_USES: u32 = 1 << 4;
    /// A red zone follows the bytes asked for.
    pub(crate) const IS_GUARDED: u32 = 1 << 5;
    /// Of a free block: it lies at the end of memory that can grow. Of a fence: so does what ends there.
    pub(crate) const IS_TAIL: u32 = 1 << 6;
    const REFERENCE: u32 = 1 << 8;
    pub(crate) const MAX_REFERENCES: u32 = (1 << 24) - 1;

    /// A block with one reference and no flags, as most are.
    pub(crate) const LIVE: State = State(Kind::Live as u32 | Self::REFERENCE);

    /// A free block, in a bin or on its way there.
    pub(crate) const FREE: State = State(Kind::Free as u32);
    /// The fence at the end of memory that can grow.
    pub(crate) const GROWING_END: State = State(Kind::Fence as u32 | Self::IS_TAIL);

    pub(crate) const fn of(kind: Kind) -> State {
        State(kind as u32)
    }

    pub(crate) fn kind(self) -> Kind {
        match self.0 & Self::KIND {
            1 => Kind::Free,
            2 => Kind::Live,
            3 => Kind::Cached,
            4 => Kind::Pending,
            5 => Kind::Fence,
            6 => Kind::Moving,
            _ => Kind::Vacant,
        }
    }

    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn with(self, flag: u32) -> State {
        State(self.0 | flag)
    }

    pub(crate) fn references(self) -> u32 {
        self.0 >> 8
    }

    pub(crate) fn with_references(self, references: u32) -> State {
        State(self.0 & (Self::REFERENCE - 1) | references << 8)
    }
}

/// See the module.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(align(64))]
pub(crate) struct Block {
    address: AtomicU64,
    bytes: AtomicU64,
    /// Of a free block: when it was freed, as its shard counts.
    freed_at: AtomicU64,
    tag: AtomicU64,
    /// Bytes at the end that nobody asked for.
    pad: AtomicU32,
    /// Neighbours by address.
    prev: AtomicU32,
    next: AtomicU32,
    /// Neighbours in a list of the shard or of a magazine.
    link_prev: AtomicU32,
    link_next: AtomicU32,
    state: AtomicU32,
    shard: AtomicU32,
    /// The home stream, by its number among the clocks.
    stream: AtomicU32,
}

macro_rules! fields {
    ($($get:ident $set:ident: $type:ty),*) => {
        $(
            #[inline]
            pub(crate) fn $get(&self) -> $type {
                self.$get.load(Ordering::Relaxed)
            }

            #[inline]
            pub(crate) fn $set(&self, value: $type) {
                self.$get.store(value, Ordering::Relaxed);
            }
        )*
    };
}

impl Block {
    fields! {
        address set_address: u64, bytes set_bytes: u64, freed_at set_freed_at: u64, tag set_tag: u64,
        pad set_pad: u32, next set_next: u32,
        link_prev set_link_prev: u32, link_next set_link_next: u32, shard set_shard: u32, stream set_stream: u32
    }

    /// The left neighbour. Acquire: pairs with the release in `set_prev`, since the link may lead to a block of another shard,
    /// whose lock isn't held: that it is of that shard has to be seen too.
    #[inline]
    pub(crate) fn prev(&self) -> u32 {
        self.prev.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn set_prev(&self, value: u32) {
        self.prev.store(value, Ordering::Release);
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state.0, Ordering::Relaxed);
    }

    /// Changes the state in one step if it is still `from`: of several threads that free one block, one succeeds.
    /// Acquire and release, so that the one that takes a block over sees what the one before wrote about it.
    #[inline]
    pub(crate) fn change(&self, from: State, to: State) -> bool {
        self.state.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.state().kind()
    }

    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.address() + self.bytes()
    }

    #[inline]
    pub(crate) fn requested(&self) -> u64 {
        self.bytes().saturating_sub(u64::from(self.pad()))
    }
}

// SAFETY:
// - it consists of atomic integers, which may be zero and need no dropping.
unsafe impl Zeroable for Block {}

/// All blocks of an allocator.
#[derive(Debug)]
pub(crate) struct Blocks {
    table: ZeroedTable<Block>,
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    numbers: Vec<BlockId>,
    made: usize,
}

impl Blocks {
    /// `None`: there are no addresses for the table.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { table: ZeroedTable::new(MOST_BLOCKS)?, spare: Mutex::default() })
    }

    /// A number that was never given out stands for [`NIL`], which is no block's.
    #[inline]
    pub(crate) fn get(&self, id: BlockId) -> &Block {
        match self.table.get(id as usize) {
            Some(block) => block,
            None => &self.table[NIL as usize],
        }
    }

    /// Moves up to `want` unused numbers to `to`. Never allocates host memory; see [`grow`](Self::grow).
    pub(crate) fn refill(&self, to: &mut Vec<BlockId>, want: usize) {
        let mut spare = locked(&self.spare);
        let from = spare.numbers.len().saturating_sub(want.min(to.capacity() - to.len()));
        to.extend(spare.numbers.drain(from..));
    }

    /// Takes back numbers beyond the first `keep` of `from`.
    pub(crate) fn give_back(&self, from: &mut Vec<BlockId>, keep: usize) {
        let mut spare = locked(&self.spare);
        spare.numbers.extend(from.drain(keep.min(from.len())..));
    }

    /// Makes sure that at least `want` unused numbers are there. Allocates host memory. False: there are no more.
    pub(crate) fn grow(&self, want: usize) -> bool {
        let mut spare = locked(&self.spare);
        while spare.numbers.len() < want {
            let first = spare.made;
            let end = (first + CHUNK).min(self.table.len());
            if first == end {
                return false;
            }
            spare.made = end;
            // Room for all numbers there are, so that giving back never allocates. The lowest number comes out first.
            let old = std::mem::replace(&mut spare.numbers, Vec::with_capacity(end));
            spare.numbers.extend((first.max(1)..end).rev().map(|number| number as BlockId));
            spare.numbers.extend(old);
        }
        true
    }

    /// Every number that was ever given out is below this one.
    pub(crate) fn end(&self) -> BlockId {
        locked(&self.spare).made as BlockId
    }

    /// Bytes of host memory held, at most.
    pub(crate) fn host_bytes(&self) -> u64 {
        let spare = locked(&self.spare);
        (spare.made * size_of::<Block>() + spare.numbers.capacity() * size_of::<BlockId>()) as u64
    }
}

/// All interleavings of few steps, by loom.
#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used)]
mod loom_tests {
    use std::sync::Arc;

    use super::*;

    /// What `Shared::free` does about the state.
    fn drop_reference(block: &Block) -> Option<u32> {
        loop {
            let state = block.state();
            if state.kind() != Kind::Live {
                return None;
            }
            let left = state.references() - 1;
            let to = if left == 0 { State::of(Kind::Moving) } else { state.with_references(left) };
            if block.change(state, to) {
                return Some(left);
            }
        }
    }

    #[test]
    fn loom_of_two_threads_that_free_a_block_one_succeeds_and_sees_what_was_written_of_it() {
        loom::model(|| {
            let block = Arc::new(Block::default());
            block.set_bytes(512);
            block.set_state(State::LIVE);
            let other = Arc::clone(&block);
            let thread = loom::thread::spawn(move || drop_reference(&other));
            let (ours, theirs) = (drop_reference(&block), thread.join().unwrap());
            assert!(matches!((ours, theirs), (Some(0), None) | (None, Some(0))));
            assert_eq!((block.kind(), block.bytes()), (Kind::Moving, 512));
        });
    }

    #[test]
    fn loom_references_are_counted_and_the_last_one_frees() {
        loom::model(|| {
            let block = Arc::new(Block::default());
            block.set_state(State::LIVE.with_references(2));
            let other = Arc::clone(&block);
            let thread = loom::thread::spawn(move || drop_reference(&other));
            let mut counts = [drop_reference(&block), thread.join().unwrap()];
            counts.sort_unstable();
            assert_eq!(counts, [Some(0), Some(1)]);
        });
    }
}
