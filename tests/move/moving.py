"""A cluster with a migratable volume, seen by whoever moves it: tickets, the move's phase, NBD addresses, processes."""
import json
import os
import re
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

from guest_image import SIZE
from qemu import BLOCK, Qemu, check_console, check_volume, nbd_disk, ready_guest
from support import BIN, DEADLINE, Dev, volume_bytes, wait_until

OBJECTS = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system"


class Cluster(Dev):
    """`moord dev --netns` with three nodes, and its API."""

    def __init__(self, place):
        super().__init__(place, "--netns")

    def __enter__(self):
        super().__enter__()
        self.token = next(self.state.rglob("admin.token")).read_text().strip()
        self.context = ssl.create_default_context(cafile=str(next(self.state.rglob("pki/ca.crt"))))
        return self

    def ask(self, method, path, body=None, content_type="application/json"):
        """The answer, None for 404. A server that was just killed is asked again."""
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type})

        def send():
            try:
                with urllib.request.urlopen(request, timeout=DEADLINE, context=self.context) as answer:
                    return (json.loads(answer.read()),)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return (None,)
                if error.code in (409, 429, 500, 503, 504):
                    return None
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error
            except OSError:
                return None
        return wait_until(send, f"{method} {path}")[0]

    def get(self, kind, name):
        return self.ask("GET", f"{OBJECTS}/{kind}/{name}")

    def namespace(self, node):
        """The network namespace of a node, by its agent."""
        pid = wait_until(lambda: self.pids("agent", node), f"the agent of {node}")[0]
        return subprocess.run(["ip", "netns", "identify", str(pid)], check=True, capture_output=True, text=True,
                              timeout=DEADLINE).stdout.strip()

    def address(self, node):
        text = subprocess.run(["ip", "-n", self.namespace(node), "-4", "-o", "addr", "show", "dev", "eth0"], check=True,
                              capture_output=True, text=True, timeout=DEADLINE).stdout
        return re.search(r"inet ([0-9.]+)/", text)[1]


class Volume:
    """One migratable volume with three replicas."""

    def __init__(self, cluster, name="v", size=SIZE):
        self.cluster, self.name = cluster, name
        cluster.place.moor("volume", "create", name, "--size", str(size), "--replicas", "3", "--access-mode", "rwx",
                           "--migratable", "--wait", "--kubeconfig", cluster.state / "kubeconfig")

    def delete(self):
        self.cluster.ask("DELETE", f"{OBJECTS}/volumes/{self.name}")
        self.explain(lambda: self.object() is None, f"{self.name} to be gone")

    def object(self):
        return self.cluster.get("volumes", self.name)

    def status(self):
        return self.object().get("status", {})

    def phase(self):
        return self.status().get("move", {}).get("phase", "")

    def patch_tickets(self, tickets):
        self.cluster.ask("PATCH", f"{OBJECTS}/volumeattachments/{self.name}", {"spec": {"attachmentTickets": tickets}},
                         "application/merge-patch+json")

    def ask_for(self, node, activate=None):
        parameters = {"disableFrontend": "true"}
        if activate is not None:
            parameters["activate"] = activate
        self.patch_tickets({f"csi-{node}": {"id": f"csi-{node}", "type": "csi-attacher", "nodeID": node,
                                            "parameters": parameters}})

    def let_go(self, *nodes):
        self.patch_tickets({f"csi-{node}": None for node in nodes})

    def is_satisfied(self, node):
        book = self.cluster.get("volumeattachments", self.name) or {}
        ticket = book.get("spec", {}).get("attachmentTickets", {}).get(f"csi-{node}", {})
        status = book.get("status", {}).get("attachmentTicketStatuses", {}).get(f"csi-{node}", {})
        return status.get("satisfied") and status.get("generation", 0) == ticket.get("generation", 0)

    def engine(self, node):
        """The Engine object on a node, if there is one."""
        for slot in (f"{self.name}-e", f"{self.name}-e-b"):
            engine = self.cluster.get("engines", slot)
            if engine and engine["spec"].get("nodeID") == node:
                return engine
        return None

    def socket(self, node):
        """The unix socket of the engine on a node, once it serves."""
        def look():
            uri = ((self.engine(node) or {}).get("status") or {}).get("nbdURI", "")
            return uri.partition("socket=")[2]
        return wait_until(look, f"the NBD address of {self.name} on {node}")

    def uri(self, node):
        return f"nbd+unix:///{self.name}?socket={self.socket(node)}"

    def disk(self, node):
        return nbd_disk(self.socket(node), self.name)

    def attach(self, node, **options):
        self.ask_for(node, **options)
        self.explain(lambda: self.is_satisfied(node), f"the ticket of {node}")

    def wait_phase(self, *phases):
        return self.explain(lambda: self.phase() in phases and (self.phase() or "none"), f"the move to be {phases}")

    def wait_settled(self, node):
        """On one node, one engine, no move."""
        def settled():
            volume = self.object()
            status = volume.get("status", {})
            return (status.get("state") == "attached" and status.get("currentNodeID") == node and
                    not status.get("move") and not volume["spec"].get("migrationNodeID") and
                    sum(self.cluster.get("engines", slot) is not None
                        for slot in (f"{self.name}-e", f"{self.name}-e-b")) == 1 and
                    (self.engine(node) or {}).get("status", {}).get("currentState") == "running")
        return self.explain(settled, f"{self.name} to be on {node} alone")

    def explain(self, condition, what):
        """wait_until with the objects in the message."""
        try:
            return wait_until(condition, what)
        except AssertionError as error:
            parts = [self.cluster.get("volumeattachments", self.name)]
            parts += [self.cluster.get("engines", slot) for slot in (f"{self.name}-e", f"{self.name}-e-b")]
            grant = self.cluster.ask("GET", f"/apis/mooring.io/v1alpha1/namespaces/longhorn-system/grants/{self.name}")
            text = "\n".join(json.dumps(strip(one)) for one in [self.object(), grant, *parts] if one)
            logs = [line for line in self.cluster.log_text().splitlines() if self.name in line and "audit" not in line]
            raise AssertionError("\n".join([str(error), text, *self.engine_words(), *logs[-60:]])) from None

    def engine_words(self):
        """What each engine's process says of itself."""
        words = []
        for pid in self.engine_pids():
            command = self.cluster.processes().get(pid, [])
            if "--control" in command:
                done = subprocess.run([BIN / "moorblk", "ctl", command[command.index("--control") + 1], "status"],
                                      capture_output=True, text=True, timeout=DEADLINE)
                words.append(done.stdout + done.stderr)
        return words

    def settle_replicas(self):
        """Every replica that is RW, by name."""
        engine = next((one for one in (self.cluster.get("engines", f"{self.name}-e"),
                                       self.cluster.get("engines", f"{self.name}-e-b"))
                       if one and not one["status"].get("standby")), {})
        return sorted(name for name, mode in engine["status"].get("replicaModeMap", {}).items() if mode == "RW")

    def engine_pids(self, node=None):
        pids = [pid for pid in self.cluster.pids("engine") if self.name in self.cluster.processes().get(pid, [])]
        if node is None:
            return pids
        space = self.cluster.namespace(node)
        return [pid for pid in pids if subprocess.run(["ip", "netns", "identify", str(pid)], capture_output=True,
                                                      text=True, timeout=DEADLINE).stdout.strip() == space]

    def replica_pid(self, node):
        space = self.cluster.namespace(node)
        for pid in self.cluster.pids("replica"):
            found = subprocess.run(["ip", "netns", "identify", str(pid)], capture_output=True, text=True,
                                   timeout=DEADLINE).stdout.strip()
            if found == space:
                return pid
        return None


def strip(one):
    one = dict(one)
    one["metadata"] = {"name": one["metadata"]["name"]}
    return one


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Intruder:
    """Writes to the block that is nobody's through one engine, and must not get through."""

    def __init__(self, socket, export):
        offset = SIZE - BLOCK
        image = {"driver": "nbd", "server": {"type": "unix", "path": socket}, "export": export}
        self.process = subprocess.Popen(["qemu-io", "--image-opts", "-t", "none", "-c",
                                         f"write -P 0xee {offset} {BLOCK}", "-c", "flush",
                                         ",".join(flatten(image))], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def verdict(self):
        """What qemu-io said once it ended."""
        try:
            text = self.process.communicate(timeout=DEADLINE)[0].decode()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        return text


def flatten(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={value}"


class Migration:
    """A guest on node-1, and a QEMU on node-2 that waits for it. Use with `with`; begin_at_destination() comes first."""

    def __init__(self, cluster, volume, directory, source="node-1", destination="node-2"):
        self.cluster, self.volume, self.directory = cluster, volume, directory
        self.source_node, self.destination_node = source, destination
        self.source = ready_guest("source", volume.disk(source), directory=directory, netns=cluster.namespace(source))
        self.destination = None
        self.told = ""

    def __enter__(self):
        self.source.__enter__()
        self.source.begin()
        return self

    def __exit__(self, *_):
        for qemu in (self.destination, self.source):
            if qemu:
                qemu.kill()

    def prepare(self):
        """The second ticket, its standby, and a QEMU on it."""
        self.volume.attach(self.destination_node)
        self.standby = self.volume.engine_pids(self.destination_node)
        self.where = f"tcp:{self.cluster.address(self.destination_node)}:4444"
        self.destination = Qemu("destination", self.volume.disk(self.destination_node), directory=self.directory,
                                netns=self.cluster.namespace(self.destination_node), incoming=self.where)
        self.destination.__enter__()

    def wait_beats(self, qemu, more):
        """Until the guest has written so many more blocks there."""
        goal = qemu.beats() + more
        self.volume.explain(lambda: qemu.beats() >= goal or "BAD" in qemu.text(), f"{goal} heartbeats of {qemu.name}")

    def migrate(self, **options):
        self.source.start_migration(self.where, **options)

    def finish(self):
        self.source.wait_migration("completed")
        self.destination.wait_for("running")

    def check(self, node):
        """Stops the guest; what it said and what is on the volume agree. Gives the number of blocks."""
        runs = self.destination if self.destination and self.destination.process.poll() is None else self.source
        runs.monitor("stop")
        told = self.source.text()
        if runs is self.destination:
            told += self.destination.text()
        last = check_console(told)
        check_volume(volume_bytes(self.volume.uri(node)), last)
        return last
