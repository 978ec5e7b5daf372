//! Maps under any sequence of events, and starts worked out from ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use records::{
    Action, Block, BlockState, DeviceHistory, Event, MemoryMap, Segment, SegmentKind, StackId, rebuild_start,
};

const GRANULE: u64 = 512;

/// Few addresses and sizes, so that events meet; and some at the far end, where sums overflow.
fn any_event() -> impl Strategy<Value = Event> {
    let action = prop::sample::select(Action::ALL.to_vec());
    let address = prop_oneof![8 => (0_u64..64).prop_map(|at| at * 128), 1 => (0_u64..2000).prop_map(|d| u64::MAX - d)];
    let bytes = prop_oneof![8 => (0_u64..40).prop_map(|n| n * 100), 1 => (0_u64..2000).prop_map(|d| u64::MAX - d)];
    (action, address, bytes, 0_u64..3, 0_u64..5).prop_map(|(action, address, bytes, stream, time_ns)| Event {
        action,
        address,
        bytes,
        stream,
        time_ns,
        ..Event::default()
    })
}

fn any_block() -> impl Strategy<Value = Block> {
    let state = prop::sample::select(vec![BlockState::Live, BlockState::Pending, BlockState::Free]);
    (any_event(), state, prop_oneof![3 => 0_u64..2000, 1 => any::<u64>()]).prop_map(
        |(event, state, requested_bytes)| Block {
            address: event.address,
            bytes: event.bytes,
            requested_bytes,
            state,
            ..Block::default()
        },
    )
}

fn any_segments() -> impl Strategy<Value = Vec<Segment>> {
    let segment = (any_event(), any::<bool>(), prop::collection::vec(any_block(), 0..5)).prop_map(
        |(event, is_expandable, blocks)| Segment {
            address: event.address,
            bytes: event.bytes,
            stream: event.stream,
            is_expandable,
            blocks,
            ..Segment::default()
        },
    );
    prop::collection::vec(segment, 0..5)
}

/// What a sound allocator does: segments, some of them expandable, blocks in their holes, frees in two halves.
#[derive(Default)]
struct Allocator {
    segments: BTreeMap<u64, Segment>,
    blocks: BTreeMap<u64, Block>,
    events: Vec<Event>,
}

/// A wish; the numbers choose among what is possible.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Reserve { slots: u64, at: u64, is_expandable: bool },
    Alloc { bytes: u64, at: u64 },
    Drop(usize),
    Complete(usize),
    Release(usize),
}

const SLOT: u64 = 4096;

fn any_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        2 => (1_u64..4, 0_u64..40, any::<bool>())
            .prop_map(|(slots, at, is_expandable)| Wish::Reserve { slots, at, is_expandable }),
        8 => (1_u64..6000, 0_u64..400).prop_map(|(bytes, at)| Wish::Alloc { bytes, at }),
        6 => any::<usize>().prop_map(Wish::Drop),
        6 => any::<usize>().prop_map(Wish::Complete),
        1 => any::<usize>().prop_map(Wish::Release),
    ]
}

impl Allocator {
    fn note(&mut self, action: Action, address: u64, bytes: u64) {
        let event = Event { action, address, bytes, ..Event::default() };
        // The stack of a free is that of its alloc, as the start can't know better.
        self.events.push(Event { stack: StackId((address / GRANULE) as u32), ..event });
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Reserve { slots, at, is_expandable } => {
                // Expandable and other segments have an address space each.
                let address = SLOT * at + if is_expandable { 1 << 20 } else { 0 };
                let (end, bytes) = (address + slots * SLOT, slots * SLOT);
                if self.segments.range(..end).next_back().is_some_and(|(at, s)| at + s.bytes > address) {
                    return;
                }
                self.note(if is_expandable { Action::SegmentMap } else { Action::SegmentAlloc }, address, bytes);
                let kind = if is_expandable {
                    SegmentKind::Any
                } else if bytes <= 2 << 20 {
                    SegmentKind::Small
                } else {
                    SegmentKind::Large
                };
                let stack = StackId((address / GRANULE) as u32);
                self.segments
                    .insert(address, Segment { address, bytes, kind, is_expandable, stack, ..Segment::default() });
            }
            Wish::Alloc { bytes, at } => {
                let rounded = bytes.next_multiple_of(GRANULE);
                let starts: Vec<u64> = self
                    .segments
                    .values()
                    .flat_map(|s| {
                        (s.address..s.address + s.bytes)
                            .step_by(GRANULE as usize)
                            .map(move |a| (a, s.address + s.bytes))
                    })
                    .filter(|(a, end)| a + rounded <= *end)
                    .map(|(a, _)| a)
                    .filter(|a| {
                        self.blocks.range(..a + rounded).next_back().is_none_or(|(b, block)| b + block.bytes <= *a)
                    })
                    .collect();
                let Some(&address) = starts.get(at as usize % starts.len().max(1)) else { return };
                self.note(Action::Alloc, address, bytes);
                let stack = StackId((address / GRANULE) as u32);
                let block = Block { address, bytes: rounded, requested_bytes: bytes, stack, ..Block::default() };
                self.blocks.insert(address, block);
            }
            Wish::Drop(index) => {
                if let Some(block) = self.pick(index, BlockState::Live) {
                    self.note(Action::FreeRequested, block.address, block.requested_bytes);
                    self.blocks.get_mut(&block.address).unwrap().state = BlockState::Pending;
                }
            }
            Wish::Complete(index) => {
                if let Some(block) = self.pick(index, BlockState::Pending) {
                    self.note(Action::FreeCompleted, block.address, block.requested_bytes);
                    self.blocks.remove(&block.address);
                }
            }
            Wish::Release(index) => {
                let empty = |s: &&Segment| self.blocks.range(s.address..s.address + s.bytes).next().is_none();
                let empty: Vec<Segment> = self.segments.values().filter(empty).cloned().collect();
                if let Some(segment) = empty.get(index % empty.len().max(1)) {
                    let action = if segment.is_expandable { Action::SegmentUnmap } else { Action::SegmentFree };
                    self.note(action, segment.address, segment.bytes);
                    self.segments.remove(&segment.address);
                }
            }
        }
    }

    fn pick(&self, index: usize, state: BlockState) -> Option<Block> {
        let of_state: Vec<Block> = self.blocks.values().copied().filter(|block| block.state == state).collect();
        of_state.get(index % of_state.len().max(1)).copied()
    }

    /// The segments as a file would have them: neighbours that are expandable are one.
    fn state(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for segment in self.segments.values() {
            match segments.last_mut().filter(|last| last.is_expandable && last.address + last.bytes == segment.address)
            {
                Some(last) if segment.is_expandable => last.bytes += segment.bytes,
                _ => segments.push(segment.clone()),
            }
        }
        for segment in &mut segments {
            segment.blocks =
                self.blocks.range(segment.address..segment.address + segment.bytes).map(|(_, b)| *b).collect();
        }
        segments
    }
}

/// Of a run that was mapped in parts, which part was first isn't in the file.
fn without_origin(mut segments: Vec<Segment>) -> Vec<Segment> {
    segments.iter_mut().for_each(|segment| segment.stack = StackId::EMPTY);
    segments
}

proptest! {
    #[test]
    fn a_map_holds_together_whatever_happens(
        start in any_segments(),
        events in prop::collection::vec(any_event(), 0..60),
        end in any_segments(),
    ) {
        let history = DeviceHistory { granule_bytes: GRANULE, start, events, ..DeviceHistory::default() };
        let mut map = MemoryMap::new(&history);
        prop_assert_eq!(map.check(), Ok(()));
        for event in &history.events {
            map.apply(event);
            prop_assert_eq!(map.check(), Ok(()), "after {:?}", event);
            let totals = map.totals();
            prop_assert!(totals.live <= totals.allocated && totals.allocated <= totals.active);
        }
        map.compare(&end);
        // Whatever the end says, a start comes out of it that a map can begin with.
        let (start, _) = rebuild_start(&end, &history.events, GRANULE);
        prop_assert_eq!(MemoryMap::new(&DeviceHistory { start, ..DeviceHistory::default() }).check(), Ok(()));
    }

    #[test]
    fn a_start_worked_out_from_the_end_is_the_one_there_was(
        before in prop::collection::vec(any_wish(), 0..80),
        after in prop::collection::vec(any_wish(), 0..80),
    ) {
        let mut allocator = Allocator::default();
        before.into_iter().for_each(|wish| allocator.grant(wish));
        allocator.events.clear();
        let start = allocator.state();
        after.into_iter().for_each(|wish| allocator.grant(wish));
        let (events, end) = (allocator.events.clone(), allocator.state());

        let (rebuilt, defects) = rebuild_start(&end, &events, GRANULE);
        // A record of one half of the frees alone reads as one whose writer leaves out the other.
        let has = |action| events.iter().any(|event: &Event| event.action == action);
        prop_assume!(has(Action::FreeRequested) || !has(Action::FreeCompleted));
        prop_assert!(defects.is_empty(), "{:?}", defects);
        prop_assert_eq!(without_origin(rebuilt), without_origin(start.clone()));

        let history = DeviceHistory { granule_bytes: GRANULE, start, events, ..DeviceHistory::default() };
        let mut map = MemoryMap::new(&history);
        history.events.iter().for_each(|event| map.apply(event));
        map.compare(&end);
        prop_assert!(map.defects().is_empty(), "{:?}", map.defects());
        prop_assert_eq!(without_origin(map.segments().collect()), without_origin(end));
    }
}
