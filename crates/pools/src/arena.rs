//! One arena for all streams of a device: its blocks, runs of blocks, shards and magazines, and who may have what.
//!
//! Locks are taken in this order: sets, spans, a set, shards by number, uses, tables, clocks. No driver call is made and no user code
//! runs under any of them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::block::{BlockId, Blocks, GRANULE, Kind, NIL, State};
use crate::clocks::{Clocks, Notice};
use crate::lock::Guard;
use crate::magazine::MagazineSet;
use crate::page_map::PageMap;
use crate::settings::HandOver;
use crate::shard::{Inner, Shard, Tables, Waits};
use crate::span::{Source, Span, Spans};
use crate::sync::{AtomicBool, AtomicU64, Ordering, locked};
use crate::{Error, Result};

/// Shards of one arena, at most: streams times pools.
const MOST_SHARDS: usize = SHARD_CHUNK * 1024;
const SHARD_CHUNK: usize = 256;
/// What a shard takes from another at most beyond what it needs.
const MOST_AHEAD: u64 = 64 << 20;

/// A use of a block by a stream that isn't its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) stream: u32,
    /// Up to where, if it is over; else up to the free.
    pub(crate) component: Option<u64>,
}

pub(crate) type Uses = SmallVec<[Use; 2]>;

/// Shards, held without host memory as long as there are few of them.
pub(crate) type Shards = SmallVec<[Arc<Shard>; FEW]>;
/// The same of sets of magazines.
pub(crate) type Sets = SmallVec<[Arc<MagazineSet>; FEW]>;
/// Locks of shards.
pub(crate) type Inners<'a> = SmallVec<[Guard<'a, Inner>; FEW]>;
/// Streams times pools, or threads times streams, that no list takes host memory for.
const FEW: usize = 64;

/// Places for shards.
type ShardChunk = Box<[OnceLock<Arc<Shard>>]>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) tables: Tables,
    pub(crate) clocks: Clocks,
    pub(crate) spans: Mutex<Spans>,
    pub(crate) uses: Mutex<HashMap<BlockId, Uses>>,
    hand_over: HandOver,
    shards: Box<[OnceLock<ShardChunk>]>,
    keys: RwLock<HashMap<(u32, u16), Arc<Shard>>>,
    sets: Mutex<Vec<Arc<MagazineSet>>>,
    /// The allocator has ended; threads may still keep sets of it.
    is_closed: AtomicBool,
    /// Of sets whose threads ended.
    gone_hits: AtomicU64,
    gone_misses: AtomicU64,
    /// Somebody is told of what happens.
    pub(crate) is_watched: AtomicBool,
    /// Pending blocks that came back while somebody is: address, bytes asked for, home stream.
    settled: Mutex<Vec<(u64, u64, u32)>>,
}

impl Arena {
    pub(crate) fn new(clocks: Clocks, hand_over: HandOver) -> Result<Self> {
        let no_addresses = || Error::Unsupported {
            what: "an allocator",
            problem: "this process has no addresses left for its tables",
        };
        let blocks = Blocks::new().ok_or_else(no_addresses)?;
        let map = PageMap::new().ok_or_else(no_addresses)?;
        Ok(Self {
            tables: Tables { blocks, map, is_shared: AtomicBool::new(false) },
            clocks,
            spans: Mutex::default(),
            uses: Mutex::default(),
            hand_over,
            shards: (0..MOST_SHARDS / SHARD_CHUNK).map(|_| OnceLock::new()).collect(),
            keys: RwLock::default(),
            sets: Mutex::default(),
            is_closed: AtomicBool::new(false),
            gone_hits: AtomicU64::new(0),
            gone_misses: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            settled: Mutex::default(),
        })
    }

    /// The shard with this number.
    #[inline]
    pub(crate) fn shard(&self, number: u32) -> Option<&Arc<Shard>> {
        let chunk = self.shards.get(number as usize / SHARD_CHUNK)?.get()?;
        chunk[number as usize % SHARD_CHUNK].get()
    }

    /// The shard of a stream in a pool, made if need be.
    pub(crate) fn shard_of(&self, stream: u32, pool: u16) -> Result<Arc<Shard>> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&(stream, pool)).cloned();
        if let Some(shard) = known {
            return Ok(shard);
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = keys.get(&(stream, pool)) {
            return Ok(Arc::clone(shard));
        }
        let number = keys.len();
        let full = Error::TooMany { what: "stream", most: MOST_SHARDS as u64 };
        let Some(chunk) = self.shards.get(number / SHARD_CHUNK) else { return Err(full) };
        let chunk = chunk.get_or_init(|| (0..SHARD_CHUNK).map(|_| OnceLock::new()).collect());
        let shard = chunk[number % SHARD_CHUNK].get_or_init(|| {
            let clocks = (self.hand_over == HandOver::All).then(|| self.clocks.clone());
            Arc::new(Shard::new(number as u32, stream, pool, clocks))
        });
        keys.insert((stream, pool), Arc::clone(shard));
        if number == 1 {
            self.tables.is_shared.store(true, Ordering::Relaxed);
            // Whoever holds the first shard's lock may still think that it is the only one.
            drop(self.shard(0).map(|first| first.inner.lock()));
        }
        Ok(Arc::clone(shard))
    }

    /// All shards, of one pool or of all, by number.
    pub(crate) fn shards(&self, pool: Option<u16>) -> Shards {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let mut shards: Shards =
            keys.values().filter(|shard| pool.is_none_or(|pool| shard.pool == pool)).cloned().collect();
        shards.sort_unstable_by_key(|shard| shard.number);
        shards
    }

    /// The allocator has ended: threads that keep something of it let it go when they next look for another.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(crate) fn add_set(&self, set: &Arc<MagazineSet>) {
        locked(&self.sets).push(Arc::clone(set));
    }

    /// Forgets a set whose thread ended; its blocks go to its shard.
    pub(crate) fn remove_set(&self, set: &Arc<MagazineSet>) {
        let mut sets = locked(&self.sets);
        let before = sets.len();
        sets.retain(|other| !Arc::ptr_eq(other, set));
        if sets.len() == before {
            return;
        }
        let (hits, misses) = set.close(&self.tables);
        self.gone_hits.fetch_add(hits, Ordering::Relaxed);
        self.gone_misses.fetch_add(misses, Ordering::Relaxed);
    }

    /// Requests that magazines of ended threads answered, and passed on.
    pub(crate) fn gone_hits(&self) -> (u64, u64) {
        (self.gone_hits.load(Ordering::Relaxed), self.gone_misses.load(Ordering::Relaxed))
    }

    /// Gives back nodes of the table of addresses that hold nothing any more, once there are many.
    pub(crate) fn compact(&self) {
        /// 16 MiB of them.
        const MANY: usize = 1 << 16;
        if self.tables.map.nodes_in_use() < MANY {
            return;
        }
        let spans = locked(&self.spans);
        let shards = self.shards(None);
        let _inners = Self::lock_all(&shards);
        for span in spans.values() {
            self.tables.map.compact(span.base, span.bytes);
        }
    }

    /// Visits all shards without taking host memory.
    pub(crate) fn for_each_shard(&self, mut visit: impl FnMut(&Shard)) {
        let numbers = 0..self.keys.read().unwrap_or_else(PoisonError::into_inner).len();
        for shard in numbers.filter_map(|number| self.shard(number as u32)) {
            visit(shard);
        }
    }

    pub(crate) fn sets(&self) -> Sets {
        locked(&self.sets).iter().cloned().collect()
    }

    /// The sets, kept from changing.
    pub(crate) fn lock_sets(&self) -> MutexGuard<'_, Vec<Arc<MagazineSet>>> {
        locked(&self.sets)
    }

    pub(crate) fn set_count(&self) -> usize {
        locked(&self.sets).len()
    }

    /// Empties magazines, those of one shard or all. Returns the bytes that came back.
    pub(crate) fn flush(&self, shard: Option<u32>) -> u64 {
        let sets = self.sets();
        let wanted = sets.iter().filter(|set| shard.is_none_or(|number| set.shard.number == number));
        wanted.map(|set| set.flush(&self.tables)).sum()
    }

    /// Puts pending blocks of a shard that nothing uses any more into its bins.
    pub(crate) fn review(&self, shard: &Shard) {
        self.review_locked(shard, &mut shard.inner.lock());
    }

    /// The same with the shard's lock held. Costs two loads as long as nothing new is known.
    #[inline]
    pub(crate) fn review_locked(&self, shard: &Shard, inner: &mut Inner) {
        if inner.reviewed != self.clocks.knowledge(shard.stream) + 1 {
            let view = self.clocks.view(shard.stream);
            inner.reviewed = view.knowledge() + 1;
            let is_watched = self.is_watched.load(Ordering::Relaxed);
            inner.review(
                &self.tables,
                |stream, component| view.covers(stream, component),
                |block| {
                    if is_watched {
                        locked(&self.settled).push((block.address(), block.requested(), block.stream()));
                    }
                },
            );
        }
    }

    /// Pending blocks that came back since this was last asked.
    pub(crate) fn take_settled(&self) -> Vec<(u64, u64, u32)> {
        std::mem::take(&mut *locked(&self.settled))
    }

    /// Before the host waits for the whole device, or right after: once it has, all work is over, that of users nobody told
    /// us of too, so that what was freed before may go to any stream.
    pub(crate) fn begin_synchronize_device(&self) -> Notice {
        let mut frees = Vec::new();
        self.for_each_shard(|shard| frees.push(shard.inner.lock().frees_so_far()));
        let mut notice = self.clocks.begin_synchronize_device();
        notice.frees = frees;
        notice
    }

    /// What was announced has succeeded.
    pub(crate) fn commit(&self, mut notice: Notice) {
        let frees = std::mem::take(&mut notice.frees);
        if self.clocks.commit(notice) {
            for (number, frees) in (0..).zip(frees) {
                if let Some(shard) = self.shard(number) {
                    shard.inner.lock().note_over(frees);
                }
            }
        }
    }

    /// Locks these shards, which are in the order of their numbers.
    pub(crate) fn lock_all(shards: &[Arc<Shard>]) -> Inners<'_> {
        shards.iter().map(|shard| shard.inner.lock()).collect()
    }

    /// Lets a shard have free blocks of other shards of its pool, as far as its stream is ordered behind them, so that it
    /// has a free block of `bytes`. Of all runs of neighbours that would do, the smallest is taken, and no more of it than
    /// is needed. True if there was one.
    pub(crate) fn hand_over(&self, taker: &Shard, bytes: u64) -> bool {
        if self.hand_over == HandOver::Off {
            return false;
        }
        let spans = locked(&self.spans);
        let shards = self.shards(Some(taker.pool));
        if shards.len() < 2 {
            return false;
        }
        let mut inners = Self::lock_all(&shards);
        let Some(taker_at) = place_of(&shards, taker.number) else { return false };
        let view = self.clocks.view(taker.stream);
        let blocks = &self.tables.blocks;
        let may_have = |id: BlockId, inners: &[Guard<'_, Inner>]| {
            let block = blocks.get(id);
            block.kind() == Kind::Free
                && place_of(&shards, block.shard()).is_some_and(|at| {
                    at == taker_at
                        || inners[at]
                            .leaves_at(block.freed_at())
                            .is_some_and(|component| view.covers(shards[at].stream, component))
                })
        };
        // One block that is large enough, as other shards' bins know it.
        let whole = (0..shards.len()).filter(|at| *at != taker_at).filter_map(|at| {
            let id = inners[at].bins().find(blocks, bytes, false);
            (id != NIL && may_have(id, &inners)).then_some((blocks.get(id).bytes(), at, id))
        });
        if let Some((has, at, id)) = whole.min() {
            // Of a much larger one a little more than is needed, so that the next requests find it at home.
            let some = (has / 8).min(MOST_AHEAD) / GRANULE * GRANULE;
            let Some(ceded) = inners[at].cede(&self.tables, id, bytes.max(some)) else { return false };
            inners[taker_at].adopt(&self.tables, ceded);
            return true;
        }
        // The smallest run of neighbours with enough bytes.
        let mut best: Option<(u64, BlockId)> = None;
        for span in spans.values().filter(|span| span.pool == taker.pool) {
            let (mut run, mut start, mut id) = (0, NIL, span.first);
            while id != NIL {
                if id != span.fence && may_have(id, &inners) {
                    start = if run == 0 { id } else { start };
                    run += blocks.get(id).bytes();
                } else {
                    if run >= bytes && best.is_none_or(|(least, _)| run < least) {
                        best = Some((run, start));
                    }
                    run = 0;
                }
                id = if id == span.fence { NIL } else { blocks.get(id).next() };
            }
        }
        let Some((_, mut id)) = best else { return false };
        let mut missing = bytes;
        while missing > 0 {
            let block = blocks.get(id);
            let has = block.bytes();
            let next = block.next();
            let Some(at) = place_of(&shards, block.shard()) else { return false };
            if at != taker_at {
                let Some(ceded) = inners[at].cede(&self.tables, id, missing.min(has)) else { return false };
                inners[taker_at].adopt(&self.tables, ceded);
            }
            missing = missing.saturating_sub(has);
            id = next;
        }
        true
    }

    /// Gives memory that nobody has used yet, a whole span, to the first shard of its pool that asks.
    pub(crate) fn claim(&self, taker: &Shard) {
        let spans = locked(&self.spans);
        let shards = self.shards(Some(taker.pool));
        let mut inners = Self::lock_all(&shards);
        let blocks = &self.tables.blocks;
        let Some(taker_at) = place_of(&shards, taker.number) else { return };
        for span in spans.values().filter(|span| span.pool == taker.pool) {
            let block = blocks.get(span.first);
            if block.kind() != Kind::Free || block.next() != span.fence {
                continue;
            }
            if let Some(at) = place_of(&shards, block.shard()).filter(|at| *at != taker_at && inners[*at].is_unused()) {
                inners[at].withdraw(&self.tables, span.first);
                inners[taker_at].adopt(&self.tables, span.first);
            }
        }
    }

    /// Makes new memory `[base, base + bytes)` a free block of a shard. What touches other memory of the pool that was mapped
    /// joins with it; separate reservations never do. With `waits` it is pending until they are over.
    ///
    /// # Errors
    /// When tables are full; nothing has changed then.
    pub(crate) fn publish(&self, shard: &Shard, base: u64, bytes: u64, source: Source, waits: Waits) -> Result<()> {
        let most = u64::from(u32::MAX);
        if !self.tables.blocks.grow(4096) {
            return Err(Error::TooMany { what: "block", most });
        }
        if !self.tables.map.covers(base, bytes) {
            return Err(Error::TooMany { what: "address", most: crate::page_map::ADDRESS_END });
        }
        let mut numbers = Vec::with_capacity(2);
        self.tables.blocks.refill(&mut numbers, 2);
        let [block_id, fence_id] = numbers[..] else { return Err(Error::TooMany { what: "block", most }) };
        let blocks = &self.tables.blocks;

        let mut spans = locked(&self.spans);
        let shards = self.shards(Some(shard.pool));
        let mut inners = Self::lock_all(&shards);
        let Some(at) = place_of(&shards, shard.number) else {
            return Err(Error::Broken {
                invariant: "a shard is among the shards of its pool",
                at: u64::from(shard.number),
            });
        };
        let (block, fence) = (blocks.get(block_id), blocks.get(fence_id));
        block.set_address(base);
        block.set_bytes(bytes);
        block.set_shard(shard.number);
        block.set_prev(NIL);
        block.set_next(fence_id);
        fence.set_address(base + bytes);
        fence.set_bytes(0);
        fence.set_state(match source {
            Source::Handles(_) => State::GROWING_END,
            Source::Plain { .. } => State::of(Kind::Fence),
        });
        fence.set_prev(block_id);
        fence.set_next(NIL);
        let mut span = Span { base, bytes, first: block_id, fence: fence_id, pool: shard.pool, source };
        if let Source::Handles(_) = span.source {
            if let Some(left) = touching(&mut spans, shard.pool, base, true) {
                span = self.join_spans(left, span, &shards, &mut inners);
            }
            if let Some(right) = touching(&mut spans, shard.pool, span.end(), false) {
                span = self.join_spans(span, right, &shards, &mut inners);
            }
        }
        spans.insert(span.base, span);
        if waits.is_empty() {
            inners[at].put(&self.tables, block_id);
        } else {
            inners[at].account.unsettle(bytes);
            inners[at].set_aside(&self.tables, block_id, waits);
        }
        Ok(())
    }

    /// Makes one span of two that touch. All shards of the pool are locked.
    fn join_spans(&self, left: Span, right: Span, shards: &[Arc<Shard>], inners: &mut [Guard<'_, Inner>]) -> Span {
        let blocks = &self.tables.blocks;
        let last = blocks.get(left.fence).prev();
        blocks.get(last).set_next(right.first);
        blocks.get(right.first).set_prev(last);
        if blocks.get(last).kind() == Kind::Free
            && let Some(at) = place_of(shards, blocks.get(last).shard())
        {
            // It is at the end no more.
            inners[at].list_again(&self.tables, last);
        }
        blocks.get(left.fence).set_state(State::of(Kind::Vacant));
        blocks.give_back(&mut vec![left.fence], 0);
        let mut span = Span { bytes: left.bytes + right.bytes, fence: right.fence, ..left };
        if let (Source::Handles(handles), Source::Handles(more)) = (&mut span.source, right.source) {
            handles.extend(more);
        }
        span
    }

    /// Takes free memory out of the arena, so that it can be given back to the device: whole segments, whose release waits for
    /// the device by itself, and handles at the end of a range that hold nothing but free blocks of which the host has seen all
    /// uses finish. At most `most_bytes` go, or a little more, since pieces go whole.
    pub(crate) fn withdraw(&self, most_bytes: u64) -> Vec<Withdrawn> {
        let mut gone = Vec::new();
        let mut bytes_gone = 0;
        let mut spans = locked(&self.spans);
        let shards = self.shards(None);
        let mut inners = Self::lock_all(&shards);
        let blocks = &self.tables.blocks;
        let mut next = 0;
        while bytes_gone < most_bytes {
            let Some((&base, span)) = spans.range_mut(next..).next() else { break };
            next = base + 1;
            let is_plain = matches!(span.source, Source::Plain { .. });
            let is_seen = |id: BlockId, inners: &[Guard<'_, Inner>]| {
                let block = blocks.get(id);
                place_of(&shards, block.shard()).is_some_and(|at| {
                    let leaves_at = inners[at].leaves_at(block.freed_at());
                    leaves_at.is_some_and(|component| self.clocks.seen(shards[at].stream, component))
                })
            };
            // Free blocks at the end, of whichever shards.
            let (mut tail, mut id) = (NIL, blocks.get(span.fence).prev());
            while id != NIL && blocks.get(id).kind() == Kind::Free && (is_plain || is_seen(id, &inners)) {
                tail = id;
                id = blocks.get(id).prev();
            }
            if tail == NIL || (is_plain && tail != span.first) {
                continue;
            }
            let Some(at) = place_of(&shards, blocks.get(tail).shard()) else { continue };
            // The host has seen their uses finish, or they leave the arena for good: one shard may have them all.
            while blocks.get(tail).next() != span.fence {
                let next = blocks.get(tail).next();
                let Some(place) = place_of(&shards, blocks.get(next).shard()) else { break };
                inners[place].withdraw(&self.tables, next);
                inners[at].adopt(&self.tables, next);
            }
            let block = blocks.get(tail);
            match &mut span.source {
                Source::Plain { bytes, .. } => {
                    bytes_gone += *bytes;
                    let source = span.source.clone();
                    gone.push(Withdrawn { pool: span.pool, base, bytes: span.bytes, source });
                }
                Source::Handles(handles) => {
                    let whole = handles.iter().rev().take_while(|mapped| mapped.at >= block.address()).count();
                    let mut first = handles.len();
                    let mut bytes = 0;
                    while first > handles.len() - whole && bytes_gone + bytes < most_bytes {
                        first -= 1;
                        bytes += handles[first].bytes;
                    }
                    if bytes == 0 {
                        continue;
                    }
                    let released = handles.split_off(first);
                    bytes_gone += bytes;
                    let base = released.first().map_or(0, |mapped| mapped.at);
                    gone.push(Withdrawn { pool: span.pool, base, bytes, source: Source::Handles(released) });
                }
            }
            let Some(cut) = gone.last().map(|gone| gone.base) else { continue };
            inners[at].withdraw(&self.tables, tail);
            if cut <= block.address() {
                self.tables.map.remove(block.address(), tail, false);
            }
            if cut > block.address() {
                // The block stays with what is left of it.
                block.set_bytes(cut - block.address());
                blocks.get(span.fence).set_address(cut);
                span.bytes = cut - span.base;
                inners[at].put_freed_at(&self.tables, tail, block.freed_at());
                continue;
            }
            let before = block.prev();
            let fence = span.fence;
            if before == NIL {
                block.set_state(State::of(Kind::Vacant));
                blocks.get(fence).set_state(State::of(Kind::Vacant));
                blocks.give_back(&mut vec![tail, fence], 0);
                spans.remove(&base);
            } else {
                blocks.get(before).set_next(fence);
                blocks.get(fence).set_prev(before);
                blocks.get(fence).set_address(cut);
                span.bytes = cut - span.base;
                block.set_state(State::of(Kind::Vacant));
                blocks.give_back(&mut vec![tail], 0);
            }
        }
        for withdrawn in &gone {
            self.tables.map.compact(withdrawn.base, withdrawn.bytes);
        }
        gone
    }
}

/// Where a shard stands among shards that are in the order of their numbers.
pub(crate) fn place_of(shards: &[Arc<Shard>], number: u32) -> Option<usize> {
    shards.binary_search_by_key(&number, |shard| shard.number).ok()
}

/// Takes out the mapped span of this pool that ends (`is_left`) or begins at an address.
fn touching(spans: &mut Spans, pool: u16, at: u64, is_left: bool) -> Option<Span> {
    let found = match is_left {
        true => spans.range(..at).next_back().filter(|(_, span)| span.end() == at),
        false => spans.get_key_value(&at),
    };
    let base = found
        .filter(|(_, span)| span.pool == pool && matches!(span.source, Source::Handles(_)))
        .map(|(base, _)| *base)?;
    spans.remove(&base)
}

/// Memory on its way from the arena to the device.
#[derive(Clone, Debug)]
pub(crate) struct Withdrawn {
    pub(crate) pool: u16,
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) source: Source,
}

impl Withdrawn {
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.source {
            Source::Plain { bytes, .. } => *bytes,
            Source::Handles(_) => self.bytes,
        }
    }
}

const _: () = assert!(GRANULE.is_power_of_two());
