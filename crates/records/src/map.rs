//! The state of a device's memory at a moment of its history.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use hashbrown::HashMap;

use crate::{
    Action, Block, BlockState, Defect, Defects, DeviceHistory, Event, Segment, SegmentKind, Totals,
    fragmentation_percent,
};

/// Free bytes in a segment, and what keeps them from being more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hole {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Where its segment begins.
    pub segment: u64,
    /// Bytes of its segment.
    pub segment_bytes: u64,
    /// Stream its segment serves.
    pub stream: u64,
    /// The block that ends where it begins, in the same segment.
    pub below: Option<Block>,
    /// The block that begins where it ends, in the same segment.
    pub above: Option<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    stream: u64,
    kind: SegmentKind,
    is_expandable: bool,
    pool: (u64, u64),
    stack: crate::StackId,
}

#[derive(Clone, Copy, Debug)]
struct Placed {
    block: Block,
    /// It lies in a segment: freeing it makes a hole.
    is_backed: bool,
}

/// Segments, blocks and holes after some of a device's events.
///
/// What contradicts itself is counted and then made to fit: a block that is placed on others takes their place, a free
/// of nothing does nothing, a block outside of every segment counts as live but makes no hole.
#[derive(Clone, Debug, Default)]
pub struct MemoryMap {
    granule_bytes: u64,
    segments: BTreeMap<u64, Held>,
    /// Live and pending blocks by address; they don't overlap.
    blocks: BTreeMap<u64, Placed>,
    /// Holes by address. No two of one segment touch.
    holes: BTreeMap<u64, u64>,
    /// How many holes have each size.
    hole_sizes: BTreeMap<u64, u64>,
    totals: Totals,
    event: u64,
    last_time_ns: u64,
    /// Bytes of blocks that the end states to be other than rounding makes them, by the number of their alloc.
    stated_bytes: HashMap<u64, u64>,
    defects: Defects,
}

impl MemoryMap {
    /// The state before the first event.
    pub fn new(history: &DeviceHistory) -> Self {
        let granule_bytes = history.granule_bytes.max(1);
        let stated_bytes = stated_bytes(history, granule_bytes);
        let mut map = Self { granule_bytes, stated_bytes, ..Self::default() };
        for segment in &history.start {
            map.add_segment(segment.address, held(segment));
            for block in &segment.blocks {
                if block.state != BlockState::Free {
                    map.place(*block);
                }
            }
        }
        map
    }

    /// Plays one event.
    pub fn apply(&mut self, event: &Event) {
        if event.time_ns != 0 {
            if event.time_ns < self.last_time_ns {
                self.note(Defect::TimeBackwards);
            }
            self.last_time_ns = event.time_ns;
        }
        match event.action {
            Action::Alloc => self.alloc(event),
            Action::FreeRequested => self.drop_block(event.address),
            Action::FreeCompleted => self.free(event.address),
            Action::SegmentAlloc | Action::SegmentMap => {
                let is_expandable = event.action == Action::SegmentMap;
                let kind = SegmentKind::of_event(event);
                self.add_segment(
                    event.address,
                    Held {
                        bytes: event.bytes,
                        stream: event.stream,
                        kind,
                        is_expandable,
                        pool: (0, 0),
                        stack: event.stack,
                    },
                );
            }
            Action::SegmentFree | Action::SegmentUnmap => self.remove_segment(event.address, event.bytes),
            Action::OutOfMemory | Action::Snapshot | Action::Step => {}
        }
        self.event += 1;
    }

    /// How many events were played.
    pub fn event(&self) -> u64 {
        self.event
    }

    /// Sums over this moment.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Bytes of the largest hole.
    pub fn largest_free(&self) -> u64 {
        self.hole_sizes.last_key_value().map_or(0, |(bytes, _)| *bytes)
    }

    /// How many holes there are.
    pub fn hole_count(&self) -> usize {
        self.holes.len()
    }

    /// How scattered the free bytes are: [`fragmentation_percent`] over all holes.
    pub fn fragmentation_percent(&self) -> f64 {
        fragmentation_percent(self.largest_free(), self.totals.free())
    }

    /// What contradicted itself so far.
    pub fn defects(&self) -> &Defects {
        &self.defects
    }

    /// Live and pending blocks, by address.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.values().map(|placed| &placed.block)
    }

    /// How many live and pending blocks there are.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The live or pending block that begins at `address`.
    pub fn block_at(&self, address: u64) -> Option<&Block> {
        self.blocks.get(&address).map(|placed| &placed.block)
    }

    /// The segments, by address, with their live and pending blocks.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments.iter().map(|(&address, held)| Segment {
            address,
            bytes: held.bytes,
            stream: held.stream,
            kind: held.kind,
            is_expandable: held.is_expandable,
            pool: held.pool,
            stack: held.stack,
            blocks: self.blocks.range(address..end_of(address, held.bytes)).map(|(_, placed)| placed.block).collect(),
        })
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The holes, by address, with their neighbours.
    pub fn holes(&self) -> impl Iterator<Item = Hole> + '_ {
        self.holes.iter().map(|(&address, &bytes)| {
            let (segment, held) =
                self.segments.range(..=address).next_back().map_or((address, None), |(at, held)| (*at, Some(held)));
            let segment_bytes = held.map_or(0, |held| held.bytes);
            let below = self.blocks.range(..address).next_back().map(|(_, placed)| placed.block);
            let above = self.blocks.range(address..).next().map(|(_, placed)| placed.block);
            let end = end_of(address, bytes);
            Hole {
                address,
                bytes,
                segment,
                segment_bytes,
                stream: held.map_or(0, |held| held.stream),
                below: below.filter(|b| b.address >= segment && end_of(b.address, b.bytes) == address),
                above: above.filter(|b| b.address == end && end < end_of(segment, segment_bytes)),
            }
        })
    }

    /// Compares with what a file states of the end and counts the differences: segments by address and size, blocks by
    /// address, requested bytes and state.
    pub fn compare(&mut self, end: &[Segment]) {
        let mut differences: u64 = 0;
        let mut segments = 0;
        let mut blocks = 0;
        for segment in end {
            segments += 1;
            differences += u64::from(self.segments.get(&segment.address).is_none_or(|h| h.bytes != segment.bytes));
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Free) {
                blocks += 1;
                differences += u64::from(self.blocks.get(&block.address).is_none_or(|placed| {
                    placed.block.requested_bytes != block.requested_bytes || placed.block.state != block.state
                }));
            }
        }
        differences += (self.segments.len() as u64).saturating_sub(segments);
        differences += (self.blocks.len() as u64).saturating_sub(blocks);
        for _ in 0..differences {
            self.note(Defect::EndDiffers);
        }
    }

    /// Verifies what must hold whatever the events were; says what broke.
    ///
    /// # Errors
    /// The invariant that doesn't hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut totals = Totals { reserved: self.segments.values().map(|held| held.bytes).sum(), ..Totals::default() };
        let mut end = 0;
        for (&address, placed) in &self.blocks {
            if address < end {
                return Err(format!("block at {address:#x} overlaps the one before"));
            }
            end = end_of(address, placed.block.bytes);
            totals.active += placed.block.bytes;
            if placed.block.state == BlockState::Live {
                totals.live += placed.block.requested_bytes;
                totals.allocated += placed.block.bytes;
            }
        }
        if totals != self.totals {
            return Err(format!("totals are {:?} and should be {totals:?}", self.totals));
        }
        let mut end = 0;
        for (&address, held) in &self.segments {
            if address < end {
                return Err(format!("segment at {address:#x} overlaps the one before"));
            }
            end = end_of(address, held.bytes);
        }
        let backed: u64 = self.blocks.values().filter(|p| p.is_backed).map(|p| p.block.bytes).sum();
        let free: u64 = self.holes.values().sum();
        if backed + free != totals.reserved {
            return Err(format!("{backed} backed and {free} free bytes don't make {} reserved", totals.reserved));
        }
        let mut sizes = BTreeMap::new();
        let (mut end, mut segment) = (0, None);
        for hole in self.holes() {
            *sizes.entry(hole.bytes).or_insert(0) += 1;
            if hole.address < end || (hole.address == end && segment == Some(hole.segment)) {
                return Err(format!("hole at {:#x} isn't apart from the one before", hole.address));
            }
            (end, segment) = (end_of(hole.address, hole.bytes), Some(hole.segment));
            let above = self.blocks.range(..end).next_back();
            if above.is_some_and(|(at, placed)| placed.is_backed && end_of(*at, placed.block.bytes) > hole.address) {
                return Err(format!("hole at {:#x} lies where a block is", hole.address));
            }
            if end_of(hole.address, hole.bytes) > end_of(hole.segment, hole.segment_bytes) {
                return Err(format!("hole at {:#x} leaves its segment", hole.address));
            }
        }
        if sizes != self.hole_sizes {
            return Err("sizes of holes are miscounted".to_owned());
        }
        Ok(())
    }

    fn note(&mut self, defect: Defect) {
        self.defects.note(defect, self.event);
    }

    fn alloc(&mut self, event: &Event) {
        let rounded = event.bytes.max(1).checked_next_multiple_of(self.granule_bytes);
        let Some(rounded) = rounded.filter(|rounded| event.address.checked_add(*rounded).is_some()) else {
            return self.note(Defect::AddressOverflow);
        };
        // The next block and the end of the segment bound what rounding added, never what was asked for.
        let next = self.blocks.range((Excluded(event.address), Unbounded)).next().map(|(at, _)| *at);
        let segment = self.segment_of(event.address).map(|(at, held)| end_of(at, held.bytes));
        let room = next.into_iter().chain(segment).min().map_or(rounded, |limit| limit - event.address);
        // An allocator that doesn't split off a small rest hands it out as well. Who lives to the end tells.
        let wanted = self.stated_bytes.get(&self.event).copied().unwrap_or(rounded);
        let bytes = wanted.min(room.max(event.bytes.max(1)));
        self.place(Block {
            address: event.address,
            bytes,
            requested_bytes: event.bytes,
            state: BlockState::Live,
            stream: event.stream,
            stack: event.stack,
            tag: event.tag,
        });
    }

    fn place(&mut self, mut block: Block) {
        let Some(end) = block.address.checked_add(block.bytes) else {
            return self.note(Defect::AddressOverflow);
        };
        if block.bytes == 0 {
            return;
        }
        if block.requested_bytes > block.bytes {
            self.note(Defect::RequestBeyondBlock);
            block.requested_bytes = block.bytes;
        }
        while let Some((&at, placed)) = self.blocks.range(..end).next_back() {
            if end_of(at, placed.block.bytes) <= block.address {
                break;
            }
            self.note(Defect::BlockOverlap);
            self.remove_block(at);
        }
        let is_backed = self.segment_of(block.address).is_some_and(|(at, held)| end <= end_of(at, held.bytes));
        if is_backed {
            self.fill_hole(block.address, end);
        } else {
            self.note(Defect::OutsideSegment);
        }
        self.totals.active += block.bytes;
        if block.state == BlockState::Live {
            self.totals.live += block.requested_bytes;
            self.totals.allocated += block.bytes;
        }
        self.blocks.insert(block.address, Placed { block, is_backed });
    }

    fn drop_block(&mut self, address: u64) {
        let Some(placed) = self.blocks.get_mut(&address) else {
            return self.note(Defect::UnknownFree);
        };
        if placed.block.state == BlockState::Live {
            placed.block.state = BlockState::Pending;
            self.totals.live -= placed.block.requested_bytes;
            self.totals.allocated -= placed.block.bytes;
        } else {
            self.note(Defect::DoubleFree);
        }
    }

    fn free(&mut self, address: u64) {
        if self.blocks.contains_key(&address) {
            self.remove_block(address);
        } else {
            self.note(Defect::UnknownFree);
        }
    }

    fn remove_block(&mut self, address: u64) {
        let Some(Placed { block, is_backed }) = self.blocks.remove(&address) else { return };
        self.totals.active -= block.bytes;
        if block.state == BlockState::Live {
            self.totals.live -= block.requested_bytes;
            self.totals.allocated -= block.bytes;
        }
        if is_backed {
            self.add_hole(address, end_of(address, block.bytes));
        }
    }

    fn segment_of(&self, address: u64) -> Option<(u64, &Held)> {
        let (&at, held) = self.segments.range(..=address).next_back()?;
        (address < end_of(at, held.bytes)).then_some((at, held))
    }

    fn add_segment(&mut self, address: u64, mut held: Held) {
        let Some(end) = address.checked_add(held.bytes) else {
            return self.note(Defect::AddressOverflow);
        };
        if held.bytes == 0 {
            return;
        }
        let is_taken = self.segments.range(..end).next_back().is_some_and(|(at, h)| end_of(*at, h.bytes) > address);
        if is_taken {
            self.note(Defect::SegmentOverlap);
            self.cut_segments(address, end);
        }
        self.totals.reserved += held.bytes;
        let mut first = address;
        if held.is_expandable {
            let joins = |other: &Held| other.is_expandable && other.stream == held.stream;
            let before = self.segments.range(..address).next_back().map(|(at, h)| (*at, *h));
            let before = before.filter(|(at, h)| joins(h) && end_of(*at, h.bytes) == address);
            let after = self.segments.get(&end).copied().filter(joins);
            if let Some(after) = after {
                self.segments.remove(&end);
                held.bytes += after.bytes;
            }
            if let Some((at, before)) = before {
                first = at;
                held = Held { bytes: before.bytes + held.bytes, ..before };
            }
        }
        self.segments.insert(first, held);
        // Blocks that were there before their segment now have one.
        let mut free_from = address;
        let mut inside: Vec<(u64, u64)> = Vec::new();
        for (&at, placed) in self.blocks.range(address..end) {
            let block_end = end_of(at, placed.block.bytes);
            if block_end <= end {
                inside.push((at, block_end));
            }
        }
        for (at, block_end) in inside {
            self.add_hole(free_from, at);
            free_from = block_end;
            if let Some(placed) = self.blocks.get_mut(&at) {
                placed.is_backed = true;
            }
        }
        self.add_hole(free_from, end);
    }

    fn remove_segment(&mut self, address: u64, bytes: u64) {
        let Some(end) = address.checked_add(bytes) else {
            return self.note(Defect::AddressOverflow);
        };
        let in_use = self.blocks.range(..end).next_back();
        if in_use.is_some_and(|(at, placed)| end_of(*at, placed.block.bytes) > address && placed.is_backed) {
            self.note(Defect::SegmentInUse);
        }
        if self.cut_segments(address, end) != bytes {
            self.note(Defect::UnknownSegment);
        }
    }

    /// Takes `[from, to)` out of the segments, with what lies there; gives how many bytes had a segment.
    fn cut_segments(&mut self, from: u64, to: u64) -> u64 {
        while let Some((&at, placed)) = self.blocks.range(..to).next_back() {
            if end_of(at, placed.block.bytes) <= from {
                break;
            }
            self.remove_block(at);
        }
        let mut cut = 0;
        while let Some((&at, &held)) = self.segments.range(..to).next_back() {
            let end = end_of(at, held.bytes);
            if end <= from {
                break;
            }
            self.segments.remove(&at);
            let (low, high) = (at.max(from), end.min(to));
            cut += high - low;
            self.fill_hole(low, high);
            if at < low {
                self.segments.insert(at, Held { bytes: low - at, ..held });
            }
            if high < end {
                self.segments.insert(high, Held { bytes: end - high, ..held });
            }
        }
        self.totals.reserved -= cut;
        cut
    }

    /// Makes `[from, to)` free and joins it with the holes it touches in its segment.
    fn add_hole(&mut self, mut from: u64, mut to: u64) {
        if from >= to {
            return;
        }
        let (low, high) = self.segment_of(from).map_or((from, to), |(at, held)| (at, end_of(at, held.bytes)));
        if let Some((&at, &bytes)) = self.holes.range(..from).next_back()
            && end_of(at, bytes) == from
            && at >= low
        {
            self.remove_hole(at, bytes);
            from = at;
        }
        if to < high
            && let Some(&bytes) = self.holes.get(&to)
        {
            self.remove_hole(to, bytes);
            to += bytes;
        }
        self.insert_hole(from, to - from);
    }

    /// Takes `[from, to)` out of the holes.
    fn fill_hole(&mut self, from: u64, to: u64) {
        while let Some((&at, &bytes)) = self.holes.range(..to).next_back() {
            let end = end_of(at, bytes);
            if end <= from {
                break;
            }
            self.remove_hole(at, bytes);
            if at < from {
                self.insert_hole(at, from - at);
            }
            if to < end {
                self.insert_hole(to, end - to);
            }
        }
    }

    fn insert_hole(&mut self, address: u64, bytes: u64) {
        self.holes.insert(address, bytes);
        *self.hole_sizes.entry(bytes).or_insert(0) += 1;
    }

    fn remove_hole(&mut self, address: u64, bytes: u64) {
        self.holes.remove(&address);
        if let Some(count) = self.hole_sizes.get_mut(&bytes) {
            *count -= 1;
            if *count == 0 {
                self.hole_sizes.remove(&bytes);
            }
        }
    }
}

/// The bytes of blocks that are there after the last event, where they aren't the request rounded up, by the number of
/// the event that handed them out.
fn stated_bytes(history: &DeviceHistory, granule_bytes: u64) -> HashMap<u64, u64> {
    let blocks = history.end.iter().flat_map(|segment| &segment.blocks);
    let mut odd: HashMap<u64, u64> = blocks
        .filter(|block| block.state != BlockState::Free)
        .filter(|block| block.requested_bytes.max(1).checked_next_multiple_of(granule_bytes) != Some(block.bytes))
        .map(|block| (block.address, block.bytes))
        .collect();
    let mut stated = HashMap::with_capacity(odd.len());
    for (index, event) in history.events.iter().enumerate().rev() {
        if odd.is_empty() {
            break;
        }
        if event.action == Action::Alloc
            && let Some(bytes) = odd.remove(&event.address)
            && bytes >= event.bytes
        {
            stated.insert(index as u64, bytes);
        }
    }
    stated
}

/// Both are checked when a range comes in, so this can't overflow.
fn end_of(address: u64, bytes: u64) -> u64 {
    address.saturating_add(bytes)
}

fn held(segment: &Segment) -> Held {
    Held {
        bytes: segment.bytes,
        stream: segment.stream,
        kind: segment.kind,
        is_expandable: segment.is_expandable,
        pool: segment.pool,
        stack: segment.stack,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_lives_to_the_end_has_the_bytes_that_the_end_states() {
        let event = |action, address, bytes| Event { action, address, bytes, ..Event::default() };
        let block = |address, bytes, requested_bytes, state| Block {
            address,
            bytes,
            requested_bytes,
            state,
            ..Block::default()
        };
        let blocks = vec![block(0, 2048, 1500, BlockState::Live), block(2048, 2048, 700, BlockState::Free)];
        let history = DeviceHistory {
            granule_bytes: 512,
            end: vec![Segment { address: 0, bytes: 4096, blocks, ..Segment::default() }],
            events: vec![
                event(Action::SegmentAlloc, 0, 4096),
                event(Action::Alloc, 0, 600),
                event(Action::FreeCompleted, 0, 600),
                // 548 bytes would be left over, which this allocator doesn't split off below 600.
                event(Action::Alloc, 0, 1500),
            ],
            ..DeviceHistory::default()
        };
        let mut map = MemoryMap::new(&history);
        let mut allocated = Vec::new();
        for event in &history.events {
            map.apply(event);
            allocated.push(map.totals().allocated);
        }
        // Who is gone took what rounding says.
        assert_eq!(allocated, [0, 1024, 0, 2048]);
        assert_eq!((map.totals().live, map.largest_free()), (1500, 2048));
        map.check().unwrap();
    }
}
