"""`moor why` names the true cause, and clearing that and only that ends the wait. All causes at once in one cluster, each
with a volume of its own; they are cleared one after the other, and every other wait must go on as it was."""
import contextlib
import datetime
import os
import subprocess
import sys

from cluster import BIN, Api, Dev, Place, Program, run_tests, skip_without_devices, wait_until

MIB = 1 << 20
KIND = "longhorn-api"


def in_seconds(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """Three nodes, each in its own network; replicas on the first two only, with 1 GiB of room each."""

    def __init__(self, place, dev):
        self.place, self.dev, self.api = place, dev, Api(dev.state)
        self.waiting = {}  # volume: the cause that `mine` waits for
        self.disks("node-3", allowScheduling=False)
        for node in ("node-1", "node-2"):
            self.disks(node, storageReserved=self.largest(node) - 1024 * MIB)
        self.setting("node-attach-limit", "6")

    def setting(self, name, value):
        self.api.patch("settings", name, {"value": value}) if self.has_setting(name) else self.api.create(
            "settings", {"metadata": {"name": name}, "value": value})

    def has_setting(self, name):
        return any(one["metadata"]["name"] == name for one in self.api.get("settings", "")["items"])

    def largest(self, node):
        (disk,) = self.api.get("nodes", node)["status"]["diskStatus"].values()
        return disk["storageMaximum"]

    def disks(self, node, **changes):
        disks = self.api.get("nodes", node)["spec"]["disks"]
        self.api.patch("nodes", node, {"spec": {"disks": {name: changes for name in disks}}})

    def volume(self, name, size=16 * MIB, **spec):
        self.api.create("volumes", {"metadata": {"name": name}, "spec": {"size": str(size), "numberOfReplicas": 1, **spec}})
        wait_until(lambda: self.api.get("volumes", name).get("status", {}).get("state") == "detached", f"volume {name}")

    def ask(self, volume, node, ticket="mine", **more):
        self.api.ticket(volume, ticket, type=KIND, nodeID=node, **more)

    def attach(self, volume, node, ticket="other", **more):
        self.ask(volume, node, ticket, **more)
        self.until_satisfied(volume, ticket)

    def is_satisfied(self, volume, ticket="mine"):
        return self.api.ticket_status(volume, ticket).get("satisfied", False)

    def until_satisfied(self, volume, ticket="mine"):
        try:
            wait_until(lambda: self.is_satisfied(volume, ticket), f"ticket {ticket} of {volume}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.place.moor('why', 'volume', volume)}") from None

    def causes(self, volume):
        """What `moor why` says that `mine` waits for."""
        return [one for one in self.place.moor_json("why", "volume", volume)
                if one["kind"] == "waiting" and one.get("ticket") == "mine"]

    def waits(self, volume, cause, *words):
        """`mine` waits for this and for nothing else, and the sentence has these words."""
        def told():
            causes = self.causes(volume)
            return causes and {one["type"] for one in causes} == {cause} and causes
        (one,) = wait_until(told, f"{volume} to wait for {cause}; it says {self.causes(volume)}")
        for word in words:
            assert word in one["text"], one
        assert one["clearedBy"] and one["since"], one
        self.waiting[volume] = cause

    def cleared(self, volume):
        """The wait is over, and all others go on."""
        self.until_satisfied(volume)
        del self.waiting[volume]
        self.others_wait()
        self.api.ticket(volume, "mine")
        wait_until(lambda: self.api.get("volumes", volume)["status"]["state"] == "detached", f"{volume} detached")
        self.others_wait()

    def others_wait(self):
        for volume, cause in self.waiting.items():
            assert not self.is_satisfied(volume), f"{volume}: {cause} was not cleared, and the wait is over"
            assert {one["type"] for one in self.causes(volume)} == {cause}, (volume, cause, self.causes(volume))


def arrange_holders(world):
    world.volume("held")
    world.attach("held", "node-2")
    world.ask("held", "node-1")
    world.waits("held", "AttachedElsewhere", "node-2", "other", "moor detach held --node node-2")
    world.volume("params")
    world.attach("params", "node-1", parameters={"disableFrontend": "true"})
    world.ask("params", "node-1", parameters={"disableFrontend": "false"})
    world.waits("params", "IncompatibleParameters", "other", "without a front end")
    world.volume("reserved")
    world.ask("reserved", "", "other", owner={"apiVersion": "v1", "kind": "Namespace", "name": "default"})
    world.ask("reserved", "node-1")
    world.waits("reserved", "Reserved", "Namespace default")
    world.volume("lapsed")
    world.ask("lapsed", "node-1", expiresAt=in_seconds(-60))
    world.waits("lapsed", "Expired", "lapsed at")


def arrange_room(world):
    world.volume("tags", diskSelector=["fast"])
    world.ask("tags", "node-1")
    world.waits("tags", "NoSchedulableDisk", "lacks tag fast")
    world.volume("large", size=2048 * MIB)
    world.ask("large", "node-1")
    world.waits("large", "InsufficientCapacity", "needs 2.00 GiB")
    for number in range(1, 6):
        world.volume(f"full-{number}")
        world.attach(f"full-{number}", "node-2")
    world.volume("limit")
    world.ask("limit", "node-2")
    world.waits("limit", "NodeAttachLimit", "node-2 has 6 volumes attached and its limit is 6")


def link(world, state):
    """Node 3's cable."""
    (network,) = [line.split()[0] for line in
                  subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
                  if line and any(os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat(f"/run/netns/{line.split()[0]}").st_ino
                                  for pid in world.dev.pids("agent", "node-3"))]
    subprocess.run(["ip", "-n", network, "link", "set", "eth0", state], check=True)


def arrange_nodes(world):
    link(world, "down")
    world.volume("cut")
    world.ask("cut", "node-3")
    world.api.create("nodes", {"metadata": {"name": "node-9"}, "spec": {"allowScheduling": False}})
    world.volume("silent")
    world.ask("silent", "node-9")
    world.waits("silent", "NodeNotReady", "node-9", "never reported")


@contextlib.contextmanager
def used_and_deleted(world):
    """A volume whose deletion waits for a program that has its device open."""
    world.volume("going")
    world.attach("going", "node-1", "mine")
    device = world.place.moor("volume", "device", "going", "-o", "name").strip()
    file = os.open(device, os.O_RDONLY)
    try:
        world.place.moor("volume", "delete", "going", "--force")
        world.waits("going", "VolumeDeleting", "being deleted")
        wait_until(lambda: f"{os.getpid()}" in world.place.moor("why", "volume", "going"), "the user of the device")
        yield
        world.others_wait()
    finally:
        os.close(file)


def test_why_names_the_cause_and_clearing_that_and_only_that_ends_the_wait():
    with Place() as place, Dev(place, "--netns") as dev:
        world = World(place, dev)
        arrange_nodes(world)
        arrange_holders(world)
        arrange_room(world)
        world.waits("cut", "AgentUnreachable", "node-3", "do not reach each other")
        with used_and_deleted(world):
            assert len(world.waiting) == 10, world.waiting
            # Each cause by what clears it, as `cleared by` says.
            world.api.ticket("full-1", "other")
            world.cleared("limit")
            world.place.moor("detach", "held", "--node", "node-2")
            world.cleared("held")
            world.api.ticket("params", "other")
            world.cleared("params")
            world.api.ticket("reserved", "other")
            world.cleared("reserved")
            world.api.ticket("lapsed", "mine", type=KIND, nodeID="node-1", expiresAt=in_seconds(3600))
            world.cleared("lapsed")
            world.disks("node-1", tags=["fast"])
            world.cleared("tags")
            world.disks("node-1", storageReserved=0)
            world.cleared("large")
            link(world, "up")
            world.cleared("cut")
            with Program(place, BIN / "moord", "agent", "--server", dev.url, "--node", "node-9", "--dir",
                         place.directory / "node-9", "--token-file", dev.state / "bootstrap.token"):
                world.cleared("silent")
        wait_until(lambda: place.run(BIN / "moor", "volume", "show", "going")[0] == 3, "the deletion to end")


if __name__ == "__main__":
    skip_without_devices()
    run_tests(sys.modules[__name__])
