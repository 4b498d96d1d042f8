"""QEMU as a test sees it: processes, their monitor, live migration, and what the guest said."""
import json
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile

from guest_image import SIZE, guest_image
from support import DEADLINE, wait_until

BLOCK = 4096


class Monitor:
    """QMP. Events that come between answers are kept."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE)

        def connect():
            try:
                self.socket.connect(str(path))
            except ConnectionRefusedError:  # bound, and not listened on yet
                return False
            return True
        wait_until(connect, f"QEMU to listen on {path}")
        self.file = self.socket.makefile("rw")
        self.events = []
        json.loads(self.file.readline())
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            line = self.file.readline()
            if not line:
                raise AssertionError(f"QEMU ended during {command}")
            answer = json.loads(line)
            if "event" in answer:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise AssertionError(f"{command}: {answer['error']['desc']}")
            return answer["return"]

    def close(self):
        self.file.close()
        self.socket.close()


class Qemu:
    """One QEMU process: a guest that runs, or one that waits for a guest to come. Use with `with`."""

    def __init__(self, name, disk, directory=None, netns=None, incoming=None, image=None):
        self.image = image or guest_image()
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="moor-qemu-", dir="/var/tmp"))
        self.own_directory = directory is None
        self.name, self.disk, self.netns, self.incoming = name, disk, netns, incoming
        self.console, self.monitor_path = self.directory / f"{name}.console", self.directory / f"{name}.qmp"
        self.errors = self.directory / f"{name}.stderr"
        self.process = self.monitor = None

    def arguments(self):
        words = ["ip", "netns", "exec", self.netns] if self.netns else []
        words += ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35,accel=tcg",
                  "-cpu", "max", "-m", "96", "-kernel", self.image / "kernel", "-initrd", self.image / "initrd", "-append",
                  "console=ttyS0 quiet panic=-1 rdinit=/init tsc=reliable no_timer_check",
                  "-chardev", f"socket,id=console,path={self.directory}/{self.name}.serial,server=on,wait=off,"
                              f"logfile={self.console}",
                  "-serial", "chardev:console", "-qmp", f"unix:{self.monitor_path},server=on,wait=off",
                  "-blockdev", json.dumps(self.disk), "-device", "virtio-blk-pci,drive=vol0,share-rw=on"]
        if self.incoming:
            words += ["-incoming", self.incoming]
        return [str(word) for word in words]

    def __enter__(self):
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(self.arguments(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        wait_until(lambda: self.monitor_path.exists() or self.process.poll() is not None, f"QEMU {self.name}")
        if self.process.poll() is not None:
            raise AssertionError(f"QEMU {self.name} did not start: {self.errors.read_text()}")
        self.monitor = Monitor(self.monitor_path)
        return self

    def __exit__(self, *_):
        self.kill()
        if self.own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self):
        if self.monitor:
            self.monitor.close()
            self.monitor = None
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def text(self):
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def say(self, line):
        with socket.socket(socket.AF_UNIX) as serial:
            serial.settimeout(DEADLINE)
            serial.connect(f"{self.directory}/{self.name}.serial")
            serial.sendall(line.encode() + b"\n")
            # Until the guest has heard it: bytes of a connection that is gone may be dropped.
            wait_until(lambda: "HB 1\n" in self.text().replace("\r", ""), f"guest {self.name} to begin")

    def wait_for(self, status):
        return wait_until(lambda: self.monitor("query-status")["status"] == status, f"{self.name} to be {status}")

    def begin(self, pause_us=0):
        """From the saved state to the first heartbeat."""
        self.wait_for("paused")
        self.monitor("cont")
        self.say(f"go {pause_us}")

    def beats(self):
        """How many blocks the guest has called written on this console."""
        return len(beats_in(self.text()))

    def wait_beats(self, more):
        """Until the guest has written so many more blocks here."""
        goal = self.beats() + more
        wait_until(lambda: self.beats() >= goal or "BAD" in self.text(), f"{goal} heartbeats of {self.name}")

    def migration(self):
        return self.monitor("query-migrate")

    def start_migration(self, uri, pause_before_switchover=False):
        capabilities = [{"capability": "events", "state": True},
                        {"capability": "pause-before-switchover", "state": pause_before_switchover}]
        self.monitor("migrate-set-capabilities", capabilities=capabilities)
        self.monitor("migrate", uri=uri)

    def give_up(self):
        """The migration is called off; the guest goes on here."""
        self.monitor("migrate_cancel")
        self.wait_migration("cancelled", "failed")
        if self.monitor("query-status")["status"] != "running":
            self.monitor("cont")

    def wait_migration(self, *statuses):
        """The status that came first of these; any other end of the migration is an error."""
        def look():
            status = self.migration().get("status")
            if status in statuses:
                return status
            if status in ("failed", "cancelled", "completed"):
                raise AssertionError(f"the migration of {self.name} {status}: {self.migration()}\n{self.errors.read_text()}")
            return None
        return wait_until(look, f"migration of {self.name} to be {statuses}")


def nbd_disk(socket_path, export, reconnect_seconds=30):
    return {"driver": "nbd", "node-name": "vol0", "server": {"type": "unix", "path": str(socket_path)}, "export": export,
            "reconnect-delay": reconnect_seconds, "cache": {"direct": True, "no-flush": False}}


def null_disk():
    return {"driver": "null-co", "node-name": "vol0", "size": SIZE, "read-zeroes": True}


def save_ready_state(directory):
    """Boots the guest once, up to where it waits for "go"."""
    with Qemu("boot", null_disk(), image=directory) as qemu:
        wait_until(lambda: "READY" in qemu.text() or "BAD" in qemu.text() or qemu.process.poll() is not None,
                   "the guest to boot")
        if "READY" not in qemu.text() or "BAD" in qemu.text():
            raise AssertionError(f"the guest did not boot:\n{qemu.text()}\n{qemu.errors.read_text()}")
        qemu.monitor("stop")
        qemu.monitor("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        qemu.monitor("migrate", uri=f"exec:cat > {directory}/ready.state")
        qemu.wait_migration("completed")


def ready_guest(name, disk, **options):
    """A guest that goes on from the saved state; begin() lets it."""
    return Qemu(name, disk, incoming=f"exec:cat {guest_image()}/ready.state", **options)


# What the guest said.

def beats_in(text):
    """The numbers, of whole lines only."""
    return [int(one) for one in re.findall(r"^HB (\d+)\r?$", text[:text.rfind("\n") + 1], re.MULTILINE)]


def check_console(text):
    """Every heartbeat once and in order, and no read that was wrong. Gives the last number."""
    if "BAD" in text:
        raise AssertionError("a read was wrong: " + text[text.index("BAD"):].splitlines()[0])
    numbers = beats_in(text)
    for position, number in enumerate(numbers, 1):
        if number != position:
            raise AssertionError(f"heartbeat {position} says {number}: a gap or a repeat")
    if not numbers:
        raise AssertionError("the guest never wrote")
    return len(numbers)


def pattern(number):
    state = (number * 0x9e3779b97f4a7c15 + 1) & 0xffffffffffffffff
    words = [number]
    for _ in range(BLOCK // 8 - 1):
        state ^= (state << 13) & 0xffffffffffffffff
        state ^= state >> 7
        state ^= (state << 17) & 0xffffffffffffffff
        words.append(state)
    return struct.pack(f"<{BLOCK // 8}Q", *words)


def check_volume(data, last):
    """Every block that the guest has called written is there; one more may be. The last slot is nobody's: it is empty."""
    slots = len(data) // BLOCK - 1
    if any(data[slots * BLOCK:]):
        raise AssertionError("a write came through that should not have")
    for slot in range(slots):
        numbers = [number for number in (last + 1, last) if number % slots == slot and number > 0]
        newest = last - (last - slot) % slots
        if newest > 0 and newest not in numbers:
            numbers.append(newest)
        if last + 1 in numbers and newest <= 0:
            numbers.append(0)
        if not numbers:
            continue
        block = data[slot * BLOCK:(slot + 1) * BLOCK]
        if not any(block == (pattern(number) if number else bytes(BLOCK)) for number in numbers):
            found = struct.unpack("<Q", block[:8])[0]
            raise AssertionError(f"slot {slot} holds block {found}, wanted one of {numbers}; {last} were acknowledged")

