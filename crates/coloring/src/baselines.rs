//! What other planners would have done, for comparison: rewritten from their published rules, run on the same problem.

use lifetime::Bytes;

use crate::greedy::{Order, Ties};
use crate::instance::Instance;
use crate::occupancy::Fit;
use crate::{Error, Problem, greedy};

/// A peer's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Baseline {
    /// First fit in order of arrival: a simple run-time allocator.
    FirstFitArrival,
    /// Best fit in order of arrival: the memory pattern planner of ONNX Runtime.
    BestFitArrival,
    /// Largest first, lowest offset: TensorFlow Lite Micro, IREE.
    GreedyBySize,
    /// The smallest peak of XLA's six: largest, longest-lived, or largest size times life first, each by best fit and by
    /// lowest offset.
    BestOfXla,
}

impl Baseline {
    /// All of them, in this order.
    pub const ALL: [Self; 4] = [Self::FirstFitArrival, Self::BestFitArrival, Self::GreedyBySize, Self::BestOfXla];

    /// `first_fit_arrival`, `best_fit_arrival`, `greedy_by_size` or `xla_best_of_six`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstFitArrival => "first_fit_arrival",
            Self::BestFitArrival => "best_fit_arrival",
            Self::GreedyBySize => "greedy_by_size",
            Self::BestOfXla => "xla_best_of_six",
        }
    }

    pub(crate) fn rules(self) -> &'static [(Order, Fit)] {
        match self {
            Self::FirstFitArrival => &[(Order::Arrival, Fit::Lowest)],
            Self::BestFitArrival => &[(Order::Arrival, Fit::Best)],
            Self::GreedyBySize => &[(Order::Size, Fit::Lowest)],
            Self::BestOfXla => &[
                (Order::Size, Fit::Best),
                (Order::Size, Fit::Lowest),
                (Order::Life, Fit::Best),
                (Order::Life, Fit::Lowest),
                (Order::Area, Fit::Best),
                (Order::Area, Fit::Lowest),
            ],
        }
    }
}

/// The peak each peer's rule reaches. Ties go by the buffers' numbers, as theirs do.
///
/// # Errors
/// When the problem is refused; see [`Error`].
pub fn baselines(problem: &Problem) -> Result<Vec<(Baseline, Bytes)>, Error> {
    let instance = Instance::new(problem)?;
    let mut known: Vec<((Order, Fit), u64)> = Vec::new();
    let mut peak_of = |rule: (Order, Fit)| {
        if let Some(known) = known.iter().find(|k| k.0 == rule) {
            return known.1;
        }
        let order = rule.0.sort(&instance, Ties::Number);
        let peak = greedy::place(&instance, &order, rule.1, u64::MAX).map_or(u64::MAX, |o| instance.peak(&o));
        known.push((rule, peak));
        peak
    };
    let peaks = Baseline::ALL.map(|b| (b, Bytes(b.rules().iter().map(|&r| peak_of(r)).min().unwrap_or(u64::MAX))));
    Ok(peaks.to_vec())
}
