"""The harness itself, on plain moorblk: a guest writes, reads and is live-migrated between two QEMU processes.

One engine serves both, so nothing moves here but the guest: what later tests find is then not the harness's doing.
"""
import sys

from qemu import check_console, check_volume, nbd_disk, pattern, ready_guest, Qemu, BLOCK
from guest_image import SIZE
from support import Daemons, Place, PlainVolume, need, run_tests, volume_bytes


def test_a_guest_is_migrated_while_it_writes_and_every_block_is_on_the_volume():
    with Place() as place, Daemons() as daemons:
        volume = PlainVolume(daemons, place.directory, SIZE)
        disk = nbd_disk(volume.socket, "v")
        uri = f"unix:{place.directory}/migrate.sock"
        with ready_guest("source", disk, directory=place.directory) as source, \
                Qemu("destination", disk, directory=place.directory, incoming=uri) as destination:
            source.begin()
            source.wait_beats(200)
            source.start_migration(uri)
            source.wait_migration("completed")
            destination.wait_for("running")
            destination.wait_beats(200)
            destination.monitor("stop")
            told = source.text() + destination.text()
            downtime = source.migration()["downtime"]
        last = check_console(told)
        check_volume(volume_bytes(volume.nbd), last)
        print(f"  {last} blocks, downtime {downtime} ms")


def test_the_check_of_the_volume_finds_a_block_that_is_missing_old_or_torn():
    data = bytearray(17 * BLOCK)
    for number in range(1, 41):
        slot = number % 16
        data[slot * BLOCK:(slot + 1) * BLOCK] = pattern(number)
    check_volume(bytes(data), 40)
    check_volume(bytes(data), 39)  # written, not yet told
    for number, content in [(40, bytes(BLOCK)), (40, pattern(24)), (33, pattern(33)[:2048] + pattern(17)[2048:])]:
        broken = bytearray(data)
        broken[number % 16 * BLOCK:(number % 16 + 1) * BLOCK] = content
        try:
            check_volume(bytes(broken), 40)
        except AssertionError:
            continue
        raise SystemExit(f"a wrong block {number} was not found")


def test_the_check_of_the_console_finds_gaps_repeats_and_bad_reads():
    assert check_console("READY\r\nHB 1\r\nHB 2\r\nHB 3") == 2  # the last line is not whole
    for text in ["HB 1\nHB 3\n", "HB 1\nHB 1\n", "HB 1\nBAD data N 1 found 0\n", "READY\n"]:
        try:
            check_console(text)
        except AssertionError:
            continue
        raise SystemExit(f"not found: {text!r}")


if __name__ == "__main__":
    need("nbdcopy", "cpio")
    run_tests(sys.modules[__name__])
