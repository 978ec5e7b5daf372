//! RMM's logs: every way in which RMM has spelt them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use formats::Format;
use records::{Operation, Row};
use support::{as_trace, read, refusal, trace};

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_log_is_a_trace_whose_pointers_are_ids() {
    let document = read(
        "Thread,Time,Action,Pointer,Size,Stream\n\
         2342727,15:47:02.841961,allocate,0x10012400000,1048576,0\n\
         2342727,15:47:02.841977,allocate,0x10012500000,512,0x55d0c1e2f0a0\n\
         2342728,15:47:02.841990,free,0x10012400000,1048576,0\n\
         2342728,15:47:03.000001,allocate,0x10012400000,4096,0x2\n\
         2342727,15:47:04.5,allocate failure,(nil),99999999999,0x55d0c1e2f0a0\n\
         2342727,15:47:05,free,0x10012500000,512,0x55d0c1e2f0a0\n",
    );
    assert_eq!((document.format, document.notes.len()), (Format::RmmLog, 0));
    let trace = as_trace(document);
    let start = (15 * 3600 + 47 * 60 + 2) * SECOND;
    let row = |operation, id, bytes, stream, thread, after_ns| {
        let time_ns = start + after_ns;
        Row { operation, id, bytes, stream, thread, time_ns, ..Row::default() }
    };
    use Operation as Op;
    assert_eq!(
        trace.rows,
        [
            row(Op::Alloc, 0, 1 << 20, 0, 2_342_727, 841_961_000),
            row(Op::Alloc, 1, 512, 1, 2_342_727, 841_977_000),
            row(Op::Free, 0, 1 << 20, 0, 2_342_728, 841_990_000),
            row(Op::Alloc, 2, 4096, 2, 2_342_728, SECOND + 1000),
            row(Op::OutOfMemory, 0, 99_999_999_999, 1, 2_342_727, 2 * SECOND + SECOND / 2),
            row(Op::Free, 1, 512, 1, 2_342_727, 3 * SECOND),
        ]
    );
}

#[test]
fn other_spellings_say_the_same() {
    let rows = |text: &str| trace(format!("Thread,Time,Action,Pointer,Size,Stream\n{text}")).rows;
    let bare = rows("1,00:00:01.0,allocate,7f8a40000000,8,2\n1,00:00:01.0,free,7f8a40000000,8,2\n");
    let prefixed = rows("1,1.0,allocate,0x7f8a40000000,8,0x2\n1,1,deallocate,0x7f8a40000000,8,0x2\n");
    assert_eq!(bare, prefixed);
    assert_eq!(bare[0].time_ns, SECOND);
    let epoch = rows("140573312345856,1634567890.123456,allocate,0x7f8a40000000,1024,0\n4,0,allocate,8,8,0\n");
    assert_eq!((epoch[0].thread, epoch[0].time_ns), (u32::MAX, 1_634_567_890_123_456_000));
    assert_eq!(epoch[1].thread, 4);
    // Columns that are not there, and one that nobody knows.
    let document = read("Size,Pointer,Action,Colour\n8,ff,allocate,red\n");
    assert_eq!(document.notes, ["columns not looked at: Colour"]);
    assert_eq!(as_trace(document).rows, [Row { bytes: 8, ..Row::default() }]);
}

#[test]
fn midnight_makes_a_new_day_and_a_late_thread_does_not() {
    let trace = trace(
        "Thread,Time,Action,Pointer,Size,Stream\n1,23:59:59.5,allocate,1,8,0\n1,00:00:00.5,allocate,2,8,0\n\
         2,23:59:59.9,allocate,3,8,0\n1,00:00:01,allocate,4,8,0\n",
    );
    let day = 24 * 3600 * SECOND;
    let times: Vec<u64> = trace.rows.iter().map(|row| row.time_ns).collect();
    assert_eq!(times[..2], [day - SECOND / 2, day + SECOND / 2]);
    assert_eq!(times[3], day + SECOND);
    assert!(times.iter().all(|time| time.abs_diff(day) <= SECOND), "{times:?}");
}

#[test]
fn requests_of_no_bytes_get_no_memory_and_no_row() {
    let rows = trace(
        "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,(nil),0,0\n1,0,allocate,0x0,0,0\n1,0,allocate,1,8,0\n1,0,free,(nil),0,0\n",
    )
    .rows;
    assert_eq!(rows.len(), 1);
}

#[test]
fn errors_name_line_column_value_and_reason() {
    for (rows, message) in [
        ("", "f: line 1: there are no rows below the header"),
        ("1,0,allocate,1,8\n", "f: line 2: the row has 5 fields and the header 6"),
        (
            "1,0,alloc,1,8,0\n",
            "column `Action`: `alloc` is not an operation; known are allocate, free, deallocate, allocate failure",
        ),
        ("1,0,allocate,0xg,8,0\n", "f: line 2: column `Pointer`: `0xg` is not an address"),
        ("1,0,allocate,,8,0\n", "f: line 2: column `Pointer`: `` is not an address"),
        ("1,0,allocate,11112222333344445,8,0\n", "column `Pointer`: `11112222333344445` is not an address"),
        ("1,0,allocate,1,-8,0\n", "f: line 2: column `Size`: `-8` is not a whole number"),
        ("1,0,allocate,1,4611686018427387905,0\n", "column `Size`: 4611686018427387905 is above the limit"),
        ("1,0,allocate,1,8,default\n", "f: line 2: column `Stream`: `default` is not an address"),
        ("main,0,allocate,1,8,0\n", "f: line 2: column `Thread`: `main` is not a whole number"),
        ("1,24:00:00,allocate,1,8,0\n", "f: line 2: column `Time`: `24:00:00` is not a time"),
        ("1,1:2,allocate,1,8,0\n", "column `Time`: `1:2` is not a time"),
        ("1,00:00:61,allocate,1,8,0\n", "column `Time`: `00:00:61` is not a time"),
        ("1,yesterday,allocate,1,8,0\n", "column `Time`: `yesterday` is not a time"),
        ("1,0,free,0xff,8,0\n", "f: line 2: column `Pointer`: pointer 0xff: there is no block 255"),
        (
            "1,0,allocate,0xff,8,0\n1,0,allocate,ff,8,0\n",
            "f: line 3: column `Pointer`: pointer ff: block 255 is live since line 2",
        ),
        (
            "1,0,allocate,1,8,0\n1,0,free,1,8,0\n1,0,free,1,8,0\n",
            "f: line 4: column `Pointer`: pointer 1: block 1 was freed on line 3 already",
        ),
        (
            "1,0,allocate,1,4611686018427387904,0\n1,0,allocate,2,4611686018427387904,0\n",
            "f: line 3: column `Size`: pointer 2: with this block of 4611686018427387904 bytes, 2^63 bytes or more are live",
        ),
    ] {
        let found = refusal(format!("Thread,Time,Action,Pointer,Size,Stream\n{rows}"));
        assert!(found.contains(message), "{rows:?}: {found}");
    }
    let found = refusal("Action,Pointer\nallocate,1\n");
    assert_eq!(found, "f: line 1: the header has no column `Size`; it must name `Action`, `Pointer` and `Size`");
}
