//! Depth first from the results: whatever an op needs is made right before it, the hungriest part first.

use super::model::Model;

/// Estimates of a part of the graph, as if it were a tree.
#[derive(Clone, Copy, Default)]
struct Part {
    /// Most bytes live while it runs.
    peak: u128,
    /// Bytes live once it has.
    kept: u128,
}

/// The order. Parts are taken in Liu's order: by what they need beyond what they leave behind, most first.
pub(super) fn schedule(model: &Model) -> Vec<u32> {
    let ops = model.ops();
    let parts = estimates(model);
    let mut needs: Vec<Vec<u32>> = Vec::with_capacity(ops);
    for op in 0..ops {
        let mut row = model.before.row(op).to_vec();
        row.sort_by_key(|&need| (std::cmp::Reverse(excess(parts[need as usize])), need));
        needs.push(row);
    }
    let mut order = Vec::with_capacity(ops);
    // How many needs of an op have been looked at; `usize::MAX` once it stands in the order.
    let mut looked_at = vec![0_usize; ops];
    let mut path = Vec::new();
    for last in (0..ops as u32).map(|rank| model.at_rank(rank)).filter(|&op| model.after.row(op as usize).is_empty()) {
        path.push(last);
        while let Some(&op) = path.last() {
            let next = looked_at[op as usize];
            match needs[op as usize].get(next) {
                _ if next == usize::MAX => {
                    path.pop();
                }
                Some(&need) => {
                    looked_at[op as usize] = next + 1;
                    if looked_at[need as usize] != usize::MAX {
                        path.push(need);
                    }
                }
                None => {
                    looked_at[op as usize] = usize::MAX;
                    order.push(op);
                    path.pop();
                }
            }
        }
    }
    order
}

fn excess(part: Part) -> u128 {
    part.peak.saturating_sub(part.kept)
}

/// What each op needs with everything before it. Ops needed by several are counted for each, so these are guesses.
fn estimates(model: &Model) -> Vec<Part> {
    let mut parts = vec![Part::default(); model.ops()];
    let mut first_touched = vec![false; model.bytes.len()];
    for op in (0..model.ops() as u32).map(|rank| model.at_rank(rank)) {
        let mut inputs: Vec<Part> = model.before.row(op as usize).iter().map(|&need| parts[need as usize]).collect();
        inputs.sort_by_key(|&part| std::cmp::Reverse(excess(part)));
        let (mut kept, mut peak) = (0_u128, 0_u128);
        for part in inputs {
            peak = peak.max(kept.saturating_add(part.peak));
            kept = kept.saturating_add(part.kept);
        }
        let mut made = 0_u128;
        for &storage in model.touches.row(op as usize) {
            if !std::mem::replace(&mut first_touched[storage as usize], true) {
                made += u128::from(model.bytes[storage as usize]);
            }
        }
        let during = kept.saturating_add(made).saturating_add(u128::from(model.workspace[op as usize]));
        parts[op as usize] = Part { peak: peak.max(during), kept: made };
    }
    parts
}
