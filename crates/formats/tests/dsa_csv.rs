//! DSA CSV: what is read, what is refused, what is written.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use coloring::{Buffer, Gap, Problem};
use formats::{Error, Limits, NamedProblem, read_bytes, write_csv};
use lifetime::{Bytes, HalfStep, LiveRange, Offset};
use proptest::prelude::*;
use support::{problem, refusal};

fn range(birth: u64, death: u64) -> LiveRange {
    LiveRange { birth: HalfStep(birth), death: HalfStep(death) }
}

#[test]
fn columns_are_found_by_name_in_any_order() {
    let read = problem("size,upper,extra,id,lower\n8,3,?,a,1\n16,9,?,b,2\n");
    assert_eq!(read.ids, ["a", "b"]);
    assert_eq!(read.problem.buffers[0], Buffer::new(range(1, 3), Bytes(8)));
    assert_eq!(read.problem.buffers[1], Buffer::new(range(2, 9), Bytes(16)));
    assert_eq!(read.ignored_columns, ["extra"]);
    assert_eq!(read.problem.capacity, None);
}

#[test]
fn optional_columns_are_read_and_may_be_empty() {
    let read = problem("id,lower,upper,size,alignment,offset,gaps\na,0,9,64,32,96,1-2 3-5@0:16\nb,0,9,64,,,\n");
    let gap = |birth, death, kept| Gap { range: range(birth, death), kept };
    assert_eq!(
        read.problem.buffers[0],
        Buffer {
            range: range(0, 9),
            size: Bytes(64),
            alignment: 32,
            fixed: Some(Offset(96)),
            gaps: vec![gap(1, 2, None), gap(3, 5, Some((Offset(0), Offset(16))))],
        }
    );
    assert_eq!(read.problem.buffers[1], Buffer::new(range(0, 9), Bytes(64)));
    assert_eq!(read.fixed_count(), 1);
    assert_eq!(read.solution(), None);
}

#[test]
fn offsets_in_every_row_are_a_solution_and_can_be_released() {
    let mut read = problem("id,lower,upper,size,offset\na,0,9,64,0\nb,0,9,64,64\n");
    assert_eq!(read.solution(), Some(vec![Offset(0), Offset(64)]));
    read.release_offsets();
    assert_eq!(read.fixed_count(), 0);
    assert_eq!(read.solution(), None);
}

#[test]
fn comments_quotes_line_ends_and_a_byte_order_mark_do_no_harm() {
    let rows = ["# made by hand", "id,lower,upper,\"size\"", "", "\"a, \"\"b\"\"\nc\",0,1, 8 ", "# \"", " d ,0,2,\t9"];
    for end in ["\n", "\r\n"] {
        for mark in ["", "\u{feff}"] {
            let read = problem(format!("{mark}{}", rows.join(end)));
            assert_eq!(read.ids, ["a, \"b\"\nc", " d "], "{end:?} {mark:?}");
            assert_eq!(read.problem.buffers[1].size, Bytes(9));
        }
    }
}

#[test]
fn errors_name_line_column_value_and_reason() {
    let long = format!("id,lower,upper,size\n{},0,1,x", "y".repeat(5000));
    for (text, message) in [
        (
            "id,lower,size\na,0,1",
            "f: line 1: the header has no column `upper`; it must name `id`, `lower`, `upper` and `size`",
        ),
        ("id,lower,upper,size,size\n", "f: line 1: column `size`: the header names the column twice"),
        ("id,lower,upper,size\n", "f: line 1: there are no rows below the header"),
        ("# c\nid,lower,upper,size\n\n# c\n", "there are no rows below the header"),
        ("id,lower,upper,size\na,0,1\n", "f: line 2: the row has 3 fields and the header 4"),
        ("id,lower,upper,size\na,0,1,1,1\n", "f: line 2: the row has 5 fields and the header 4"),
        (
            "id,lower,upper,size\na,0,2,1\nb,zero,1,1",
            "f: line 3: column `lower`: `zero` is not a whole number from 0 to 2^64 - 1",
        ),
        ("id,lower,upper,size\na,0,,1", "f: line 2: column `upper`: `` is not a whole number"),
        ("id,lower,upper,size\na,-1,2,1", "column `lower`: `-1` is not a whole number"),
        ("id,lower,upper,size\na,+1,2,1", "column `lower`: `+1` is not a whole number"),
        ("id,lower,upper,size\na,0,1e3,1", "column `upper`: `1e3` is not a whole number"),
        (
            "id,lower,upper,size\na,0,18446744073709551616,1",
            "column `upper`: `18446744073709551616` is not a whole number",
        ),
        (
            "id,lower,upper,size\r\na,0,2,1\r\nb,3,3,1\r\n",
            "f: line 3: column `upper`: upper 3 is not above lower 3, so the live range is empty",
        ),
        ("id,lower,upper,size\na,3,2,1", "column `upper`: upper 2 is not above lower 3"),
        ("id,lower,upper,size\na,0,2,1\n\nb,0,2,0", "f: line 4: column `size`: must be at least 1"),
        ("id,lower,upper,size\na,0,2,1\nb,0,1,0\nc,0,2,1", "f: line 3: column `size`: must be at least 1"),
        (
            "id,lower,upper,size\na,0,2,4611686018427387905",
            "column `size`: 4611686018427387905 is above the limit of 4611686018427387904",
        ),
        (
            "id,lower,upper,size\na,0,2,1\n\"b\nb\",0,2,1\na,0,2,1",
            "f: line 5: column `id`: identifier `a` is already that of row 1",
        ),
        ("id,lower,upper,size,alignment\na,0,2,1,0", "column `alignment`: must be at least 1"),
        (
            "id,lower,upper,size,offset\na,0,2,2,18446744073709551615",
            "column `offset`: offset 18446744073709551615 plus size 2 is more than 2^64 - 1",
        ),
        (
            "id,lower,upper,size,alignment,offset\na,0,2,1,8,12",
            "column `offset`: offset 12 is not a multiple of the alignment 8",
        ),
        (
            "id,lower,upper,size,gaps\na,0,9,8,4",
            "f: line 2: column `gaps`: gap `4`: expected `lower-upper` or `lower-upper@from:to`",
        ),
        ("id,lower,upper,size,gaps\na,0,9,8,1-3@2", "gap `1-3@2`: expected `lower-upper`"),
        ("id,lower,upper,size,gaps\na,0,9,8,3-3", "gap `3-3`: its range is empty"),
        ("id,lower,upper,size,gaps\na,2,9,8,1-3", "gap `1-3`: it reaches out of the live range"),
        ("id,lower,upper,size,gaps\na,2,9,8,8-10", "gap `8-10`: it reaches out of the live range"),
        ("id,lower,upper,size,gaps\na,0,9,8,4-6 5-7", "gap `5-7`: it starts before the gap before it ends"),
        ("id,lower,upper,size,gaps\na,0,9,8,4-6@0:9", "gap `4-6@0:9`: the bytes it keeps are not a part of the buffer"),
        ("id,lower,upper,size,gaps\na,0,9,8,4-6@3:3", "gap `4-6@3:3`: the bytes it keeps"),
        (&*long, "f: line 2: column `size`: `x` is not a whole number"),
    ] {
        let error = refusal(text);
        assert!(error.contains(message), "{text:?}\n gave {error:?}\n not {message:?}");
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_only_in_identifiers() {
    let error = refusal(b"id,lower,upper,size\na\xff,0,1,1");
    assert_eq!(error, "f: line 2: column `id`: `a\u{fffd}` is not UTF-8 text");
    assert_eq!(problem(b"id,lower,upper,size,x\na,0,1,1,\xff").ids, ["a"]);
}

#[test]
fn control_characters_in_identifiers_do_not_make_a_file_binary() {
    assert_eq!(problem("id,lower,upper,size\na\0\u{1},0,1,1\n").ids, ["a\0\u{1}"]);
}

#[test]
fn sizes_that_add_up_out_of_reach_are_refused_where_they_do() {
    let rows = |rows: &str| format!("id,lower,upper,size,alignment,offset\n{rows}");
    let big = 1_u64 << 62;
    let error = refusal(rows(&format!("a,0,1,{big},,\nb,2,3,{},,\nc,4,5,1,,", big - 1)));
    assert!(error.contains("line 4: column `size`: the sizes up to this row, with alignment"), "{error}");
    assert_eq!(problem(rows(&format!("a,0,1,{big},,\nb,2,3,{},,", big - 1))).ids.len(), 2);
    // Alignment and fixed offsets count too, so that no planner's sum can overflow.
    assert!(refusal(rows(&format!("a,0,1,{big},{big},\nb,0,1,1,2,"))).contains("line 3"));
    assert!(refusal(rows(&format!("a,0,1,1,,{}\nb,0,1,1,,", (1_u64 << 63) - 3))).contains("line 3"));
}

#[test]
fn rows_of_no_bytes_that_nobody_reads_are_listed_if_they_are_few() {
    let rows: String = (0..200).map(|i| format!("b{i},0,5,8\n")).collect();
    let read = problem(format!("id,lower,upper,size\n{rows}z0,4,5,0\nlast,0,1,1\nz1,1,2,0\n"));
    assert_eq!(read.zero_size, ["z0", "z1"]);
    assert_eq!(read.ids.len(), 201);
    assert_eq!(read.ids[200], "last");
    assert_eq!(read.problem.buffers.len(), 201);
    assert_eq!(read.problem.buffers[200].size, Bytes(1));
    let error = refusal(format!("id,lower,upper,size\n{rows}z0,4,6,0\n"));
    assert_eq!(error, "f: line 202: column `size`: must be at least 1");
    let error = refusal(format!("id,lower,upper,size\n{rows}z0,4,5,0\nz0,1,2,0\n"));
    assert_eq!(error, "f: line 203: column `id`: identifier `z0` is already that of row 201");
}

#[test]
fn a_record_without_end_is_refused_at_the_limit() {
    let mut limits = Limits::default();
    limits.max_record_bytes = 4096;
    let text = format!("id,lower,upper,size\n\"a,0,1,1\n{}", "x".repeat(10_000));
    let error = read_bytes("f", text.as_bytes(), &limits).unwrap_err().to_string();
    assert!(error.contains("the record is longer than 4096 bytes; is a quote never closed?"), "{error}");
    let text = format!("id,lower,upper,size\n{}", ",".repeat(10_000));
    let error = read_bytes("f", text.as_bytes(), &limits).unwrap_err().to_string();
    assert!(error.contains("the record is longer than 4096"), "{error}");
}

#[test]
fn separations_are_not_dropped_in_silence() {
    let mut named = problem("id,lower,upper,size\na,0,1,1\nb,2,3,1\n");
    named.problem.separations.push((0, 1));
    let error = write_csv(&named, Vec::new()).unwrap_err();
    assert!(matches!(error, Error::NotCarried { .. }));
    assert_eq!(error.to_string(), "dsa-csv can't carry the 1 separations between streams");
}

#[test]
fn only_columns_that_are_used_are_written() {
    let text = |input: &str| {
        let mut out = Vec::new();
        write_csv(&problem(input), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(text("size,upper,lower,id,why\n8,3,1,a,?\n"), "id,lower,upper,size\na,1,3,8\n");
    let full = "id,lower,upper,size,alignment,offset,gaps\n\"#a\",1,5,8,2,4,2-3 3-4@1:2\n\"b,\",1,5,8,1,,\n";
    assert_eq!(text(full), full);
}

fn any_buffer() -> impl Strategy<Value = Buffer> {
    let moments = (0..u64::MAX - 1, 1_u64..1000).prop_map(|(lower, life)| (lower, lower.saturating_add(life)));
    let size = prop_oneof![1_u64..1000, 1_u64..(1 << 50)];
    (moments, size, 1_u64..600, any::<Option<u32>>(), prop::collection::vec((0_u64..40, 1_u64..40, any::<u16>()), 0..4))
        .prop_map(|((lower, upper), size, alignment, fixed, holes)| {
            let mut gaps = Vec::new();
            let mut from = lower;
            for (wait, length, kept) in holes {
                let Some(birth) = from.checked_add(wait).filter(|&birth| birth < upper) else { break };
                from = birth.saturating_add(length).min(upper);
                let kept = (kept % 3 > 0).then(|| (u64::from(kept) % size, size));
                let kept = kept.map(|(from, to)| (Offset(from), Offset(to)));
                gaps.push(Gap { range: range(birth, from), kept });
            }
            let fixed = fixed.map(|fixed| Offset(u64::from(fixed) * alignment));
            Buffer { range: range(lower, upper), size: Bytes(size), alignment, fixed, gaps }
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        buffers in prop::collection::vec(any_buffer(), 1..20),
        prefix in "[ -~\n\r\tä]{0,12}",
    ) {
        let ids = (0..buffers.len()).map(|i| format!("{prefix}{i}")).collect();
        let named = NamedProblem {
            name: "f".to_owned(),
            ids,
            problem: Problem { buffers, separations: Vec::new(), capacity: None },
            ..NamedProblem::default()
        };
        let mut text = Vec::new();
        write_csv(&named, &mut text).unwrap();
        prop_assert_eq!(problem(&text), named);
    }

    #[test]
    fn any_rows_are_read_or_refused(rows in "[a-c0-9,\"\n\r#@: -]{0,200}") {
        let text = format!("id,lower,upper,size,alignment,offset,gaps\n{rows}");
        let _ = read_bytes("f", text.as_bytes(), &Limits::default());
    }
}
