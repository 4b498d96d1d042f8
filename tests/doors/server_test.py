"""A real server: first start, identities, refusals, watches, restarts, metrics."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from moord import DEADLINE, Server  # noqa: E402

VOLUMES = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumes"
NODES = "/api/v1/nodes"
TOKENS = """\
view-token-0123456789,jane,1,"mooring:view"
node-a-token-0123456789,system:node:a,2,"system:nodes"
nobody-token-0123456789,joe,3,"others"
"""


def volume(name, **metadata):
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": name, **metadata},
            "spec": {"size": "1073741824"}}


def node(name):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True, timeout=DEADLINE)


def issue(directory, name, subject, authority, days):
    """A client certificate signed by authority = (certificate, key); days may be negative."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
            "-out", f"{name}.csr", "-subj", subject, cwd=directory)
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", authority[0], "-CAkey", authority[1], "-out", f"{name}.crt",
            "-days", str(days), "-CAcreateserial", "-CAserial", f"{name}.srl", cwd=directory)
    return (str(directory / f"{name}.crt"), str(directory / f"{name}.key"))


class Lines:
    """A watch as an iterator over its events."""

    def __init__(self, server, path, headers=None):
        self.connection = server.connection()
        self.connection.request("GET", path, headers={"Authorization": f"Bearer {server.admin_token}",
                                                      **(headers or {})})
        self.response = self.connection.getresponse()

    def next(self):
        line = self.response.readline()
        return json.loads(line) if line else None

    def close(self):
        self.response.close()
        self.connection.close()


class OneServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.__enter__()
        pathlib.Path(cls.server.state, "tokens.csv").write_text(TOKENS)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def ask(self, method, path, body=None, token="admin", code=200, **options):
        secret = self.server.admin_token if token == "admin" else token
        status, headers, answer = self.server.request(method, path, body, secret, **options)
        self.assertEqual(status, code, answer)
        if isinstance(answer, dict) and answer.get("kind") == "Status" and code >= 400:
            self.assertEqual(answer["code"], code)
            self.assertEqual(answer["status"], "Failure")
        return headers, answer


class FirstStart(OneServer):
    def test_files_are_made_and_secrets_are_private(self):
        state = pathlib.Path(self.server.state)
        for name in ["admin.token", "kubeconfig", "pki/ca.key", "pki/server.key", "pki/admin.key"]:
            self.assertEqual((state / name).stat().st_mode & 0o777, 0o600, name)
        self.assertEqual(self.server.ready_line, f"ready {self.server.url}\n")
        self.assertTrue(self.server.url.startswith("https://127.0.0.1:"))

    def test_health_is_for_everybody_and_the_rest_is_not(self):
        for path in ["/healthz", "/livez", "/readyz", "/version"]:
            self.ask("GET", path, token=None)
        self.assertIn("[+]store ok", self.ask("GET", "/readyz?verbose", token=None)[1].decode())
        for path in ["/api", "/apis", NODES, "/metrics", "/openapi/v3", "/", "/nothing"]:
            headers, answer = self.ask("GET", path, token=None, code=401)
            self.assertEqual(answer["reason"], "Unauthorized")
            self.assertIn("Bearer", headers["WWW-Authenticate"])

    def test_metrics_count(self):
        self.ask("GET", NODES)
        text = self.ask("GET", "/metrics")[1].decode()
        for part in ['moor_requests_total{verb="list",resource="nodes",code="200"}', "moor_store_revision",
                     'moor_requests_in_flight{lane="watch"}', "moor_request_duration_seconds_bucket"]:
            self.assertIn(part, text)
        self.ask("GET", "/metrics", token="view-token-0123456789")
        self.ask("GET", "/metrics", token="node-a-token-0123456789", code=403)

    def test_openapi_is_cached_by_hash(self):
        index = self.ask("GET", "/openapi/v3")[1]
        url = index["paths"]["apis/longhorn.io/v1beta2"]["serverRelativeURL"]
        headers, document = self.ask("GET", url)
        self.assertIn("immutable", headers["Cache-Control"])
        kinds = [kind["kind"] for schema in document["components"]["schemas"].values()
                 for kind in schema.get("x-kubernetes-group-version-kind", [])]
        self.assertIn("Volume", kinds)
        self.ask("GET", url, headers={"If-None-Match": headers["ETag"]}, code=304)


class Identity(OneServer):
    def test_certificates_expired_foreign_and_good(self):
        directory = self.server.directory
        pki = pathlib.Path(self.server.state, "pki")
        authority = (str(pki / "ca.crt"), str(pki / "ca.key"))
        good = issue(directory, "good", "/O=mooring:view/CN=jane", authority, 1)
        expired = issue(directory, "expired", "/O=system:masters/CN=late", authority, -1)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "other.key",
                "-out", "other.crt", "-subj", "/CN=mooring-ca", "-days", "1", cwd=directory)
        foreign = issue(directory, "foreign", "/O=system:masters/CN=admin",
                        (str(directory / "other.crt"), str(directory / "other.key")), 1)
        self.ask("GET", NODES, token=None, certificate=good)
        self.ask("POST", NODES, node("x"), token=None, certificate=good, code=403)
        for bad in [expired, foreign]:
            answer = self.ask("GET", NODES, token=None, certificate=bad, code=401)[1]
            self.assertIn("certificate", answer["message"])
        self.ask("GET", NODES, token=None, certificate=(str(pki / "admin.crt"), str(pki / "admin.key")))
        self.assertIn("refused", self.server.log_text())

    def test_wrong_token_is_refused_also_for_health(self):
        self.ask("GET", NODES, token="wrong-0123456789abcdef", code=401)
        self.ask("GET", "/healthz", token="wrong-0123456789abcdef", code=401)
        self.assertIn("refused", self.server.log_text())
        self.assertNotIn("wrong-0123456789abcdef", self.server.log_text())

    def test_without_certificate_and_token_nothing_is_read_or_written(self):
        for method, path, body in [("GET", NODES, None), ("POST", NODES, node("x")), ("DELETE", NODES + "/x", None)]:
            answer = self.ask(method, path, body, token=None, code=401)[1]
            self.assertEqual(answer["reason"], "Unauthorized")

    def test_view_reads_and_does_not_write(self):
        self.ask("GET", NODES, token="view-token-0123456789")
        answer = self.ask("POST", NODES, node("x"), token="view-token-0123456789", code=403)[1]
        self.assertIn('User "jane" cannot create resource "nodes"', answer["message"])
        self.assertRegex(self.server.log_text(), r"audit user=jane role=view verb=create resource=nodes .*code=403")
        self.ask("GET", "/api/v1/secrets", token="view-token-0123456789", code=403)
        self.ask("GET", NODES, token="nobody-token-0123456789", code=403)
        self.ask("GET", "/apis", token="nobody-token-0123456789")

    def test_node_writes_only_its_own(self):
        mine = "node-a-token-0123456789"
        self.ask("POST", NODES, node("a"), token=mine, code=201)
        answer = self.ask("POST", NODES, node("b"), token=mine, code=403)[1]
        self.assertEqual(answer["reason"], "Forbidden")
        self.ask("POST", NODES, node("b"), code=201)
        self.ask("PATCH", NODES + "/b/status", {"status": {"phase": "x"}}, token=mine, code=403,
                 headers={"Content-Type": "application/merge-patch+json"})
        self.ask("POST", VOLUMES, volume("by-node"), token=mine, code=403)
        self.ask("DELETE", NODES + "/b", token=mine, code=403)
        merge = {"Content-Type": "application/merge-patch+json"}
        replicas = VOLUMES.replace("/volumes", "/replicas")
        for name in ["a", "b"]:
            replica = {"apiVersion": "longhorn.io/v1beta2", "kind": "Replica", "metadata": {"name": "r-" + name},
                       "spec": {"nodeID": name, "volumeName": "v"}}
            self.ask("POST", replicas, replica, code=201)
        state = {"status": {"currentState": "running"}}
        self.ask("PATCH", replicas + "/r-a/status", state, token=mine, headers=merge)
        before = self.ask("GET", replicas + "/r-b")[1]
        headers, brief = self.ask("PATCH", replicas + "/r-a/status", {"status": {"currentState": "stopped"}}, token=mine,
                                  headers={**merge, "Prefer": "return=minimal"})
        self.assertEqual(headers["Preference-Applied"], "return=minimal")
        self.assertEqual(set(brief["metadata"]), {"name", "namespace", "uid", "resourceVersion"})
        self.assertNotIn("status", brief)
        self.assertEqual(brief["metadata"]["resourceVersion"],
                         self.ask("GET", replicas + "/r-a")[1]["metadata"]["resourceVersion"])
        self.ask("PATCH", replicas + "/r-b/status", state, token=mine, headers=merge, code=403)
        # Nor may it take the other's over.
        self.ask("PATCH", replicas + "/r-b", {"spec": {"nodeID": "a"}}, token=mine, headers=merge, code=403)
        self.assertEqual(self.ask("GET", replicas + "/r-b")[1], before)
        lines = [line for line in self.server.log_text().splitlines() if "user=system:node:a" in line and "code=403" in line]
        self.assertGreaterEqual(len(lines), 6)

    def test_reviews_answer_for_the_one_who_asks(self):
        def may(token, **attributes):
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                      "spec": {"resourceAttributes": attributes}}
            return self.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, token=token,
                            code=201)[1]["status"]["allowed"]
        self.assertTrue(may("admin", verb="*", group="*", resource="*"))
        self.assertFalse(may("view-token-0123456789", verb="create", group="longhorn.io", resource="volumes"))
        self.assertTrue(may("view-token-0123456789", verb="list", group="longhorn.io", resource="volumes"))
        self.assertFalse(may("node-a-token-0123456789", verb="create", group="longhorn.io", resource="volumes"))
        self.assertTrue(may("node-a-token-0123456789", verb="update", group="longhorn.io", resource="replicas",
                            subresource="status"))

    def test_writes_leave_an_audit_line(self):
        self.ask("POST", VOLUMES, volume("audited"), code=201)
        lines = [line for line in self.server.log_text().splitlines() if "audit" in line and "audited" in line]
        self.assertEqual(len(lines), 1, lines)
        for part in ["user=admin", "verb=create", "resource=volumes.longhorn.io", "from=127.0.0.1:", "code=201"]:
            self.assertIn(part, lines[0])


class Refusals(OneServer):
    def test_bad_requests_get_a_status(self):
        merge = {"Content-Type": "application/merge-patch+json"}
        cases = [
            ("POST", VOLUMES, "{", {"Content-Type": "application/json"}, 400),
            ("POST", VOLUMES, '{"a":"\xff"}'.encode("latin-1"), {"Content-Type": "application/json"}, 400),
            ("POST", VOLUMES, "[" * 5000, {"Content-Type": "application/json"}, 400),
            ("POST", VOLUMES, "{}", {"Content-Type": "application/vnd.kubernetes.protobuf"}, 400),
            ("POST", VOLUMES, b"k8s\0\x0a\x06\x0a\x01x\x12\x01y", {"Content-Type": "application/vnd.kubernetes.protobuf"}, 415),
            ("POST", VOLUMES, "a: b", {"Content-Type": "application/yaml"}, 415),
            ("POST", VOLUMES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}, {}, 400),
            ("POST", VOLUMES, {**volume("x"), "spec": {"size": {}}}, {}, 422),
            ("POST", "/apis/longhorn.io/v1beta2/volumes", volume("x"), {}, 405),
            ("PUT", VOLUMES, volume("x"), {}, 405),
            ("POST", VOLUMES, " " * (4 << 20), {"Content-Type": "application/json"}, 413),
            ("POST", VOLUMES, {**volume("x"), "metadata": {"name": "x", "annotations": {"a": "b" * (1 << 20)}}}, {}, None),
            ("PATCH", VOLUMES + "/nothing", {}, merge, 404),
            ("GET", VOLUMES + "/nothing", None, {}, 404),
            ("GET", VOLUMES + "?labelSelector=a%3D%3D%3D", None, {}, 400),
            ("GET", VOLUMES + "?fieldSelector=spec.nothing%3D1", None, {}, 400),
            ("GET", VOLUMES + "?limit=x", None, {}, 400),
            ("GET", VOLUMES + "?limit=1&continue=x", None, {}, 400),
            ("GET", VOLUMES + "?resourceVersion=x", None, {}, 400),
            ("GET", VOLUMES, None, {"Accept": "application/vnd.kubernetes.protobuf"}, 406),
            ("GET", "/apis/nothing/v1/things", None, {}, 404),
            ("GET", "/apis/longhorn.io/v1beta2/namespaces/x/volumes/%2e%2e", None, {}, 400),
            ("GET", "/api//v1", None, {}, 400),
            ("DELETE", VOLUMES + "/nothing", None, {}, 404),
        ]
        for method, path, body, headers, code in cases:
            with self.subTest(f"{method} {path[:80]} {headers}"):
                status, _, answer = self.server.request(method, path, body, self.server.admin_token, headers=headers)
                if code is None:
                    self.assertIn(status, (413, 422), answer)
                else:
                    self.assertEqual(status, code, answer)
                self.assertEqual(answer["kind"], "Status")
                self.assertEqual(answer["code"], status)
        self.assertEqual(self.ask("GET", VOLUMES)[1]["items"], [])

    def test_conflicts_carry_causes(self):
        self.ask("POST", VOLUMES, volume("c"), code=201)
        answer = self.ask("POST", VOLUMES, volume("c"), code=409)[1]
        self.assertEqual((answer["reason"], answer["details"]["name"]), ("AlreadyExists", "c"))
        apply = {"Content-Type": "application/apply-patch+yaml"}
        one = volume("applied")
        one["spec"]["numberOfReplicas"] = 1
        path = VOLUMES + "/applied?fieldManager="
        self.ask("PATCH", path + "m1", json.dumps(one), headers=apply, code=201)
        one["spec"]["numberOfReplicas"] = 2
        answer = self.ask("PATCH", path + "m2", json.dumps(one), headers=apply, code=409)[1]
        self.assertEqual(answer["details"]["causes"][0]["reason"], "FieldManagerConflict")
        self.ask("PATCH", path + "m2&force=true", json.dumps(one), headers=apply)
        uid = self.ask("GET", VOLUMES + "/c")[1]["metadata"]["uid"]
        wrong = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
        self.ask("DELETE", VOLUMES + "/c", wrong, code=409)
        answer = self.ask("DELETE", VOLUMES + "/c", {**wrong, "preconditions": {"uid": uid}})[1]
        self.assertEqual((answer["status"], answer["details"]["uid"]), ("Success", uid))
        self.ask("DELETE", VOLUMES, None)


class Watching(OneServer):
    def test_events_tables_bookmarks_and_end(self):
        version = self.ask("GET", VOLUMES)[1]["metadata"]["resourceVersion"]
        plain = Lines(self.server, f"{VOLUMES}?watch=1&resourceVersion={version}")
        table = Lines(self.server, f"{VOLUMES}?watch=1&resourceVersion={version}&includeObject=Object",
                      {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
        self.ask("POST", VOLUMES, volume("w"), code=201)
        event = plain.next()
        self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "w"))
        first = table.next()["object"]
        self.assertEqual((first["kind"], first["rows"][0]["object"]["kind"]), ("Table", "Volume"))
        self.assertTrue(first["columnDefinitions"])
        self.ask("DELETE", VOLUMES + "/w")
        self.assertEqual(plain.next()["type"], "DELETED")
        self.assertFalse(table.next()["object"].get("columnDefinitions"))
        plain.close()
        table.close()

    def test_watch_ends_at_its_time_with_a_bookmark(self):
        watch = Lines(self.server, f"{VOLUMES}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=0")
        events = []
        while (event := watch.next()) is not None:
            events.append(event)
        watch.close()
        self.assertEqual(events[-1]["type"], "BOOKMARK")
        self.assertEqual(events[-1]["object"]["kind"], "Volume")
        self.assertGreater(int(events[-1]["object"]["metadata"]["resourceVersion"]), 0)

    def test_initial_events_end_with_their_bookmark(self):
        self.ask("POST", VOLUMES, volume("i"), code=201)
        watch = Lines(self.server, f"{VOLUMES}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                                   "&allowWatchBookmarks=true&timeoutSeconds=30")
        self.assertEqual(watch.next()["object"]["metadata"]["name"], "i")
        end = watch.next()
        self.assertEqual(end["type"], "BOOKMARK")
        self.assertEqual(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true")
        watch.close()
        self.ask("GET", f"{VOLUMES}?watch=1&sendInitialEvents=true", code=422)

    def test_one_object_is_watched_by_its_path(self):
        watch = Lines(self.server, f"{VOLUMES}/only?watch=1&resourceVersion=0&timeoutSeconds=30")
        self.ask("POST", VOLUMES, volume("other"), code=201)
        self.ask("POST", VOLUMES, volume("only"), code=201)
        self.assertEqual(watch.next()["object"]["metadata"]["name"], "only")
        watch.close()


class Restarts(unittest.TestCase):
    def test_everything_is_there_again_and_watches_end_cleanly(self):
        with Server() as server:
            token = server.admin_token
            self.assertEqual(server.request("POST", VOLUMES, volume("kept"), token)[0], 201)
            authority = pathlib.Path(server.state, "pki/ca.crt").read_bytes()
            watch = Lines(server, f"{VOLUMES}?watch=1&resourceVersion=0&allowWatchBookmarks=1")
            self.assertEqual(watch.next()["type"], "ADDED")
            self.assertEqual(server.stop(), 0, server.log_text())
            self.assertEqual(server.rest_of_stdout, "")
            self.assertEqual(watch.next()["type"], "BOOKMARK")
            self.assertIsNone(watch.next())
            watch.close()
            server.start()
            self.assertEqual(server.admin_token, token)
            self.assertEqual(pathlib.Path(server.state, "pki/ca.crt").read_bytes(), authority)
            self.assertEqual(server.request("GET", VOLUMES + "/kept", token=token)[0], 200)

    def test_a_second_server_on_the_same_directory_is_refused(self):
        with Server() as server:
            run = subprocess.run([os.environ["MOORD"], "server", "--dir", server.state, "--listen", "127.0.0.1:0"],
                                 capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(run.returncode, 1)
            self.assertEqual(run.stdout, "")
            self.assertNotEqual(run.stderr, "")

    def test_plain_loopback_keeps_browsers_out(self):
        with Server("--insecure-loopback", "--store", "memory") as server:
            self.assertTrue(server.url.startswith("http://127.0.0.1:"))
            self.assertEqual(server.request("GET", NODES)[0], 200)
            self.assertEqual(server.request("GET", NODES, headers={"Origin": "http://evil.example"})[0], 403)
            self.assertEqual(server.request("GET", NODES, headers={"Host": "evil.example"})[0], 403)
        run = subprocess.run([os.environ["MOORD"], "server", "--dir", "/nonexistent", "--listen", "0.0.0.0:0",
                              "--insecure-loopback"], capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(run.returncode, 1)

    def test_monitoring_has_an_address_of_its_own(self):
        with Server("--store", "memory", "--metrics-listen", "127.0.0.1:0") as server:
            line = next(line for line in server.log_text().splitlines() if "serving metrics" in line)
            host = line.split("url=http://")[1]
            for path, code, part in [("/metrics", 200, "moor_store_revision"), ("/readyz", 200, "ok"), ("/healthz", 200, "ok"),
                                     ("/api/v1/nodes", 404, ""), ("/", 404, "")]:
                connection = http.client.HTTPConnection(host, timeout=DEADLINE)
                connection.request("GET", path)
                response = connection.getresponse()
                self.assertEqual(response.status, code, path)
                self.assertIn(part, response.read().decode())
                connection.request("POST", path, "{}")
                self.assertEqual(connection.getresponse().status, 405)
                connection.close()
            self.assertEqual(server.stop(), 0)

    def test_discovery_names_only_what_is_served(self):
        with Server("--store", "memory") as server:
            token = server.admin_token
            for path in ["/api/v1", "/apis/longhorn.io/v1beta2", "/apis/storage.k8s.io/v1"]:
                for resource in server.request("GET", path, token=token)[2]["resources"]:
                    self.assertIn(resource["name"].partition("/")[2], ("", "status"))

    def test_compare_and_swap_loses_no_update(self):
        writers, rounds = 8, 5
        with Server("--store", "memory") as server:
            token = server.admin_token
            self.assertEqual(server.request("POST", VOLUMES, volume("n", annotations={"n": "0"}), token)[0], 201)

            def write(_):
                done = 0
                while done < rounds:
                    one = server.request("GET", VOLUMES + "/n", token=token)[2]
                    one["metadata"]["annotations"]["n"] = str(int(one["metadata"]["annotations"]["n"]) + 1)
                    code = server.request("PUT", VOLUMES + "/n", one, token)[0]
                    self.assertIn(code, (200, 409))
                    done += code == 200

            with concurrent.futures.ThreadPoolExecutor(writers) as pool:
                list(pool.map(write, range(writers)))
            count = server.request("GET", VOLUMES + "/n", token=token)[2]["metadata"]["annotations"]["n"]
            self.assertEqual(count, str(writers * rounds))


if __name__ == "__main__":
    unittest.main()
