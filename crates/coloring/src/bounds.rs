//! What no plan can beat.

use lifetime::Bytes;

use crate::BoundKind;
use crate::instance::{FREE, Instance, align_up, common_divisor};

/// A peak that no plan is below, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) bytes: u64,
    pub(crate) kind: BoundKind,
    /// Most bytes live at one moment, sizes as they are.
    pub(crate) max_load: Bytes,
}

/// The best of the bounds that cost next to nothing.
///
/// *Load*: at each moment the live bytes lie side by side. *Aligned load*: if all offsets are multiples of `a`, buffers
/// stacked at one moment each take their size rounded up to `a`, except for the topmost; taking the largest slack of the
/// live ones off is therefore safe. *Fixed*: a fixed buffer ends where it ends.
pub(crate) fn bound(instance: &Instance) -> Bound {
    let max_load = instance.loads().into_iter().max().unwrap_or(0);
    let mut best = Bound { bytes: max_load, kind: BoundKind::Load, max_load: Bytes(max_load) };
    let aligned = aligned_load(instance);
    if aligned > best.bytes {
        (best.bytes, best.kind) = (aligned, BoundKind::AlignedLoad);
    }
    let fixed = (0..instance.len()).filter(|&i| instance.fixed[i] != FREE);
    if let Some(end) = fixed.map(|i| instance.fixed[i] + instance.size[i]).max().filter(|&end| end > best.bytes) {
        (best.bytes, best.kind) = (end, BoundKind::Fixed);
    }
    best
}

/// See [`bound`]; 0 where buffers have gaps, since a buffer's pieces need not be aligned.
fn aligned_load(instance: &Instance) -> u64 {
    let common = instance.align.iter().copied().fold(0, common_divisor);
    if common <= 1 || !instance.pieces.is_empty() {
        return 0;
    }
    // The largest slack at a moment changes only at births and deaths, but is cheap to overestimate: the bound stays
    // safe if more is taken off. Exact per moment by a heap of live buffers.
    let mut by_birth: Vec<u32> = (0..instance.len() as u32).collect();
    by_birth.sort_unstable_by_key(|&i| instance.birth[i as usize]);
    let slack = |i: usize| align_up(instance.size[i], common) - instance.size[i];
    let mut rounded = vec![0_i128; instance.moments + 1];
    for i in 0..instance.len() {
        let bytes = i128::from(align_up(instance.size[i], common));
        rounded[instance.birth[i] as usize] += bytes;
        rounded[instance.death[i] as usize] -= bytes;
    }
    let mut heap = std::collections::BinaryHeap::new();
    let (mut next, mut load, mut best) = (0, 0_i128, 0_i128);
    for (moment, change) in rounded.iter().take(instance.moments).enumerate() {
        load += change;
        while let Some(&i) = by_birth.get(next).filter(|&&i| instance.birth[i as usize] as usize <= moment) {
            heap.push((slack(i as usize), instance.death[i as usize]));
            next += 1;
        }
        while heap.peek().is_some_and(|top| top.1 as usize <= moment) {
            heap.pop();
        }
        best = best.max(load - i128::from(heap.peek().map_or(0, |top| top.0)));
    }
    u64::try_from(best).unwrap_or(0)
}
