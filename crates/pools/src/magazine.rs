//! Freed blocks of up to 1 MiB that a thread keeps at hand for one stream, each in a list of its exact size.
//!
//! The idea is Bonwick's ("Magazines and Vmem", 2001): most requests are answered by what the same thread freed last, without
//! touching what threads share. Blocks keep their exact size, so that nothing is rounded up, and the idle bytes are
//! bounded, since kept blocks can't join with their neighbours. A set has a lock of its own, which only its thread takes, except when memory is
//! short and all sets are emptied.

use std::sync::Arc;

use crate::account::Unreported;
use crate::block::{BlockId, GRANULE, Kind, NIL, State};
use crate::latency::Sampler;
use crate::lock::{OwnedLock, OwnerKey};
use crate::shard::{Shard, Tables};

/// The largest block that magazines keep.
pub(crate) const LARGEST: u64 = 1 << 20;
const SIZES: usize = (LARGEST / GRANULE) as usize + 1;
const WORDS: usize = SIZES.div_ceil(64);
/// Blocks that are given back at once when there are too many idle bytes: a bound on what one free costs.
const EVICTED_AT_ONCE: usize = 8;

/// The magazines of one thread for one stream.
#[derive(Debug)]
pub(crate) struct MagazineSet {
    pub(crate) shard: Arc<Shard>,
    pub(crate) inner: OwnedLock<Magazines>,
    pub(crate) sampler: Sampler,
}

/// What the lock of a set protects.
#[derive(Debug)]
pub(crate) struct Magazines {
    /// The last freed block of each size in granules; the others hang on it.
    heads: Box<[BlockId; SIZES]>,
    words: [u64; WORDS],
    pub(crate) idle_bytes: u64,
    pub(crate) unreported: Unreported,
    /// Requests answered from here.
    pub(crate) hits: u64,
    /// Requests that had to go to the shard.
    pub(crate) misses: u64,
}

impl MagazineSet {
    /// Host memory of one.
    pub(crate) const HOST_BYTES: usize = size_of::<Self>() + SIZES * size_of::<BlockId>();

    /// For the calling thread, which gets the key.
    pub(crate) fn new(shard: Arc<Shard>) -> (Self, OwnerKey) {
        let inner = Magazines {
            heads: Box::new([NIL; SIZES]),
            words: [0; WORDS],
            idle_bytes: 0,
            unreported: Unreported::default(),
            hits: 0,
            misses: 0,
        };
        let (inner, key) = OwnedLock::new(inner);
        (Self { shard, inner, sampler: Sampler::new() }, key)
    }

    /// Gives all blocks back to the shard and tells it all figures. Returns the bytes given back.
    pub(crate) fn flush(&self, tables: &Tables) -> u64 {
        let mut magazines = self.inner.visit();
        let idle = magazines.idle_bytes;
        let mut shard = self.shard.inner.lock();
        magazines.unreported.report(&mut shard.account);
        for word in 0..WORDS {
            while magazines.words[word] != 0 {
                let size = word * 64 + magazines.words[word].trailing_zeros() as usize;
                let id = magazines.pop(tables, size);
                shard.put(tables, id);
            }
        }
        idle
    }

    /// Tells the shard all figures.
    pub(crate) fn report(&self) {
        let mut magazines = self.inner.visit();
        magazines.unreported.report(&mut self.shard.inner.lock().account);
    }

    /// Gives everything back for good. Returns hits and misses.
    pub(crate) fn close(&self, tables: &Tables) -> (u64, u64) {
        self.flush(tables);
        let magazines = self.inner.visit();
        (magazines.hits, magazines.misses)
    }
}

impl Magazines {
    /// A block of `bytes` or up to an eighth more; `Moving`.
    #[inline]
    pub(crate) fn take(&mut self, tables: &Tables, bytes: u64) -> BlockId {
        let size = (bytes / GRANULE) as usize;
        if self.heads[size] != NIL {
            return self.pop(tables, size);
        }
        let most = (size + size / 8).min(SIZES - 1);
        let (first, last) = (size / 64, most / 64);
        let mut bits = self.words[first] & u64::MAX << (size % 64);
        let mut word = first;
        while bits == 0 {
            if word == last {
                return NIL;
            }
            word += 1;
            bits = self.words[word];
        }
        let near = word * 64 + bits.trailing_zeros() as usize;
        if near <= most { self.pop(tables, near) } else { NIL }
    }

    #[inline]
    fn pop(&mut self, tables: &Tables, size: usize) -> BlockId {
        let id = self.heads[size];
        let block = tables.blocks.get(id);
        let next = block.link_next();
        self.heads[size] = next;
        if next == NIL {
            self.words[size / 64] &= !(1 << (size % 64));
        }
        self.idle_bytes -= size as u64 * GRANULE;
        block.set_state(State::of(Kind::Moving));
        id
    }

    /// Keeps a block, which the caller has made `Moving`.
    #[inline]
    pub(crate) fn put(&mut self, tables: &Tables, id: BlockId) {
        let block = tables.blocks.get(id);
        let size = (block.bytes() / GRANULE) as usize;
        let head = std::mem::replace(&mut self.heads[size], id);
        if head == NIL {
            self.words[size / 64] |= 1 << (size % 64);
        }
        block.set_link_next(head);
        self.idle_bytes += size as u64 * GRANULE;
        block.set_state(State::of(Kind::Cached));
    }

    /// Gives a few blocks back, the largest first: of what may be idle, many small ones answer more requests than few large
    /// ones.
    #[cold]
    pub(crate) fn evict(&mut self, tables: &Tables, shard: &Shard, most_idle_bytes: u64) {
        let mut shard = shard.inner.lock();
        self.unreported.report(&mut shard.account);
        for _ in 0..EVICTED_AT_ONCE {
            if self.idle_bytes <= most_idle_bytes {
                return;
            }
            let Some(size) = self.largest_size() else { return };
            let id = self.pop(tables, size);
            shard.put(tables, id);
        }
    }

    /// The largest size that has blocks.
    fn largest_size(&self) -> Option<usize> {
        let word = (0..WORDS).rev().find(|word| self.words[*word] != 0)?;
        Some(word * 64 + 63 - self.words[word].leading_zeros() as usize)
    }
}
