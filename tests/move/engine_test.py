"""Two engines, a guest, and no control plane: the test says what a controller would. A guest is live-migrated from the
engine that has the volume to its standby; what the engines promise each other in a move is shown alone here."""
import contextlib
import json
import sys

from guest_image import SIZE
from moving import Intruder
from nbd_client import Connection, Refused, block_of
from qemu import Qemu, check_console, check_volume, nbd_disk, ready_guest
from support import BIN, Daemons, Place, PlainVolume, control, need, run_tests, volume_bytes, wait_until


class Pair:
    """A volume with its engine and, later, a standby. Use with `with`."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:  # nothing stays when the beginning fails
            self.directory = stack.enter_context(Place()).directory
            self.daemons = stack.enter_context(Daemons())
            self.volume = PlainVolume(self.daemons, self.directory, SIZE, "--peer-listen", "tcp:127.0.0.1:0")
            self.source = self.daemons.running[-1]
            self.source_call("hold", on=True)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def source_status(self):
        return control(self.directory / "v.ctl", "status")

    def source_call(self, operation, **arguments):
        return control(self.directory / "v.ctl", "call", operation, json.dumps(arguments))

    def status(self):
        return control(self.directory / "s.ctl", "status")

    def call(self, operation, **arguments):
        return control(self.directory / "s.ctl", "call", operation, json.dumps(arguments))

    def prepare(self, *options):
        """The standby, ready."""
        address = self.source_status()["peerAddress"]
        self.standby = self.daemons.start(
            BIN / "moorblk", "engine", "--volume", "v", "--epoch", 2, "--engine-id", "s", "--confirm", "auto",
            "--standby", "--source", address, "--listen", f"unix:{self.directory}/s.sock", "--control",
            self.directory / "s.ctl", *self.volume.replicas, *options,
            log=self.directory / "standby.log")
        self.socket = self.directory / "s.sock"
        wait_until(self.socket.exists, "the standby to listen")
        wait_until(lambda: self.status().get("ready"), "the standby to be ready")

    def guest(self):
        return ready_guest("source", nbd_disk(self.volume.socket, "v"), directory=self.directory)

    def waiting(self):
        self.where = f"unix:{self.directory}/migrate.sock"
        return Qemu("destination", nbd_disk(self.socket, "v"), directory=self.directory, incoming=self.where)

    def check(self, told, uri_socket):
        last = check_console(told)
        check_volume(volume_bytes(f"nbd+unix:///v?socket={uri_socket}"), last)
        print(f"  {last} blocks")


def begin(source, beats=100):
    source.begin()
    source.wait_beats(beats)


def test_the_first_write_at_the_standby_takes_the_volume_and_the_source_gets_nothing_through():
    with Pair() as pair, pair.guest() as source:
        begin(source)
        pair.prepare()
        with pair.waiting() as destination:
            source.wait_beats(50)
            assert pair.status()["state"] == "standby", pair.status()
            source.start_migration(pair.where)
            source.wait_migration("completed")
            destination.wait_beats(100)
            assert pair.status()["state"] == "serving" and pair.status()["epoch"] == 2, pair.status()
            intruder = Intruder(str(pair.volume.socket), "v")
            destination.wait_beats(50)
            pair.source_call("hold", on=False)  # what a confirmation comes to: the source lets its clients go
            assert pair.source.wait(60) == 3, "superseded"
            said = intruder.verdict()
            assert intruder.process.returncode != 0 and "wrote" not in said, said
            destination.wait_beats(50)
            destination.monitor("stop")
            pair.check(source.text() + destination.text(), pair.socket)


def test_a_client_that_pauses_before_switchover_activates_the_standby_itself():
    with Pair() as pair, pair.guest() as source:
        begin(source)
        pair.prepare()
        with pair.waiting() as destination:
            source.start_migration(pair.where, pause_before_switchover=True)
            source.wait_migration("pre-switchover")
            pair.call("activate")
            wait_until(lambda: pair.status()["state"] == "serving", "the standby to be active")
            source.monitor("migrate-continue", state="pre-switchover")
            source.wait_migration("completed")
            destination.wait_beats(100)
            destination.monitor("stop")
            pair.check(source.text() + destination.text(), pair.socket)


def test_a_destination_that_dies_before_it_is_active_is_not_noticed_by_the_guest():
    with Pair() as pair, pair.guest() as source:
        begin(source)
        pair.prepare()
        with pair.waiting() as destination:
            source.start_migration(pair.where, pause_before_switchover=True)
            source.wait_migration("pre-switchover")
            destination.kill()
            pair.standby.kill()
            source.give_up()
        pair.source_call("epoch.take", epoch=3)  # so that no old standby can wake up later
        source.wait_beats(100)
        assert pair.source_status()["epoch"] == 3, pair.source_status()
        source.monitor("stop")
        pair.check(source.text(), pair.volume.socket)


def test_an_activation_without_a_write_is_undone_and_the_guests_session_goes_on():
    with Pair() as pair, pair.guest() as source:
        begin(source)
        pair.prepare()
        pair.call("activate")
        wait_until(lambda: pair.status()["state"] == "serving", "the standby to be active")
        pair.standby.kill()
        pair.source_call("epoch.take", epoch=3)
        source.wait_beats(100)
        source.monitor("stop")
        pair.check(source.text(), pair.volume.socket)


def test_once_the_destination_has_written_the_sources_client_must_open_again():
    with Pair() as pair:
        old = Connection(pair.volume.socket, "v")
        old.write(1, block_of(1))
        pair.prepare()
        new = Connection(pair.socket, "v")
        assert new.read(1) == block_of(1)
        new.write(1, block_of(2))
        pair.standby.kill()
        pair.source_call("epoch.take", epoch=3)
        try:
            old.write(2, block_of(3))
        except (Refused, OSError):
            pass
        else:
            raise AssertionError("a client with an old cache was served")
        again = wait_until(lambda: reopened(pair), "the source to serve again")
        assert again.read(1) == block_of(2), "the destination's acknowledged write is lost"
        assert again.read(2) != block_of(3), "the old client's write came through"


def reopened(pair):
    try:
        return Connection(pair.volume.socket, "v")
    except OSError:
        return None


def test_a_replica_that_drops_in_the_middle_costs_a_copy_and_no_data():
    with Pair() as pair, pair.guest() as source:
        begin(source)
        # Without a Grant only a person knows that the lost one holds nothing newer.
        pair.prepare("--accept-missing", "--start-wait", "1s")
        pair.daemons.running[2].kill()
        source.wait_beats(50)
        with pair.waiting() as destination:
            source.start_migration(pair.where)
            source.wait_migration("completed")
            destination.wait_beats(100)
            destination.monitor("stop")
            pair.check(source.text() + destination.text(), pair.socket)
        modes = sorted(member["mode"] for member in pair.status()["members"])
        assert modes == ["ERR", "RW", "RW"], modes


if __name__ == "__main__":
    need("nbdcopy", "cpio", "qemu-io")
    run_tests(sys.modules[__name__])
