//! What must hold for every problem, against slow but obvious versions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use coloring::{
    Baseline, Options, Problem, Solution, Status, baselines, count_conflicts, list_conflicts, measure_holes,
    merge_holes, solve, tightest_moment, verify,
};
use common::{aligned, buffer, holes, is_valid, max_load, optimum, peak, plain, problem, range, rich};
use lifetime::{Bytes, Offset};
use proptest::prelude::*;

fn solved(p: &Problem) -> Solution {
    solve(p, &Options { threads: 1, node_limit: 400_000, ..Options::default() }, &mut |_| {}).unwrap()
}

fn numbers(s: &Solution) -> Vec<u64> {
    s.offsets.iter().map(|o| o.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn small_plain_problems_are_solved_to_the_proven_optimum(p in plain(7)) {
        let s = solved(&p);
        prop_assert!(is_valid(&p, &numbers(&s)));
        let best = if p.buffers.is_empty() { 0 } else { optimum(&p) };
        prop_assert_eq!(s.peak.0, best);
        prop_assert_eq!(s.status, Status::Optimal);
        prop_assert_eq!(s.max_load.0, max_load(&p));
    }

    #[test]
    fn small_aligned_problems_are_solved_to_the_proven_optimum(p in aligned(6)) {
        let s = solved(&p);
        prop_assert!(is_valid(&p, &numbers(&s)));
        let best = if p.buffers.is_empty() { 0 } else { optimum(&p) };
        prop_assert_eq!(s.peak.0, best);
        prop_assert_eq!(s.lower_bound.0, best);
    }

    #[test]
    fn fixed_buffers_stay_and_the_rest_is_optimal_around_them(p in aligned(6), picks in prop::collection::vec(0_u64..4, 6)) {
        // Fix some buffers where a valid plan has them, raised by a multiple of every alignment.
        let s = solved(&p);
        let mut p = p;
        for (i, pick) in picks.iter().enumerate().take(p.buffers.len()) {
            if *pick == 0 {
                p.buffers[i].fixed = Some(Offset(s.offsets[i].0 + 24));
            }
        }
        let t = solved(&p);
        prop_assert!(is_valid(&p, &numbers(&t)));
        if !p.buffers.is_empty() {
            prop_assert_eq!(t.peak.0, optimum(&p));
        }
    }

    #[test]
    fn problems_with_gaps_and_separations_get_valid_plans_above_the_bound(p in rich(12)) {
        let s = solved(&p);
        prop_assert!(is_valid(&p, &numbers(&s)));
        prop_assert_eq!(s.peak.0, peak(&p, &numbers(&s)));
        prop_assert!(s.lower_bound <= s.peak);
        prop_assert_eq!(s.max_load.0, max_load(&p));
        for (baseline, other) in baselines(&p).unwrap() {
            prop_assert!(s.peak <= other, "{} {:?}", baseline.name(), other);
        }
    }

    #[test]
    fn the_verifier_accepts_exactly_what_is_valid(p in rich(6), offsets in prop::collection::vec(0_u64..20, 6)) {
        let offsets: Vec<u64> = offsets.into_iter().take(p.buffers.len()).collect();
        let placed: Vec<Offset> = offsets.iter().copied().map(Offset).collect();
        let found = verify(&p, &placed);
        prop_assert_eq!(found.is_ok(), is_valid(&p, &offsets), "{:?}", found);
        if let Ok(v) = found {
            prop_assert_eq!(v.peak.0, peak(&p, &offsets));
            prop_assert_eq!(v.max_load.0, max_load(&p));
        }
    }

    #[test]
    fn the_aligned_load_is_at_least_the_load_and_no_more_than_the_optimum(mut p in plain(6), unit in 2_u64..9) {
        prop_assume!(!p.buffers.is_empty());
        for b in &mut p.buffers {
            b.alignment = unit;
        }
        let s = solved(&p);
        let v = verify(&p, &s.offsets).unwrap();
        prop_assert!(v.aligned_load >= v.max_load);
        prop_assert!(v.aligned_load.0 <= optimum(&p));
        // The solver's own bound is at least as good.
        prop_assert!(s.lower_bound >= v.aligned_load);
    }

    #[test]
    fn holes_are_measured_as_they_are(p in rich(8)) {
        prop_assume!(!p.buffers.is_empty());
        let s = solved(&p);
        let measured = measure_holes(&p, &s.offsets);
        let (pieces, smallest) = holes(&p, &numbers(&s));
        prop_assert!((measured.pieces_mean - pieces).abs() < 1e-9, "{measured:?} {pieces}");
        prop_assert_eq!(measured.largest_free_min_bytes, smallest);
    }

    #[test]
    fn merging_holes_never_makes_anything_worse(p in rich(14)) {
        let first_fit = solve(
            &p,
            &Options { threads: 1, node_limit: 0, merge_holes: false, match_baselines: false, ..Options::default() },
            &mut |_| {},
        )
        .unwrap();
        let before = measure_holes(&p, &first_fit.offsets);
        let mut offsets = first_fit.offsets.clone();
        let after = merge_holes(&p, &mut offsets);
        prop_assert!(is_valid(&p, &offsets.iter().map(|o| o.0).collect::<Vec<_>>()));
        prop_assert!(after.is_no_worse_than(&before), "{before:?} {after:?}");
        prop_assert_eq!(after, measure_holes(&p, &offsets));
        prop_assert!(verify(&p, &offsets).unwrap().peak <= first_fit.peak);
    }

    #[test]
    fn conflicts_are_counted_as_they_are_listed(p in rich(12)) {
        let mut listed = Vec::new();
        list_conflicts(&p, |a, b| { listed.push((a, b)); true }).unwrap();
        prop_assert!(listed.iter().all(|(a, b)| a < b));
        prop_assert_eq!(count_conflicts(&p).unwrap(), Some(listed.len() as u64));
        let n = p.buffers.len();
        let holds = |i: usize, m: u64| {
            let b = &p.buffers[i];
            let gap = b.gaps.iter().find(|g| g.range.birth.0 <= m && m < g.range.death.0);
            b.range.birth.0 <= m && m < b.range.death.0 && gap.is_none_or(|g| g.kept.is_some())
        };
        let expected = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)))
            .filter(|&(i, j)| (0..p.end().0).any(|m| holds(i, m) && holds(j, m))).count();
        prop_assert_eq!(listed.len(), expected + p.separations.len());
    }

    #[test]
    fn the_tightest_moment_holds_the_max_load(p in rich(10)) {
        let (at, live) = tightest_moment(&p);
        if !p.buffers.is_empty() {
            let ranges = live.iter().map(|&i| p.buffers[i as usize].range);
            prop_assert!(ranges.clone().all(|r| r.birth <= at && at < r.death));
            let sizes: u64 = live.iter().map(|&i| p.buffers[i as usize].size.0).sum();
            prop_assert!(sizes >= max_load(&p));
        }
    }

    #[test]
    fn the_same_options_give_the_same_plan_at_any_number_of_threads(p in plain(40), seed in 0_u64..4) {
        let plan = |threads| {
            let options = Options { threads, seed, node_limit: 20_000, ..Options::default() };
            solve(&p, &options, &mut |_| {}).unwrap()
        };
        let one = plan(1);
        prop_assert!(one.is_deterministic);
        prop_assert_eq!(&one, &plan(2));
        prop_assert_eq!(&one, &plan(5));
    }
}

#[test]
fn a_slidable_hole_is_closed() {
    // `top` lies above a hole that nothing fills; moving it down or to the top joins the two free pieces beside it.
    let p = problem(vec![buffer(0, 10, 4), buffer(0, 10, 2), buffer(20, 30, 12)]);
    let mut offsets = vec![Offset(0), Offset(6), Offset(0)];
    let before = measure_holes(&p, &offsets);
    assert_eq!(before.pieces_mean, (10.0 * 2.0 + 10.0 * 1.0) / 30.0);
    let after = merge_holes(&p, &mut offsets);
    assert_eq!(after.pieces_mean, (10.0 + 10.0) / 30.0);
    assert!(after.is_no_worse_than(&before));
}

#[test]
fn two_buffers_that_must_change_places_do() {
    // While the two short ones live there is no room to move anything; after them two holes remain. Exchanging the long
    // one between them with either makes that one hole.
    let p = problem(vec![buffer(0, 10, 4), buffer(0, 4, 2), buffer(0, 10, 3), buffer(0, 4, 2), buffer(0, 10, 2)]);
    let mut offsets = [0, 4, 6, 9, 11].map(Offset);
    let before = measure_holes(&p, &offsets);
    assert_eq!(before.pieces_mean, 1.2);
    let after = merge_holes(&p, &mut offsets);
    assert_eq!(after.pieces_mean, 0.6, "{offsets:?}");
}

#[test]
fn refused_problems_are_refused_by_name_and_number() {
    use coloring::Error;
    let refused = |p: &Problem| solve(p, &Options::default(), &mut |_| {}).unwrap_err();
    let mut p = problem(vec![buffer(0, 1, 1), buffer(0, 1, 0)]);
    assert_eq!(refused(&p), Error::EmptyBuffer { buffer: 1 });
    p.buffers[1] = buffer(0, 1, 8);
    p.buffers[1].alignment = 0;
    assert_eq!(refused(&p), Error::ZeroAlignment { buffer: 1 });
    p.buffers[1].alignment = 4;
    p.buffers[1].fixed = Some(Offset(6));
    assert_eq!(refused(&p), Error::MisalignedFixed { buffer: 1, offset: 6, alignment: 4 });
    p.buffers[1].fixed = Some(Offset(0));
    p.buffers[0].fixed = Some(Offset(0));
    assert_eq!(refused(&p), Error::FixedOverlap { first: 0, second: 1 });
    p.separations = vec![(1, 0)];
    assert_eq!(refused(&p), Error::BadSeparation { index: 0, first: 1, second: 0 });
    let huge = problem(vec![buffer(0, 1, 1 << 62), buffer(5, 6, 1 << 62)]);
    assert_eq!(refused(&huge), Error::TooLarge);
    let mut gapped = problem(vec![buffer(0, 4, 8)]);
    gapped.buffers[0].gaps = vec![coloring::Gap { range: range(0, 4), kept: None }];
    assert!(matches!(refused(&gapped), Error::BadGap { buffer: 0, .. }));
}

#[test]
fn the_largest_problem_that_can_be_addressed_is_planned() {
    let p = problem(vec![
        buffer(0, u64::MAX, 1 << 61),
        buffer(0, 1, 1 << 61),
        buffer(u64::MAX - 1, u64::MAX, (1 << 61) - 1),
    ]);
    let s = solved(&p);
    assert_eq!(s.peak.0, 1 << 62);
    assert_eq!(s.status, Status::Optimal);
}

#[test]
fn no_capacity_is_claimed_to_be_met_that_is_not() {
    let mut p = problem(vec![buffer(0, 4, 8), buffer(2, 6, 8)]);
    p.capacity = Some(Bytes(15));
    assert_eq!(solved(&p).status, Status::Infeasible);
    p.capacity = Some(Bytes(16));
    assert_eq!(solved(&p).status, Status::Optimal);
}

proptest! {
    #[test]
    fn no_node_limit_and_no_capacity_make_a_plan_worse_than_a_baseline(mut p in rich(20), limit in 0_u64..40, short in any::<bool>()) {
        if short {
            p.capacity = Some(Bytes(max_load(&p) / 2));
        }
        let s = solve(&p, &Options { threads: 1, node_limit: limit, ..Options::default() }, &mut |_| {}).unwrap();
        for (baseline, other) in baselines(&p).unwrap() {
            prop_assert!(s.peak <= other, "{} {:?}", baseline.name(), other);
        }
    }
}

#[test]
fn an_empty_problem_has_an_empty_plan() {
    let s = solved(&Problem::default());
    assert_eq!((s.peak, s.lower_bound, s.status), (Bytes(0), Bytes(0), Status::Optimal));
    assert_eq!(baselines(&Problem::default()).unwrap().len(), Baseline::ALL.len());
}

#[test]
fn a_time_limit_of_nothing_still_gives_a_valid_plan() {
    let p = problem((0..200).map(|i| buffer(i % 37, i % 37 + 5 + i % 11, 1 + i % 19)).collect());
    let options = Options { time_limit: Some(std::time::Duration::ZERO), ..Options::default() };
    let s = solve(&p, &options, &mut |_| {}).unwrap();
    assert!(!s.is_deterministic);
    assert!(verify(&p, &s.offsets).is_ok());
}

#[test]
fn a_cancelled_search_still_gives_a_valid_plan() {
    let p = problem((0..200).map(|i| buffer(i % 37, i % 37 + 5 + i % 11, 1 + i % 19)).collect());
    let cancel = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let s = solve(&p, &Options { cancel: Some(cancel), ..Options::default() }, &mut |_| {}).unwrap();
    let all = solve(&p, &Options::default(), &mut |_| {}).unwrap();
    assert!(!s.is_deterministic && s.nodes < all.nodes);
    assert!(verify(&p, &s.offsets).is_ok());
}
