"""The stories of the book of tickets, with real processes: who gets the volume, who shares it, who waits with which reason,
who yields. The requesters use the API as anybody does."""
import sys
import threading

from cluster import Api, Dev, Place, run_tests, skip_without_devices, wait_until

API, CSI, SNAPSHOT, BACKUP = "longhorn-api", "csi-attacher", "snapshot-controller", "backup-controller"


class Story:
    """One volume of its own in the cluster that all stories share."""

    def __init__(self, place, dev, name):
        self.api, self.name, self.place = Api(dev.state), name, place
        place.moor("volume", "create", name, "--size", "64Mi", "--replicas", "2", "--wait")

    def write(self, **tickets):
        """Several tickets in one request; None takes one back."""
        wish = {key: value and {"id": key, **value} for key, value in tickets.items()}
        return self.api.patch("volumeattachments", self.name, {"spec": {"attachmentTickets": wish}})

    def book(self):
        return self.api.get("volumeattachments", self.name)

    def status(self, ticket):
        return self.api.ticket_status(self.name, ticket)

    def satisfied(self, *tickets):
        """Exactly these are satisfied, sooner or later."""
        def asked():
            book = self.book()["spec"].get("attachmentTickets", {})
            return {one for one in book if self.status(one).get("satisfied")} == set(tickets)
        wait_until(asked, f"{tickets} to be satisfied")

    def blocker(self, ticket, kind):
        def told():
            found = self.status(ticket).get("blockers", [])
            return found if [one["type"] for one in found] == [kind] else None
        return wait_until(told, f"{ticket} to wait for {kind}, {self.status(ticket)}")[0]

    def is_on(self, node):
        volume = self.api.get("volumes", self.name)
        (engine,) = self.place.moor_json("engines", self.name)["items"]
        assert volume["spec"]["nodeID"] == volume["status"]["currentNodeID"] == node, volume
        assert volume["status"]["state"] == "attached" and engine["status"]["currentState"] == "running", volume
        assert engine["spec"]["nodeID"] == node, engine

    def is_detached(self):
        wait_until(lambda: self.api.get("volumes", self.name)["status"]["state"] == "detached", "a detached volume")
        volume = self.api.get("volumes", self.name)
        assert volume["spec"].get("nodeID", "") == volume["status"].get("currentNodeID", "") == "", volume
        (engine,) = self.place.moor_json("engines", self.name)["items"]
        assert engine["status"]["currentState"] == "stopped", engine


def wish(node, kind=API, **more):
    return {"type": kind, "nodeID": node, **more}


def of_several_requesters_the_one_with_the_highest_priority_wins(story):
    story.write(backup=wish("node-1", BACKUP), pod=wish("node-2", CSI), person=wish("node-3", API))
    story.satisfied("person")
    story.is_on("node-3")
    assert story.blocker("pod", "AttachedElsewhere")["holder"] == "person"
    story.write(person=None)
    story.satisfied("pod")
    story.is_on("node-2")
    story.write(pod=None)
    story.satisfied("backup")
    story.is_on("node-1")
    story.write(backup=None)
    story.is_detached()


def many_requesters_at_once_lose_no_ticket(story):
    threads = [threading.Thread(target=story.write, kwargs={f"t-{number}": wish("node-1", CSI)}) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    story.satisfied(*(f"t-{number}" for number in range(16)))
    assert story.api.get("volumes", story.name)["status"]["epoch"] == 1, "one start for all"
    story.write(**{f"t-{number}": None for number in range(16)})
    story.is_detached()


def compatible_tickets_share_and_the_last_one_leaving_detaches(story):
    story.write(one=wish("node-1", CSI), two=wish("node-1", API), backup=wish("node-1", BACKUP, parameters={"disableFrontend": "any"}))
    story.satisfied("one", "two", "backup")
    story.is_on("node-1")
    for leaving, left in (("one", ("two", "backup")), ("two", ("backup",))):
        story.write(**{leaving: None})
        story.satisfied(*left)
        story.is_on("node-1")
    assert story.api.get("volumes", story.name)["status"]["epoch"] == 1, "nothing was started anew"
    story.write(backup=None)
    story.is_detached()


def an_incompatible_ticket_waits_with_its_reason(story):
    story.write(plain=wish("node-1", parameters={"disableFrontend": "false"}))
    story.satisfied("plain")
    story.write(bare=wish("node-1", parameters={"disableFrontend": "true"}))
    assert story.blocker("bare", "IncompatibleParameters")["holder"] == "plain"
    (condition,) = story.status("bare")["conditions"]
    assert condition["type"] == "Satisfied" and condition["status"] == "False", condition
    assert condition["reason"] == "AttachedWithIncompatibleParameters" and condition["message"], condition
    story.write(plain=None)
    story.satisfied("bare")
    story.is_on("node-1")
    (engine,) = story.place.moor_json("engines", story.name)["items"]
    assert engine["spec"]["disableFrontend"] and not engine["status"].get("endpoint"), "no device"
    story.write(bare=None)
    story.is_detached()


def a_snapshot_or_backup_yields_to_a_workload_elsewhere(story):
    story.write(snap=wish("node-1", SNAPSHOT), backup=wish("node-1", BACKUP))
    story.satisfied("snap", "backup")
    story.write(pod=wish("node-2", CSI))
    story.satisfied("pod")
    story.is_on("node-2")
    assert story.blocker("snap", "AttachedElsewhere")["holder"] == "pod"
    # A workload does not yield, whoever comes.
    story.write(person=wish("node-3", API))
    assert story.blocker("person", "AttachedElsewhere")["holder"] == "pod"
    story.is_on("node-2")
    story.write(pod=None, person=None)
    story.satisfied("snap", "backup")
    story.is_on("node-1")
    story.write(snap=None, backup=None)
    story.is_detached()


def a_ticket_that_changes_its_node_takes_the_volume_along(story):
    story.write(pod=wish("node-1", CSI))
    story.satisfied("pod")
    before = story.status("pod").get("generation", 0)
    story.write(pod=wish("node-2", CSI))
    story.satisfied("pod")
    story.is_on("node-2")
    assert story.status("pod").get("generation", 0) == before + 1
    assert story.api.get("volumes", story.name)["status"]["epoch"] == 2
    story.write(pod=None)
    story.is_detached()


def the_fields_are_those_of_the_go_structs(story):
    story.write(pod=wish("node-1", CSI, parameters={"disableFrontend": "false", "lastAttachedBy": "me"}))
    story.satisfied("pod")
    book = story.book()
    assert book["apiVersion"] == "longhorn.io/v1beta2" and book["kind"] == "VolumeAttachment"
    assert book["metadata"]["labels"]["longhornvolume"] == book["spec"]["volume"] == story.name
    assert book["metadata"]["finalizers"] == ["longhorn.io"]
    assert [(one["kind"], one["name"]) for one in book["metadata"]["ownerReferences"]] == [("Volume", story.name)]
    ticket = book["spec"]["attachmentTickets"]["pod"]
    assert ticket.pop("requestedAt")  # beyond Longhorn
    generation = ticket.pop("generation", 0)  # a zero may be left out, which Go reads as the same
    assert ticket == {"id": "pod", "type": CSI, "nodeID": "node-1",
                      "parameters": {"disableFrontend": "false", "lastAttachedBy": "me"}}, ticket
    status = book["status"]["attachmentTicketStatuses"]["pod"]
    assert status.get("blockers", []) == []
    (condition,) = status["conditions"]
    assert status["id"] == "pod" and status["satisfied"] is True and status.get("generation", 0) == generation
    assert set(status) <= {"id", "satisfied", "conditions", "generation", "blockers"}, status
    assert set(condition) <= {"type", "status", "lastProbeTime", "lastTransitionTime", "reason", "message"}, condition
    assert condition["type"] == "Satisfied" and condition["status"] == "True" and condition["lastTransitionTime"], condition
    assert condition.get("reason", "") == "", condition
    assert story.api.get("volumes", story.name)["spec"]["lastAttachedBy"] == "me"
    story.write(pod=None)
    story.is_detached()
    assert story.book().get("status", {}).get("attachmentTicketStatuses", {}) == {}


STORIES = [of_several_requesters_the_one_with_the_highest_priority_wins, many_requesters_at_once_lose_no_ticket,
           compatible_tickets_share_and_the_last_one_leaving_detaches, an_incompatible_ticket_waits_with_its_reason,
           a_snapshot_or_backup_yields_to_a_workload_elsewhere, a_ticket_that_changes_its_node_takes_the_volume_along,
           the_fields_are_those_of_the_go_structs]


def test_the_stories_of_the_book():
    with Place() as place, Dev(place) as dev:
        for number, story in enumerate(STORIES):
            print("  " + story.__name__.replace("_", " "), flush=True)
            story(Story(place, dev, f"story-{number}"))


if __name__ == "__main__":
    skip_without_devices()
    run_tests(sys.modules[__name__])
