"""A real server and real agents for the tests of this folder. Objects are written by hand through the API, as the
controllers would write them. Everything is ended and removed whatever happens."""
import base64
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "doors"))
from moord import DEADLINE, Server, say, skip  # noqa: E402,F401

LONGHORN = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system"
MOORING = "/apis/mooring.io/v1alpha1/namespaces/longhorn-system"
CORE = "/api/v1/namespaces/longhorn-system"
PATHS = {"volumes": LONGHORN, "engines": LONGHORN, "replicas": LONGHORN, "nodes": LONGHORN, "grants": MOORING,
         "secrets": CORE}


class HandServer(Server):
    """Takes the test for a controller, where a real server knows only people and nodes (hand_server.cc)."""
    role = []

    def start(self, listen="127.0.0.1:0"):
        moord, os.environ["MOORD"] = os.environ["MOORD"], os.environ["HAND_SERVER"]
        try:
            super().start(listen)
        finally:
            os.environ["MOORD"] = moord
        self.token = pathlib.Path(self.state, "controller.token").read_text().strip()


def wait_for(what, look, seconds=60):
    """Looks until it is so; answers what was found."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds} s for {what}")
        threading.Event().wait(0.02)


class Agent:
    def __init__(self, cluster, name, directory=None, start=True):
        self.cluster, self.name = cluster, name
        self.directory = cluster.directory / (directory or name)
        self.process = None
        self.token_file = os.path.join(cluster.server.state, "bootstrap.token")
        if start:
            self.start()

    def start(self, *more, wait=True):
        self.directory.mkdir(exist_ok=True)
        with open(self.cluster.directory / f"{self.directory.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                [os.environ["MOORD"], "agent", "--server", self.cluster.server.url, "--node", self.name, "--dir",
                 str(self.directory), "--token-file", self.token_file,
                 "--heartbeat", "1s", "--disk-interval", "500ms", *more], stdout=subprocess.PIPE, stderr=log)
        if not wait:
            return
        timer = threading.Timer(DEADLINE, self.process.kill)
        timer.start()
        line = self.process.stdout.readline().decode()
        timer.cancel()
        if line != f"ready {self.name}\n":
            raise AssertionError(f"the agent did not start: {line!r}\n{self.log()}")

    def start_refused(self, *more):
        """What it says when it gives up."""
        self.start(*more, wait=False)
        code = self.process.wait(DEADLINE)
        self.process.stdout.close()
        assert code == 1, code
        return self.log().splitlines()[-1]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        code = self.process.wait(DEADLINE)
        self.process.stdout.close()
        return code

    def log(self):
        return (self.cluster.directory / f"{self.directory.name}.log").read_text()

    def pids(self):
        """key -> pid of every process that lives."""
        found = {}
        for lock in (self.directory / "run").glob("*.lock"):
            try:
                text = lock.read_text()
            except FileNotFoundError:
                continue  # forgotten while we looked
            if text and alive(int(text)):
                found[lock.stem] = int(text)
        return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Cluster:
    """`with Cluster(2) as c`: a server and agents node-1, node-2."""

    def __init__(self, nodes=1):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="moor-a-"))
        self.nodes = nodes
        self.agents = []
        self.server = None

    def __enter__(self):
        try:
            self.server = HandServer()
            self.server.__enter__()
            self.agents = [Agent(self, f"node-{i + 1}") for i in range(self.nodes)]
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None and kind is not SystemExit:
            for agent in self.agents:
                say(f"--- {agent.name}\n{agent.log()}")
                for log in sorted((agent.directory / "log").glob("*.log")):
                    say(f"--- {agent.name} {log.name}\n{log.read_text()[-3000:]}")
        for agent in self.agents:
            if agent.process and agent.process.poll() is None:
                agent.kill()
        # Block processes outlive agents; here nothing may.
        for agent in self.agents:
            for control in (agent.directory / "run").glob("d-*.ctl"):
                subprocess.run([os.environ["MOORBLK"], "device", "--path", str(agent.directory / "dev/none"),
                                "--control", str(control), "--force-remove"], capture_output=True, timeout=DEADLINE)
            for pid in agent.pids().values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if self.server:
            self.server.__exit__()
        with open("/proc/mounts") as mounts:
            for line in mounts:
                if str(self.directory) in line:
                    subprocess.run(["umount", "-l", line.split()[1]], capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    # The API

    def request(self, method, path, body=None, expect=(200, 201), headers=None):
        status, _, answer = self.server.request(method, path, body, token=self.server.token, headers=headers)
        if status not in expect:
            raise AssertionError(f"{method} {path}: {status} {answer}")
        return answer

    def get(self, resource, name):
        status, _, answer = self.server.request("GET", f"{PATHS[resource]}/{resource}/{name}",
                                                token=self.server.token)
        return answer if status == 200 else None

    def create(self, resource, body):
        return self.request("POST", f"{PATHS[resource]}/{resource}", body)

    def merge(self, resource, name, body):
        return self.request("PATCH", f"{PATHS[resource]}/{resource}/{name}", json.dumps(body),
                            headers={"Content-Type": "application/merge-patch+json"})

    def delete(self, resource, name):
        return self.request("DELETE", f"{PATHS[resource]}/{resource}/{name}")

    def status(self, resource, name):
        return (self.get(resource, name) or {}).get("status", {})

    def incarnation(self, node):
        return self.status("nodes", node)["incarnation"]

    # What the controllers would do

    def volume(self, name, nodes, size=64 << 20, token=True):
        """A volume with one replica on each of the nodes; answers a Volume."""
        return Volume(self, name, nodes, size, token)


class Volume:
    def __init__(self, cluster, name, nodes, size, token):
        self.c, self.name, self.engine = cluster, name, f"{name}-e"
        self.replicas = [f"{name}-r-{i + 1}" for i in range(len(nodes))]
        made = cluster.create("volumes", {"metadata": {"name": name}, "spec": {
            "size": str(size), "numberOfReplicas": len(nodes), "frontend": "blockdev"}})
        self.uid = made["metadata"]["uid"]
        self.owner = [{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": name, "uid": self.uid}]
        labels = {"longhornvolume": name}
        if token:
            cluster.create("secrets", {"metadata": {"name": f"{name}-token"}, "type": "mooring.io/volume-token",
                                       "data": {"token": base64.b64encode(secrets.token_bytes(32)).decode()}})
        cluster.create("grants", {"metadata": {"name": name}, "spec": {
            "volume": name, "epoch": 0, "generation": 0, "members": {one: "RW" for one in self.replicas}}})
        for replica, node in zip(self.replicas, nodes):
            disks = wait_for("the disk", lambda: cluster.status("nodes", node).get("diskStatus"))
            cluster.create("replicas", {
                "metadata": {"name": replica, "labels": labels, "ownerReferences": self.owner,
                             "finalizers": ["longhorn.io"]},
                "spec": {"volumeName": name, "volumeSize": str(size), "nodeID": node, "desireState": "stopped",
                         "engineName": self.engine, "diskID": disks["default"]["diskUUID"]}})
        cluster.create("engines", {"metadata": {"name": self.engine, "labels": labels, "ownerReferences": self.owner},
                                   "spec": {"volumeName": name, "volumeSize": str(size), "desireState": "stopped",
                                            "frontend": "blockdev"}})

    def start_replicas(self):
        for replica in self.replicas:
            self.c.merge("replicas", replica, {"spec": {"desireState": "running"}})
        return [self.wait_replica(one) for one in self.replicas]

    def wait_replica(self, name, state="running"):
        return wait_for(f"{name} {state}", lambda: (s := self.c.status("replicas", name)).get("currentState") == state
                        and s)

    def grant(self, node, **spec):
        """The next epoch for the engine on that node."""
        addresses = {}
        for one in self.replicas:
            status = self.c.status("replicas", one)
            if status.get("currentState") == "running":
                addresses[one] = f"{status['ip']}:{status['port']}"
        now = self.c.get("grants", self.name)["spec"]["epoch"] + 1
        self.set_active({"epoch": now, "engine": self.engine, "node": node,
                         "incarnation": self.c.incarnation(node)}, {"type": "Fenced", "fencedByEpoch": now})
        self.c.merge("engines", self.engine, {"spec": {"nodeID": node, "desireState": "running",
                                                       "replicaAddressMap": addresses, **spec}})
        return now

    def wait_engine(self, state, epoch=None, seconds=60):
        def look():
            status = self.c.status("engines", self.engine)
            return status.get("currentState") == state and epoch in (None, status.get("epoch")) and status
        try:
            return wait_for(f"{self.engine} {state} in epoch {epoch}", look, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.c.status('engines', self.engine)}") from None

    def attach(self, node, **spec):
        self.start_replicas()
        epoch = self.grant(node, **spec)
        return self.wait_engine("running", epoch)

    def stop(self):
        self.c.merge("engines", self.engine, {"spec": {"desireState": "stopped"}})

    def released(self):
        """What the volume controller does once the engine has stopped."""
        self.set_active(None, {"type": "Unmounted"})

    def set_active(self, holder, proof):
        """With the proof that the one before it writes no more."""
        spec = self.c.get("grants", self.name)["spec"]
        proofs = spec.get("proofs", [])
        if spec.get("active"):
            proofs = proofs + [{**proof, "holder": spec["active"]}]
        epoch = holder["epoch"] if holder else spec["epoch"]
        self.c.merge("grants", self.name, {"spec": {"epoch": epoch, "active": holder, "proofs": proofs}})

    def members(self):
        return self.c.get("grants", self.name)["spec"]["members"]

    def engine_key(self):
        return "e-" + self.c.get("engines", self.engine)["metadata"]["uid"][:13]

    def replica_key(self, name):
        return "r-" + self.c.get("replicas", name)["metadata"]["uid"][:13]
