"""fio as the client: heavy writing during a move, with a replica failing before, during and after it."""
import subprocess
import sys

from moving import Cluster, Volume, kill
from support import DEADLINE, Place, need, run_tests, wait_until

SIZE = 64 << 20


def fio(uri, name, offset, seconds=None, verify_only=False):
    words = ["fio", f"--name={name}", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bsrange=4k-64k",
             "--iodepth=16", f"--offset={offset}", "--size=24m", "--verify=crc32c", "--verify_fatal=1", "--fsync=64",
             "--randseed=7", "--output-format=terse", "--verify_state_save=0"]
    if verify_only:
        words += ["--verify_only"]
    elif seconds:
        words += ["--do_verify=0", "--loops=1000", f"--runtime={seconds}"]
    else:
        words += ["--do_verify=0"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def done(process):
    text = process.communicate(timeout=DEADLINE)[0].decode()
    if process.returncode != 0:
        raise AssertionError(f"fio: {text}")


def move_under_load(when):
    with Place() as place, Cluster(place) as cluster:
        volume = Volume(cluster, size=SIZE)
        volume.attach("node-1")
        done(fio(volume.uri("node-1"), "kept", 0))  # read again at the end
        if when == "before":
            kill(volume.replica_pid("node-3"))
        load = fio(volume.uri("node-1"), "load", 32 << 20, seconds=4)
        volume.attach("node-2")
        if when == "during":
            kill(volume.replica_pid("node-3"))
        done(load)
        done(fio(volume.uri("node-2"), "kept", 0, verify_only=True))  # through the standby: it never activates
        assert volume.phase() == "ready", volume.status()
        load = fio(volume.uri("node-2"), "load", 32 << 20, seconds=3)  # its first write takes the volume over
        volume.wait_phase("activated")
        volume.let_go("node-1")
        volume.wait_settled("node-2")
        if when == "after":
            kill(volume.replica_pid("node-3"))
        done(load)
        done(fio(volume.uri("node-2"), "kept", 0, verify_only=True))
        wanted = 3 if when == "never" else 2
        wait_until(lambda: len(volume.settle_replicas()) == wanted, f"{wanted} replicas in step")


def test_heavy_writing_goes_through_a_move():
    move_under_load("never")


def test_a_replica_that_failed_before_the_move_stays_out_of_it():
    move_under_load("before")


def test_a_replica_may_fail_during_the_move():
    move_under_load("during")


def test_a_replica_may_fail_after_the_move():
    move_under_load("after")


if __name__ == "__main__":
    need("fio", "ip")
    run_tests(sys.modules[__name__])
