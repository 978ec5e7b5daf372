//! Every invariant, checked.

use hashbrown::HashSet;

use super::{Allocator, Shared};
use crate::arena::{Arena, place_of};
use crate::block::{BlockId, GRANULE, Kind, NIL};
use crate::span::Source;
use crate::sync::locked;
use crate::{Error, Result};

impl Allocator {
    /// Checks every invariant of the allocator's state: blocks tile the memory that is held, neighbours agree, what is
    /// free is joined and in its bin, what is live is found at its address, and all sums are right. Stops requests
    /// meanwhile, except those answered by magazines.
    ///
    /// # Errors
    /// [`Error::Broken`] names the invariant that doesn't hold: a bug of ours.
    pub fn check(&self) -> Result<()> {
        self.0.check_process()?;
        self.0.check()
    }
}

fn ensure(holds: bool, invariant: &'static str, at: u64) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Broken { invariant, at }) }
}

/// Sums over the blocks of one shard.
#[derive(Clone, Copy, Default)]
struct Sums {
    free: u64,
    pending: u64,
    handed_out: u64,
    blocks_free: usize,
}

impl Shared {
    fn check(&self) -> Result<()> {
        let tables = &self.arena.tables;
        let blocks = &tables.blocks;
        // Held, so that no thread begins or ends meanwhile.
        let sets = self.arena.lock_sets();
        let spans = locked(&self.arena.spans);
        let magazines: Vec<_> = sets.iter().map(|set| set.inner.visit()).collect();
        let shards = self.arena.shards(None);
        let inners = Arena::lock_all(&shards);
        let mut sums = vec![Sums::default(); shards.len()];
        let mut cached = 0;
        let mut held = 0;
        let mut last_end = 0;
        let mut seen: HashSet<BlockId> = HashSet::new();
        for span in spans.values() {
            ensure(span.base >= last_end, "spans lie apart", span.base)?;
            last_end = span.end();
            held += span.reserved_bytes();
            if let Source::Handles(handles) = &span.source {
                let mut at = span.base;
                for mapped in handles {
                    ensure(mapped.at == at, "handles lie side by side", mapped.at)?;
                    at += mapped.bytes;
                }
                ensure(at == span.end(), "handles fill their span", at)?;
            }
            let (mut id, mut before, mut at) = (span.first, NIL, span.base);
            while id != span.fence {
                let block = blocks.get(id);
                ensure(id != NIL && seen.insert(id), "a span's blocks end at its fence", at)?;
                ensure(block.address() == at, "blocks touch", block.address())?;
                ensure(block.prev() == before, "neighbours agree", at)?;
                ensure(block.bytes() > 0 && block.bytes().is_multiple_of(GRANULE), "blocks are whole granules", at)?;
                ensure(at.is_multiple_of(GRANULE), "blocks begin at granules", at)?;
                let Some(place) = place_of(&shards, block.shard()) else {
                    return ensure(false, "a block's shard exists", at);
                };
                ensure(shards[place].pool == span.pool, "a block is of its span's pool", at)?;
                let sum = &mut sums[place];
                match block.kind() {
                    Kind::Free => {
                        sum.free += block.bytes();
                        sum.blocks_free += 1;
                        let left = blocks.get(before);
                        let joins = before != NIL && left.kind() == Kind::Free && left.shard() == block.shard();
                        ensure(!joins, "free neighbours of a shard are joined", at)?;
                    }
                    Kind::Live => {
                        sum.handed_out += block.bytes();
                        ensure(tables.map.find(at) == id, "a live block is found at its address", at)?;
                        ensure(u64::from(block.pad()) <= block.bytes(), "a block has what was asked for", at)?;
                    }
                    Kind::Cached => {
                        cached += block.bytes();
                        ensure(tables.map.find(at) == id, "a kept block is found at its address", at)?;
                    }
                    Kind::Pending => sum.pending += block.bytes(),
                    // Between two states, by a thread that holds no lock yet.
                    Kind::Moving => sum.handed_out += block.bytes(),
                    Kind::Vacant | Kind::Fence => ensure(false, "no vacant block lies in a span", at)?,
                }
                at = block.end();
                (before, id) = (id, block.next());
            }
            let fence = blocks.get(span.fence);
            ensure(at == span.end(), "blocks fill their span", at)?;
            ensure(fence.kind() == Kind::Fence && fence.prev() == before, "a fence ends its span", at)?;
        }
        for ((inner, sum), shard) in inners.iter().zip(&sums).zip(&shards) {
            let at = u64::from(shard.number);
            ensure(inner.free_bytes == sum.free, "a shard's free bytes are those of its free blocks", at)?;
            ensure(inner.pending_bytes == sum.pending, "a shard's pending bytes are those of its pending blocks", at)?;
            ensure(inner.bins().is_consistent(blocks), "bins and bitmaps agree", at)?;
            let mut in_bins = 0;
            let mut all_free = true;
            inner.bins().for_each(blocks, |id| {
                in_bins += 1;
                all_free &= seen.contains(&id) && blocks.get(id).kind() == Kind::Free;
            });
            ensure(all_free && in_bins == sum.blocks_free, "exactly the free blocks are in bins", at)?;
            for pending in &inner.pending {
                ensure(blocks.get(pending.block).kind() == Kind::Pending, "what waits is pending", at)?;
                ensure(!pending.waits.is_empty(), "what is pending waits for something", at)?;
            }
        }
        let idle: u64 = magazines.iter().map(|magazines| magazines.idle_bytes).sum();
        ensure(idle == cached, "magazines' idle bytes are those of kept blocks", idle)?;
        let handed_out: u64 = sums.iter().map(|sum| sum.handed_out).sum();
        let counted: i64 = inners.iter().map(|inner| inner.account.allocated.current).sum();
        let unreported: i64 = magazines.iter().map(|magazines| magazines.unreported.allocated()).sum();
        let all_counted = i64::try_from(handed_out).is_ok_and(|bytes| bytes == counted + unreported);
        ensure(all_counted, "allocated bytes are those of live blocks", handed_out)?;
        ensure(held <= self.supply.reserved(), "what spans hold is counted as held", held)?;
        self.arena.clocks.check().map_err(|invariant| Error::Broken { invariant, at: 0 })
    }
}
