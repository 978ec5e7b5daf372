#!/usr/bin/env bash
# Makes include/gpumem.h from crates/capi. With --check it only says whether the committed one is what would be made.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cbindgen_version=0.29.4
tool=$target/ci-tools/cbindgen-$cbindgen_version/bin/cbindgen
header=include/gpumem.h

# Unoptimised: it compiles in a minute and runs in a second.
if [[ ! -x $tool ]]; then
    build=$target/ci-tools/build-cbindgen
    if ! CARGO_TARGET_DIR=$build cargo install --debug --locked --quiet --version "=$cbindgen_version" \
        --root "$target/ci-tools/cbindgen-$cbindgen_version" cbindgen; then
        if [[ -n ${CI:-} ]]; then exit 1; fi
        not_run "the header is what its sources make (cbindgen $cbindgen_version can't be had from here)"
        exit 0
    fi
    rm -rf "$build"
fi

made=$target/ci/gpumem.h
mkdir -p "$target/ci" include
"$tool" --quiet --config crates/capi/cbindgen.toml --crate capi --output "$made" crates/capi

if [[ ${1:-} == --check ]]; then
    diff -u "$header" "$made" || { echo "header: $header is not what crates/capi makes; run ci/header.sh"; exit 1; }
else
    cp "$made" "$header"
fi
