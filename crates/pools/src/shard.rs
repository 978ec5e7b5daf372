//! The part of the arena that one stream works on.
//!
//! All blocks of an arena lie in runs of neighbours, linked by address; each belongs to a shard. A shard's free blocks may
//! be handed to its stream at once: what other streams may still use is kept apart as pending. Shards are what lets
//! streams allocate side by side without touching each other's memory; they are no pools of their own, since a block
//! changes shard when its stream's order allows it (`Arena::hand_over`).
//!
//! # Who may write what
//! A block's fields are written under the lock of its shard, and its shard changes only under the locks of both, old and
//! new. Two things are written without the block's lock:
//! - `state`, by compare-exchange, of blocks that are handed out: of several threads that free a block, one succeeds;
//! - links across a boundary between shards. If P belongs to T and its right neighbour X to S, T writes `X.prev` when it
//!   splits or joins P. S reads `X.prev` to see whether it can join to the left: whatever it reads is a block of T, or was
//!   one until a moment ago, and not one of S, since only S under its own lock makes blocks of S; release and acquire of the link
//!   make it seen as such. X itself stays where it is as
//!   long as T's blocks are to its left: S joins to the right and splits to the right, and joins X to the left only if that
//!   neighbour is S's own.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::account::{Account, Weight};
use crate::bins::Bins;
use crate::block::{Block, BlockId, Blocks, GRANULE, Kind, NIL, State};
use crate::clocks::Clocks;
use crate::lock::Lock;
use crate::page_map::PageMap;
use crate::sync::{AtomicBool, Ordering};

/// Numbers of unused blocks that a shard keeps ready.
const SPARE: usize = 128;
/// Requests that are told apart by when they came; older ones count as younger than they are, which is safe.
const REQUEST_RUNS: usize = 256;

/// What work has to be over before a block may go to another use: of each stream, all up to a component of its clock.
pub(crate) type Waits = SmallVec<[(u32, u64); 2]>;

/// Takes the later of two waits for each stream.
pub(crate) fn join_wait(waits: &mut Waits, stream: u32, component: u64) {
    match waits.iter_mut().find(|(of, _)| *of == stream) {
        Some((_, known)) => *known = (*known).max(component),
        None => waits.push((stream, component)),
    }
}

/// A block that the host dropped and other streams may still use.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) block: BlockId,
    pub(crate) waits: Waits,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) number: u32,
    /// Its stream, by its number among the clocks.
    pub(crate) stream: u32,
    pub(crate) pool: u16,
    pub(crate) inner: Lock<Inner>,
}

/// What the lock of a shard protects.
#[derive(Debug)]
pub(crate) struct Inner {
    number: u32,
    stream: u32,
    /// Present where `freed_at` is a component of the stream's clock; else it is a number of requests.
    clocks: Option<Clocks>,
    bins: Bins,
    spare: Vec<BlockId>,
    pub(crate) pending: Vec<Pending>,
    /// What the stream's clock was known to cover when the pending blocks were last looked at.
    pub(crate) reviewed: u64,
    pub(crate) free_bytes: u64,
    pub(crate) pending_bytes: u64,
    pub(crate) account: Account,
    /// Requests and synchronizations of the device so far.
    requests: u64,
    /// The number of the last request.
    last_request: u64,
    /// The stream's own component at the last request; 0 if the device was synchronized since.
    last_component: u64,
    /// Up to which request the stream's own component had which value, before the last one.
    request_runs: VecDeque<(u64, u64)>,
    /// What was freed before this is over, whoever used it.
    over: u64,
}

/// Tables that all shards share.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) blocks: Blocks,
    pub(crate) map: PageMap,
    /// There is more than one shard.
    pub(crate) is_shared: AtomicBool,
}

impl Tables {
    /// Whether whoever holds the lock of a shard is the only one to change the table of addresses: there is one shard.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        !self.is_shared.load(Ordering::Relaxed)
    }
}

/// Why a shard handed out nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// No free block is large enough.
    Memory,
    /// There are no unused block numbers at hand.
    Numbers,
    /// The table of addresses is full.
    Places,
}

impl Shard {
    /// Host memory of one, roughly: its requests, bins and figures are most of it.
    pub(crate) const HOST_BYTES: usize =
        size_of::<Self>() + Bins::HOST_BYTES + Account::HOST_BYTES + SPARE * 4 + REQUEST_RUNS * 16;

    /// `clocks`: of a shard whose blocks may leave it as soon as their free is covered.
    pub(crate) fn new(number: u32, stream: u32, pool: u16, clocks: Option<Clocks>) -> Self {
        let inner = Inner {
            number,
            stream,
            clocks,
            bins: Bins::new(),
            spare: Vec::with_capacity(SPARE),
            pending: Vec::new(),
            reviewed: 0,
            free_bytes: 0,
            pending_bytes: 0,
            account: Account::default(),
            requests: 0,
            last_request: 0,
            last_component: 0,
            request_runs: VecDeque::with_capacity(REQUEST_RUNS),
            over: 0,
        };
        Self { number, stream, pool, inner: Lock::new(inner) }
    }
}

impl Inner {
    pub(crate) fn bins(&self) -> &Bins {
        &self.bins
    }

    /// Whether nothing was ever handed out from here, so that its free memory is nobody's yet.
    pub(crate) fn is_unused(&self) -> bool {
        self.account.allocs == 0 && self.last_request == 0 && self.pending.is_empty()
    }

    /// Notes that the stream makes a request, `component` being its own component now.
    #[inline]
    pub(crate) fn note_request(&mut self, component: u64) {
        self.requests += 1;
        if self.last_component != component {
            self.end_run();
            self.last_component = component;
        }
        self.last_request = self.requests;
    }

    fn end_run(&mut self) {
        if self.last_component == 0 {
            return;
        }
        if self.request_runs.len() == REQUEST_RUNS {
            self.request_runs.pop_front();
        }
        self.request_runs.push_back((self.last_request, self.last_component));
    }

    /// What all frees so far lie before and all later ones don't.
    pub(crate) fn frees_so_far(&mut self) -> u64 {
        self.end_run();
        self.last_component = 0;
        self.requests += 1;
        self.requests
    }

    /// Everything that was freed by then is over, whoever used it.
    pub(crate) fn note_over(&mut self, frees: u64) {
        self.over = self.over.max(frees);
    }

    /// Up to which component of the stream's clock another stream has to be ordered behind it before it may have a block
    /// that was freed then: that of the free, or that of the stream's first request after it. `None` if there was
    /// none yet.
    pub(crate) fn leaves_at(&self, freed_at: u64) -> Option<u64> {
        if self.clocks.is_some() {
            return Some(freed_at);
        }
        if freed_at < self.over {
            // Which everybody is behind.
            return Some(0);
        }
        // The first request after it, or of those that are remembered, which are later: that is safe.
        let run = self.request_runs.partition_point(|(last, _)| *last <= freed_at);
        match self.request_runs.get(run) {
            Some((_, component)) => Some(*component),
            None => (self.last_component != 0 && self.last_request > freed_at).then_some(self.last_component),
        }
    }

    /// Hands out `bytes`, a multiple of the granule, aligned to `align`, a power of two of at least the granule. The
    /// block is `Moving`, is in the table of addresses, and its pad is 0.
    #[inline]
    pub(crate) fn take(&mut self, tables: &Tables, bytes: u64, align: u64, is_thorough: bool) -> Result<BlockId, Lack> {
        if align > GRANULE {
            return self.take_aligned(tables, bytes, align, is_thorough);
        }
        let id = self.bins.find(&tables.blocks, bytes, is_thorough);
        if id == NIL {
            return Err(Lack::Memory);
        }
        self.take_block(tables, id, bytes)
    }

    /// Hands out the first `bytes` of a free block of this shard.
    #[inline]
    pub(crate) fn take_block(&mut self, tables: &Tables, id: BlockId, bytes: u64) -> Result<BlockId, Lack> {
        let block = tables.blocks.get(id);
        let rest = block.bytes() - bytes;
        if rest > 0 && self.spare.is_empty() && !self.refill(tables) {
            return Err(Lack::Numbers);
        }
        let address_of = |other| tables.blocks.get(other).address();
        tables.map.insert(block.address(), id, tables.is_alone(), address_of).map_err(|_| Lack::Places)?;
        self.free_bytes -= bytes;
        if rest > 0 {
            let place = self.bins.place_of(block);
            let rest = self.split(tables, id, bytes);
            self.bins.replace(&tables.blocks, id, place, rest);
        } else {
            self.bins.remove(&tables.blocks, id);
        }
        block.set_state(State::of(Kind::Moving));
        block.set_pad(0);
        Ok(id)
    }

    #[cold]
    fn take_aligned(&mut self, tables: &Tables, bytes: u64, align: u64, is_thorough: bool) -> Result<BlockId, Lack> {
        let reach = bytes.checked_add(align - GRANULE).ok_or(Lack::Memory)?;
        let mut id = self.bins.find(&tables.blocks, reach, is_thorough);
        if id == NIL && is_thorough {
            // One that happens to lie right.
            id = self.find_fitting(tables, bytes, align);
        }
        if id == NIL {
            return Err(Lack::Memory);
        }
        let block = tables.blocks.get(id);
        let lead = block.address().next_multiple_of(align) - block.address();
        if lead == 0 {
            return self.take_block(tables, id, bytes);
        }
        if self.spare.len() < 2 && !self.refill(tables) {
            return Err(Lack::Numbers);
        }
        self.bins.remove(&tables.blocks, id);
        let aligned = self.split(tables, id, lead);
        self.bins.push(&tables.blocks, id);
        self.bins.push(&tables.blocks, aligned);
        let taken = self.take_block(tables, aligned, bytes);
        if taken.is_err() {
            self.bins.remove(&tables.blocks, aligned);
            self.free_bytes -= tables.blocks.get(aligned).bytes();
            self.put(tables, aligned);
        }
        taken
    }

    fn find_fitting(&self, tables: &Tables, bytes: u64, align: u64) -> BlockId {
        let mut found = NIL;
        self.bins.for_each(&tables.blocks, |id| {
            let block = tables.blocks.get(id);
            let lead = block.address().next_multiple_of(align) - block.address();
            if found == NIL && block.bytes() >= lead.saturating_add(bytes) {
                found = id;
            }
        });
        found
    }

    /// Cuts a block of this shard that is in no bin; what follows its first `bytes` becomes a free block in no bin.
    /// A number must be at hand.
    #[inline]
    fn split(&mut self, tables: &Tables, id: BlockId, bytes: u64) -> BlockId {
        let blocks = &tables.blocks;
        let rest = self.spare.pop().unwrap_or(NIL);
        debug_assert_ne!(rest, NIL, "the caller sees to it that a number is at hand");
        let (block, after) = (blocks.get(id), blocks.get(rest));
        let next = block.next();
        after.set_address(block.address() + bytes);
        after.set_bytes(block.bytes() - bytes);
        after.set_freed_at(block.freed_at());
        after.set_shard(self.number);
        after.set_prev(id);
        after.set_next(next);
        after.set_state(State::of(Kind::Free));
        blocks.get(next).set_prev(rest);
        block.set_next(rest);
        block.set_bytes(bytes);
        rest
    }

    /// Takes a block of this shard that nothing uses any more: joins it with its neighbours and puts it into its bin.
    #[inline]
    pub(crate) fn put(&mut self, tables: &Tables, id: BlockId) {
        let freed_at = match &self.clocks {
            Some(clocks) => clocks.current(self.stream),
            None => self.requests,
        };
        self.put_freed_at(tables, id, freed_at);
    }

    /// The same, of a block that was freed at another time.
    #[inline]
    pub(crate) fn put_freed_at(&mut self, tables: &Tables, mut id: BlockId, freed_at: u64) {
        let blocks = &tables.blocks;
        let mut block = blocks.get(id);
        self.free_bytes += block.bytes();
        block.set_freed_at(freed_at);
        block.set_state(State::of(Kind::Free));
        let next = block.next();
        if self.owns_free(blocks, next) {
            self.bins.remove(blocks, next);
            self.absorb(tables, id, next);
        }
        let prev = block.prev();
        if self.owns_free(blocks, prev) {
            self.bins.remove(blocks, prev);
            self.absorb(tables, prev, id);
            id = prev;
            block = blocks.get(id);
        }
        debug_assert_eq!(block.kind(), Kind::Free);
        self.bins.push(blocks, id);
    }

    #[inline]
    fn owns_free(&self, blocks: &Blocks, id: BlockId) -> bool {
        let block = blocks.get(id);
        id != NIL && block.shard() == self.number && block.kind() == Kind::Free
    }

    /// Joins a block with its right neighbour; neither is in a bin.
    #[inline]
    fn absorb(&mut self, tables: &Tables, id: BlockId, right: BlockId) {
        let blocks = &tables.blocks;
        let (block, gone) = (blocks.get(id), blocks.get(right));
        tables.map.remove(gone.address(), right, tables.is_alone());
        let next = gone.next();
        block.set_bytes(block.bytes() + gone.bytes());
        block.set_freed_at(block.freed_at().max(gone.freed_at()));
        block.set_next(next);
        blocks.get(next).set_prev(id);
        gone.set_state(State::of(Kind::Vacant));
        if self.spare.len() == self.spare.capacity() {
            blocks.give_back(&mut self.spare, SPARE / 2);
        }
        self.spare.push(right);
    }

    #[cold]
    fn refill(&mut self, tables: &Tables) -> bool {
        tables.blocks.refill(&mut self.spare, SPARE / 2);
        self.spare.len() >= 2
    }

    /// Puts a free block of this shard where it belongs now.
    pub(crate) fn list_again(&mut self, tables: &Tables, id: BlockId) {
        self.bins.remove(&tables.blocks, id);
        self.bins.push(&tables.blocks, id);
    }

    /// Lets go of a free block of this shard: it is in no bin afterwards and counts nowhere.
    pub(crate) fn withdraw(&mut self, tables: &Tables, id: BlockId) {
        self.bins.remove(&tables.blocks, id);
        self.free_bytes -= tables.blocks.get(id).bytes();
    }

    /// Gives up to `bytes` of a free block of this shard to another shard, whose lock is held too: the block comes out
    /// of the bins, cut if it is larger. `None`: no numbers at hand.
    pub(crate) fn cede(&mut self, tables: &Tables, id: BlockId, bytes: u64) -> Option<BlockId> {
        let rest = tables.blocks.get(id).bytes() - bytes.min(tables.blocks.get(id).bytes());
        if rest > 0 && self.spare.is_empty() && !self.refill(tables) {
            return None;
        }
        self.withdraw(tables, id);
        if rest > 0 {
            let rest = self.split(tables, id, bytes);
            self.free_bytes += tables.blocks.get(rest).bytes();
            self.bins.push(&tables.blocks, rest);
        }
        Some(id)
    }

    /// Makes a ceded block one of this shard's.
    pub(crate) fn adopt(&mut self, tables: &Tables, id: BlockId) {
        tables.blocks.get(id).set_shard(self.number);
        self.put(tables, id);
    }

    /// Takes a block of this shard that the host drops and nothing else uses.
    #[inline]
    pub(crate) fn put_dropped(&mut self, tables: &Tables, id: BlockId) {
        let weight = Weight::of(&tables.blocks, id);
        self.account.free(weight);
        self.account.settle(weight.allocated);
        self.put(tables, id);
    }

    /// Sets a dropped block aside until `waits` are over.
    pub(crate) fn set_aside(&mut self, tables: &Tables, id: BlockId, waits: Waits) {
        let block = tables.blocks.get(id);
        block.set_state(State::of(Kind::Pending));
        self.pending_bytes += block.bytes();
        // Its waits have not been looked at with what is known now.
        self.reviewed = 0;
        self.pending.push(Pending { block: id, waits });
    }

    /// Puts pending blocks whose waits are over into the bins, and says which.
    pub(crate) fn review(&mut self, tables: &Tables, is_over: impl Fn(u32, u64) -> bool, settles: impl Fn(&Block)) {
        let mut at = 0;
        while at < self.pending.len() {
            self.pending[at].waits.retain(|(stream, component)| !is_over(*stream, *component));
            if !self.pending[at].waits.is_empty() {
                at += 1;
                continue;
            }
            let Pending { block: id, .. } = self.pending.swap_remove(at);
            let block = tables.blocks.get(id);
            let bytes = block.bytes();
            settles(block);
            self.pending_bytes -= bytes;
            self.account.settle(bytes);
            self.put(tables, id);
        }
    }
}
