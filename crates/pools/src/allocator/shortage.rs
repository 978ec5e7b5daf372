//! What a request that failed is told.

use device::StreamId;

use super::Shared;
use crate::Tag;
use crate::block::Kind;
use crate::request::Request;
use crate::shard::Shard;
use crate::{Precision, Shortage};

/// Tags that are told apart while the largest holders are looked for; with more, the smallest ones so far make room
/// (Metwally et al., "Efficient computation of frequent and top-k elements in data streams", 2005).
const TAGS: usize = 64;

impl Shared {
    /// Takes no host memory.
    pub(super) fn shortage(&self, shard: &Shard, request: &Request, stream: StreamId) -> Shortage {
        let blocks = &self.arena.tables.blocks;
        let (own_largest, own_free) = {
            let inner = shard.inner.lock();
            (inner.bins().largest(blocks), inner.free_bytes)
        };
        let (mut live, mut idle, mut pending) = (0_i64, 0, 0);
        let mut tiers = [0_i64; 3];
        self.arena.for_each_shard(|other| {
            let inner = other.inner.lock();
            live += inner.account.live.current;
            idle += inner.free_bytes;
            pending += inner.pending_bytes;
            for (kind, level) in inner.account.kinds.iter().enumerate() {
                tiers[kind / Precision::ALL.len()] += level.current;
            }
        });
        Shortage {
            requested_bytes: request.requested,
            align_bytes: request.align,
            stream: stream.0,
            tag: Tag::unpack(request.tag),
            largest_free_bytes: own_largest,
            idle_bytes: idle,
            idle_elsewhere_bytes: idle.saturating_sub(own_free),
            pending_bytes: pending,
            live_bytes: live.max(0) as u64,
            reserved_bytes: self.supply.reserved(),
            device_free_bytes: self.supply.device.memory().ok().map(|memory| memory.free_bytes),
            device_total_bytes: self.supply.device.info().total_bytes,
            budget_bytes: self.supply.hard(),
            tiers: tiers.map(|bytes| bytes.max(0) as u64),
            holders: self.holders(),
        }
    }

    /// The tags with most live bytes.
    fn holders(&self) -> [(Tag, u64); 3] {
        let blocks = &self.arena.tables.blocks;
        let mut table = [(0_u64, 0_u64); TAGS];
        let mut count = 0;
        for id in 1..blocks.end() {
            let block = blocks.get(id);
            if block.kind() != Kind::Live {
                continue;
            }
            let (tag, bytes) = (block.tag(), block.requested());
            let known = table[..count].iter_mut().find(|(known, _)| *known == tag);
            if let Some((_, sum)) = known {
                *sum += bytes;
            } else if count < TAGS {
                table[count] = (tag, bytes);
                count += 1;
            } else if let Some(least) = table.iter_mut().min_by_key(|(_, sum)| *sum) {
                *least = (tag, least.1 + bytes);
            }
        }
        table[..count].sort_unstable_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        let mut holders = [(Tag::default(), 0); 3];
        for (holder, (tag, bytes)) in holders.iter_mut().zip(&table[..count]) {
            *holder = (Tag::unpack(*tag), *bytes);
        }
        holders
    }
}
