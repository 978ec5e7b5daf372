//! Better orders from failures: place under a limit just below the best peak; whatever doesn't fit goes to the front part
//! of the order, and again. ("Squeaky wheel" optimization: Joslin and Clements, JAIR 10, 1999.)

use crate::instance::Instance;
use crate::occupancy::Fit;
use crate::random::Random;
use crate::{greedy, skyline};

/// How an order becomes offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Decoder {
    /// One after the other, by this fit.
    Greedy(Fit),
    /// From the ground up; plain instances without fixed offsets only.
    Skyline,
}

impl Decoder {
    /// Offsets for this order, none of them ending above `limit`.
    ///
    /// # Errors
    /// The first buffer that would.
    pub(crate) fn place(self, instance: &Instance, order: &[u32], limit: u64) -> Result<Vec<u64>, u32> {
        match self {
            Self::Greedy(fit) => greedy::place(instance, order, fit, limit),
            Self::Skyline => skyline::place(instance, order, limit),
        }
    }

    /// What one placement counts for, in nodes of the exact search.
    pub(crate) fn nodes(self, instance: &Instance) -> u64 {
        let n = instance.len() as u64;
        match self {
            Self::Greedy(Fit::Lowest) => n,
            Self::Greedy(Fit::Best) => 3 * n,
            // Its heap is asked again for what was raised meanwhile, which grows with the number of neighbours.
            Self::Skyline => n * (2 + n / 4096),
        }
    }
}

/// One line of search: an order that changes as it fails.
#[derive(Clone, Debug)]
pub(crate) struct Promotion {
    decoder: Decoder,
    order: Vec<u32>,
    random: Random,
}

impl Promotion {
    /// Starts from this order.
    pub(crate) fn new(decoder: Decoder, order: Vec<u32>, random: Random) -> Self {
        Self { decoder, order, random }
    }

    /// What one step counts for.
    pub(crate) fn nodes(&self, instance: &Instance) -> u64 {
        self.decoder.nodes(instance)
    }

    /// Spends up to `nodes` on finding offsets with a peak below `limit`, then below that, and so on, but not below
    /// `bound`. Returns the best found, if any, and the nodes spent. `stopped` is asked before each placement.
    pub(crate) fn run(
        &mut self,
        instance: &Instance,
        mut limit: u64,
        bound: u64,
        nodes: u64,
        stopped: impl Fn() -> bool,
    ) -> (Option<Vec<u64>>, u64) {
        let mut best = None;
        let mut spent = 0;
        let rounds = nodes / self.nodes(instance).max(1);
        for _ in 0..rounds.max(1) {
            if limit <= bound || stopped() {
                break;
            }
            spent += self.nodes(instance);
            match self.decoder.place(instance, &self.order, limit - 1) {
                Ok(offsets) => {
                    limit = instance.peak(&offsets);
                    best = Some(offsets);
                }
                Err(failed) => self.promote(failed),
            }
        }
        (best, spent)
    }

    /// Moves a buffer to an earlier place: the later of two random ones, so that short moves are likelier. The first
    /// goes anywhere.
    fn promote(&mut self, failed: u32) {
        let Some(from) = self.order.iter().position(|&i| i == failed) else { return };
        let to = match from {
            0 => self.random.below(self.order.len()),
            _ => self.random.below(from).max(self.random.below(from)),
        };
        if to <= from {
            self.order[to..=from].rotate_right(1);
        } else {
            self.order[from..=to].rotate_left(1);
        }
    }
}
