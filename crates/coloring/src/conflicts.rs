//! The conflict graph, as far as somebody wants to see it: counted without being built, listed on request.

use crate::instance::{Instance, held};
use crate::{Error, Problem};

/// Number of conflicts, separations included; `None` where gaps make counting as dear as listing and there are too many
/// buffers for that (over 20 000 with gaps somewhere). Otherwise one sweep: each buffer conflicts with those live when it
/// is born and those born while it lives.
///
/// # Errors
/// When the problem is refused.
pub fn count_conflicts(problem: &Problem) -> Result<Option<u64>, Error> {
    let instance = Instance::new(problem)?;
    let n = instance.len();
    if !instance.pieces.is_empty() {
        if n > 20_000 {
            return Ok(None);
        }
        let overlapping = (0..n).map(|i| (0..i).filter(|&j| overlap(problem, i, j)).count() as u64).sum::<u64>();
        return Ok(Some(overlapping + problem.separations.len() as u64));
    }
    // Everyone born at one moment meets everyone already live there; of those born together each pair meets once.
    let mut born = vec![0_u64; instance.moments + 1];
    let mut died = vec![0_u64; instance.moments + 1];
    for i in 0..n {
        born[instance.birth[i] as usize] += 1;
        died[instance.death[i] as usize] += 1;
    }
    let (mut live, mut edges) = (0_u64, 0_u64);
    for (born, died) in born.iter().zip(&died) {
        live -= died;
        edges += born * live + born * born.saturating_sub(1) / 2;
        live += born;
    }
    Ok(Some(edges + problem.separations.len() as u64))
}

/// Calls `visit` with every conflict, the smaller number first, sorted by first number of birth order; stops early when
/// `visit` returns `false`. Takes time in proportion to what it lists.
///
/// # Errors
/// When the problem is refused.
pub fn list_conflicts(problem: &Problem, mut visit: impl FnMut(u32, u32) -> bool) -> Result<(), Error> {
    crate::instance::check(problem)?;
    let mut by_birth: Vec<u32> = (0..problem.buffers.len() as u32).collect();
    by_birth.sort_by_key(|&i| problem.buffers[i as usize].range.birth);
    let mut live: Vec<u32> = Vec::new();
    for i in by_birth {
        let birth = problem.buffers[i as usize].range.birth;
        live.retain(|&j| problem.buffers[j as usize].range.death > birth);
        for &j in &live {
            if overlap(problem, i as usize, j as usize) && !visit(i.min(j), i.max(j)) {
                return Ok(());
            }
        }
        live.push(i);
    }
    for &(a, b) in &problem.separations {
        if !visit(a, b) {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether two buffers hold bytes at the same time.
fn overlap(problem: &Problem, i: usize, j: usize) -> bool {
    let (a, b) = (&problem.buffers[i], &problem.buffers[j]);
    if !a.range.overlaps(b.range) {
        return false;
    }
    if a.gaps.is_empty() && b.gaps.is_empty() {
        return true;
    }
    held(a).any(|x| held(b).any(|y| x.0 < y.1 && y.0 < x.1))
}
