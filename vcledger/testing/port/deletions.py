"""Deletion: grace, finalizers, preconditions, names used again.

Owns these tests. Must not know which server it is. Called by `vcledger.testing.port_contract`.
"""

from __future__ import annotations

import msgspec
import pytest

from vcledger.runtime.port import ApiPort
from vcledger.scheduler.requests import Create, Delete, Patch
from vcledger.testing.port.base import (
    MAKERS,
    PortBase,
    a_name,
    claim,
    group,
    node,
    pod,
    seconds_of,
    volume,
)


class Deletions(PortBase):
    """Grace, finalizers and preconditions of deletes."""

    def test_a_grace_is_shortened_and_never_lengthened(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(self.bind(port, made, "n1"), 201)
        name = made["metadata"]["name"]
        first: float | None = None
        for wanted, left in ((20, 20), (40, 20), (5, 5)):
            marked = self.body(port.do(Delete("Pod", "default", name, grace_seconds=wanted)), 200)["metadata"]
            assert marked["deletionGracePeriodSeconds"] == left
            asked_at = seconds_of(marked["deletionTimestamp"]) - left
            first = asked_at if first is None else first
            assert abs(asked_at - first) <= 1

    @pytest.mark.parametrize("node_name", ["", "n1"])
    def test_a_pod_is_marked_before_it_goes(self, port: ApiPort, node_name: str) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        if node_name:
            self.body(self.bind(port, made, node_name), 201)
        name = made["metadata"]["name"]
        stream = self.watch(port, "Pod", self.version_now(port))
        gone = self.body(port.do(Delete("Pod", "default", name, grace_seconds=0)), 200)["metadata"]
        lines = self.lines(stream, 2, name)
        assert [line.type for line in lines] == ["MODIFIED", "DELETED"]
        marked, last = (msgspec.json.decode(line.object)["metadata"] for line in lines)
        for meta in (marked, last, gone):
            assert meta["deletionTimestamp"] and meta["deletionGracePeriodSeconds"] == 0
        assert int(marked["resourceVersion"]) < int(last["resourceVersion"]) and gone == last

    def test_what_is_no_pod_goes_in_one_step(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        stream = self.watch(port, "PodGroup", made["metadata"]["resourceVersion"])
        self.body(port.do(Delete("PodGroup", "default", made["metadata"]["name"])), 200)
        (line,) = self.lines(stream, 1, made["metadata"]["name"])
        assert line.type == "DELETED"

    def test_a_pod_that_has_ended_goes_at_once(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(self.bind(port, made, "n1"), 201)
        name = made["metadata"]["name"]
        patch = msgspec.json.encode({"status": {"phase": "Succeeded"}})
        self.body(port.do(Patch("Pod", "default", name, patch, "status")), 200)
        self.body(port.do(Delete("Pod", "default", name)), 200)
        self.refused(self.get(port, "Pod", made), 404, "NotFound")

    def test_a_node_deleted_answers_with_a_status(self, port: ApiPort) -> None:
        made = self.create(port, "Node", node(a_name("n")))
        gone = self.body(port.do(Delete("Node", "", made["metadata"]["name"])), 200)
        assert (gone["kind"], gone["status"]) == ("Status", "Success")
        wanted = {"name": made["metadata"]["name"], "kind": "nodes", "uid": made["metadata"]["uid"]}
        assert gone["details"] == wanted

    def test_a_deletion_of_the_uid_that_is_there(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        uid = made["metadata"]["uid"]
        self.body(port.do(Delete("Pod", "default", made["metadata"]["name"], uid=uid)), 200)
        self.refused(self.get(port, "Pod", made), 404, "NotFound")

    def test_a_bound_pod_with_a_finalizer_stays_after_its_grace(self, port: ApiPort) -> None:
        item = pod(a_name("p"))
        item["metadata"]["finalizers"] = ["example.com/wait"]
        made = self.create(port, "Pod", item)
        name = made["metadata"]["name"]
        self.body(self.bind(port, made, "n1"), 201)
        for grace, left in ((None, 30), (0, 0)):
            self.body(port.do(Delete("Pod", "default", name, grace_seconds=grace)), 200)
            marked = self.body(self.get(port, "Pod", made), 200)["metadata"]
            assert marked["deletionGracePeriodSeconds"] == left
        patch = msgspec.json.encode({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/wait"]}})
        self.body(port.do(Patch("Pod", "default", name, patch)), 200)
        self.refused(self.get(port, "Pod", made), 404, "NotFound")

    def test_a_pod_without_a_node_goes_at_once(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        gone = self.body(port.do(Delete("Pod", "default", made["metadata"]["name"])), 200)
        assert gone["metadata"]["uid"] == made["metadata"]["uid"]
        self.refused(self.get(port, "Pod", made), 404, "NotFound")

    def test_a_bound_pod_gets_its_grace(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p"), terminationGracePeriodSeconds=45))
        self.body(self.bind(port, made, "n1"), 201)
        name = made["metadata"]["name"]
        marked = self.body(port.do(Delete("Pod", "default", name)), 200)["metadata"]
        assert marked["deletionGracePeriodSeconds"] == 45 and marked["deletionTimestamp"]
        again = self.body(port.do(Delete("Pod", "default", name)), 200)["metadata"]
        assert again["resourceVersion"] == marked["resourceVersion"]
        self.body(port.do(Delete("Pod", "default", name, grace_seconds=0)), 200)
        self.refused(self.get(port, "Pod", made), 404, "NotFound")

    def test_an_object_stays_until_its_finalizers_are_gone(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolumeClaim", claim(a_name("c")))
        name = made["metadata"]["name"]
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        marked = self.body(port.do(Delete("PersistentVolumeClaim", "default", name)), 200)
        assert marked["metadata"]["deletionTimestamp"]
        stream = self.watch(port, "PersistentVolumeClaim", marked["metadata"]["resourceVersion"])
        patch = msgspec.json.encode({"metadata": {"finalizers": None}})
        last = self.body(port.do(Patch("PersistentVolumeClaim", "default", name, patch)), 200)["metadata"]
        assert "finalizers" not in last and last["resourceVersion"] == marked["metadata"]["resourceVersion"]
        self.refused(self.get(port, "PersistentVolumeClaim", made), 404, "NotFound")
        (line,) = self.lines(stream, 1, name)
        gone = msgspec.json.decode(line.object)["metadata"]
        assert line.type == "DELETED" and gone["finalizers"] == ["kubernetes.io/pvc-protection"]
        assert int(gone["resourceVersion"]) > int(last["resourceVersion"])

    def test_the_name_of_what_is_being_deleted_is_still_taken(self, port: ApiPort) -> None:
        item = volume(a_name("v"))
        self.create(port, "PersistentVolume", item)
        name = item["metadata"]["name"]
        self.body(port.do(Delete("PersistentVolume", "", name)), 200)
        status = self.refused(port.do(Create("PersistentVolume", "", msgspec.json.encode(item))), 409, "AlreadyExists")
        assert status["message"] == f'object is being deleted: persistentvolumes "{name}" already exists'

    def test_no_finalizer_is_added_while_it_is_deleted(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolumeClaim", claim(a_name("c")))
        name = made["metadata"]["name"]
        self.body(port.do(Delete("PersistentVolumeClaim", "default", name)), 200)
        patch = msgspec.json.encode({"metadata": {"finalizers": ["example.com/late"]}})
        answer = port.do(Patch("PersistentVolumeClaim", "default", name, patch))
        assert "no new finalizers can be added" in self.refused(answer, 422, "Invalid")["message"]

    @pytest.mark.parametrize(("kind", "shown"), [("Pod", "Pod"), ("PodGroup", "PodGroup.scheduling.volcano.sh")])
    def test_a_delete_of_another_uid_conflicts(self, port: ApiPort, kind: str, shown: str) -> None:
        made = self.create(port, kind, MAKERS[kind](a_name("d")))
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        answer = port.do(Delete(kind, "default", name, uid="another-uid"))
        why = f"the UID in the precondition (another-uid) does not match the UID in record ({uid}). "
        why += "The object might have been deleted and then recreated"
        wanted = f'Operation cannot be fulfilled on {shown} "{name}": {why}'
        assert self.refused(answer, 409, "Conflict")["message"] == wanted
        self.body(self.get(port, kind, made), 200)

    def test_a_delete_of_what_is_not_there_is_not_found(self, port: ApiPort) -> None:
        self.refused(port.do(Delete("Pod", "default", "nobody")), 404, "NotFound")

    def test_a_name_can_be_used_again_by_another_uid(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(port.do(Delete("Pod", "default", made["metadata"]["name"])), 200)
        again = self.create(port, "Pod", pod(made["metadata"]["name"]))
        assert again["metadata"]["uid"] != made["metadata"]["uid"]


__all__ = ["Deletions"]
