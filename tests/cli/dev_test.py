"""`moord dev`: a cluster in one command, that survives the death of its parts and leaves nothing when told to go."""
import os
import re
import signal
import subprocess
import sys

from cluster import BIN, Dev, Place, run_tests, skip_without_devices, wait_until


def ready_nodes(place):
    return sorted(node["metadata"]["name"] for node in place.moor_json("nodes")["items"]
                  if any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"]))


def attached(place, name, node="node-1"):
    place.moor("volume", "create", name, "--size", "64Mi", "--replicas", "3")
    place.moor("attach", name, "--node", node, "--wait")
    return place.moor("volume", "device", name, "-o", "name").strip()


def write(device, text):
    subprocess.run(["dd", f"of={device}", "bs=4096", "count=1", "conv=fsync,sync", "oflag=direct", "status=none"],
                   input=text.encode().ljust(4096, b"."), check=True, timeout=60)


def read(device):
    return subprocess.run(["dd", f"if={device}", "bs=4096", "count=1", "iflag=direct", "status=none"],
                          capture_output=True, check=True, timeout=60).stdout.rstrip(b".").decode()


def networks():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line}


def test_when_it_says_ready_every_node_is():
    with Place() as place, Dev(place, nodes=2) as dev:
        assert ready_nodes(place) == ["node-1", "node-2"]  # moor finds the cluster by itself
        assert (dev.state / "kubeconfig").exists()
        code, _, error = place.run(BIN / "moord", "dev", "--dir", dev.state, "--listen", "127.0.0.1:0")
        assert code == 1 and "already" in error, error


def test_a_part_that_dies_is_started_again():
    with Place() as place, Dev(place, nodes=2) as dev:
        for words in (("server",), ("agent", "node-1")):
            (victim,) = dev.pids(*words)
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: [one for one in dev.pids(*words) if one != victim], f"a new {words}")
        wait_until(lambda: place.run(BIN / "moor", "nodes")[0] == 0, "the server at its old address")
        place.moor("volume", "create", "v1", "--size", "64Mi", "--replicas", "2", "--wait")


def test_stopping_detaches_nothing_and_the_next_start_adopts():
    with Place() as place, Dev(place) as dev:
        device = attached(place, "v1")
        write(device, "before")
        blocks = {pid: words for pid, words in dev.processes().items() if "moorblk" in words[0]}
        assert dev.stop() == 0
        assert {pid: words for pid, words in dev.processes().items()} == blocks, "only block processes go on"
        assert read(device) == "before"
        write(device, "meanwhile")
        with Dev(place) as again:
            place.moor("attach", "v1", "--node", "node-1", "--wait")
            assert read(device) == "meanwhile"
            assert set(blocks) <= set(again.processes()), "nothing was started anew"
            place.moor("detach", "v1", "--wait")
            place.moor("volume", "delete", "v1", "--wait")


def test_going_down_leaves_no_process_and_no_device_and_keeps_the_data():
    with Place() as place, Dev(place) as dev:
        device = attached(place, "v1")
        write(device, "kept")
        place.run(BIN / "moord", "dev", "--dir", dev.state, "--down", check=0)
        assert dev.process.wait(60) == 0
        assert dev.processes() == {}
        assert not os.path.exists(device)
        assert str(dev.state) not in open("/proc/self/mountinfo").read()
        with Dev(place):
            # Its ticket brings it back without a person.
            wait_until(lambda: os.path.exists(device) and place.run(BIN / "moor", "volume", "device", "v1")[0] == 0,
                       "the device to be there again")
            assert read(device) == "kept"
            place.moor("detach", "v1", "--wait")


def test_when_it_is_killed_server_and_agents_end_too():
    with Place() as place, Dev(place, nodes=1) as dev:
        dev.process.kill()
        dev.process.wait()
        wait_until(lambda: not dev.processes(), "the end of its children")


def test_with_netns_each_node_has_a_network_of_its_own():
    with Place() as place, Dev(place, "--netns") as dev:
        device = attached(place, "v1", "node-2")
        write(device, "over the bridge")
        replicas = place.moor_json("replicas", "v1")["items"]
        addresses = {one["status"]["ip"] for one in replicas}
        assert len(addresses) == 3 and all(re.match(r"10\.77\.\d+\.[123]$", one) for one in addresses), addresses
        before = networks()
        spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in dev.pids("agent")}
        assert len(spaces) == 3 and os.readlink("/proc/self/ns/net") not in spaces
        assert read(device) == "over the bridge"
        place.run(BIN / "moord", "dev", "--dir", dev.state, "--down", check=0)
        assert len(before - networks()) == 3, "its namespaces are gone"


if __name__ == "__main__":
    skip_without_devices()
    run_tests(sys.modules[__name__])
