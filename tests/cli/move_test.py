"""A volume moves between two nodes while it is written to over NBD: by tickets, to its end and back, and with engines,
agents and the server killed in between. MOOR_MOVES and MOOR_SEED say how often and which."""
import contextlib
import json
import os
import random
import signal
import struct
import sys
import traceback

from cluster import BIN, Dev, Place, run_tests, skip_without_devices, wait_until
from nbd_client import Client

BLOCK = 4096
SLOTS = 256
ROUNDS = int(os.environ.get("MOOR_MOVES", "10"))
SEED = int(os.environ.get("MOOR_SEED", random.SystemRandom().randrange(10**6)))


@contextlib.contextmanager
def cluster():
    """A cluster whose story is told before it goes, when a test fails."""
    with Place() as place, Dev(place) as dev:
        try:
            yield place, dev
        except BaseException:
            traceback.print_exc()
            for log in sorted((dev.state / "logs").glob("*.log")):
                text = [line for line in log.read_text().splitlines() if " audit " not in line]
                print(f"--- {log.name}", *text[-25:], sep="\n", flush=True)
            print(place.run(BIN / "moor", "volume", "show", "v1")[1], flush=True)
            raise


class Volume:
    """A migratable volume, and what was acknowledged to whoever wrote to it."""

    def __init__(self, place, dev, node="node-1"):
        self.place, self.dev, self.acknowledged, self.number = place, dev, {}, 0
        self.unsure = {}  # slot: numbers of writes that nobody answered
        place.moor("volume", "create", "v1", "--size", "64Mi", "--access-mode", "rwx", "--migratable", "--wait")
        place.moor("attach", "v1", "--node", node, "--wait")

    def engines(self):
        code, text, _ = self.place.run(BIN / "moor", "engines", "v1", "-o", "json")
        if code != 0:
            return {}
        return {one["spec"]["nodeID"]: one for one in json.loads(text)["items"]}

    def status(self):
        return self.place.moor_json("volume", "show", "v1")["status"]

    def uri(self, node):
        return wait_until(lambda: self.engines().get(node, {}).get("status", {}).get("nbdURI"), f"an export on {node}")

    def open(self, node):
        return Client(self.uri(node))

    def write(self, client, slot=None):
        """One numbered block, which counts once it is answered."""
        self.number += 1
        slot = self.number % SLOTS if slot is None else slot
        self.unsure.setdefault(slot, set()).add(self.number)
        client.write(slot * BLOCK, struct.pack("<Q", self.number) * (BLOCK // 8))
        self.acknowledged[slot] = self.number
        self.unsure[slot] = {self.number}

    def write_on(self, node, count):
        """As a client that opens again when it gets errors, until so many are acknowledged."""
        def go():
            try:
                client = Client(self.engines()[node]["status"]["nbdURI"], timeout=20)
                try:
                    self.write(client)
                finally:
                    client.close()
                return True
            except (OSError, KeyError, ConnectionError):
                return False
        for _ in range(count):
            wait_until(go, f"a write on {node}")

    def verify(self, node):
        def all_there():
            try:
                client = Client(self.engines()[node]["status"]["nbdURI"], timeout=20)
            except (OSError, KeyError, ConnectionError):
                return False
            try:
                for slot, number in self.acknowledged.items():
                    found = set(struct.unpack(f"<{BLOCK // 8}Q", client.read(slot * BLOCK, BLOCK)))
                    assert len(found) == 1 and found <= self.unsure[slot], \
                        f"seed {SEED}: slot {slot} holds {found}, acknowledged was {number}"
                return True
            except (OSError, ConnectionError):
                return False
            finally:
                client.close()
        wait_until(all_there, f"the volume to be read on {node}")

    def is_on(self, node):
        code, text, _ = self.place.run(BIN / "moor", "volume", "show", "v1", "-o", "json")
        if code != 0:
            return False
        status = json.loads(text)["status"]
        return status.get("currentNodeID") == node and not status.get("move") and status.get("state") == "attached"

    def expect_on(self, node):
        wait_until(lambda: self.is_on(node) and list(self.engines()) == [node], f"v1 on {node} alone")
        self.verify(node)


def test_a_volume_moves_by_two_tickets_and_every_write_is_there():
    with cluster() as (place, dev):
        volume = Volume(place, dev)
        source = volume.open("node-1")
        for _ in range(50):
            volume.write(source)
        place.moor("migrate", "v1", "--to", "node-2", "--wait")
        assert volume.status()["move"]["phase"] == "ready"
        destination = volume.open("node-2")
        volume.write(source)
        slot = volume.number % SLOTS
        found = struct.unpack("<Q", destination.read(slot * BLOCK, 8))[0]
        assert found == volume.number, "a standby reads what the source wrote last"
        volume.write(destination)  # takes over
        wait_until(lambda: volume.status()["move"]["phase"] == "activated", "the activation to be seen")
        for _ in range(50):
            volume.write(destination)
        assert "node-1 to node-2, activated" in place.moor("volume", "show", "v1")
        place.moor("migrate", "v1", "--confirm", "--wait")
        for _ in range(10):
            volume.write(destination)  # the same session goes on
        source.close()
        destination.close()
        volume.expect_on("node-2")


def test_a_move_that_nobody_wrote_in_is_undone_without_a_trace():
    with cluster() as (place, dev):
        volume = Volume(place, dev)
        source = volume.open("node-1")
        for _ in range(20):
            volume.write(source)
        place.moor("migrate", "v1", "--to", "node-2", "--wait")
        place.moor("migrate", "v1", "--activate", "--wait")
        place.moor("migrate", "v1", "--rollback", "--wait")
        for _ in range(20):
            volume.write(source)  # the session of before
        source.close()
        volume.expect_on("node-1")


def test_after_a_rollback_of_a_move_that_was_written_in_those_writes_stay():
    with cluster() as (place, dev):
        volume = Volume(place, dev)
        volume.write_on("node-1", 5)
        place.moor("migrate", "v1", "--to", "node-2", "--wait")
        volume.write_on("node-2", 5)
        place.moor("migrate", "v1", "--rollback", "--wait")
        volume.expect_on("node-1")
        volume.write_on("node-1", 5)
        volume.verify("node-1")


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_whatever_is_killed_in_a_move_it_ends_where_the_tickets_ask():
    choice = random.Random(SEED)
    with cluster() as (place, dev):
        volume = Volume(place, dev)
        here, there = "node-1", "node-2"

        def strike():
            victim = choice.choice(["engine", "engine", "agent", "server", "nobody"])
            node = choice.choice([here, there])
            if victim == "engine":
                pids = dev.pids("engine")
                kill(choice.sample(pids, min(1, len(pids))))
            elif victim == "agent":
                kill(dev.pids("agent", node))
            elif victim == "server":
                kill(dev.pids("server"))
            return f"{victim} {node if victim == 'agent' else ''}"

        def asked(*words):
            wait_until(lambda: place.run(BIN / "moor", *words)[0] == 0, " ".join(words))

        for number in range(ROUNDS):
            story = [f"round {number}, {here} to {there}"]
            volume.write_on(here, 3)
            moments = {choice.randrange(4) for _ in range(2)}
            if 0 in moments:
                story.append("at the start: " + strike())
            asked("migrate", "v1", "--to", there, "--wait", "--timeout", "60s")
            if 1 in moments:
                story.append("when ready: " + strike())
            wrote = choice.random() < 0.6
            if wrote:
                volume.write_on(there, 3)
                story.append("written")
            if 2 in moments:
                story.append("before the end: " + strike())
            confirm = choice.random() < 0.5
            story.append("confirm" if confirm else "roll back")
            print("  " + "; ".join(story), flush=True)
            end = (lambda: place.run(BIN / "moor", "migrate", "v1", "--confirm" if confirm else "--rollback")[0] in (0,)
                   or volume.is_on(there if confirm else here))
            wait_until(end, f"seed {SEED}: {story}")
            if 3 in moments:
                print("  in the end: " + strike(), flush=True)
            if confirm:
                here, there = there, here
            volume.expect_on(here)


if __name__ == "__main__":
    skip_without_devices()
    print(f"seed {SEED}", flush=True)
    run_tests(sys.modules[__name__])
