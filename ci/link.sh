#!/usr/bin/env bash
# Builds crates/capi and links libgpumem.a and libgpumem.so.VERSION from it, into target/libgpumem or the folder named.
#
#   ci/link.sh [FOLDER]
#
# A plain cdylib link drops a version script of ours without a word, so both are made from rustc's static library: one
# object in which only gpumem_* are visible becomes the static library, and that object, linked with the version script,
# the shared one. PROFILE chooses cargo's profile (default: library, which is release as one piece).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need cc gcc libc6-dev

folder=${1:-$target/libgpumem}
profile=${PROFILE:-library}
version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | sed -n 1p)
soname=libgpumem.so.${version%%.*}
max_bytes=4194304

mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# In a folder of its own, since the flags differ: no path of this machine may end up in the libraries.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
build=$target/libgpumem-build
flags="--remap-path-prefix=$PWD=gpumem"
for registry in "$cargo_home"/registry/src/*; do
    if [[ -d $registry ]]; then flags+=" --remap-path-prefix=$registry=registry"; fi
done
RUSTFLAGS="${RUSTFLAGS:-} $flags" CARGO_TARGET_DIR=$build \
    cargo rustc -p capi --lib --locked --quiet --profile "$profile" --crate-type staticlib
[[ $profile == dev ]] && archive=$build/debug/libcapi.a || archive=$build/$profile/libcapi.a

# What the header declares is what is exported; a function that is missing in either fails below.
nm --defined-only --extern-only "$archive" 2>/dev/null | awk '$2 == "T" && $3 ~ /^gpumem_/ { print $3 }' | sort -u >"$work/symbols"
[[ -s $work/symbols ]] || { echo "link: $archive has no gpumem_* symbols"; exit 1; }

roots=()
while IFS= read -r symbol; do roots+=("--undefined=$symbol"); done <"$work/symbols"

# One object with what the roots reach, everything else hidden.
# (A linker plugin for another compiler's bitcode may complain of members that it can't read, and need not.)
ld -r --gc-sections "${roots[@]}" -o "$work/whole.o" "$archive" 2> >(grep -v '^bfd plugin: ' >&2 || true)
# Bitcode for a link-time optimisation that is over; glued together it is none any more, and upsets such plugins.
objcopy --keep-global-symbols="$work/symbols" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$work/whole.o" "$work/gpumem.o"
rm -f "$folder/libgpumem.a"
ar rcsD "$folder/libgpumem.a" "$work/gpumem.o"

{
    echo 'GPUMEM_0 {'
    echo '  global:'
    sed 's/.*/    &;/' "$work/symbols"
    echo '  local: *;'
    echo '};'
} >"$work/version.map"

rm -f "$folder"/libgpumem.so*
cc -shared -o "$folder/libgpumem.so.$version" \
    -Wl,-soname,"$soname" -Wl,--version-script="$work/version.map" \
    -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,-z,defs \
    -Wl,--gc-sections -Wl,--build-id=sha1 -Wl,-O1 -Wl,--strip-all \
    -Wl,--whole-archive "$folder/libgpumem.a" -Wl,--no-whole-archive \
    -lpthread -ldl -lm -lgcc_s -lc
ln -s "libgpumem.so.$version" "$folder/$soname"
ln -s "$soname" "$folder/libgpumem.so"

bytes=$(stat -c %s "$folder/libgpumem.so.$version")
if ((bytes > max_bytes)); then
    echo "link: libgpumem.so has $bytes bytes, more than $max_bytes"
    exit 1
fi
printf 'libgpumem.so.%s: %d bytes, %d functions\n' "$version" "$bytes" "$(wc -l <"$work/symbols")"
