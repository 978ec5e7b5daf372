#!/usr/bin/env bash
# gpumem.hpp and the examples in C and C++, as a user has them: built from an installation and nothing else, through CMake
# and through pkg-config, plain and under sanitizers. Prints a line for each check and their count as the last line.
#
# PREFIX names an installation that ci/install.sh made; without it, one is made.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

need cc gcc g++ libc6-dev
need pkg-config pkg-config

# Not everywhere can more be installed: then that is said, and the rest is still worth running.
try_need() { (need "$@") >/dev/null 2>&1 && hash -r; }

tests=bindings/cpp/tests
strict=(-Wall -Wextra -Wpedantic -Werror -Wconversion)
prefix=${PREFIX:-$folder/prefix}
if [[ -z ${PREFIX:-} ]]; then check 'gpumem is installed' bash ci/install.sh "$prefix"; fi
# Copies, so that no header of the tree can be found from where the sources are.
cp -r "$tests" "$folder/tests"
cp -r examples/c examples/cpp "$folder"
mkdir -p "$folder/run"

# header COMPILER STANDARD [OPTION...]: alone and twice.
header() {
    local compiler=$1 standard=$2
    shift 2
    "$compiler" -std="$standard" "${strict[@]}" -Wshadow "$@" -I"$prefix/include" -fsyntax-only "$folder/tests/twice.cpp"
}
# run PROGRAM [ARGUMENT...]: with the installed library, where files may be left.
run() {
    (cd "$folder/run" && env -u GPUMEM_CONF LD_LIBRARY_PATH="$prefix/lib" timeout 300 "$@")
}

try_need clang++ clang || not_run 'gpumem.hpp with clang++ (it is missing and cannot be installed)'
for compiler in g++ clang++; do
    if ! command -v "$compiler" >/dev/null; then continue; fi
    for standard in c++17 c++20; do
        check "gpumem.hpp as $standard with $compiler" header "$compiler" "$standard"
        check "gpumem.hpp as $standard with $compiler, without exceptions and RTTI" \
            header "$compiler" "$standard" -fno-exceptions -fno-rtti
    done
done

# with_pkg_config COMPILER STANDARD SOURCE...: builds and runs a program that is called as its first source.
with_pkg_config() {
    local compiler=$1 standard=$2 flags program
    shift 2
    program=$folder/$(basename "${1%.*}")-$compiler-$standard
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs gpumem) || return 1
    # shellcheck disable=SC2086 # words
    "$compiler" -std="$standard" -O2 "${strict[@]}" "$@" -o "$program" $flags -pthread && run "$program"
}
check 'examples/c through pkg-config, as C99' with_pkg_config gcc c99 "$folder/c/explain.c"
for name in handles callbacks containers plans threads; do
    check "$name.cpp through pkg-config" with_pkg_config g++ c++17 "$folder/tests/$name.cpp"
done
check 'examples/cpp through pkg-config, as C++20' with_pkg_config g++ c++20 "$folder/cpp/train.cpp"
if command -v clang++ >/dev/null; then
    check 'examples/cpp through pkg-config, by clang++' with_pkg_config clang++ c++17 "$folder/cpp/train.cpp"
fi
check 'speed.cpp through pkg-config' with_pkg_config g++ c++17 "$folder/tests/speed.cpp"
sed -n 's/^ns for/&/p' "$folder/out"

# build NAME [SANITIZER]: all programs, by CMake, into $folder/NAME.
build() {
    cmake -S "$folder/tests" -B "$folder/$1" -DCMAKE_PREFIX_PATH="$prefix" \
        -Dexamples="$folder/cpp" -Dsanitize="${2:-}" -DCMAKE_BUILD_TYPE="${3:-Debug}" &&
        cmake --build "$folder/$1" --parallel "${CARGO_BUILD_JOBS:-2}"
}
programs=(handles callbacks containers plans threads no_exceptions train)

# The compiler may have a sanitizer without the library for it.
has_sanitizer() {
    echo 'int main() {}' >"$folder/empty.cpp"
    g++ -fsanitize="$1" "$folder/empty.cpp" -o "$folder/empty" 2>/dev/null && "$folder/empty" 2>/dev/null
}

# The Rust library isn't instrumented. AddressSanitizer then sees what the header and the programs do to the host's heap,
# and through malloc what the library leaks; blocks are mapped by the library, so overruns of these are for its own
# `guard`. ThreadSanitizer sees the header and the programs; tests/tsan.supp says what that takes.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=suppressions=$folder/tests/tsan.supp

if try_need cmake cmake make; then
    for kind in plain address,undefined thread; do
        sanitizer=${kind#plain}
        if [[ -n $sanitizer ]] && ! has_sanitizer "$sanitizer"; then
            not_run "gpumem.hpp under -fsanitize=$sanitizer (this g++ has no library for it)"
            continue
        fi
        check "the programs are built by CMake, $kind" build "$kind" "$sanitizer"
        for name in "${programs[@]}"; do
            # An allocator takes a table of 4 GiB with calloc, which ThreadSanitizer fills at once instead of leaving it to
            # the kernel, and this program makes one allocator after another. It has a single thread.
            if [[ $kind/$name == thread/handles ]]; then
                not_run 'handles under -fsanitize=thread (allocators take 4 GiB each there)'
                continue
            fi
            check "$name, $kind" run "$folder/$kind/$name"
        done
    done
else
    not_run 'gpumem.hpp through CMake and under sanitizers (cmake is missing and cannot be installed)'
fi

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
