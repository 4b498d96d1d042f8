#!/usr/bin/env python3
"""The agent with real processes: replicas, an engine, a device, kill -9 of each, and of the agent itself."""
import os
import pathlib
import random
import signal
import subprocess
import threading
import time
import unittest

from cluster import Agent, Cluster, say, skip, wait_for


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


    def test_a_node_introduces_itself_and_beats(self):
        with Cluster(1) as c:
            node = c.get("nodes", "node-1")
            self.assertEqual(node["status"]["incarnation"], 1)
            self.assertEqual(node["status"]["bootID"], pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip())
            disk = node["status"]["diskStatus"]["default"]
            self.assertGreater(disk["storageMaximum"], 0)
            core = c.request("GET", "/api/v1/nodes/node-1")
            self.assertIn({"type": "InternalIP", "address": "127.0.0.1"}, core["status"]["addresses"])
            lease = "/apis/coordination.k8s.io/v1/namespaces/mooring-node-lease/leases/node-1"
            first = c.request("GET", lease)["spec"]["renewTime"]
            wait_for("a heartbeat", lambda: c.request("GET", lease)["spec"]["renewTime"] > first)

            say("a status that did not change is not written")
            version = c.get("nodes", "node-1")["metadata"]["resourceVersion"]
            beat = c.request("GET", lease)["spec"]["renewTime"]
            wait_for("two more", lambda: c.request("GET", lease)["spec"]["renewTime"] > beat)
            self.assertEqual(c.get("nodes", "node-1")["metadata"]["resourceVersion"], version)

            say("a disk that became another one is not ready, and is again when it is back")
            identity = c.agents[0].directory / "disks/default/mooring-disk.json"
            text = identity.read_text()

            def ready():
                conditions = c.status("nodes", "node-1")["diskStatus"]["default"]["conditions"]
                return next(one for one in conditions if one["type"] == "Ready")
            identity.write_text(text.replace(disk["diskUUID"], "11111111-1111-4111-8111-111111111111"))
            wait_for("not ready", lambda: ready()["status"] == "False" and "instead of" in ready()["message"])
            identity.unlink()
            wait_for("no identity", lambda: "lost its identity" in ready()["message"])
            self.assertEqual(c.status("nodes", "node-1")["diskStatus"]["default"]["diskUUID"], disk["diskUUID"])
            identity.write_text(text)
            wait_for("ready", lambda: ready()["status"] == "True")

            say("stopping the agent is clean")
            self.assertEqual(c.agents[0].kill(signal.SIGTERM), 0)

    def test_identity(self):
        with Cluster(1) as c:
            agent = c.agents[0]
            self.assertEqual(agent.kill(signal.SIGTERM), 0)
            for name, mode in (("pki/node.key", 0o600), ("pki", 0o700)):
                self.assertEqual((agent.directory / name).stat().st_mode & 0o777, mode, name)

            say("with its certificate it needs no token")
            token, agent.token_file = agent.token_file, "/nowhere"
            agent.start()
            agent.kill(signal.SIGTERM)
            agent.token_file = token

            say("a second machine of the same name is refused")
            twin = Agent(c, "node-1", "twin", start=False)
            self.assertIn("two nodes with one name", twin.start_refused())

            say("a directory belongs to one node")
            other = Agent(c, "node-9", "node-1", start=False)
            self.assertIn("one directory per node", other.start_refused())

            say("a server with another CA is not shown the token")
            forged = c.directory / "forged.token"
            secret = pathlib.Path(token).read_text().split(":")[0]
            forged.write_text(f"{secret}:{'0' * 64}\n")
            stranger = Agent(c, "node-2", start=False)
            stranger.token_file = str(forged)
            self.assertIn("is not the server of this token", stranger.start_refused())
            forged.write_text(f"{'x' * 64}:{pathlib.Path(token).read_text().split(':')[1]}")
            self.assertIn("bearer token is not known", stranger.start_refused())

            say("two agents in one directory")
            agent.start()
            second = Agent(c, "node-1", "node-1", start=False)
            self.assertIn("another agent runs", second.start_refused())

            say("a node reads the tokens of its volumes and no other secret")
            c.volume("mine", ["node-1"])
            certificate = (agent.directory / "pki/node.crt", agent.directory / "pki/node.key")
            ask = lambda path: c.server.request("GET", path, certificate=certificate)[0]  # noqa: E731
            core = "/api/v1/namespaces/longhorn-system/secrets"
            self.assertEqual(ask(f"{core}/mine-token"), 200)
            c.create("secrets", {"metadata": {"name": "theirs-token"}, "type": "mooring.io/volume-token",
                                 "stringData": {"token": "0123456789abcdef"}})
            c.create("secrets", {"metadata": {"name": "a-token"}, "stringData": {"x": "y"}})
            self.assertEqual([ask(f"{core}/theirs-token"), ask(f"{core}/a-token"), ask(core)], [403, 403, 403])

    def test_a_certificate_is_renewed_with_itself(self):
        with Cluster(1) as c:
            agent = c.agents[0]
            agent.kill(signal.SIGTERM)
            pki, state = agent.directory / "pki", pathlib.Path(c.server.state) / "pki"

            def serial():
                return subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", pki / "node.crt"],
                                      capture_output=True, check=True, timeout=60).stdout
            say("one that has an hour left of a day")
            run = lambda *words: subprocess.run(["openssl", *words], check=True, timeout=60, capture_output=True)  # noqa: E731
            run("req", "-new", "-key", pki / "node.key", "-subj", "/O=system:nodes/CN=system:node:node-1", "-out",
                c.directory / "csr")
            run("x509", "-req", "-in", c.directory / "csr", "-CA", state / "ca.crt", "-CAkey", state / "ca.key",
                "-CAcreateserial", "-days", "1", "-out", pki / "node.crt")
            fresh = serial()
            # A day, of which nothing has passed: it stays.
            agent.token_file = "/nowhere"
            agent.start()
            agent.kill(signal.SIGTERM)
            self.assertEqual(serial(), fresh)
            # Most of its time has passed: the agent comes back with another, without the token.
            begun = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() - 86400))
            ends = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 3600))
            (c.directory / "index").write_text("")
            (c.directory / "serial").write_text("01")
            (c.directory / "ca.conf").write_text(
                f"[ca]\ndefault_ca=d\n[d]\ndatabase={c.directory}/index\nserial={c.directory}/serial\n"
                f"new_certs_dir={c.directory}\ndefault_md=sha256\npolicy=p\n[p]\norganizationName=supplied\n"
                "commonName=supplied\n")
            run("ca", "-batch", "-config", c.directory / "ca.conf", "-in", c.directory / "csr", "-cert", state / "ca.crt",
                "-keyfile", state / "ca.key", "-startdate", begun, "-enddate", ends, "-out", pki / "node.crt", "-notext")
            old = serial()
            agent.start()
            self.assertNotEqual(serial(), old)

    def test_a_server_that_is_away_costs_nothing_until_a_member_fails(self):
        with Cluster(1) as c:
            v = c.volume("v1", ["node-1", "node-1"])
            status = v.attach("node-1")
            node = c.agents[0]
            writer = Writer(status["endpoint"])
            writer.start()
            writer.progress()
            key, listen = v.replica_key("v1-r-2"), c.server.url.split("//")[1]
            say("the server dies: writes go on")
            c.server.process.kill()
            c.server.process.wait()
            writer.progress()
            say("and a replica: writes wait, without an error")
            os.kill(node.pids()[key], signal.SIGKILL)
            wait_for("the proposal", lambda: "a change of members waits" in node.log())
            stood = writer.count
            wait_for("another try", lambda: node.log().count("a change of members waits") >= 3)
            self.assertLessEqual(writer.count, stood + 1)
            say("the server is back: the change is committed, and writes go on")
            c.server.start(listen)
            writer.progress()
            self.assertEqual(v.members(), {"v1-r-1": "RW", "v1-r-2": "ERR"})
            writer.stop()

    def test_agents_killed_at_random_moments(self):
        seed = int(os.environ.get("MOOR_SEED", random.randrange(1 << 32)))
        say(f"MOOR_SEED={seed}")
        dice = random.Random(seed)
        with Cluster(1) as c:
            v = c.volume("v1", ["node-1", "node-1"])
            status = v.attach("node-1")
            node = c.agents[0]
            before = node.pids()
            writer = Writer(status["endpoint"])
            writer.start()
            versions = lambda: [c.get(*one)["metadata"]["resourceVersion"] for one in (  # noqa: E731
                ("engines", v.engine), ("replicas", "v1-r-1"), ("replicas", "v1-r-2"), ("grants", "v1"))]
            told = None
            for _ in range(15):
                node.kill()
                node.start(wait=False)
                # Anywhere between exec and having adopted everything.
                threading.Event().wait(dice.random() * 0.3)
                node.kill()
                node.start()
                writer.progress(5)
                self.assertEqual(node.pids(), before)
                # Replicas tell nothing by events: the first new agent learns which epoch they have stored.
                if told is None:
                    told = wait_for("what replicas know", lambda: all(
                        c.status("replicas", one).get("epoch") == 1 for one in v.replicas) and versions())
            self.assertEqual(v.wait_engine("running")["epoch"], 1)
            self.assertEqual(versions(), told, "what did not change was written")
            writer.stop()

    def test_devices(self):
        with Cluster(1) as c:
            v = c.volume("v1", ["node-1"])
            node = c.agents[0]

            say("without a frontend there is no device, and the export is there")
            status = v.attach("node-1", disableFrontend=True)
            self.assertEqual((status["endpoint"], os.path.lexists(node.directory / "dev/v1")), ("", False))
            info = subprocess.run(["nbdinfo", "--size", status["nbdURI"]], capture_output=True, timeout=60)
            self.assertEqual(int(info.stdout), 64 << 20, info)
            say("switched on while it runs, and off again")
            c.merge("engines", v.engine, {"spec": {"disableFrontend": False}})
            path = wait_for("the device", lambda: c.status("engines", v.engine)["endpoint"])
            self.assertEqual(os.path.realpath(path)[:9], "/dev/loop")

            say("the only replica and the engine die: another export id, the old device gives errors, a new one serves")
            used = os.open(path, os.O_RDWR)
            old = os.path.realpath(path)
            first = c.status("engines", v.engine)["exportID"]
            os.kill(node.pids()[v.replica_key("v1-r-1")], signal.SIGKILL)
            v.wait_engine("error", 1)
            v.wait_replica("v1-r-1")
            v.grant("node-1")
            status = v.wait_engine("running", 2)
            self.assertNotEqual(status["exportID"], first)
            wait_for("the new device at the same path", lambda: os.path.realpath(path) != old)
            self.assertEqual(status["endpoint"], path)
            with self.assertRaises(OSError):
                os.fsync(used) or os.pread(used, 4096, 1 << 20) and os.pwrite(used, bytes(4096), 0) and os.fsync(used)
            told = wait_for("DeviceInUse", lambda: [
                one for one in c.status("engines", v.engine)["conditions"]
                if one["type"] == "DeviceInUse" and one["status"] == "True"])
            self.assertIn(f"{old} is in use: pid {os.getpid()}", told[0]["message"])
            with open(path, "r+b") as device:
                device.write(pattern(1))
            os.close(used)
            wait_for("the old device to go", lambda: len([k for k in node.pids() if k.startswith("d-")]) == 1)

            say("the device's process is killed: a new one takes its place")
            key = next(k for k in node.pids() if k.startswith("d-"))
            os.kill(node.pids()[key], signal.SIGKILL)
            wait_for("a new device", lambda: any(k.startswith("d-") and k != key for k in node.pids()))
            v.wait_engine("running", 2)
            wait_for("its link", lambda: os.path.exists(path))
            with open(path, "rb") as device:
                self.assertEqual(device.read(4096), pattern(1))

            say("mounted: detach waits and names the place; the engine dies meanwhile: nobody hangs")
            mount = node.directory / "mnt"
            mount.mkdir()
            subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True, timeout=60)
            subprocess.run(["mount", path, str(mount)], check=True, timeout=60)
            v.stop()
            told = wait_for("who", lambda: [
                one for one in c.status("engines", v.engine)["conditions"]
                if one["type"] == "DeviceInUse" and str(mount) in one["message"]])
            self.assertEqual(c.status("engines", v.engine)["currentState"], "stopping")
            os.kill(node.pids()[v.engine_key()], signal.SIGKILL)
            v.wait_engine("stopped", 2)
            subprocess.run(["umount", str(mount)], timeout=60)
            self.assertEqual([k for k in node.pids() if k[0] in "de"], [])

    def test_epochs_and_directories(self):
        with Cluster(2) as c:
            v = c.volume("v1", ["node-1", "node-2"])
            node1, node2 = c.agents
            v.attach("node-1", disableFrontend=True)

            say("a newer epoch elsewhere: the old engine ends")
            v.grant("node-2", disableFrontend=True)
            v.wait_engine("running", 2)
            wait_for("the old engine to end", lambda: v.engine_key() not in node1.pids())

            say("a crash between the record and the process: that epoch is used up")
            v.stop()
            v.wait_engine("stopped", 2)
            v.released()
            node1.kill()
            record = node1.directory / "run" / f"{v.engine_key()}.json"
            record.write_text('{"kind":"engine","namespace":"longhorn-system","name":"v1-e","uid":"%s","volume":"v1",'
                              '"epoch":3,"incarnation":1}' % c.get("engines", v.engine)["metadata"]["uid"])
            v.grant("node-1", disableFrontend=True)
            node1.start()
            v.wait_engine("error", 3)
            self.assertNotIn(v.engine_key(), node1.pids())
            v.grant("node-1", disableFrontend=True)
            v.wait_engine("running", 4)

            say("a grant for another life of the node is not for us")
            v.stop()
            v.wait_engine("stopped", 4)
            v.released()
            v.set_active({"epoch": 5, "engine": v.engine, "node": "node-1", "incarnation": 77}, {})
            c.merge("engines", v.engine, {"spec": {"desireState": "running"}})
            lease = "/apis/coordination.k8s.io/v1/namespaces/mooring-node-lease/leases/node-1"
            beat = c.request("GET", lease)["spec"]["renewTime"]
            wait_for("a while", lambda: c.request("GET", lease)["spec"]["renewTime"] > beat)
            self.assertNotIn(v.engine_key(), node1.pids())
            v.stop()
            v.released()

            say("a start that nothing will come of is told with its epoch, and can be taken back")
            w = c.volume("w1", ["node-1"], token=False)
            w.grant("node-1")
            failed = next(one for one in w.wait_engine("error", 1)["conditions"] if one["type"] == "Failed")
            self.assertIn("token of volume w1", failed["message"])
            w.stop()
            w.wait_engine("stopped", 1)

            say("a directory that is gone is a loss, never an empty replica")
            c.merge("replicas", "v1-r-1", {"spec": {"desireState": "stopped"}})
            v.wait_replica("v1-r-1", "stopped")
            home = node1.directory / "disks/default/replicas" / f"v1-{v.uid[:8]}-r-1"
            home.rename(str(home) + ".hidden")
            c.merge("replicas", "v1-r-1", {"spec": {"desireState": "running"}})
            status = v.wait_replica("v1-r-1", "error")
            self.assertIn("has lost its data", status["conditions"][0]["message"])
            self.assertFalse(home.exists())
            pathlib.Path(str(home) + ".hidden").rename(home)
            v.wait_replica("v1-r-1")

            say("objects that go while the agent is away: their processes are stopped at its next start")
            node2.kill()
            self.assertIn(v.replica_key("v1-r-2"), node2.pids())
            c.merge("replicas", "v1-r-2", {"metadata": {"finalizers": []}})
            c.delete("replicas", "v1-r-2")
            node2.start()
            wait_for("the replica to stop", lambda: not node2.pids())
            self.assertTrue((node2.directory / "disks/default/replicas" / f"v1-{v.uid[:8]}-r-2").exists(),
                            "data goes only when a deletion is asked of this node")
            wait_for("its record to go", lambda: not list((node2.directory / "run").glob("r-*")))


if __name__ == "__main__":
    need_devices()
    unittest.main(verbosity=2)
