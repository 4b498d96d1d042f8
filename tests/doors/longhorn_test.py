"""/v1 against a real cluster: a volume is attached, refused, detached by plain HTTP as Longhorn's clients do it."""
import json
import os
import pathlib
import ssl
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
os.environ.setdefault("MOOR_BIN", str(pathlib.Path(os.environ["MOORD"]).parent))
from cluster import DEADLINE, Dev, Place, run_tests, wait_until  # noqa: E402


class Rest:
    def __init__(self, dev):
        self.base = dev.url + "/v1"
        self.token = next(dev.state.rglob("admin.token")).read_text().strip()
        self.context = ssl.create_default_context(cafile=str(next(dev.state.rglob("pki/ca.crt"))))

    def ask(self, method, path, body=None, code=200, token=None):
        url = path if path.startswith("http") else self.base + path
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {token or self.token}",
                                                  "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE, context=self.context) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        answer = json.loads(text)
        assert status == code, (method, url, status, answer)
        if code >= 400:
            assert answer["type"] == "error" and answer["status"] == code and answer["message"], answer
        return answer

    def volume(self, name):
        return self.ask("GET", f"/volumes/{name}")

    def wait_state(self, name, state):
        return wait_until(lambda: (lambda volume: volume["state"] == state and volume)(self.volume(name)),
                          f"{name} to be {state}")


def test_a_rwo_volume_is_attached_and_detached_by_the_actions_it_links_to():
    with Place() as place, Dev(place, nodes=2) as dev:
        place.moor("volume", "create", "v1", "--size", "64Mi", "--replicas", "2", "--wait", "--kubeconfig",
                   dev.state / "kubeconfig")
        rest = Rest(dev)
        assert rest.ask("GET", "")["links"]["volumes"] == rest.base + "/volumes"
        volumes = rest.ask("GET", "/volumes")
        assert volumes["type"] == "collection" and [one["id"] for one in volumes["data"]] == ["v1"], volumes
        volume = volumes["data"][0]
        assert volume["state"] == "detached" and volume["ready"], volume

        # Without a front end: no device is needed for what is shown here.
        wanted = {"hostId": "node-1", "disableFrontend": True, "attachedBy": "test", "attacherType": "longhorn-api",
                  "attachmentID": "mine"}
        answer = rest.ask("POST", volume["actions"]["attach"], wanted)
        assert answer["volumeAttachment"]["attachments"]["mine"]["nodeID"] == "node-1", answer
        attached = rest.wait_state("v1", "attached")
        assert attached["currentNodeID"] == "node-1" and attached["lastAttachedBy"] == "test", attached
        assert [one["hostId"] for one in attached["controllers"] if one["running"]] == ["node-1"], attached
        assert sorted(one["mode"] for one in attached["replicas"]) == ["RW", "RW"], attached
        wait_until(lambda: rest.volume("v1")["volumeAttachment"]["attachments"]["mine"]["satisfied"], "the ticket")
        books = rest.ask("GET", "/volumeattachments")["data"]
        assert [one["volume"] for one in books] == ["v1"] and books[0]["type"] == "volumeAttachment", books

        again = rest.ask("POST", attached["actions"]["attach"], wanted)  # the same call again: the volume as it is
        assert again["state"] == "attached" and list(again["volumeAttachment"]["attachments"]) == ["mine"], again
        refused = rest.ask("POST", "/volumes/v1?action=attach", {"hostId": "node-2"}, code=409)
        assert "node-1 by mine (longhorn-api)" in refused["message"], refused
        rest.ask("POST", "/volumes/v1?action=attach", {"hostId": "node-9"}, code=404)
        rest.ask("GET", "/volumes", token="not-a-token-0123456789", code=401)

        other = rest.ask("POST", "/volumes/v1?action=detach", {"hostId": "node-2"})  # it is not there
        assert other["state"] == "attached", other
        rest.ask("POST", "/volumes/v1?action=detach", {"hostId": ""})
        detached = rest.wait_state("v1", "detached")
        assert detached["volumeAttachment"]["attachments"] == {}, detached
        assert rest.ask("POST", "/volumes/v1?action=detach", {})["state"] == "detached"
        log = "".join(path.read_text(errors="replace") for path in dev.state.rglob("*.log")) + dev.log_text()
        assert "verb=attach" in log and "effect=attach" in log, "no audit line"


def test_a_second_attach_begins_a_move_and_the_detaches_end_it():
    with Place() as place, Dev(place) as dev:
        place.moor("volume", "create", "v1", "--size", "64Mi", "--access-mode", "rwx", "--migratable", "--wait", "--kubeconfig",
                   dev.state / "kubeconfig")
        rest = Rest(dev)

        def attach(node, code=200):
            return rest.ask("POST", "/volumes/v1?action=attach",
                            {"hostId": node, "disableFrontend": True, "attacherType": "csi-attacher", "attachmentID": f"csi-{node}"},
                            code=code)

        def detach(node):
            return rest.ask("POST", "/volumes/v1?action=detach", {"hostId": node})

        def settled(node):
            def look():
                volume = rest.volume("v1")
                running = [one["hostId"] for one in volume["controllers"] if one["running"]]
                return volume["state"] == "attached" and volume["currentNodeID"] == node and running == [node]
            wait_until(look, f"v1 on {node} alone")

        def move_to(node):
            answer = attach(node)  # answered when the volume is ready there, not before
            assert answer["volumeAttachment"]["attachments"][f"csi-{node}"]["satisfied"], answer
            assert sorted(one["hostId"] for one in answer["controllers"] if one["running"]) == sorted([here, node]), answer

        attach("node-1")
        rest.wait_state("v1", "attached")
        here = "node-1"
        settled(here)
        move_to("node-2")
        assert attach("node-2")["state"] == "attached"  # again: the volume as it is
        refused = attach("node-3", code=409)
        assert "node-2" in refused["message"], refused
        detach("node-2")  # the second node's: back to where it was
        settled("node-1")
        move_to("node-2")
        detach("node-1")  # the first node's: confirmed
        settled("node-2")
        here = "node-2"
        move_to("node-3")
        detach("")  # all nodes
        assert rest.wait_state("v1", "detached")["volumeAttachment"]["attachments"] == {}


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
