//! Checks a plan without believing the solver: none of the solver's code or structures are used here.

use std::collections::BTreeMap;

use lifetime::{Bytes, Offset};

use crate::{BoundKind, Defect, Plan, Problem, Status, instance};

/// What the verifier found out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Highest end of a buffer.
    pub peak: Bytes,
    /// Most bytes live at one moment.
    pub max_load: Bytes,
    /// The same with sizes rounded up to an alignment that all offsets share, less the largest slack among those live at
    /// that moment: what the topmost need not be rounded by. `max_load` again where buffers have gaps.
    pub aligned_load: Bytes,
}

/// What happens to a buffer's bytes at a moment: it gives back `[from, to)`, or takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Gives,
    Takes,
}

/// Checks that `offsets` place every buffer of `problem` aligned, where it is fixed if it is, and on bytes that no
/// conflicting buffer has. One sweep over time with the taken ranges in a search tree: `O(n log n)`.
///
/// # Errors
/// The first [`Defect`] in order of time, after those of single buffers.
pub fn verify(problem: &Problem, offsets: &[Offset]) -> Result<Verified, Defect> {
    instance::check(problem)?;
    let buffers = &problem.buffers;
    if offsets.len() != buffers.len() {
        return Err(Defect::Count { offsets: offsets.len(), buffers: buffers.len() });
    }
    let mut peak = 0;
    let mut changes = Vec::with_capacity(2 * buffers.len());
    for (i, (buffer, &Offset(offset))) in buffers.iter().zip(offsets).enumerate() {
        let Some(end) = offset.checked_add(buffer.size.0) else {
            return Err(Defect::Overflow { buffer: i, offset });
        };
        if offset % buffer.alignment != 0 {
            return Err(Defect::Misaligned { buffer: i, offset, alignment: buffer.alignment });
        }
        if let Some(Offset(wanted)) = buffer.fixed.filter(|f| f.0 != offset) {
            return Err(Defect::Moved { buffer: i, offset, wanted });
        }
        peak = peak.max(end);
        for (birth, death, lo, hi) in instance::held(buffer) {
            changes.push((birth, Change::Takes, i, offset + lo, offset + hi));
            changes.push((death, Change::Gives, i, offset + lo, offset + hi));
        }
    }
    for &(a, b) in &problem.separations {
        let (first, second) = (a as usize, b as usize);
        let from = offsets[first].0.max(offsets[second].0);
        let to = (offsets[first].0 + buffers[first].size.0).min(offsets[second].0 + buffers[second].size.0);
        if from < to {
            return Err(Defect::Overlap { first, second, from, to, at: None });
        }
    }
    // At one moment everything given back goes before anything taken: ranges are half-open.
    changes.sort_unstable();
    let mut taken: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let (mut load, mut max_load) = (0_u64, 0_u64);
    let mut rounded = RoundedLoad::new(problem);
    for (at, change, i, lo, hi) in changes {
        if change == Change::Gives {
            taken.remove(&lo);
            load -= hi - lo;
            rounded.give(buffers[i].size.0);
            continue;
        }
        // The neighbour that begins last before our end is the only one that can reach into us, since the taken
        // ranges are apart from each other.
        if let Some((&start, &(end, first))) = taken.range(..hi).next_back()
            && end > lo
        {
            return Err(Defect::Overlap { first, second: i, from: lo.max(start), to: hi.min(end), at: Some(at) });
        }
        taken.insert(lo, (hi, i));
        load += hi - lo;
        max_load = max_load.max(load);
        rounded.take(buffers[i].size.0);
    }
    let aligned_load = rounded.highest.max(max_load);
    Ok(Verified { peak: Bytes(peak), max_load: Bytes(max_load), aligned_load: Bytes(aligned_load) })
}

/// Follows the rounded load of a sweep; see [`Verified::aligned_load`].
struct RoundedLoad {
    /// What all offsets are multiples of; 1 turns this off.
    unit: u64,
    load: u64,
    slacks: BTreeMap<u64, usize>,
    highest: u64,
}

impl RoundedLoad {
    fn new(problem: &Problem) -> Self {
        let has_gaps = problem.buffers.iter().any(|b| !b.gaps.is_empty());
        let units = problem.buffers.iter().map(|b| b.alignment);
        let unit = units.reduce(common_divisor).filter(|_| !has_gaps).unwrap_or(1);
        Self { unit, load: 0, slacks: BTreeMap::new(), highest: 0 }
    }

    fn take(&mut self, size: u64) {
        if self.unit == 1 {
            return;
        }
        let rounded = size.div_ceil(self.unit) * self.unit;
        self.load += rounded;
        *self.slacks.entry(rounded - size).or_insert(0) += 1;
        let slack = self.slacks.last_key_value().map_or(0, |(&slack, _)| slack);
        self.highest = self.highest.max(self.load - slack);
    }

    fn give(&mut self, size: u64) {
        if self.unit == 1 {
            return;
        }
        let rounded = size.div_ceil(self.unit) * self.unit;
        self.load -= rounded;
        if let Some(count) = self.slacks.get_mut(&(rounded - size)) {
            *count -= 1;
            if *count == 0 {
                self.slacks.remove(&(rounded - size));
            }
        }
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Checks a plan: its placements as [`verify`] does, and each figure it states. A lower bound that rests on a search
/// can't be checked without repeating that; it must only lie between load and peak, and `bound_is_checked` is false.
///
/// # Errors
/// The first [`Defect`] found.
pub fn verify_plan(plan: &Plan) -> Result<PlanCheck, Defect> {
    let offsets: Vec<Offset> = plan.buffers.iter().map(|b| b.offset).collect();
    let found = verify(&plan.problem(), &offsets)?;
    if found.peak != plan.peak {
        return Err(Defect::Peak { stated: plan.peak, found: found.peak });
    }
    if found.max_load != plan.max_load {
        return Err(Defect::Bound { what: "max load", stated: plan.max_load, found: found.max_load });
    }
    // Persistent buffers have an arena of their own below the others, and the bound counts it as it is.
    let (base, rest, rest_offsets) = plan.above_persistent();
    let above = verify(&rest, &rest_offsets)?;
    let fixed_end = plan.buffers.iter().filter(|b| b.fixed).map(|b| b.offset.0 + b.bytes.0).max().unwrap_or(0);
    let expected = match plan.bound_kind {
        // Nothing but packed buffers: they end where they end.
        _ if rest.buffers.is_empty() => Some(found.peak.0),
        BoundKind::Load => Some(base.0 + above.max_load.0),
        BoundKind::AlignedLoad => Some(base.0 + above.aligned_load.0),
        BoundKind::Fixed => Some(fixed_end),
        BoundKind::Search => None,
    };
    if let Some(found) = expected.map(Bytes).filter(|&found| found != plan.lower_bound) {
        return Err(Defect::Bound { what: "lower bound", stated: plan.lower_bound, found });
    }
    if plan.lower_bound > plan.peak || (!rest.buffers.is_empty() && plan.lower_bound.0 < base.0 + above.max_load.0) {
        return Err(Defect::Bound { what: "lower bound", stated: plan.lower_bound, found: found.peak });
    }
    let contradiction = match plan.status {
        Status::Optimal if plan.peak != plan.lower_bound => Some("its peak is above its lower bound"),
        Status::Infeasible if plan.capacity.is_none_or(|c| plan.peak <= c) => Some("its peak is within its capacity"),
        Status::Optimal | Status::Feasible if plan.capacity.is_some_and(|c| plan.peak > c) => {
            Some("its peak is above its capacity")
        }
        _ => None,
    };
    match contradiction {
        Some(because) => Err(Defect::Status { claimed: plan.status.name(), because: because.to_owned() }),
        None => Ok(PlanCheck { verified: found, bound_is_checked: expected.is_some() }),
    }
}

/// What [`verify_plan`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanCheck {
    /// The figures of all buffers together.
    pub verified: Verified,
    /// Whether the lower bound was recomputed and is right.
    pub bound_is_checked: bool,
}
