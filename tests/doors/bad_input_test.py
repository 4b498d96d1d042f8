"""Bad input at the door of a real server: each form gets a correct Status, nothing is written, memory stays."""
import concurrent.futures
import json
import os
import resource
import socket
import ssl
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from moord import DEADLINE, Server  # noqa: E402

VOLUMES = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
JSON = {"Content-Type": "application/json"}
MEBIBYTE = 1 << 20


def volume(name, **metadata):
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": name, **metadata},
            "spec": {"size": "1073741824"}}


def text_of(name, spec):
    return f'{{"apiVersion":"longhorn.io/v1beta2","kind":"Volume","metadata":{{"name":"{name}"}},"spec":{spec}}}'


class Wire:
    """A connection on which any bytes can be sent; what comes back is read as HTTP answers."""

    def __init__(self, server, receive_buffer=None):
        host, port = server.url.split("//")[1].split(":")
        self.plain = socket.socket()
        if receive_buffer:
            self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.plain.settimeout(DEADLINE)
        self.plain.connect((host, int(port)))
        context = ssl.create_default_context(cafile=os.path.join(server.state, "pki/ca.crt"))
        self.socket = context.wrap_socket(self.plain, server_hostname=host)
        self.token = server.admin_token
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.replace(b"TOKEN", b"Authorization: Bearer " + self.token.encode()))

    def send_what_goes(self, data):
        try:
            self.send(data)
        except OSError:
            pass  # the server has answered and closed before it read everything

    def answer(self):
        """(code, body) of the next answer; None when the connection has ended."""
        while b"\r\n\r\n" not in self.rest:
            more = self.receive()
            if not more:
                return None
            self.rest += more
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        code = int(lines[0].split()[1])
        length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
        while len(self.rest) < length:
            self.rest += self.receive()
        body, self.rest = self.rest[:length], self.rest[length:]
        return code, json.loads(body)

    def receive(self):
        try:
            return self.socket.recv(65536)
        except (ConnectionResetError, ssl.SSLError):
            return b""


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--metrics-listen", "127.0.0.1:0")
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def setUp(self):
        self.before = self.figure("moor_store_revision")

    def tearDown(self):
        self.assertEqual(self.figure("moor_store_revision"), self.before, "something was written")
        self.assertLess(self.figure("process_resident_memory_bytes"), 256 * MEBIBYTE)

    def figure(self, name):
        text = self.server.request("GET", "/metrics", token=self.server.admin_token)[2].decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.split()[0] == name))

    def refused(self, code, reason, method, path, body=None, headers=None, part=""):
        with self.subTest(f"{method} {path[:100]} {str(body)[:60]}"):
            status, _, answer = self.server.request(method, path, body, self.server.admin_token, headers=headers)
            self.assert_status((status, answer), code, reason, part)

    def assert_status(self, answered, code, reason=None, part=""):
        self.assertIsNotNone(answered, "no answer")
        status, answer = answered
        self.assertEqual(status, code, answer)
        self.assertEqual((answer["kind"], answer["apiVersion"], answer["status"], answer["code"]),
                         ("Status", "v1", "Failure", code))
        if reason:
            self.assertEqual(answer["reason"], reason, answer)
        self.assertTrue(answer["message"])
        self.assertIn(part, answer["message"])

    def test_malformed_and_truncated_json(self):
        whole = text_of("x", '{"size":"1073741824"}')
        for cut in [1, 10, len(whole) // 2, len(whole) - 1]:
            self.refused(400, "BadRequest", "POST", VOLUMES, whole[:cut], JSON)
        for text in ["", "nul", '{"a":}', "{'a':1}", '{"a":1,}', '{"a":01}', '{"a":1e999}', '{"a":NaN}', whole + "x",
                     whole + whole, "[]", '"text"', "7", "\0", '{"a":"\\ud800"}', '{"a":"\n"}', "/**/" + whole]:
            self.refused(400, "BadRequest", "POST", VOLUMES, text, JSON)
        self.refused(400, "BadRequest", "PATCH", VOLUMES + "/x", '[{"op":"add"}', {"Content-Type": "application/json-patch+json"})
        self.refused(400, "BadRequest", "PATCH", VOLUMES + "/x", "{}", {"Content-Type": "application/json-patch+json"})
        self.refused(400, "BadRequest", "PATCH", VOLUMES + "/x", "[]", {"Content-Type": "application/merge-patch+json"})
        self.refused(400, "BadRequest", "PATCH", VOLUMES + "/x?fieldManager=m", "a: [", {"Content-Type": "application/apply-patch+yaml"})
        self.refused(400, "BadRequest", "DELETE", VOLUMES + "/x", '{"preconditions":', JSON)

    def test_wrong_types(self):
        for spec in ['{"size":{}}', '{"size":"1073741824","numberOfReplicas":"three"}', '"text"', "7", "[]",
                     '{"size":"1073741824","diskSelector":{"a":1}}', '{"size":"1073741824","numberOfReplicas":1.5}',
                     '{"size":"1073741824","frontend":"telepathy"}']:
            self.refused(422, "Invalid", "POST", VOLUMES, text_of("x", spec), JSON)
        for body in [{"metadata": "text"}, {**volume("x"), "metadata": {"name": 7}},
                     {**volume("x"), "metadata": {"name": "x", "labels": {"a": 1}}}]:
            code = self.server.request("POST", VOLUMES, body, self.server.admin_token)[0]
            self.assertIn(code, (400, 422), body)
        self.refused(400, "BadRequest", "POST", VOLUMES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}})

    def test_invalid_utf_8(self):
        for bad in [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"]:
            text = text_of("x", '{"size":"BAD"}').encode().replace(b"BAD", bad)
            self.refused(400, "BadRequest", "POST", VOLUMES, text, JSON)
        self.refused(400, "BadRequest", "GET", VOLUMES + "/%ff%fe")
        self.refused(400, "BadRequest", "GET", VOLUMES + "?labelSelector=%ff")

    def test_deep_nesting(self):
        for text in ["[" * 100_000, '{"a":' * 100_000, text_of("x", '{"a":' * 200 + "1" + "}" * 200)]:
            self.refused(400, "BadRequest", "POST", VOLUMES, text, JSON)

    def test_duplicate_keys_are_named_with_their_place(self):
        strict = VOLUMES + "?fieldValidation=Strict"
        self.refused(400, "BadRequest", "POST", strict,
                     '{"apiVersion":"longhorn.io/v1beta2","kind":"Volume","metadata":{"name":"x","name":"y"},"spec":{}}',
                     JSON, 'duplicate field "metadata.name"')
        listed = ('{"apiVersion":"longhorn.io/v1beta2","kind":"Volume","metadata":{"name":"x","ownerReferences":'
                  '[{"uid":"a"},{"uid":"b","name":"c","name":"d"}]},"spec":{"size":"1073741824"}}')
        self.refused(400, "BadRequest", "POST", strict, listed, JSON, 'duplicate field "metadata.ownerReferences[1].name"')

    def test_oversize_bodies_and_headers(self):
        self.refused(413, "RequestEntityTooLarge", "POST", VOLUMES, " " * (4 * MEBIBYTE), JSON)
        large = volume("x", annotations={"a": "b" * (2 * MEBIBYTE)})
        code, _, answer = self.server.request("POST", VOLUMES, large, self.server.admin_token)
        self.assertIn((code, answer["kind"]), ((413, "Status"), (422, "Status")))
        with Wire(self.server) as wire:
            wire.send_what_goes(b"GET /api HTTP/1.1\r\nHost: h\r\nTOKEN\r\nX: " + b"x" * 100_000 + b"\r\n\r\n")
            self.assert_status(wire.answer(), 431)
        with Wire(self.server) as wire:
            wire.send_what_goes(b"GET /api HTTP/1.1\r\nHost: h\r\nTOKEN\r\n" + b"X: y\r\n" * 500 + b"\r\n")
            self.assert_status(wire.answer(), 431)
        with Wire(self.server) as wire:
            wire.send_what_goes(b"GET /" + b"a" * 50_000 + b" HTTP/1.1\r\nHost: h\r\nTOKEN\r\n\r\n")
            self.assert_status(wire.answer(), 431)

    def test_a_body_without_end_is_cut_off_many_times_over(self):
        head = (f"POST {VOLUMES} HTTP/1.1\r\nHost: h\r\n".encode() + b"TOKEN\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n")

        def pour(_):
            with Wire(self.server) as wire:
                wire.send_what_goes(head)
                for _ in range(16):
                    wire.send_what_goes(b"100000\r\n" + b" " * MEBIBYTE + b"\r\n")
                return wire.answer()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for answered in pool.map(pour, range(8)):
                self.assert_status(answered, 413)

    def test_bad_selectors_and_tokens(self):
        for query in ["labelSelector=a%3D%3D%3D", "labelSelector=a+in+b", "labelSelector=a+in+(b", "labelSelector=,,",
                      "labelSelector=-bad-%3D1", "labelSelector=a%3D" + "x" * 70, "fieldSelector=spec.nothing%3D1",
                      "fieldSelector=noequals", "limit=x", "limit=-1", "limit=99999999999999999999", "limit=1&continue=x",
                      "continue=AAAA", "resourceVersion=x", "resourceVersion=-1", "resourceVersionMatch=Exact",
                      "resourceVersion=1&resourceVersionMatch=Sometimes", "watch=1&timeoutSeconds=x",
                      "watch=1&resourceVersion=x", "watch=1&labelSelector=a%3D%3D%3D"]:
            with self.subTest(query):
                code, _, answer = self.server.request("GET", f"{VOLUMES}?{query}", token=self.server.admin_token)
                self.assertIn(code, (400, 410, 422), answer)
                self.assertEqual((answer["kind"], answer["code"]), ("Status", code))
        for credential in ["Bearer wrong-token-0123456789", "Bearer ", "Bearer", "Basic YWRtaW46YWRtaW4=",
                           "Bearer " + "x" * 10_000, f"Bearer {self.server.admin_token} x",
                           f"Bearer {self.server.admin_token[:-1]}", "Negotiate abc"]:
            with self.subTest(credential[:40]):
                answer = self.server.request("GET", VOLUMES, headers={"Authorization": credential})
                self.assert_status((answer[0], answer[2]), 401, "Unauthorized")
        for query in ["dryRun=Some", "fieldValidation=Perhaps"]:
            self.refused(422, "Invalid", "POST", f"{VOLUMES}?{query}", volume("x"))

    def test_path_tricks(self):
        for path, code in [("/api/../metrics", 400), ("/api/%2e%2e/metrics", 400), ("/api//v1/nodes", 400),
                           ("/api/v1/nodes/a%2fb", 400), ("/api/v1/nodes/a%00b", 400), ("/api/v1/nodes/%zz", 400),
                           ("/api/v1/nodes/a\\b", 400), ("/api/v1/nodes/%5c", 400), ("/./api", 400),
                           ("/api/v1/namespaces/x/nodes", 404), ("/apis/longhorn.io/v1beta2/namespaces//volumes", 400),
                           (VOLUMES + "/x/status/y", 404), (VOLUMES + "/x/nothing", 404), ("/API/v1/nodes", 404),
                           ("/api/v1/nodes;a=b", 404), ("http://other/api", None), ("*", None), ("api", None)]:
            with self.subTest(path), Wire(self.server) as wire:
                wire.send(f"GET {path} HTTP/1.1\r\nHost: h\r\n".encode() + b"TOKEN\r\n\r\n")
                answered = wire.answer()
                self.assert_status(answered, code or 400)

    def test_request_smuggling(self):
        inner = (f"POST {VOLUMES} HTTP/1.1\r\nHost: h\r\n".encode() + b"TOKEN\r\nContent-Type: application/json\r\n" +
                 b"Content-Length: %d\r\n\r\n" % len(json.dumps(volume("smuggled"))) + json.dumps(volume("smuggled")).encode())
        size = b"%d" % len(inner)
        forms = [b"Content-Length: 0\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 0",
                 b"Content-Length: 0\r\nContent-Length: " + size, b"Content-Length: 0, " + size, b"Content-Length: +0",
                 b"Content-Length: 0x0", b"Content-Length: -1", b"Content-Length: 18446744073709551616",
                 b"Content-Length : 0", b" Content-Length: 0", b"Content-Length: 0\r\n 5", b"Content-Length:\x0b0",
                 b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding: identity",
                 b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding:\x0bchunked",
                 b"Transfer-Encoding: \"chunked\"", b"X: a\nContent-Length: 0", b"X: a\rb", b"X: a\x00b", b"Bad Name: 1",
                 b": no-name", b"Host: other"]
        for form in forms:
            with self.subTest(form), Wire(self.server) as wire:
                wire.send_what_goes(b"POST /api/v1/nodes HTTP/1.1\r\nHost: h\r\nTOKEN\r\nContent-Type: application/json\r\n" +
                                    form + b"\r\n\r\n" + inner)
                answered = wire.answer()
                self.assertIn(answered[0], (400, 413, 501), answered)
                self.assert_status(answered, answered[0])
                self.assertIsNone(wire.answer(), "the bytes behind it were taken for a request")
        for chunk in [b"0x5\r\nhello", b"-5\r\nhello", b"5 \r\nhello", b"ffffffffffffffff1\r\n", b"5;\n\r\nhello", b"5\nhello",
                      b"5\r\nhelloXX", b"\r\n"]:
            with self.subTest(chunk), Wire(self.server) as wire:
                wire.send_what_goes(b"POST /api/v1/nodes HTTP/1.1\r\nHost: h\r\nTOKEN\r\nContent-Type: application/json\r\n"
                                    b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"\r\n0\r\n\r\n" + inner)
                answered = wire.answer()
                self.assertIn(answered[0], (400, 413), answered)
                self.assert_status(answered, answered[0])
                self.assertIsNone(wire.answer(), "the bytes behind it were taken for a request")
        for line in [b"GET /api", b"GET  /api HTTP/1.1", b"GET /api HTTP/2.0", b"GET /api HTTP/1.1 x", b"get /api HTTP/1.1",
                     b"BREW /api HTTP/1.1", b"\x16\x03\x01", b"GET /api\tHTTP/1.1", b"CONNECT h:80 HTTP/1.1"]:
            with self.subTest(line), Wire(self.server) as wire:
                wire.send_what_goes(line + b"\r\nHost: h\r\nTOKEN\r\n\r\n")
                answered = wire.answer()
                self.assertIn(answered[0], (400, 405, 501, 505), answered)
                self.assert_status(answered, answered[0])


class SlowAndMany(unittest.TestCase):
    def test_thousands_of_half_open_connections_and_slow_heads(self):
        wanted = 3000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with Server("--metrics-listen", "127.0.0.1:0") as server:
            token = server.admin_token

            def figure(name):
                text = server.request("GET", "/metrics", token=token)[2].decode()
                return float(next(line.split()[1] for line in text.splitlines() if line.split()[0] == name))

            host, port = server.url.split("//")[1].split(":")
            before = figure("moor_store_revision")
            half_open = []
            try:
                for number in range(wanted):
                    one = socket.create_connection((host, int(port)), DEADLINE)
                    if number % 3 == 1:
                        one.sendall(b"\x16\x03\x01")  # the beginning of a handshake
                    half_open.append(one)
                slow = Wire(server)
                slow.send(b"GET /api HTTP/1.1\r\nHos")
                self.assertGreaterEqual(figure("moor_connections"), wanted)
                self.assertLess(figure("process_resident_memory_bytes"), 256 * MEBIBYTE)
                # The others are served all the same.
                self.assertEqual(server.request("POST", VOLUMES, volume("among"), token)[0], 201)
                self.assertEqual(slow.answer()[0], 408)  # its time is up, and it is told so
                self.assertIsNone(slow.answer())
                slow.socket.close()
                for one in half_open:
                    one.settimeout(DEADLINE)
                    try:
                        while one.recv(4096):
                            pass  # an alert before the end is fine
                    except ConnectionResetError:
                        pass
            finally:
                for one in half_open:
                    one.close()
            self.assertLess(figure("moor_connections"), 10)
            self.assertEqual(figure("moor_store_revision"), before + 1)

    def test_a_watcher_that_does_not_read_does_not_hold_the_server(self):
        with Server() as server:
            token = server.admin_token
            with Wire(server, receive_buffer=4096) as sleeper:
                sleeper.send(f"GET {VOLUMES}?watch=1 HTTP/1.1\r\nHost: h\r\n".encode() + b"TOKEN\r\n\r\n")
                pad = "x" * 200_000
                for number in range(300):  # 60 MB of events that nobody takes
                    body = volume("fat", annotations={"pad": pad}) if number == 0 else \
                        {"metadata": {"annotations": {"n": str(number)}}}
                    code = server.request("POST" if number == 0 else "PATCH", VOLUMES + ("" if number == 0 else "/fat"), body,
                                          token, headers={} if number == 0 else {"Content-Type": "application/merge-patch+json"})[0]
                    self.assertIn(code, (200, 201))
                text = server.request("GET", "/metrics", token=token)[2].decode()
                resident = float(next(line.split()[1] for line in text.splitlines()
                                      if line.startswith("process_resident_memory_bytes ")))
                self.assertLess(resident, 256 * MEBIBYTE)
            self.assertEqual(server.stop(), 0)


class Lanes(unittest.TestCase):
    def test_writes_over_the_limit_get_429_while_heartbeats_and_watches_go_on(self):
        with Server("--max-mutating-requests-inflight", "1") as server:
            token = server.admin_token
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n"},
                     "spec": {"leaseTransitions": 0}}
            self.assertEqual(server.request("POST", LEASES, lease, token)[0], 201)
            throttled = threading.Event()
            problems = []

            def write(number):
                connection = server.connection()
                headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
                until = time.monotonic() + DEADLINE
                count = 0
                while not throttled.is_set() and time.monotonic() < until:
                    count += 1
                    connection.request("POST", VOLUMES, json.dumps(volume(f"v{number}-{count}")), headers)
                    response = connection.getresponse()
                    answer = json.loads(response.read())
                    if response.status == 429:
                        if (answer["reason"], answer["code"]) != ("TooManyRequests", 429) or \
                                int(response.headers["Retry-After"]) < 1 or answer["details"]["retryAfterSeconds"] < 1:
                            problems.append((dict(response.headers), answer))
                        beats_under_pressure.wait(DEADLINE)
                        throttled.set()
                    elif response.status != 201:
                        problems.append(answer)
                connection.close()

            beats_under_pressure = threading.Event()
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                writers = [pool.submit(write, number) for number in range(16)]
                watch = server.connection()
                watch.request("GET", f"{VOLUMES}?watch=1", headers={"Authorization": f"Bearer {token}"})
                response = watch.getresponse()
                for number in range(50):
                    patch = {"spec": {"leaseTransitions": number}}
                    code = server.request("PATCH", LEASES + "/n", patch, token,
                                          headers={"Content-Type": "application/merge-patch+json"})[0]
                    if code != 200:
                        problems.append(f"a heartbeat got {code}")
                if json.loads(response.readline())["type"] != "ADDED":
                    problems.append("the watch shows nothing")
                beats_under_pressure.set()
                for writer in writers:
                    writer.result()
                watch.close()
            self.assertEqual(problems, [])
            self.assertTrue(throttled.is_set(), "nothing was throttled")
            metrics = server.request("GET", "/metrics", token=token)[2].decode()
            self.assertRegex(metrics, r'moor_requests_throttled_total\{lane="mutating"\} [1-9]')
            self.assertIn('moor_requests_throttled_total{lane="heartbeat"} 0', metrics)
            self.assertIn('moor_requests_throttled_total{lane="watch"} 0', metrics)


class TooOld(unittest.TestCase):
    def test_a_watch_from_before_the_history_gets_410_inside_the_stream(self):
        with Server() as server:
            token = server.admin_token
            self.assertEqual(server.request("POST", VOLUMES, volume("a"), token)[0], 201)
            old = server.request("GET", VOLUMES, token=token)[2]["metadata"]["resourceVersion"]
            for name in ["b", "c"]:
                self.assertEqual(server.request("POST", VOLUMES, volume(name), token)[0], 201)
            server.stop()
            server.start()
            code, _, answer = server.request("GET", f"{VOLUMES}?watch=1&resourceVersion={old}", token=token)
            self.assertEqual((code, answer["type"]), (200, "ERROR"))
            status = answer["object"]
            self.assertEqual((status["kind"], status["code"], status["reason"]), ("Status", 410, "Expired"))
            page = server.request("GET", f"{VOLUMES}?limit=1", token=token)[2]
            self.assertEqual(len(page["items"]), 1)


if __name__ == "__main__":
    unittest.main()
