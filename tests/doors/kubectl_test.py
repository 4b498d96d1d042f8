"""Every kubectl from 1.27 on against a real server: what people type, and what they must see."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from moord import DEADLINE, Server, find_kubectls, say, skip, unpack_debian_kubectl

NS = "longhorn-system"

# As the page on live migration prints it, its comment too.
MIGRATABLE_CLASS = """kind: StorageClass
apiVersion: storage.k8s.io/v1
metadata:
  name: longhorn-migratable
provisioner: driver.longhorn.io
allowVolumeExpansion: true
parameters:
  numberOfReplicas: "3"
  staleReplicaTimeout: "2880" # 48 hours in minutes
  fromBackup: ""
  migratable: "true"
"""


def volume(name, labels=None, **spec):
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
            "metadata": {"name": name, "namespace": NS, **({"labels": labels} if labels else {})},
            "spec": {"size": "1073741824", "numberOfReplicas": 3, "frontend": "blockdev", **spec}}


def persistent_volume(name):
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                     "persistentVolumeReclaimPolicy": "Retain",
                     "csi": {"driver": "driver.longhorn.io", "volumeHandle": name}}}


class Kubectl:
    def __init__(self, path, server):
        self.path = path
        home = server.directory / "home"
        home.mkdir(exist_ok=True)
        self.home = home
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": server.kubeconfig,
                    "KUBECACHEDIR": str(home / "cache"), "KUBE_EDITOR": str(home / "editor")}

    def run(self, *arguments, objects=None, text=None, expect=0):
        text = text if objects is None else json.dumps(
            objects if isinstance(objects, dict) else
            {"apiVersion": "v1", "kind": "List", "items": objects})
        run = subprocess.run([self.path, *arguments], input=text, env=self.env, capture_output=True, text=True,
                             timeout=DEADLINE)
        if (run.returncode == 0) != (expect == 0):
            raise AssertionError(f"kubectl {' '.join(arguments)}: exit {run.returncode}\n{run.stdout}\n{run.stderr}")
        self.stderr = run.stderr
        return run.stdout if expect == 0 else run.stdout + run.stderr

    def json(self, *arguments, **options):
        return json.loads(self.run(*arguments, "-o", "json", **options))

    def start(self, *arguments):
        return subprocess.Popen([self.path, *arguments], env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


def has(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is missing in:\n{text}"


def has_not(text, *parts):
    for part in parts:
        assert part not in text, f"{part!r} should not be in:\n{text}"


def discovery(k):
    text = k.run("api-resources")
    has(text, "volumes", "longhorn.io/v1beta2", "lhv", "persistentvolumes", "StorageClass", "Lease")
    has(k.run("api-versions"), "longhorn.io/v1beta2", "storage.k8s.io/v1", "v1\n", "authorization.k8s.io/v1")
    has(k.run("api-resources", "--api-group=longhorn.io", "-o", "name"), "volumes.longhorn.io")
    has(k.run("version"), "Server Version")
    # Plain names mean what a Kubernetes user expects; ours have short names.
    has(k.run("get", "nodes", "-v", "6") + k.stderr, "/api/v1/nodes")
    has(k.run("get", "lhn", "-v", "6") + k.stderr, "/apis/longhorn.io/v1beta2/")


def explain(k):
    has(k.run("explain", "volumes.longhorn.io"), "KIND:", "Volume", "spec")
    has(k.run("explain", "volumes.longhorn.io.spec.numberOfReplicas"), "numberOfReplicas", "integer")
    has(k.run("explain", "pv.spec.csi.volumeHandle"), "volumeHandle", "string")
    has(k.run("explain", "volumes.longhorn.io", "--recursive"), "migrationNodeID", "conditions")
    has(k.run("explain", "volumes.longhorn.io.spec.nothing", expect=1), "does not exist")


def create(k):
    has(k.run("create", "-f", "-", objects=volume("v1", {"app": "db"})), "volume.longhorn.io/v1 created")
    has(k.run("create", "-f", "-", objects=volume("v1"), expect=1), "AlreadyExists")
    has(k.run("create", "-f", "-", objects=volume("v2", {"app": "web"})), "created")
    has(k.run("create", "-f", "-", objects=persistent_volume("pv1")), "persistentvolume/pv1 created")
    has(k.run("create", "-f", "-", "--dry-run=server", objects=volume("dry")), "created (server dry run)")
    has(k.run("get", "lhv", "dry", "-n", NS, expect=1), "NotFound")
    has(k.run("create", "-f", "-", objects=volume("bad", sizzle=1), expect=1), "strict decoding error",
        'unknown field "spec.sizzle"')
    has(k.run("create", "-f", "-", objects=volume("bad", numberOfReplicas="three"), expect=1), "numberOfReplicas")
    k.run("create", "-f", "-", "--validate=warn", objects=volume("warned", sizzle=1))
    has(k.stderr, "Warning:", "spec.sizzle")
    has(k.run("create", "namespace", "team"), "namespace/team created")  # protobuf from 1.33 on
    has(k.run("create", "namespace", "team", expect=1), "AlreadyExists")
    has(k.run("create", "secret", "generic", "keys", "-n", "team", "--from-literal=a=secret"), "secret/keys created")
    assert k.json("get", "secret", "keys", "-n", "team")["data"] == {"a": "c2VjcmV0"}
    has(k.run("get", "ns"), "team", "Active", "longhorn-system", "default")
    named = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
             "metadata": {"generateName": "gen-", "namespace": NS}, "spec": {"size": "1073741824"}}
    assert k.json("create", "-f", "-", objects=named)["metadata"]["name"].startswith("gen-")


def get(k):
    table = k.run("get", "volumes.longhorn.io", "-n", NS)
    has(table.splitlines()[0], "NAME", "STATE", "ROBUSTNESS", "SIZE", "NODE", "AGE")
    has(table, "v1", "v2", "1073741824")
    has(k.run("get", "pv", "-o", "wide").splitlines()[0], "NAME", "CAPACITY", "ACCESS MODES", "VOLUMEMODE")
    has(k.run("get", "lhv", "v1", "-n", NS, "-o", "yaml"), "apiVersion: longhorn.io/v1beta2", "uid:", "name: v1")
    has(k.run("get", "lhv", "v1", "-n", NS, "--show-managed-fields", "-o", "yaml"), "manager: kubectl-create")
    assert k.run("get", "lhv", "v1", "-n", NS, "-o", "jsonpath={.spec.size}") == "1073741824"
    has(k.run("get", "lhv", "-n", NS, "-o", "name"), "volume.longhorn.io/v1")
    only = k.run("get", "lhv", "-n", NS, "-l", "app=db", "-o", "name").split()
    assert only == ["volume.longhorn.io/v1"], only
    only = k.run("get", "lhv", "-n", NS, "-l", "app in (db,web),!gone", "-o", "name").split()
    assert sorted(only) == ["volume.longhorn.io/v1", "volume.longhorn.io/v2"], only
    only = k.run("get", "lhv", "-n", NS, "--field-selector", "metadata.name=v2", "-o", "name").split()
    assert only == ["volume.longhorn.io/v2"], only
    has(k.run("get", "lhv", "-n", NS, "--field-selector", "spec.nonsense=1", expect=1), "field label not supported")
    has(k.run("get", "lhv", "-A").splitlines()[0], "NAMESPACE")
    has(k.run("get", "lhv", "-n", NS, "--show-labels"), "app=db")
    has(k.run("get", "lhv", "-n", NS, "-L", "app"), "APP")
    has(k.run("get", "lhv", "-n", NS, "--sort-by=.metadata.name"), "v1")
    has(k.run("get", "lhv", "-n", NS, "-o", "custom-columns=N:.metadata.name,S:.spec.size"), "v1 ", "1073741824")
    all_names = k.run("get", "lhv", "-n", NS, "-o", "name").split()
    in_pieces = k.run("get", "lhv", "-n", NS, "-o", "name", "--chunk-size=1").split()
    assert all_names == in_pieces and len(all_names) >= 4, (all_names, in_pieces)
    has(k.run("get", "lhv,pv", "-n", NS, "-o", "name"), "volume.longhorn.io/v1", "persistentvolume/pv1")
    has(k.run("get", "lhv", "nothing", "-n", NS, expect=1), "NotFound", '"nothing" not found')
    has(k.run("get", "--raw", "/readyz"), "ok")


def apply_client_side(k):
    one = volume("applied", {"a": "1"})
    has(k.run("apply", "-f", "-", objects=one), "volume.longhorn.io/applied created")
    has(k.run("apply", "-f", "-", objects=one), "unchanged")
    one["spec"]["numberOfReplicas"] = 2
    one["metadata"]["labels"] = {"b": "2"}
    has(k.run("diff", "-f", "-", objects=one, expect=1), "-  numberOfReplicas: 3", "+  numberOfReplicas: 2")
    has(k.run("apply", "-f", "-", objects=one), "configured")
    live = k.json("get", "lhv", "applied", "-n", NS)
    labels = live["metadata"]["labels"]  # the server adds its own
    assert live["spec"]["numberOfReplicas"] == 2 and labels["b"] == "2" and "a" not in labels, live
    assert live["metadata"]["generation"] == 2, live["metadata"]
    pv = persistent_volume("pv-applied")  # a kind that kubectl knows: strategic merge patch
    has(k.run("apply", "-f", "-", objects=pv), "persistentvolume/pv-applied created")
    pv["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    has(k.run("apply", "-f", "-", objects=pv), "configured")
    assert k.run("get", "pv", "pv-applied", "-o", "jsonpath={.spec.persistentVolumeReclaimPolicy}") == "Delete"


def migratable_class(k):
    has(k.run("apply", "-f", "-", text=MIGRATABLE_CLASS), "storageclass.storage.k8s.io/longhorn-migratable created")
    has(k.run("apply", "-f", "-", text=MIGRATABLE_CLASS), "unchanged")
    has(k.run("get", "sc", "longhorn-migratable"), "driver.longhorn.io", "Delete", "Immediate", "true")
    assert k.run("get", "sc", "longhorn-migratable", "-o", "jsonpath={.parameters.migratable}") == "true"
    refused = k.run("apply", "-f", "-", objects=volume("single", accessMode="rwo", migratable=True), expect=1)
    has(refused, "spec.migratable", "a migratable volume needs accessMode rwx")
    k.run("delete", "sc", "longhorn-migratable")


def apply_server_side(k):
    one = volume("ssa")
    has(k.run("apply", "--server-side", "-f", "-", objects=one), "serverside-applied")
    has(k.run("apply", "--server-side", "-f", "-", objects=one), "serverside-applied")
    one["spec"]["numberOfReplicas"] = 2
    text = k.run("apply", "--server-side", "--field-manager=other", "-f", "-", objects=one, expect=1)
    has(text, "conflict", '"kubectl"', ".spec.numberOfReplicas")
    k.run("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", objects=one)
    live = k.json("get", "lhv", "ssa", "-n", NS, "--show-managed-fields")
    assert live["spec"]["numberOfReplicas"] == 2
    managers = {one["manager"]: one for one in live["metadata"]["managedFields"]}
    assert managers["other"]["operation"] == "Apply", managers
    assert "f:numberOfReplicas" in managers["other"]["fieldsV1"]["f:spec"], managers
    assert "f:numberOfReplicas" not in managers["kubectl"]["fieldsV1"]["f:spec"], managers
    has(k.run("apply", "--server-side", "--dry-run=server", "-f", "-", objects=volume("ssa-dry")), "server dry run")
    has(k.run("get", "lhv", "ssa-dry", "-n", NS, expect=1), "NotFound")


def patch(k):
    v1 = ["lhv", "v1", "-n", NS]
    has(k.run("patch", *v1, "--type=merge", "-p", '{"spec":{"numberOfReplicas":1}}'), "patched")
    has(k.run("patch", *v1, "--type=merge", "-p", '{"spec":{"numberOfReplicas":1}}'), "no change")
    k.run("patch", *v1, "--type=json", "-p", '[{"op":"replace","path":"/spec/numberOfReplicas","value":2}]')
    k.run("patch", "pv", "pv1", "--type=strategic", "-p", '{"spec":{"storageClassName":"fast"}}')
    assert k.run("get", "pv", "pv1", "-o", "jsonpath={.spec.storageClassName}") == "fast"
    has(k.run("patch", *v1, "--type=strategic", "-p", "{}", expect=1), "is not supported")
    before = k.json("get", *v1)
    k.run("patch", *v1, "--subresource=status", "--type=merge", "-p",
          '{"status":{"state":"detached"},"spec":{"numberOfReplicas":5}}')
    after = k.json("get", *v1)
    assert after["status"]["state"] == "detached" and after["spec"] == before["spec"], after
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    k.run("patch", *v1, "--type=merge", "-p", '{"status":{"state":"attached"}}')
    assert k.json("get", *v1)["status"]["state"] == "detached"
    has(k.run("get", *v1, "--subresource=status"), "v1")
    has(k.run("patch", *v1, "--type=merge", "-p", '{"spec":{"frontend":"telepathy"}}', expect=1), "Unsupported value")


def label_and_annotate(k):
    has(k.run("label", "lhv", "v1", "-n", NS, "tier=gold"), "labeled")
    has(k.run("label", "lhv", "v1", "-n", NS, "tier=tin", expect=1), "overwrite")
    k.run("label", "lhv", "v1", "-n", NS, "tier=tin", "--overwrite")
    k.run("label", "lhv", "v1", "-n", NS, "tier-")
    assert "tier" not in k.json("get", "lhv", "v1", "-n", NS)["metadata"]["labels"]
    has(k.run("annotate", "pv", "pv1", "note=hello"), "annotate")  # 1.27 leaves the d out
    assert k.json("get", "pv", "pv1")["metadata"]["annotations"]["note"] == "hello"


def edit_and_replace(k):
    editor = pathlib.Path(k.env["KUBE_EDITOR"])
    editor.write_text("#!/bin/sh\nsed -i 's/numberOfReplicas: [0-9]*/numberOfReplicas: 3/' \"$1\"\n")
    editor.chmod(0o700)
    has(k.run("edit", "lhv", "v2", "-n", NS) + k.stderr, "Edit cancelled")
    k.run("patch", "lhv", "v2", "-n", NS, "--type=merge", "-p", '{"spec":{"numberOfReplicas":1}}')
    has(k.run("edit", "lhv", "v2", "-n", NS), "volume.longhorn.io/v2 edited")
    live = k.json("get", "lhv", "v2", "-n", NS)
    assert live["spec"]["numberOfReplicas"] == 3
    live["spec"]["numberOfReplicas"] = 2
    has(k.run("replace", "-f", "-", objects=live), "replaced")
    has(k.run("replace", "-f", "-", objects=live, expect=1), "Conflict", "the object has been modified")


def describe_and_events(k):
    uid = k.json("get", "lhv", "v1", "-n", NS)["metadata"]["uid"]
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "v1.1", "namespace": NS},
             "involvedObject": {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "namespace": NS,
                                "name": "v1", "uid": uid},
             "reason": "Degraded", "message": "one replica is behind", "type": "Warning", "count": 1,
             "source": {"component": "test"}, "firstTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
             "lastTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    k.run("create", "-f", "-", objects=event)
    has(k.run("describe", "lhv", "v1", "-n", NS), "Name:", "v1", "Number Of Replicas", "Events:", "Degraded",
        "one replica is behind")
    has(k.run("events", "-n", NS), "Degraded", "Volume/v1", "one replica is behind")
    # 1.27 takes no group here: what stands before the slash must be a resource's own name.
    mine = "volume.longhorn.io/v1" if k.minor >= 28 else "lhv/v1"
    has(k.run("events", "-n", NS, "--for", mine, "--types=Warning"), "Degraded")
    has(k.run("get", "events", "-n", NS), "LAST SEEN", "TYPE", "REASON", "Degraded")
    has(k.run("get", "events", "-n", NS, "--field-selector", "reason=Nothing") + k.stderr, "No resources found")
    has(k.run("describe", "pv", "pv1"), "pv1", "Retain", "driver.longhorn.io")
    has(k.run("describe", "ns", "team"), "team", "Active")


def watching(k):
    watch = k.start("get", "lhv", "-n", NS, "-w", "-l", "watched=yes", "--output-watch-events")
    lines = []
    seen = threading.Condition()

    def read():
        for line in watch.stdout:
            with seen:
                lines.append(line)
                seen.notify_all()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()

    def until(*words):
        with seen:
            assert seen.wait_for(lambda: any(all(word in line for word in words) for line in lines), DEADLINE), lines

    try:
        k.run("create", "-f", "-", objects=volume("w1", {"watched": "yes"}))
        until("ADDED", "w1")
        has(lines[0], "EVENT", "NAME", "STATE")
        k.run("patch", "lhv", "w1", "-n", NS, "--subresource=status", "--type=merge", "-p",
              '{"status":{"state":"attached"}}')
        until("MODIFIED", "w1", "attached")
        k.run("label", "lhv", "w1", "-n", NS, "watched-")  # leaves the view: gone, for this watch
        until("DELETED", "w1")
    finally:
        watch.kill()
        watch.wait()


def waiting(k):
    wait = k.start("wait", "lhv/v1", "-n", NS, "--for=jsonpath={.status.state}=attached", f"--timeout={DEADLINE}s")
    k.run("patch", "lhv", "v1", "-n", NS, "--subresource=status", "--type=merge", "-p",
          '{"status":{"state":"attached"}}')
    assert wait.wait(DEADLINE) == 0, wait.stderr.read()
    condition = {"status": {"conditions": [{"type": "Scheduled", "status": "True", "reason": "", "message": "",
                                            "lastProbeTime": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    k.run("patch", "lhv", "v1", "-n", NS, "--subresource=status", "--type=merge", "-p", json.dumps(condition))
    has(k.run("wait", "lhv/v1", "-n", NS, "--for=condition=Scheduled", "--timeout=30s"), "condition met")
    has(k.run("wait", "lhv/v1", "-n", NS, "--for=condition=Nothing", "--timeout=1s", expect=1), "timed out")
    k.run("create", "-f", "-", objects=volume("short-lived"))
    wait = k.start("wait", "lhv/short-lived", "-n", NS, "--for=delete", f"--timeout={DEADLINE}s")
    k.run("delete", "lhv", "short-lived", "-n", NS, "--wait=false")
    assert wait.wait(DEADLINE) == 0, wait.stderr.read()


def owned(name, owner, uid):
    one = volume(name, {"owner": owner})
    one["metadata"]["ownerReferences"] = [{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": owner,
                                           "uid": uid, "blockOwnerDeletion": True}]
    return one


def deleting(k):
    held = volume("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    k.run("create", "-f", "-", objects=held)
    has(k.run("delete", "lhv", "held", "-n", NS, "--wait=false"), '"held" deleted')
    assert "deletionTimestamp" in k.json("get", "lhv", "held", "-n", NS)["metadata"]
    k.run("patch", "lhv", "held", "-n", NS, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    has(k.run("get", "lhv", "held", "-n", NS, expect=1), "NotFound")
    for cascade in ["background", "foreground", "orphan"]:
        uid = k.json("create", "-f", "-", objects=volume("owner-" + cascade))["metadata"]["uid"]
        child = "child-" + cascade
        k.run("create", "-f", "-", objects=owned(child, "owner-" + cascade, uid))
        k.run("delete", "lhv", "owner-" + cascade, "-n", NS, "--cascade=" + cascade, f"--timeout={DEADLINE}s")
        if cascade == "orphan":
            assert "ownerReferences" not in k.json("get", "lhv", child, "-n", NS)["metadata"]
        else:
            k.run("wait", "lhv/" + child, "-n", NS, "--for=delete", f"--timeout={DEADLINE}s")
    k.run("create", "-f", "-", objects=[volume(f"many-{i}", {"many": "yes"}) for i in range(5)])
    text = k.run("delete", "lhv", "-n", NS, "-l", "many=yes")
    assert text.count("deleted") == 5, text
    k.run("create", "-f", "-", objects={**volume("in-team"), "metadata": {"name": "in-team", "namespace": "team"}})
    k.run("delete", "ns", "team", f"--timeout={DEADLINE}s")
    has(k.run("get", "lhv", "in-team", "-n", "team", expect=1), "NotFound")
    has(k.run("delete", "lhv", "nothing", "-n", NS, expect=1), "NotFound")
    k.run("delete", "lhv", "nothing", "-n", NS, "--ignore-not-found")
    has(k.run("delete", "pv", "pv1", "--dry-run=server"), "server dry run")
    has(k.run("delete", "pv", "--all"), '"pv1" deleted')


def access(k):
    assert k.run("auth", "can-i", "create", "volumes.longhorn.io", "-n", NS).strip() == "yes"
    assert k.run("auth", "can-i", "*", "*").strip() == "yes"
    has(k.run("auth", "can-i", "--list"), "*.*", "[*]")
    if k.minor >= 28:
        has(k.run("auth", "whoami"), "admin", "system:masters")
    view = ["--token=view-token-0123456789", "--kubeconfig=" + str(k.token_config)]
    text = k.run(*view, "auth", "can-i", "create", "volumes.longhorn.io", "-n", NS, expect=1)
    has(text, "no")
    has(k.run(*view, "auth", "can-i", "list", "volumes.longhorn.io", "-n", NS), "yes")
    has(k.run(*view, "get", "lhv", "-n", NS), "v1")
    has(k.run(*view, "delete", "lhv", "v1", "-n", NS, expect=1), "Forbidden", "cannot delete resource")
    has(k.run(*view, "get", "secrets", "-n", NS, expect=1), "Forbidden")
    wrong = ["--token=wrong-token-0123456789", "--kubeconfig=" + str(k.token_config)]
    has(k.run(*wrong, "get", "lhv", "-n", NS, expect=1), "You must be logged in to the server")


def cluster_scoped(k):
    """The same words on core kinds without a namespace, which kubectl knows by their Go types."""
    pv = persistent_volume("cs")
    has(k.run("apply", "--server-side", "-f", "-", objects=pv), "serverside-applied")
    pv["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    has(k.run("apply", "--server-side", "--field-manager=other", "-f", "-", objects=pv, expect=1), "conflict",
        ".spec.persistentVolumeReclaimPolicy")
    has(k.run("diff", "--server-side", "-f", "-", objects=pv, expect=1), "+  persistentVolumeReclaimPolicy: Delete")
    k.run("create", "-f", "-", objects={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"rack": "r1"}}})
    has(k.run("get", "nodes", "-l", "rack=r1", "-o", "name"), "node/n1")
    has(k.run("get", "pv", "--field-selector", "metadata.name=cs", "-o", "jsonpath={.items[*].metadata.name}"), "cs")
    assert k.run("get", "pv", "-o", "name", "--chunk-size=1") == k.run("get", "pv", "-o", "name")
    for form, text in [("json", '[{"op":"add","path":"/metadata/labels","value":{"j":"1"}}]'),
                       ("merge", '{"metadata":{"labels":{"m":"1"}}}'), ("strategic", '{"metadata":{"labels":{"s":"1"}}}')]:
        has(k.run("patch", "pv", "cs", "--type=" + form, "-p", text), "patched")
    assert k.json("get", "pv", "cs")["metadata"]["labels"] == {"j": "1", "m": "1", "s": "1"}
    watch = k.start("get", "pv", "cs", "-w", "--output-watch-events")
    assert watch.stdout.readline().split()[:2] == ["EVENT", "NAME"]
    has(watch.stdout.readline(), "ADDED", "cs")
    k.run("patch", "pv", "cs", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Available"}}')
    has(watch.stdout.readline(), "MODIFIED", "cs", "Available")
    watch.kill()
    watch.communicate()
    has(k.run("wait", "pv/cs", "--for=jsonpath={.status.phase}=Available", "--timeout=30s"), "condition met")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "",
                                        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    k.run("patch", "node", "n1", "--subresource=status", "--type=strategic", "-p", json.dumps(ready))
    has(k.run("wait", "node/n1", "--for=condition=Ready", "--timeout=30s"), "condition met")
    has(k.run("get", "nodes"), "n1", "Ready")
    has(k.run("describe", "node", "n1"), "n1", "Ready")
    has(k.run("label", "pv", "cs", "tier=gold"), "labeled")
    has(k.run("annotate", "node", "n1", "note=hello"), "annotate")
    editor = pathlib.Path(k.env["KUBE_EDITOR"])
    editor.write_text("#!/bin/sh\nsed -i 's/tier: gold/tier: tin/' \"$1\"\n")
    editor.chmod(0o700)
    has(k.run("edit", "pv", "cs"), "persistentvolume/cs edited")
    live = k.json("get", "pv", "cs")
    assert live["metadata"]["labels"]["tier"] == "tin", live
    live["metadata"]["finalizers"] = ["example.com/hold"]
    has(k.run("replace", "-f", "-", objects=live), "replaced")
    has(k.run("delete", "pv", "cs", "--wait=false"), '"cs" deleted')
    has(k.run("get", "pv", "cs"), "Terminating")
    waiting_for = k.start("wait", "pv/cs", "--for=delete", f"--timeout={DEADLINE}s")
    k.run("patch", "pv", "cs", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert waiting_for.wait(DEADLINE) == 0, waiting_for.stderr.read()
    for cascade in ["background", "foreground", "orphan"]:
        uid = k.json("create", "-f", "-", objects=persistent_volume("owner"))["metadata"]["uid"]
        child = persistent_volume("child-" + cascade)
        child["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "PersistentVolume", "name": "owner", "uid": uid,
                                                 "blockOwnerDeletion": True}]
        k.run("create", "-f", "-", objects=child)
        k.run("delete", "pv", "owner", "--cascade=" + cascade, f"--timeout={DEADLINE}s")
        if cascade != "orphan":
            k.run("wait", "pv/child-" + cascade, "--for=delete", f"--timeout={DEADLINE}s")
    assert "ownerReferences" not in k.json("get", "pv", "child-orphan")["metadata"]
    k.run("label", "pv", "child-orphan", "gone=soon")
    assert k.run("delete", "pv", "-l", "gone=soon").count("deleted") == 1
    assert k.run("auth", "can-i", "delete", "nodes").strip() == "yes"
    has(k.run("explain", "node.status.conditions.lastHeartbeatTime"), "lastHeartbeatTime")


def old_kubectl(k):
    """Debian's 1.20 for what it can: it knows only /openapi/v2, so neither explain nor diff."""
    unchecked = "--validate=false"
    has(k.run("api-resources"), "volumes", "lhv", "persistentvolumes")
    has(k.run("version"), "Server Version")
    has(k.run("create", "-f", "-", unchecked, objects=volume("v1", {"app": "db"})), "volume.longhorn.io/v1 created")
    has(k.run("create", "-f", "-", unchecked, objects=persistent_volume("pv1")), "persistentvolume/pv1 created")
    has(k.run("create", "namespace", "team"), "namespace/team created")
    for one in [volume("applied"), persistent_volume("pv-applied")]:
        has(k.run("apply", "-f", "-", unchecked, objects=one), "created")
        has(k.run("apply", "-f", "-", unchecked, objects=one), "unchanged")
        one["metadata"]["labels"] = {"a": "b"}
        has(k.run("apply", "-f", "-", unchecked, objects=one), "configured")
    has(k.run("apply", "--server-side", unchecked, "-f", "-", objects=volume("ssa")), "serverside-applied")
    has(k.run("get", "lhv", "-n", NS).splitlines()[0], "NAME", "STATE", "ROBUSTNESS")
    has(k.run("get", "pv", "-o", "wide").splitlines()[0], "NAME", "CAPACITY", "VOLUMEMODE")
    assert k.run("get", "lhv", "v1", "-n", NS, "-o", "jsonpath={.spec.size}") == "1073741824"
    assert k.run("get", "lhv", "-n", NS, "-l", "app=db", "-o", "name").split() == ["volume.longhorn.io/v1"]
    assert k.run("get", "lhv", "-n", NS, "--field-selector", "metadata.name=v1", "-o", "name").split() == ["volume.longhorn.io/v1"]
    assert k.run("get", "lhv", "-n", NS, "-o", "name", "--chunk-size=1") == k.run("get", "lhv", "-n", NS, "-o", "name")
    has(k.run("patch", "lhv", "v1", "-n", NS, "--type=merge", "-p", '{"spec":{"numberOfReplicas":1}}'), "patched")
    has(k.run("patch", "lhv", "v1", "-n", NS, "--type=json", "-p",
              '[{"op":"replace","path":"/spec/numberOfReplicas","value":2}]'), "patched")
    has(k.run("patch", "pv", "pv1", "--type=strategic", "-p", '{"spec":{"storageClassName":"fast"}}'), "patched")
    has(k.run("label", "lhv", "v1", "-n", NS, "tier=gold"), "labeled")
    has(k.run("annotate", "pv", "pv1", "note=hello"), "annotated")
    live = k.json("get", "lhv", "v1", "-n", NS)
    live["spec"]["numberOfReplicas"] = 3
    has(k.run("replace", unchecked, "-f", "-", objects=live), "replaced")
    has(k.run("replace", unchecked, "-f", "-", objects=live, expect=1), "Conflict")
    editor = pathlib.Path(k.env["KUBE_EDITOR"])
    editor.write_text("#!/bin/sh\nsed -i 's/numberOfReplicas: [0-9]*/numberOfReplicas: 1/' \"$1\"\n")
    editor.chmod(0o700)
    has(k.run("edit", unchecked, "lhv", "v1", "-n", NS), "edited")
    has(k.run("describe", "lhv", "v1", "-n", NS), "Name:", "v1", "Events:")
    has(k.run("describe", "pv", "pv1"), "pv1", "Retain")
    watch = k.start("get", "lhv", "v1", "-n", NS, "-w", "--output-watch-events")
    assert watch.stdout.readline().split()[:2] == ["EVENT", "NAME"]
    has(watch.stdout.readline(), "ADDED", "v1")
    k.run("label", "lhv", "v1", "-n", NS, "seen=yes")
    has(watch.stdout.readline(), "MODIFIED", "v1")
    watch.kill()
    watch.communicate()
    assert k.run("auth", "can-i", "create", "volumes.longhorn.io", "-n", NS).strip() == "yes"
    for cascade in ["background", "foreground", "orphan"]:
        k.run("create", "-f", "-", unchecked, objects=volume("c-" + cascade))
        has(k.run("delete", "lhv", "c-" + cascade, "-n", NS, "--cascade=" + cascade), "deleted")
    k.run("delete", "lhv", "-l", "app=db", "-n", NS)
    has(k.run("get", "lhv", "v1", "-n", NS, expect=1), "NotFound")
    k.run("delete", "ns", "team", f"--timeout={DEADLINE}s")


STEPS = [discovery, explain, create, get, apply_client_side, migratable_class, apply_server_side, patch, label_and_annotate,
         edit_and_replace, describe_and_events, watching, waiting, access, cluster_scoped, deleting]


def token_config(server):
    """A kubeconfig without a user: the token comes on the command line."""
    path = server.directory / "home" / "token-config"
    path.write_text("apiVersion: v1\nkind: Config\nclusters:\n- name: m\n  cluster:\n"
                    f"    server: {server.url}\n    certificate-authority: {server.state}/pki/ca.crt\n"
                    "contexts:\n- name: m\n  context:\n    cluster: m\n    user: ''\ncurrent-context: m\n")
    return path


def run_steps(version, path, steps, verbose):
    """How many of the steps failed."""
    failures = 0
    with Server() as server:
        pathlib.Path(server.state, "tokens.csv").write_text('view-token-0123456789,jane,1,"mooring:view"\n')
        k = Kubectl(path, server)
        k.token_config = token_config(server)
        k.minor = int(version.split(".")[1])
        for step in steps:
            try:
                step(k)
                if verbose:
                    say(f"ok   {version} {step.__name__}")
            except Exception as problem:  # the next steps may still tell something
                failures += 1
                say(f"FAIL {version} {step.__name__}: {type(problem).__name__}: {problem}")
        code = server.stop()
        if code != 0 or server.rest_of_stdout:
            failures += 1
            say(f"FAIL {version}: the server ended with {code}, {server.rest_of_stdout!r}\n{server.log_text()}")
    say(f"{version}: {len(steps)} groups, {failures} failures")
    return failures


def main():
    """Without arguments all that is found; `kubectl_test.py 1.33` only the versions that begin so."""
    wanted = sys.argv[1:]
    found = find_kubectls()
    if not found:
        say("skipped: no kubectl from 1.27 on")
    failures = 0
    ran = 0
    for version, path in sorted(found.items()):
        if wanted and not any(version.startswith("v" + one) for one in wanted):
            continue
        failures += run_steps(version, path, STEPS, bool(wanted))
        ran += 1
    with tempfile.TemporaryDirectory(prefix="moord-kubectl-") as directory:
        old = None if wanted and "1.20" not in wanted else unpack_debian_kubectl(directory)
        if old:
            failures += run_steps("v1.20", old, [old_kubectl], bool(wanted))
            ran += 1
    if ran == 0:
        skip("no kubectl at all")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
