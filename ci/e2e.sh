#!/usr/bin/env bash
# What a newcomer does, on the release binary: README's first command, the plan saved and checked, the pictures, a dead run
# explained and replayed. Prints a
# line for each step and their count as the last line; fails if one failed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

# The command exactly as the README has it, so that this fails when the page is wrong.
first_command() {
    local line
    line=$(grep -m 1 '^cargo run --release -- plan ' README.md) || { echo 'the README has no such command'; return 1; }
    read -ra words <<<"${line%%#*}"
    "${words[@]}"
}

gpumem=$target/release/gpumem
graph=examples/bert-large-train.graph.json.gz
plan=$folder/plan.json.gz

check "README's first command" first_command
check 'it proves its plan optimal' says 'proved optimal, gap 0' 'persistent' 'holes' "other planners' rules"
check 'a plan, a report and pictures are written' \
    "$gpumem" plan "$graph" --quiet --plan-out "$plan" --json "$folder/report.json" --html "$folder/plan.html" \
    --png "$folder/plan.png" --svg "$folder/plan.svg"
check 'nothing is printed with --quiet' test ! -s "$folder/out"
check 'the page is whole' grep -qi '</html>' "$folder/plan.html"
check 'the report says optimal' grep -qF '"status":"optimal"' "$folder/report.json"
check 'the saved plan is right' "$gpumem" verify "$plan" "$graph"
check 'a plan of another file is not' answers 1 "$gpumem" verify "$plan" examples/example.dsa.csv
check 'a tensor is explained' "$gpumem" plan examples/two-streams.graph.json --quiet --explain next_x
check 'and by what it is held' says 'cyclic: the graph asks for it' 'no event orders their streams'
check 'a graph becomes our own form' "$gpumem" convert "$graph" "$folder/own.json.zst"
check 'which gets a plan as well' "$gpumem" plan "$folder/own.json.zst" --quiet --no-baselines
check 'what is too large is answered with no' answers 1 "$gpumem" plan "$graph" --quiet --capacity 1G
check 'what is no graph is refused' answers 2 "$gpumem" plan README.md
check 'in words' says 'README.md: not recognised'

run=examples/dead-run.pickle.gz
trace=examples/shredded-segment.trace.csv
check 'a dead run is explained' "$gpumem" explain-oom "$run"
check 'by kind, numbers and what would have helped' says 'Fragmentation: ' ' B)' 'Would it have passed' 'What to do'
check 'a run is summed up on one screen' "$gpumem" summary "$run"
check 'with holders, holes and steps' says 'by stack' 'what pins them' 'steps'
check 'a run is drawn' "$gpumem" memviz "$run" -o "$folder/run.html" --png "$folder/run.png" --svg "$folder/run.svg"
check 'the page of the run is whole' grep -qi '</html>' "$folder/run.html"
check 'other viewers get it too' "$gpumem" memviz "$run" -o "$folder/run.json" --format chrome
check 'a trace that does not fit is answered with no' answers 1 "$gpumem" replay "$trace" --capacity 12.32G --quiet
check 'with expandable segments it fits' "$gpumem" replay "$trace" --capacity 12.32G --policy caching-expandable \
    --snapshot "$folder/replayed.pickle" --log "$folder/log.csv" --json "$folder/replay.json"
check 'the replay says ok' grep -qF '"status":"ok"' "$folder/replay.json"
check 'two runs are compared' "$gpumem" diff "$folder/replayed.pickle" "$run"
check 'a snapshot becomes a trace' "$gpumem" convert "$run" "$folder/run.gmtrace"
check 'which replays' "$gpumem" replay "$folder/run.gmtrace" --policy best-fit

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
