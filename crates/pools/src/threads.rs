//! What each thread keeps at hand: for each allocator and stream it works with, a set of magazines.

use std::cell::RefCell;
use std::sync::Arc;

use device::StreamId;

use crate::Result;
use crate::arena::Arena;
use crate::fork;
use crate::lock::OwnerKey;
use crate::magazine::MagazineSet;
use crate::pool::COMMON;

/// A set and what it is found by.
struct Entry {
    allocator: u64,
    id: StreamId,
    /// The clocks' generation when the stream's id was looked up.
    generation: u64,
    set: Arc<MagazineSet>,
    key: OwnerKey,
    arena: Arc<Arena>,
    forks: u32,
}

/// A set, and what lets its own thread lock it.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) set: &'a Arc<MagazineSet>,
    pub(crate) key: &'a OwnerKey,
}

impl Entry {
    #[inline]
    fn own(&self) -> Own<'_> {
        Own { set: &self.set, key: &self.key }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // In a forked child a thread that doesn't exist there may hold any lock.
        if self.forks == fork::forks() {
            self.arena.remove_set(&self.set);
        }
    }
}

struct Local {
    entries: Vec<Entry>,
    /// The one used last.
    last: usize,
}

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local { entries: Vec::new(), last: 0 }) };
}

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) allocator: u64,
    pub(crate) arena: &'a Arc<Arena>,
    pub(crate) forks: u32,
}

impl Local {
    #[inline]
    fn known_by_stream(&mut self, asker: Asker<'_>, id: StreamId) -> Option<Own<'_>> {
        let generation = asker.arena.clocks.generation();
        let fits =
            |entry: &Entry| entry.allocator == asker.allocator && entry.id == id && entry.generation == generation;
        if !self.entries.get(self.last).is_some_and(fits) {
            self.last = self.entries.iter().position(fits)?;
        }
        Some(self.entries[self.last].own())
    }

    fn by_stream(&mut self, asker: Asker<'_>, id: StreamId) -> Result<Own<'_>> {
        if self.known_by_stream(asker, id).is_none() {
            self.last = self.add(asker, id, asker.arena.clocks.generation())?;
        }
        Ok(self.entries[self.last].own())
    }

    #[cold]
    fn add(&mut self, asker: Asker<'_>, id: StreamId, generation: u64) -> Result<usize> {
        let stream = asker.arena.clocks.resolve(id);
        // Those of allocators that are gone, and those whose stream is another one now.
        self.entries.retain_mut(|entry| {
            if entry.allocator != asker.allocator {
                return !entry.arena.is_closed();
            }
            if entry.generation != generation {
                if asker.arena.clocks.known(entry.id) != Some(entry.set.shard.stream) {
                    return false;
                }
                entry.generation = generation;
            }
            true
        });
        let known = |entry: &Entry| entry.allocator == asker.allocator && entry.set.shard.stream == stream;
        if let Some(at) = self.entries.iter().position(known) {
            return Ok(at);
        }
        let (set, key) = MagazineSet::new(asker.arena.shard_of(stream, COMMON)?);
        let set = Arc::new(set);
        asker.arena.add_set(&set);
        let arena = Arc::clone(asker.arena);
        self.entries.push(Entry { allocator: asker.allocator, id, generation, set, key, arena, forks: asker.forks });
        Ok(self.entries.len() - 1)
    }

    #[inline]
    fn by_shard(&mut self, asker: Asker<'_>, shard: u32) -> Option<Own<'_>> {
        let fits = |entry: &Entry| entry.allocator == asker.allocator && entry.set.shard.number == shard;
        if !self.entries.get(self.last).is_some_and(fits) {
            self.last = self.entries.iter().position(fits)?;
        }
        Some(self.entries[self.last].own())
    }
}

/// Calls `work` with this thread's set for a stream, made if need be. `None` while the thread ends.
#[cold]
pub(crate) fn with_set<R>(asker: Asker<'_>, stream: StreamId, work: impl FnOnce(Own<'_>) -> R) -> Option<Result<R>> {
    LOCAL
        .try_with(|local| local.try_borrow_mut().ok().map(|mut local| local.by_stream(asker, stream).map(work)))
        .ok()
        .flatten()
}

/// Calls `work` with this thread's set for a stream, if it has one. There is no error in what it returns: those are large,
/// and this is called for every request.
#[inline]
pub(crate) fn with_known_set<R>(asker: Asker<'_>, stream: StreamId, work: impl FnOnce(Own<'_>) -> R) -> Option<R> {
    LOCAL.try_with(|local| local.try_borrow_mut().ok()?.known_by_stream(asker, stream).map(work)).ok().flatten()
}

/// Calls `work` with this thread's set for a shard, if it has one.
#[inline]
pub(crate) fn with_set_of_shard<R>(asker: Asker<'_>, shard: u32, work: impl FnOnce(Own<'_>) -> R) -> Option<R> {
    LOCAL.try_with(|local| local.try_borrow_mut().ok()?.by_shard(asker, shard).map(work)).ok().flatten()
}
