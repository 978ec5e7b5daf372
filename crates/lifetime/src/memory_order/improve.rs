//! Moving ops away from the worst moment.
//!
//! At the op with the most bytes live, each storage that is live across it is a chance: have the ops that still use it
//! run before, so that it is gone by then; or have the ops that made it run later, so that it isn't there yet. Either way
//! the ops that have to move along are found, and the order between the old and the new place is priced anew. What lies
//! outside doesn't change. Where no such move helps, the best order of the ops around that moment is searched for.

use super::{
    model::{Budget, Model},
    window::{self, Window},
};

/// Most storages tried at one moment.
const TRIED: usize = 48;
/// Most ops moved at once.
const MAX_OPS: usize = 96;
/// Windows around the worst moment whose best order is searched: ops before it, ops from it on, most sets of ops.
const WINDOWS: [(usize, usize, usize); 4] = [(6, 6, 4096), (32, 32, 8192), (60, 4, 8192), (4, 60, 8192)];
/// Marks a storage that a window has begun to touch.
const BEGUN: u32 = 1 << 31;

/// Improves the order until nothing at its first worst moment helps, and returns its peak.
pub(super) fn improve(model: &Model, order: &mut Vec<u32>, budget: &mut Budget) -> u64 {
    let mut schedule = Schedule::new(model, std::mem::take(order));
    while budget.spend(schedule.order.len()) && (schedule.move_once(budget) || schedule.search_once(budget)) {}
    let peak = schedule.load.iter().copied().max().unwrap_or(0);
    *order = schedule.order;
    peak
}

struct Schedule<'m> {
    model: &'m Model,
    order: Vec<u32>,
    position: Vec<u32>,
    /// First and last position that touches each storage, with the first and last moment kept in mind: a storage live at
    /// the start has its first at -1.
    first: Vec<i64>,
    last: Vec<i64>,
    /// Bytes live during the op at each position, its own workspace included.
    load: Vec<u64>,
    /// Marks of the search in progress.
    mark: Vec<u32>,
    marks: u32,
    /// How often the window in progress touches a storage.
    touched: Vec<u32>,
}

impl<'m> Schedule<'m> {
    fn new(model: &'m Model, order: Vec<u32>) -> Self {
        let ops = order.len();
        let mut schedule = Self {
            model,
            order,
            position: vec![0; ops],
            first: model.at_start.iter().map(|&start| if start { -1 } else { i64::MAX }).collect(),
            last: model.at_end.iter().map(|&end| if end { i64::MAX } else { -1 }).collect(),
            load: vec![0; ops],
            mark: vec![0; ops],
            marks: 0,
            touched: vec![0; model.bytes.len()],
        };
        for (at, &op) in schedule.order.iter().enumerate() {
            schedule.position[op as usize] = at as u32;
            for &storage in model.touches.row(op as usize) {
                let (first, last) = (&mut schedule.first[storage as usize], &mut schedule.last[storage as usize]);
                *first = (*first).min(at as i64);
                *last = (*last).max(at as i64);
            }
        }
        let window = schedule.order.clone();
        schedule.load = schedule.price(0, &window).0;
        schedule
    }

    /// Finds a move that lowers the first worst moment, and makes it.
    fn move_once(&mut self, budget: &mut Budget) -> bool {
        let Some((worst, peak)) = first_max(&self.load) else { return false };
        let mut live: Vec<u32> = Vec::new();
        if !budget.spend(self.model.bytes.len()) {
            return false;
        }
        for storage in 0..self.model.bytes.len() as u32 {
            if self.first[storage as usize] <= worst as i64 && self.last[storage as usize] >= worst as i64 {
                live.push(storage);
            }
        }
        live.sort_by_key(|&storage| (std::cmp::Reverse(self.model.bytes[storage as usize]), storage));
        for &storage in live.iter().take(TRIED) {
            for hoist in [true, false] {
                let moved = if hoist { self.hoisted(storage, worst) } else { self.delayed(storage, worst) };
                let Some((from, window)) = moved else { continue };
                let visits: usize = window.iter().map(|&op| 1 + self.model.touches.row(op as usize).len()).sum();
                if !budget.spend(2 * visits) {
                    return false;
                }
                let (load, is_better) = self.price(from, &window);
                if is_better(peak, &self.load[from..from + window.len()]) {
                    self.put(from, &window, load);
                    return true;
                }
            }
        }
        false
    }

    /// Searches for a better order of the ops around the first worst moment, and makes it.
    fn search_once(&mut self, budget: &mut Budget) -> bool {
        let Some((worst, peak)) = first_max(&self.load) else { return false };
        let ops = self.order.len();
        for (before, after, max_sets) in WINDOWS {
            // At either end of the order the window reaches further on the other side.
            let length = (before + after).min(window::MAX_OPS).min(ops);
            let from = worst.saturating_sub(before).min(ops - length);
            let (start, end) = (from as i64, (from + length) as i64);
            let ops = &self.order[from..from + length];
            let is_live_before = |storage: u32| self.first[storage as usize] < start;
            let is_live_after = |storage: u32| self.last[storage as usize] >= end;
            let window = Window::new(self.model, ops, is_live_before, is_live_after);
            if let Some(order) = window.search(self.live_between(from), peak, max_sets, budget) {
                let load = self.price(from, &order).0;
                self.put(from, &order, load);
                return true;
            }
        }
        false
    }

    /// The order from the worst moment on, up to the storage's last use, with the ops that still use it (and all they
    /// need) moved before the worst op.
    fn hoisted(&mut self, storage: u32, worst: usize) -> Option<(usize, Vec<u32>)> {
        let end = usize::try_from(self.last[storage as usize]).ok().filter(|&last| last < self.order.len())? + 1;
        let users = self.model.touched_by.row(storage as usize).iter().copied();
        let later: Vec<u32> = users.filter(|&op| self.position[op as usize] as usize > worst).collect();
        let moved = self.closure(
            later,
            |schedule, op| {
                let position = schedule.position[op as usize] as usize;
                (position >= worst).then_some(position > worst)
            },
            |model, op| model.before.row(op as usize),
        )?;
        Some((worst, self.partition(worst, end, moved, true)))
    }

    /// The order from the storage's first use up to its next use after the worst moment, with the ops that used it so far
    /// (and all that need them) moved behind the worst op, as late as they can.
    fn delayed(&mut self, storage: u32, worst: usize) -> Option<(usize, Vec<u32>)> {
        let from = usize::try_from(self.first[storage as usize]).ok()?;
        let users = self.model.touched_by.row(storage as usize).iter().copied();
        let earlier: Vec<u32> = users.clone().filter(|&op| self.position[op as usize] as usize <= worst).collect();
        let mut end = users.map(|op| self.position[op as usize] as usize).filter(|&at| at > worst).min()?;
        let moved = self.closure(
            earlier,
            |schedule, op| {
                let position = schedule.position[op as usize] as usize;
                (position <= worst).then_some(position < worst)
            },
            |model, op| model.after.row(op as usize),
        )?;
        for &op in &moved {
            for &next in self.model.after.row(op as usize) {
                let at = self.position[next as usize] as usize;
                if at > worst {
                    end = end.min(at);
                }
            }
        }
        Some((from, self.partition(from, end, moved, false)))
    }

    /// The ops given and all they lead to, as far as `inside` says `Some`. `None` if there are none or too many, or if one
    /// is met that can't move (`Some(false)`).
    fn closure(
        &mut self,
        mut ops: Vec<u32>,
        inside: impl Fn(&Self, u32) -> Option<bool>,
        next: impl Fn(&'m Model, u32) -> &'m [u32],
    ) -> Option<Vec<u32>> {
        self.marks += 1;
        for &op in &ops {
            if inside(self, op) == Some(false) {
                return None;
            }
            self.mark[op as usize] = self.marks;
        }
        let mut at = 0;
        while at < ops.len() {
            for &other in next(self.model, ops[at]) {
                match inside(self, other) {
                    None => {}
                    Some(false) => return None,
                    Some(true) if self.mark[other as usize] == self.marks => {}
                    Some(true) => {
                        self.mark[other as usize] = self.marks;
                        ops.push(other);
                    }
                }
            }
            at += 1;
            if ops.len() > MAX_OPS {
                return None;
            }
        }
        (!ops.is_empty()).then_some(ops)
    }

    /// The ops of the positions `from..to`, those marked last put in front or behind, each part in its old order.
    fn partition(&self, from: usize, to: usize, moved: Vec<u32>, in_front: bool) -> Vec<u32> {
        debug_assert!(moved.iter().all(|&op| self.mark[op as usize] == self.marks), "moved ops are marked");
        let is_moved = |op: &&u32| self.mark[**op as usize] == self.marks;
        let window = &self.order[from..to];
        let (moved, rest) = (window.iter().filter(is_moved), window.iter().filter(|op| !is_moved(op)));
        if in_front { moved.chain(rest).copied().collect() } else { rest.chain(moved).copied().collect() }
    }

    /// The load of each position if `window` stood from `from` on, and how to compare it with what stands there.
    fn price(&mut self, from: usize, window: &[u32]) -> (Vec<u64>, impl Fn(u64, &[u64]) -> bool + use<>) {
        let model = self.model;
        let (start, end) = (from as i64, (from + window.len()) as i64);
        let mut live = self.live_between(from);
        for &op in window {
            for &storage in model.touches.row(op as usize) {
                self.touched[storage as usize] += 1;
            }
        }
        let mut load = Vec::with_capacity(window.len());
        let mut begun: Vec<u32> = Vec::new();
        for &op in window {
            let row = model.touches.row(op as usize);
            for &storage in row {
                let id = storage as usize;
                // The high bit says that the window has touched it already.
                if self.touched[id] & BEGUN == 0 {
                    self.touched[id] |= BEGUN;
                    begun.push(storage);
                    if self.first[id] >= start {
                        live += model.bytes[id];
                    }
                }
            }
            load.push(live + model.workspace[op as usize]);
            for &storage in row {
                let id = storage as usize;
                self.touched[id] -= 1;
                if self.touched[id] == BEGUN && self.last[id] < end {
                    live -= model.bytes[id];
                }
            }
        }
        for storage in begun {
            self.touched[storage as usize] = 0;
        }
        let most = load.iter().copied().max().unwrap_or(0);
        let new = load.clone();
        let is_better = move |peak: u64, old: &[u64]| {
            let count = |load: &[u64]| load.iter().filter(|&&bytes| bytes == peak).count();
            most < peak || (most == peak && count(&new) < count(old))
        };
        (load, is_better)
    }

    /// Bytes live between the op before a position and the op at it.
    fn live_between(&self, position: usize) -> u64 {
        let Some(before) = position.checked_sub(1) else {
            return self.model.bytes.iter().zip(&self.first).filter(|&(_, &first)| first < 0).map(|(b, _)| b).sum();
        };
        let op = self.order[before] as usize;
        let released = self.model.touches.row(op).iter().filter(|&&s| self.last[s as usize] == before as i64);
        let released: u64 = released.map(|&storage| self.model.bytes[storage as usize]).sum();
        self.load[before] - self.model.workspace[op] - released
    }

    /// Makes `window` stand from `from` on.
    fn put(&mut self, from: usize, window: &[u32], load: Vec<u64>) {
        let (start, end) = (from as i64, (from + window.len()) as i64);
        for &op in window {
            for &storage in self.model.touches.row(op as usize) {
                let (first, last) = (&mut self.first[storage as usize], &mut self.last[storage as usize]);
                if *first >= start {
                    *first = i64::MAX;
                }
                if *last < end {
                    *last = -1;
                }
            }
        }
        for (at, &op) in (from..).zip(window) {
            self.order[at] = op;
            self.position[op as usize] = at as u32;
            for &storage in self.model.touches.row(op as usize) {
                let (first, last) = (&mut self.first[storage as usize], &mut self.last[storage as usize]);
                *first = (*first).min(at as i64);
                *last = (*last).max(at as i64);
            }
        }
        self.load[from..from + window.len()].copy_from_slice(&load);
    }
}

/// The first position with the most bytes.
fn first_max(load: &[u64]) -> Option<(usize, u64)> {
    load.iter().copied().enumerate().max_by_key(|&(at, bytes)| (bytes, std::cmp::Reverse(at)))
}
