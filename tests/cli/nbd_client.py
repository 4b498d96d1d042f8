"""A small NBD client (fixed newstyle, simple replies): what a test needs to write over a socket and know what was acknowledged."""
import socket
import struct
from urllib.parse import parse_qs, urlparse

IHAVEOPT = 0x49484156454F5054
REQUEST, REPLY = 0x25609513, 0x67446698
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FUA = 1


class Client:
    def __init__(self, uri, timeout=30):
        parsed = urlparse(uri)
        self.path, self.export = parse_qs(parsed.query)["socket"][0], parsed.path.lstrip("/")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(self.path)
        self.handle = 0
        try:
            self.greet()
        except Exception:
            self.socket.close()
            raise

    def take(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server hung up")
            data += more
        return data

    def greet(self):
        if self.take(8) != b"NBDMAGIC" or struct.unpack(">Q", self.take(8))[0] != IHAVEOPT:
            raise ConnectionError("no NBD server")
        self.take(2)
        self.socket.sendall(struct.pack(">I", 3))  # fixed newstyle, no zeroes
        name = self.export.encode()
        data = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self.socket.sendall(struct.pack(">QII", IHAVEOPT, 7, len(data)) + data)  # NBD_OPT_GO
        while True:
            _, _, kind, length = struct.unpack(">QIII", self.take(20))
            payload = self.take(length)
            if kind == 1:  # acknowledged
                return
            if kind & 0x80000000:
                raise ConnectionError(f"refused: {payload!r}")
            if struct.unpack(">H", payload[:2])[0] == 0:
                self.size = struct.unpack(">Q", payload[2:10])[0]

    def ask(self, command, offset=0, length=0, data=b"", flags=0):
        self.handle += 1
        self.socket.sendall(struct.pack(">IHHQQI", REQUEST, flags, command, self.handle, offset, length) + data)
        magic, error, handle = struct.unpack(">IIQ", self.take(16))
        if magic != REPLY or handle != self.handle:
            raise ConnectionError("a strange reply")
        if error:
            raise OSError(error, "the server answered an error")
        return self.take(length) if command == READ else b""

    def write(self, offset, data):
        self.ask(WRITE, offset, len(data), data, FUA)

    def read(self, offset, length):
        return self.ask(READ, offset, length)

    def close(self):
        self.socket.close()
