//! Requests that are answered at once.

use std::sync::Arc;

use device::{DevicePtr, StreamId};
use records::Action;

use super::{Allocator, Shared};
use crate::account::{Weight, kind_of};
use crate::block::{BlockId, NIL, State, pack_tag};
use crate::latency::now_ns;
use crate::magazine::{LARGEST, MagazineSet};
use crate::pool::COMMON;
use crate::request::Request;
use crate::shard::{Inner, Lack, Shard};
use crate::sync::Ordering;
use crate::tags::tag_current;
use crate::threads::with_set;
use crate::{Result, Tag};

impl Allocator {
    /// Memory of at least `bytes` bytes for work queued on `stream` from now on, tagged with the thread's current tag.
    /// `align` is a power of two in bytes; 0 means 512, as anything below does. A request for 0 bytes gets an
    /// address of its own.
    ///
    /// A request that can be answered from a magazine or the shard of its stream takes no host memory, makes no driver call and takes no lock
    /// that another stream's requests take.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) once nothing helped, [`Error::TooLarge`](crate::Error::TooLarge),
    /// [`Error::BadAlignment`](crate::Error::BadAlignment), [`Error::Forked`](crate::Error::Forked), and what else the
    /// device says. A refused request changes nothing.
    #[inline]
    pub fn alloc(&self, bytes: u64, align: u64, stream: StreamId) -> Result<DevicePtr> {
        self.alloc_tagged(bytes, align, stream, tag_current())
    }

    /// The same, with a tag of its own.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    #[inline]
    pub fn alloc_tagged(&self, bytes: u64, align: u64, stream: StreamId, tag: Tag) -> Result<DevicePtr> {
        let request = Request::new(bytes, align, tag)?;
        self.0.alloc(&request, stream)
    }
}

/// What came of the fast attempts.
enum Fast {
    Done(u64),
    /// Nothing at hand: the shard to go on with.
    Missed(Arc<Shard>),
}

impl Shared {
    #[inline]
    fn alloc(&self, request: &Request, stream: StreamId) -> Result<DevicePtr> {
        self.check_process()?;
        let is_plain = self.is_plain.load(Ordering::Relaxed) && self.pools.of(request.tag) == COMMON;
        if is_plain {
            match with_set(self.asker(), stream, |set| self.alloc_plain(set, request)) {
                Some(Ok(Fast::Done(address))) => return Ok(DevicePtr(address)),
                Some(Ok(Fast::Missed(shard))) => return self.alloc_missed(&shard, request, stream),
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
        self.alloc_pooled(request, stream)
    }

    #[inline]
    fn alloc_plain(&self, set: &Arc<MagazineSet>, request: &Request) -> Fast {
        let started = set.sampler.due().then(now_ns);
        let found = if request.bytes <= LARGEST && request.align <= crate::block::GRANULE {
            self.alloc_small(set, request)
        } else {
            self.alloc_from(&set.shard, request)
        };
        match found {
            Ok(id) => {
                if let Some(started) = started {
                    self.latencies.alloc_hits.record(now_ns().saturating_sub(started));
                }
                Fast::Done(self.arena.tables.blocks.get(id).address())
            }
            Err(_) => Fast::Missed(Arc::clone(&set.shard)),
        }
    }

    #[inline]
    fn alloc_small(&self, set: &MagazineSet, request: &Request) -> std::result::Result<BlockId, Lack> {
        let tables = &self.arena.tables;
        let mut magazines = set.inner.lock();
        let mut id = magazines.take(tables, request.bytes);
        if id == NIL {
            magazines.misses += 1;
            let mut inner = set.shard.inner.lock();
            id = self.take(&set.shard, &mut inner, request)?;
            // While the lock is held anyway.
            magazines.unreported.report(&mut inner.account);
        } else {
            magazines.hits += 1;
        }
        let weight = self.hand_out(&set.shard, id, request);
        magazines.unreported.alloc(weight);
        if magazines.unreported.is_due() {
            magazines.unreported.report(&mut set.shard.inner.lock().account);
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
        inner.take(&self.arena.tables, request.bytes, request.align)
    }

    /// Makes a block that was taken a live one.
    #[inline]
    fn hand_out(&self, shard: &Shard, id: BlockId, request: &Request) -> Weight {
        let block = self.arena.tables.blocks.get(id);
        let tag = pack_tag(request.tag);
        block.set_tag(tag);
        block.set_stream(shard.stream);
        let allocated = block.bytes();
        block.set_pad((allocated - request.requested) as u32);
        block.set_state(State::LIVE);
        Weight { kind: kind_of(tag), requested: request.requested, allocated }
    }

    /// From whichever pool the tag names, and with everything that is told of requests.
    #[cold]
    fn alloc_pooled(&self, request: &Request, stream: StreamId) -> Result<DevicePtr> {
        let number = self.resolve(stream);
        let pool = self.pools.of(request.tag);
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
