"""One NBD session (fixed newstyle, simple replies, one request at a time): what a test needs to write over a socket and know
exactly what was acknowledged."""
import os
import socket
import struct

READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FUA = 1


class Refused(OSError):
    """The server answered with an error."""


class Session:
    def __init__(self, path, export, timeout):
        self.cookie = 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(str(path))
            self.handshake(export.encode())
        except BaseException:
            self.socket.close()
            raise

    def handshake(self, export):
        greeting, option, _ = struct.unpack(">8s8sH", self.receive(18))
        if greeting != b"NBDMAGIC" or option != b"IHAVEOPT":
            raise ConnectionError("no NBD server")
        self.socket.sendall(struct.pack(">I", 3))  # fixed newstyle, no zeroes
        self.socket.sendall(b"IHAVEOPT" + struct.pack(">III", 7, len(export) + 6, len(export)) + export + b"\0\0")
        while True:  # NBD_OPT_GO: information, then the acknowledgement
            _, _, kind, length = struct.unpack(">QIII", self.receive(20))
            data = self.receive(length)
            if kind == 1:
                return
            if kind & 0x80000000:
                raise Refused(f"the export is refused: {data.decode(errors='replace')}")
            if kind == 3 and data[:2] == b"\0\0":
                self.size, self.flags = struct.unpack(">QH", data[2:12])

    def receive(self, count):
        parts = []
        while count:
            part = self.socket.recv(count)
            if not part:
                raise ConnectionError("the server closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def request(self, kind, offset=0, length=0, data=b"", flags=0):
        self.cookie += 1
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, flags, kind, self.cookie, offset, length) + data)
        magic, error, cookie = struct.unpack(">IIQ", self.receive(16))
        if magic != 0x67446698 or cookie != self.cookie:
            raise ConnectionError("a reply that was not asked for")
        if error:
            raise Refused(error, os.strerror(error))
        return self.receive(length) if kind == READ else b""

    def close(self):
        self.socket.close()
