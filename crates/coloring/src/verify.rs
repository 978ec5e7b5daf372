//! Checks a plan without believing the solver: none of the solver's code or structures are used here.

use std::collections::BTreeMap;

use lifetime::{Bytes, Offset};

use crate::{Defect, Problem, instance};

/// What the verifier found out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Highest end of a buffer.
    pub peak: Bytes,
    /// Most bytes live at one moment.
    pub max_load: Bytes,
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
    for (at, change, i, lo, hi) in changes {
        if change == Change::Gives {
            taken.remove(&lo);
            load -= hi - lo;
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
    }
    Ok(Verified { peak: Bytes(peak), max_load: Bytes(max_load) })
}
