"""What the tests of this folder share: the programs of tests/cli, and plain moorblk processes."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "cli"))  # behind: names of this folder come first
from cluster import BIN, DEADLINE, Dev, Place, Program, run_tests, skip, wait_until  # noqa: E402,F401


class Daemons:
    """Processes that end with the test. Use with `with`."""

    def __init__(self):
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, *arguments, log=None):
        out = open(log, "ab") if log else subprocess.DEVNULL
        process = subprocess.Popen([str(one) for one in arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        if log:
            out.close()
        self.running.append(process)
        return process


def control(path, *words):
    """An answer of a moorblk process on its control socket."""
    done = subprocess.run([BIN / "moorblk", "ctl", path, *words], capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode != 0:
        raise AssertionError(f"moorblk ctl {path} {' '.join(words)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout or "{}")


class PlainVolume:
    """Three replicas and one engine of moorblk on unix sockets, without a server."""

    def __init__(self, daemons, directory, size, *options):
        self.directory, self.socket = directory, directory / "v.sock"
        self.replicas = []
        for i in range(3):
            data = directory / f"r{i}"
            subprocess.run([BIN / "moorblk", "replica", "create", data, "--size", str(size)], check=True,
                           timeout=DEADLINE, stdout=subprocess.DEVNULL)
            daemons.start(BIN / "moorblk", "replica", "serve", data, "--listen", f"unix:{directory}/r{i}.sock",
                          "--control", directory / f"r{i}.ctl", log=directory / f"r{i}.log")
            wait_until(lambda i=i: (directory / f"r{i}.sock").exists(), f"replica {i}")
            self.replicas += ["--replica", f"unix:{directory}/r{i}.sock"]
        daemons.start(BIN / "moorblk", "engine", "--volume", "v", "--epoch", 1, "--engine-id", "e", "--confirm", "auto",
                      "--listen", f"unix:{self.socket}", "--control", directory / "v.ctl", *self.replicas,
                      *options, log=directory / "engine.log")
        wait_until(self.socket.exists, "the engine")
        self.nbd = f"nbd+unix:///v?socket={self.socket}"


def volume_bytes(uri):
    """Everything on the volume behind an NBD URI."""
    return subprocess.run(["nbdcopy", "--", uri, "-"], check=True, timeout=DEADLINE, stdout=subprocess.PIPE).stdout


def need(*programs):
    import shutil
    for program in programs:
        if not shutil.which(program):
            skip(f"{program} is not installed")
    if os.geteuid() != 0:
        skip("network namespaces need root")
