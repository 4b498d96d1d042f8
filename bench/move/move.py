#!/usr/bin/env python3
"""How long a move keeps anybody waiting: second ticket → ready, and the pause that a writer sees at the switchover.

    bench/move/move.py [--moves 50] [--bin build/release/bin] [--out bench/results/move]

A volume of 64 MiB with three replicas on three nodes (`moord dev --netns`, real processes, embedded store on disk) moves to
and fro under one writer (4 KiB, queue depth 1, NBD). The writer stops at the source when the destination is ready and goes
on there over a connection that is open already, as a guest does; its first write takes the volume over. Goals: ready ≤ 300
ms; added pause p50 ≤ 10 ms, p99 ≤ 50 ms. As root.
"""
import argparse
import datetime
import http.client
import json
import os
import pathlib
import platform
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class SatisfiedWatch(threading.Thread):
    """Follows the book of tickets; knows when each ticket was first seen satisfied, to the millisecond."""

    def __init__(self, cluster, name):
        super().__init__(daemon=True)
        url = urllib.parse.urlparse(cluster.url)
        self.connection = http.client.HTTPSConnection(url.hostname, url.port, context=cluster.context)
        self.connection.request("GET", f"/apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumeattachments?watch=true"
                                       f"&fieldSelector=metadata.name%3D{name}",
                                headers={"Authorization": f"Bearer {cluster.token}"})
        self.response = self.connection.getresponse()
        self.news = threading.Condition()
        self.since = {}

    def run(self):
        while True:
            line = self.response.readline()
            if not line:
                return
            now = time.monotonic()
            book = json.loads(line)["object"]
            tickets = book.get("spec", {}).get("attachmentTickets") or {}
            statuses = book.get("status", {}).get("attachmentTicketStatuses") or {}
            with self.news:
                satisfied = {one for one, status in statuses.items() if status.get("satisfied") and one in tickets and
                             status.get("generation", 0) == tickets[one].get("generation", 0)}
                self.since = {one: self.since.get(one, now) for one in satisfied}
                self.news.notify_all()

    def wait(self, ticket):
        with self.news:
            if not self.news.wait_for(lambda: ticket in self.since, timeout=60):
                raise SystemExit(f"ticket {ticket} is not satisfied")
            return self.since[ticket]


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def measure(volume, watch, writer, source, destination):
    from nbd_client import Connection
    began, first = time.monotonic(), len(writer.latencies)
    volume.ask_for(destination)
    ready = watch.wait(f"csi-{destination}") - began
    prepared = Connection(volume.socket(destination), volume.name)
    prepared.read(0)  # through the standby; a guest's QEMU has looked at its disk too
    before = [seconds for _, seconds in writer.latencies[first:]]
    with writer.lock:
        last = writer.latencies[-1][0]
        old, writer.connection, writer.path = writer.connection, prepared, volume.socket(destination)
        at = len(writer.latencies)
    while len(writer.latencies) <= at and not writer.error:
        time.sleep(0.0005)
    if writer.error:
        raise SystemExit(f"the writer: {writer.error}")
    normal = quantile(before, 0.5)
    sample = {"from": source, "to": destination, "ready_ms": ready * 1e3,
              "switch_ms": (writer.latencies[at][0] - last) * 1e3, "first_write_ms": writer.latencies[at][1] * 1e3,
              "added_pause_ms": (writer.latencies[at][1] - normal) * 1e3, "write_p50_ms": normal * 1e3,
              "longest_write_while_preparing_ms": max(before) * 1e3}
    old.close()
    confirm = time.monotonic()
    volume.let_go(source)
    volume.wait_settled(destination)
    sample["confirmed_ms"] = (time.monotonic() - confirm) * 1e3
    return sample


def table(samples):
    rows = [("second ticket → ready", "ready_ms", "≤ 300"), ("added pause of the writer", "added_pause_ms", "p50 ≤ 10, p99 ≤ 50"),
            ("longest write while the standby starts", "longest_write_while_preparing_ms", ""),
            ("source's ticket gone → settled", "confirmed_ms", ""), ("a write before", "write_p50_ms", "")]
    lines = ["| ms | p50 | p99 | max | goal |", "|---|---|---|---|---|"]
    for title, key, goal in rows:
        values = [sample[key] for sample in samples]
        lines.append(f"| {title} | {quantile(values, 0.5):.1f} | {quantile(values, 0.99):.1f} | {max(values):.1f} | {goal} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=50)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--out", default=str(ROOT / "bench/results/move"))
    arguments = parser.parse_args()
    os.environ["MOOR_BIN"] = str(pathlib.Path(arguments.bin).resolve())
    os.environ.setdefault("MOOR_GUEST_DIR", "/nonexistent")  # no guest here
    sys.path.insert(0, str(ROOT / "tests/move"))
    from moving import Cluster, Volume
    from nbd_client import Writer
    from support import Place
    load = os.getloadavg()
    samples = []
    with Place() as place, Cluster(place) as cluster:
        volume = Volume(cluster)
        volume.attach("node-1")
        watch = SatisfiedWatch(cluster, volume.name)
        watch.start()
        writer = Writer(volume.socket("node-1"), volume.name, 1)
        writer.start()
        time.sleep(0.5)
        nodes = ["node-1", "node-2", "node-3"]
        for number in range(arguments.moves):
            samples.append(measure(volume, watch, writer, nodes[number % 3], nodes[(number + 1) % 3]))
            print(json.dumps(samples[-1]), flush=True)
            time.sleep(0.2)
        writer.finish()
        writer.check_all(volume.socket(nodes[arguments.moves % 3]))
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "move.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    text = (f"# Moves\n\n{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}, {os.cpu_count()} cores, "
            f"Linux {platform.release()}, load {' '.join(f'{one:.2f}' for one in load)} at the start; {len(samples)} moves.\n\n"
            f"{table(samples)}\n\nAdded pause: the first write at the destination, minus the median write before. "
            f"{writer.number} writes, every acknowledged one found again.\n")
    (out / "move.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
