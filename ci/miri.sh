#!/usr/bin/env bash
# The interpreter miri on code with unsafe blocks that makes no system calls: it finds undefined behaviour.
# Needs a nightly toolchain with the component miri; prints 'not run: ...' where there is none.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    not_run 'miri (no nightly toolchain with the component miri)'
    exit 0
fi
# The standard library for the interpreter is built from its source, which takes the component rust-src.
if ! CARGO_TARGET_DIR=$target/miri cargo +nightly miri setup >/dev/null 2>&1; then
    not_run 'miri (its standard library could not be built: component rust-src)'
    exit 0
fi
MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=$target/miri cargo +nightly miri test -p pools --lib --locked -- \
    lock:: page_map:: block:: span:: bins:: zeroed:: account:: magazine:: tags:: --show-output
