//! The corpus of the fuzz targets, as it is and mangled, without a fuzzer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/round.rs"]
mod round;
mod support;

use std::path::PathBuf;

use formats::Format;
use proptest::prelude::*;
use round::round;
use support::{files, root};

fn seeds(target: &str) -> Vec<PathBuf> {
    let seeds = files(&root().join("fuzz/corpus").join(target), "");
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds
}

#[test]
fn every_seed_is_read_or_refused_and_most_are_read() {
    for (target, format) in [
        ("csv", Format::DsaCsv),
        ("corpus_graph", Format::CorpusGraph),
        ("corpus_hlo", Format::CorpusHlo),
        ("gpumem_graph", Format::Graph),
        ("plan", Format::Plan),
        ("trace_csv", Format::TraceCsv),
        ("snapshot", Format::TorchSnapshot),
        ("gpumem_trace", Format::Trace),
        ("rmm_log", Format::RmmLog),
    ] {
        let read = seeds(target).iter().filter(|path| round(&std::fs::read(path).unwrap()) == Some(format)).count();
        assert!(read * 2 >= seeds(target).len() || read >= 2, "{target}: only {read} seeds are read");
    }
    for path in seeds("any") {
        round(&std::fs::read(path).unwrap());
    }
}

/// A change to some bytes.
#[derive(Clone, Debug)]
enum Change {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Drop(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Insert(prop::sample::Index, &'static str),
}

fn any_change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    let words = vec![
        "-1",
        "0",
        "18446744073709551615",
        "4611686018427387904",
        "1e9",
        "null",
        "[]",
        "{}",
        "\"\"",
        ",",
        "\n",
        "\r",
        "\"",
        "#",
        "\\u0001",
        "true",
        "[",
        "}",
        "@0:9",
        "\u{feff}",
    ];
    prop_oneof![
        (at(), 1_u8..).prop_map(|(at, mask)| Change::Flip(at, mask)),
        at().prop_map(Change::Cut),
        (at(), 1_usize..40).prop_map(|(at, length)| Change::Drop(at, length)),
        (at(), 1_usize..400).prop_map(|(at, length)| Change::Repeat(at, length)),
        (at(), prop::sample::select(words)).prop_map(|(at, word)| Change::Insert(at, word)),
    ]
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let range = |at: &prop::sample::Index, length: usize| {
            let start = at.index(bytes.len());
            start..(start + length).min(bytes.len())
        };
        match self {
            Self::Flip(at, mask) => {
                let at = at.index(bytes.len());
                bytes[at] ^= mask;
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Drop(at, length) => drop(bytes.drain(range(at, *length))),
            Self::Repeat(at, length) => {
                let range = range(at, *length);
                let (end, part) = (range.end, bytes[range].to_vec());
                bytes.splice(end..end, part);
            }
            Self::Insert(at, word) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, word.bytes());
            }
        }
    }
}

fn any_seed() -> impl Strategy<Value = Vec<u8>> {
    let all: Vec<Vec<u8>> =
        files(&root().join("fuzz/corpus"), "").iter().map(|path| std::fs::read(path).unwrap()).collect();
    prop::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_mangled_file_is_read_or_refused(mut bytes in any_seed(), changes in prop::collection::vec(any_change(), 1..4)) {
        changes.iter().for_each(|change| change.apply(&mut bytes));
        round(&bytes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        round(&bytes);
    }
}
