//! From the end of a record back to its beginning.

use std::collections::BTreeMap;

use crate::{Action, Block, BlockState, Defect, Defects, Event, Segment, SegmentKind};

/// The segments and blocks before the first of `events`, worked out from those after the last one.
///
/// Where events contradict the state they lead to, the event is believed as far as possible and counted as
/// [`Defect::StartUnclear`]. `granule_bytes` is what the allocator rounds requests up to: blocks that were freed in
/// between are no longer in the file, and what they took up has to be worked out.
pub fn rebuild_start(end: &[Segment], events: &[Event], granule_bytes: u64) -> (Vec<Segment>, Defects) {
    let granule_bytes = granule_bytes.max(1);
    let mut back = Backwards::new(end);
    // Some writers leave out one half of a free: then the other half stands for both.
    let has_requests = events.iter().any(|event| event.action == Action::FreeRequested);
    let has_completions = events.iter().any(|event| event.action == Action::FreeCompleted);
    for (index, event) in events.iter().enumerate().rev() {
        let is_sound = match event.action {
            Action::Alloc => back.undo_alloc(event),
            Action::FreeCompleted => {
                let state = if has_requests { BlockState::Pending } else { BlockState::Live };
                back.put_block(event, state, granule_bytes)
            }
            Action::FreeRequested if has_completions || back.blocks.contains_key(&event.address) => {
                back.undo_request(event)
            }
            Action::FreeRequested => back.put_block(event, BlockState::Live, granule_bytes),
            Action::SegmentAlloc | Action::SegmentMap => back.undo_segment(event),
            Action::SegmentFree | Action::SegmentUnmap => back.put_segment(event),
            Action::OutOfMemory | Action::Snapshot | Action::Step => true,
        };
        if !is_sound {
            back.defects.note(Defect::StartUnclear, index as u64);
        }
    }
    back.finish()
}

struct Backwards {
    segments: BTreeMap<u64, Segment>,
    blocks: BTreeMap<u64, Block>,
    defects: Defects,
}

impl Backwards {
    fn new(end: &[Segment]) -> Self {
        let mut back = Self { segments: BTreeMap::new(), blocks: BTreeMap::new(), defects: Defects::default() };
        for segment in end {
            for block in segment.blocks.iter().filter(|block| block.state != BlockState::Free) {
                back.blocks.insert(block.address, *block);
            }
            back.segments.insert(segment.address, Segment { blocks: Vec::new(), ..segment.clone() });
        }
        back
    }

    fn undo_alloc(&mut self, event: &Event) -> bool {
        self.blocks.remove(&event.address).is_some()
    }

    fn undo_request(&mut self, event: &Event) -> bool {
        match self.blocks.get_mut(&event.address) {
            Some(block) => {
                let was_pending = block.state == BlockState::Pending;
                block.state = BlockState::Live;
                was_pending
            }
            None => false,
        }
    }

    fn put_block(&mut self, event: &Event, state: BlockState, granule_bytes: u64) -> bool {
        let rounded = event.bytes.max(1).checked_next_multiple_of(granule_bytes).unwrap_or(event.bytes.max(1));
        // A block that its allocator didn't round ends where its neighbour begins or its segment ends.
        let next = self.blocks.range(event.address.saturating_add(1)..).next().map(|(at, _)| *at);
        let segment = self.segments.range(..=event.address).next_back();
        let segment_end = segment.map(|(at, segment)| at.saturating_add(segment.bytes));
        let limit = next.into_iter().chain(segment_end.filter(|end| *end > event.address)).min();
        let bytes = limit.map_or(rounded, |limit| rounded.min((limit - event.address).max(event.bytes.max(1))));
        let block = Block {
            address: event.address,
            bytes,
            requested_bytes: event.bytes,
            state,
            stream: event.stream,
            // Who asked for it is told by its alloc; where that is before the record, the free is all there is.
            stack: event.stack,
            tag: event.tag,
        };
        self.blocks.insert(event.address, block).is_none()
    }

    fn undo_segment(&mut self, event: &Event) -> bool {
        let Some(end) = event.address.checked_add(event.bytes) else { return false };
        let mut covered: u64 = 0;
        while let Some((&at, segment)) = self.segments.range(..end).next_back() {
            let segment_end = at.saturating_add(segment.bytes);
            if segment_end <= event.address {
                break;
            }
            let Some(segment) = self.segments.remove(&at) else { break };
            let (low, high) = (at.max(event.address), segment_end.min(end));
            // Segments of a file may overlap, so their sum may be anything.
            covered = covered.saturating_add(high - low);
            if at < low {
                self.segments.insert(at, Segment { bytes: low - at, ..segment.clone() });
            }
            if high < segment_end {
                self.segments.insert(high, Segment { address: high, bytes: segment_end - high, ..segment });
            }
        }
        covered == event.bytes
    }

    fn put_segment(&mut self, event: &Event) -> bool {
        let Some(end) = event.address.checked_add(event.bytes) else { return false };
        if event.bytes == 0 {
            return true;
        }
        let is_expandable = event.action == Action::SegmentUnmap;
        let is_free = self
            .segments
            .range(..end)
            .next_back()
            .is_none_or(|(at, segment)| at.saturating_add(segment.bytes) <= event.address);
        if !is_free {
            return false;
        }
        let mut segment = Segment {
            address: event.address,
            bytes: event.bytes,
            stream: event.stream,
            kind: SegmentKind::of_event(event),
            is_expandable,
            pool: (0, 0),
            stack: event.stack,
            blocks: Vec::new(),
        };
        if is_expandable {
            let joins = |other: &Segment| other.is_expandable && other.stream == event.stream;
            if let Some(after) = self.segments.get(&end).filter(|after| joins(after)) {
                segment.bytes = segment.bytes.saturating_add(after.bytes);
                self.segments.remove(&end);
            }
            if let Some((_, before)) = self.segments.range_mut(..event.address).next_back()
                && joins(before)
                && before.address.saturating_add(before.bytes) == event.address
            {
                before.bytes = before.bytes.saturating_add(segment.bytes);
                return true;
            }
        }
        self.segments.insert(segment.address, segment);
        true
    }

    fn finish(self) -> (Vec<Segment>, Defects) {
        let Self { mut segments, blocks, mut defects } = self;
        for (address, block) in blocks {
            let home = segments.range_mut(..=address).next_back().map(|(_, segment)| segment);
            let end = address.saturating_add(block.bytes);
            match home.filter(|segment| end <= segment.address.saturating_add(segment.bytes)) {
                Some(segment) => segment.blocks.push(block),
                None => defects.note(Defect::OutsideSegment, 0),
            }
        }
        (segments.into_values().collect(), defects)
    }
}
