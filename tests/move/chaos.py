"""One move with one component killed at one moment, chosen by chance; used by chaos_test.py and tools/move_soak."""
import random
import subprocess
import threading

from moving import Volume, kill
from nbd_client import Writer
from support import wait_until

SIZE = 16 << 20
MOMENTS = ["before", "preparing", "ready", "activated", "ending", "after"]
VICTIMS = ["source engine", "destination engine", "replica", "server", "source agent", "destination agent", "nobody"]


class Round:
    """A volume of its own moves from one node to another, is confirmed or rolled back, and a component dies meanwhile.

    The outcome is the one that the tickets ask for, everything that the writer was told is written is there, and
    nothing is left of the side that lost."""

    def __init__(self, cluster, seed):
        self.cluster, self.random = cluster, random.Random(seed)
        self.moment, self.victim = self.random.choice(MOMENTS), self.random.choice(VICTIMS)
        nodes = ["node-1", "node-2", "node-3"]
        self.random.shuffle(nodes)
        self.source, self.destination, self.third = nodes
        self.confirm = self.random.random() < 0.6
        self.killed = threading.Event()

    def describe(self):
        return (f"{self.source} → {self.destination}, {'confirm' if self.confirm else 'roll back'}; "
                f"{self.victim} dies {self.moment}")

    def at(self, moment):
        if moment != self.moment or self.killed.is_set():
            return
        self.killed.set()
        for pid in self.victims():
            kill(pid)

    def victims(self):
        if self.victim == "server":
            return self.cluster.pids("server")
        if self.victim.endswith("agent"):
            return self.cluster.pids("agent", self.source if self.victim.startswith("source") else self.destination)
        if self.victim == "replica":
            return [pid for pid in [self.volume.replica_pid(self.third)] if pid]
        if self.victim.endswith("engine"):
            return self.volume.engine_pids(self.source if self.victim.startswith("source") else self.destination)
        return []

    def run(self):
        self.volume = Volume(self.cluster, f"v{self.random.randrange(10**9)}", SIZE)
        self.volume.attach(self.source)
        self.writer = Writer(self.volume.socket(self.source), self.volume.name, self.random.random())
        self.writer.start()
        try:
            end = self.move()
            self.writer.finish()
            self.writer.check_all(self.volume.socket(end))
        finally:
            self.writer.ending = True
        self.volume.let_go(self.source, self.destination)
        self.volume.explain(lambda: self.volume.status().get("state") == "detached", "the volume to be detached")
        self.volume.delete()
        return self.writer.number

    def goes_on(self, more=20):
        goal = self.writer.number + more
        wait_until(lambda: self.writer.number >= goal or self.writer.error, "the writer to go on")
        if self.writer.error:
            raise AssertionError(f"the writer: {self.writer.error}")

    def move(self):
        """The whole of it; gives the node where the volume must be now."""
        volume = self.volume
        self.goes_on()
        self.at("before")
        volume.ask_for(self.destination)
        self.at("preparing")
        volume.explain(lambda: volume.is_satisfied(self.destination), f"the ticket of {self.destination}")
        self.goes_on()
        self.at("ready")
        self.goes_on()
        if self.confirm:
            # A standby that died is started again; its clients find it where the ticket says.
            volume.explain(lambda: volume.is_satisfied(self.destination), f"the ticket of {self.destination}")
            self.writer.switch(volume.socket(self.destination))
            self.goes_on()
            self.at("activated")
            self.goes_on()
            volume.let_go(self.source)
        else:
            self.at("activated")
            volume.let_go(self.destination)
        self.at("ending")
        end = self.destination if self.confirm else self.source
        volume.wait_settled(end)
        self.goes_on()
        self.at("after")
        self.goes_on()
        volume.wait_settled(end)
        return end


def run_rounds(cluster, seed, rounds, say=print):
    for number in range(rounds):
        one = Round(cluster, f"{seed}-{number}")
        say(f"  {number}: {one.describe()}", flush=True)
        try:
            written = one.run()
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            raise AssertionError(f"round {number} of seed {seed} ({one.describe()}): {error}") from error
        say(f"     {written} writes", flush=True)
