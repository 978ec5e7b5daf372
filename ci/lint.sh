#!/usr/bin/env bash
# Every check that is not a test. Runs without network once the dependencies are there; what it could not run is said.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need git git
need cc gcc libc6-dev
if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    rustup component add rustfmt clippy
fi

logs=$target/ci
mkdir -p "$logs"
log=$logs/lint.log
: >"$log"

deny_version=0.20.2
tools=$target/ci-tools

# Installs cargo-deny under the target folder, once a version. Unoptimised: it compiles in a minute and runs in one second.
install_deny() {
    if [[ ! -x $tools/deny-$deny_version/bin/cargo-deny ]]; then
        CARGO_TARGET_DIR=$tools/build cargo install --debug --locked --quiet --version "=$deny_version" \
            --root "$tools/deny-$deny_version" cargo-deny || return 1
        rm -rf "$tools/build"
    fi
}

deny() { "$tools/deny-$deny_version/bin/cargo-deny" --offline --locked --color never check licenses bans sources; }

docs() { RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked; }

# The fuzz targets are a workspace of their own, since they need a dependency that nothing else does. Checking them
# needs no fuzzer: the path below keeps libfuzzer-sys from building its C++ part, which is only linked, not checked.
fuzz() {
    CUSTOM_LIBFUZZER_PATH=$target/ci/libnone.a CARGO_TARGET_DIR=$target/fuzz-check \
        cargo check --manifest-path fuzz/Cargo.toml --bins --locked
}

step 'Cargo.lock is up to date' bash -c 'cargo metadata --locked --format-version 1 >/dev/null'
step 'format' cargo fmt --all --check
step 'layers and top level' ci/check-layers
step 'file size' ci/check-file-size
step 'manifests, unsafe code, minimum Rust' ci/check-manifests
step 'the C header is what its sources make' ci/header.sh --check
step 'unused dependencies' ci/check-unused-deps
step 'no machine paths, no registry hosts' ci/check-clean
step 'clippy' cargo clippy --workspace --all-targets --locked -- -D warnings
# As the library has it; the workspace's build turns the feature on.
step 'clippy on formats without foreign ones' cargo clippy -p formats --no-default-features --lib --locked -- -D warnings
step 'docs' docs
if [[ -f fuzz/Cargo.toml ]]; then
    step 'fuzz targets compile' fuzz
else
    not_run 'fuzz targets compile (no fuzz/Cargo.toml)' | tee -a "$log"
fi
# Judging licences needs the dependencies of all platforms, so that all of them are fetched first.
if install_deny && cargo fetch --locked --quiet; then
    step 'licences and sources of dependencies' deny
elif [[ -n ${CI:-} ]]; then
    step 'cargo-deny and all dependencies can be had' false
else
    not_run "licences and sources of dependencies (cargo-deny $deny_version or a dependency can't be had from here)" | tee -a "$log"
fi

printf '\n== summary\n'
not_run_lines=$(grep -c '^not run:' "$log" || true)
grep '^not run:' "$log" || true
for name in "${failed_steps[@]}"; do printf 'failed: %s\n' "$name"; done
printf 'lint: %d passed, %d failed, %d skipped\n' "$passed_steps" ${#failed_steps[@]} "$not_run_lines"
((${#failed_steps[@]} == 0))
