"""Traces of the same kinds as given ones that nobody has seen: for peers.py."""

import gzip
import os
import random


def aligned(size, factor):
    """A size scaled, and as even as it was: rounded to the power of two, up to 512, that divides the original."""
    grain = min(size & -size, 512) or 1
    return max(grain, round(size * factor / grain) * grain)


def jittered(rows, choose):
    """Rows in which frees are in another order: shuffled among neighbours, and one in ten some rows later.

    Frees stay in their step, and on their side of syncs, uses and waits.
    """
    out, run, late = [], [], []

    def flush():
        choose.shuffle(run)
        out.extend(run)
        run.clear()

    for row in rows:
        if row[0] == "free":
            if choose.random() < 0.1:
                late.append([choose.randint(1, 8), row])
            else:
                run.append(row)
            continue
        flush()
        if row[0] == "alloc":
            for waiting in late:
                waiting[0] -= 1
            out.extend(row for count, row in late if count <= 0)
            late = [waiting for waiting in late if waiting[0] > 0]
        else:
            out.extend(row for _, row in late)
            late = []
        out.append(row)
    flush()
    return out + [row for _, row in late]


def mutate(path, out, seed):
    choose, factors, rows, header = random.Random(f"{os.path.basename(path)} {seed}"), {}, [], None
    source = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with source:
        for line in source:
            cells = line.rstrip("\n").split(",")
            if line.startswith("#") or not line.strip():
                continue
            if header is None:
                header = [cells.index(name) for name in ("op", "id", "bytes", "stream")]
                continue
            op, block, size, stream = (cells[at] for at in header)
            if op == "alloc":
                # Factors from 0.7 to 1.43, as likely above 1 as below.
                factor = factors.setdefault(size, 2 ** choose.uniform(-0.515, 0.515))
                size = str(aligned(int(size), factor))
            rows.append((op, block, size, stream))
    with open(out, "w", encoding="utf-8") as file:
        file.write(f"# {os.path.basename(path)} with scaled sizes and jittered frees, seed {seed}\nop,id,bytes,stream\n")
        file.writelines(",".join(row) + "\n" for row in jittered(rows, choose))


def mutated(traces, seeds, folder):
    """Changed copies of traces, by name: one for each seed."""
    copies = {}
    for name, path in traces.items():
        for seed in seeds:
            copy = os.path.join(folder, f"{name}~{seed}.csv")
            mutate(path, copy, seed)
            copies[f"{name}~{seed}"] = copy
    return copies
