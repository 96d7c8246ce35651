"""Custom resources, where they are unlike Kubernetes' own kinds.

Owns these tests. Must not know which server it is. Called by `vcledger.testing.port_contract`.
"""

from __future__ import annotations

import msgspec

from vcledger.runtime.port import Answer, ApiPort
from vcledger.scheduler.requests import Delete, Patch
from vcledger.testing.port.base import (
    MODIFIED,
    Object,
    PortBase,
    a_name,
    group,
    pod,
    volcano_queue,
)


def plain_patch(port: ApiPort, kind: str, item: Object, patch: Object, subresource: str = "") -> Answer:
    """A merge patch of RFC 7386."""
    meta = item["metadata"]
    body = msgspec.json.encode(patch)
    return port.do(Patch(kind, meta.get("namespace", ""), meta["name"], body, subresource, plain=True))


class CustomResources(PortBase):
    """Volcano's kinds, which definitions serve: no merging by strategy, no blind update, and only some have a status
    of its own."""

    def test_no_strategic_merge(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        status = self.refused(
            port.do(Patch("PodGroup", "default", made["metadata"]["name"], b"{}")), 415, "UnsupportedMediaType"
        )
        wanted = "the body of the request was in an unknown format - accepted media types include: "
        assert status["message"].startswith(wanted + "application/json-patch+json, application/merge-patch+json")

    def test_a_plain_merge_writes_what_it_names(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        first = {"phase": "Inqueue", "running": 1, "conditions": [{"type": "Unschedulable", "status": "True"}]}
        after = self.body(plain_patch(port, "PodGroup", made, {"status": first}), 200)
        assert (after["status"], after["spec"]) == (first, made["spec"])
        second = {"running": None, "succeeded": None, "conditions": [{"type": "Scheduled", "status": "True"}]}
        last = self.body(plain_patch(port, "PodGroup", made, {"status": second}), 200)
        assert last["status"] == {"phase": "Inqueue", "conditions": [{"type": "Scheduled", "status": "True"}]}
        assert self.body(self.get(port, "PodGroup", made), 200) == last

    def test_a_plain_merge_of_an_old_version_conflicts(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        version = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
        self.body(plain_patch(port, "PodGroup", made, {**version, "status": {"phase": "Inqueue"}}), 200)
        again = plain_patch(port, "PodGroup", made, {**version, "status": {"phase": "Running"}})
        status = self.refused(again, 409, "Conflict")
        assert status["details"]["name"] == made["metadata"]["name"]

    def test_a_plain_merge_of_another_objects_uid(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        other = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}, "status": {"phase": "Inqueue"}}
        self.refused(plain_patch(port, "PodGroup", made, other), 422, "Invalid")

    def test_a_plain_merge_that_changes_nothing_writes_nothing(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        after = self.body(plain_patch(port, "PodGroup", made, {"status": {"phase": "Inqueue"}}), 200)
        again = self.body(plain_patch(port, "PodGroup", made, {"status": {"phase": "Inqueue"}}), 200)
        assert again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]

    def test_a_plain_merge_of_what_is_not_there(self, port: ApiPort) -> None:
        missing = group(a_name("g"))
        status = self.refused(plain_patch(port, "PodGroup", missing, {"status": {"phase": "Inqueue"}}), 404, "NotFound")
        assert status["details"]["kind"] == "podgroups"

    def test_a_plain_merge_of_a_queues_status(self, port: ApiPort) -> None:
        made = self.create(port, "Queue", volcano_queue(a_name("q")))
        both = {"spec": {"weight": 7}, "status": {"state": "Open", "allocated": {"cpu": "1", "pods": "1"}}}
        first = self.body(plain_patch(port, "Queue", made, both, "status"), 200)
        assert (first["spec"], first["status"]) == (made["spec"], both["status"])
        less = {"status": {"allocated": {"cpu": "0", "pods": None}}}
        last = self.body(plain_patch(port, "Queue", made, less, "status"), 200)
        assert last["status"] == {"state": "Open", "allocated": {"cpu": "0"}}
        ignored = self.body(plain_patch(port, "Queue", made, {"status": {"state": "Closed"}}), 200)
        assert ignored["status"] == last["status"]

    def test_a_plain_merge_of_a_pods_status(self, port: ApiPort) -> None:
        """Lists are replaced whole, unlike with a strategic one."""
        made = self.create(port, "Pod", pod(a_name("p")))
        old = {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}
        self.body(plain_patch(port, "Pod", made, {"status": old}, "status"), 200)
        new = {"conditions": [{"type": "B", "status": "False"}], "nominatedNodeName": "n1"}
        after = self.body(plain_patch(port, "Pod", made, {"status": new}, "status"), 200)
        assert [(one["type"], one["status"]) for one in after["status"]["conditions"]] == [("B", "False")]
        assert after["status"]["nominatedNodeName"] == "n1"

    def test_no_update_without_a_version(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        del made["metadata"]["resourceVersion"]
        status = self.refused(self.put(port, "PodGroup", made), 422, "Invalid")
        name = made["metadata"]["name"]
        why = "Invalid value: 0: must be specified for an update"
        assert (
            status["message"] == f'podgroups.scheduling.volcano.sh "{name}" is invalid: metadata.resourceVersion: {why}'
        )
        assert status["details"] == {
            "name": name,
            "group": "scheduling.volcano.sh",
            "kind": "podgroups",
            "causes": [{"reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"}],
        }

    def test_an_update_of_an_old_version_conflicts(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        made["spec"]["minMember"] = 2
        self.body(self.put(port, "PodGroup", made), 200)
        made["spec"]["minMember"] = 3
        status = self.refused(self.put(port, "PodGroup", made), 409, "Conflict")
        resource = "podgroups.scheduling.volcano.sh"
        name = made["metadata"]["name"]
        assert status["message"] == f'Operation cannot be fulfilled on {resource} "{name}": {MODIFIED}'
        assert status["details"] == {"name": name, "group": "scheduling.volcano.sh", "kind": "podgroups"}

    def test_a_podgroups_status_is_written_with_the_rest(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        after = self.body(self.put(port, "PodGroup", {**made, "status": {"phase": "Inqueue"}}), 200)
        assert after["status"] == {"phase": "Inqueue"}
        status = self.refused(self.put(port, "PodGroup", after, "status"), 404, "NotFound")
        assert status["message"] == f'podgroups.scheduling.volcano.sh "{made["metadata"]["name"]}" not found'

    def test_a_path_that_there_is_not(self, port: ApiPort) -> None:
        item = {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "s"}}
        status = self.refused(self.put(port, "StorageClass", item, "status"), 404, "NotFound")
        assert status["message"] == "the server could not find the requested resource"

    def test_a_queues_status_is_written_apart(self, port: ApiPort) -> None:
        made = self.create(port, "Queue", volcano_queue(a_name("q")))
        both = {**made, "spec": {"weight": 2}, "status": {"state": "Open", "allocated": {}}}
        after = self.body(self.put(port, "Queue", both), 200)
        assert after["spec"] == {"weight": 2} and "status" not in after
        both = {**after, "spec": {"weight": 3}, "status": {"state": "Open", "allocated": {}}}
        last = self.body(self.put(port, "Queue", both, "status"), 200)
        assert (last["spec"], last["status"]) == ({"weight": 2}, {"state": "Open", "allocated": {}})

    def test_a_delete_answers_with_a_status(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        meta = made["metadata"]
        gone = self.body(port.do(Delete("PodGroup", "default", meta["name"])), 200)
        assert (gone["kind"], gone["status"]) == ("Status", "Success")
        assert gone["details"] == {
            "name": meta["name"],
            "group": "scheduling.volcano.sh",
            "kind": "podgroups",
            "uid": meta["uid"],
        }
        status = self.refused(self.get(port, "PodGroup", made), 404, "NotFound")
        assert status["message"] == f'podgroups.scheduling.volcano.sh "{meta["name"]}" not found'


__all__ = ["CustomResources"]
