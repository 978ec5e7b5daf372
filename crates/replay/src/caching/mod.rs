//! A model of PyTorch's caching allocator.
//!
//! Best fit among free blocks of one stream and pool; segments from the device where nothing fits; blocks are split and
//! joined inside their segment. A block that other streams use is held back by events until they have passed. When the
//! device is full, cached segments are given back and the request is tried again. Written after the behaviour of
//! c10's CUDACachingAllocator (2.x) as its sources describe it, and compared with the real one on every shared trace
//! (`docs/measurements`). Not modelled: private pools, graph capture, garbage collection (it does nothing unless a
//! fraction of the device is set as well).

mod blocks;
mod expandable;
mod sizes;

use std::collections::{BTreeMap, VecDeque};

use device::{Device, DevicePtr, EventId, StreamId};
use records::Action;
use smallvec::SmallVec;

use self::blocks::{Block, BlockIndex, Blocks, Pool, PoolKind};
use self::expandable::Segments;
use self::sizes::{LARGE_SEGMENT, SMALL_REQUEST, SMALL_SEGMENT, block_bytes, segment_bytes};
use crate::CachingSettings;
use crate::policy::{Effects, Handle, Placement, Policy};
use crate::rounding::GRANULE;

/// The model.
#[derive(Debug)]
pub(crate) struct Caching {
    settings: CachingSettings,
    blocks: Blocks,
    /// By [`PoolKind`].
    pools: [Pool; 2],
    segments: Segments,
    /// Events that hold blocks back, by stream in order of their recording.
    events: BTreeMap<StreamId, VecDeque<(EventId, BlockIndex)>>,
}

/// A request on its way through the stages.
#[derive(Clone, Copy)]
struct Request {
    bytes: u64,
    stream: StreamId,
    pool: PoolKind,
}

impl Caching {
    pub(crate) fn new(settings: CachingSettings) -> Self {
        Self {
            settings,
            blocks: Blocks::default(),
            pools: Default::default(),
            segments: Segments::default(),
            events: BTreeMap::new(),
        }
    }

    fn pool(&self, kind: PoolKind) -> &Pool {
        &self.pools[kind as usize]
    }

    fn insert_free(&mut self, index: BlockIndex) {
        let block = self.blocks.get(index);
        self.pools[block.pool as usize].insert(index, block);
    }

    fn remove_free(&mut self, index: BlockIndex) {
        let block = self.blocks.get(index);
        self.pools[block.pool as usize].remove(index, block);
    }

    fn max_split_bytes(&self) -> u64 {
        self.settings.max_split_bytes.unwrap_or(u64::MAX)
    }

    /// The free block that serves a request, taken out of its pool.
    fn take_free(&mut self, request: Request) -> Option<BlockIndex> {
        let mut fitting = self.pool(request.pool).at_least(request.stream, request.bytes).peekable();
        let mut best = fitting.next()?;
        if self.settings.is_expandable {
            // A block at the end of what is mapped counts with all the addresses it could grow into, so that it is left
            // alone where an inner one does.
            let reach = |index: BlockIndex| {
                let block = self.blocks.get(index);
                let room = block.above.map(|above| self.blocks.get(above)).filter(|above| !above.is_mapped);
                block.bytes.saturating_add(room.map_or(0, |above| above.bytes))
            };
            while let Some(&next) = fitting.peek() {
                if !self.blocks.get(best).is_split() || reach(next) >= reach(best) {
                    break;
                }
                best = next;
                fitting.next();
            }
        }
        drop(fitting);
        let (bytes, max_split) = (self.blocks.get(best).bytes, self.max_split_bytes());
        let is_oversized = match request.bytes < max_split {
            true => bytes >= max_split,
            false => bytes >= request.bytes.saturating_add(LARGE_SEGMENT),
        };
        if is_oversized {
            return None;
        }
        self.remove_free(best);
        Some(best)
    }

    /// A block in memory that the device has just given.
    fn take_new(&mut self, device: &dyn Device, request: Request, effects: &mut Effects) -> device::Result<BlockIndex> {
        if self.settings.is_expandable {
            return self.take_expanded(device, request, effects);
        }
        let bytes = segment_bytes(request.bytes);
        let address = device.alloc(bytes)?.0;
        effects.push(Action::SegmentAlloc, address, bytes, request.stream);
        Ok(self.blocks.insert(new_block(address, bytes, request, None)))
    }

    fn take_expanded(
        &mut self,
        device: &dyn Device,
        request: Request,
        effects: &mut Effects,
    ) -> device::Result<BlockIndex> {
        let mut candidate = match self.find_expandable(request) {
            Some(index) => index,
            None => {
                let unit = match request.pool {
                    PoolKind::Small => SMALL_SEGMENT,
                    PoolKind::Large => LARGE_SEGMENT,
                };
                let (segment, range) = self.segments.create(device, request.stream, unit)?;
                let mut block = new_block(range.start.0, range.bytes, request, Some(segment));
                block.is_mapped = false;
                let index = self.blocks.insert(block);
                self.insert_free(index);
                index
            }
        };
        if !self.blocks.get(candidate).is_mapped {
            candidate = self.map_block(device, candidate, request.bytes, effects)?;
        }
        while self.blocks.get(candidate).bytes < request.bytes {
            let missing = request.bytes - self.blocks.get(candidate).bytes;
            let Some(above) = self.blocks.get(candidate).above else {
                return Err(broken("an expandable block without room above"));
            };
            candidate = self.map_block(device, above, missing, effects)?;
        }
        self.remove_free(candidate);
        Ok(candidate)
    }

    /// The lowest run of free and unmapped blocks of the stream with room for the request.
    fn find_expandable(&self, request: Request) -> Option<BlockIndex> {
        let has_room = |first: BlockIndex| {
            let mut bytes: u64 = 0;
            let mut next = Some(first);
            while let Some(block) = next.map(|index| self.blocks.get(index)).filter(|block| block.is_idle()) {
                bytes = bytes.saturating_add(block.bytes);
                if bytes >= request.bytes {
                    return true;
                }
                next = block.above;
            }
            false
        };
        self.pool(request.pool)
            .unmapped(request.stream)
            .map(|index| {
                let below = self.blocks.get(index).below;
                below.filter(|below| self.blocks.get(*below).is_idle()).unwrap_or(index)
            })
            .find(|index| has_room(*index))
    }

    /// Gives memory to the first `bytes` of an unmapped block and joins it with its neighbours; the result is free.
    fn map_block(
        &mut self,
        device: &dyn Device,
        index: BlockIndex,
        bytes: u64,
        effects: &mut Effects,
    ) -> device::Result<BlockIndex> {
        let block = self.blocks.get(index).clone();
        let Some(segment) = block.segment else { return Err(broken("a mapped block without expandable segment")) };
        let mapped = self.segments.map(device, segment, block.address, bytes.min(block.bytes), effects)?;
        self.remove_free(index);
        self.blocks.get_mut(index).is_mapped = true;
        if mapped < block.bytes {
            let rest = Block {
                address: block.address + mapped,
                bytes: block.bytes - mapped,
                is_mapped: false,
                ..block.clone()
            };
            let rest = self.blocks.insert(rest);
            self.blocks.link(Some(index), rest, block.above);
            self.blocks.get_mut(index).bytes = mapped;
            self.insert_free(rest);
        }
        self.join(index);
        self.insert_free(index);
        Ok(index)
    }

    /// Joins a block that is in no pool with those neighbours that are as free as it is.
    fn join(&mut self, index: BlockIndex) {
        for neighbour in [self.blocks.get(index).below, self.blocks.get(index).above].into_iter().flatten() {
            let other = self.blocks.get(neighbour);
            if !other.is_idle() || other.is_mapped != self.blocks.get(index).is_mapped {
                continue;
            }
            let (address, bytes, below, above) = (other.address, other.bytes, other.below, other.above);
            self.remove_free(neighbour);
            let block = self.blocks.get_mut(index);
            block.bytes += bytes;
            let (below, above) = match address < block.address {
                true => (below, block.above),
                false => (block.below, above),
            };
            block.address = block.address.min(address);
            self.blocks.link(below, index, above);
            self.blocks.remove(neighbour);
        }
    }

    /// Cuts a taken block down to the request, if the rest is worth keeping apart, and hands it out.
    fn hand_out(&mut self, taken: BlockIndex, request: Request, requested_bytes: u64) -> Placement {
        let block = self.blocks.get(taken).clone();
        let rest = block.bytes - request.bytes;
        let should_split = match request.pool == PoolKind::Small || self.settings.is_expandable {
            true => rest >= GRANULE,
            false => request.bytes < self.max_split_bytes() && rest > SMALL_REQUEST,
        };
        let index = if should_split {
            let lower = self.blocks.insert(Block { bytes: request.bytes, ..block.clone() });
            self.blocks.get_mut(taken).address += request.bytes;
            self.blocks.get_mut(taken).bytes = rest;
            self.blocks.link(block.below, lower, Some(taken));
            self.insert_free(taken);
            lower
        } else {
            taken
        };
        let block = self.blocks.get_mut(index);
        block.is_allocated = true;
        block.requested_bytes = requested_bytes;
        Placement { handle: Handle(index.0), address: block.address }
    }

    fn free_block(&mut self, index: BlockIndex, effects: &mut Effects) {
        let block = self.blocks.get(index);
        effects.push(Action::FreeCompleted, block.address, block.requested_bytes, block.stream);
        self.join(index);
        self.insert_free(index);
    }

    fn event_passed(
        &mut self,
        device: &dyn Device,
        event: EventId,
        index: BlockIndex,
        effects: &mut Effects,
    ) -> device::Result<()> {
        device.destroy_event(event)?;
        let block = self.blocks.get_mut(index);
        block.event_count -= 1;
        if block.event_count == 0 {
            self.free_block(index, effects);
        }
        Ok(())
    }

    /// Frees what finished events hold back. Each stream's events are asked in order, up to the first that hasn't passed.
    fn poll_events(&mut self, device: &dyn Device, effects: &mut Effects) -> device::Result<()> {
        let streams: SmallVec<[StreamId; 16]> = self.events.keys().copied().collect();
        for stream in streams {
            while let Some(&(event, index)) = self.events.get(&stream).and_then(VecDeque::front) {
                if !device.query_event(event)? {
                    break;
                }
                self.events.get_mut(&stream).and_then(VecDeque::pop_front);
                self.event_passed(device, event, index, effects)?;
            }
            if self.events.get(&stream).is_some_and(VecDeque::is_empty) {
                self.events.remove(&stream);
            }
        }
        Ok(())
    }

    fn wait_for_events(&mut self, device: &dyn Device, effects: &mut Effects) -> device::Result<()> {
        for (event, index) in std::mem::take(&mut self.events).into_values().flatten() {
            device.synchronize_event(event)?;
            self.event_passed(device, event, index, effects)?;
        }
        Ok(())
    }

    /// Gives back oversized cached segments of the stream until the request could be served; false if there are too few.
    fn release_oversized(
        &mut self,
        device: &dyn Device,
        request: Request,
        effects: &mut Effects,
    ) -> device::Result<bool> {
        let Some(max_split) = self.settings.max_split_bytes else { return Ok(false) };
        let wanted = request.bytes.max(max_split);
        let pool = self.pool(request.pool);
        // Memory of expandable segments is given back page by page, in the stage after this one.
        let is_plain = |index: &BlockIndex| self.blocks.get(*index).segment.is_none();
        let single = pool.at_least(request.stream, wanted).find(is_plain);
        if let Some(single) = single {
            self.release_segment(device, single, effects)?;
            return Ok(true);
        }
        let mut released: u64 = 0;
        let mut chosen: SmallVec<[BlockIndex; 8]> = SmallVec::new();
        for index in pool.largest_first(request.stream) {
            let block = self.blocks.get(index);
            if released >= wanted || block.bytes < max_split {
                break;
            }
            if block.segment.is_none() {
                released += block.bytes;
                chosen.push(index);
            }
        }
        for index in chosen {
            self.release_segment(device, index, effects)?;
        }
        Ok(released >= wanted)
    }

    /// Gives back all cached memory that is a segment of its own or can be unmapped.
    fn release_cached(&mut self, device: &dyn Device, effects: &mut Effects) -> device::Result<()> {
        self.wait_for_events(device, effects)?;
        for kind in [PoolKind::Large, PoolKind::Small] {
            let free: Vec<BlockIndex> = self.pool(kind).free_blocks().collect();
            let (expandable, plain): (Vec<_>, Vec<_>) =
                free.into_iter().partition(|index| self.blocks.get(*index).segment.is_some());
            for index in plain {
                if !self.blocks.get(index).is_split() {
                    self.release_segment(device, index, effects)?;
                }
            }
            for index in expandable {
                self.unmap_block(device, index, effects)?;
            }
        }
        Ok(())
    }

    fn release_segment(&mut self, device: &dyn Device, index: BlockIndex, effects: &mut Effects) -> device::Result<()> {
        let block = self.blocks.get(index);
        let (address, bytes, stream) = (block.address, block.bytes, block.stream);
        device.free(DevicePtr(address))?;
        effects.push(Action::SegmentFree, address, bytes, stream);
        self.remove_free(index);
        self.blocks.remove(index);
        Ok(())
    }

    fn unmap_block(&mut self, device: &dyn Device, index: BlockIndex, effects: &mut Effects) -> device::Result<()> {
        let block = self.blocks.get(index).clone();
        let Some(segment) = block.segment else { return Ok(()) };
        let Some(range) = self.segments.unmap(device, segment, block.address, block.bytes, effects)? else {
            return Ok(());
        };
        self.remove_free(index);
        let below = range.start.0 - block.address;
        let above = block.bytes - below - range.bytes;
        if below > 0 {
            let piece = self.blocks.insert(Block { bytes: below, ..block.clone() });
            self.blocks.link(block.below, piece, Some(index));
            self.insert_free(piece);
        }
        if above > 0 {
            let piece = self.blocks.insert(Block { address: range.end(), bytes: above, ..block.clone() });
            self.blocks.link(Some(index), piece, block.above);
            self.insert_free(piece);
        }
        let unmapped = self.blocks.get_mut(index);
        unmapped.address = range.start.0;
        unmapped.bytes = range.bytes;
        unmapped.is_mapped = false;
        self.join(index);
        if self.blocks.get(index).is_split() {
            self.insert_free(index);
            return Ok(());
        }
        self.blocks.remove(index);
        self.segments.release(device, segment)
    }
}

impl Policy for Caching {
    fn alloc(
        &mut self,
        device: &dyn Device,
        bytes: u64,
        stream: StreamId,
        effects: &mut Effects,
    ) -> device::Result<Placement> {
        self.poll_events(device, effects)?;
        let rounded = block_bytes(bytes, &self.settings);
        let pool = if rounded <= SMALL_REQUEST { PoolKind::Small } else { PoolKind::Large };
        let request = Request { bytes: rounded, stream, pool };
        if let Some(index) = self.take_free(request) {
            return Ok(self.hand_out(index, request, bytes));
        }
        let mut taken = self.take_new(device, request, effects);
        if is_full(&taken) && self.release_oversized(device, request, effects)? {
            taken = self.take_new(device, request, effects);
        }
        if is_full(&taken) {
            self.release_cached(device, effects)?;
            taken = self.take_new(device, request, effects);
        }
        Ok(self.hand_out(taken?, request, bytes))
    }

    fn free(&mut self, device: &dyn Device, handle: Handle, effects: &mut Effects) -> device::Result<()> {
        let index = BlockIndex(handle.0);
        let block = self.blocks.get_mut(index);
        block.is_allocated = false;
        let uses = std::mem::take(&mut block.uses);
        if uses.is_empty() {
            self.free_block(index, effects);
            return Ok(());
        }
        for stream in uses {
            let event = device.create_event()?;
            device.record_event(event, stream)?;
            self.blocks.get_mut(index).event_count += 1;
            self.events.entry(stream).or_default().push_back((event, index));
        }
        Ok(())
    }

    fn record_use(&mut self, handle: Handle, stream: StreamId) -> device::Result<()> {
        let block = self.blocks.get_mut(BlockIndex(handle.0));
        // Its own stream needs no event: order there is order.
        if block.stream != stream && !block.uses.contains(&stream) {
            block.uses.push(stream);
        }
        Ok(())
    }
}

fn new_block(address: u64, bytes: u64, request: Request, segment: Option<expandable::SegmentIndex>) -> Block {
    Block {
        address,
        bytes,
        requested_bytes: 0,
        stream: request.stream,
        pool: request.pool,
        is_allocated: false,
        is_mapped: true,
        event_count: 0,
        uses: SmallVec::new(),
        segment,
        below: None,
        above: None,
    }
}

fn is_full<T>(result: &device::Result<T>) -> bool {
    result.as_ref().is_err_and(device::Error::is_out_of_memory)
}

fn broken(what: &str) -> device::Error {
    device::Error::Internal { what: what.to_owned() }
}
