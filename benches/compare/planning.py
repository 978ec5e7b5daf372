#!/usr/bin/env python3
"""How good and how fast plans are, against other planners' rules in the same run.

    benches/compare/planning.py GPUMEM FILE... > report.md

Every figure comes from one `gpumem plan FILE --json -` each. `ratio` is peak over lower bound; the peers' rules are
rewritten in gpumem and run on the same buffers (see `coloring::Baseline`). CPU seconds, not wall seconds, are what a
noisy machine leaves comparable; they include reading, the baselines and hole merging.
"""

import datetime
import json
import os
import platform
import subprocess
import sys


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    gpumem, files = sys.argv[1], sys.argv[2:]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"Measured {datetime.date.today()} at {commit} on {platform.machine()}, {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}, by `benches/compare/planning.py`.\n")
    names = None
    for file in files:
        run = subprocess.run([gpumem, "plan", file, "--json", "-", "--quiet"], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{file}: {run.stderr}")
        report = json.loads(run.stdout)
        if names is None:
            names = list(report["baselines"])
            head = ["file", "buffers", "ratio", "status", "found by", "CPU s", *(n.replace("_", " ") for n in names),
                    "holes before", "after"]
            print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        bound = report["lower_bound_bytes"] or 1
        ratio = lambda peak: f"{peak / bound:.4f}"
        cells = [os.path.basename(file), str(report["buffers"]), ratio(report["peak_bytes"]), report["status"],
                 report["solver"], f"{report['cpu_seconds']:.2f}",
                 *(ratio(report["baselines"][n]) if n in report["baselines"] else "-" for n in names),
                 f"{report['holes']['pieces_mean_before']:.2f}", f"{report['holes']['pieces_mean_after']:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
