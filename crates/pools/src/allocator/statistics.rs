//! Figures, always kept.

use std::sync::atomic::Ordering;

use super::{Allocator, Shared};
use crate::account::{Account, Level};
use crate::latency::{Counts, Quantiles, SAMPLED_EVERY};
use crate::sync::locked;
use crate::{Precision, Tier};

/// A level in bytes: now, at its highest, and all that ever came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelFigures {
    /// Now.
    pub current_bytes: u64,
    /// At its highest. While several streams allocate it is an upper bound: the sum of their peaks. Magazines report
    /// when they have gathered 256 KiB, so that a peak may be that much too low for each thread and stream.
    pub peak_bytes: u64,
    /// All that ever came in.
    pub cumulative_bytes: u64,
}

/// How often requests that found nothing at hand came to each stage, and what helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowFigures {
    /// Requests that found nothing at hand.
    pub requests: u64,
    /// Served after magazines had been emptied.
    pub flushed: u64,
    /// Served by blocks of other streams.
    pub handed_over: u64,
    /// Times memory was taken from the device.
    pub grown: u64,
    /// Times idle memory was given back to make room.
    pub released: u64,
    /// Times the requesting stream was made to wait for others.
    pub stream_waits: u64,
    /// Times the callback was asked.
    pub callbacks: u64,
    /// Times something was moved elsewhere.
    pub reclaimed: u64,
    /// Times the host waited for the device.
    pub host_waits: u64,
    /// Requests that failed.
    pub failed: u64,
}

/// What is known of the program's stream order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderFigures {
    /// Streams there are.
    pub streams: u64,
    /// Streams there ever were.
    pub streams_ever: u64,
    /// Events that carry a clock.
    pub events: u64,
    /// Entries of all clocks.
    pub entries: u64,
    /// Entries and events that were forgotten to keep memory bounded: order that is known no more, which costs memory,
    /// never bytes.
    pub forgotten: u64,
    /// Events of our own that were recorded.
    pub marks: u64,
}

/// A hot operator's pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpPoolFigures {
    /// The operator.
    pub op: String,
    /// Bytes set apart for it.
    pub bytes: u64,
    /// Bytes of it that are handed out.
    pub allocated_bytes: u64,
}

/// What an allocator has done and holds. `live <= allocated <= active <= reserved`, each counted on its own: while other
/// threads allocate, figures are of slightly different moments.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes requested and not freed by the host.
    pub live: LevelFigures,
    /// The same after rounding.
    pub allocated: LevelFigures,
    /// Allocated, or freed by the host and still in use by streams.
    pub active: LevelFigures,
    /// Bytes held from the device. Its peak is exact.
    pub reserved: LevelFigures,
    /// Live bytes by tier, in the order of [`Tier::ALL`].
    pub tiers: [LevelFigures; 3],
    /// Live bytes by precision, in the order of [`Precision::ALL`].
    pub precisions: [LevelFigures; 13],
    /// Bytes that nothing uses, except those in magazines.
    pub free_bytes: u64,
    /// The largest of these in one piece.
    pub largest_free_bytes: u64,
    /// (1 - largest free block / all free bytes) x 100.
    pub fragmentation_percent: f64,
    /// Bytes freed by the host that streams may still use.
    pub pending_bytes: u64,
    /// Bytes that magazines keep.
    pub cached_bytes: u64,
    /// Requests answered.
    pub allocs: u64,
    /// Blocks dropped.
    pub frees: u64,
    /// Requests answered from a magazine.
    pub cache_hits: u64,
    /// Small requests that went on to the shard.
    pub cache_misses: u64,
    /// How long requests took that were answered at once; one in `sampled_every` is measured.
    pub alloc_hit_ns: Quantiles,
    /// How long all other requests took; each is measured.
    pub alloc_slow_ns: Quantiles,
    /// How long frees into a magazine took; one in `sampled_every` is measured.
    pub free_hit_ns: Quantiles,
    /// How long frees of blocks with users, references or guards took; each is measured.
    pub free_slow_ns: Quantiles,
    /// Both kinds of requests together, sampled ones weighted by how many they stand for.
    pub alloc_ns: Quantiles,
    /// One in how many hits is measured.
    pub sampled_every: u64,
    /// What happened to requests that found nothing at hand.
    pub slow: SlowFigures,
    /// Calls of the device that take or give back memory.
    pub driver_calls: u64,
    /// Of these, those that the device refused.
    pub driver_refusals: u64,
    /// Reservations of plain memory that are held.
    pub segments: u64,
    /// Handles of physical memory that are held.
    pub handles: u64,
    /// Times that a step's end tidied up fragmented memory.
    pub defragmentations: u64,
    /// Cyclic blocks by how many references they have: 1, 2, 3, 4 to 7, and more.
    pub cyclic_references: [u64; 5],
    /// Hot operators' pools.
    pub op_pools: Vec<OpPoolFigures>,
    /// Streams that asked for memory, and pools they asked.
    pub shards: u64,
    /// Threads times streams with magazines.
    pub magazine_sets: u64,
    /// What is known of the program's stream order.
    pub order: OrderFigures,
    /// Bytes of host memory that all this takes.
    pub host_bytes: u64,
}

fn figures(level: &Level) -> LevelFigures {
    LevelFigures {
        current_bytes: level.current.max(0) as u64,
        peak_bytes: level.peak.max(0) as u64,
        cumulative_bytes: level.cumulative,
    }
}

impl Allocator {
    /// All figures as of now. Takes each shard's lock for a moment; blocks are walked only for `cyclic_references`. In a
    /// forked child all are 0: a thread that isn't there may hold a lock.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        if self.0.check_process().is_err() {
            return Statistics::default();
        }
        self.0.statistics()
    }
}

impl Shared {
    /// All shards' figures in one.
    pub(super) fn account(&self) -> Account {
        for set in self.arena.sets() {
            set.report();
        }
        let mut all = Account::default();
        for shard in self.arena.shards(None) {
            all.join(&shard.inner.lock().account);
        }
        all
    }

    fn statistics(&self) -> Statistics {
        let account = self.account();
        let held = &self.supply.held;
        let load = |counter: &crate::sync::AtomicU64| counter.load(Ordering::Relaxed);
        let (largest_free_bytes, free_bytes) = self.free_figures();
        let mut tiers = [Level::default(); 3];
        let mut precisions = [Level::default(); 13];
        for (kind, level) in account.kinds.iter().enumerate() {
            tiers[kind / Precision::ALL.len()].join(level);
            precisions[kind % Precision::ALL.len()].join(level);
        }
        let shards = self.arena.shards(None);
        let (mut hits, mut misses) = self.arena.gone_hits();
        let mut cached_bytes = 0;
        let sets = self.arena.sets();
        for set in &sets {
            let magazines = set.inner.visit();
            hits += magazines.hits;
            misses += magazines.misses;
            cached_bytes += magazines.idle_bytes;
        }
        let mut requests = Counts::default();
        requests.add(&self.latencies.alloc_hits, u64::from(SAMPLED_EVERY));
        requests.add(&self.latencies.alloc_slow, 1);
        let slow = &self.counts;
        Statistics {
            live: figures(&account.live),
            allocated: figures(&account.allocated),
            active: figures(&account.active),
            reserved: LevelFigures {
                current_bytes: load(&held.bytes),
                peak_bytes: load(&held.peak),
                cumulative_bytes: load(&held.cumulative),
            },
            tiers: tiers.map(|level| figures(&level)),
            precisions: precisions.map(|level| figures(&level)),
            free_bytes,
            largest_free_bytes,
            fragmentation_percent: records::fragmentation_percent(largest_free_bytes, free_bytes),
            pending_bytes: shards.iter().map(|shard| shard.inner.lock().pending_bytes).sum(),
            cached_bytes,
            allocs: account.allocs,
            frees: account.frees,
            cache_hits: hits,
            cache_misses: misses,
            alloc_hit_ns: self.latencies.alloc_hits.quantiles(),
            alloc_slow_ns: self.latencies.alloc_slow.quantiles(),
            free_hit_ns: self.latencies.free_hits.quantiles(),
            free_slow_ns: self.latencies.free_slow.quantiles(),
            alloc_ns: requests.quantiles(),
            sampled_every: u64::from(SAMPLED_EVERY),
            slow: SlowFigures {
                requests: load(&slow.requests),
                flushed: load(&slow.flushed),
                handed_over: load(&slow.handed_over),
                grown: load(&slow.grown),
                released: load(&slow.released),
                stream_waits: load(&slow.stream_waits),
                callbacks: load(&slow.callbacks),
                reclaimed: load(&slow.reclaimed),
                host_waits: load(&slow.host_waits),
                failed: load(&slow.failed),
            },
            driver_calls: load(&held.driver_calls),
            driver_refusals: load(&held.failed),
            segments: load(&held.segments),
            handles: load(&held.handles),
            defragmentations: locked(&self.hysteresis).runs,
            cyclic_references: self.cyclic_references(),
            op_pools: self.op_pool_figures(),
            shards: shards.len() as u64,
            magazine_sets: sets.len() as u64,
            order: self.order_figures(),
            host_bytes: self.host_bytes(shards.len(), sets.len()),
        }
    }

    fn order_figures(&self) -> OrderFigures {
        let clocks = self.arena.clocks.figures();
        OrderFigures {
            streams: clocks.live_streams,
            streams_ever: clocks.streams,
            events: clocks.events,
            entries: clocks.entries,
            forgotten: clocks.dropped_entries + clocks.dropped_events,
            marks: self.marks.recorded.load(Ordering::Relaxed),
        }
    }

    /// How many cyclic blocks have 1, 2, 3, 4 to 7, and more references.
    fn cyclic_references(&self) -> [u64; 5] {
        let mut census = [0; 5];
        let blocks = &self.arena.tables.blocks;
        for id in 1..blocks.end() {
            let block = blocks.get(id);
            let state = block.state();
            if state.kind() == crate::block::Kind::Live && crate::Tag::unpack(block.tag()).tier == Tier::Cyclic {
                census[match state.references() {
                    0 | 1 => 0,
                    2 => 1,
                    3 => 2,
                    4..=7 => 3,
                    _ => 4,
                }] += 1;
            }
        }
        census
    }

    fn op_pool_figures(&self) -> Vec<OpPoolFigures> {
        let figures = self.pools.op_pools().map(|(pool, op, bytes)| {
            let shards = self.arena.shards(Some(pool));
            let allocated: i64 = shards.iter().map(|shard| shard.inner.lock().account.allocated.current).sum();
            OpPoolFigures { op: op.to_owned(), bytes, allocated_bytes: allocated.max(0) as u64 }
        });
        figures.collect()
    }

    fn host_bytes(&self, shards: usize, sets: usize) -> u64 {
        let tables = &self.arena.tables;
        tables.blocks.host_bytes()
            + tables.map.host_bytes()
            + (shards * crate::shard::Shard::HOST_BYTES + sets * crate::magazine::MagazineSet::HOST_BYTES) as u64
            + size_of::<Shared>() as u64
    }
}
