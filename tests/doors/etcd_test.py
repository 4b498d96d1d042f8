"""The server on a real etcd: what was written is there again after a stop, a kill, and in a second server."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from moord import DEADLINE, Server, skip  # noqa: E402

VOLUMES = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumes"
MERGE = {"Content-Type": "application/merge-patch+json"}


def volume(name):
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": name},
            "spec": {"size": "1073741824"}}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Etcd:
    """One member in a directory of its own. Somebody else may take a port between our look and its start: try again."""

    def __enter__(self):
        self.reader = None
        self.directory = tempfile.mkdtemp(prefix="moord-etcd-")
        for _ in range(5):
            client, peer = free_ports(2)
            self.url = f"http://127.0.0.1:{client}"
            peers = f"http://127.0.0.1:{peer}"
            self.process = subprocess.Popen(
                ["etcd", "--name", "m", "--data-dir", os.path.join(self.directory, str(client)), "--listen-client-urls",
                 self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", peers, "--initial-advertise-peer-urls",
                 peers, "--initial-cluster", f"m={peers}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            timer = threading.Timer(DEADLINE, self.process.kill)
            timer.start()
            ready = any(b"ready to serve client requests" in line for line in self.process.stderr)
            timer.cancel()
            if ready:
                # Its log goes on; somebody must read it or it stops at a full pipe.
                self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
                self.reader.start()
                return self
            self.process.wait()
        self.__exit__()
        raise RuntimeError("etcd did not start")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        if self.reader:
            self.reader.join()
        self.process.stderr.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class OnEtcd(unittest.TestCase):
    def test_objects_outlive_the_server_and_are_shared_by_two(self):
        with Etcd() as etcd, Server("--store", "etcd=" + etcd.url) as server:
            token = server.admin_token
            self.assertEqual(server.request("POST", VOLUMES, volume("v"), token)[0], 201)
            self.assertEqual(server.request("PATCH", VOLUMES + "/v", {"metadata": {"labels": {"a": "1"}}}, token,
                                            headers=MERGE)[0], 200)
            before = server.request("GET", VOLUMES + "/v", token=token)[2]
            self.assertEqual(server.stop(), 0, server.log_text())
            server.start()
            self.assertEqual(server.request("GET", VOLUMES + "/v", token=token)[2], before)
            self.assertEqual(server.request("POST", VOLUMES, volume("w"), token)[0], 201)
            server.process.kill()
            server.process.wait()
            server.start()
            names = [one["metadata"]["name"] for one in server.request("GET", VOLUMES, token=token)[2]["items"]]
            self.assertEqual(names, ["v", "w"])
            with Server("--store", "etcd=" + etcd.url) as second:
                listed = second.request("GET", VOLUMES, token=second.admin_token)[2]
                watch = second.connection()
                watch.request("GET", f"{VOLUMES}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}",
                              headers={"Authorization": f"Bearer {second.admin_token}"})
                response = watch.getresponse()
                self.assertEqual(server.request("DELETE", VOLUMES + "/w", token=token)[0], 200)
                event = json.loads(response.readline())
                self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("DELETED", "w"))
                stale = server.request("GET", VOLUMES + "/v", token=token)[2]
                self.assertEqual(second.request("PATCH", VOLUMES + "/v", {"metadata": {"labels": {"a": "2"}}},
                                                second.admin_token, headers=MERGE)[0], 200)
                self.assertEqual(server.request("PUT", VOLUMES + "/v", stale, token)[0], 409)
                watch.close()

    def test_an_etcd_that_is_not_there_is_said(self):
        with tempfile.TemporaryDirectory(prefix="moord-test-") as directory:
            run = subprocess.run([os.environ["MOORD"], "server", "--dir", str(pathlib.Path(directory, "state")), "--listen",
                                  "127.0.0.1:0", "--store", f"etcd=http://127.0.0.1:{free_ports(1)[0]}"],
                                 capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual((run.returncode, run.stdout), (1, ""))
            self.assertIn("moord server: ", run.stderr)


if __name__ == "__main__":
    if not shutil.which("etcd"):
        skip("no etcd on this machine")
    unittest.main()
