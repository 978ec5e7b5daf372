#!/usr/bin/env bash
# The test command: installs what the tests need on a Debian machine that has the Rust toolchain, and runs all of them.
# What could not be run is listed at the end as 'not run: ...'.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need cc gcc libc6-dev

logs=$target/ci
mkdir -p "$logs"
rm -f "$logs"/{workspace,members,summary}.log
touch "$logs"/{workspace,members}.log

# Doc tests and the fuzz corpora, which are ordinary tests of `formats`, are part of this.
# --show-output: a test that finds its data absent says so, and that must be seen.
log=$logs/workspace.log
step 'tests of the whole workspace' cargo test --workspace --locked --no-fail-fast -- --show-output

if [[ -f ci/picture-test.sh ]]; then
    step 'the picture in a browser' bash ci/picture-test.sh
else
    not_run 'the picture in a browser (no ci/picture-test.sh)' | tee -a "$log"
fi
if [[ -f ci/e2e.sh ]]; then
    step 'the command, end to end' bash ci/e2e.sh
else
    not_run 'the command, end to end (no ci/e2e.sh)' | tee -a "$log"
fi
if [[ -f ci/capi-test.sh ]]; then
    step 'the library, from C and C++' bash ci/capi-test.sh
else
    not_run 'the library, from C and C++ (no ci/capi-test.sh)' | tee -a "$log"
fi
step 'gpumem.hpp and the examples' bash ci/cpp-test.sh

# A member that compiles only thanks to a feature that another one turns on fails here and nowhere else. Its tests have run
# above. The target folder is shared, so only what differs is compiled again.
log=$logs/members.log
for member in $(members); do
    step "$member compiles on its own" cargo test -q -p "$member" --locked --no-run
done

# Interpreters and sanitizers look for what only unsafe code can do.
log=$logs/workspace.log
unsafe_members=$(for member in crates/*/; do
    grep -qsF '#![forbid(unsafe_code)]' "$member"src/{lib,main}.rs || basename "$member"
done)
if [[ -z $unsafe_members ]]; then
    not_run 'miri, AddressSanitizer, ThreadSanitizer (every crate forbids unsafe code)' | tee -a "$log"
else
    step 'all interleavings, by loom' bash ci/loom.sh
    step 'undefined behaviour, by miri' bash ci/miri.sh
    step 'data races, by ThreadSanitizer' bash ci/thread-sanitizer.sh
    # Which of them have code that an interpreter can run, and threads that share memory, is up to these scripts: pools.
    others=${unsafe_members//$'\n'/ }
    not_run "miri and ThreadSanitizer on ${others/pools/} (their unsafe code makes system calls; no script for them yet)" | tee -a "$log"
    not_run "AddressSanitizer on the Rust code of $others (no script for it yet)" | tee -a "$log"
fi

# Each test once: the members' own runs repeat the workspace's, so their failures count only where the workspace has none.
# Scripts may report their own checks in a line 'N passed, N failed'.
awk -v failed_steps=${#failed_steps[@]} '
    FNR == 1 { file++ }
    /^test result:/ {
        for (i = 3; i < NF; i++) {
            if ($(i + 1) == "passed;" && file == 1) passed += $i
            if ($(i + 1) == "failed;") failures[file] += $i
            if ($(i + 1) == "ignored;" && file == 1) skipped += $i
        }
    }
    /^([a-z]+: )?[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ {
        sub(/^[a-z]+: /, "")
        passed += $1; failures[file] += $3; skipped += $5
    }
    END {
        failed = failures[1] > 0 ? failures[1] : failures[2] + 0
        if (failed == 0 && failed_steps > 0) failed = failed_steps
        printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$logs/workspace.log" "$logs/members.log" >"$logs/summary.log"

printf '\n== summary\n'
grep -h '^not run:' "$logs/workspace.log" | sort | uniq -c | awk '{ n = $1; sub(/^ *[0-9]+ /, ""); print $0 (n > 1 ? " [" n " times]" : "") }' || true
if grep -q '^test .* \.\.\. ignored' "$logs/workspace.log"; then
    grep -h '^test .* \.\.\. ignored' "$logs/workspace.log" | sed -E 's/^test (.*) \.\.\. ignored,? ?(.*)$/not run: \1 (\2)/; s/ \(\)$/ (ignored)/'
fi
for name in "${failed_steps[@]}"; do printf 'failed: %s\n' "$name"; done
cat "$logs/summary.log"
if grep -q '^tests: 0 passed, 0 failed' "$logs/summary.log"; then
    echo 'no test was executed' >&2
    exit 1
fi
((${#failed_steps[@]} == 0))
