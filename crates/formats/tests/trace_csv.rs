//! Traces as CSV: what is read, what is refused, what is written.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/round.rs"]
mod round;
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

use flate2::read::MultiGzDecoder;
use formats::{Compression, Format, Limits, read_bytes, read_path, write_trace_csv};
use proptest::prelude::*;
use records::{Operation, Row};
use round::same_rows;
use support::traces::{any_step, shared_traces, sound};
use support::{as_trace, read, refusal, trace};

fn row(operation: Operation, id: u64, bytes: u64, stream: i64) -> Row {
    Row { operation, id, bytes, stream, ..Row::default() }
}

#[test]
fn every_operation_is_read_as_it_stands() {
    let read = trace(
        "op,id,bytes,stream\nstep,7,0,0\nalloc,1,64,3\nuse,1,0,4\nwait,4,0,3\nwork,0,0,4\nfree,1,0,0\n\
         free_completed,1,0,0\nsync,0,0,-1\nmark,2,0,0\nsegment_alloc,s7f0000000000,2097152,0\nsegment_free,4096,1,0\n\
         oom,,99,1\nsnapshot,0,0,0\n",
    );
    use Operation as Op;
    assert_eq!(
        read.rows,
        [
            row(Op::Step, 7, 0, 0),
            row(Op::Alloc, 1, 64, 3),
            row(Op::Use, 1, 0, 4),
            row(Op::Wait, 4, 0, 3),
            row(Op::Work, 0, 0, 4),
            row(Op::Free, 1, 0, 0),
            row(Op::FreeCompleted, 1, 0, 0),
            row(Op::Sync, 0, 0, Row::ALL_STREAMS),
            row(Op::Mark, 2, 0, 0),
            row(Op::SegmentAlloc, 0x7f00_0000_0000, 2 << 20, 0),
            row(Op::SegmentFree, 4096, 1, 0),
            row(Op::OutOfMemory, 0, 99, 1),
            row(Op::Snapshot, 0, 0, 0),
        ]
    );
    assert!(!read.is_cut && read.has_syncs());
}

#[test]
fn columns_are_found_by_name_in_any_order() {
    let document = read(
        "# source: x#1\n#\nstream,tag,colour,bytes,time_us,id,thread,op,device\n# in between\n\
         2,conv,red,64,1.5,1,9,alloc,3\n0,\"a,b\",red,0,12.0047,1,9,free,3\n",
    );
    assert_eq!(
        (document.format, document.notes.as_slice()),
        (Format::TraceCsv, &["columns not looked at: colour".to_owned()][..])
    );
    let trace = as_trace(document);
    assert_eq!(trace.comments, ["source: x#1", "", "in between"]);
    let first = trace.rows[0];
    assert_eq!((first.stream, first.device, first.thread, first.time_ns, first.bytes), (2, 3, 9, 1500, 64));
    assert_eq!(trace.rows[1].time_ns, 12_004);
    assert_eq!(trace.rows.iter().map(|row| trace.names.get(row.tag)).collect::<Vec<_>>(), ["conv", "a,b"]);
    let bare = support::trace("op,id,bytes\nalloc,1,1\n");
    assert_eq!((bare.rows[0].stream, bare.rows[0].time_ns), (0, 0));
    assert_eq!(support::trace("op,id,bytes,time_us,time_ns\nalloc,1,1,5,7\n").rows[0].time_ns, 7);
}

#[test]
fn frees_in_pairs_are_a_request_and_its_end() {
    let paired = trace("op,id,bytes\nalloc,1,8\nfree_requested,1,8\nfree,1,8\nalloc,1,8\nfree,1,8\n");
    let operations: Vec<Operation> = paired.rows.iter().map(|row| row.operation).collect();
    use Operation as Op;
    assert_eq!(operations, [Op::Alloc, Op::Free, Op::FreeCompleted, Op::Alloc, Op::Free]);
}

#[test]
fn words_for_ids_of_steps_and_marks_become_tags() {
    let trace = trace(
        "op,id,bytes,stream,tag\nstep,init,0,0,\nstep,9 shape=8x112,0,0,\nmark,backward,0,0,loss\nstep,3,0,0,\nstep,4,0,0,x\n",
    );
    let said: Vec<(u64, &str)> = trace.rows.iter().map(|row| (row.id, trace.names.get(row.tag))).collect();
    assert_eq!(said, [(0, "init"), (9, "9 shape=8x112"), (0, "backward loss"), (3, ""), (4, "x")]);
}

#[test]
fn an_id_may_be_used_again_and_time_may_run_backwards() {
    let trace = trace("op,id,bytes,time_ns\nalloc,1,8,9\nfree,1,0,5\nalloc,1,16,4\n");
    assert_eq!(trace.rows.iter().map(|row| row.time_ns).collect::<Vec<_>>(), [9, 5, 4]);
}

#[test]
fn errors_name_line_column_value_and_reason() {
    let head = "op,id,bytes,stream,time_us,tag\n";
    for (rows, message) in [
        ("", "f: line 1: there are no rows below the header"),
        ("alloc,1,8,0,0\n", "f: line 2: the row has 5 fields and the header 6"),
        ("malloc,1,8,0,0,\n", "f: line 2: column `op`: `malloc` is not an operation; known are alloc, free, "),
        ("alloc,x,8,0,0,\n", "f: line 2: column `id`: `x` is not a whole number from 0 to 2^64 - 1"),
        ("alloc,,8,0,0,\n", "f: line 2: column `id`: `` is not a whole number"),
        ("alloc,1,,0,0,\n", "f: line 2: column `bytes`: `` is not a whole number"),
        ("alloc,1,-8,0,0,\n", "f: line 2: column `bytes`: `-8` is not a whole number"),
        ("alloc,1,8.0,0,0,\n", "column `bytes`: `8.0` is not a whole number"),
        ("alloc,1,4611686018427387905,0,0,\n", "column `bytes`: 4611686018427387905 is above the limit of"),
        (
            "alloc,1,4611686018427387904,0,0,\nalloc,2,4611686018427387904,0,0,\n",
            "f: line 3: column `bytes`: with this block of 4611686018427387904 bytes, 2^63 bytes or more are live",
        ),
        ("alloc,1,8,-1,0,\n", "f: line 2: column `stream`: `-1` is not a stream"),
        ("sync,0,0,-2,0,\n", "f: line 2: column `stream`: `-2` is not a stream"),
        ("alloc,1,8,9223372036854775808,0,\n", "column `stream`: `9223372036854775808` is not a stream"),
        ("wait,9223372036854775808,0,0,0,\n", "column `id`: 9223372036854775808 is above the limit"),
        ("alloc,1,8,0,-1,\n", "f: line 2: column `time_us`: `-1` is not a time"),
        ("alloc,1,8,0,1.,\n", "column `time_us`: `1.` is not a time"),
        ("alloc,1,8,0,18446744073709551615,\n", "column `time_us`: `18446744073709551615` is not a time"),
        ("alloc,1,8,0,nan,\n", "column `time_us`: `nan` is not a time"),
        ("segment_alloc,sxyz,8,0,0,\n", "f: line 2: column `id`: `sxyz` is not an address"),
        ("segment_alloc,s+1,8,0,0,\n", "column `id`: `s+1` is not an address"),
        ("segment_alloc,s,8,0,0,\n", "column `id`: `s` is not an address"),
        ("segment_alloc,s11112222333344445,8,0,0,\n", "is not an address"),
        ("# c\r\n\r\nfree,7,0,0,0,\r\n", "f: line 4: column `id`: there is no block 7"),
        ("use,7,0,0,0,\n", "f: line 2: column `id`: there is no block 7"),
        ("free_requested,7,0,0,0,\n", "f: line 2: column `id`: there is no block 7"),
        ("free_completed,7,0,0,0,\n", "f: line 2: column `id`: there is no block 7"),
        (
            "alloc,1,8,0,0,\n\nalloc,1,8,0,0,\n",
            "f: line 4: column `id`: block 1 is live since line 2, so its id can't be given to another",
        ),
        (
            "alloc,1,8,0,0,\nfree,1,0,0,0,\nfree,1,0,0,0,\n",
            "f: line 4: column `id`: block 1 was freed on line 3 already",
        ),
        (
            "alloc,1,8,0,0,\nfree,1,0,0,0,\nuse,1,0,0,0,\n",
            "f: line 4: column `id`: block 1 was freed on line 3 already",
        ),
        (
            "alloc,1,8,0,0,\nfree_requested,1,0,0,0,\nfree_requested,1,0,0,0,\n",
            "f: line 4: column `id`: block 1 was freed on line 3 already",
        ),
        (
            "alloc,1,8,0,0,\nfree_requested,1,0,0,0,\nfree,1,0,0,0,\nfree,1,0,0,0,\n",
            "f: line 5: column `id`: block 1 was freed on line 4 already",
        ),
        (
            "alloc,1,8,0,0,\nfree_requested,1,0,0,0,\nalloc,1,8,0,0,\n",
            "f: line 4: column `id`: the free of block 1, asked for on line 3, is not finished",
        ),
        (
            "alloc,1,8,0,0,\nfree_completed,1,0,0,0,\n",
            "f: line 3: column `id`: block 1, live since line 2, has not been freed",
        ),
    ] {
        let found = refusal(format!("{head}{rows}"));
        assert!(found.contains(message), "{rows:?}: {found}");
    }
    for (text, message) in [
        (
            "op,id,stream\nalloc,1,0\n",
            "f: line 1: the header has no column `bytes`; it must name `op`, `id` and `bytes`",
        ),
        ("op,id,bytes,op\n", "f: line 1: column `op`: the header names the column twice"),
        ("op,id,bytes,device\nalloc,1,0,4294967296\n", "f: line 2: column `device`: 4294967296 is above the limit of"),
        ("op,id,bytes,thread\nalloc,1,0,main\n", "f: line 2: column `thread`: `main` is not a whole number"),
        ("op,id,bytes,time_ns\nalloc,1,0,1.5\n", "f: line 2: column `time_ns`: `1.5` is not a whole number"),
        ("op,id,bytes\n\"alloc,1,0\n", "f: line 2: the row has 1 fields and the header 3"),
    ] {
        let found = refusal(text);
        assert!(found.contains(message), "{text:?}: {found}");
    }
    for (bytes, column) in [(&b"op,id,bytes,tag\nalloc,1,1,\xff\n"[..], "tag"), (b"op,id,bytes\nstep,\xff,1\n", "id")] {
        let found = refusal(bytes);
        assert!(
            found.starts_with(&format!("f: line 2: column `{column}`: `")) && found.ends_with("is not UTF-8 text"),
            "{found}"
        );
    }
}

#[test]
fn plain_gzip_zstd_and_either_line_end_say_the_same() {
    let lf = "# c: 1\nop,id,bytes,stream,tag\nalloc,1,64,0,x\n\nfree,1,0,0,x\n";
    let plain = read(lf);
    let crlf = trace(lf.replace('\n', "\r\n"));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(lf.as_bytes()).unwrap();
    let gzip = read(gzip.finish().unwrap());
    let zstd = read(ruzstd::encoding::compress_to_vec(lf.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest));
    assert_eq!(
        (plain.compression, gzip.compression, zstd.compression),
        (Compression::Plain, Compression::Gzip, Compression::Zstd)
    );
    let plain = as_trace(plain);
    for other in [crlf, as_trace(gzip), as_trace(zstd), trace(format!("\u{feff}{lf}"))] {
        assert!(same_rows(&plain, &other));
        assert_eq!(other.comments, ["c: 1"]);
    }
}

#[test]
fn comments_are_kept_up_to_a_bound() {
    let long = "x".repeat(40_000);
    let text = format!("# {long}\nop,id,bytes\nalloc,1,1\n{}# last", "# filler line\n".repeat(10_000));
    let read = read_bytes("f", text.as_bytes(), &Limits::default()).unwrap();
    let trace = as_trace(read);
    let kept: usize = trace.comments.iter().map(String::len).sum();
    assert!(trace.comments[0].starts_with("xxx") && trace.comments[0].len() <= 4096);
    assert!(kept <= 64 << 10, "{kept}");
    assert_eq!(trace.rows.len(), 1);
    assert!(refusal(format!("op,id,bytes\n# {long}\nalloc,1,x\n")).starts_with("f: line 3: "));
}

#[test]
fn every_shared_trace_is_read_and_comes_back() {
    let Some(paths) = shared_traces() else { return };
    for path in paths {
        let document = read_path(&path, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(document.format, Format::TraceCsv);
        assert!(document.notes.is_empty());
        let trace = as_trace(document);
        let counts = counted(&std::fs::read(&path).unwrap());
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &trace.rows {
            *found.entry(row.operation.name()).or_default() += 1;
        }
        assert_eq!(found, counts.iter().map(|(word, count)| (word.as_str(), *count)).collect(), "{}", path.display());
        let mut text = Vec::new();
        write_trace_csv(&trace, &mut text).unwrap();
        let again = support::trace(&text);
        assert!(same_rows(&trace, &again) && trace.comments == again.comments, "{}", path.display());
    }
}

#[test]
fn a_graph_or_problem_with_a_column_more_is_not_taken_for_a_trace() {
    assert_eq!(read("id,op,lower,upper,size\na,conv,0,1,8\n").format, Format::DsaCsv);
    assert_eq!(read("op,id,bytes,size\nalloc,1,8,8\n").format, Format::TraceCsv);
}

/// Rows of a file by operation, counted without the reader.
fn counted(bytes: &[u8]) -> BTreeMap<String, usize> {
    let mut text = String::new();
    if MultiGzDecoder::new(bytes).read_to_string(&mut text).is_err() {
        text = String::from_utf8(bytes.to_vec()).unwrap();
    }
    let rows =
        || text.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split(',').next().unwrap());
    let is_paired = rows().any(|word| word == "free_requested");
    let mut counts = BTreeMap::new();
    for word in rows() {
        let word = match word {
            "free" if is_paired => "free_completed",
            "free_requested" => "free",
            word => word,
        };
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    counts
}

proptest! {
    #[test]
    fn what_is_written_reads_back_as_the_same_rows(steps in prop::collection::vec(any_step(), 1..60)) {
        let trace = sound(steps);
        prop_assume!(!trace.rows.is_empty());
        let mut text = Vec::new();
        write_trace_csv(&trace, &mut text).unwrap();
        let again = support::trace(&text);
        prop_assert!(same_rows(&trace, &again), "{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn a_million_rows_are_read_in_a_moment() {
    let mut text = String::from("op,id,bytes,stream,time_us,tag\n");
    for id in 0..500_000 {
        writeln!(text, "alloc,{id},{},0,{id}.5,aten::conv2d\nfree,{},0,0,{id}.7,", 512 * (id % 4096), id).unwrap();
    }
    let start = std::time::Instant::now();
    let trace = trace(&text);
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(trace.rows.len(), 1_000_000);
    println!("{} bytes of text in {seconds:.3} s", text.len());
    assert!(seconds < 10.0, "{seconds}");
}
