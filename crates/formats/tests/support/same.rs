//! Compares histories whose tables may number names and stacks differently.

#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashSet;

use records::{Block, BlockState, History, NameId, Segment, SegmentKind, StackId};

/// Everything that a snapshot carries is the same in both.
pub fn assert_same(a: &History, b: &History) {
    assert_eq!((&a.name, &a.allocator), (&b.name, &b.allocator));
    let sorted = |history: &History| {
        let mut settings = history.settings.clone();
        settings.sort();
        settings
    };
    assert_eq!(sorted(a), sorted(b));
    let mut tables = Tables { a, b, stacks: HashSet::new(), names: HashSet::new() };
    assert_eq!(a.annotations.len(), b.annotations.len());
    for (x, y) in a.annotations.iter().zip(&b.annotations) {
        assert_eq!((x.stage, x.device, x.time_ns), (y.stage, y.device, y.time_ns));
        tables.name(x.name, y.name);
    }
    assert_eq!(a.devices.len(), b.devices.len());
    for (x, y) in a.devices.iter().zip(&b.devices) {
        assert_eq!((x.device, x.granule_bytes.max(1)), (y.device, y.granule_bytes.max(1)));
        if x.capacity_bytes.is_some() {
            assert_eq!(x.capacity_bytes, y.capacity_bytes);
        }
        assert_eq!(x.events.len(), y.events.len());
        for (x, y) in x.events.iter().zip(&y.events) {
            tables.name(x.tag, y.tag);
            tables.stack(x.stack, y.stack);
            let y = records::Event { tag: x.tag, stack: x.stack, ..*y };
            assert_eq!(*x, y);
        }
        // A device that doesn't state its end is written with the one that its events lead to.
        if !x.end.is_empty() {
            tables.segments(&x.end, &y.end, true);
            // Of a block that was freed, the file has what the free says of it.
            tables.segments(&x.start, &y.start, false);
        }
    }
}

struct Tables<'h> {
    a: &'h History,
    b: &'h History,
    stacks: HashSet<(StackId, StackId)>,
    names: HashSet<(NameId, NameId)>,
}

impl Tables<'_> {
    fn name(&mut self, x: NameId, y: NameId) {
        if self.names.insert((x, y)) {
            assert_eq!(self.a.names.get(x), self.b.names.get(y));
        }
    }

    fn stack(&mut self, x: StackId, y: StackId) {
        if !self.stacks.insert((x, y)) {
            return;
        }
        let (xs, ys) = (self.a.stacks.frames(x), self.b.stacks.frames(y));
        assert_eq!(xs.len(), ys.len());
        for (x, y) in xs.iter().zip(ys) {
            let (x, y) = (self.a.stacks.frame(*x), self.b.stacks.frame(*y));
            assert_eq!(x.line, y.line);
            self.name(x.function, y.function);
            self.name(x.file, y.file);
        }
    }

    fn segments(&mut self, xs: &[Segment], ys: &[Segment], is_exact: bool) {
        let addresses = |segments: &[Segment]| segments.iter().map(|s| (s.address, s.bytes)).collect::<Vec<_>>();
        assert_eq!(addresses(xs), addresses(ys));
        for (x, y) in xs.iter().zip(ys) {
            assert_eq!((x.stream, x.is_expandable), (y.stream, y.is_expandable));
            if is_exact {
                self.stack(x.stack, y.stack);
                assert_eq!((x.pool, x.kind == SegmentKind::Small), (y.pool, y.kind == SegmentKind::Small));
            }
            let used = |s: &Segment| -> Vec<Block> {
                s.blocks.iter().copied().filter(|block| block.state != BlockState::Free).collect()
            };
            let (xs, ys) = (used(x), used(y));
            assert_eq!(xs.len(), ys.len(), "in the segment at {:#x}", x.address);
            for (x, y) in xs.into_iter().zip(ys) {
                let facts = |b: Block| (b.address, b.requested_bytes, b.state, b.stream);
                assert_eq!(facts(x), facts(y));
                if is_exact {
                    assert_eq!(x.bytes, y.bytes);
                    self.stack(x.stack, y.stack);
                    self.name(x.tag, y.tag);
                }
            }
        }
    }
}
