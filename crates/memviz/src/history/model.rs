//! A device's history as lives: which bytes were whose, from which moment to which.
//!
//! Moment 0 is the state before the first event shown, moment `k` the state after the `k`-th one. What lives at the
//! last moment dies at the one after it.

use std::collections::BTreeMap;

use records::{
    Action, Block, BlockState, Defect, Defects, DeviceHistory, Event, MemoryMap, SegmentKind, StackId, Totals,
    fragmentation_percent,
};

use super::window::Window;

/// The life of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// First moment.
    pub(crate) birth: u32,
    /// First moment at which only streams hold it; its death if it never waited.
    pub(crate) pend: u32,
    /// Moment after the last.
    pub(crate) death: u32,
    /// Number of the event that made it, in the whole record; `None` if it was there before the record.
    pub(crate) event: Option<u64>,
    /// What it is.
    pub(crate) block: Block,
}

/// The life of a segment, or of a part of one, that kept its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// First moment.
    pub(crate) birth: u32,
    /// Moment after the last.
    pub(crate) death: u32,
    /// Where it begins.
    pub(crate) address: u64,
    /// Bytes held.
    pub(crate) bytes: u64,
    /// Stream it serves.
    pub(crate) stream: u64,
    /// Which requests it serves.
    pub(crate) kind: SegmentKind,
    /// Whether it can grow and shrink where it is.
    pub(crate) is_expandable: bool,
    /// Private pool it belongs to.
    pub(crate) pool: (u64, u64),
    /// From where it was asked for.
    pub(crate) stack: StackId,
}

/// Addresses that were in use at some time, and where they lie once all others are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// First address.
    pub(crate) address: u64,
    /// How long it is.
    pub(crate) bytes: u64,
    /// Bytes of all stretches below.
    pub(crate) offset: u64,
}

/// What a picture shows of a device.
#[derive(Debug)]
pub(crate) struct DeviceModel<'a> {
    /// Where it comes from.
    pub(crate) history: &'a DeviceHistory,
    /// The events shown.
    pub(crate) window: Window,
    /// Lives of blocks, by birth, then by address.
    pub(crate) blocks: Vec<Life>,
    /// Lives of segments, by birth, then by address.
    pub(crate) pieces: Vec<Piece>,
    /// Sums of each moment.
    pub(crate) totals: Vec<Totals>,
    /// Largest hole of each moment.
    pub(crate) largest: Vec<u64>,
    /// Addresses in use, by address.
    pub(crate) stretches: Vec<Stretch>,
    /// What contradicts itself, as seen by whoever read the history and by playing it.
    pub(crate) defects: Defects,
}

impl<'a> DeviceModel<'a> {
    /// Plays `history` and keeps what happened in `window`.
    pub(crate) fn new(history: &'a DeviceHistory, window: Window) -> Self {
        let mut map = MemoryMap::new(history);
        let mut tracker = Tracker::new(history, &map);
        let moments = window.moments() as usize;
        let (mut totals, mut largest) = (Vec::with_capacity(moments), Vec::with_capacity(moments));
        let mut keep = |map: &MemoryMap| {
            totals.push(map.totals());
            largest.push(map.largest_free());
        };
        let (from, to) = (window.from as usize, window.to as usize);
        for (index, event) in history.events[..to].iter().enumerate() {
            if index == from {
                keep(&map);
            }
            let refused = map.defects().count(Defect::AddressOverflow);
            map.apply(event);
            if map.defects().count(Defect::AddressOverflow) == refused {
                tracker.apply(index as u64, event, &map);
            }
            if index >= from {
                keep(&map);
            }
        }
        if from == to {
            keep(&map);
        }
        // A reader that found some has played the record itself; counting them again would double them.
        let mut defects = history.defects.clone();
        if defects.is_empty() {
            defects.add(map.defects());
        }
        let (blocks, pieces) = tracker.finish(history, window);
        let stretches = stretches(&blocks, &pieces);
        Self { history, window, blocks, pieces, totals, largest, stretches, defects }
    }

    /// How many moments there are; one at least.
    pub(crate) fn moments(&self) -> u32 {
        self.window.moments()
    }

    /// The events shown.
    pub(crate) fn events(&self) -> &'a [Event] {
        &self.history.events[self.window.from as usize..self.window.to as usize]
    }

    /// Where an address in use lies once those not in use are left out.
    pub(crate) fn offset_of(&self, address: u64) -> u64 {
        let after = self.stretches.partition_point(|stretch| stretch.address <= address);
        after.checked_sub(1).map_or(0, |at| {
            let stretch = &self.stretches[at];
            stretch.offset + (address - stretch.address).min(stretch.bytes)
        })
    }

    /// Bytes of all stretches.
    pub(crate) fn height(&self) -> u64 {
        self.stretches.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// How scattered the free bytes of a moment are, in percent.
    pub(crate) fn fragmentation(&self, moment: u32) -> f64 {
        let moment = moment as usize;
        fragmentation_percent(self.largest[moment], self.totals[moment].free())
    }

    /// The first moment at which `measure` is highest.
    pub(crate) fn highest(&self, measure: impl Fn(&Totals) -> u64) -> u32 {
        let mut best = 0;
        for (moment, totals) in self.totals.iter().enumerate() {
            if measure(totals) > measure(&self.totals[best]) {
                best = moment;
            }
        }
        best as u32
    }
}

/// Follows what [`MemoryMap`] makes of the events, and keeps what ended.
struct Tracker {
    /// Lives by order of birth; moments count from the first event of the record.
    blocks: Vec<(u64, u64, u64, Option<u64>, Block)>,
    live: BTreeMap<u64, usize>,
    pieces: Vec<(u64, u64, Piece)>,
    held: BTreeMap<u64, usize>,
}

const ALIVE: u64 = u64::MAX;

impl Tracker {
    fn new(history: &DeviceHistory, map: &MemoryMap) -> Self {
        let mut tracker = Self { blocks: Vec::new(), live: BTreeMap::new(), pieces: Vec::new(), held: BTreeMap::new() };
        for block in map.blocks() {
            tracker.add_block(0, None, *block);
        }
        for segment in map.segments() {
            tracker.add_piece(0, piece_of(&segment));
        }
        // Only blocks of the start are made here, so each event makes one at most.
        tracker.blocks.reserve(history.events.len() / 3);
        tracker
    }

    fn add_block(&mut self, moment: u64, event: Option<u64>, block: Block) {
        let pend = if block.state == BlockState::Pending { moment } else { ALIVE };
        self.live.insert(block.address, self.blocks.len());
        self.blocks.push((moment, pend, ALIVE, event, block));
    }

    fn add_piece(&mut self, moment: u64, piece: Piece) {
        if piece.bytes > 0 {
            self.held.insert(piece.address, self.pieces.len());
            self.pieces.push((moment, ALIVE, piece));
        }
    }

    /// Takes over what `map` made of the event with this number.
    fn apply(&mut self, number: u64, event: &Event, map: &MemoryMap) {
        let moment = number + 1;
        match event.action {
            Action::Alloc => {
                if let Some(block) = map.block_at(event.address) {
                    self.end_blocks(moment, block.address, block.address + block.bytes, |_| true);
                    self.add_block(moment, Some(number), *block);
                }
            }
            Action::FreeRequested => {
                if let Some(&index) = self.live.get(&event.address) {
                    self.blocks[index].1 = self.blocks[index].1.min(moment);
                }
            }
            Action::FreeCompleted => {
                if let Some(index) = self.live.remove(&event.address) {
                    self.blocks[index].2 = moment;
                }
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                let end = event.address + event.bytes;
                self.end_blocks(moment, event.address, end, |address| map.block_at(address).is_none());
                self.cut_pieces(moment, event.address, end);
                self.add_piece(moment, piece_of_event(event));
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                let end = event.address + event.bytes;
                self.end_blocks(moment, event.address, end, |address| map.block_at(address).is_none());
                self.cut_pieces(moment, event.address, end);
            }
            _ => {}
        }
    }

    /// Ends the blocks that touch `[from, to)` and that `is_gone` says are no more.
    fn end_blocks(&mut self, moment: u64, from: u64, to: u64, is_gone: impl Fn(u64) -> bool) {
        let mut limit = to;
        while let Some((&address, &index)) = self.live.range(..limit).next_back() {
            if address.saturating_add(self.blocks[index].4.bytes) <= from {
                break;
            }
            limit = address;
            if is_gone(address) {
                self.live.remove(&address);
                self.blocks[index].2 = moment;
            }
        }
    }

    /// Ends what lies in `[from, to)`; what sticks out lives on as a piece of its own.
    fn cut_pieces(&mut self, moment: u64, from: u64, to: u64) {
        while let Some((&address, &index)) = self.held.range(..to).next_back() {
            let piece = self.pieces[index].2;
            let end = address + piece.bytes;
            if end <= from {
                break;
            }
            self.held.remove(&address);
            self.pieces[index].1 = moment;
            if address < from {
                self.add_piece(moment, Piece { bytes: from - address, ..piece });
            }
            if to < end {
                self.add_piece(moment, Piece { address: to, bytes: end - to, ..piece });
            }
        }
    }

    /// What falls into the window, with moments counted from its beginning.
    fn finish(self, history: &DeviceHistory, window: Window) -> (Vec<Life>, Vec<Piece>) {
        let shown = |birth: u64, death: u64| death > window.from && birth <= window.to && birth < death;
        let mut blocks: Vec<Life> = Vec::with_capacity(self.blocks.len());
        for (birth, pend, death, event, block) in self.blocks {
            if shown(birth, death) {
                let death = window.moment(death);
                let pend = window.moment(pend).min(death);
                blocks.push(Life { birth: window.moment(birth), pend, death, event, block });
            }
        }
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.pieces.len());
        for (birth, death, piece) in self.pieces {
            if !shown(birth, death) {
                continue;
            }
            // Events don't say which pool a segment is of; the final state does.
            let stated = if death == ALIVE { home(&history.end, piece.address) } else { None };
            let (kind, pool) = stated.map_or((piece.kind, piece.pool), |segment| (segment.kind, segment.pool));
            let (birth, death) = (window.moment(birth), window.moment(death));
            pieces.push(Piece { birth, death, kind, pool, ..piece });
        }
        blocks.sort_by_key(|life| (life.birth, life.block.address));
        pieces.sort_by_key(|piece| (piece.birth, piece.address));
        (blocks, pieces)
    }
}

/// The segment that holds an address, of a list by address.
fn home(segments: &[records::Segment], address: u64) -> Option<&records::Segment> {
    let after = segments.partition_point(|segment| segment.address <= address);
    let segment = &segments[after.checked_sub(1)?];
    (address - segment.address < segment.bytes).then_some(segment)
}

fn piece_of(segment: &records::Segment) -> Piece {
    Piece {
        birth: 0,
        death: 0,
        address: segment.address,
        bytes: segment.bytes,
        stream: segment.stream,
        kind: segment.kind,
        is_expandable: segment.is_expandable,
        pool: segment.pool,
        stack: segment.stack,
    }
}

fn piece_of_event(event: &Event) -> Piece {
    let is_expandable = event.action == Action::SegmentMap;
    Piece {
        birth: 0,
        death: 0,
        address: event.address,
        bytes: event.bytes,
        stream: event.stream,
        kind: SegmentKind::of_event(event),
        is_expandable,
        pool: (0, 0),
        stack: event.stack,
    }
}

/// The addresses that blocks and pieces take up, joined where they touch.
fn stretches(blocks: &[Life], pieces: &[Piece]) -> Vec<Stretch> {
    let mut taken: Vec<(u64, u64)> = pieces.iter().map(|p| (p.address, p.address + p.bytes)).collect();
    taken.sort_unstable();
    taken.dedup();
    join(&mut taken);
    // Most blocks lie in segments and change nothing.
    let is_inside = |from: u64, to: u64| {
        let after = taken.partition_point(|range| range.0 <= from);
        after.checked_sub(1).is_some_and(|at| to <= taken[at].1)
    };
    let outside: Vec<(u64, u64)> = blocks
        .iter()
        .map(|life| (life.block.address, life.block.address.saturating_add(life.block.bytes)))
        .filter(|&(from, to)| !is_inside(from, to))
        .collect();
    taken.extend(outside);
    taken.sort_unstable();
    join(&mut taken);
    let mut offset = 0;
    taken
        .into_iter()
        .map(|(from, to)| {
            let stretch = Stretch { address: from, bytes: to - from, offset };
            offset += to - from;
            stretch
        })
        .collect()
}

/// Joins sorted ranges that touch or overlap.
fn join(ranges: &mut Vec<(u64, u64)>) {
    let mut kept = 0;
    for at in 0..ranges.len() {
        let (from, to) = ranges[at];
        if kept > 0 && from <= ranges[kept - 1].1 {
            ranges[kept - 1].1 = ranges[kept - 1].1.max(to);
        } else {
            ranges[kept] = (from, to);
            kept += 1;
        }
    }
    ranges.truncate(kept);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
pub(crate) mod tests {
    use records::Segment;

    use super::*;

    /// Events at random, most of which contradict each other, and segments to begin with.
    pub(crate) fn wild(seed: u64, count: usize) -> DeviceHistory {
        let mut state = seed;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let mut events = Vec::new();
        for _ in 0..count {
            let action = [
                Action::Alloc,
                Action::Alloc,
                Action::Alloc,
                Action::FreeRequested,
                Action::FreeCompleted,
                Action::SegmentAlloc,
                Action::SegmentFree,
                Action::SegmentMap,
                Action::SegmentUnmap,
                Action::OutOfMemory,
                Action::Step,
            ][below(11) as usize];
            let (address, bytes) = match below(40) {
                0 => (u64::MAX - below(3), below(9)),
                _ => (below(40) * 1024, below(9) * 1024),
            };
            events.push(Event { action, address, bytes, stream: below(2), ..Event::default() });
        }
        let block =
            |address, bytes, state| Block { address, bytes, requested_bytes: bytes - 1, state, ..Block::default() };
        let blocks = vec![block(2048, 512, BlockState::Live), block(4096, 512, BlockState::Pending)];
        let segment = Segment { address: 2048, bytes: 8192, blocks, ..Segment::default() };
        DeviceHistory { granule_bytes: 512, start: vec![segment], events, ..DeviceHistory::default() }
    }

    #[test]
    fn lives_say_at_every_moment_what_the_memory_map_says() {
        for seed in 0..40 {
            let history = wild(seed, 300);
            let windows = [Window { from: 0, to: 300 }, Window { from: 77, to: 140 }, Window { from: 300, to: 300 }];
            for window in windows {
                let model = DeviceModel::new(&history, window);
                let mut map = MemoryMap::new(&history);
                for event in &history.events[..window.from as usize] {
                    map.apply(event);
                }
                for moment in 0..model.moments() {
                    if moment > 0 {
                        map.apply(&history.events[(window.from + u64::from(moment) - 1) as usize]);
                    }
                    let mut blocks: Vec<Block> = model
                        .blocks
                        .iter()
                        .filter(|life| life.birth <= moment && moment < life.death)
                        .map(|life| {
                            let state = if life.pend <= moment { BlockState::Pending } else { BlockState::Live };
                            Block { state, ..life.block }
                        })
                        .collect();
                    blocks.sort_by_key(|block| block.address);
                    assert_eq!(blocks, map.blocks().copied().collect::<Vec<_>>(), "seed {seed}, moment {moment}");
                    let mut pieces: Vec<&Piece> =
                        model.pieces.iter().filter(|piece| piece.birth <= moment && moment < piece.death).collect();
                    pieces.sort_by_key(|piece| piece.address);
                    let held: u64 = pieces.iter().map(|piece| piece.bytes).sum();
                    assert_eq!(held, map.totals().reserved, "seed {seed}, moment {moment}");
                    for segment in map.segments() {
                        let inside = pieces.iter().filter(|p| p.address >= segment.address);
                        let inside = inside.filter(|p| p.address < segment.address + segment.bytes);
                        assert_eq!(inside.map(|p| p.bytes).sum::<u64>(), segment.bytes, "seed {seed}, {moment}");
                    }
                    assert_eq!(model.totals[moment as usize], map.totals());
                    assert_eq!(model.largest[moment as usize], map.largest_free());
                }
            }
        }
    }

    #[test]
    fn addresses_in_use_keep_their_order_and_lie_side_by_side() {
        for seed in 0..20 {
            let history = wild(seed, 200);
            let model = DeviceModel::new(&history, Window { from: 0, to: 200 });
            let mut end = 0;
            for (at, stretch) in model.stretches.iter().enumerate() {
                assert_eq!(stretch.offset, end);
                assert!(at == 0 || model.stretches[at - 1].address + model.stretches[at - 1].bytes < stretch.address);
                end += stretch.bytes;
            }
            assert_eq!(model.height(), end);
            for life in &model.blocks {
                let (from, to) = (life.block.address, life.block.address + life.block.bytes);
                assert_eq!(model.offset_of(to - 1) - model.offset_of(from), life.block.bytes - 1);
            }
        }
    }

    #[test]
    fn what_was_there_before_the_part_shown_keeps_the_event_that_made_it() {
        let alloc = |address| Event { action: Action::Alloc, address, bytes: 8, ..Event::default() };
        let history =
            DeviceHistory { events: vec![alloc(0), alloc(8), alloc(16), alloc(24)], ..DeviceHistory::default() };
        let model = DeviceModel::new(&history, Window { from: 2, to: 3 });
        let lives: Vec<_> = model.blocks.iter().map(|l| (l.block.address, l.birth, l.death, l.event)).collect();
        assert_eq!(lives, [(0, 0, 2, Some(0)), (8, 0, 2, Some(1)), (16, 1, 2, Some(2))]);
    }
}
