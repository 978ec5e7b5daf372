#!/usr/bin/env bash
# Draws plans and histories with memviz and opens the pages in headless Chromium; ends with 'N passed, N failed'.
#
# Needs cargo. Installs Chromium and Node.js from Debian's packages where they are missing and it may, and the browser
# driver from npm into a folder that it removes. The pages themselves are opened without any network.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

find_chromium() {
    local name
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
        if [ -n "$name" ] && command -v "$name"; then
            return 0
        fi
    done
    return 1
}

# Installs Debian packages, saying nothing unless it fails.
install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    {
        apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
    } >"$scratch/install.log" 2>&1 && return 0
    tail -n 5 "$scratch/install.log"
    return 1
}

if ! chromium=$(find_chromium); then
    if ! install chromium fonts-dejavu-core || ! chromium=$(find_chromium); then
        echo "not run: no Chromium here, and it cannot be installed"
        exit 0
    fi
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    install nodejs npm || {
        echo "the picture test needs Node.js, which cannot be installed" >&2
        exit 1
    }
fi

# keeps the test from changing Cargo.lock; the pages come from an example of the crate.
cargo build --quiet --package memviz --example picture
picture=$(cargo metadata --format-version 1 --no-deps | node -e '
    const text = require("fs").readFileSync(0, "utf8");
    console.log(JSON.parse(text).target_directory + "/debug/examples/picture");
')
for plan in empty one small hostile extreme; do
    "$picture" "$plan" "$scratch/$plan.html" "$scratch/$plan.svg" >/dev/null
done
for history in small-history empty-history no-segments hostile-history inconsistent extreme-history; do
    "$picture" "$history" "$scratch/$history.html" "$scratch/$history.svg" >/dev/null
done
"$picture" run:20000 "$scratch/run20000.html" >/dev/null
"$picture" run:1000000 "$scratch/run1000000.html" >/dev/null
"$picture" synthetic:30000 "$scratch/30000.html" "$scratch/30000.svg" >/dev/null
"$picture" synthetic:100000 "$scratch/100000.html" >/dev/null

cp ci/picture-test/package.json ci/picture-test/package-lock.json ci/picture-test/*.mjs "$scratch/"
(cd "$scratch" && npm ci --silent --ignore-scripts --no-audit --no-fund)
CHROMIUM=$chromium node "$scratch/test.mjs" "$scratch"
