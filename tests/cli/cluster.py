"""Real programs for the tests of this folder: own directories, free ports, cleaned up whatever happens."""
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

DEADLINE = int(os.environ.get("MOOR_DEADLINE", "120"))  # seconds that any one step may take on a busy machine
BIN = pathlib.Path(os.environ["MOOR_BIN"])


class Place:
    """A directory with an environment that leads nowhere else. Use with `with`."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="moor-test-", dir="/var/tmp"))
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(self.directory / "home"),
            "XDG_STATE_HOME": str(self.directory / "state"),
            "XDG_DATA_HOME": str(self.directory / "data"),
            "LC_ALL": "C.UTF-8",
        }
        (self.directory / "home").mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, *arguments, check=None):
        """(exit code, stdout, stderr); `check` is the exit code that is wanted."""
        done = subprocess.run([str(one) for one in arguments], capture_output=True, text=True, timeout=DEADLINE,
                              env=self.environment)
        if check is not None and done.returncode != check:
            raise AssertionError(f"{' '.join(map(str, arguments))}: exit code {done.returncode}, wanted {check}\n"
                                 f"{done.stdout}{done.stderr}")
        return done.returncode, done.stdout, done.stderr

    def moor(self, *arguments, check=0):
        return self.run(BIN / "moor", *arguments, check=check)[1]

    def moor_json(self, *arguments):
        return json.loads(self.moor(*arguments, "-o", "json"))


class Program:
    """A program that says `ready …` on its first line. Use with `with`."""

    def __init__(self, place, *arguments):
        self.place, self.arguments, self.process = place, [str(one) for one in arguments], None
        self.log_path = place.directory / f"log-{len(list(place.directory.glob('log-*')))}"

    def __enter__(self):
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, stderr=self.log,
                                        env=self.place.environment)
        timer = threading.Timer(DEADLINE, self.process.kill)
        timer.start()
        line = self.process.stdout.readline().decode()
        timer.cancel()
        if not line.startswith("ready "):
            self.__exit__()
            raise AssertionError(f"{self.arguments} did not start: {line!r}\n{self.log_path.read_text()}")
        self.url = line.split()[1]
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def log_text(self):
        return self.log_path.read_text()


class Dev(Program):
    """`moord dev` with everything that belongs to it; nothing of it is left afterwards."""

    def __init__(self, place, *options, nodes=3):
        self.state = place.directory / "d"
        super().__init__(place, BIN / "moord", "dev", "--dir", self.state, "--nodes", nodes,
                         "--listen", "127.0.0.1:0", *options)

    def __exit__(self, *_):
        super().__exit__()
        self.place.run(BIN / "moord", "dev", "--dir", self.state, "--down", "--force")

    def processes(self):
        """{pid: arguments} of everything that works in the cluster's directory, `moord dev` itself apart."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.process.pid:
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")[:-1]
            except (OSError, UnicodeDecodeError):
                continue
            if words and pathlib.Path(words[0]).name in ("moord", "moorblk") and str(self.state) in " ".join(words):
                found[int(entry.name)] = words
        return found

    def pids(self, *wanted):
        """Process ids whose arguments contain all of these words."""
        return sorted(pid for pid, words in self.processes().items() if all(one in words for one in wanted))


class Api:
    """The server's API as any requester uses it: objects as dictionaries, with the administrator's token."""

    def __init__(self, state):
        text = (state / "kubeconfig").read_text()
        self.url = re.search(r"server: (\S+)", text).group(1)
        self.token = (state / "admin.token").read_text().strip()
        self.context = ssl.create_default_context(cafile=str(state / "pki" / "ca.crt"))

    def call(self, method, path, body=None, kind="application/json"):
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind})
        with urllib.request.urlopen(request, context=self.context, timeout=DEADLINE) as answer:
            return json.loads(answer.read())

    @staticmethod
    def path(plural, name=""):
        return f"/apis/longhorn.io/v1beta2/namespaces/longhorn-system/{plural}" + (f"/{name}" if name else "")

    def get(self, plural, name):
        return self.call("GET", self.path(plural, name))

    def create(self, plural, body):
        return self.call("POST", self.path(plural), body)

    def patch(self, plural, name, body):
        for _ in range(50):
            try:
                return self.call("PATCH", self.path(plural, name), body, "application/merge-patch+json")
            except urllib.error.HTTPError as error:
                if error.code != 409:  # too many others at once: told, not lost, and tried again as any client does
                    raise
        raise AssertionError(f"{plural}/{name} kept changing")

    def ticket(self, volume, ticket, **fields):
        """Writes a ticket, or takes it back when there are no fields."""
        wish = {"id": ticket, **fields} if fields else None
        return self.patch("volumeattachments", volume, {"spec": {"attachmentTickets": {ticket: wish}}})

    def ticket_status(self, volume, ticket):
        """What the book says of a ticket as it is now; {} while nobody has looked at it."""
        book = self.get("volumeattachments", volume)
        wish = book["spec"].get("attachmentTickets", {}).get(ticket, {})
        said = book.get("status", {}).get("attachmentTicketStatuses", {}).get(ticket, {})
        return said if said and said.get("generation", 0) == wish.get("generation", 0) else {}


def wait_until(condition, what):
    """For conditions that only the system knows, which tells nobody: asked again until they hold."""
    late = threading.Event()
    timer = threading.Timer(DEADLINE, late.set)
    timer.start()
    try:
        while not late.wait(0.05):
            value = condition()
            if value:
                return value
    finally:
        timer.cancel()
    raise AssertionError(f"waited too long for {what}")


def run_tests(module):
    """Every function named test_… in turn; the name is the sentence."""
    only = sys.argv[1:]
    passed = 0
    for name, function in list(vars(module).items()):
        if name.startswith("test_") and (not only or name in only):
            print(name[5:].replace("_", " "), flush=True)
            function()
            passed += 1
    print(f"{passed} passed, 0 failed", flush=True)


def skip(reason):
    print(f"skipped: {reason}", flush=True)
    sys.exit(77)


def skip_without_devices():
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse") or not os.path.exists("/dev/loop-control"):
        skip("block devices need root, /dev/fuse and loop devices")
