//! The best order of a few ops that stand next to each other.
//!
//! A set of ops that have run decides what is live, however they were ordered. So the sets are searched, from none to
//! all, always going on from the one reached with the lowest peak so far: when all ops have run, no order of this window
//! has a lower one. The number of sets may explode and is limited.

use std::{cmp::Reverse, collections::BinaryHeap};

use hashbrown::HashMap;

use super::model::{Budget, Model};

/// Most ops in a window: a set of them is a word.
pub(super) const MAX_OPS: usize = 64;

/// Ops in a row, with what their surroundings make of the storages they touch.
pub(super) struct Window<'m> {
    model: &'m Model,
    ops: Vec<u32>,
    /// For each op, those of the window it needs.
    needs: Vec<u64>,
    /// For each op, the storages it touches, as numbers in the lists below.
    touches: Vec<Vec<u32>>,
    /// For each storage the ops of the window that touch it.
    users: Vec<u64>,
    bytes: Vec<u64>,
    live_before: Vec<bool>,
    live_after: Vec<bool>,
}

impl<'m> Window<'m> {
    /// `live_before` and `live_after` say of a storage whether something outside keeps it live on that side.
    pub(super) fn new(
        model: &'m Model,
        ops: &[u32],
        live_before: impl Fn(u32) -> bool,
        live_after: impl Fn(u32) -> bool,
    ) -> Self {
        debug_assert!(ops.len() <= MAX_OPS, "a set of ops is a word");
        let place: HashMap<u32, u32> = ops.iter().copied().zip(0..).collect();
        let mut number: HashMap<u32, u32> = HashMap::new();
        let mut window = Self {
            model,
            ops: ops.to_vec(),
            needs: Vec::new(),
            touches: Vec::new(),
            users: Vec::new(),
            bytes: Vec::new(),
            live_before: Vec::new(),
            live_after: Vec::new(),
        };
        for (at, &op) in ops.iter().enumerate() {
            let needs = model.before.row(op as usize).iter().filter_map(|need| place.get(need));
            window.needs.push(needs.fold(0, |set, &place| set | 1 << place));
            let mut touched = Vec::new();
            for &storage in model.touches.row(op as usize) {
                let id = *number.entry(storage).or_insert_with(|| {
                    window.users.push(0);
                    window.bytes.push(model.bytes[storage as usize]);
                    window.live_before.push(live_before(storage));
                    window.live_after.push(live_after(storage));
                    window.users.len() as u32 - 1
                });
                window.users[id as usize] |= 1 << at;
                touched.push(id);
            }
            window.touches.push(touched);
        }
        window
    }

    /// An order whose loads all stay below `limit`, as low as can be; `None` if there is none or it isn't found within
    /// `max_sets` sets. `live` is what is live before the window.
    pub(super) fn search(&self, live: u64, limit: u64, max_sets: usize, budget: &mut Budget) -> Option<Vec<u32>> {
        let all = u64::MAX >> (64 - self.ops.len());
        // How each set was reached first: the op run last, and the peak on the way.
        let mut reached: HashMap<u64, (u32, u64)> = HashMap::new();
        let mut open = BinaryHeap::from([(Reverse(0_u64), 0_u32, Reverse(0_u64), live)]);
        reached.insert(0, (0, 0));
        while let Some((Reverse(peak), count, Reverse(done), live)) = open.pop() {
            if done == all {
                return Some(self.walk_back(&reached));
            }
            if reached.get(&done).is_some_and(|&(_, best)| best < peak) {
                continue;
            }
            for op in 0..self.ops.len() {
                let with = done | 1 << op;
                if with == done || self.needs[op] & !done != 0 {
                    continue;
                }
                if !budget.spend(1 + self.touches[op].len()) {
                    return None;
                }
                let (during, after) = self.run(op, done, live);
                let peak = peak.max(during);
                if peak < limit && reached.get(&with).is_none_or(|&(_, best)| peak < best) {
                    reached.insert(with, (op as u32, peak));
                    if reached.len() > max_sets {
                        return None;
                    }
                    open.push((Reverse(peak), count + 1, Reverse(with), after));
                }
            }
        }
        None
    }

    /// Bytes live during an op, and after it.
    fn run(&self, op: usize, done: u64, live: u64) -> (u64, u64) {
        let (mut during, mut freed) = (live, 0);
        for &storage in &self.touches[op] {
            let id = storage as usize;
            let users = self.users[id];
            if !self.live_before[id] && users & done == 0 {
                during += self.bytes[id];
            }
            if !self.live_after[id] && users & !(done | 1 << op) == 0 {
                freed += self.bytes[id];
            }
        }
        (during + self.model.workspace[self.ops[op] as usize], during - freed)
    }

    fn walk_back(&self, reached: &HashMap<u64, (u32, u64)>) -> Vec<u32> {
        let mut done = u64::MAX >> (64 - self.ops.len());
        let mut order = Vec::with_capacity(self.ops.len());
        while let (true, Some(&(op, _))) = (done != 0, reached.get(&done)) {
            order.push(self.ops[op as usize]);
            done &= !(1 << op);
        }
        order.reverse();
        order
    }
}
