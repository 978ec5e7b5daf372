#!/usr/bin/env python3
"""What each policy of `gpumem replay` makes of traces: memory, waits and modelled time, by simulation.

    benches/compare/policies.py GPUMEM TRACE... > report.md

One row a trace and policy; with traces of several streams also without the uses by collectives (streams 5 and 16 to 31).
Nothing here is a measurement of time: driver seconds and the makespan come from the models in crate `device`.
"""

import datetime
import json
import os
import subprocess
import sys

POLICIES = ["caching", "caching-expandable", "first-fit", "best-fit"]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    gpumem, traces = sys.argv[1], sys.argv[2:]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"Simulated {datetime.date.today()} at {commit.stdout.strip()} by `benches/compare/policies.py`.\n")
    print("| trace | uses | policy | reserved / live | smallest capacity / live | fragmentation end, highest % | host waits | "
          "stream waits | driver s | makespan / unlimited |\n|" + "---|" * 10)
    for path in traces:
        held = None
        for uses, option in (("all", []), ("without collectives", ["--drop-use", "5,16-31"])):
            for policy in POLICIES:
                run = subprocess.run([gpumem, "replay", path, "--policy", policy, "--json", "-", "--quiet", "--min-capacity",
                                      *option], capture_output=True, text=True, check=False)
                if run.returncode > 1:
                    sys.exit(f"{path}: {run.stderr}")
                report = json.loads(run.stdout)
                if policy == POLICIES[0]:
                    if option and report["input"]["rows"] == held:
                        break
                    held = report["input"]["rows"]
                scatter, least = report["fragmentation_percent"], report["min_capacity_over_live"]
                cells = [os.path.basename(path).split(".")[0], uses, policy, f"{report['reserved_over_live']:.4f}",
                         f"{least:.4f}" if least else "-", f"{scatter['end']:.1f}, {scatter['highest']:.1f}",
                         str(report["host_waits"]), str(report["stream_waits"]),
                         f"{report['modelled_driver_seconds']:.3f}", f"{report['makespan_over_unlimited']:.4f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
