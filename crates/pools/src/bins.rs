//! Free blocks by size: two-level bitmaps (Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems",
//! 2004) over coarse classes, 8 a doubling.
//!
//! Coarse classes with the lowest address first are what keeps memory in one piece: blocks gather at the low end, so that
//! the free space at the high end stays whole, while a request still gets a hole of about its size. The hole at the end
//! of memory that can grow is taken only if nothing else fits. (Of the rules tried on the shared traces and on mutated ones, best fit and finer
//! classes needed 2-5 % more memory on training steps with recomputation; see `docs/measurements`.)

use crate::block::{Block, BlockId, Blocks, GRANULE, NIL, State};

const FINE_BITS: u32 = 3;
const FINE: u64 = 1 << FINE_BITS;
/// Enough for blocks of 32 TiB; larger ones share the last bin.
const BINS: usize = 320;
const WORDS: usize = BINS / 64;
/// Blocks of one bin that are looked at: a bound on what a request costs.
const PROBES: usize = 32;

/// Lists of free blocks. Links are those of the blocks.
#[derive(Debug)]
pub(crate) struct Bins {
    heads: Box<[BlockId; BINS]>,
    words: [u64; WORDS],
    summary: u16,
    /// Free blocks at the end of memory that can grow, in no list.
    tails: Vec<BlockId>,
}

/// The bin of blocks of this size.
#[inline]
fn bin_of(bytes: u64) -> usize {
    let granules = bytes / GRANULE;
    if granules < FINE {
        return granules as usize;
    }
    let doubling = 63 - granules.leading_zeros() - FINE_BITS;
    let bin = (u64::from(doubling) << FINE_BITS) + FINE + (granules >> doubling & (FINE - 1));
    (bin as usize).min(BINS - 1)
}

impl Bins {
    /// Host memory outside of itself.
    pub(crate) const HOST_BYTES: usize = BINS * size_of::<BlockId>();

    pub(crate) fn new() -> Self {
        Self { heads: Box::new([NIL; BINS]), words: [0; WORDS], summary: 0, tails: Vec::with_capacity(2) }
    }

    #[inline]
    pub(crate) fn push(&mut self, blocks: &Blocks, id: BlockId) {
        let block = blocks.get(id);
        if blocks.get(block.next()).state() == State::GROWING_END {
            block.set_state(block.state().with(State::IS_TAIL));
            self.tails.push(id);
            return;
        }
        let bin = bin_of(block.bytes());
        let head = std::mem::replace(&mut self.heads[bin], id);
        block.set_link_prev(NIL);
        block.set_link_next(head);
        if head == NIL {
            self.words[bin / 64] |= 1 << (bin % 64);
            self.summary |= 1 << (bin / 64);
        } else {
            blocks.get(head).set_link_prev(id);
        }
    }

    /// The bin that a free block is in.
    #[inline]
    pub(crate) fn place_of(&self, block: &Block) -> usize {
        bin_of(block.bytes())
    }

    /// Puts what is left of a block that was cut, and was in bin `place`, where it belongs; the block itself is in no bin then.
    #[inline]
    pub(crate) fn replace(&mut self, blocks: &Blocks, id: BlockId, place: usize, rest: BlockId) {
        let (block, left) = (blocks.get(id), blocks.get(rest));
        if block.state().has(State::IS_TAIL) {
            block.set_state(State::FREE);
            self.tails.retain(|tail| *tail != id);
            self.push(blocks, rest);
            return;
        }
        if bin_of(left.bytes()) != place {
            self.unlink(blocks, block, place);
            self.push(blocks, rest);
            return;
        }
        // Mostly it stays in its class, and takes the block's place in the list.
        let (before, after) = (block.link_prev(), block.link_next());
        left.set_link_prev(before);
        left.set_link_next(after);
        if after != NIL {
            blocks.get(after).set_link_prev(rest);
        }
        if before != NIL {
            blocks.get(before).set_link_next(rest);
        } else {
            self.heads[place] = rest;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, blocks: &Blocks, id: BlockId) {
        let block = blocks.get(id);
        if block.state().has(State::IS_TAIL) {
            block.set_state(State::FREE);
            self.tails.retain(|tail| *tail != id);
            return;
        }
        self.unlink(blocks, block, bin_of(block.bytes()));
    }

    #[inline]
    fn unlink(&mut self, blocks: &Blocks, block: &Block, bin: usize) {
        let (before, after) = (block.link_prev(), block.link_next());
        if after != NIL {
            blocks.get(after).set_link_prev(before);
        }
        if before != NIL {
            blocks.get(before).set_link_next(after);
            return;
        }
        self.heads[bin] = after;
        if after == NIL {
            self.words[bin / 64] &= !(1 << (bin % 64));
            if self.words[bin / 64] == 0 {
                self.summary &= !(1 << (bin / 64));
            }
        }
    }

    /// A block of at least `bytes`, still in its bin: of the smallest class that has one, the one with the lowest
    /// address (of those that are looked at); else one at the end of memory that can grow. `is_thorough`: however long the
    /// own class is, before there is none.
    #[inline]
    pub(crate) fn find(&self, blocks: &Blocks, bytes: u64, is_thorough: bool) -> BlockId {
        let bin = bin_of(bytes);
        let (found, rest) = lowest(blocks, self.heads[bin], bytes);
        if found != NIL {
            return found;
        }
        let above = self.next_head(bin + 1);
        if above != NIL {
            return lowest(blocks, above, bytes).0;
        }
        self.find_last(blocks, if is_thorough { rest } else { NIL }, bytes)
    }

    #[cold]
    fn find_last(&self, blocks: &Blocks, mut id: BlockId, bytes: u64) -> BlockId {
        // Only the own bin may hold a fitting one, beyond those looked at.
        while id != NIL {
            let block = blocks.get(id);
            if block.bytes() >= bytes {
                return id;
            }
            id = block.link_next();
        }
        let fitting = self.tails.iter().copied().filter(|tail| blocks.get(*tail).bytes() >= bytes);
        fitting.min_by_key(|tail| blocks.get(*tail).bytes()).unwrap_or(NIL)
    }

    /// The first block of the first bin that has one, from `bin` on.
    #[inline]
    fn next_head(&self, bin: usize) -> BlockId {
        if bin >= BINS {
            return NIL;
        }
        let word = bin / 64;
        let here = self.words[word] & (u64::MAX << (bin % 64));
        if here != 0 {
            return self.heads[word * 64 + here.trailing_zeros() as usize];
        }
        let later = u32::from(self.summary) & ((u32::MAX << word) << 1);
        if later == 0 {
            return NIL;
        }
        let word = later.trailing_zeros() as usize;
        self.heads[word * 64 + self.words[word].trailing_zeros() as usize]
    }

    /// The largest free block.
    pub(crate) fn largest(&self, blocks: &Blocks) -> u64 {
        let tail = self.tails.iter().map(|tail| blocks.get(*tail).bytes()).max().unwrap_or(0);
        if self.summary == 0 {
            return tail;
        }
        let word = 15 - self.summary.leading_zeros() as usize;
        let mut id = self.heads[word * 64 + 63 - self.words[word].leading_zeros() as usize];
        let mut largest = tail;
        while id != NIL {
            let block = blocks.get(id);
            largest = largest.max(block.bytes());
            id = block.link_next();
        }
        largest
    }

    /// Every free block.
    pub(crate) fn for_each(&self, blocks: &Blocks, mut visit: impl FnMut(BlockId)) {
        for &head in self.heads.iter() {
            let mut id = head;
            while id != NIL {
                let next = blocks.get(id).link_next();
                visit(id);
                id = next;
            }
        }
        self.tails.iter().for_each(|tail| visit(*tail));
    }

    /// Whether the bitmaps say what the lists hold.
    pub(crate) fn is_consistent(&self, blocks: &Blocks) -> bool {
        let tails_are_tails = self.tails.iter().all(|tail| {
            let block = blocks.get(*tail);
            block.state().has(State::IS_TAIL) && blocks.get(block.next()).state() == State::GROWING_END
        });
        tails_are_tails
            && (0..BINS).all(|bin| {
                let head = self.heads[bin];
                let has_bit = self.words[bin / 64] >> (bin % 64) & 1 == 1;
                let has_word = self.summary >> (bin / 64) & 1 == 1;
                let (mut id, mut before) = (head, NIL);
                while id != NIL {
                    let block = blocks.get(id);
                    if bin_of(block.bytes()) != bin || block.link_prev() != before {
                        return false;
                    }
                    (before, id) = (id, block.link_next());
                }
                has_bit == (head != NIL) && has_word == (self.words[bin / 64] != 0)
            })
    }
}

/// Of the first blocks of a list, the one with the lowest address among those of at least `bytes`; and what follows them.
#[inline]
fn lowest(blocks: &Blocks, mut id: BlockId, bytes: u64) -> (BlockId, BlockId) {
    let (mut found, mut found_at) = (NIL, u64::MAX);
    for _ in 0..PROBES {
        if id == NIL {
            break;
        }
        let block = blocks.get(id);
        let at = block.address();
        if block.bytes() >= bytes && at < found_at {
            (found, found_at) = (id, at);
        }
        id = block.link_next();
    }
    (found, id)
}
