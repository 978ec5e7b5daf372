//! Pairs of buffers that are apart in issue order, but not by any proof between their streams.
//!
//! Buffer `a` is dead before `b` is born when every op that uses `a` is over before any op that uses `b` starts. Along
//! one stream the ops know ever more, so of the buffers born there after `a`, those to be separated from it are the
//! first ones up to a point, which is searched for. What this costs is the buffers times the streams, and the pairs found.

use crate::{BufferId, HalfStep, LiveRange, clocks::Clocks, csr::Csr, ordered::Ordered};

/// What came out of the search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Separated {
    /// Sorted, the smaller id first, each once.
    pub(crate) pairs: Vec<(BufferId, BufferId)>,
    /// Buffers to be kept live longer, because writing down their pairs would take too many.
    pub(crate) extended: Vec<(BufferId, HalfStep)>,
}

/// A buffer as one of the ops that may use it first sees it.
#[derive(Clone, Copy)]
struct Entry {
    position: u32,
    op: u32,
    buffer: u32,
}

/// Finds the pairs. `used_by` lists the ops that use each buffer.
pub(crate) fn separate(
    ordered: &Ordered<'_, '_>,
    clocks: &Clocks,
    ranges: &[LiveRange],
    used_by: &Csr,
    max_pairs: usize,
) -> Separated {
    let end = ordered.end();
    let firsts = first_uses(ordered, clocks, ranges, used_by);
    let mut requirement = Vec::new();
    // The parts of `firsts` that a buffer has to be separated from, as (stream, from, to).
    let mut unproven = |buffer: usize, found: &mut Vec<(usize, usize, usize)>| {
        found.clear();
        if ranges[buffer].death >= end {
            return;
        }
        last_uses(clocks, used_by.row(buffer), &mut requirement);
        let death = ranges[buffer].death;
        for (stream, entries) in firsts.iter().enumerate() {
            let from = entries.partition_point(|entry| HalfStep(2 * u64::from(entry.position)) < death);
            let is_unproven =
                |entry: &Entry| !requirement.iter().all(|&(s, number)| clocks.covers(entry.op, s, number));
            let to = from + entries[from..].partition_point(is_unproven);
            if from < to {
                found.push((stream, from, to));
            }
        }
    };

    let mut found = Vec::new();
    let mut counts: Vec<usize> = Vec::with_capacity(ranges.len());
    for buffer in 0..ranges.len() {
        unproven(buffer, &mut found);
        counts.push(found.iter().map(|&(_, from, to)| to - from).sum());
    }
    let mut is_extended = vec![false; ranges.len()];
    let mut total = counts.iter().fold(0_usize, |sum, &count| sum.saturating_add(count));
    if total > max_pairs {
        let mut by_count: Vec<usize> = (0..ranges.len()).collect();
        by_count.sort_by_key(|&buffer| (std::cmp::Reverse(counts[buffer]), buffer));
        for buffer in by_count {
            if total <= max_pairs {
                break;
            }
            total -= counts[buffer];
            is_extended[buffer] = true;
        }
    }

    let mut separated = Separated::default();
    for buffer in 0..ranges.len() {
        unproven(buffer, &mut found);
        let id = BufferId(buffer as u32);
        if is_extended[buffer] {
            let last = found.iter().map(|&(stream, _, to)| firsts[stream][to - 1].position).max();
            separated.extended.extend(last.map(|position| (id, HalfStep(2 * u64::from(position) + 1))));
            continue;
        }
        for &(stream, from, to) in &found {
            // An op may be the first on its stream to use a buffer that another stream has used long before.
            let later = firsts[stream][from..to].iter().map(|entry| BufferId(entry.buffer));
            let later = later.filter(|&other| ranges[other.index()].birth >= ranges[buffer].death);
            separated.pairs.extend(later.map(|other| (id.min(other), id.max(other))));
        }
    }
    separated.pairs.sort_unstable();
    separated.pairs.dedup();
    separated
}

/// For each stream, the buffers that an op of it may use first, in the order of those ops. A buffer stands there once
/// for every use that no other use is known to come before: one, unless streams share a storage without order.
fn first_uses(ordered: &Ordered<'_, '_>, clocks: &Clocks, ranges: &[LiveRange], used_by: &Csr) -> Vec<Vec<Entry>> {
    let mut firsts = vec![Vec::new(); clocks.streams()];
    let mut ops = Vec::new();
    let mut first: Vec<u32> = Vec::new();
    for buffer in (0..ranges.len()).filter(|&buffer| ranges[buffer].birth.0 > 0) {
        ops.clear();
        ops.extend(used_by.row(buffer).iter().map(|&op| (ordered.position(op), op)));
        ops.sort_unstable();
        first.clear();
        for &(position, op) in &ops {
            if !first.iter().any(|&other| clocks.is_after(op, other)) {
                first.push(op);
                firsts[clocks.stream(op)].push(Entry { position, op, buffer: buffer as u32 });
            }
        }
    }
    for entries in &mut firsts {
        entries.sort_unstable_by_key(|entry| (entry.position, entry.buffer));
    }
    firsts
}

/// For each stream that uses a buffer, the number of the last op that does.
fn last_uses(clocks: &Clocks, ops: &[u32], last: &mut Vec<(usize, u32)>) {
    last.clear();
    last.extend(ops.iter().map(|&op| (clocks.stream(op), clocks.number(op))));
    last.sort_unstable_by_key(|&(stream, number)| (stream, std::cmp::Reverse(number)));
    last.dedup_by_key(|&mut (stream, _)| stream);
}
