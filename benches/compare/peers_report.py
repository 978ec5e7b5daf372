"""The tables of peers.py: each figure beside its target."""

import math

MIB = 1 << 20
PAGE = 2 * MIB
OURS = "gpumem"
OWN = (OURS, "gpumem segments")
FIXED_PYTORCH = ("PyTorch", "PyTorch expandable")


def verdict(value, must, aim=None):
    """What became of a figure that is to be at most `must`, at best `aim`."""
    if value is None:
        return "missed: it failed"
    if aim is not None and value <= aim * (1 + 1e-9):
        return "aim met"
    if value <= must * (1 + 1e-9):
        return "met"
    return f"missed by {100 * (value / must - 1):.1f} %" if must else "missed"


def row(part, trace, what, value, must, aim, text=None, answer=None):
    return {"part": part, "trace": trace, "what": what, "value": value, "must": must, "aim": aim,
            "shown": text or (f"{value:.3f}" if value is not None else "failed"), "verdict": answer or verdict(value, must, aim)}


def peers_of(table):
    return {name: value for name, value in table.items() if name not in OWN and value is not None}


def speed_rows(name, trace):
    speed, out = trace["speed"], []
    ours = speed.get(OURS)
    torch = min((speed[peer] for peer in FIXED_PYTORCH if peer in speed), default=None)
    for what, peer, must, aim in (("ns over BFC's", speed.get("BFC"), 0.5, 0.3), ("ns over PyTorch's (faster setting)", torch, 0.15, 0.08),
                                  ("ns over RMM pool+binning's", speed.get("RMM pool+binning"), 1.0, 0.6)):
        if peer:
            out.append(row("speed", name, what, ours / peer if ours else None, must, aim))
    return out


def tail(latency):
    return latency["alloc_p999"] - latency["empty_p999"]


def latency_rows(name, trace):
    tails = {program: max(0.0, tail(found)) for program, found in trace["latency"].items()}
    best = min(peers_of(tails).items(), key=lambda peer: peer[1])
    value = tails.get(OURS)
    return [row("latency", name, f"p99.9 over the best peer's ({best[0]})", value / max(best[1], 1.0) if value is not None else None, 1.0, 0.5)]


def threads_rows(name, trace):
    scaling = {program: found["one"] / found["two"] for program, found in trace["threads"].items()}
    ours, best = scaling.get(OURS, 0.0), max(peers_of(scaling).values())
    must, aim = (1.6, 1.9) if "small_eager" in name else (max(1.0, best), 1.6)
    answer = "aim met" if ours >= aim and ours >= must else "met" if ours >= must else f"missed by {100 * (1 - ours / must):.1f} %"
    return [row("threads", name, "throughput of two threads over one's", ours, must, aim, answer=answer)]


def reserved_rows(name, trace):
    reserved, live = trace["reserved"], trace["live"]
    ratio = {program: value / live for program, value in reserved.items() if value}
    ours, must = ratio.get(OURS), min(ratio.get("PyTorch", 99), ratio.get("BFC", 99))
    aim = ratio.get("PyTorch expandable", 0)
    answer = None if ours is None else "aim met" if ours <= aim and ours < must else "met" if ours < must else verdict(ours, must)
    if ours is not None and reserved[OURS] == -(-live // PAGE) * PAGE:
        answer = "aim met: no fewer pages hold it"
    return [row("reserved", name, "reserved over live; PyTorch and BFC", ours, must, aim, answer=answer)]


def capacity_rows(name, trace):
    live, capacity = trace["live"], trace["capacity"]
    ours = capacity.get(OURS)
    value = ours / live if ours else None
    # Two whole pages over what live takes of whole pages.
    must = max(1.03, (-(-live // PAGE) * PAGE + 2 * PAGE) / live)
    shown = f"{value:.4f} ({(ours - live) / PAGE:.1f} pages over)" if ours else "failed"
    return [row("capacity", name, "smallest capacity over live", value, must, 1.01, shown)]


def both_rows(name, trace):
    """Whether a peer is ahead on speed and on memory."""
    if "speed" not in trace or "capacity" not in trace:
        return []
    speed, capacity = trace["speed"], trace["capacity"]
    if not capacity.get(OURS) or not speed.get(OURS):
        return []
    ahead = [peer for peer in peers_of(speed)
             if speed[peer] < speed[OURS] and capacity.get(peer) and capacity[peer] < capacity[OURS]]
    return [row("both", name, "peers ahead on speed and smallest capacity", len(ahead), 0, 0, ", ".join(ahead) or "none",
                "missed" if ahead else "met")]


def rows(report):
    """Every target with what became of it."""
    out = []
    for name, trace in report["traces"].items():
        for part, make in (("speed", speed_rows), ("latency", latency_rows), ("threads", threads_rows),
                           ("reserved", reserved_rows), ("capacity", capacity_rows)):
            if part in trace:
                out += make(name, trace)
        out += both_rows(name, trace)
    ratios = [r["value"] for r in out if r["part"] == "speed" and "RMM" in r["what"] and r["value"]]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        out.append(row("speed", "all", "ns over RMM pool+binning's, geometric mean", mean, 0.9, 0.6))
    if "host" in report:
        # Grown a piece at a time or reserved at once: the worse of the two.
        found = [report["host"].get(name, {}) for name in (OURS, "gpumem growing")]
        value = max(figures["host_bytes"] for figures in found) / MIB if all(figures.get("ok") for figures in found) else None
        out.append(row("host", "100 000 blocks", "MiB of host memory at 80 GiB", value, 64, 16, f"{value:.1f}" if value else None))
    return out


def table(head, body):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(line) + " |" for line in body), ""]


def by_program(report, part, show):
    """One row a program, one column a trace."""
    names = [name for name, trace in report["traces"].items() if part in trace]
    programs = list(dict.fromkeys(program for name in names for program in report["traces"][name][part]))
    body = [[program, *(show(report["traces"][name], program) for name in names)] for program in programs]
    return table(["program", *names], body)


def threads_cell(trace, program):
    found = trace["threads"].get(program)
    if not found:
        return "-"
    return "{:.1f} -> {:.1f} ({:.2f}; {:.2f})".format(
        found["one"], found["two"], found["one"] / found["two"], 2 * found["cpu one"] / found["cpu two"])


def shown(value, form):
    return "-" if value is None else form.format(value)


def text(report, found):
    conditions = report["conditions"]
    lines = [f"Measured {conditions['date']} at {conditions['commit']} on {conditions['processor']} ({conditions['machine']}, "
             f"{conditions['cores']} cores), load {conditions['load'][0]} at the start and {conditions['load at end'][0]} at the end, "
             f"best of {conditions['reps']} in turns{' at real-time priority' if conditions.get('realtime') else ''}, by `benches/compare/peers.py`.", ""]
    if found:
        missed = [r for r in found if r["verdict"].startswith("missed")]
        lines += [f"{len(found) - len(missed)} of {len(found)} targets are met.", ""]
        lines += table(["trace", "what", "gpumem", "must", "aim", ""],
                       [[r["trace"], r["what"], r["shown"], f"{r['must']:.4g}", f"{r['aim']:.4g}", r["verdict"]] for r in found])
    traces = report["traces"].values()
    has = lambda part: any(part in trace for trace in traces)
    if has("speed"):
        lines += ["CPU ns a call, warm:", "", *by_program(report, "speed", lambda t, p: shown(t["speed"].get(p), "{:.1f}"))]
    if has("latency"):
        cell = lambda t, p: "{:.0f} / {:.0f} / {:.0f}, {:.0f}".format(
            *(t["latency"][p][key] for key in ("alloc_p50", "alloc_p99", "alloc_p999", "empty_p999"))) if p in t["latency"] else "-"
        lines += ["ns of a warm alloc with the timing in it, p50 / p99 / p99.9, and p99.9 of timing nothing:", "",
                  *by_program(report, "latency", cell)]
        calls = sorted({p for t in traces for p, l in t.get("latency", {}).items() if l["pass_backing_calls"] > 0})
        lines += [f"Passes with driver calls in them: {', '.join(calls) or 'none'}.", ""]
    if has("threads"):
        lines += ["Wall ns a call over all threads, one thread -> two with streams of their own (throughput over one thread's; the same from CPU "
                  "time, which leaves out waiting and other programs):", "", *by_program(report, "threads", threads_cell)]
    if has("reserved"):
        cell = lambda t, p: shown(t["reserved"].get(p) and t["reserved"][p] / t["live"], "{:.4f}")
        lines += ["Reserved over peak live on 80 GiB (RMM's pool takes half of what is left, its arena all):", "", *by_program(report, "reserved", cell)]
        cell = lambda t, p: shown(t["driver_calls"].get(p), "{:.0f}")
        lines += ["Driver calls that take or give memory, first pass:", "", *by_program(report, "driver_calls", cell)]
    if has("capacity"):
        cell = lambda t, p: shown(t["capacity"].get(p) and t["capacity"][p] / t["live"], "{:.4f}")
        lines += ["Smallest capacity that finishes, over peak live (pools take all of it at the start; -: more than 12 times live):", "", *by_program(report, "capacity", cell)]
    if "host" in report:
        body = [[name, f"{v['host_bytes'] / MIB:.1f}", f"{v['page_tables'] / MIB:.1f}", f"{v['peak_reserved'] / (1 << 30):.1f}",
                 "yes" if v["ok"] else f"no, {v['blocks']:.0f} blocks"] for name, v in report["host"].items() if "host_bytes" in v]
        lines += ["Host memory with 100 000 blocks on 80 GiB:", "", *table(["program", "MiB", "page tables MiB", "GiB reserved", "all fit"], body)]
    return "\n".join(lines)


def flat(report):
    """Everything measured, one figure a row."""
    for name, trace in report["traces"].items():
        for what, values in trace.items():
            if not isinstance(values, dict):
                yield name, what, "", values
                continue
            for program, value in values.items():
                if isinstance(value, dict):
                    for key, figure in value.items():
                        yield name, f"{what} {key}", program, figure
                else:
                    yield name, what, program, value
    for program, values in report.get("host", {}).items():
        for key, figure in values.items():
            yield "", f"host {key}", program, figure
