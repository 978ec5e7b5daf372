#!/usr/bin/env bash
# The C side of libgpumem, as a user has it: the header in every language and compiler, the symbols and marks of the
# libraries, an installation that programs are built from. Prints a line for each check and their count as the last line.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

need cc gcc libc6-dev
need g++ g++
need pkg-config pkg-config

# Not everywhere can more be installed: then that is said, and the rest is still worth running.
try_need() { (need "$@") >/dev/null 2>&1 && hash -r; }

tests=crates/capi/tests
strict=(-Wall -Wextra -pedantic -Werror)
prefix=$folder/prefix

# header COMPILER STANDARD: alone and twice; C++ has another extension.
header() {
    local source=$folder/twice.c
    if [[ $2 == c++* ]]; then source=$folder/twice.cpp; fi
    cp "$tests/c/twice.c" "$source"
    "$1" -std="$2" "${strict[@]}" -Iinclude "$source" -o "$folder/twice" -fsyntax-only
}

try_need clang clang || not_run 'the header with clang (it is missing and cannot be installed)'
for compilers in gcc:g++ clang:clang++; do
    for standard in c99 c11 c17 c++17 c++20; do
        compiler=${compilers%:*}
        if [[ $standard == c++* ]]; then compiler=${compilers#*:}; fi
        if ! command -v "$compiler" >/dev/null; then continue; fi
        check "header as $standard with $compiler" header "$compiler" "$standard"
    done
done

check 'the libraries are linked' bash ci/link.sh "$folder/libraries"
LIBRARIES=$folder/libraries check 'and installed' bash ci/install.sh "$prefix"
library=$prefix/lib/libgpumem.so
if [[ ! -e $library ]]; then
    printf '%d passed, %d failed\n' "$passed" "$failed"
    exit 1
fi

# The functions that the header declares, one a line.
declared() { sed 's|//.*||' include/gpumem.h | grep -oE '\bgpumem_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u; }
exported() { nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sort; }

only_ours() {
    local others
    others=$(nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /^gpumem_[a-z0-9_]+@@GPUMEM_0$/')
    [[ -z $others ]] || { printf '%s\n' "$others"; return 1; }
}
same_functions() { diff <(declared) <(exported | sed 's/@@.*//'); }
# Whole outputs, and not pipes into `grep -q`, which stops reading early and so fails whoever writes.
marked() {
    local found
    found=$(readelf -dlVSW "$library")
    for mark in 'soname: [libgpumem.so.0]' NODELETE BIND_NOW GNU_RELRO 'Name: GPUMEM_0'; do
        grep -qF -- "$mark" <<<"$found" || { echo "no $mark"; return 1; }
    done
    if grep -E '\.(symtab|debug_)' <<<"$found"; then echo 'not stripped'; return 1; fi
}
small() { (($(stat -L -c %s "$library") < 4 * 1024 * 1024)); }
archive_is_ours() {
    local others
    others=$(nm --defined-only --extern-only "$prefix/lib/libgpumem.a" 2>/dev/null | awk 'NF == 3 && $3 !~ /^gpumem_/')
    [[ -z $others ]] || { printf '%s\n' "$others" | head; return 1; }
}
# No part of the build's own folders, home or cargo folder is in anything installed.
no_build_paths() {
    local path status=0
    for path in "$PWD" "$target" "${CARGO_HOME:-$HOME/.cargo}" "$folder/libraries" "$prefix"; do
        if grep -rlF -- "$path" "$prefix"; then echo "contains $path"; status=1; fi
    done
    return $status
}
no_foreign_code() {
    local found
    found=$(strings -a "$library" | grep -cE 'sqlite_|pickle' || true)
    ((found == 0)) || { echo "$found strings of SQLite or of foreign formats"; return 1; }
}

check 'symbols are exactly gpumem_*, each with its version' only_ours
check 'and exactly what the header declares' same_functions
check 'soname, nodelete, now, relro, version node, stripped' marked
check 'under 4 MB' small
check 'the static library shows nothing else either' archive_is_ours
check 'no path of the machine that built it' no_build_paths
check 'no reader of foreign formats' no_foreign_code

# c_program NAME: from the prefix alone, through pkg-config.
c_program() {
    local name=$1 flags
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs gpumem) || return 1
    # shellcheck disable=SC2086 # words
    cc -std=c99 -D_POSIX_C_SOURCE=200809L "${strict[@]}" "$tests/c/$name.c" -o "$folder/$name" -I"$tests/c" $flags -pthread || return 1
    (cd "$folder" && env -u GPUMEM_CONF LD_LIBRARY_PATH="$prefix/lib" "./$name")
}
static_c_program() {
    local flags
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs --static gpumem) || return 1
    # shellcheck disable=SC2086 # words
    cc -std=c99 "${strict[@]}" "$tests/c/$1.c" -o "$folder/$1-static" ${flags/-lgpumem/-l:libgpumem.a} -pthread || return 1
    "$folder/$1-static"
}
cmake_program() {
    cp -r "$tests/cmake" "$folder/cmake" &&
        cmake -S "$folder/cmake" -B "$folder/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$folder/cmake/build" &&
        "$folder/cmake/build/program-gpumem" &&
        "$folder/cmake/build/program-static"
}
moved() {
    local old=$prefix status=0
    mv "$prefix" "$folder/elsewhere"
    prefix=$folder/elsewhere
    c_program basics || status=1
    prefix=$old
    mv "$folder/elsewhere" "$prefix"
    return $status
}

for program in "$tests"/c/*.c; do
    name=$(basename "$program" .c)
    if [[ $name == twice ]]; then continue; fi
    check "$name.c through pkg-config" c_program "$name"
done
check 'basics.c against the static library' static_c_program basics
check 'the installation can be moved' moved
if try_need cmake cmake make; then
    check 'a C++17 program through CMake, shared and static' cmake_program
else
    not_run 'a C++17 program through CMake (cmake is missing and cannot be installed)'
fi

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
