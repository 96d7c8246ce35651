"""Custom resources, where they are unlike Kubernetes' own kinds.

Owns these tests. Must not know which server it is. Called by `vcledger.testing.port_contract`.
"""

from __future__ import annotations

from vcledger.runtime.port import ApiPort
from vcledger.scheduler.requests import Delete, Patch
from vcledger.testing.port.base import (
    MODIFIED,
    PortBase,
    a_name,
    group,
    volcano_queue,
)


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
