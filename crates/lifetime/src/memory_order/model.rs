//! The graph as far as its order and its bytes go.
//!
//! A storage needs its bytes from the first op that touches it to the last. That is the same read backwards, so the
//! reversed graph is a model too, and every method works in both directions.

use crate::{check::Scan, csr::Csr, storage::Origin};

/// A count of visits that must not be exceeded.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn new(visits: u64) -> Self {
        Self { left: visits }
    }

    /// Takes visits; `false`, with nothing left, if there aren't as many.
    pub(super) fn spend(&mut self, visits: usize) -> bool {
        let enough = self.left >= visits as u64;
        self.left = if enough { self.left - visits as u64 } else { 0 };
        enough
    }

    /// Splits off one of `parts` equal parts.
    pub(super) fn share(&mut self, parts: u64) -> Self {
        let part = self.left / parts.max(1);
        self.left -= part;
        Self { left: part }
    }

    /// Takes back what is left of a part.
    pub(super) fn give_back(&mut self, part: Self) {
        self.left += part.left;
    }
}

/// Which way a model is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forwards,
    Backwards,
}

/// Ops, their dependencies, and the storages they touch. Persistent storages and those that no op touches are left out.
#[derive(Clone, Debug)]
pub(super) struct Model {
    direction: Direction,
    /// The ops that must come before, and after, each op.
    pub(super) before: Csr,
    pub(super) after: Csr,
    /// The storages each op touches, and the ops that touch each storage.
    pub(super) touches: Csr,
    pub(super) touched_by: Csr,
    pub(super) bytes: Vec<u64>,
    /// Whether a storage is live before the first op, and past the last.
    pub(super) at_start: Vec<bool>,
    pub(super) at_end: Vec<bool>,
    pub(super) workspace: Vec<u64>,
}

impl Model {
    pub(super) fn new(scan: &Scan<'_>) -> Self {
        let mut index = vec![u32::MAX; scan.storages.len()];
        let (mut bytes, mut at_start, mut at_end) = (Vec::new(), Vec::new(), Vec::new());
        for (id, storage) in scan.storages.iter().enumerate() {
            if storage.origin != Origin::Persistent && storage.bytes.0 > 0 && !scan.touched_by.row(id).is_empty() {
                index[id] = bytes.len() as u32;
                bytes.push(storage.bytes.0);
                at_start.push(storage.origin == Origin::HandedIn);
                at_end.push(storage.is_result);
            }
        }
        let mut touches = Csr::with_rows(scan.ops());
        for op in 0..scan.ops() {
            let row = scan.touches.row(op).iter().map(|&storage| index[storage as usize]);
            touches.push_row(row.filter(|&storage| storage != u32::MAX));
        }
        Self {
            direction: Direction::Forwards,
            before: scan.dependencies.all.clone(),
            after: scan.dependencies.all.transposed(scan.ops()),
            touched_by: touches.transposed(bytes.len()),
            touches,
            bytes,
            at_start,
            at_end,
            workspace: scan.graph.ops.iter().map(|op| op.workspace.0).collect(),
        }
    }

    /// The same read backwards.
    pub(super) fn reversed(&self) -> Self {
        Self {
            direction: match self.direction {
                Direction::Forwards => Direction::Backwards,
                Direction::Backwards => Direction::Forwards,
            },
            before: self.after.clone(),
            after: self.before.clone(),
            touches: self.touches.clone(),
            touched_by: self.touched_by.clone(),
            bytes: self.bytes.clone(),
            at_start: self.at_end.clone(),
            at_end: self.at_start.clone(),
            workspace: self.workspace.clone(),
        }
    }

    pub(super) fn ops(&self) -> usize {
        self.workspace.len()
    }

    /// An op's place in the given order, read this way: always after the places of the ops it needs.
    pub(super) fn rank(&self, op: u32) -> u32 {
        match self.direction {
            Direction::Forwards => op,
            Direction::Backwards => self.ops() as u32 - 1 - op,
        }
    }

    /// The op with a rank.
    pub(super) fn at_rank(&self, rank: u32) -> u32 {
        self.rank(rank)
    }

    /// What one pass over the model visits.
    pub(super) fn size(&self) -> usize {
        self.ops() + self.touches.len() + self.before.len()
    }

    /// No order needs fewer bytes than its hungriest op, or than what is live before the first or past the last.
    pub(super) fn lower_bound(&self) -> u64 {
        let op =
            |op: usize| self.touches.row(op).iter().map(|&s| self.bytes[s as usize]).sum::<u64>() + self.workspace[op];
        let largest = (0..self.ops()).map(op).max().unwrap_or(0);
        let kept =
            |flags: &[bool]| self.bytes.iter().zip(flags).filter(|&(_, &kept)| kept).map(|(bytes, _)| bytes).sum();
        largest.max(kept(&self.at_start)).max(kept(&self.at_end))
    }

    /// Most bytes live at one op of an order.
    pub(super) fn peak(&self, order: &[u32]) -> u64 {
        let mut state = State::new(self);
        order.iter().map(|&op| state.run(self, op)).max().unwrap_or(0)
    }
}

/// What is live while an order is run through.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// How many ops still have to touch each storage.
    pub(super) left: Vec<u32>,
    pub(super) is_live: Vec<bool>,
    pub(super) live: u64,
}

impl State {
    pub(super) fn new(model: &Model) -> Self {
        let left = (0..model.bytes.len()).map(|storage| model.touched_by.row(storage).len() as u32).collect();
        let live = model.bytes.iter().zip(&model.at_start).filter(|&(_, &live)| live).map(|(bytes, _)| bytes).sum();
        Self { left, is_live: model.at_start.clone(), live }
    }

    /// Bytes an op adds, and bytes that are released after it.
    pub(super) fn growth(&self, model: &Model, op: u32) -> (u64, u64) {
        let (mut born, mut freed) = (0, 0);
        for &storage in model.touches.row(op as usize) {
            let id = storage as usize;
            if !self.is_live[id] {
                born += model.bytes[id];
            }
            if self.left[id] == 1 && !model.at_end[id] {
                freed += model.bytes[id];
            }
        }
        (born, freed)
    }

    /// Runs an op and says how many bytes were live during it.
    pub(super) fn run(&mut self, model: &Model, op: u32) -> u64 {
        let (born, freed) = self.growth(model, op);
        for &storage in model.touches.row(op as usize) {
            let id = storage as usize;
            self.left[id] -= 1;
            self.is_live[id] = self.left[id] > 0 || model.at_end[id];
        }
        let during = self.live + born + model.workspace[op as usize];
        self.live = self.live + born - freed;
        during
    }

    /// Takes back the op run last. `live` and `was_live` are what stood there before: the bytes live, and whether each
    /// storage that the op touches was.
    pub(super) fn take_back(&mut self, model: &Model, op: u32, live: u64, was_live: &[bool]) {
        for (&storage, &was_live) in model.touches.row(op as usize).iter().zip(was_live) {
            self.left[storage as usize] += 1;
            self.is_live[storage as usize] = was_live;
        }
        self.live = live;
    }
}
