//! Our own binary trace: what is written comes back, whole or up to where it was cut.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::Write as _;

use formats::{Document, Error, Format, Limits, read_bytes, read_path, write_trace};
use proptest::prelude::*;
use records::{Operation, Row, Trace, TraceWriter};
use support::traces::{any_step, shared_traces, sound};
use support::{as_trace, read, refusal};

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_trace(trace, &mut bytes).unwrap();
    bytes
}

fn reading(bytes: &[u8]) -> Result<Document, Error> {
    read_bytes("f", bytes, &Limits::default())
}

/// Whether `part` is the beginning of `whole`, ids of names included.
fn begins(whole: &Trace, part: &Trace) -> bool {
    part.rows.len() <= whole.rows.len()
        && part.rows == whole.rows[..part.rows.len()]
        && part.names.iter().eq(whole.names.iter().take(part.names.len()))
}

/// A trace in several chunks, and where each of them ends in the file.
fn in_chunks(trace: &Trace, rows: usize) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &trace.name, &trace.comments).unwrap();
    for (_, name) in trace.names.iter() {
        writer.intern(name).unwrap();
    }
    for (index, row) in trace.rows.iter().enumerate() {
        if index % rows == 0 {
            writer.flush().unwrap();
        }
        writer.push(row).unwrap();
    }
    writer.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_comes_back_bit_for_bit(
        steps in prop::collection::vec(any_step(), 0..80),
        comments in prop::collection::vec(".{0,20}", 0..3),
        is_cut in any::<bool>(),
    ) {
        let trace = Trace { name: "some name".to_owned(), comments, is_cut, ..sound(steps) };
        let document = reading(&written(&trace)).unwrap();
        prop_assert_eq!(document.format, Format::Trace);
        prop_assert_eq!(document.notes.len(), usize::from(is_cut));
        let again = as_trace(document);
        prop_assert!(begins(&trace, &again) && begins(&again, &trace));
        prop_assert_eq!((again.name, again.comments, again.is_cut), (trace.name, trace.comments, is_cut));
    }

    #[test]
    fn every_prefix_of_a_file_reads_as_a_prefix_of_the_rows(steps in prop::collection::vec(any_step(), 0..60), rows in 1_usize..20) {
        let trace = sound(steps);
        let bytes = in_chunks(&trace, rows);
        let mut before = 0;
        for length in 12..bytes.len() {
            let document = reading(&bytes[..length]).unwrap();
            prop_assert_eq!(document.notes.len(), 1);
            let part = as_trace(document);
            prop_assert!(part.is_cut && begins(&trace, &part) && part.rows.len() >= before);
            before = part.rows.len();
        }
        prop_assert_eq!(before, trace.rows.len());
        prop_assert!(!as_trace(reading(&bytes).unwrap()).is_cut);
    }

    #[test]
    fn a_damaged_byte_cuts_the_trace_and_changes_nothing_before(
        steps in prop::collection::vec(any_step(), 0..60),
        at in any::<prop::sample::Index>(),
        mask in 1_u8..,
    ) {
        let trace = sound(steps);
        let mut bytes = in_chunks(&trace, 10);
        let at = 12 + at.index(bytes.len() - 12);
        bytes[at] ^= mask;
        let document = reading(&bytes).unwrap();
        prop_assert_eq!(document.notes.len(), 1);
        let part = as_trace(document);
        prop_assert!(part.is_cut && begins(&trace, &part));
    }
}

#[test]
fn every_shared_trace_comes_back_and_is_smaller_than_its_gzip() {
    let Some(paths) = shared_traces() else { return };
    let (mut all_rows, mut all_bytes) = (0, 0);
    for path in paths {
        let trace = as_trace(read_path(&path, &Limits::default()).unwrap());
        let bytes = written(&trace);
        let again = as_trace(read(&bytes));
        assert!(begins(&trace, &again) && begins(&again, &trace) && !again.is_cut, "{}", path.display());
        assert_eq!((&again.name, &again.comments), (&trace.name, &trace.comments));
        let stored = std::fs::metadata(&path).unwrap().len();
        println!(
            "{:>9} of {stored:>9} bytes, {:.2} a row: {}",
            bytes.len(),
            bytes.len() as f64 / trace.rows.len() as f64,
            trace.name
        );
        // A file of a dozen rows is all head.
        assert!((bytes.len() as u64) < stored.max(300), "{}", path.display());
        (all_rows, all_bytes) = (all_rows + trace.rows.len(), all_bytes + bytes.len());
    }
    println!("{:.3} bytes a row over all", all_bytes as f64 / all_rows as f64);
}

#[test]
fn a_file_inside_gzip_is_cut_where_the_gzip_is() {
    let rows = (0..40_000_u64).map(|id| Row { id, bytes: id.wrapping_mul(0x9e37_79b9) & 0xffff, ..Row::default() });
    let trace = Trace { rows: rows.collect(), ..Trace::default() };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&written(&trace)).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(as_trace(read(&gzip)).rows.len(), 40_000);
    // The first 64 KiB of text are looked at to recognise the file, and have to be there.
    let document = read(&gzip[..gzip.len() - 100]);
    assert!(document.notes[0].contains("cut off"), "{:?}", document.notes);
    let part = as_trace(document);
    assert!(part.is_cut && begins(&trace, &part) && part.rows.len() > 10_000, "{}", part.rows.len());
}

#[test]
fn what_is_not_a_trace_of_this_version_is_refused() {
    let whole = written(&Trace::default());
    for length in 8..12 {
        let found = refusal(&whole[..length]);
        assert_eq!(&found[..65], "f: not recognised: a binary trace that is cut off in its first by");
    }
    let mut newer = whole.clone();
    newer[8] = 2;
    assert!(refusal(&newer).starts_with("f: format `gpumem-trace/2` is unknown; gpumem reads "));
    assert!(refusal(b"\x89GPUMEM\r\n\x01\0\0\0").contains("binary data that begins with the bytes 89 47"));
}

#[test]
fn rows_that_make_no_sense_are_refused_with_their_number() {
    use Operation as Op;
    let row = |operation, id, bytes, stream| Row { operation, id, bytes, stream, ..Row::default() };
    for (rows, message) in [
        (vec![row(Op::Free, 1, 0, 0)], "f: rows[0].id (free): there is no block 1"),
        (
            vec![row(Op::Alloc, 1, 8, 0), row(Op::Alloc, 1, 8, 0)],
            "f: rows[1].id (alloc): block 1 is live since row 0, so its id",
        ),
        (
            vec![row(Op::Alloc, 1, u64::MAX, 0)],
            "f: rows[0].bytes (alloc): 18446744073709551615 is above the limit of 46116",
        ),
        (
            vec![row(Op::Alloc, 1, 1 << 62, 0), row(Op::Alloc, 2, 1 << 62, 0)],
            "f: rows[1].bytes (alloc): with this block of",
        ),
        (vec![row(Op::Alloc, 1, 8, -1)], "f: rows[0].stream (alloc): -1 is not a stream; only a `sync`"),
        (vec![row(Op::Sync, 0, 0, -2)], "f: rows[0].stream (sync): -2 is not a stream"),
        (vec![row(Op::Wait, u64::MAX, 0, 0)], "f: rows[0].id (wait): 18446744073709551615 is above the limit"),
    ] {
        let found = refusal(written(&Trace { rows, ..Trace::default() }));
        assert!(found.starts_with(message), "{found}");
    }
}

#[test]
fn a_few_bytes_that_become_millions_of_rows_are_refused() {
    let mut writer = TraceWriter::new(Vec::new(), "bomb", &[]).unwrap();
    for _ in 0..10_000_000 {
        writer.push(&Row { operation: Operation::Mark, ..Row::default() }).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let found = refusal(&bytes);
    assert!(found.contains("refused as a decompression bomb"), "{found}");
    let mut limits = Limits::default();
    limits.max_text_bytes = 1 << 20;
    assert!(matches!(read_bytes("f", &bytes, &limits), Err(Error::TooLarge { .. })));
}

#[test]
fn a_million_rows_are_written_and_read_in_a_moment() {
    let mut trace = Trace::default();
    let tag = trace.names.intern("aten::conv2d");
    for id in 0..500_000 {
        let row = Row { id, bytes: 512 * (id % 4096), tag, time_ns: id * 1500 + id % 977, ..Row::default() };
        trace.rows.extend([row, Row { operation: Operation::Free, ..row }]);
    }
    let start = std::time::Instant::now();
    let bytes = written(&trace);
    let write_seconds = start.elapsed().as_secs_f64();
    let again = as_trace(read(&bytes));
    let seconds = start.elapsed().as_secs_f64();
    println!("{} bytes, written in {write_seconds:.3} s, read in {:.3} s", bytes.len(), seconds - write_seconds);
    assert!(begins(&trace, &again) && again.rows.len() == 1_000_000);
    assert!(seconds < 10.0, "{seconds}");
}
