#!/usr/bin/env python3
"""gpumem beside the allocators of TensorFlow, PyTorch and RMM, on the same traces in the same run.

    benches/compare/peers.py BIN TRACE... [--parts PART,...] [--reps 15] [--mutate SEED,...] [--realtime]
                           [--json OUT] [--csv OUT] > report.md

BIN is a folder that `benches/compare/peers/build.sh` filled (its page says how each allocator is reached). Parts, all by
default: speed, latency, threads, reserved, capacity, host. `--mutate` replays, instead of each trace, a changed copy a
seed: every distinct size is scaled by a factor of its own, and frees change places with their neighbours. Speed,
latency and threads are measured in turns: in each repetition every program replays the trace once. `--realtime` gives
them a real-time priority (`chrt`, as root), so that a busy machine shows less; it needs two cores. Each figure is
compared with its target. Progress goes to standard error.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import peers_mutate
import peers_report

DEVICE = 80 << 30
PAGE = 2 << 20
SLOW_SECONDS = 0.5
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC": "0"}

# name: program, options, options when the pool is all of the device from the start, environment
PROGRAMS = {
    "gpumem": ("gpumem_replay", [], ["--pool"], {}),
    "gpumem segments": ("gpumem_replay", ["--backing", "segments"], ["--backing", "segments", "--pool"], {}),
    "BFC": ("bfc_replay", [], ["--prealloc"], {}),
    "PyTorch": ("caching_replay", [], [], {}),
    "PyTorch expandable": ("caching_replay", [], [], EXPANDABLE),
    "RMM pool": ("rmm_replay", [], ["--init", "{cap}"], {}),
    "RMM pool+binning": ("rmm_replay", ["--binning"], ["--init", "{cap}", "--binning"], {}),
    "RMM arena": ("rmm_replay", ["--arena"], ["--arena"], {}),
}
PARTS = ("speed", "latency", "threads", "reserved", "capacity", "host")
THREADED = ("small_eager", "bert_varlen")


def fields(line):
    """`key=value` cells of a line, as numbers."""
    pairs = (cell.split("=", 1) for cell in line.strip().split(",") if "=" in cell)
    return {key: float(value) for key, value in pairs if value.replace(".", "").replace("-", "").isdigit()}


def command(folder, name, capacity, pool, extra):
    program, options, pool_options, environment = PROGRAMS[name]
    words = [word.format(cap=capacity) for word in (pool_options if pool else options)]
    return ([os.path.join(folder, program), *extra, "--cap", str(capacity), *words], {**os.environ, **environment})


class Served:
    """A program that has replayed a trace once, and replays it again when it is asked to."""

    def __init__(self, folder, name, trace, prefix):
        words, environment = command(folder, name, DEVICE, False, [trace, "--serve"])
        # Peers' libraries greet there; what we have to say is worth reading.
        errors = None if name.startswith("gpumem") else subprocess.DEVNULL
        self.process = subprocess.Popen([*prefix, *words], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=errors, text=True)
        self.first = self.process.stdout.readline()
        self.failed = ",ok," not in self.first

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        answer = fields(self.process.stdout.readline())
        if not answer:
            self.failed = True
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def in_turns(programs, reps, questions):
    """Answers by program and question, of `reps` rounds in which each program is asked everything once.

    Programs that take long are out of it after three rounds: they are far behind, and noise matters less to them.
    """
    answers = {name: {question: [] for question in questions} for name in programs}
    slow = set()
    for turn in range(reps):
        for name, program in programs.items():
            if turn >= 3 and name in slow:
                continue
            start = time.monotonic()
            for question in questions:
                if not program.failed:
                    answers[name][question].append(program.ask(question))
            if time.monotonic() - start > SLOW_SECONDS:
                slow.add(name)
    return {name: found for name, found in answers.items() if not programs[name].failed}


def least(answers, key):
    return min(answer[key] for answer in answers)


def measure_served(folder, trace, parts, reps, is_threaded, prefix):
    """Speed, latencies, scaling, and what was reserved, of all programs on one trace."""
    programs = {name: Served(folder, name, trace, prefix) for name in PROGRAMS}
    result = {}
    try:
        result["live"] = int(max(fields(program.first).get("peak_live", 0) for program in programs.values()))
        result["reserved"] = {name: fields(p.first).get("peak_reserved") for name, p in programs.items() if not p.failed}
        result["driver_calls"] = {name: fields(p.first).get("backing_calls_cold") for name, p in programs.items() if not p.failed}
        if "speed" in parts:
            found = in_turns(programs, reps, ["warm"])
            result["speed"] = {name: least(answer["warm"], "ns") for name, answer in found.items()}
        if "latency" in parts:
            found = in_turns(programs, reps, ["latency"])
            result["latency"] = {
                name: {key: least(answer["latency"], key) for key in answer["latency"][0]} for name, answer in found.items()
            }
        if "threads" in parts and is_threaded:
            found = in_turns(programs, reps, ["threads 1", "threads 2"])
            # Throughput: calls of both threads over the time in which they were made.
            result["threads"] = {
                name: {"one": least(answer["threads 1"], "wall_ns"), "two": least(answer["threads 2"], "wall_ns"),
                       "cpu one": least(answer["threads 1"], "cpu_ns"), "cpu two": least(answer["threads 2"], "cpu_ns")}
                for name, answer in found.items()
            }
    finally:
        for program in programs.values():
            program.close()
    return result


def finishes(folder, name, trace, capacity):
    words, environment = command(folder, name, capacity, True, [trace, "--reps", "0"])
    try:
        run = subprocess.run(words, env=environment, capture_output=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def smallest_capacity(folder, name, trace, live):
    """The least device on which a program finishes a trace, to 0.2 %, in whole pages (of 256 KiB below 1 GiB live)."""
    grain = PAGE if live > 1 << 30 or name.startswith("gpumem") else 256 << 10
    up = lambda size: -(-int(size) // grain) * grain
    low = high = up(live)
    while not finishes(folder, name, trace, high):
        low, high = high, up(high * 1.05) if high < 1.2 * live else up(high * 1.5)
        if high > 12 * live:
            return None
    while high - low > max(grain, live * 0.002):
        middle = up((low + high) // 2)
        if middle >= high:
            break
        if finishes(folder, name, trace, middle):
            high = middle
        else:
            low = middle
    return high


def host_memory(folder):
    """Bytes of the host with 100 000 blocks on a device of 80 GiB, all of it reserved where a program can; two minutes each."""
    result = {}
    for label, name, pool in [("gpumem growing", "gpumem", False), *((name, name, True) for name in PROGRAMS)]:
        words, environment = command(folder, name, DEVICE, pool, ["--host"])
        try:
            run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            continue
        result[label] = {**fields(run.stdout), "ok": ",ok," in run.stdout}
    return result


def short(path):
    return os.path.basename(path).split(".csv")[0].removeprefix("train_").removesuffix("_s1")


def conditions(arguments):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if "model name" in line), "?")
    return {"date": str(datetime.date.today()), "commit": commit.stdout.strip(), "processor": model, "machine": platform.machine(),
            "cores": os.cpu_count(), "load": [round(load, 1) for load in os.getloadavg()], "reps": arguments.reps,
            "realtime": arguments.realtime}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("traces", nargs="+", metavar="trace")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--mutate", default="")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--csv")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if set(parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    prefix = ["chrt", "--fifo", "10"] if arguments.realtime else []
    report = {"conditions": conditions(arguments), "traces": {}}
    with tempfile.TemporaryDirectory() as scratch:
        traces = {short(trace): trace for trace in arguments.traces}
        if arguments.mutate:
            traces = peers_mutate.mutated(traces, [int(seed) for seed in arguments.mutate.split(",")], scratch)
        for name, trace in traces.items():
            print(name, file=sys.stderr, flush=True)
            is_threaded = any(wanted in name for wanted in THREADED)
            found = report["traces"][name] = {"live": 0}
            if {"speed", "latency", "threads", "reserved"} & set(parts):
                found.update(measure_served(arguments.bin, trace, parts, arguments.reps, is_threaded, prefix))
            if "capacity" in parts:
                if not found["live"]:
                    words, environment = command(arguments.bin, "gpumem", DEVICE, False, [trace, "--reps", "0"])
                    run = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
                    found["live"] = int(fields(run.stdout).get("peak_live", 0))
                found["capacity"] = {
                    program: smallest_capacity(arguments.bin, program, trace, found["live"]) for program in PROGRAMS
                }
    if "host" in parts:
        report["host"] = host_memory(arguments.bin)
    report["conditions"]["load at end"] = [round(load, 1) for load in os.getloadavg()]
    rows = peers_report.rows(report)
    print(peers_report.text(report, rows))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**report, "targets": rows}, file, indent=1)
    if arguments.csv:
        with open(arguments.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["trace", "what", "program", "value"])
            writer.writerows(peers_report.flat(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
