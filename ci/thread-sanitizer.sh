#!/usr/bin/env bash
# ThreadSanitizer on the allocator's tests with threads: it finds data races in what really ran.
# Needs a nightly toolchain with the component rust-src; prints 'not run: ...' where there is none.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

source_of_std=$(rustc +nightly --print sysroot 2>/dev/null || true)/lib/rustlib/src/rust/library/std
if [[ ! -d $source_of_std ]]; then
    not_run 'ThreadSanitizer (no nightly toolchain with the component rust-src)'
    exit 0
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=thread --cfg tsan" CARGO_TARGET_DIR=$target/tsan TSAN_OPTIONS=halt_on_error=1 \
    cargo +nightly test -Zbuild-std --target "$host" -p pools --locked --test promises -- \
    threads:: misuse::of_threads snapshot::segments --show-output
