//! Requests that are answered at once.

use std::sync::Arc;

use device::{DevicePtr, StreamId};
use records::Action;

use super::{Allocator, Shared};
use crate::account::{Weight, kind_of};
use crate::block::{BlockId, GRANULE, NIL, State};
use crate::latency::now_ns;
use crate::magazine::LARGEST;
use crate::pool::COMMON;
use crate::request::Request;
use crate::shard::{Inner, Lack, Shard};
use crate::sync::Ordering;
use crate::tags::packed_tag_current;
use crate::threads::{Own, with_known_set, with_set};
use crate::{Result, Tag, Tier};

/// No block begins there.
const NOTHING: u64 = 0;

impl Allocator {
    /// Memory of at least `bytes` bytes for work queued on `stream` from now on, tagged with the thread's current tag.
    /// `align` is a power of two in bytes; 0 means 512, as anything below does. A request for 0 bytes gets an
    /// address of its own.
    ///
    /// A request that can be answered from a magazine or the shard of its stream makes no driver call. From a magazine it takes
    /// no host memory and no lock that another stream's requests take; from the shard it seldom takes either.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) once nothing helped, [`Error::TooLarge`](crate::Error::TooLarge),
    /// [`Error::BadAlignment`](crate::Error::BadAlignment), [`Error::Forked`](crate::Error::Forked), and what else the
    /// device says. A refused request changes nothing.
    #[inline]
    pub fn alloc(&self, bytes: u64, align: u64, stream: StreamId) -> Result<DevicePtr> {
        self.0.alloc(bytes, align, stream, packed_tag_current())
    }

    /// The same, with a tag of its own.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    #[inline]
    pub fn alloc_tagged(&self, bytes: u64, align: u64, stream: StreamId, tag: Tag) -> Result<DevicePtr> {
        self.0.alloc(bytes, align, stream, tag.pack())
    }
}

impl Shared {
    #[inline]
    fn alloc(&self, bytes: u64, align: u64, stream: StreamId, tag: u64) -> Result<DevicePtr> {
        match self.alloc_at_hand(bytes, align, stream, tag) {
            NOTHING => self.alloc_cold(bytes, align, stream, tag),
            address => Ok(DevicePtr(address)),
        }
    }

    /// The address of a block from the thread's magazines or the shard of the stream, or [`NOTHING`]. A number and no
    /// `Result`, since an error is large and would travel through memory.
    #[inline]
    fn alloc_at_hand(&self, bytes: u64, align: u64, stream: StreamId, tag: u64) -> u64 {
        let is_plain = self.is_plain.load(Ordering::Relaxed) && Tag::packed_tier(tag) != Tier::Persistent as u64;
        if !is_plain || bytes > Request::MOST_BYTES || align > GRANULE || !self.is_own_process() {
            return NOTHING;
        }
        if align & align.wrapping_sub(1) != 0 {
            return NOTHING;
        }
        let request = Request::usual(bytes, tag);
        with_known_set(self.asker(), stream, |own| self.alloc_plain(own, &request)).unwrap_or(NOTHING)
    }

    /// What the above leaves: requests with conditions, and those for which nothing is at hand.
    #[cold]
    #[inline(never)]
    fn alloc_cold(&self, bytes: u64, align: u64, stream: StreamId, tag: u64) -> Result<DevicePtr> {
        self.check_process()?;
        let request = Request::new(bytes, align, tag)?;
        let is_plain = self.is_plain.load(Ordering::Relaxed) && self.pools.of(Tag::unpack(tag)) == COMMON;
        let shard = match is_plain {
            true => with_set(self.asker(), stream, |own| Arc::clone(&own.set.shard)).transpose()?,
            false => None,
        };
        match shard {
            Some(shard) => self.alloc_missed(&shard, &request, stream),
            None => self.alloc_pooled(&request, stream),
        }
    }

    #[inline]
    fn alloc_plain(&self, own: Own<'_>, request: &Request) -> u64 {
        let started = own.set.sampler.due().then(now_ns);
        let found = match request.bytes <= LARGEST {
            true => self.alloc_small(own, request),
            false => self.alloc_from(&own.set.shard, request),
        };
        let Ok(id) = found else { return NOTHING };
        if let Some(started) = started {
            self.latencies.alloc_hits.record(now_ns().saturating_sub(started));
        }
        self.arena.tables.blocks.get(id).address()
    }

    #[inline]
    fn alloc_small(&self, own: Own<'_>, request: &Request) -> std::result::Result<BlockId, Lack> {
        let tables = &self.arena.tables;
        let shard = &own.set.shard;
        let mut magazines = own.set.inner.lock(own.key);
        let mut id = magazines.take(tables, request.bytes);
        if id == NIL {
            magazines.misses += 1;
            let mut inner = shard.inner.lock();
            id = self.take(shard, &mut inner, request)?;
            // While the lock is held anyway.
            magazines.unreported.report(&mut inner.account);
        } else {
            magazines.hits += 1;
        }
        let weight = self.hand_out(shard, id, request);
        magazines.unreported.alloc(weight);
        if magazines.unreported.is_due() {
            magazines.unreported.report(&mut shard.inner.lock().account);
        }
        Ok(id)
    }

    /// From a shard alone.
    #[inline]
    pub(super) fn alloc_from(&self, shard: &Shard, request: &Request) -> std::result::Result<BlockId, Lack> {
        let mut inner = shard.inner.lock();
        let id = self.take(shard, &mut inner, request)?;
        let weight = self.hand_out(shard, id, request);
        inner.account.alloc(weight);
        Ok(id)
    }

    #[inline]
    fn take(&self, shard: &Shard, inner: &mut Inner, request: &Request) -> std::result::Result<BlockId, Lack> {
        inner.note_request(self.arena.clocks.current(shard.stream));
        if !inner.pending.is_empty() {
            self.arena.review_locked(shard, inner);
        }
        inner.take(&self.arena.tables, request.bytes, request.align, request.is_thorough)
    }

    /// Makes a block that was taken a live one.
    #[inline]
    fn hand_out(&self, shard: &Shard, id: BlockId, request: &Request) -> Weight {
        let block = self.arena.tables.blocks.get(id);
        block.set_tag(request.tag);
        block.set_stream(shard.stream);
        let allocated = block.bytes();
        block.set_pad((allocated - request.requested) as u32);
        block.set_state(State::LIVE);
        Weight { kind: kind_of(request.tag), requested: request.requested, allocated }
    }

    /// From whichever pool the tag names, and with everything that is told of requests.
    #[cold]
    fn alloc_pooled(&self, request: &Request, stream: StreamId) -> Result<DevicePtr> {
        let number = self.resolve(stream);
        let pool = self.pools.of(Tag::unpack(request.tag));
        let shard = self.arena.shard_of(number, pool)?;
        let guarded = self.settings.guard;
        let wanted = if guarded { super::guard::widened(request) } else { *request };
        let id = match self.alloc_from(&shard, &wanted) {
            Ok(id) => id,
            Err(lack) => self.alloc_slow(&shard, &wanted, stream, lack)?,
        };
        let address = self.arena.tables.blocks.get(id).address();
        if guarded {
            self.guard_alloc(id)?;
        }
        self.tell(records::Event {
            action: Action::Alloc,
            address,
            bytes: request.requested,
            stream: stream.0,
            time_ns: now_ns(),
            ..records::Event::default()
        });
        Ok(DevicePtr(address))
    }

    #[cold]
    fn alloc_missed(&self, shard: &Arc<Shard>, request: &Request, stream: StreamId) -> Result<DevicePtr> {
        self.marks.note_name(shard.stream, stream);
        let id = self.alloc_slow(shard, request, stream, Lack::Memory)?;
        Ok(DevicePtr(self.arena.tables.blocks.get(id).address()))
    }
}
