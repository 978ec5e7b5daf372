//! What a file leaves to be worked out: what was there before its first event, and whether its events lead to its end.

use hashbrown::HashMap;
use records::{Action, BlockState, Defect, DeviceHistory, MemoryMap, Segment, rebuild_start};

/// A segment of the final state.
#[derive(Debug)]
pub(super) struct End {
    pub(super) segment: Segment,
    /// Blocks of which the file doesn't say what was asked for.
    pub(super) without_request: Vec<usize>,
}

/// Fills in start, end and defects. `has_end` tells an empty final state from none.
pub(super) fn finish(device: &mut DeviceHistory, mut end: Vec<End>, has_end: bool) {
    find_requests(device, &mut end);
    device.end = end.into_iter().map(|end| end.segment).collect();
    device.end.sort_by_key(|segment| segment.address);
    // Two at one address can't be told apart by what follows; other overlaps are seen when they are played.
    let before = device.end.len();
    device.end.dedup_by_key(|segment| segment.address);
    for _ in device.end.len()..before {
        device.defects.note(Defect::SegmentOverlap, 0);
    }
    if has_end {
        let (start, defects) = rebuild_start(&device.end, &device.events, device.granule_bytes);
        device.start = start;
        device.defects.add(&defects);
    }
    let mut map = MemoryMap::new(device);
    let mut peak_reserved = map.totals().reserved;
    let mut limit = None;
    for event in &device.events {
        map.apply(event);
        let reserved = map.totals().reserved;
        peak_reserved = peak_reserved.max(reserved);
        if event.action == Action::OutOfMemory && event.address > 0 {
            // The device had this much left, so together it is what this allocator could have had.
            limit = reserved.checked_add(event.address);
        }
    }
    if has_end {
        map.compare(&device.end);
    }
    device.defects.add(map.defects());
    device.capacity_bytes = device.capacity_bytes.or(limit.map(|limit| limit.max(peak_reserved)));
}

/// Files from before 2.1 don't say what was asked for a block; its last alloc does, if it was recorded.
fn find_requests(device: &DeviceHistory, end: &mut [End]) {
    let mut wanted = HashMap::new();
    for (index, end) in end.iter().enumerate() {
        for &block in &end.without_request {
            if end.segment.blocks[block].state != BlockState::Free {
                wanted.insert(end.segment.blocks[block].address, (index, block));
            }
        }
    }
    for event in device.events.iter().rev() {
        if wanted.is_empty() {
            return;
        }
        if event.action == Action::Alloc
            && let Some((segment, block)) = wanted.remove(&event.address)
        {
            let block = &mut end[segment].segment.blocks[block];
            if event.bytes <= block.bytes {
                block.requested_bytes = event.bytes;
            }
        }
    }
}
