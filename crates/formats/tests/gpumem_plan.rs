//! `gpumem-plan/1`: what is read, what is refused, and that it comes back as it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use coloring::{BoundKind, Gap, PlacedBuffer, Plan, Status};
use formats::{NamedProblem, write_csv, write_plan};
use lifetime::{Bytes, HalfStep, LiveRange, Offset, OpId, Tier};
use proptest::prelude::*;
use support::schema::validate;
use support::{plan, problem, refusal};

fn written(plan: &Plan) -> String {
    let mut text = Vec::new();
    write_plan(plan, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn schema() -> serde_json::Value {
    let text = std::fs::read(support::root().join("docs/gpumem-plan-1.schema.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A file with these fields before its placements.
fn file(fields: &str, placements: &str) -> String {
    format!(
        r#"{{"format":"gpumem-plan/1","peak_bytes":8,"max_load_bytes":8,"lower_bound_bytes":8,"bound_kind":"load",
            "status":"optimal","solver":"s",{fields}"placements":[{placements}]}}"#
    )
}

const PLACED: &str = r#"{"id":"a","offset":0,"bytes":8,"birth":0,"death":2,"tier":"temporary"}"#;

fn range(birth: u64, death: u64) -> LiveRange {
    LiveRange { birth: HalfStep(birth), death: HalfStep(death) }
}

#[test]
fn what_is_absent_has_a_default_and_what_is_unknown_is_stepped_over() {
    let read = plan(file(r#""gap":0.5,"holes":{"a":[1]},"#, &PLACED.replace('}', r#","extra":null}"#)));
    assert_eq!(
        read,
        Plan {
            name: "f".to_owned(),
            buffers: vec![PlacedBuffer {
                id: "a".to_owned(),
                name: "a".to_owned(),
                op: None,
                tier: Tier::Temporary,
                offset: Offset(0),
                bytes: Bytes(8),
                alignment: 1,
                range: range(0, 2),
                fixed: false,
                gaps: Vec::new(),
            }],
            separations: Vec::new(),
            end: HalfStep(2),
            peak: Bytes(8),
            max_load: Bytes(8),
            lower_bound: Bytes(8),
            bound_kind: BoundKind::Load,
            status: Status::Optimal,
            capacity: None,
            order: None,
            solver: "s".to_owned(),
        }
    );
}

#[test]
fn numbers_serve_as_ids() {
    assert_eq!(plan(file("", &PLACED.replace("\"a\"", "17"))).buffers[0].id, "17");
}

#[test]
fn errors_name_the_place_the_name_and_the_reason() {
    let placed = |from: &str, to: &str| file("", &PLACED.replace(from, to));
    let two = format!("{PLACED},{}", PLACED.replace("\"a\"", "\"b\""));
    for (text, message) in [
        (placed("\"death\":2", "\"death\":0"), "f: placements[0].death (placement `a`): death 0 is not after birth 0"),
        (placed("\"bytes\":8", "\"bytes\":0"), "f: placements[0].bytes (placement `a`): must be at least 1"),
        (
            placed("\"bytes\":8", "\"bytes\":4611686018427387905"),
            "placements[0].bytes (placement `a`): 4611686018427387905 is above",
        ),
        (
            placed("\"offset\":0", "\"offset\":18446744073709551608"),
            "placements[0].offset (placement `a`): offset 18446744073709551608 plus 8 bytes",
        ),
        (placed("\"offset\":0", "\"offset\":-1"), "placements[0].offset: invalid value: integer `-1`, expected u64"),
        (placed("temporary", "hot"), "placements[0].tier: unknown tier `hot`"),
        (placed("}", ",\"alignment\":0}"), "f: placements[0].alignment (placement `a`): must be at least 1"),
        (
            placed("}", ",\"gaps\":[{\"birth\":1,\"death\":3}]}"),
            "f: placements[0].gaps[0] (placement `a`): it reaches out of the live range",
        ),
        (placed("}", ",\"gaps\":[{\"birth\":1,\"death\":2,\"kept\":[4,9]}]}"), "the bytes it keeps are not a part"),
        (placed("\"offset\":0,", ""), "placements[0]: missing field `offset`"),
        (file("", &format!("{PLACED},{PLACED}")), "f: placements[1].id: placement `a` is already placements[0]"),
        (file("\"end\":1,", PLACED), "f: placements[0].death (placement `a`): death 2 is after the end 1"),
        (file("\"separations\":[[0,1],[0,1]],", &two), "f: separations[1]: (0, 1) is not a pair of two placements"),
        (file("\"separations\":[[1,0]],", &two), "f: separations[0]: (1, 0) is not a pair"),
        (file("\"separations\":[[0,2]],", &two), "f: separations[0]: (0, 2) is not a pair"),
        (file("\"separations\":[[0,4294967297]],", &two), "f: separations[0]: (0, 4294967297) is not a pair"),
        (file("\"separations\":[[0]],", &two), "separations[0]: invalid length 1"),
        (file("\"order\":[1,2],", PLACED), "f: order[1]: 2 does not fit an order"),
        (file("\"order\":[0,0],", PLACED), "f: order[1]: 0 does not fit an order"),
        (file("\"status\":\"best\",", PLACED), "duplicate field `status`"),
        (
            file("", PLACED).replace("\"optimal\"", "\"best\""),
            "status: unknown status `best`; known are optimal, feasible, infeasible",
        ),
        (
            file("", PLACED).replace("\"load\"", "\"luck\""),
            "bound_kind: unknown bound_kind `luck`; known are load, aligned-load, fixed, search",
        ),
        (file("", PLACED).replace("plan/1", "plan/9"), "f: format `gpumem-plan/9` is unknown"),
    ] {
        let error = refusal(&text);
        assert!(error.starts_with("f: ") && error.contains(message), "{text}\n gave {error:?}\n not {message:?}");
    }
}

#[test]
fn a_plan_becomes_a_problem_with_every_offset_fixed() {
    let read = plan(file("\"capacity_bytes\":99,", PLACED));
    let named = NamedProblem::from(&read);
    assert_eq!(named.solution(), Some(vec![Offset(0)]));
    assert_eq!(named.problem.capacity, Some(Bytes(99)));
    let mut text = Vec::new();
    write_csv(&named, &mut text).unwrap();
    assert_eq!(String::from_utf8_lossy(&text), "id,lower,upper,size,offset\na,0,2,8,0\n");
    assert_eq!(problem(&text).solution(), named.solution());
}

fn any_placed(id: String) -> impl Strategy<Value = PlacedBuffer> {
    let kept = |bytes: u64| (0..bytes, 1..=bytes).prop_map(|(a, b)| (Offset(a.min(b - 1)), Offset(b)));
    let gap = (0_u64..100, 1_u64..100);
    (
        any::<(String, Option<String>, bool)>(),
        1_u64..1 << 40,
        0_u64..1 << 40,
        1_u64..4096,
        gap,
        prop::sample::select(Tier::ALL.to_vec()),
    )
        .prop_flat_map(move |((name, op, fixed), bytes, offset, alignment, (birth, life), tier)| {
            let id = id.clone();
            prop::option::of(prop::option::of(kept(bytes))).prop_map(move |gap| PlacedBuffer {
                id: id.clone(),
                name: name.clone(),
                op: op.clone(),
                tier,
                offset: Offset(offset),
                bytes: Bytes(bytes),
                alignment,
                range: range(birth, birth + life),
                fixed,
                gaps: gap.into_iter().map(|kept| Gap { range: range(birth, birth + life.div_ceil(2)), kept }).collect(),
            })
        })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let ids = prop::collection::hash_set(any::<String>(), 0..6);
    let head = (
        any::<(String, String)>(),
        any::<[u64; 3]>(),
        prop::option::of(any::<u64>()),
        prop::sample::select(vec![BoundKind::Load, BoundKind::AlignedLoad, BoundKind::Fixed, BoundKind::Search]),
        prop::sample::select(vec![Status::Optimal, Status::Feasible, Status::Infeasible]),
        prop::option::of((0_u32..9).prop_flat_map(|n| Just((0..n).map(OpId).collect::<Vec<_>>()).prop_shuffle())),
        prop::collection::btree_set((0_u32..6, 0_u32..6), 0..5),
    );
    (ids.prop_flat_map(|ids| ids.into_iter().map(any_placed).collect::<Vec<_>>()), head).prop_map(
        |(buffers, ((name, solver), [peak, max_load, lower_bound], capacity, bound_kind, status, order, pairs))| {
            let count = buffers.len() as u32;
            Plan {
                name,
                buffers,
                separations: pairs.into_iter().filter(|&(a, b)| a < b && b < count).collect(),
                end: HalfStep(200),
                peak: Bytes(peak),
                max_load: Bytes(max_load),
                lower_bound: Bytes(lower_bound),
                bound_kind,
                status,
                capacity: capacity.map(Bytes),
                order,
                solver,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_and_fits_the_schema(before in any_plan()) {
        let text = written(&before);
        prop_assert_eq!(&plan(&text), &before);
        prop_assert_eq!(validate(&schema(), &serde_json::from_str(&text).unwrap()), Ok(()));
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    for text in [
        file("", &PLACED.replace("\"tier\":\"temporary\"", "\"tier\":\"hot\"")),
        file("", &PLACED.replace("\"bytes\":8", "\"bytes\":0")),
        file("", &PLACED.replace("\"offset\":0,", "")),
        file("\"separations\":[[0]],", PLACED),
        file("\"order\":[\"a\"],", PLACED),
        file("", PLACED).replace("\"optimal\"", "\"best\""),
    ] {
        refusal(&text);
        assert!(validate(&schema(), &serde_json::from_str(&text).unwrap()).is_err(), "{text}");
    }
}
