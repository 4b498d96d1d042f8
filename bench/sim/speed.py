#!/usr/bin/env python3
"""How fast the simulator is: events per CPU second, and simulated time per CPU second, on one core.

    bench/sim/speed.py [--moor build/release/bin/moor] [--out bench/results/sim]

Three rows: two hundred seeds as `./test.sh` runs them (faults, moves of tickets, clients); ten nodes with a hundred volumes attached, first
without clients, then with a client on every volume that writes, reads back or flushes once a minute on average; two hours each, no faults. Time
is the CPU time (user and system) of the one process, so that others on the machine disturb it little. Goals: 100,000 events/s over
seeds; 500 times real time for ten nodes and a hundred volumes.
"""
import argparse
import datetime
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NODES, VOLUMES = 10, 100


def story(clients):
    lines = ["# scenario: ten nodes, a hundred volumes attached, two hours", f"cluster nodes {NODES} servers 1 seed 1"]
    lines += [f"volume v{i}" for i in range(1, VOLUMES + 1)]
    lines += [f"until detached v{i} within 10m" for i in range(1, VOLUMES + 1)]
    lines += [f"want v{i} on n{i % NODES + 1} as a" for i in range(1, VOLUMES + 1)]
    lines += [f"until attached v{i} within 10m" for i in range(1, VOLUMES + 1)]
    if clients:
        lines += [f"writer v{i} on n{i % NODES + 1}" for i in range(1, VOLUMES + 1)]
    return "\n".join([*lines, "wait 2h", ""])


def run(moor, words):
    """Counts of the last line, and CPU seconds."""
    before = os.times()
    done = subprocess.run([moor, "sim", *words], capture_output=True, text=True, cwd=ROOT)
    after = os.times()
    said = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode != 0:
        raise SystemExit("\n".join(said[-5:]))
    counts = {name: float(value) for value, name in re.findall(r"([\d.]+) ([a-z][a-z -]*?)(?:,|$)", said[-1])}
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return counts, cpu, said[-1]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--moor", default=str(ROOT / "build/release/bin/moor"))
    options.add_argument("--out", default=str(ROOT / "bench/results/sim"))
    given = options.parse_args()
    out = pathlib.Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    rows, raw = [], []
    with tempfile.TemporaryDirectory() as place:
        cases = [("200 seeds", ["--seeds", "1..200"])]
        for name, clients in [("attached, no clients", False), ("attached, a request a minute on each", True)]:
            path = pathlib.Path(place) / f"clients-{clients}.scn"
            path.write_text(story(clients))
            cases.append((f"{NODES} nodes, {VOLUMES} volumes {name}", ["--scenario", str(path), "--io-pause", "60"]))
        for name, words in cases:
            counts, cpu, line = run(given.moor, words)
            raw.append(f"{name}: {cpu:.2f} CPU s: {line}")
            rows.append(f"| {name} | {cpu:.1f} | {counts['cluster-hours']:.2f} | {counts['events']:.0f} | "
                        f"{counts['events'] / cpu:,.0f} | {counts['cluster-hours'] * 3600 / cpu:,.0f} |")
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    text = "\n".join([
        "# How fast the simulator is", "",
        f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}, {os.cpu_count()} cores, load {load}; one process each.", "",
        "| what | CPU s | simulated hours | events | events per CPU s | times real time |", "|---|---|---|---|---|---|", *rows, ""])
    (out / "speed.md").write_text(text)
    (out / "speed.txt").write_text("\n".join(raw) + "\n")
    print(text)


if __name__ == "__main__":
    main()
