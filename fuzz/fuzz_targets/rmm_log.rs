//! The reader of RMM's logs, and the writer of traces.

#![no_main]

#[path = "../../crates/formats/tests/support/round.rs"]
mod round;

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|data: &[u8]| -> Corpus {
    // What isn't of this format is kept out of its corpus.
    if round::round(data) == Some(formats::Format::RmmLog) { Corpus::Keep } else { Corpus::Reject }
});
