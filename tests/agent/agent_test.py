#!/usr/bin/env python3
"""The agent with real processes: replicas, an engine, a device, kill -9 of each, and of the agent itself."""
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

from cluster import Cluster, alive, say, skip, wait_for


def need_devices():
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK) or not os.access("/dev/loop-control", os.W_OK):
        skip("needs root, /dev/fuse and loop devices")


def pattern(number, size=4096):
    return (f"{number:016d}" * (size // 16)).encode()


class Writer(threading.Thread):
    """Writes numbered blocks to a device with O_DIRECT and O_DSYNC until told to stop; reads each back."""

    def __init__(self, path, blocks=2048):
        super().__init__()
        self.path, self.blocks, self.count, self.error = path, blocks, 0, None
        self.ending = threading.Event()

    def run(self):
        try:
            import mmap
            buffer = mmap.mmap(-1, 4096)
            device = os.open(self.path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
            try:
                while not self.ending.is_set():
                    buffer[:] = pattern(self.count)
                    os.pwritev(device, [buffer], self.count % self.blocks * 4096)
                    os.preadv(device, [buffer], self.count % self.blocks * 4096)
                    if bytes(buffer) != pattern(self.count):
                        raise AssertionError(f"block {self.count} reads back as {bytes(buffer)[:32]}")
                    self.count += 1
            finally:
                os.close(device)
        except BaseException as error:  # told to whoever stops it
            self.error = error

    def progress(self, blocks=20):
        goal = self.count + blocks
        wait_for("the writer to go on", lambda: self.error or self.count >= goal)
        if self.error:
            raise self.error

    def stop(self):
        self.ending.set()
        self.join(60)
        assert not self.is_alive(), "the writer hangs"
        if self.error:
            raise self.error


class AgentTest(unittest.TestCase):
    def test_story_of_a_volume(self):
        with Cluster(2) as c:
            v = c.volume("v1", ["node-1", "node-2", "node-1"])
            node1 = c.agents[0]
            status = v.attach("node-1")
            self.assertEqual(status["endpoint"], str(node1.directory / "dev/v1"))
            self.assertEqual(status["replicaModeMap"], {one: "RW" for one in v.replicas})
            self.assertEqual(status["currentSize"], str(64 << 20))
            self.assertIn("volume-head", status["snapshots"])
            self.assertTrue(status["exportID"])
            directory = node1.directory / "disks/default/replicas" / f"v1-{v.uid[:8]}-r-1"
            self.assertTrue((directory / "volume.meta").exists(), os.listdir(directory.parent))

            writer = Writer(status["endpoint"])
            writer.start()
            writer.progress()

            say("agent killed and started again under I/O: nothing is restarted")
            before = node1.pids()
            node1.kill()
            writer.progress()
            node1.start()
            writer.progress()
            self.assertEqual(node1.pids(), before)
            self.assertEqual(v.wait_engine("running", 1)["epoch"], 1)

            say("a replica killed: ERR in the Grant, the volume goes on, the process comes back")
            os.kill(c.agents[1].pids()[v.replica_key("v1-r-2")], signal.SIGKILL)
            wait_for("ERR in the Grant", lambda: v.members()["v1-r-2"] == "ERR")
            writer.progress()
            wait_for("ERR in the status",
                     lambda: c.status("engines", v.engine)["replicaModeMap"]["v1-r-2"] == "ERR")
            v.wait_replica("v1-r-2")
            self.assertEqual(v.members(), {"v1-r-1": "RW", "v1-r-2": "ERR", "v1-r-3": "RW"})

            say("the engine killed: told with its epoch; a new epoch serves, the device goes on")
            device_pids = {k: p for k, p in node1.pids().items() if k.startswith("d-")}
            os.kill(node1.pids()[v.engine_key()], signal.SIGKILL)
            status = v.wait_engine("error", 1)
            failed = next(one for one in status["conditions"] if one["type"] == "Failed")
            self.assertIn("nobody saw how", failed["message"])
            self.assertEqual(v.grant("node-1"), 2)
            v.wait_engine("running", 2)
            writer.progress()
            os.kill(node1.pids()[v.engine_key()], signal.SIGKILL)
            status = v.wait_engine("error", 2)
            failed = next(one for one in status["conditions"] if one["type"] == "Failed")
            self.assertEqual((failed["status"], failed["message"]), ("True", "killed by signal 9"))
            self.assertEqual(v.grant("node-1"), 3)
            v.wait_engine("running", 3)
            writer.progress()
            self.assertEqual({k: p for k, p in node1.pids().items() if k.startswith("d-")}, device_pids)
            self.assertEqual(v.members()["v1-r-2"], "ERR")

            say("stop while the device is in use: it waits and says who")
            v.stop()
            told = wait_for("DeviceInUse", lambda: [
                one for one in c.status("engines", v.engine).get("conditions", [])
                if one["type"] == "DeviceInUse" and one["status"] == "True"])
            self.assertIn(f"pid {os.getpid()}", told[0]["message"])
            writer.progress()
            writer.stop()
            v.wait_engine("stopped", 3)
            self.assertFalse(os.path.lexists(node1.directory / "dev/v1"))
            self.assertNotIn(v.engine_key(), node1.pids())
            v.released()

            say("the other node: the same bytes")
            epoch = v.grant("node-2")
            status = v.wait_engine("running", epoch)
            last = writer.count - 1
            with open(status["endpoint"], "rb") as device:
                device.seek(last % writer.blocks * 4096)
                self.assertEqual(device.read(4096), pattern(last))
            v.stop()
            v.wait_engine("stopped", epoch)
            v.released()

            say("replicas deleted: their directories go, then the objects")
            for one in v.replicas:
                c.delete("replicas", one)
            for one in v.replicas:
                wait_for(f"{one} to go", lambda one=one: c.get("replicas", one) is None)
            self.assertEqual(os.listdir(directory.parent), [])
            wait_for("the processes to go", lambda: not node1.pids() and not c.agents[1].pids())


if __name__ == "__main__":
    need_devices()
    unittest.main(verbosity=2)
