#!/usr/bin/env bash
# All interleavings of the code that threads share without locks, by loom: the tests whose names begin with 'loom_'.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A folder of its own: the flag builds everything anew.
RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" CARGO_TARGET_DIR=$target/loom \
    cargo test -p pools --lib --release --locked loom_ -- --show-output
