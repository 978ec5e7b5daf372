//! List scheduling: of the ops that could run now, always the one that a rule likes best.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::model::{Budget, Model, State};

/// What makes one ready op better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The one after which the fewest bytes are live.
    LeastGrowth,
    /// Liu's order of segments: first what shrinks the load, cheapest first; then what grows it, the one that gives back
    /// most of what it needs first.
    LiuSegments,
    /// First what shrinks the load; then what became ready last, so that a branch is finished before the next begins.
    NewestFirst,
}

/// Smaller is better.
type Key = (i128, i128, i128, u32);

struct Ready<'m> {
    model: &'m Model,
    rule: Rule,
    state: State,
    /// When each op became ready; 0 if it isn't, or has run.
    since: Vec<u32>,
    /// The key each ready op was last filed under; older entries in the heap are out of date.
    key: Vec<Key>,
    heap: BinaryHeap<Reverse<Key>>,
}

impl Ready<'_> {
    fn file(&mut self, op: u32) {
        let since = i128::from(self.since[op as usize]);
        let (born, freed) = self.state.growth(self.model, op);
        let (born, freed) = (i128::from(born), i128::from(freed));
        let during = born + i128::from(self.model.workspace[op as usize]);
        let growth = born - freed;
        let key = match self.rule {
            Rule::LeastGrowth => (growth, during, 0, op),
            Rule::LiuSegments if growth <= 0 => (0, during, growth, op),
            Rule::LiuSegments => (1, growth - during, growth, op),
            Rule::NewestFirst if growth <= 0 => (0, growth, during, op),
            Rule::NewestFirst => (1, -since, growth, op),
        };
        self.key[op as usize] = key;
        self.heap.push(Reverse(key));
    }

    fn take(&mut self) -> Option<u32> {
        while let Some(Reverse(key)) = self.heap.pop() {
            let op = key.3 as usize;
            if self.since[op] > 0 && self.key[op] == key {
                self.since[op] = 0;
                return Some(key.3);
            }
        }
        None
    }
}

/// The order this rule leads to; `None` if the budget ran out.
pub(super) fn schedule(model: &Model, rule: Rule, budget: &mut Budget) -> Option<Vec<u32>> {
    let ops = model.ops();
    let mut missing: Vec<usize> = (0..ops).map(|op| model.before.row(op).len()).collect();
    let mut ready = Ready {
        model,
        rule,
        state: State::new(model),
        since: vec![0; ops],
        key: vec![(0, 0, 0, 0); ops],
        heap: BinaryHeap::new(),
    };
    for op in (0..ops as u32).filter(|&op| missing[op as usize] == 0) {
        ready.since[op as usize] = 1;
        ready.file(op);
    }
    let mut order = Vec::with_capacity(ops);
    while let Some(op) = ready.take() {
        let touched = model.touches.row(op as usize);
        let was_live: Vec<bool> = touched.iter().map(|&storage| ready.state.is_live[storage as usize]).collect();
        ready.state.run(model, op);
        order.push(op);
        // Ops that touch a storage which has just come to life, or has one op left, are worth more now.
        for (&storage, was_live) in touched.iter().zip(was_live) {
            if !was_live || ready.state.left[storage as usize] == 1 {
                let others = model.touched_by.row(storage as usize);
                if !budget.spend(others.len()) {
                    return None;
                }
                for &other in others.iter().filter(|&&other| missing[other as usize] == 0) {
                    if ready.since[other as usize] > 0 {
                        ready.file(other);
                    }
                }
            }
        }
        for &next in model.after.row(op as usize) {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                ready.since[next as usize] = order.len() as u32 + 1;
                ready.file(next);
            }
        }
    }
    debug_assert_eq!(order.len(), ops, "every op becomes ready");
    Some(order)
}
