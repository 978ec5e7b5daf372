//! An order of the ops that keeps every dependency and needs fewer bytes at its worst moment.
//!
//! Finding the best order is NP-hard (Sethi 1975), for trees it is easy (Liu 1987). So several quick orders are made,
//! each good at another shape of graph, forwards from the inputs and backwards from the results; the best few are then
//! improved where they need most. All of it counts visits of a storage by an op, so it stops at the same point on every
//! machine.
//!
//! A usual training step gains next to nothing, since what it needs at the turning point is what forward has to keep.
//! Wide graphs, whose branches could run one after another, gain by a lot.

mod depth_first;
mod improve;
mod list;
mod model;
mod release;
mod window;

use crate::{OpId, check::Scan};
use model::{Budget, Direction, Model};

/// How many of the quick orders are improved.
const IMPROVED: usize = 4;

/// An order with a lower peak than the given one, as far as the model goes; `None` if none was found within the budget.
pub(crate) fn memory_order(scan: &Scan<'_>, budget: u64) -> Option<Vec<OpId>> {
    let model = Model::new(scan);
    let mut budget = Budget::new(budget);
    let given: Vec<u32> = (0..scan.ops() as u32).collect();
    let given_peak = model.peak(&given);
    let bound = model.lower_bound();
    let mut found: Vec<(u64, Vec<u32>)> = vec![(given_peak, given)];
    let reversed = model.reversed();
    'search: for quick in QUICK {
        for (direction, model_seen) in [(Direction::Forwards, &model), (Direction::Backwards, &reversed)] {
            if found.iter().any(|&(peak, _)| peak <= bound) || !budget.spend(model.size()) {
                break 'search;
            }
            let Some(mut order) = quick(model_seen, &mut budget) else { continue };
            if direction == Direction::Backwards {
                order.reverse();
            }
            found.push((model.peak(&order), order));
        }
    }
    // Stable, so that the given order wins ties and the rest keep their order.
    found.sort_by_key(|&(peak, _)| peak);
    found.truncate(IMPROVED);
    let count = found.len() as u64;
    for (index, (peak, order)) in found.iter_mut().enumerate() {
        let mut share = budget.share(count - index as u64);
        if *peak > bound {
            *peak = improve::improve(&model, order, &mut share);
        }
        budget.give_back(share);
    }
    found.sort_by_key(|&(peak, _)| peak);
    let (peak, order) = found.into_iter().next()?;
    (peak < given_peak).then(|| order.into_iter().map(OpId).collect())
}

/// A method that makes an order from nothing; `None` if the budget ran out on the way.
type Quick = fn(&Model, &mut Budget) -> Option<Vec<u32>>;

const QUICK: [Quick; 5] = [
    |model, budget| list::schedule(model, list::Rule::LeastGrowth, budget),
    |model, budget| list::schedule(model, list::Rule::LiuSegments, budget),
    |model, budget| list::schedule(model, list::Rule::NewestFirst, budget),
    |model, _| Some(depth_first::schedule(model)),
    release::schedule,
];
