"""A small NBD client for writers that must know exactly what was acknowledged and when, and that go on elsewhere."""
import pathlib
import random
import struct
import sys
import threading
import time

from support import DEADLINE

sys.path.append(str(pathlib.Path(__file__).parent.parent / "support"))
from nbd_session import FLUSH, READ, WRITE, Refused, Session  # noqa: E402,F401

BLOCK = 4096


class Connection(Session):
    """A session in blocks."""

    def __init__(self, path, export, timeout=DEADLINE):
        super().__init__(path, export, timeout)

    def write(self, slot, block):
        self.request(WRITE, slot * BLOCK, BLOCK, block)

    def read(self, slot):
        return self.request(READ, slot * BLOCK, BLOCK)

    def flush(self):
        self.request(FLUSH)


def block_of(number):
    return struct.pack("<Q", number) * (BLOCK // 8)


class Writer(threading.Thread):
    """Writes numbered blocks, flushes some, reads older ones back; goes on at another server when told to.

    Like a guest it waits when the server is away and sends again what was not acknowledged. What it was told is
    written must be there ever after."""

    def __init__(self, path, export, seed, slots=2048):
        super().__init__(daemon=True)
        self.path, self.export, self.slots, self.random = path, export, slots, random.Random(seed)
        self.acknowledged = {}  # slot: the number that is certainly there
        self.underway = None
        self.number, self.error = 0, None
        self.lock = threading.Condition()
        self.ending = False
        self.latencies = []  # (when it was acknowledged, seconds)

    def run(self):
        try:
            self.connection = self.connect()
            while not self.ending:
                with self.lock:
                    self.step()
                time.sleep(0)  # whoever waits for the lock gets it
        except (OSError, AssertionError) as error:
            self.error = error

    def connect(self):
        late = time.monotonic() + DEADLINE
        while True:
            try:
                return Connection(self.path, self.export)
            except Refused:
                raise
            except OSError:
                if self.ending or time.monotonic() > late:
                    raise
                time.sleep(0.005)  # a server that is being started again tells nobody

    def send(self, function, *arguments):
        while True:
            try:
                return function(self.connection, *arguments)
            except Refused:
                raise
            except OSError:
                self.connection.close()
                self.connection = self.connect()

    def step(self):
        self.number += 1
        slot = self.random.randrange(self.slots)
        self.underway = (slot, self.number)
        began = time.monotonic()
        self.send(Connection.write, slot, block_of(self.number))
        now = time.monotonic()
        self.latencies.append((now, now - began))
        self.acknowledged[slot] = self.number
        self.underway = None
        if self.number % 8 == 0:
            self.send(Connection.flush)
        if self.number % 3 == 0:
            self.check(self.random.choice(list(self.acknowledged)))

    def check(self, slot):
        found = self.send(Connection.read, slot)
        if found != block_of(self.acknowledged[slot]):
            raise AssertionError(f"slot {slot} holds {struct.unpack('<Q', found[:8])[0]}, "
                                 f"acknowledged was {self.acknowledged[slot]}")

    def switch(self, path, prepared=None):
        """From the next request on at another server, as a guest does at its switchover."""
        with self.lock:
            old, self.path = self.connection, path
            self.connection = prepared or self.connect()
        return old

    def finish(self):
        self.ending = True
        self.join(DEADLINE)
        if self.is_alive():
            raise AssertionError("the writer hangs")
        if self.error:
            raise AssertionError(f"the writer: {self.error}")

    def check_all(self, path):
        """Everything acknowledged is there, as another client sees it."""
        connection = Connection(path, self.export)
        for slot, number in self.acknowledged.items():
            found = connection.read(slot)
            if found != block_of(number):
                raise AssertionError(f"slot {slot} holds {struct.unpack('<Q', found[:8])[0]}, acknowledged was {number}")
        connection.close()
