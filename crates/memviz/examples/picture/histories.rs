//! Histories to draw, made up: a few whose every byte the browser test knows, and training runs of any length.

use std::collections::{BTreeMap, VecDeque};

use records::{Action, Annotation, Block, DeviceHistory, Event, Frame, History, NameId, Segment, StackId, Stage};

const MIB: u64 = 1 << 20;

/// The history that `source` names.
pub(crate) fn from_source(source: &str) -> Option<History> {
    Some(match source.split_once(':') {
        Some(("run", events)) => training(events.parse().ok()?),
        Some(_) => return None,
        None => match source {
            "small-history" => small(),
            "empty-history" => History { name: "empty".to_owned(), ..History::default() },
            "no-segments" => no_segments(),
            "hostile-history" => hostile(),
            "inconsistent" => inconsistent(),
            "extreme-history" => extreme(),
            _ => return None,
        },
    })
}

fn event(action: Action, address: u64, bytes: u64) -> Event {
    Event { action, address, bytes, ..Event::default() }
}

fn stack(history: &mut History, calls: &[(&str, &str, u32)]) -> StackId {
    let frames: Vec<_> = calls
        .iter()
        .map(|&(function, file, line)| {
            let (function, file) = (history.names.intern(function), history.names.intern(file));
            history.stacks.intern_frame(Frame { function, file, line })
        })
        .collect();
    history.stacks.intern(&frames)
}

/// Two segments, five blocks, an expandable segment that grows and shrinks, a failed request. In KiB:
///
/// | event | what | live | reserved |
/// |---|---|---|---|
/// | 0 | segment A at 1 MiB, 64 | 0 | 64 |
/// | 1, 2, 3 | `weights` 16, `hidden` 7, `logits` 24 | 47 | 64 |
/// | 4, 5 | `hidden` is dropped, then free: a hole of 8 below `logits` | 40 | 64 |
/// | 6 | segment B at 16 MiB, 32, expandable, stream 7 | 40 | 96 |
/// | 7 | `grads` 32 in B | 72 | 96 |
/// | 8 | a request of 40 fails | 72 | 96 |
/// | 9 | step mark | 72 | 96 |
/// | 10 | `logits` is dropped and stays pending | 48 | 96 |
/// | 11 | B grows by 32 | 48 | 128 |
/// | 12 | snapshot | 48 | 128 |
fn small() -> History {
    const KIB: u64 = 1 << 10;
    let mut history = History {
        name: "small".to_owned(),
        allocator: "a test".to_owned(),
        settings: vec![("expandable_segments".to_owned(), "True".to_owned())],
        ..History::default()
    };
    let calls = [("forward", "model.py", 12), ("train", "main.py", 40)];
    let forward = stack(&mut history, &calls);
    let backward = stack(&mut history, &[("backward", "model.py", 30), ("train", "main.py", 41)]);
    let [weights, hidden, logits, grads, step] =
        ["weights", "hidden", "logits", "grads", "step 1"].map(|name| history.names.intern(name));
    let (a, b) = (MIB, 16 * MIB);
    let mut events = vec![
        event(Action::SegmentAlloc, a, 64 * KIB),
        Event { stack: forward, tag: weights, ..event(Action::Alloc, a, 16 * KIB) },
        Event { stack: forward, tag: hidden, ..event(Action::Alloc, a + 16 * KIB, 7 * KIB) },
        Event { stack: forward, tag: logits, ..event(Action::Alloc, a + 24 * KIB, 24 * KIB) },
        event(Action::FreeRequested, a + 16 * KIB, 7 * KIB),
        event(Action::FreeCompleted, a + 16 * KIB, 7 * KIB),
        Event { stream: 7, ..event(Action::SegmentMap, b, 32 * KIB) },
        Event { stack: backward, tag: grads, stream: 7, ..event(Action::Alloc, b, 32 * KIB) },
        Event { stack: backward, ..event(Action::OutOfMemory, 1000, 40 * KIB) },
        Event { tag: step, ..event(Action::Step, 0, 0) },
        event(Action::FreeRequested, a + 24 * KIB, 24 * KIB),
        Event { stream: 7, ..event(Action::SegmentMap, b + 32 * KIB, 32 * KIB) },
        event(Action::Snapshot, 0, 0),
    ];
    for (at, event) in (0..).zip(&mut events) {
        event.time_ns = 5_000_000_000 + at * at * 1_000_000;
    }
    let name = history.names.intern("train_loop");
    for (stage, time_ns) in [(Stage::Start, 5_001_000_000), (Stage::End, 5_064_000_000)] {
        history.annotations.push(Annotation { stage, name, device: 0, time_ns });
    }
    history.devices =
        vec![DeviceHistory { capacity_bytes: Some(132 * KIB), granule_bytes: 512, events, ..DeviceHistory::default() }];
    history
}

fn no_segments() -> History {
    let events = vec![event(Action::Alloc, 4096, 1000), event(Action::FreeCompleted, 4096, 1000)];
    let empty = DeviceHistory { device: 1, ..DeviceHistory::default() };
    let device = DeviceHistory { device: 0, granule_bytes: 512, events, ..DeviceHistory::default() };
    History { name: "no segments".to_owned(), devices: vec![device, empty], ..History::default() }
}

/// Names that would do harm if anything took them for markup or code.
pub(crate) const HOSTILE: [&str; 10] = [
    "</script><script>window.hacked=1</script>",
    "<!--<script>window.hacked=2",
    "<img src=x onerror=window.hacked=3>",
    "{{title}}{{facts}}",
    "__proto__",
    "constructor",
    "\"><svg onload=window.hacked=4>",
    "line\u{2028}break\u{202e}turned",
    "数据 данные données 🚀",
    "nested &lt;script&gt; &amp; entities",
];

fn hostile() -> History {
    let mut history = History {
        name: HOSTILE[0].to_owned(),
        allocator: HOSTILE[2].to_owned(),
        settings: HOSTILE.map(|name| (name.to_owned(), name.to_owned())).to_vec(),
        ..History::default()
    };
    let mut events = vec![event(Action::SegmentAlloc, MIB, MIB)];
    for (at, name) in (0..).zip(HOSTILE) {
        let stack = stack(&mut history, &[(name, name, 1), ("main", name, u32::MAX)]);
        let tag = history.names.intern(name);
        events.push(Event { stack, tag, ..event(Action::Alloc, MIB + at * 65536, 65536) });
        events.push(Event { tag, ..event(Action::Step, 0, 0) });
    }
    let name = history.names.intern(HOSTILE[1]);
    history.annotations.push(Annotation { stage: Stage::Start, name, device: 0, time_ns: 0 });
    events.push(Event { tag: NameId(u32::MAX), stack: StackId(u32::MAX), ..event(Action::OutOfMemory, 0, u64::MAX) });
    history.devices = vec![DeviceHistory { events, ..DeviceHistory::default() }];
    history
}

/// Numbers that doubles can't tell apart.
fn extreme() -> History {
    let big = (1 << 63) + 1;
    let events = vec![
        event(Action::SegmentAlloc, 3, big),
        Event { time_ns: u64::MAX - 5, stream: u64::MAX, ..event(Action::Alloc, 3, (1 << 60) + 1) },
        Event { time_ns: u64::MAX - 4, ..event(Action::Alloc, 4 + (1 << 60), (1 << 62) + 3) },
        Event { time_ns: u64::MAX - 3, ..event(Action::FreeRequested, 3, 0) },
        event(Action::Alloc, u64::MAX - 1, 7),
    ];
    let device = DeviceHistory { device: u32::MAX, events, ..DeviceHistory::default() };
    History { name: "extreme".to_owned(), devices: vec![device], ..History::default() }
}

/// Events that contradict each other in every way, from a fixed generator of numbers.
fn inconsistent() -> History {
    let mut random = Random(7);
    let mut events = Vec::new();
    for _ in 0..3000 {
        let action = Action::ALL[random.below(10) as usize];
        let (address, bytes) = (random.below(64) * 4096, random.below(12) * 2048);
        events.push(Event { time_ns: random.below(1 << 30), stream: random.below(3), ..event(action, address, bytes) });
    }
    let block = Block { address: 8192, bytes: 100_000, requested_bytes: 5, ..Block::default() };
    let segment = Segment { address: 8192, bytes: 4096, blocks: vec![block, block], ..Segment::default() };
    let device = DeviceHistory { start: vec![segment.clone(), segment], events, ..DeviceHistory::default() };
    History { name: "inconsistent".to_owned(), devices: vec![device], ..History::default() }
}

/// A small generator of numbers (Lehmer's, with the modulus 2^61 - 1 cut to 64 bits by a rotation).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407).rotate_left(17);
        (self.0 >> 11) % limit.max(1)
    }
}

/// A plain allocator over segments, as eager frameworks have: best fit, blocks split and joined.
struct Pool {
    events: Vec<Event>,
    /// Free pieces by size, then address: end of the segment.
    free: BTreeMap<(u64, u64), u64>,
    /// Free pieces by address.
    places: BTreeMap<u64, u64>,
    /// Bounds of segments by address.
    segments: BTreeMap<u64, u64>,
    next: u64,
    time_ns: u64,
}

impl Pool {
    fn log(&mut self, event: Event) {
        self.time_ns += 1500 + event.bytes / 4096;
        self.events.push(Event { time_ns: self.time_ns, ..event });
    }

    fn alloc(&mut self, bytes: u64, stream: u64, stack: StackId, tag: NameId) -> (u64, u64) {
        let size = bytes.next_multiple_of(512);
        let fit = self.free.range((size, 0)..).next().map(|(key, end)| (*key, *end));
        // A large piece isn't split for a small request.
        let fit = fit.filter(|((piece, _), _)| size > MIB || *piece <= 2 * MIB);
        let ((piece, address), end) = fit.unwrap_or_else(|| {
            let reserved = match size {
                small if small <= MIB => 2 * MIB,
                medium if medium < 10 * MIB => 20 * MIB,
                large => large.next_multiple_of(2 * MIB),
            };
            let address = self.next;
            // Segments lie apart, as a driver places them.
            self.next += reserved.next_multiple_of(32 * MIB) + 64 * MIB;
            self.log(Event { stream, stack, ..event(Action::SegmentAlloc, address, reserved) });
            self.segments.insert(address, address + reserved);
            self.free.insert((reserved, address), address + reserved);
            self.places.insert(address, reserved);
            ((reserved, address), address + reserved)
        });
        self.free.remove(&(piece, address));
        self.places.remove(&address);
        if piece > size {
            self.free.insert((piece - size, address + size), end);
            self.places.insert(address + size, piece - size);
        }
        self.log(Event { stream, stack, tag, ..event(Action::Alloc, address, bytes) });
        (address, bytes)
    }

    fn release(&mut self, (address, bytes): (u64, u64), stream: u64) {
        self.log(Event { stream, ..event(Action::FreeCompleted, address, bytes) });
        let mut size = bytes.next_multiple_of(512);
        let mut start = address;
        let Some((&low, &high)) = self.segments.range(..=address).next_back() else { return };
        if let Some((&at, &before)) = self.places.range(low..address).next_back()
            && at + before == address
        {
            self.take(at, before);
            (start, size) = (at, size + before);
        }
        if let Some(&after) = self.places.get(&(start + size)).filter(|_| start + size < high) {
            self.take(start + size, after);
            size += after;
        }
        self.free.insert((size, start), high);
        self.places.insert(start, size);
    }

    fn take(&mut self, address: u64, bytes: u64) {
        self.places.remove(&address);
        self.free.remove(&(bytes, address));
    }
}

/// A training run of about `count` events: 32 layers forward and backward, an optimizer, changing sequence lengths,
/// gathers on a stream of their own whose blocks stay pending for a while.
fn training(count: usize) -> History {
    let mut history = History {
        name: format!("training run of {count} events"),
        allocator: "an example's best-fit pool".to_owned(),
        settings: vec![("max_split_size".to_owned(), "none".to_owned())],
        ..History::default()
    };
    let mut random = Random(42);
    let mut pool = Pool {
        events: Vec::with_capacity(count + 2000),
        free: BTreeMap::new(),
        places: BTreeMap::new(),
        segments: BTreeMap::new(),
        next: 0x7f20_0000_0000,
        time_ns: 1_760_000_000_000_000_000,
    };
    const LAYERS: usize = 32;
    const OPS: [(&str, u64, bool); 9] = [
        ("attention.qkv", 3, true),
        ("attention.scores", 4, false),
        ("attention.softmax", 4, true),
        ("attention.out", 1, true),
        ("norm.1", 1, true),
        ("mlp.up", 4, true),
        ("mlp.gelu", 4, true),
        ("mlp.down", 1, true),
        ("norm.2", 1, false),
    ];
    let mut tags = Vec::new();
    for layer in 0..LAYERS {
        for (op, _, _) in OPS {
            let tag = history.names.intern(op);
            let line = 100 + layer as u32;
            let calls = |pass: &'static str| {
                [
                    (op, "model/block.py", line),
                    (pass, "model/transformer.py", 40 + layer as u32),
                    ("train_step", "train.py", 88),
                ]
            };
            let (forward, backward) = (stack(&mut history, &calls("forward")), stack(&mut history, &calls("backward")));
            tags.push((tag, forward, backward));
        }
    }
    let named = |history: &mut History, tag: &str, line| {
        (history.names.intern(tag), stack(history, &[(tag, "train.py", line), ("main", "train.py", 12)]))
    };
    let (weights, weights_stack) = named(&mut history, "weights", 20);
    let (moments, moments_stack) = named(&mut history, "optimizer state", 30);
    let (grads, grads_stack) = named(&mut history, "gradients", 90);
    let (gather, gather_stack) = named(&mut history, "all-gather", 70);
    let mut kept = Vec::new();
    for layer in 0..LAYERS as u64 {
        for part in 0..6 {
            kept.push(pool.alloc((12 + part * 4) * MIB + layer * 512, 0, weights_stack, weights));
        }
    }
    let mut gathered: VecDeque<(usize, (u64, u64))> = VecDeque::new();
    let step_name = history.names.intern("train_step");
    let mut step = 0;
    while pool.events.len() < count {
        let mark = |history: &mut History, stage, time_ns| {
            history.annotations.push(Annotation { stage, name: step_name, device: 0, time_ns });
        };
        mark(&mut history, Stage::Start, pool.time_ns);
        let length = 512 + random.below(6) * 128;
        let unit = length * 4096;
        let mut saved: Vec<(usize, (u64, u64))> = Vec::new();
        for layer in 0..LAYERS {
            let shard = pool.alloc(48 * MIB, 9, gather_stack, gather);
            for (op, (_, width, is_saved)) in (0..).zip(OPS) {
                let (tag, forward, _) = tags[layer * OPS.len() + op];
                let workspace = pool.alloc(1 + random.below(3 * MIB), 0, forward, tag);
                let output = pool.alloc(unit * width + random.below(4096), 0, forward, tag);
                pool.release(workspace, 0);
                if is_saved {
                    saved.push((layer * OPS.len() + op, output));
                } else {
                    pool.release(output, 0);
                }
            }
            pool.log(Event { stream: 9, ..event(Action::FreeRequested, shard.0, shard.1) });
            gathered.push_back((pool.events.len() + 90, shard));
            while let Some((_, shard)) = gathered.pop_front_if(|(due, _)| *due <= pool.events.len()) {
                pool.release(shard, 9);
            }
        }
        let mut gradients = Vec::new();
        while let Some((at, output)) = saved.pop() {
            let (tag, _, backward) = tags[at];
            let gradient = pool.alloc(output.1, 0, backward, tag);
            if at % 3 == 0 {
                gradients.push(pool.alloc(16 * MIB, 0, grads_stack, grads));
            }
            pool.release(output, 0);
            pool.release(gradient, 0);
        }
        for (_, shard) in gathered.drain(..) {
            pool.release(shard, 9);
        }
        if step == 0 {
            for part in 0..LAYERS as u64 * 6 {
                kept.push(pool.alloc((12 + part % 6 * 4) * MIB, 0, moments_stack, moments));
            }
        }
        gradients.into_iter().for_each(|gradient| pool.release(gradient, 0));
        mark(&mut history, Stage::End, pool.time_ns);
        step += 1;
        let tag = history.names.intern(&format!("step {step}"));
        pool.log(Event { tag, ..event(Action::Step, 0, 0) });
    }
    pool.log(Event { stack: grads_stack, ..event(Action::OutOfMemory, 812 * MIB, 3 << 30) });
    history.devices = vec![DeviceHistory {
        capacity_bytes: Some(80 << 30),
        granule_bytes: 512,
        events: pool.events,
        ..DeviceHistory::default()
    }];
    history
}
