#!/usr/bin/env python3
"""The models of PyTorch's caching allocator against the real one, on traces, in the same run.

    benches/compare/caching.py GPUMEM CACHING_REPLAY TRACE... [--csv OUT] > report.md

CACHING_REPLAY is a program that drives the real allocator (c10 of a CUDA build of torch) over a stand-in runtime:
`CACHING_REPLAY TRACE --cap BYTES --reps 0` prints `peak_reserved=` and `OOM`. Rows that it doesn't know are taken out of
its copy of a trace, and of ours too. Traces of several streams are also run with the uses by collectives (streams 5 and
16 to 31) left out. `--csv` writes what the real one did, as `crates/replay/tests/data/real-caching.csv` has it.
"""

import csv
import datetime
import gzip
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

SETTINGS = {
    "caching": ({}, ["--policy", "caching"]),
    "caching-expandable": ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                            "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC": "0"}, ["--policy", "caching-expandable"]),
    "caching max_split_size_mb:256": ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:256"},
                                      ["--policy", "caching", "--max-split-size", "256M"]),
    "caching roundup_power2_divisions:4": ({"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:4"},
                                           ["--policy", "caching", "--roundup-power2-divisions", "4"]),
}
COLLECTIVES = {5, *range(16, 32)}
UNLIMITED = 1 << 40


def simplified(path, out, without_collectives):
    """Copies the rows that both sides know; gives the capacity that the file states, and whether a use was left out."""
    capacity, header, live, dropped = None, None, set(), False
    source = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with source, open(out, "w", encoding="utf-8") as copy:
        copy.write("op,id,bytes,stream\n")
        for line in source:
            if line.startswith("#"):
                stated = re.match(r"# capacity: (\d+)", line)
                capacity = int(stated.group(1)) if stated else capacity
                continue
            cells = line.rstrip("\n").split(",")
            if header is None:
                header = {name: at for at, name in enumerate(cells)}
                continue
            op, block, size, stream = (cells[header[name]] for name in ("op", "id", "bytes", "stream"))
            if op == "alloc":
                live.add(block)
            elif op == "free":
                if block not in live:
                    continue
                live.discard(block)
            elif op == "use" and without_collectives and int(stream) in COLLECTIVES:
                dropped = True
                continue
            elif op == "step":
                block = size = stream = "0"
            elif op not in ("use", "sync"):
                continue
            copy.write(f"{op},{block},{size if op == 'alloc' else 0},{stream}\n")
    return capacity, dropped


def real(program, trace, capacity, environment):
    run = subprocess.run([program, trace, "--cap", str(capacity), "--reps", "0"], capture_output=True, text=True,
                         env={**os.environ, **environment}, check=False)
    found = re.search(r"peak_reserved=(\d+)", run.stdout)
    if not found:
        sys.exit(f"{trace}: {run.stdout}{run.stderr}")
    return "oom" if ",OOM," in run.stdout else "ok", int(found.group(1))


def ours(gpumem, trace, capacity, arguments):
    limit = [] if capacity == UNLIMITED else ["--capacity", str(capacity)]
    run = subprocess.run([gpumem, "replay", trace, "--json", "-", "--quiet", *arguments, *limit], capture_output=True,
                         text=True, check=False)
    if run.returncode > 1:
        sys.exit(f"{trace}: {run.stderr}")
    report = json.loads(run.stdout)
    return report["status"], report["peak_reserved_bytes"], report["peak_live_bytes"]


def main():
    arguments, out = sys.argv[1:], None
    if "--csv" in arguments:
        at = arguments.index("--csv")
        out = arguments[at + 1]
        del arguments[at:at + 2]
    if len(arguments) < 3:
        sys.exit(__doc__)
    gpumem, program, traces = arguments[0], arguments[1], arguments[2:]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"Run {datetime.date.today()} at {commit.stdout.strip()} on {platform.machine()} by "
          "`benches/compare/caching.py`. Reserved over peak live; no times are measured.\n")
    print("| trace | setting | capacity / live | real | model | model / real |\n|---|---|---|---|---|---|")
    rows, exact, worst = [], 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for path in traces:
            for without in (False, True):
                copy = os.path.join(folder, "trace.csv")
                stated, dropped = simplified(path, copy, without)
                if without and not dropped:
                    continue
                for setting, (environment, options) in SETTINGS.items():
                    for capacity in [UNLIMITED] + ([stated] if stated and not without else []):
                        real_status, real_bytes = real(program, copy, capacity, environment)
                        status, reserved, live = ours(gpumem, copy, capacity, options)
                        limit = "-" if capacity == UNLIMITED else f"{capacity / live:.3f}"
                        name = os.path.basename(path).split(".")[0] + (" without collectives' uses" if without else "")
                        show = lambda state, size: f"{size / live:.4f}{' out of memory' if state == 'oom' else ''}"
                        print(f"| {name} | {setting} | {limit} | {show(real_status, real_bytes)} | "
                              f"{show(status, reserved)} | {reserved / real_bytes:.4f} |", flush=True)
                        exact += (status, reserved) == (real_status, real_bytes)
                        worst = max(worst, abs(reserved / real_bytes - 1), float(status != real_status))
                        shown = re.sub(r"^.*?(traces/|graphs/)", r"\1", path)
                        rows.append([shown, "5;16-31" if without else "", setting,
                                     0 if capacity == UNLIMITED else capacity, real_status, real_bytes])
    print(f"\n{exact} of {len(rows)} runs to the byte; the others differ by at most {worst * 100:.2f} %.")
    if out:
        with open(out, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["trace", "dropped", "setting", "capacity", "status", "peak_reserved_bytes"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
