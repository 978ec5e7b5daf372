//! One buffer after the other, each where it fits: the orders and fits that planners use, peers' among them.

use std::cmp::Reverse;

use crate::instance::{FREE, Instance};
use crate::occupancy::{Fit, Occupancy};

/// In which order buffers are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// As they are born.
    Arrival,
    /// Largest first (TensorFlow Lite, IREE; XLA's "spatial" order).
    Size,
    /// Longest-lived first (XLA's "temporal" order).
    Life,
    /// Largest size times life first (XLA's "spatio-temporal" order).
    Area,
    /// Moments by falling load, at each the buffers live there, longest life first (Glow).
    Pressure,
    /// Largest size times the load of its worst moment first, so that what must share the tightest moment goes first.
    Tightness,
    /// As they die, last first.
    Departure,
}

/// Which of several buffers equal in an [`Order`] comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ties {
    /// The one that stands first in the problem.
    Number,
    /// The longest-lived, then the first born.
    Life,
    /// The first born.
    Birth,
}

impl Order {
    /// The numbers of all buffers in this order. Ties go by `ties`, then by number, so the order is total.
    pub(crate) fn sort(self, instance: &Instance, ties: Ties) -> Vec<u32> {
        let mut order: Vec<u32> = (0..instance.len() as u32).collect();
        let size = |i: u32| Reverse(instance.size[i as usize]);
        let life = |i: u32| Reverse(instance.life[i as usize]);
        let born = |i: u32| instance.born_at[i as usize];
        let tie = |i: u32| match ties {
            Ties::Number => (Reverse(0), 0),
            Ties::Life => (life(i), born(i)),
            Ties::Birth => (Reverse(0), born(i)),
        };
        let area = |i: u32| Reverse(u128::from(instance.size[i as usize]) * u128::from(instance.life[i as usize]));
        match self {
            Self::Arrival => order.sort_by_key(|&i| born(i)),
            Self::Size => order.sort_by_key(|&i| (size(i), tie(i))),
            Self::Life => order.sort_by_key(|&i| (life(i), size(i), tie(i))),
            Self::Area => order.sort_by_key(|&i| (area(i), tie(i))),
            Self::Pressure => return by_pressure(instance),
            Self::Tightness => {
                let worst = worst_loads(instance);
                let weight = |i: u32| Reverse(u128::from(instance.size[i as usize]) * u128::from(worst[i as usize]));
                order.sort_by_key(|&i| (weight(i), tie(i)));
            }
            Self::Departure => {
                order.sort_by_key(|&i| (Reverse(born(i) + instance.life[i as usize]), size(i), life(i)));
            }
        }
        order
    }
}

/// For each buffer the highest load among the moments it is live at.
fn worst_loads(instance: &Instance) -> Vec<u64> {
    let highest = crate::range_max::RangeMax::new(instance.loads());
    (0..instance.len()).map(|i| highest.max(instance.birth[i] as usize, instance.death[i] as usize)).collect()
}

fn by_pressure(instance: &Instance) -> Vec<u32> {
    let loads = instance.loads();
    let mut rank_of_moment = vec![0_u64; loads.len()];
    let mut moments: Vec<usize> = (0..loads.len()).collect();
    moments.sort_by_key(|&m| Reverse(loads[m]));
    for (rank, &moment) in moments.iter().enumerate() {
        rank_of_moment[moment] = u64::MAX - rank as u64;
    }
    let first = crate::range_max::RangeMax::new(rank_of_moment);
    let mut order: Vec<u32> = (0..instance.len() as u32).collect();
    order.sort_by_cached_key(|&i| {
        let k = i as usize;
        let rank = first.max(instance.birth[k] as usize, instance.death[k] as usize);
        (Reverse(rank), Reverse(instance.life[k]), Reverse(instance.size[k]), instance.born_at[k])
    });
    order
}

/// Places buffers in `order`, those with a fixed offset before all others.
///
/// # Errors
/// The first buffer that would end above `limit`.
pub(crate) fn place(instance: &Instance, order: &[u32], fit: Fit, limit: u64) -> Result<Vec<u64>, u32> {
    let mut occupancy = Occupancy::new(instance.moments);
    let mut offsets = vec![FREE; instance.len()];
    for (i, &fixed) in instance.fixed.iter().enumerate().filter(|f| *f.1 != FREE) {
        offsets[i] = fixed;
        occupancy.take(instance, i, fixed);
    }
    for &i in order {
        let i = i as usize;
        if offsets[i] != FREE {
            continue;
        }
        let offset = occupancy.room(instance, i, &offsets).choose(fit);
        if offset + instance.size[i] > limit {
            return Err(i as u32);
        }
        offsets[i] = offset;
        occupancy.take(instance, i, offset);
    }
    Ok(offsets)
}
