//! Looking ahead to what a few ops together would release.
//!
//! One op alone often frees nothing: a storage goes when the last of its ops has run, and those need others first. So
//! the unit here is a release: all ops that still have to touch a storage, with everything they need. Of the releases in
//! reach, the best by Liu's order is run whole.

use std::{cmp::Reverse, collections::BTreeSet};

use super::model::{Budget, Model, State};

/// Most releases looked at before each choice, of live storages and of storages that ready ops would make.
const LIVE_TRIED: usize = 16;
const READY_TRIED: usize = 16;
/// Most ops in a release.
const MAX_OPS: usize = 64;

/// The order this leads to; `None` if the budget ran out.
pub(super) fn schedule(model: &Model, budget: &mut Budget) -> Option<Vec<u32>> {
    let mut search = Search::new(model);
    let (mut ops, mut best, mut storages) = (Vec::new(), Vec::new(), Vec::new());
    while search.order.len() < model.ops() {
        search.storages_in_reach(&mut storages);
        let mut best_key = None;
        for &storage in &storages {
            if !search.release(storage, &mut ops, budget)? {
                continue;
            }
            let key = search.worth(&ops, budget)?;
            if best_key.is_none_or(|best| key < best) {
                best_key = Some(key);
                std::mem::swap(&mut best, &mut ops);
            }
        }
        if best_key.is_none() {
            // Nothing small enough to release: the ready op that stands first.
            let next = search.ready.first().copied()?;
            best.clear();
            best.push(model.at_rank(next));
        }
        for &op in &best {
            search.run(op);
        }
    }
    Some(search.order)
}

struct Search<'m> {
    model: &'m Model,
    state: State,
    order: Vec<u32>,
    has_run: Vec<bool>,
    missing: Vec<usize>,
    /// Ready ops by rank.
    ready: BTreeSet<u32>,
    /// Live storages that can be released, the largest first.
    live: BTreeSet<(Reverse<u64>, u32)>,
    /// The last search that met each op.
    met: Vec<u32>,
    searches: u32,
    was_live: Vec<bool>,
}

impl<'m> Search<'m> {
    fn new(model: &'m Model) -> Self {
        let missing: Vec<usize> = (0..model.ops()).map(|op| model.before.row(op).len()).collect();
        let ready = (0..model.ops() as u32).filter(|&op| missing[op as usize] == 0).map(|op| model.rank(op)).collect();
        let live = (0..model.bytes.len()).filter(|&id| model.at_start[id] && !model.at_end[id]);
        Self {
            state: State::new(model),
            order: Vec::with_capacity(model.ops()),
            has_run: vec![false; model.ops()],
            missing,
            ready,
            live: live.map(|id| (Reverse(model.bytes[id]), id as u32)).collect(),
            met: vec![0; model.ops()],
            searches: 0,
            was_live: Vec::new(),
            model,
        }
    }

    fn storages_in_reach(&self, storages: &mut Vec<u32>) {
        storages.clear();
        storages.extend(self.live.iter().take(LIVE_TRIED).map(|&(_, id)| id));
        for &rank in self.ready.iter().take(READY_TRIED) {
            let touched = self.model.touches.row(self.model.at_rank(rank) as usize);
            storages.extend(touched.iter().copied().filter(|&id| !self.model.at_end[id as usize]));
        }
        storages.sort_unstable();
        storages.dedup();
    }

    /// Collects the ops that release a storage, in given order; `false` if there are too many.
    fn release(&mut self, storage: u32, ops: &mut Vec<u32>, budget: &mut Budget) -> Option<bool> {
        self.searches += 1;
        ops.clear();
        let touchers = self.model.touched_by.row(storage as usize);
        if !budget.spend(touchers.len()) {
            return None;
        }
        for &op in touchers {
            if !self.meet(op, ops) {
                return Some(false);
            }
        }
        let mut next = 0;
        while next < ops.len() {
            let needs = self.model.before.row(ops[next] as usize);
            if !budget.spend(needs.len()) {
                return None;
            }
            for &need in needs {
                if !self.meet(need, ops) {
                    return Some(false);
                }
            }
            next += 1;
        }
        ops.sort_unstable_by_key(|&op| self.model.rank(op));
        Some(true)
    }

    /// Adds an op unless it has run or is there already; `false` if there is no room.
    fn meet(&mut self, op: u32, ops: &mut Vec<u32>) -> bool {
        if self.has_run[op as usize] || self.met[op as usize] == self.searches {
            return true;
        }
        self.met[op as usize] = self.searches;
        ops.push(op);
        ops.len() <= MAX_OPS
    }

    /// Liu's key of running these ops one after another: smaller is better.
    fn worth(&mut self, ops: &[u32], budget: &mut Budget) -> Option<(u8, i128, i128)> {
        let before = self.state.live;
        let mut during = 0;
        let mut undo = Vec::with_capacity(ops.len());
        self.was_live.clear();
        for &op in ops {
            let touched = self.model.touches.row(op as usize);
            if !budget.spend(2 * touched.len() + 1) {
                return None;
            }
            undo.push((op, self.state.live, self.was_live.len()));
            self.was_live.extend(touched.iter().map(|&storage| self.state.is_live[storage as usize]));
            during = during.max(self.state.run(self.model, op));
        }
        let growth = i128::from(self.state.live) - i128::from(before);
        let needs = i128::from(during) - i128::from(before);
        for (op, live, from) in undo.into_iter().rev() {
            self.state.take_back(self.model, op, live, &self.was_live[from..]);
            self.was_live.truncate(from);
        }
        Some(if growth <= 0 { (0, needs, growth) } else { (1, growth - needs, growth) })
    }

    fn run(&mut self, op: u32) {
        let model = self.model;
        self.state.run(model, op);
        self.order.push(op);
        self.has_run[op as usize] = true;
        self.ready.remove(&model.rank(op));
        for &storage in model.touches.row(op as usize) {
            let id = storage as usize;
            let entry = (Reverse(model.bytes[id]), storage);
            if self.state.is_live[id] && !model.at_end[id] {
                self.live.insert(entry);
            } else {
                self.live.remove(&entry);
            }
        }
        for &next in model.after.row(op as usize) {
            self.missing[next as usize] -= 1;
            if self.missing[next as usize] == 0 {
                self.ready.insert(model.rank(next));
            }
        }
    }
}
