# Sourced, after lib.sh, by scripts that make many small checks and say how many passed.
# shellcheck shell=bash disable=SC2034

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0
failed=0

# check WHAT COMMAND...: runs it; what it printed is in $folder/out until the next one that isn't about that.
check() {
    local what=$1
    shift
    if "$@" >"$folder/now" 2>&1; then
        passed=$((passed + 1))
        printf 'ok: %s\n' "$what"
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n' "$what"
        head -c 4000 "$folder/now"
    fi
    case $1 in says | test) ;; *) mv "$folder/now" "$folder/out" ;; esac
}

# says TEXT...: the last output has each of them.
says() {
    local text
    for text in "$@"; do
        grep -qF -- "$text" "$folder/out" || { echo "no '$text'"; return 1; }
    done
}

# answers CODE COMMAND...: it ends with that code.
answers() {
    local wanted=$1 code=0
    shift
    "$@" || code=$?
    ((code == wanted)) || { echo "exit code $code instead of $wanted"; return 1; }
}
