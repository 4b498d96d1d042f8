"""What a volume survives while somebody writes to it: restarts of the server and the agents, and the death of its block
processes. Everything is real; MOOR_ROUNDS and MOOR_SEED say how long and which."""
import json
import mmap
import os
import random
import signal
import struct
import sys
import threading

from cluster import BIN, Dev, Place, run_tests, skip_without_devices, wait_until

BLOCK = 4096
SLOTS = 1024
ROUNDS = int(os.environ.get("MOOR_ROUNDS", "30"))
SEED = int(os.environ.get("MOOR_SEED", random.SystemRandom().randrange(10**6)))


class Writer(threading.Thread):
    """Writes numbered blocks with direct I/O, each flushed before it counts, and reads older ones back meanwhile."""

    def __init__(self, device, seed=SEED):
        super().__init__(daemon=True)
        self.device, self.random = device, random.Random(seed)
        self.flushed = {}  # slot: the number that is certainly there
        self.written, self.error, self.ending = 0, None, threading.Event()
        self.underway = None  # slot and number of a write that nobody has answered yet

    def run(self):
        try:
            with Disk(self.device) as disk:
                while not self.ending.is_set():
                    self.step(disk)
        except OSError as error:
            self.error = error

    def step(self, disk):
        number = self.written + 1
        slot = self.random.randrange(SLOTS)
        self.underway = (slot, number)
        disk.write(slot, number)
        self.flushed[slot], self.underway, self.written = number, None, number
        if number % 3 == 0:
            slot = self.random.choice(list(self.flushed))
            found = disk.read(slot)
            if found != self.flushed[slot]:
                raise OSError(f"slot {slot} holds {found}, written was {self.flushed[slot]}")

    def goes_on(self, more=20):
        goal = self.written + more
        wait_until(lambda: self.written >= goal or self.error, "the writer to go on")
        assert self.error is None, f"seed {SEED}: {self.error}"

    def stop(self):
        self.ending.set()
        self.join(60)
        assert not self.is_alive(), "the writer hangs"


class Disk:
    def __init__(self, device):
        self.device, self.buffer = device, mmap.mmap(-1, BLOCK)

    def __enter__(self):
        self.file = os.open(self.device, os.O_RDWR | os.O_DIRECT)
        return self

    def __exit__(self, *_):
        os.close(self.file)

    def write(self, slot, number):
        self.buffer[:] = struct.pack("<Q", number) * (BLOCK // 8)
        os.pwritev(self.file, [self.buffer], slot * BLOCK)
        os.fdatasync(self.file)

    def read(self, slot):
        os.preadv(self.file, [self.buffer], slot * BLOCK)
        numbers = set(struct.unpack(f"<{BLOCK // 8}Q", self.buffer[:]))
        return numbers.pop() if len(numbers) == 1 else f"a torn block {sorted(numbers)[:4]}"


def nothing_flushed_is_lost(device, writer):
    with Disk(device) as disk:
        for slot, number in writer.flushed.items():
            allowed = {number}
            if writer.underway and writer.underway[0] == slot:
                allowed.add(writer.underway[1])
            found = disk.read(slot)
            assert found in allowed, f"seed {SEED}: slot {slot} holds {found}, flushed was {number}"


class Volume:
    def __init__(self, place, dev, replicas=3):
        self.place, self.dev = place, dev
        place.moor("volume", "create", "v1", "--size", "64Mi", "--replicas", str(replicas))
        place.moor("attach", "v1", "--node", "node-1", "--wait")
        self.device = place.moor("volume", "device", "v1", "-o", "name").strip()

    def status(self):
        return self.place.moor_json("volume", "show", "v1")["status"]

    def is_attached(self, epoch):
        code, text, _ = self.place.run(BIN / "moor", "engines", "v1", "-o", "json")
        if code != 0:
            return False
        (engine,) = json.loads(text)["items"]
        return engine["status"].get("currentState") == "running" and int(engine["status"].get("epoch", 0)) >= epoch

    def blocks(self):
        return {pid: words for pid, words in self.dev.processes().items() if "moorblk" in words[0]}

    def tickets(self):
        return self.place.moor("tickets", "v1").splitlines()[1:]


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_restarts_of_server_and_agents_are_not_noticed_by_a_writer():
    choice = random.Random(SEED)
    with Place() as place, Dev(place) as dev:
        volume = Volume(place, dev)
        writer = Writer(volume.device)
        writer.start()
        writer.goes_on()
        blocks = volume.blocks()
        assert len(blocks) == 5, blocks  # three replicas, an engine, a device
        for _ in range(ROUNDS):
            words = choice.choice([("server",), ("agent", "node-1"), ("agent", "node-2"), ("agent",), ()])
            victims = [pid for pid in dev.pids(*words) if pid not in blocks]
            wanted = len(victims)
            kill(victims)
            writer.goes_on(5)
            wait_until(lambda: len([pid for pid in dev.pids(*words) if pid not in blocks]) >= wanted, f"new {words}")
            assert volume.blocks() == blocks, f"seed {SEED}: block processes were touched"
        wait_until(lambda: place.run(BIN / "moor", "nodes")[0] == 0, "the server")
        wait_until(lambda: volume.is_attached(1), "the engine to be reported")
        assert len(volume.tickets()) == 1
        assert volume.status()["epoch"] == 1
        writer.goes_on()
        assert volume.blocks() == blocks
        writer.stop()
        nothing_flushed_is_lost(volume.device, writer)
        place.moor("detach", "v1", "--wait")


def test_an_engine_that_is_killed_comes_back_under_a_writer():
    with Place() as place, Dev(place) as dev:
        volume = Volume(place, dev)
        writer = Writer(volume.device)
        writer.start()
        for epoch in (2, 3):
            writer.goes_on()
            kill(dev.pids("engine"))
            wait_until(lambda: volume.is_attached(epoch), "the next epoch")
        writer.goes_on()
        writer.stop()
        nothing_flushed_is_lost(volume.device, writer)


def test_one_replica_of_three_may_go_and_the_volume_says_so():
    with Place() as place, Dev(place) as dev:
        volume = Volume(place, dev)
        writer = Writer(volume.device)
        writer.start()
        writer.goes_on()
        kill(dev.pids("replica")[:1])
        wait_until(lambda: volume.status()["robustness"] == "degraded", "a degraded volume")
        writer.goes_on()
        assert "missed writes" in place.moor("why", "volume", "v1")
        writer.stop()
        nothing_flushed_is_lost(volume.device, writer)


def all_replicas_die(replicas):
    with Place() as place, Dev(place) as dev:
        volume = Volume(place, dev, replicas)
        writer = Writer(volume.device)
        writer.start()
        writer.goes_on(50)
        kill(dev.pids("replica"))
        wait_until(lambda: volume.is_attached(2), "the volume without a person")
        # Whoever had it open gets errors, never silence: unflushed writes may be gone.
        wait_until(lambda: writer.error or not writer.is_alive(), "the writer to hear of it")
        assert writer.written > 0 and isinstance(writer.error, OSError)
        device = wait_until(lambda: os.path.exists(volume.device) and volume.device, "the device")
        wait_until(lambda: can_be_read(device), "a device that answers")
        nothing_flushed_is_lost(device, writer)
        again = Writer(device, SEED + 1)
        again.start()
        again.goes_on()
        again.stop()


def can_be_read(device):
    try:
        with Disk(device) as disk:
            disk.read(0)
        return True
    except OSError:
        return False


def test_all_replicas_killed_come_back_without_a_person():
    all_replicas_die(3)


def test_the_only_replica_killed_comes_back_without_a_person():
    all_replicas_die(1)


if __name__ == "__main__":
    skip_without_devices()
    print(f"seed {SEED}", flush=True)
    run_tests(sys.modules[__name__])
