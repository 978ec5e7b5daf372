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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{check::Scan, testing::Builder};

    fn order(b: &Builder, rule: Rule) -> Vec<u32> {
        let scan = Scan::new(&b.graph).unwrap();
        schedule(&Model::new(&scan), rule, &mut Budget::new(1000)).unwrap()
    }

    #[test]
    fn an_op_is_worth_more_once_it_is_the_last_that_needs_a_storage() {
        let mut b = Builder::default();
        let x = b.op("x", &[], 100);
        let small = b.op("small", &[x], 10);
        b.op("neither frees nor needs much", &[small], 20);
        let large = b.op("large, but frees x", &[x], 50);
        b.op("last", &[small, large], 1);
        b.graph.results = vec![crate::TensorId(2)];
        for rule in [Rule::LeastGrowth, Rule::LiuSegments, Rule::NewestFirst] {
            assert_eq!(order(&b, rule), [0, 1, 3, 4, 2], "{rule:?}");
        }
    }

    #[test]
    fn the_newest_branch_is_finished_first() {
        let mut b = Builder::default();
        for _ in 0..2 {
            let x = b.op("first", &[], 1);
            let y = b.op("second", &[x], 10);
            b.op("third", &[y], 100);
        }
        assert_eq!(order(&b, Rule::NewestFirst), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn without_a_budget_there_is_no_order() {
        let mut b = Builder::default();
        b.op("x", &[], 1);
        let scan = Scan::new(&b.graph).unwrap();
        assert_eq!(schedule(&Model::new(&scan), Rule::LeastGrowth, &mut Budget::new(0)), None);
    }
}
