//! Frees, references and uses.

use device::{DevicePtr, StreamId};
use records::Action;

use super::{Allocator, BlockInfo, Shared};
use crate::account::Weight;
use crate::arena::{Use, Uses};
use crate::block::{Block, BlockId, Kind, NIL, State};
use crate::latency::now_ns;
use crate::magazine::LARGEST;
use crate::pool::COMMON;
use crate::shard::{Waits, join_wait};
use crate::span::span_of;
use crate::sync::Ordering;
use crate::sync::locked;
use crate::threads::{Own, with_known_set, with_set, with_set_of_shard};
use crate::{Error, Result, Tag};

const MOVING: State = State::of(Kind::Moving);

impl Allocator {
    /// Drops a block; of one with several references, one of them. Its memory goes to other requests once all work that may
    /// use it is over: with `None`, what its home stream and all recorded users have queued so far; with a stream, what
    /// that stream has queued so far (and recorded users), as `cudaFreeAsync` does. Any thread may call it. Makes no
    /// driver call. Takes host memory only to remember a block that has to wait for other streams.
    ///
    /// # Errors
    /// [`Error::ForeignPointer`], [`Error::InteriorPointer`], [`Error::DoubleFree`], [`Error::Forked`]; with guards
    /// [`Error::Guard`], in which case the block is dropped all the same.
    #[inline]
    pub fn free(&self, ptr: DevicePtr, stream: Option<StreamId>) -> Result<()> {
        match self.0.free_at_hand(ptr, stream) {
            true => Ok(()),
            false => self.0.free_slow("free", ptr, stream).map(drop),
        }
    }

    /// Says that work of `stream` also uses a block: all of it that is queued by the time of the free.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn record_use(&self, ptr: DevicePtr, stream: StreamId) -> Result<()> {
        let shared = &*self.0;
        shared.check_process()?;
        let id = shared.live_block("record use of", ptr)?;
        let number = shared.resolve(stream);
        let block = shared.arena.tables.blocks.get(id);
        if number == block.stream() {
            return Ok(());
        }
        // A free that comes meanwhile sees the flag and waits for the lock, or comes first and is seen here.
        let mut all = locked(&shared.arena.uses);
        shared.flag(id, ptr, State::HAS_USES)?;
        let uses = all.entry(id).or_default();
        match uses.iter_mut().find(|used| used.stream == number) {
            Some(used) => used.component = None,
            None => uses.push(Use { stream: number, component: None }),
        }
        Ok(())
    }

    /// Says that no work of `stream` queued from now on uses a block whose use was recorded.
    ///
    /// # Errors
    /// [`Error::NoSuchUse`], and as [`free`](Self::free).
    pub fn use_done(&self, ptr: DevicePtr, stream: StreamId) -> Result<()> {
        let shared = &*self.0;
        shared.check_process()?;
        let id = shared.live_block("end use of", ptr)?;
        let number = shared.resolve(stream);
        let component = shared.arena.clocks.use_component(number);
        let mut all = locked(&shared.arena.uses);
        let used = all.get_mut(&id).and_then(|uses| uses.iter_mut().find(|used| used.stream == number));
        let used = used.ok_or(Error::NoSuchUse { ptr, stream })?;
        used.component = Some(component);
        Ok(())
    }

    /// Adds a reference to a block. Returns how many there are then.
    ///
    /// # Errors
    /// [`Error::TooManyReferences`], and as [`free`](Self::free).
    pub fn retain(&self, ptr: DevicePtr) -> Result<u32> {
        let shared = &*self.0;
        shared.check_process()?;
        let id = shared.live_block("retain", ptr)?;
        let block = shared.arena.tables.blocks.get(id);
        loop {
            let state = block.state();
            if state.kind() != Kind::Live {
                return Err(Error::DoubleFree { attempt: "retain", ptr });
            }
            let references = state.references();
            if references >= State::MAX_REFERENCES {
                return Err(Error::TooManyReferences { ptr, references });
            }
            if block.change(state, state.with_references(references + 1)) {
                return Ok(references + 1);
            }
        }
    }

    /// Takes a reference away; with the last one the block is dropped, as by [`free`](Self::free) with `None`. Returns how
    /// many there are then.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn release(&self, ptr: DevicePtr) -> Result<u32> {
        match self.0.free_at_hand(ptr, None) {
            true => Ok(0),
            false => self.0.free_slow("release", ptr, None),
        }
    }

    /// What is known about a live block.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn block(&self, ptr: DevicePtr) -> Result<BlockInfo> {
        let shared = &*self.0;
        shared.check_process()?;
        let id = shared.live_block("ask about", ptr)?;
        let block = shared.arena.tables.blocks.get(id);
        Ok(BlockInfo {
            ptr,
            requested_bytes: block.requested(),
            bytes: block.bytes(),
            stream: shared.marks.name(block.stream()),
            tag: Tag::unpack(block.tag()),
            references: block.state().references(),
        })
    }
}

impl Shared {
    /// Drops a block that only its home stream uses and that has one reference. False: it isn't one, or it can't be told
    /// at once, and nothing has happened.
    #[inline]
    fn free_at_hand(&self, ptr: DevicePtr, stream: Option<StreamId>) -> bool {
        let tables = &self.arena.tables;
        let id = tables.map.find(ptr.0);
        let block = tables.blocks.get(id);
        id != NIL
            && block.address() == ptr.0
            && self.is_own_process()
            && self.is_plain.load(Ordering::Relaxed)
            && stream.is_none_or(|stream| self.is_home(block, stream))
            && self.free_plain(id, block, ptr)
    }

    #[inline]
    fn is_home(&self, block: &Block, stream: StreamId) -> bool {
        with_known_set(self.asker(), stream, |own| own.set.shard.stream == block.stream()).unwrap_or(false)
    }

    /// Drops a block that only its home stream uses. False: it isn't such a block, and nothing has happened.
    #[inline]
    fn free_plain(&self, id: BlockId, block: &Block, ptr: DevicePtr) -> bool {
        if block.bytes() > LARGEST {
            return self.put_back(id, block, ptr);
        }
        // Of several threads that free it, one gets it.
        if !block.change(State::LIVE, MOVING) {
            return false;
        }
        // Somebody else freed it since it was looked up, and its number stands for another block by now: nobody but its
        // owner frees that one.
        if block.address() != ptr.0 {
            block.set_state(State::LIVE);
            return false;
        }
        let kept = with_set_of_shard(self.asker(), block.shard(), |own| self.keep(own, id));
        if kept.is_none() {
            self.free_small_elsewhere(id, block);
        }
        true
    }

    #[inline]
    fn keep(&self, own: Own<'_>, id: BlockId) {
        let set = own.set;
        let started = set.sampler.due().then(now_ns);
        let tables = &self.arena.tables;
        let weight = Weight::of(&tables.blocks, id);
        let mut magazines = set.inner.lock(own.key);
        magazines.unreported.free(weight);
        magazines.put(tables, id);
        let most = self.most_idle_bytes.load(Ordering::Relaxed);
        if magazines.idle_bytes > most {
            magazines.evict(tables, &set.shard, most);
        } else if magazines.unreported.is_due() {
            magazines.unreported.report(&mut set.shard.inner.lock().account);
        }
        drop(magazines);
        if let Some(started) = started {
            self.latencies.free_hits.record(now_ns().saturating_sub(started));
        }
    }

    /// A small block of a stream this thread has no magazines for yet.
    #[cold]
    fn free_small_elsewhere(&self, id: BlockId, block: &Block) {
        if self.arena.shard(block.shard()).is_some_and(|shard| shard.pool == COMMON) {
            let name = self.marks.name(block.stream());
            let kept =
                with_set(self.asker(), name, |own| (own.set.shard.number == block.shard()).then(|| self.keep(own, id)));
            if let Some(Ok(Some(()))) = kept {
                return;
            }
        }
        self.put_back_moving(id, block);
    }

    /// Gives a live block back to its shard. False: it isn't live, or has uses, guards or references.
    #[inline]
    fn put_back(&self, id: BlockId, block: &Block, ptr: DevicePtr) -> bool {
        let Some(shard) = self.arena.shard(block.shard()) else { return false };
        let mut inner = shard.inner.lock();
        // The lock decides which of several threads that free it gets it. Who would add a reference or a use now has none
        // of its own, which is its caller's error.
        if block.state() != State::LIVE || block.shard() != shard.number || block.address() != ptr.0 {
            return false;
        }
        inner.put_dropped(&self.arena.tables, id);
        true
    }

    /// The same, of a block that the caller has made `Moving`.
    pub(super) fn put_back_moving(&self, id: BlockId, block: &Block) {
        if let Some(shard) = self.arena.shard(block.shard()) {
            shard.inner.lock().put_dropped(&self.arena.tables, id);
        }
    }

    #[cold]
    #[inline(never)]
    fn free_slow(&self, attempt: &'static str, ptr: DevicePtr, stream: Option<StreamId>) -> Result<u32> {
        self.check_process()?;
        let started = now_ns();
        let id = self.live_block(attempt, ptr)?;
        if let Some(stream) = stream.filter(|_| self.is_plain.load(Ordering::Relaxed)) {
            // A thread that only frees has a set from its first free on that names the stream.
            with_set(self.asker(), stream, |_| ()).transpose()?;
        }
        let tables = &self.arena.tables;
        let block = tables.blocks.get(id);
        let Some(shard) = self.arena.shard(block.shard()) else {
            return Err(Error::Broken { invariant: "a block's shard exists", at: ptr.0 });
        };
        let state = loop {
            let state = block.state();
            // The number may stand for another block by now.
            if state.kind() != Kind::Live || block.address() != ptr.0 {
                return Err(Error::DoubleFree { attempt, ptr });
            }
            let references = state.references();
            if references > 1 {
                if block.change(state, state.with_references(references - 1)) {
                    return Ok(references - 1);
                }
            } else {
                // Under the lock, since another thread may be putting it back with only that to decide who gets it.
                let _inner = shard.inner.lock();
                if block.address() == ptr.0 && block.change(state, MOVING) {
                    break state;
                }
            }
        };
        let home = block.stream();
        let uses = if state.has(State::HAS_USES) {
            locked(&self.arena.uses).remove(&id).unwrap_or_default()
        } else {
            Uses::new()
        };
        let named = stream.map(|stream| self.resolve(stream));
        let waits = self.waits(home, named, &uses);
        let guarded = if state.has(State::IS_GUARDED) { self.guard_free(id, home, &waits) } else { Ok(()) };
        let name = self.marks.name(home);
        let bytes = block.requested();
        let event = |action| records::Event {
            action,
            address: ptr.0,
            bytes,
            stream: name.0,
            time_ns: now_ns(),
            ..records::Event::default()
        };
        self.tell(event(Action::FreeRequested));
        let weight = Weight::of(&tables.blocks, id);
        let is_over = waits.is_empty();
        if is_over {
            // Told before another request can have it.
            self.tell(event(Action::FreeCompleted));
        }
        {
            let mut inner = shard.inner.lock();
            inner.account.free(weight);
            if is_over {
                inner.account.settle(weight.allocated);
                inner.put(tables, id);
            } else {
                inner.set_aside(tables, id, waits);
            }
        }
        self.latencies.free_slow.record(now_ns().saturating_sub(started));
        guarded.map(|()| 0)
    }

    /// What has to be over, besides the home stream's work, before its next request may have a block freed now.
    fn waits(&self, home: u32, named: Option<u32>, uses: &Uses) -> Waits {
        let clocks = &self.arena.clocks;
        let mut waits = Waits::new();
        if let Some(named) = named.filter(|named| *named != home) {
            join_wait(&mut waits, named, clocks.current(named));
        }
        for used in uses {
            let component = used.component.unwrap_or_else(|| clocks.use_component(used.stream));
            join_wait(&mut waits, used.stream, component);
        }
        if !waits.is_empty() {
            let view = clocks.view(home);
            waits.retain(|(stream, component)| !view.covers(*stream, *component));
        }
        waits
    }

    /// Sets a flag of a live block.
    fn flag(&self, id: BlockId, ptr: DevicePtr, flag: u32) -> Result<()> {
        let block = self.arena.tables.blocks.get(id);
        loop {
            let state = block.state();
            if state.kind() != Kind::Live {
                return Err(Error::DoubleFree { attempt: "record use of", ptr });
            }
            if block.change(state, state.with(flag)) {
                return Ok(());
            }
        }
    }

    /// The live block that begins at an address.
    pub(super) fn live_block(&self, attempt: &'static str, ptr: DevicePtr) -> Result<BlockId> {
        let tables = &self.arena.tables;
        let id = tables.map.find(ptr.0);
        let block = tables.blocks.get(id);
        if id != NIL && block.address() == ptr.0 {
            return match block.kind() {
                Kind::Live => Ok(id),
                _ => Err(Error::DoubleFree { attempt, ptr }),
            };
        }
        Err(self.misfit(attempt, ptr))
    }

    /// Why no live block begins at an address. Takes no host memory, and so looks at all blocks without stopping anybody: a
    /// block that is being cut or joined at this moment may be told as another kind of mistake.
    #[cold]
    fn misfit(&self, attempt: &'static str, ptr: DevicePtr) -> Error {
        let blocks = &self.arena.tables.blocks;
        if span_of(&locked(&self.arena.spans), ptr.0).is_none() {
            return Error::ForeignPointer { attempt, ptr };
        }
        for id in 1..blocks.end() {
            let block = blocks.get(id);
            let start = block.address();
            if !(start..block.end()).contains(&ptr.0) {
                continue;
            }
            return match block.kind() {
                Kind::Vacant | Kind::Fence => continue,
                Kind::Live if start != ptr.0 => {
                    Error::InteriorPointer { attempt, ptr, block: DevicePtr(start), into: ptr.0.saturating_sub(start) }
                }
                _ => Error::DoubleFree { attempt, ptr },
            };
        }
        Error::ForeignPointer { attempt, ptr }
    }
}
