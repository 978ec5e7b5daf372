#!/usr/bin/env python3
"""What each policy of `gpumem replay` makes of traces: memory, driver calls, waits and modelled time, by simulation.

    benches/compare/policies.py [--only LABELS] [--all-uses] GPUMEM TRACE... > report.md

One row a trace and policy; with traces of several streams also without the uses by collectives (streams 5 and 16 to 31), unless `--all-uses`.
Nothing here is a measurement of time: driver seconds and the makespan come from the models in crate `device`.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys

# Label, and how it is asked for. gpumem is the allocator itself, told of waits and uses only, or of each piece of work as well.
POLICIES = {
    "gpumem, blind": ["--policy", "gpumem", "--reading", "blind"],
    "gpumem, seen": ["--policy", "gpumem", "--reading", "seen"],
    "caching": ["--policy", "caching"],
    "caching-expandable": ["--policy", "caching-expandable"],
    "first-fit": ["--policy", "first-fit"],
    "best-fit": ["--policy", "best-fit"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="policies, by label, joined by semicolons")
    parser.add_argument("--all-uses", action="store_true", help="leave out the rows without the uses by collectives")
    parser.add_argument("gpumem")
    parser.add_argument("traces", nargs="+")
    args = parser.parse_args()
    labels = args.only.split(";") if args.only else list(POLICIES)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"Simulated {datetime.date.today()} at {commit.stdout.strip()} by `benches/compare/policies.py`.\n")
    print("| trace | uses | policy | reserved / live | smallest capacity / live | fragmentation end, highest % | driver calls | host waits | "
          "stream waits | driver s | makespan / unlimited |\n|" + "---|" * 11)
    for path in args.traces:
        held = None
        for uses, option in (("all", []), ("without collectives", ["--drop-use", "5,16-31"]))[: 1 if args.all_uses else 2]:
            for label in labels:
                run = subprocess.run([args.gpumem, "replay", path, *POLICIES[label], "--json", "-", "--quiet", "--min-capacity",
                                      *option], capture_output=True, text=True, check=False)
                if run.returncode > 1:
                    sys.exit(f"{path}: {run.stderr}")
                report = json.loads(run.stdout)
                if label == labels[0]:
                    if option and report["input"]["rows"] == held:
                        break
                    held = report["input"]["rows"]
                scatter, least = report["fragmentation_percent"], report["min_capacity_over_live"]
                calls = sum(kind["calls"] for kind in report["driver_calls"].values())
                cells = [os.path.basename(path).split(".")[0], uses, label, f"{report['reserved_over_live']:.4f}",
                         f"{least:.4f}" if least else "-", f"{scatter['end']:.1f}, {scatter['highest']:.1f}", str(calls),
                         str(report["host_waits"]), str(report["stream_waits"]),
                         f"{report['modelled_driver_seconds']:.3f}", f"{report['makespan_over_unlimited']:.4f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
