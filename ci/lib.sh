# Sourced by the scripts beside it: goes to the repository root and defines the few words they share.
# shellcheck shell=bash disable=SC2034,SC2154

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
target=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

# rustup puts cargo here, but only a login shell learns of it.
if ! command -v cargo >/dev/null && [[ -x $HOME/.cargo/bin/cargo ]]; then
    PATH=$HOME/.cargo/bin:$PATH
fi
if ! command -v cargo >/dev/null; then
    echo 'cargo is not installed; get Rust from rustup and try again' >&2
    exit 2
fi

# need COMMAND PACKAGE...: installs Debian's packages when the command is missing.
need() {
    local command=$1
    shift
    if command -v "$command" >/dev/null; then return; fi
    local as_root=()
    if ((EUID != 0)); then as_root=(sudo); fi
    if ! command -v apt-get >/dev/null || { ((EUID != 0)) && ! command -v sudo >/dev/null; }; then
        echo "$command is missing and can't be installed from here; install: $*" >&2
        exit 2
    fi
    "${as_root[@]}" apt-get update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# not_run WHAT (WHY): something that this machine or this version can't check. Never counted as a pass.
not_run() { printf 'not run: %s\n' "$*"; }

# step NAME COMMAND...: runs one step, shows and logs its output, remembers a failure and goes on.
# Callers set `log`. A step that is a shell function must return its status itself: `set -e` is off inside.
passed_steps=0
failed_steps=()
step() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    if "$@" 2>&1 </dev/null | tee -a "$log"; then
        passed_steps=$((passed_steps + 1))
        printf '== %s: ok, %d s\n' "$name" $((SECONDS - start))
    else
        failed_steps+=("$name")
        printf '== %s: FAILED, %d s\n' "$name" $((SECONDS - start))
    fi
}

# Names of the workspace's packages, one a line.
members() { cargo tree --workspace --depth 0 --prefix none --locked -f '{p}' | awk 'NF { print $1 }' | sort -u; }

# Files of the project, one a line: committed ones, and new ones that git does not ignore.
project_files() {
    if [[ -e .git ]] && git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard | sort -u
    else
        find . -type f -not -path './target/*' -not -path './.git/*' -not -path './fuzz/target/*' | sed 's|^\./||' | sort
    fi | while IFS= read -r file; do
        if [[ -f $file ]]; then printf '%s\n' "$file"; fi
    done
}
