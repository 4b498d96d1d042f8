"""An NBD session by its URI, in bytes; each write is durable when it is acknowledged."""
import pathlib
import sys
from urllib.parse import parse_qs, urlparse

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from nbd_session import FUA, READ, WRITE, Session  # noqa: E402


class Client(Session):
    def __init__(self, uri, timeout=30):
        parsed = urlparse(uri)
        super().__init__(parse_qs(parsed.query)["socket"][0], parsed.path.lstrip("/"), timeout)

    def write(self, offset, data):
        self.request(WRITE, offset, len(data), data, FUA)

    def read(self, offset, length):
        return self.request(READ, offset, length)
