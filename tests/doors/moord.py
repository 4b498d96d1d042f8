"""Starts real servers for the tests of this folder: own directory, free port, cleaned up whatever happens."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading

DEADLINE = 120  # seconds that any one step may take on a busy machine


class Server:
    """`moord server` in a directory of its own. Use with `with`."""

    # The doors are tried with objects as they were written: no controller answers.
    role = ["--no-controllers"]

    def __init__(self, *options, directory=None):
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="moord-test-"))
        self.own_directory = directory is None
        self.options = options
        self.process = None
        self.log = open(self.directory / "log", "ab")

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process:
            self.process.stdout.close()
        self.log.close()
        if self.own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, listen="127.0.0.1:0"):
        if self.process:
            self.process.stdout.close()
        self.process = subprocess.Popen(
            [os.environ["MOORD"], "server", "--dir", self.state, "--listen", listen, *self.role,
             *self.options],
            stdout=subprocess.PIPE, stderr=self.log)
        timer = threading.Timer(DEADLINE, self.process.kill)
        timer.start()
        line = self.process.stdout.readline().decode()
        timer.cancel()
        if not line.startswith("ready "):
            raise RuntimeError(f"moord did not start: {line!r}\n{self.log_text()}")
        self.url = line.split()[1]
        self.ready_line = line

    def stop(self):
        """SIGTERM; answers the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE)
        self.rest_of_stdout = self.process.stdout.read().decode()
        return code

    @property
    def state(self):
        return str(self.directory / "state")

    @property
    def kubeconfig(self):
        return os.path.join(self.state, "kubeconfig")

    @property
    def admin_token(self):
        return pathlib.Path(self.state, "admin.token").read_text().strip()

    def log_text(self):
        return (self.directory / "log").read_text()

    def connection(self, certificate=None):
        """certificate: (certificate file, key file) or None."""
        host = self.url.split("//")[1]
        if self.url.startswith("http://"):
            return http.client.HTTPConnection(host, timeout=DEADLINE)
        context = ssl.create_default_context(cafile=os.path.join(self.state, "pki/ca.crt"))
        if certificate:
            context.load_cert_chain(*certificate)
        return http.client.HTTPSConnection(host, timeout=DEADLINE, context=context)

    def request(self, method, path, body=None, token=None, certificate=None, headers=None):
        """(status, headers, body): the body as JSON where it is."""
        connection = self.connection(certificate)
        all_headers = dict(headers or {})
        if token:
            all_headers["Authorization"] = f"Bearer {token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            all_headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, all_headers)
            response = connection.getresponse()
            text = response.read()
            if "json" in (response.getheader("Content-Type") or ""):
                text = json.loads(text)
            return response.status, response.headers, text
        finally:
            connection.close()


def find_kubectls():
    """Every kubectl from 1.27 on: on the PATH, beside it as kubectl.1.NN, or named by $MOOR_TEST_KUBECTL."""
    candidates = []
    if os.environ.get("MOOR_TEST_KUBECTL"):
        candidates = os.environ["MOOR_TEST_KUBECTL"].split(":")
    elif shutil.which("kubectl"):
        real = pathlib.Path(shutil.which("kubectl")).resolve()
        candidates = [str(real), *sorted(str(one) for one in real.parent.glob("kubectl.1.*"))]
    found = {}
    for path in candidates:
        run = subprocess.run([path, "version", "--client", "-o", "json"], capture_output=True, timeout=DEADLINE)
        if run.returncode != 0:
            continue
        version = json.loads(run.stdout)["clientVersion"]
        minor = int(version["minor"].rstrip("+"))
        if minor >= 27:
            found.setdefault(version["gitVersion"], path)
    return found


def unpack_debian_kubectl(directory):
    """Debian's own kubectl, fetched and unpacked (not installed: its file collides with others'); None without one."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        say("skipped: no apt-get to fetch Debian's kubectl with")
        return None
    fetch = subprocess.run(["apt-get", "download", "-q", "kubernetes-client"], cwd=directory, capture_output=True, text=True,
                           timeout=DEADLINE)
    packages = list(pathlib.Path(directory).glob("kubernetes-client_*.deb"))
    if fetch.returncode != 0 or not packages:
        say(f"skipped: Debian's kubectl cannot be fetched: {fetch.stderr.strip()[-200:]}")
        return None
    subprocess.run(["dpkg", "-x", str(packages[0]), directory], check=True, timeout=DEADLINE)
    return str(pathlib.Path(directory, "usr/bin/kubectl"))


def say(text):
    print(text, flush=True)


def skip(reason):
    say(f"skipped: {reason}")
    sys.exit(77)
