//! Plans with tiers: packing, composition and the check of saved plans.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use coloring::{BoundKind, Defect, Error, Options, PlacedBuffer, Plan, Request, Status, plan, verify_plan};
use common::{plain, range};
use lifetime::{Bytes, HalfStep, Offset, Tier};
use proptest::prelude::*;

fn placed(id: usize, tier: Tier, (birth, death): (u64, u64), bytes: u64, alignment: u64) -> PlacedBuffer {
    PlacedBuffer {
        id: id.to_string(),
        name: format!("t{id}"),
        op: None,
        tier,
        offset: Offset(0),
        bytes: Bytes(bytes),
        alignment,
        range: range(birth, death),
        fixed: false,
        gaps: Vec::new(),
    }
}

fn planned(buffers: Vec<PlacedBuffer>) -> Result<Plan, Error> {
    let end = HalfStep(buffers.iter().map(|b| b.range.death.0).max().unwrap_or(0));
    let request = Request { name: "test".to_owned(), buffers, end, ..Request::default() };
    let options = Options { threads: 1, node_limit: 50_000, ..Options::default() };
    plan(request, &options, &mut |_| {}).map(|p| p.plan)
}

#[test]
fn persistent_buffers_are_packed_below_everything_else() {
    let p = planned(vec![
        placed(0, Tier::Temporary, (0, 4), 100, 256),
        placed(1, Tier::Persistent, (0, 10), 10, 1),
        placed(2, Tier::Persistent, (0, 10), 300, 256),
        placed(3, Tier::Cyclic, (2, 10), 50, 256),
    ])
    .unwrap();
    // Largest alignment first, so nothing is lost between them; the arena begins at the next multiple.
    assert_eq!((p.buffers[2].offset, p.buffers[1].offset), (Offset(0), Offset(300)));
    assert!(p.buffers[0].offset.0 >= 512 && p.buffers[3].offset.0 >= 512);
    assert_eq!(p.peak, Bytes(512 + 256 + 50));
    assert_eq!((p.status, p.lower_bound, p.bound_kind), (Status::Optimal, p.peak, BoundKind::AlignedLoad));
    assert_eq!(p.max_load, Bytes(460));
    verify_plan(&p).unwrap();
}

#[test]
fn a_fixed_offset_keeps_persistent_buffers_in_the_common_arena() {
    let mut pinned = placed(1, Tier::Temporary, (0, 4), 8, 8);
    (pinned.fixed, pinned.offset) = (true, Offset(0));
    let p = planned(vec![placed(0, Tier::Persistent, (0, 10), 16, 8), pinned]).unwrap();
    assert_eq!((p.buffers[0].offset, p.buffers[1].offset), (Offset(8), Offset(0)));
}

#[test]
fn alignments_without_a_common_multiple_in_reach_are_refused() {
    let refused = planned(vec![
        placed(0, Tier::Persistent, (0, 4), 1, 1),
        placed(1, Tier::Temporary, (0, 1), 1, (1 << 61) - 1),
        placed(2, Tier::Temporary, (2, 3), 1, (1 << 61) - 3),
    ]);
    assert_eq!(refused, Err(Error::TooLarge));
}

fn valid() -> Plan {
    planned((0..6).map(|i| placed(i, Tier::ALL[i % 3], (i as u64, i as u64 + 3), 64 << i, 64)).collect()).unwrap()
}

#[test]
fn each_figure_a_plan_states_is_checked() {
    verify_plan(&valid()).unwrap();
    let broken = |change: fn(&mut Plan)| {
        let mut p = valid();
        change(&mut p);
        verify_plan(&p).unwrap_err()
    };
    assert!(matches!(broken(|p| p.peak.0 += 1), Defect::Peak { .. }));
    assert!(matches!(broken(|p| p.max_load.0 -= 1), Defect::Bound { what: "max load", .. }));
    assert!(matches!(broken(|p| p.lower_bound.0 -= 1), Defect::Bound { what: "lower bound", .. }));
    assert!(matches!(broken(|p| p.capacity = Some(Bytes(1))), Defect::Status { .. }));
    assert!(matches!(broken(|p| p.status = Status::Infeasible), Defect::Status { .. }));
    assert!(matches!(broken(|p| p.buffers[4].offset.0 += 1), Defect::Misaligned { buffer: 4, .. }));
    assert!(matches!(broken(|p| p.buffers[5].offset = Offset(u64::MAX - 63)), Defect::Overflow { buffer: 5, .. }));
    assert!(matches!(
        broken(|p| {
            let below = p.buffers[1].offset;
            p.buffers[2].offset = below;
        }),
        Defect::Overlap { .. }
    ));
    // An optimal plan with room above its bound is a lie even if nothing overlaps.
    assert!(matches!(
        broken(|p| {
            let top = p.buffers.iter().position(|b| b.offset.0 + b.bytes.0 == p.peak.0).unwrap();
            p.buffers[top].offset.0 += 64;
            p.peak.0 += 64;
        }),
        Defect::Status { claimed: "optimal", .. }
    ));
}

proptest! {
    #[test]
    fn every_plan_of_random_tiers_passes_its_own_check(
        p in plain(20),
        tiers in prop::collection::vec(0_usize..3, 20),
        aligns in prop::collection::vec(prop::sample::select(vec![1_u64, 2, 3, 8, 256]), 20),
    ) {
        let rows = p.buffers.iter().zip(tiers).zip(aligns).enumerate();
        let buffers: Vec<_> = rows
            .map(|(i, ((b, tier), align))| {
                placed(i, Tier::ALL[tier], (b.range.birth.0, b.range.death.0), b.size.0, align)
            })
            .collect();
        let p = planned(buffers).unwrap();
        let check = verify_plan(&p).unwrap();
        prop_assert_eq!(check.verified.peak, p.peak);
        prop_assert!(p.lower_bound <= p.peak);
    }
}
