//! Free blocks by size: two-level bitmaps (Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems",
//! 2004), with an exact bin for each size below 16 KiB and 32 bins a doubling above.

use crate::block::{BlockId, Blocks, GRANULE, NIL};

const FINE_BITS: u32 = 5;
const FINE: u64 = 1 << FINE_BITS;
/// Enough for blocks of 32 TiB; larger ones share the last bin.
const BINS: usize = 1024;
/// Blocks of the request's own bin that are looked at before a larger one is taken.
const PROBES: usize = 8;

/// Lists of free blocks. Links are those of the blocks.
#[derive(Debug)]
pub(crate) struct Bins {
    heads: Box<[BlockId; BINS]>,
    words: [u64; BINS / 64],
    summary: u16,
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
        Self { heads: Box::new([NIL; BINS]), words: [0; BINS / 64], summary: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, blocks: &Blocks, id: BlockId) {
        let block = blocks.get(id);
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

    #[inline]
    pub(crate) fn remove(&mut self, blocks: &Blocks, id: BlockId) {
        let block = blocks.get(id);
        let (before, after) = (block.link_prev(), block.link_next());
        if after != NIL {
            blocks.get(after).set_link_prev(before);
        }
        if before != NIL {
            blocks.get(before).set_link_next(after);
            return;
        }
        let bin = bin_of(block.bytes());
        self.heads[bin] = after;
        if after == NIL {
            self.words[bin / 64] &= !(1 << (bin % 64));
            if self.words[bin / 64] == 0 {
                self.summary &= !(1 << (bin / 64));
            }
        }
    }

    /// A block of at least `bytes`, still in its bin: the tightest of the first few in the request's own bin, else
    /// any of the next bin that has one.
    #[inline]
    pub(crate) fn find(&self, blocks: &Blocks, bytes: u64) -> BlockId {
        let bin = bin_of(bytes);
        let mut found = NIL;
        let mut found_bytes = u64::MAX;
        let mut id = self.heads[bin];
        for _ in 0..PROBES {
            if id == NIL {
                break;
            }
            let block = blocks.get(id);
            let has = block.bytes();
            if has >= bytes && has < found_bytes {
                (found, found_bytes) = (id, has);
                if has == bytes {
                    break;
                }
            }
            id = block.link_next();
        }
        if found != NIL {
            return found;
        }
        let above = self.next_head(bin + 1);
        if above != NIL {
            return above;
        }
        // Only the own bin may hold a fitting one, beyond the first few.
        self.rest_of_bin(blocks, id, bytes)
    }

    fn rest_of_bin(&self, blocks: &Blocks, mut id: BlockId, bytes: u64) -> BlockId {
        while id != NIL {
            let block = blocks.get(id);
            if block.bytes() >= bytes {
                return id;
            }
            id = block.link_next();
        }
        NIL
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
        if self.summary == 0 {
            return 0;
        }
        let word = 15 - self.summary.leading_zeros() as usize;
        let mut id = self.heads[word * 64 + 63 - self.words[word].leading_zeros() as usize];
        let mut largest = 0;
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
    }

    /// Whether the bitmaps say what the lists hold.
    pub(crate) fn is_consistent(&self, blocks: &Blocks) -> bool {
        (0..BINS).all(|bin| {
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
