//! From what an allocator did to what was asked of it.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::{Action, Block, BlockState, DeviceHistory, Event, History, NameId, Operation, Row, Trace};

/// The tag of blocks that were there before the first event.
const INITIAL: &str = "initial";

/// Streams are kept as they are numbered if no number is above this; else they are addresses of no use to anybody.
const MAX_STREAM: u64 = u16::MAX as u64;

impl History {
    /// What was asked of the allocator, on one device or, with `None`, on all of them in order of time.
    ///
    /// Blocks get ids in order of their first row; those that were there before the first event come first, tagged
    /// `initial`. A requested free is [`Operation::Free`], and its completion [`Operation::FreeCompleted`]; where only the
    /// completion was recorded it is the free. Mapped and unmapped parts of segments become segments. Streams that are
    /// numbered by addresses are numbered anew: 0 stays, the others are 1, 2, ... as they appear. Names and stacks are
    /// kept; what the program said about itself is left out.
    ///
    /// The trace is sound even where the history isn't: an event that contradicts those before it is left out, a block
    /// that is placed on another's address ends that one, and a comment says how often that happened.
    pub fn to_trace(&self, device: Option<u32>) -> Trace {
        let chosen = |history: &&DeviceHistory| device.is_none_or(|device| device == history.device);
        let devices: Vec<&DeviceHistory> = self.devices.iter().filter(chosen).collect();
        let mut trace = Trace { name: self.name.clone(), ..Trace::default() };
        (trace.names, trace.stacks) = (self.names.clone(), self.stacks.clone());
        let initial = trace.names.intern(INITIAL);
        if !self.allocator.is_empty() {
            trace.comments.push(format!("allocator: {}", self.allocator));
        }
        trace.rows.reserve(devices.iter().map(|device| device.events.len()).sum());
        let mut walk = Walk { rows: trace.rows, ..Walk::default() };
        let mut lives: Vec<Live> = devices.iter().map(|_| Live::new()).collect();
        for (device, live) in devices.iter().zip(&mut lives) {
            for block in device.start.iter().flat_map(|segment| &segment.blocks) {
                walk.start(device.device, block, initial, live);
            }
        }
        let mut next = vec![0; devices.len()];
        while let Some(index) = earliest(&devices, &next) {
            walk.follow(devices[index].device, &devices[index].events[next[index]], &mut lives[index]);
            next[index] += 1;
        }
        trace.comments.extend(walk.comments());
        trace.rows = walk.rows;
        trace.number_streams();
        trace
    }
}

impl Trace {
    /// Numbers streams anew if they are numbered by addresses, that is, if one is above 65 535 or negative (other than
    /// in a sync of all streams): 0 stays, the others are 1, 2, ... in order of first appearance.
    pub fn number_streams(&mut self) {
        let is_stream = |row: &Row| row.operation != Operation::Sync || row.stream != Row::ALL_STREAMS;
        let is_large = |stream: u64| stream > MAX_STREAM;
        let named = self.rows.iter().filter(|row| is_stream(row));
        let mut streams = named.flat_map(|row| [Some(row.stream as u64), waited_for(row)]).flatten();
        if !streams.any(is_large) {
            return;
        }
        let mut numbers: HashMap<u64, i64> = HashMap::from_iter([(0, 0)]);
        let mut number = |stream: u64| -> i64 {
            let next = numbers.len() as i64;
            *numbers.entry(stream).or_insert(next)
        };
        for row in self.rows.iter_mut().filter(|row| is_stream(row)) {
            if let Some(stream) = waited_for(row) {
                row.id = number(stream) as u64;
            }
            row.stream = number(row.stream as u64);
        }
    }
}

/// The other stream that a row names.
fn waited_for(row: &Row) -> Option<u64> {
    (row.operation == Operation::Wait).then_some(row.id)
}

/// The device whose next event is the earliest; of several the first.
fn earliest(devices: &[&DeviceHistory], next: &[usize]) -> Option<usize> {
    if let [device] = devices {
        return (next[0] < device.events.len()).then_some(0);
    }
    let heads = devices.iter().zip(next).enumerate();
    let heads = heads.filter_map(|(index, (device, &next))| Some((device.events.get(next)?.time_ns, index)));
    heads.min().map(|(_, index)| index)
}

/// Blocks of a device that aren't free, by address: their ids, and whether their free was requested.
type Live = BTreeMap<u64, (u64, bool)>;

#[derive(Default)]
struct Walk {
    rows: Vec<Row>,
    next_id: u64,
    steps: u64,
    left_out: u64,
    ended_early: u64,
}

impl Walk {
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// A block that was there before the first event.
    fn start(&mut self, device: u32, block: &Block, tag: NameId, live: &mut Live) {
        if block.state == BlockState::Free {
            return;
        }
        let id = self.fresh_id();
        let bytes = if block.requested_bytes == 0 { block.bytes } else { block.requested_bytes };
        let row = Row { id, bytes, stream: block.stream as i64, device, tag, stack: block.stack, ..Row::default() };
        self.rows.push(row);
        let is_pending = block.state == BlockState::Pending;
        if is_pending {
            self.rows.push(Row { operation: Operation::Free, ..row });
        }
        live.insert(block.address, (id, is_pending));
    }

    fn follow(&mut self, device: u32, event: &Event, live: &mut Live) {
        let row = Row {
            bytes: event.bytes,
            stream: event.stream as i64,
            device,
            tag: event.tag,
            stack: event.stack,
            time_ns: event.time_ns,
            ..Row::default()
        };
        let (operation, id) = match event.action {
            Action::Alloc => {
                let id = self.fresh_id();
                if let Some((before, is_pending)) = live.insert(event.address, (id, false)) {
                    let operation = if is_pending { Operation::FreeCompleted } else { Operation::Free };
                    self.rows.push(Row { operation, id: before, bytes: 0, tag: NameId::EMPTY, ..row });
                    self.ended_early += 1;
                }
                (Operation::Alloc, id)
            }
            Action::FreeRequested => match live.get_mut(&event.address) {
                Some((id, is_pending @ false)) => {
                    *is_pending = true;
                    (Operation::Free, *id)
                }
                _ => return self.left_out += 1,
            },
            Action::FreeCompleted => match live.remove(&event.address) {
                Some((id, true)) => (Operation::FreeCompleted, id),
                Some((id, false)) => (Operation::Free, id),
                None => return self.left_out += 1,
            },
            Action::SegmentAlloc | Action::SegmentMap => (Operation::SegmentAlloc, event.address),
            Action::SegmentFree | Action::SegmentUnmap => (Operation::SegmentFree, event.address),
            Action::OutOfMemory => (Operation::OutOfMemory, 0),
            Action::Snapshot => (Operation::Snapshot, 0),
            Action::Step => {
                self.steps += 1;
                (Operation::Step, self.steps)
            }
        };
        self.rows.push(Row { operation, id, ..row });
    }

    fn comments(&self) -> Vec<String> {
        let mut comments = Vec::new();
        if self.left_out > 0 {
            comments.push(format!("left out: {} frees of blocks that were not there", self.left_out));
        }
        if self.ended_early > 0 {
            comments.push(format!("added: {} frees of blocks whose address went to another", self.ended_early));
        }
        comments
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{Segment, StackId};

    fn event(action: Action, address: u64, bytes: u64, time_ns: u64) -> Event {
        Event { action, address, bytes, time_ns, ..Event::default() }
    }

    fn history(devices: Vec<DeviceHistory>) -> History {
        History { name: "run".to_owned(), devices, ..History::default() }
    }

    fn told(trace: &Trace) -> Vec<(Operation, u64, u64)> {
        trace.rows.iter().map(|row| (row.operation, row.id, row.bytes)).collect()
    }

    use Action as A;
    use Operation as Op;

    #[test]
    fn addresses_become_ids_and_frees_keep_their_halves() {
        let block = |address, state, requested_bytes| Block {
            address,
            bytes: 512,
            requested_bytes,
            state,
            stack: StackId(3),
            ..Block::default()
        };
        let blocks =
            vec![block(0, BlockState::Live, 100), block(512, BlockState::Free, 7), block(1024, BlockState::Pending, 0)];
        let device = DeviceHistory {
            start: vec![Segment { blocks, ..Segment::default() }],
            events: vec![
                event(A::SegmentMap, 4096, 4096, 1),
                event(A::Alloc, 4096, 10, 2),
                event(A::FreeCompleted, 1024, 512, 3),
                event(A::FreeRequested, 4096, 10, 4),
                event(A::FreeCompleted, 4096, 10, 5),
                event(A::Alloc, 4096, 20, 6),
                event(A::FreeCompleted, 4096, 20, 7),
                event(A::OutOfMemory, 77, 1 << 30, 8),
                event(A::Snapshot, 0, 0, 9),
                event(A::Step, 0, 0, 10),
                event(A::SegmentUnmap, 4096, 4096, 11),
            ],
            ..DeviceHistory::default()
        };
        let trace = history(vec![device]).to_trace(None);
        assert_eq!(
            told(&trace),
            [
                (Op::Alloc, 0, 100),
                (Op::Alloc, 1, 512),
                (Op::Free, 1, 512),
                (Op::SegmentAlloc, 4096, 4096),
                (Op::Alloc, 2, 10),
                (Op::FreeCompleted, 1, 512),
                (Op::Free, 2, 10),
                (Op::FreeCompleted, 2, 10),
                (Op::Alloc, 3, 20),
                (Op::Free, 3, 20),
                (Op::OutOfMemory, 0, 1 << 30),
                (Op::Snapshot, 0, 0),
                (Op::Step, 1, 0),
                (Op::SegmentFree, 4096, 4096),
            ]
        );
        assert_eq!((trace.names.get(trace.rows[0].tag), trace.rows[0].stack), ("initial", StackId(3)));
        assert!(trace.rows[4].tag.is_empty() && trace.comments.is_empty());
        assert_eq!(trace.rows.iter().map(|row| row.time_ns).max(), Some(11));
    }

    #[test]
    fn what_contradicts_itself_leaves_a_sound_trace_and_a_comment() {
        let device = DeviceHistory {
            events: vec![
                event(A::FreeRequested, 1, 8, 0),
                event(A::FreeCompleted, 1, 8, 0),
                event(A::Alloc, 1, 8, 0),
                event(A::Alloc, 1, 16, 0),
                event(A::FreeRequested, 1, 16, 0),
                event(A::FreeRequested, 1, 16, 0),
                event(A::Alloc, 1, 32, 0),
            ],
            ..DeviceHistory::default()
        };
        let trace = history(vec![device]).to_trace(Some(0));
        assert_eq!(
            told(&trace),
            [
                (Op::Alloc, 0, 8),
                (Op::Free, 0, 0),
                (Op::Alloc, 1, 16),
                (Op::Free, 1, 16),
                (Op::FreeCompleted, 1, 0),
                (Op::Alloc, 2, 32),
            ]
        );
        assert_eq!(
            trace.comments,
            [
                "left out: 3 frees of blocks that were not there",
                "added: 2 frees of blocks whose address went to another"
            ]
        );
    }

    #[test]
    fn streams_keep_small_numbers_and_lose_addresses() {
        let row = |operation, id, stream| Row { operation, id, stream, ..Row::default() };
        let rows = vec![row(Op::Alloc, 9, 7), row(Op::Wait, 65_535, 7), row(Op::Sync, 0, -1)];
        let mut trace = Trace { rows, ..Trace::default() };
        let before = trace.rows.clone();
        trace.number_streams();
        assert_eq!(trace.rows, before);
        trace.rows.push(row(Op::Wait, 65_536, 0));
        trace.number_streams();
        let streams: Vec<(u64, i64)> = trace.rows.iter().map(|row| (row.id, row.stream)).collect();
        assert_eq!(streams, [(9, 1), (2, 1), (0, -1), (3, 0)]);
    }

    #[test]
    fn devices_are_merged_by_time_and_streams_that_are_addresses_numbered() {
        let on = |device, stream, times: [u64; 2]| DeviceHistory {
            device,
            events: times.map(|time| Event { stream, ..event(A::Alloc, 0x1000 * time, 8, time) }).to_vec(),
            ..DeviceHistory::default()
        };
        let both = history(vec![on(0, 0x7f00_0000, [1, 4]), on(3, 0, [2, 3])]);
        let trace = both.to_trace(None);
        let told: Vec<(u32, u64, i64)> = trace.rows.iter().map(|row| (row.device, row.id, row.stream)).collect();
        assert_eq!(told, [(0, 0, 1), (3, 1, 0), (3, 2, 0), (0, 3, 1)]);
        assert_eq!(both.to_trace(Some(3)).rows.len(), 2);
        assert!(both.to_trace(Some(1)).rows.is_empty());
        let kept = history(vec![on(0, 7, [1, 2])]).to_trace(None);
        assert_eq!(kept.rows[0].stream, 7);
    }
}
