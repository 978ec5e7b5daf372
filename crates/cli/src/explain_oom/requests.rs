//! What a recorded run asked for, up to the request in question, to be asked of other allocators.

use std::collections::HashMap;

use records::{Action, BlockState, DeviceHistory, Operation, Row, TightRequest, Trace};

/// When a block that was dropped can be handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frees {
    /// When the recorded allocator had it back from its streams.
    AsRecorded,
    /// At once.
    AtOnce,
}

/// The requests of a recording before `request`, and that one last. Blocks from before the record come first, by address.
pub(super) fn requests(device: &DeviceHistory, request: &TightRequest, frees: Frees) -> Trace {
    let count = usize::try_from(request.event).unwrap_or(usize::MAX).min(device.events.len());
    let events = &device.events[..count];
    // Some writers leave out one half of a free: then the other half stands for both.
    let has = |action| device.events.iter().any(|event| event.action == action);
    // One that states what is pending at the end writes both, even if no free completed.
    let states_pending =
        device.end.iter().flat_map(|segment| &segment.blocks).any(|block| block.state == BlockState::Pending);
    let frees_at = match (frees, has(Action::FreeRequested), has(Action::FreeCompleted) || states_pending) {
        (_, false, _) | (Frees::AsRecorded, _, true) => Action::FreeCompleted,
        _ => Action::FreeRequested,
    };
    let mut asked = Asked { rows: Vec::with_capacity(events.len() + 1), ids: HashMap::new(), next: 0 };
    for block in device.start.iter().flat_map(|segment| &segment.blocks) {
        let is_held = match block.state {
            BlockState::Live => true,
            BlockState::Pending => frees_at == Action::FreeCompleted,
            BlockState::Free => false,
        };
        if is_held {
            asked.alloc(block.address, block.requested_bytes, block.stream, 0);
        }
    }
    for event in events {
        match event.action {
            Action::Alloc => asked.alloc(event.address, event.bytes, event.stream, event.time_ns),
            action if action == frees_at => asked.free(event.address, event.time_ns),
            _ => {}
        }
    }
    asked.alloc(u64::MAX, request.bytes, request.stream, request.time_ns);
    Trace { rows: asked.rows, ..Trace::default() }
}

struct Asked {
    rows: Vec<Row>,
    /// The block at each address.
    ids: HashMap<u64, u64>,
    next: u64,
}

impl Asked {
    fn alloc(&mut self, address: u64, bytes: u64, stream: u64, time_ns: u64) {
        // A file that contradicts itself places blocks on blocks.
        self.free(address, time_ns);
        let id = self.next;
        self.next += 1;
        self.ids.insert(address, id);
        self.rows.push(Row {
            operation: Operation::Alloc,
            id,
            bytes,
            stream: stream as i64,
            time_ns,
            ..Row::default()
        });
    }

    fn free(&mut self, address: u64, time_ns: u64) {
        if let Some(id) = self.ids.remove(&address) {
            self.rows.push(Row { operation: Operation::Free, id, time_ns, ..Row::default() });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use records::{Block, Event, Segment, tightest_request};

    #[test]
    fn what_was_asked_ends_with_the_request_that_failed() {
        let event = |action, address, bytes| Event { action, address, bytes, stream: 3, ..Event::default() };
        let block = |address, state| Block { address, bytes: 512, requested_bytes: 7, state, ..Block::default() };
        let blocks = vec![block(0, BlockState::Live), block(512, BlockState::Pending), block(1024, BlockState::Free)];
        let device = DeviceHistory {
            start: vec![Segment { bytes: 4096, blocks, ..Segment::default() }],
            events: vec![
                event(Action::Alloc, 2048, 100),
                event(Action::FreeRequested, 2048, 100),
                event(Action::FreeCompleted, 512, 7),
                event(Action::OutOfMemory, 0, 5000),
                event(Action::Alloc, 2560, 100),
            ],
            ..DeviceHistory::default()
        };
        let request = tightest_request(&device, None).unwrap();
        let told = |frees| -> Vec<(Operation, u64, u64)> {
            let trace = requests(&device, &request, frees);
            trace.rows.iter().map(|row| (row.operation, row.id, row.bytes)).collect()
        };
        use Operation::{Alloc, Free};
        let as_recorded = [(Alloc, 0, 7), (Alloc, 1, 7), (Alloc, 2, 100), (Free, 1, 0), (Alloc, 3, 5000)];
        assert_eq!(told(Frees::AsRecorded), as_recorded);
        assert_eq!(told(Frees::AtOnce), [(Alloc, 0, 7), (Alloc, 1, 100), (Free, 1, 0), (Alloc, 2, 5000)]);
    }

    #[test]
    fn what_never_completed_and_is_pending_at_the_end_is_not_freed() {
        let event = |action, address, bytes| Event { action, address, bytes, ..Event::default() };
        let pending = Block { bytes: 512, requested_bytes: 100, state: BlockState::Pending, ..Block::default() };
        let mut device = DeviceHistory {
            events: vec![
                event(Action::Alloc, 0, 100),
                event(Action::FreeRequested, 0, 100),
                event(Action::OutOfMemory, 0, 5000),
            ],
            end: vec![Segment { bytes: 4096, blocks: vec![pending], ..Segment::default() }],
            ..DeviceHistory::default()
        };
        let request = tightest_request(&device, None).unwrap();
        let frees = |device: &DeviceHistory, frees| {
            requests(device, &request, frees).rows.iter().filter(|row| row.operation == Operation::Free).count()
        };
        assert_eq!((frees(&device, Frees::AsRecorded), frees(&device, Frees::AtOnce)), (0, 1));
        // Of a writer that leaves out completions, a request to free is all there is.
        device.end.clear();
        assert_eq!(frees(&device, Frees::AsRecorded), 1);
    }
}
