//! Requests that find nothing at hand: what is tried, in which order.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::StreamId;
use smallvec::SmallVec;

use super::Shared;
use crate::block::BlockId;
use crate::latency::now_ns;
use crate::request::Request;
use crate::shard::{Lack, Shard};
use crate::supply::Refusal;
use crate::sync::locked;
use crate::sync::{AtomicU64, Ordering};
use crate::{Error, Result, Tag};

/// Unused block numbers to have after running out of them.
const NUMBERS: usize = 4096;
/// How often the callback is asked for one request: one that always promises more than it frees ends here.
const MOST_CALLBACKS: u32 = 16;
/// How often memory is added for one request that finds it taken by others each time.
const MOST_GROWTHS: u32 = 1000;
/// How long a `Reclaim` may take.
const RECLAIM: Duration = Duration::from_secs(10);

/// How often each stage was gone through, and how often it was what helped.
#[derive(Debug, Default)]
pub(super) struct SlowCounts {
    pub(super) requests: AtomicU64,
    pub(super) flushed: AtomicU64,
    pub(super) handed_over: AtomicU64,
    pub(super) grown: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) stream_waits: AtomicU64,
    pub(super) callbacks: AtomicU64,
    pub(super) reclaimed: AtomicU64,
    pub(super) host_waits: AtomicU64,
    pub(super) failed: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Streams, held without host memory as long as there are few.
type Streams = SmallVec<[u32; 64]>;

/// The streams that a shard's pending blocks wait for.
fn waited_for(shard: &Shard) -> Streams {
    let mut streams = Streams::new();
    let inner = shard.inner.lock();
    for (stream, _) in inner.pending.iter().flat_map(|pending| &pending.waits) {
        if !streams.contains(stream) {
            streams.push(*stream);
        }
    }
    streams
}

impl Shared {
    #[cold]
    pub(super) fn alloc_slow(
        &self,
        shard: &Arc<Shard>,
        request: &Request,
        stream: StreamId,
        lack: Lack,
    ) -> Result<BlockId> {
        let started = now_ns();
        count(&self.counts.requests);
        let served = self.serve(shard, request, stream, lack);
        self.latencies.alloc_slow.record(now_ns().saturating_sub(started));
        if served.is_err() {
            locked(&self.hysteresis).note_failure();
        }
        served
    }

    fn serve(&self, shard: &Arc<Shard>, request: &Request, stream: StreamId, lack: Lack) -> Result<BlockId> {
        if lack == Lack::Numbers {
            self.add_numbers()?;
        }
        if let Some(id) = self.search(shard, request)? {
            return Ok(id);
        }
        if let Some(bytes) = self.pools.op_bytes(shard.pool) {
            return self.serve_op(shard, request, stream, bytes);
        }
        let mut refusal = match self.grow(shard, request)? {
            Ok(id) => return Ok(id),
            Err(refusal) => refusal,
        };
        let request = &Request { is_thorough: true, ..*request };
        let mut callbacks = 0;
        loop {
            // Everything that is idle anywhere.
            self.arena.flush(None);
            if let Some(id) = self.search(shard, request)? {
                count(&self.counts.flushed);
                return Ok(id);
            }
            for whole in [false, true] {
                if self.release_idle(if whole { u64::MAX } else { request.bytes })? == 0 {
                    continue;
                }
                count(&self.counts.released);
                match self.grow(shard, request)? {
                    Ok(id) => return Ok(id),
                    Err(again) => refusal = again,
                }
            }
            if self.settings.stream_waits && self.wait_on_device(shard, stream)? {
                count(&self.counts.stream_waits);
                if let Some(id) = self.search(shard, request)? {
                    return Ok(id);
                }
            }
            if callbacks < MOST_CALLBACKS && self.ask_callback(shard, request, stream) {
                callbacks += 1;
                if let Some(id) = self.search(shard, request)? {
                    return Ok(id);
                }
                match self.grow(shard, request)? {
                    Ok(id) => return Ok(id),
                    Err(again) => refusal = again,
                }
                continue;
            }
            break;
        }
        if let Some(id) = self.last_resorts(shard, request)? {
            return Ok(id);
        }
        count(&self.counts.failed);
        self.tell(records::Event {
            action: records::Action::OutOfMemory,
            address: self.supply.device.memory().map_or(0, |memory| memory.free_bytes),
            bytes: request.requested,
            stream: stream.0,
            time_ns: now_ns(),
            ..records::Event::default()
        });
        match refusal {
            Refusal::Other(error) => return Err(error),
            // What ran out is not memory but something the system limits: the device's error says what.
            Refusal::Full(Some(error @ device::Error::OutOfMemory { total_bytes: 0, .. })) => {
                return Err(Error::Device(error));
            }
            Refusal::Budget | Refusal::Full(_) => {}
        }
        Err(Error::OutOfMemory(self.shortage(shard, request, stream)))
    }

    fn add_numbers(&self) -> Result<()> {
        let blocks = &self.arena.tables.blocks;
        if blocks.grow(NUMBERS) { Ok(()) } else { Err(Error::TooMany { what: "block", most: u64::from(blocks.end()) }) }
    }

    /// One attempt at the shard as it is now.
    fn attempt(&self, shard: &Shard, request: &Request) -> Result<Option<BlockId>> {
        for _ in 0..2 {
            match self.alloc_from(shard, request) {
                Ok(id) => return Ok(Some(id)),
                Err(Lack::Memory) => return Ok(None),
                Err(Lack::Numbers) => self.add_numbers()?,
                Err(Lack::Places) => {
                    return Err(Error::TooMany { what: "small block", most: u64::from(u32::MAX >> 1) });
                }
            }
        }
        Ok(None)
    }

    /// What needs nothing of the device: magazines of the stream, pending blocks, other streams' blocks.
    fn search(&self, shard: &Arc<Shard>, request: &Request) -> Result<Option<BlockId>> {
        if self.has_fresh.swap(false, Ordering::Relaxed) {
            self.arena.claim(shard);
        }
        if self.arena.flush(Some(shard.number)) > 0
            && let Some(id) = self.attempt(shard, request)?
        {
            count(&self.counts.flushed);
            return Ok(Some(id));
        }
        if !self.marks.is_idle() {
            self.marks.poll(&*self.supply.device, &self.arena.clocks);
        }
        self.arena.review(shard);
        if let Some(id) = self.attempt(shard, request)? {
            return Ok(Some(id));
        }
        self.mark_pending(shard);
        let wanted = request.bytes + (request.align - crate::block::GRANULE);
        if self.arena.hand_over(shard, wanted) {
            count(&self.counts.handed_over);
            return self.attempt(shard, request);
        }
        Ok(None)
    }

    /// Sees to it that pending blocks come back even if the program never says that their streams have been waited for.
    fn mark_pending(&self, shard: &Shard) {
        for stream in waited_for(shard) {
            self.marks.record(&*self.supply.device, &self.arena.clocks, stream);
        }
    }

    /// Memory from the device. The inner error says why there is none.
    fn grow(&self, shard: &Arc<Shard>, request: &Request) -> Result<std::result::Result<BlockId, Refusal>> {
        let wanted = request.bytes.saturating_add(request.align);
        if self.supply.reserved().saturating_add(wanted) > self.supply.soft.load(Ordering::Relaxed) {
            self.release_idle(wanted)?;
        }
        // Another thread may take what was added; then there is more to add, until the device has no more.
        for _ in 0..MOST_GROWTHS {
            let grown = match self.supply.grow(&self.arena, shard, request.bytes, request.align) {
                Ok(grown) => grown,
                Err(refusal) => return Ok(Err(refusal)),
            };
            count(&self.counts.grown);
            self.note_growth(shard, grown);
            if let Some(id) = self.attempt(shard, request)? {
                return Ok(Ok(id));
            }
        }
        Ok(Err(Refusal::Full(None)))
    }

    /// A hot operator's pool: set apart at its first request, and never grown.
    fn serve_op(&self, shard: &Arc<Shard>, request: &Request, stream: StreamId, bytes: u64) -> Result<BlockId> {
        if bytes > 0 && self.set_apart(shard, bytes) {
            // Or another thread did just now.
            if let Some(id) = self.search(shard, request)? {
                return Ok(id);
            }
        }
        let common = self.arena.shard_of(shard.stream, self.pools.fallback(Tag::unpack(request.tag)))?;
        match self.attempt(&common, request)? {
            Some(id) => Ok(id),
            None => self.serve(&common, request, stream, Lack::Memory),
        }
    }

    /// Takes the bytes of an operator's pool from the device if it has none. True if it was made or is just being made.
    fn set_apart(&self, shard: &Shard, bytes: u64) -> bool {
        let has_span = || locked(&self.arena.spans).values().any(|span| span.pool == shard.pool);
        if has_span() {
            return false;
        }
        let mut being_made = locked(&self.being_made);
        if being_made.contains(&shard.pool) {
            return true;
        }
        if has_span() {
            return true;
        }
        being_made.push(shard.pool);
        drop(being_made);
        let grown = self.supply.grow(&self.arena, shard, bytes, crate::block::GRANULE);
        locked(&self.being_made).retain(|pool| *pool != shard.pool);
        let Ok(grown) = grown else { return false };
        self.note_growth(shard, grown);
        true
    }

    /// Makes the requesting stream wait for all streams whose blocks it can't have yet. True if it waits for any now.
    fn wait_on_device(&self, shard: &Shard, stream: StreamId) -> Result<bool> {
        let mut others = waited_for(shard);
        let shards = self.arena.shards(Some(shard.pool));
        others.extend(
            shards
                .iter()
                .filter(|other| other.number != shard.number && other.inner.lock().free_bytes > 0)
                .map(|other| other.stream),
        );
        others.sort_unstable();
        others.dedup();
        let mut waits = false;
        for other in others {
            // Streams that are gone have no name; what they leave waits for a synchronization.
            self.marks.with_name(other, |name| {
                if name == stream {
                    return;
                }
                let notice = self.arena.clocks.begin_stream_wait(other, shard.stream);
                if self.supply.device.order_streams(name, stream).is_ok() {
                    self.arena.clocks.commit(notice);
                    waits = true;
                }
            });
        }
        Ok(waits)
    }

    fn ask_callback(&self, shard: &Shard, request: &Request, stream: StreamId) -> bool {
        thread_local! {
            static IS_ASKING: Cell<bool> = const { Cell::new(false) };
        }
        let Some(callback) = locked(&self.callback).clone() else { return false };
        // A request that a callback makes may fail too: asking again for it would never end.
        if IS_ASKING.try_with(|is_asking| is_asking.replace(true)).unwrap_or(true) {
            return false;
        }
        count(&self.counts.callbacks);
        let shortage = self.shortage(shard, request, stream);
        // Its panic must not cross into a caller that can't unwind; nothing of ours is half done here.
        let answer = catch_unwind(AssertUnwindSafe(|| callback(&shortage))).unwrap_or(false);
        // The thread's storage was there a moment ago.
        let _ = IS_ASKING.try_with(|is_asking| is_asking.set(false));
        answer
    }

    /// After the user's callback had its chance: moving blocks elsewhere, and waiting for the device.
    fn last_resorts(&self, shard: &Arc<Shard>, request: &Request) -> Result<Option<BlockId>> {
        let reclaim = locked(&self.reclaim).clone();
        if let Some(reclaim) = reclaim {
            let got = reclaim.reclaim(request.bytes, Instant::now() + RECLAIM);
            if got.freed_bytes + got.pending_bytes > 0 {
                count(&self.counts.reclaimed);
                if let Some(id) = self.search(shard, request)? {
                    return Ok(Some(id));
                }
            }
        }
        if !self.settings.host_waits || !self.has_waiting(shard) {
            return Ok(None);
        }
        count(&self.counts.host_waits);
        self.see_all_finish()?;
        if let Some(id) = self.search(shard, request)? {
            return Ok(Some(id));
        }
        if self.release_idle(u64::MAX)? == 0 {
            return Ok(None);
        }
        Ok(self.grow(shard, request)?.ok())
    }

    /// Whether waiting for the device can help: something is pending, or free on another stream or at the other end.
    fn has_waiting(&self, shard: &Shard) -> bool {
        self.arena.shards(None).iter().any(|other| {
            let inner = other.inner.lock();
            !inner.pending.is_empty() || (other.number != shard.number && inner.free_bytes > 0)
        })
    }
}
