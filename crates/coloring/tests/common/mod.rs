//! Random problems, and slow but obvious versions of what the crate does fast.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use coloring::{Buffer, Gap, Problem};
use lifetime::{Bytes, HalfStep, LiveRange, Offset};
use proptest::prelude::*;

pub(crate) fn range(birth: u64, death: u64) -> LiveRange {
    LiveRange::new(HalfStep(birth), HalfStep(death))
}

pub(crate) fn buffer(birth: u64, death: u64, size: u64) -> Buffer {
    Buffer::new(range(birth, death), Bytes(size))
}

pub(crate) fn problem(buffers: Vec<Buffer>) -> Problem {
    Problem { buffers, ..Problem::default() }
}

/// Plain buffers: `most` of them at most, short times and sizes so that ties and contacts are common.
pub(crate) fn plain(most: usize) -> impl Strategy<Value = Problem> {
    prop::collection::vec((0_u64..12, 1_u64..8, 1_u64..10), 0..=most).prop_map(|rows| {
        problem(rows.into_iter().map(|(birth, life, size)| buffer(birth, birth + life, size)).collect())
    })
}

/// The same with alignments, some equal.
pub(crate) fn aligned(most: usize) -> impl Strategy<Value = Problem> {
    (plain(most), prop::collection::vec(prop::sample::select(vec![1_u64, 2, 3, 4, 8]), most)).prop_map(
        |(mut p, aligns)| {
            for (b, align) in p.buffers.iter_mut().zip(aligns) {
                b.alignment = align;
            }
            p
        },
    )
}

/// With gaps, alignments and separations.
pub(crate) fn rich(most: usize) -> impl Strategy<Value = Problem> {
    let gaps = prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>()), most);
    let pairs = prop::collection::btree_set((0..most as u32, 0..most as u32), 0..=most);
    (aligned(most), gaps, pairs).prop_map(|(mut p, gaps, pairs)| {
        for (b, (from, len, lo, hi)) in p.buffers.iter_mut().zip(gaps) {
            let life = b.range.half_steps();
            if from % 3 != 0 || life < 3 {
                continue;
            }
            let birth = b.range.birth.0 + 1 + u64::from(from) % (life - 2);
            let death = birth + 1 + u64::from(len) % (b.range.death.0 - 1 - birth).max(1);
            let (lo, hi) = (u64::from(lo) % b.size.0, u64::from(hi) % (b.size.0 + 1));
            b.gaps.push(Gap { range: range(birth, death), kept: (lo < hi).then_some((Offset(lo), Offset(hi))) });
        }
        let n = p.buffers.len() as u32;
        p.separations = pairs.into_iter().filter(|&(a, b)| a < b && b < n).collect();
        p
    })
}

/// What a buffer holds at a moment, counted from its own start.
fn held_at(b: &Buffer, moment: u64) -> Option<(u64, u64)> {
    if moment < b.range.birth.0 || moment >= b.range.death.0 {
        return None;
    }
    match b.gaps.iter().find(|g| g.range.birth.0 <= moment && moment < g.range.death.0) {
        None => Some((0, b.size.0)),
        Some(gap) => gap.kept.map(|(lo, hi)| (lo.0, hi.0)),
    }
}

/// Every whole moment at which something may be live.
fn moments(p: &Problem) -> std::ops::Range<u64> {
    0..p.end().0
}

/// Whether `i` at `x` and `j` at `y` share bytes that both hold.
pub(crate) fn collide(p: &Problem, (i, x): (usize, u64), (j, y): (usize, u64)) -> bool {
    let apart = (i.min(j) as u32, i.max(j) as u32);
    if p.separations.contains(&apart) && x < y + p.buffers[j].size.0 && y < x + p.buffers[i].size.0 {
        return true;
    }
    moments(p).any(|m| match (held_at(&p.buffers[i], m), held_at(&p.buffers[j], m)) {
        (Some(a), Some(b)) => x + a.0 < y + b.1 && y + b.0 < x + a.1,
        _ => false,
    })
}

/// Whether a plan is valid, by comparing every pair at every moment.
pub(crate) fn is_valid(p: &Problem, offsets: &[u64]) -> bool {
    let n = p.buffers.len();
    (0..n).all(|i| {
        offsets[i].is_multiple_of(p.buffers[i].alignment)
            && p.buffers[i].fixed.is_none_or(|f| f.0 == offsets[i])
            && (0..i).all(|j| !collide(p, (i, offsets[i]), (j, offsets[j])))
    })
}

pub(crate) fn peak(p: &Problem, offsets: &[u64]) -> u64 {
    p.buffers.iter().zip(offsets).map(|(b, o)| o + b.size.0).max().unwrap_or(0)
}

pub(crate) fn max_load(p: &Problem) -> u64 {
    moments(p).map(|m| p.buffers.iter().filter_map(|b| held_at(b, m)).map(|(lo, hi)| hi - lo).sum()).max().unwrap_or(0)
}

/// The lowest peak of all plans: for plain buffers some order placed each at its lowest offset gives it (push an optimal
/// plan down in order of its offsets).
pub(crate) fn optimum(p: &Problem) -> u64 {
    let mut offsets = vec![None; p.buffers.len()];
    for (i, b) in p.buffers.iter().enumerate() {
        offsets[i] = b.fixed.map(|f| f.0);
    }
    let mut best = u64::MAX;
    descend(p, &mut offsets, &mut best);
    best
}

fn descend(p: &Problem, offsets: &mut [Option<u64>], best: &mut u64) {
    let reached = offsets.iter().zip(&p.buffers).filter_map(|(o, b)| Some((*o)? + b.size.0)).max().unwrap_or(0);
    if reached >= *best {
        return;
    }
    if offsets.iter().all(Option::is_some) {
        *best = reached;
        return;
    }
    for i in 0..offsets.len() {
        if offsets[i].is_none() {
            offsets[i] = Some(lowest(p, i, offsets));
            descend(p, offsets, best);
            offsets[i] = None;
        }
    }
}

/// The lowest offset at which `i` collides with nothing placed.
pub(crate) fn lowest(p: &Problem, i: usize, offsets: &[Option<u64>]) -> u64 {
    let free =
        |at: u64| offsets.iter().enumerate().all(|(j, o)| j == i || o.is_none_or(|o| !collide(p, (i, at), (j, o))));
    (0..).step_by(p.buffers[i].alignment as usize).find(|&at| free(at)).unwrap()
}

/// `(pieces_mean, largest_free_min)` by looking at every byte of every moment between the first birth and the last death.
pub(crate) fn holes(p: &Problem, offsets: &[u64]) -> (f64, u64) {
    let top = peak(p, offsets);
    let first = p.buffers.iter().map(|b| b.range.birth.0).min().unwrap_or(0);
    let last = p.end().0;
    let (mut pieces, mut smallest) = (0_u64, u64::MAX);
    for m in first..last {
        let mut taken = vec![false; top as usize];
        for (b, o) in p.buffers.iter().zip(offsets) {
            if let Some((lo, hi)) = held_at(b, m) {
                taken[(o + lo) as usize..(o + hi) as usize].fill(true);
            }
        }
        let mut runs: Vec<u64> = Vec::new();
        let mut run = 0;
        for t in taken.into_iter().chain([true]) {
            if t {
                if run > 0 {
                    runs.push(run);
                }
                run = 0;
            } else {
                run += 1;
            }
        }
        pieces += runs.len() as u64;
        smallest = smallest.min(runs.into_iter().max().unwrap_or(0));
    }
    if last == first {
        return (0.0, 0);
    }
    (pieces as f64 / (last - first) as f64, smallest)
}
