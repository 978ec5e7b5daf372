//! Any bytes: recognition, decompression and every reader.

#![no_main]

#[path = "../../crates/formats/tests/support/round.rs"]
mod round;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    round::round(data);
});
