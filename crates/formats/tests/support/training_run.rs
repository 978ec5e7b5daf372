//! Makes up what a caching allocator does in a training run: as long as wished, the same for the same seed. Used by tests,
//! benches and `examples/make_snapshot.rs`; needs nothing but `records`.

#![allow(unreachable_pub, dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use records::{
    Action, Annotation, Block, BlockState, DeviceHistory, Event, Frame, History, NameId, Segment, SegmentKind, StackId,
    Stage,
};

const MIB: u64 = 1 << 20;
const LAYERS: usize = 32;
const COMPUTE: u64 = 0;
const COPY: u64 = 0x5581_0c40;
const COLLECTIVES: u64 = 0x5581_0ff0;

/// A training run of `events` events or some more: a step's worth of forward, backward and optimizer over and over, with
/// shapes that vary, on three streams, recorded from after the set-up on. It ends with a request that fails.
pub fn training_run(events: usize, seed: u64) -> History {
    let mut run = Run::new(seed);
    run.set_up();
    run.record();
    while run.events.len() + 64 < events {
        run.step(events);
    }
    run.fail();
    run.finish()
}

/// splitmix64, by Sebastiano Vigna; public domain.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(Clone, Copy)]
struct Piece {
    block: Block,
    segment: u64,
}

type Pool = (u64, SegmentKind);

struct Run {
    random: Random,
    history: History,
    is_recorded: bool,
    start: Vec<Segment>,
    events: Vec<Event>,
    segments: BTreeMap<u64, Segment>,
    /// Every piece of every segment.
    pieces: BTreeMap<u64, Piece>,
    free: BTreeMap<Pool, BTreeSet<(u64, u64)>>,
    /// Frees that wait for another stream, and until which event.
    pending: VecDeque<(usize, u64)>,
    reserved: u64,
    capacity: u64,
    next_address: u64,
    time_ns: u64,
    steps: u64,
    stacks: BTreeMap<(usize, usize, usize), StackId>,
}

const PHASES: [(&str, &str); 4] = [
    ("forward", "train.py"),
    ("backward", "torch/_tensor.py"),
    ("step", "torch/optim/adamw.py"),
    ("__init__", "model.py"),
];
const SITES: [&str; 12] = [
    "layer_norm",
    "qkv_projection",
    "split_heads",
    "scores",
    "softmax",
    "dropout",
    "context",
    "out_projection",
    "up_projection",
    "gelu",
    "down_projection",
    "residual",
];

impl Run {
    fn new(seed: u64) -> Self {
        let history = History {
            name: format!("training-run-{seed}"),
            allocator: "a made-up caching allocator".to_owned(),
            settings: vec![
                ("PYTORCH_CUDA_ALLOC_CONF".to_owned(), String::new()),
                ("max_split_size".to_owned(), "-1".to_owned()),
                ("garbage_collection_threshold".to_owned(), "0.0".to_owned()),
                ("expandable_segments".to_owned(), "False".to_owned()),
                ("roundup_power2_divisions.1".to_owned(), "0".to_owned()),
                ("roundup_power2_divisions.2".to_owned(), "0".to_owned()),
            ],
            ..History::default()
        };
        Self {
            random: Random(seed),
            history,
            is_recorded: false,
            start: Vec::new(),
            events: Vec::new(),
            segments: BTreeMap::new(),
            pieces: BTreeMap::new(),
            free: BTreeMap::new(),
            pending: VecDeque::new(),
            reserved: 0,
            capacity: 0,
            next_address: 0x7f3a_0000_0000,
            time_ns: 1_783_874_422_000_000_000,
            steps: 0,
            stacks: BTreeMap::new(),
        }
    }

    /// The stack of a site in a layer: some 10 to 30 calls, the outer ones shared by all.
    fn stack(&mut self, phase: usize, layer: usize, site: usize) -> StackId {
        if let Some(stack) = self.stacks.get(&(phase, layer, site)) {
            return *stack;
        }
        let mut calls: Vec<(String, String, u32)> = Vec::new();
        calls.push((SITES[site].to_owned(), "model/block.py".to_owned(), 40 + site as u32));
        for depth in 0..2 + site % 5 {
            calls.push((format!("{}_impl{depth}", SITES[site]), format!("kernels/{}.cpp", SITES[site]), 0));
        }
        for depth in 0..3 {
            calls.push(("_call_impl".to_owned(), "torch/nn/modules/module.py".to_owned(), 1750 + depth));
        }
        calls.push((format!("layer{layer}.forward"), "model/block.py".to_owned(), 100 + layer as u32));
        for depth in 0..4 + layer as u32 % 9 {
            calls.push(("_call_impl".to_owned(), "torch/nn/modules/module.py".to_owned(), 1760 + depth % 2));
        }
        let (function, file) = PHASES[phase];
        calls.push((function.to_owned(), file.to_owned(), 200 + phase as u32));
        calls.push(("main".to_owned(), "train.py".to_owned(), 88));
        calls.push(("<module>".to_owned(), "train.py".to_owned(), 130));
        let frames: Vec<_> = calls
            .into_iter()
            .map(|(function, file, line)| {
                let (function, file) = (self.history.names.intern(&function), self.history.names.intern(&file));
                self.history.stacks.intern_frame(Frame { function, file, line })
            })
            .collect();
        let stack = self.history.stacks.intern(&frames);
        self.stacks.insert((phase, layer, site), stack);
        stack
    }

    fn note(&mut self, event: Event) {
        self.time_ns += 1000 * (1 + self.random.below(40));
        if self.is_recorded {
            self.events.push(Event { time_ns: self.time_ns, ..event });
        }
    }

    fn alloc(&mut self, bytes: u64, stream: u64, stack: StackId) -> u64 {
        self.complete();
        let size = bytes.max(1).next_multiple_of(512);
        let is_small = size <= MIB;
        let kind = if is_small { SegmentKind::Small } else { SegmentKind::Large };
        let found = self.free.entry((stream, kind)).or_default().range((size, 0)..).next().copied();
        let (found_bytes, address) = found.unwrap_or_else(|| self.new_segment(size, stream, kind, stack));
        self.free.get_mut(&(stream, kind)).unwrap().remove(&(found_bytes, address));
        let piece = self.pieces.get_mut(&address).unwrap();
        let segment = piece.segment;
        let rest = found_bytes - size;
        let is_split = if is_small { rest >= 512 } else { rest > MIB };
        piece.block = Block {
            address,
            bytes: if is_split { size } else { found_bytes },
            requested_bytes: bytes,
            state: BlockState::Live,
            stream,
            stack,
            tag: NameId::EMPTY,
        };
        if is_split {
            self.put_free(address + size, rest, segment, (stream, kind));
        }
        self.note(Event { action: Action::Alloc, address, bytes, stream, stack, ..Event::default() });
        address
    }

    fn new_segment(&mut self, size: u64, stream: u64, kind: SegmentKind, stack: StackId) -> (u64, u64) {
        let bytes = match size {
            _ if kind == SegmentKind::Small => 2 * MIB,
            ..10_485_760 => 20 * MIB,
            _ => size.next_multiple_of(2 * MIB),
        };
        let address = self.next_address;
        self.next_address += bytes + 2 * MIB * self.random.below(4);
        self.reserved += bytes;
        self.note(Event { action: Action::SegmentAlloc, address, bytes, stream, stack, ..Event::default() });
        let segment = Segment { address, bytes, stream, kind, stack, ..Segment::default() };
        self.segments.insert(address, segment);
        self.put_free(address, bytes, address, (stream, kind));
        (bytes, address)
    }

    fn put_free(&mut self, address: u64, bytes: u64, segment: u64, pool: Pool) {
        let block = Block { address, bytes, state: BlockState::Free, stream: pool.0, ..Block::default() };
        self.pieces.insert(address, Piece { block, segment });
        self.free.entry(pool).or_default().insert((bytes, address));
    }

    /// Drops a block; one that another stream uses becomes free only some events later.
    fn drop(&mut self, address: u64, is_used_elsewhere: bool) {
        let block = self.pieces[&address].block;
        let free = Event {
            address,
            bytes: block.requested_bytes,
            stream: block.stream,
            stack: block.stack,
            ..Event::default()
        };
        self.note(Event { action: Action::FreeRequested, ..free });
        self.pieces.get_mut(&address).unwrap().block.state = BlockState::Pending;
        if is_used_elsewhere {
            let delay = 20 + self.random.below(60) as usize;
            self.pending.push_back((self.events.len() + delay, address));
        } else {
            self.release(address);
        }
    }

    fn complete(&mut self) {
        while let Some(&(due, address)) = self.pending.front()
            && (due <= self.events.len() || !self.is_recorded)
        {
            self.pending.pop_front();
            self.release(address);
        }
    }

    fn release(&mut self, address: u64) {
        let Piece { block, segment } = self.pieces[&address];
        let event = Event {
            address,
            bytes: block.requested_bytes,
            stream: block.stream,
            stack: block.stack,
            ..Event::default()
        };
        self.note(Event { action: Action::FreeCompleted, ..event });
        let pool = (self.segments[&segment].stream, self.segments[&segment].kind);
        let (mut from, mut to) = (address, address + block.bytes);
        let is_joined = |piece: &Piece| piece.segment == segment && piece.block.state == BlockState::Free;
        let below = self.pieces.range(..address).next_back().map(|(_, piece)| *piece).filter(is_joined);
        let above = self.pieces.get(&to).copied().filter(is_joined);
        for Piece { block, .. } in below.into_iter().chain(above) {
            self.pieces.remove(&block.address);
            self.free.get_mut(&pool).unwrap().remove(&(block.bytes, block.address));
            from = from.min(block.address);
            to = to.max(block.address + block.bytes);
        }
        self.pieces.remove(&address);
        self.put_free(from, to - from, segment, pool);
    }

    /// Weights, and what was there before the record began.
    fn set_up(&mut self) {
        for layer in 0..LAYERS {
            for site in 0..SITES.len() {
                let stack = self.stack(3, layer, site);
                let bytes = if matches!(site, 1 | 7 | 8 | 10) {
                    8 * MIB + 2048 * layer as u64
                } else {
                    4096 + 12 * site as u64
                };
                for _ in 0..3 {
                    self.alloc(bytes, COMPUTE, stack);
                }
            }
        }
        self.step(usize::MAX);
    }

    fn record(&mut self) {
        while let Some((_, address)) = self.pending.pop_front() {
            self.release(address);
        }
        self.is_recorded = true;
        self.start = self.state();
    }

    fn state(&self) -> Vec<Segment> {
        let mut segments = self.segments.clone();
        for piece in self.pieces.values() {
            segments.get_mut(&piece.segment).unwrap().blocks.push(piece.block);
        }
        segments.into_values().collect()
    }

    fn annotate(&mut self, stage: Stage) {
        if self.is_recorded {
            let name = self.history.names.intern(&format!("ProfilerStep#{}", self.steps));
            self.history.annotations.push(Annotation { stage, name, device: 0, time_ns: self.time_ns });
        }
    }

    /// One step; cut short when enough events were made.
    fn step(&mut self, enough: usize) {
        self.annotate(Stage::Start);
        let tokens = 2048 + 128 * self.random.below(32);
        let mut kept: Vec<(u64, bool)> = Vec::new();
        let data = self.stack(0, 0, 0);
        let input = self.alloc(tokens * 8, COPY, data);
        for layer in 0..LAYERS {
            for site in 0..SITES.len() {
                let stack = self.stack(0, layer, site);
                let bytes = tokens * [4, 6144, 4096, 512, 512, 256, 2048, 2048, 8192, 8192, 2048, 2048][site];
                let activation = self.alloc(bytes, COMPUTE, stack);
                let workspace =
                    if site % 3 == 1 { Some(self.alloc(8 * MIB + 512 * site as u64, COMPUTE, stack)) } else { None };
                if site % 4 == 2 {
                    self.drop(activation, false);
                } else {
                    kept.push((activation, site == 7));
                }
                if let Some(workspace) = workspace {
                    self.drop(workspace, false);
                }
            }
        }
        self.drop(input, true);
        let mut gradients = Vec::new();
        for layer in (0..LAYERS).rev() {
            if self.events.len() + 4 * kept.len() + 64 >= enough {
                break;
            }
            for site in (0..SITES.len()).rev() {
                let stack = self.stack(1, layer, site);
                let gradient = self.alloc(tokens * 2048 + 512 * site as u64, COMPUTE, stack);
                if matches!(site, 1 | 7 | 8 | 10) {
                    gradients.push((self.alloc(8 * MIB + 2048 * layer as u64, COMPUTE, stack), true));
                    let bucket = self.alloc(25 * MIB, COLLECTIVES, stack);
                    self.drop(bucket, false);
                }
                if let Some((activation, is_used_elsewhere)) = (site % 4 != 2).then(|| kept.pop()).flatten() {
                    self.drop(activation, is_used_elsewhere);
                }
                self.drop(gradient, false);
            }
        }
        for (address, is_used_elsewhere) in kept.into_iter().rev() {
            self.drop(address, is_used_elsewhere);
        }
        let optimizer = self.stack(2, 0, 11);
        for (address, is_used_elsewhere) in gradients {
            if self.events.len() + 128 < enough {
                let temporary = self.alloc(8 * MIB, COMPUTE, optimizer);
                self.drop(temporary, false);
            }
            self.drop(address, is_used_elsewhere);
        }
        self.annotate(Stage::End);
        self.steps += 1;
    }

    /// A request beyond what is left: cached segments are given back, and it fails all the same.
    fn fail(&mut self) {
        let stack = self.stack(0, LAYERS - 1, 3);
        // Only a step of this run grows what is held, so that now is the most there was.
        self.capacity = self.reserved + 96 * MIB;
        let empty: Vec<Segment> = self
            .segments
            .values()
            .filter(|segment| {
                let piece = self.pieces[&segment.address];
                piece.block.state == BlockState::Free && piece.block.bytes == segment.bytes
            })
            .cloned()
            .collect();
        for segment in empty {
            self.pieces.remove(&segment.address);
            self.segments.remove(&segment.address);
            self.free.get_mut(&(segment.stream, segment.kind)).unwrap().remove(&(segment.bytes, segment.address));
            self.reserved -= segment.bytes;
            let (address, bytes, stream) = (segment.address, segment.bytes, segment.stream);
            self.note(Event { action: Action::SegmentFree, address, bytes, stream, stack, ..Event::default() });
        }
        let free = self.capacity - self.reserved;
        let bytes = free.next_multiple_of(2 * MIB) + 2 * MIB;
        self.note(Event { action: Action::OutOfMemory, address: free, bytes, stack, ..Event::default() });
        self.note(Event { action: Action::Snapshot, ..Event::default() });
    }

    fn finish(mut self) -> History {
        let end = self.state();
        self.history.devices.push(DeviceHistory {
            device: 0,
            capacity_bytes: Some(self.capacity),
            granule_bytes: 512,
            start: self.start,
            events: self.events,
            end,
            ..DeviceHistory::default()
        });
        self.history
    }
}
