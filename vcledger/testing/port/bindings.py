"""The binding subresource: what a bind does, and when it is refused.

Owns these tests. Must not know which server it is. Called by `vcledger.testing.port_contract`.
"""

from __future__ import annotations

import msgspec
import pytest

from vcledger.runtime.port import ApiPort
from vcledger.scheduler.requests import Delete, Patch
from vcledger.testing.port.base import (
    PortBase,
    a_name,
    pod,
)


class Bindings(PortBase):
    """The binding subresource."""

    def test_a_bind_sets_the_node(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        status = self.body(self.bind(port, made, "n1", annotations={"volcano": "yes"}), 201)
        assert (status["kind"], status["status"]) == ("Status", "Success")
        after = self.body(self.get(port, "Pod", made), 200)
        assert after["spec"]["nodeName"] == "n1" and after["metadata"]["annotations"] == {"volcano": "yes"}
        scheduled = [one for one in after["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert [one["status"] for one in scheduled] == ["True"]
        assert after["status"]["phase"] == "Pending"

    def test_a_bind_replaces_the_failed_condition(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
        patch = msgspec.json.encode({"status": {"conditions": [condition]}})
        self.body(port.do(Patch("Pod", "default", made["metadata"]["name"], patch, "status")), 200)
        self.body(self.bind(port, made, "n1"), 201)
        (after,) = self.body(self.get(port, "Pod", made), 200)["status"]["conditions"]
        assert after["status"] == "True" and "reason" not in after and "message" not in after

    @pytest.mark.parametrize("again", ["n1", "n2"])
    def test_a_pod_is_bound_once(self, port: ApiPort, again: str) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        name = made["metadata"]["name"]
        self.body(self.bind(port, made, "n1"), 201)
        status = self.refused(self.bind(port, made, again), 409, "Conflict")
        already = f'pod {name} is already assigned to node "n1"'
        assert status["message"] == f'Operation cannot be fulfilled on pods/binding "{name}": {already}'
        assert status["details"] == {"name": name, "kind": "pods/binding"}
        assert self.body(self.get(port, "Pod", made), 200)["spec"]["nodeName"] == "n1"

    def test_a_bind_of_another_uid_conflicts(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        status = self.refused(self.bind(port, made, "n1", uid="another-uid"), 409, "Conflict")
        assert f"UID in precondition: another-uid, UID in object meta: {made['metadata']['uid']}" in status["message"]
        assert not self.body(self.get(port, "Pod", made), 200)["spec"].get("nodeName")

    def test_a_bind_of_a_pod_that_is_gone_is_not_found(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(port.do(Delete("Pod", "default", made["metadata"]["name"])), 200)
        status = self.refused(self.bind(port, made, "n1"), 404, "NotFound")
        assert status["message"] == f'pods "{made["metadata"]["name"]}" not found'

    def test_a_terminating_pod_is_not_bound(self, port: ApiPort) -> None:
        item = pod(a_name("p"))
        item["metadata"]["finalizers"] = ["example.com/wait"]
        made = self.create(port, "Pod", item)
        self.body(port.do(Delete("Pod", "default", made["metadata"]["name"])), 200)
        status = self.refused(self.bind(port, made, "n1"), 409, "Conflict")
        assert status["message"].endswith(
            f"pod {made['metadata']['name']} is being deleted, cannot be assigned to a host"
        )

    def test_a_gated_pod_is_not_bound(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p"), schedulingGates=[{"name": "example.com/hold"}]))
        status = self.refused(self.bind(port, made, "n1"), 409, "Conflict")
        assert status["message"].endswith(f"pod {made['metadata']['name']} has non-empty .spec.schedulingGates")

    def test_a_bind_does_not_ask_whether_the_node_exists(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(self.bind(port, made, "no-such-node"), 201)

    def test_a_bind_needs_a_node(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        status = self.body(self.bind(port, made, ""), 500)
        assert status["message"] == "target.name: Required value" and "reason" not in status
        assert not self.body(self.get(port, "Pod", made), 200)["spec"].get("nodeName")

    def test_annotations_of_a_bind_are_added(self, port: ApiPort) -> None:
        item = pod(a_name("p"))
        item["metadata"]["annotations"] = {"keep": "1", "change": "old"}
        made = self.create(port, "Pod", item)
        self.body(self.bind(port, made, "n1", annotations={"change": "new", "add": "2"}), 201)
        after = self.body(self.get(port, "Pod", made), 200)
        assert after["metadata"]["annotations"] == {"keep": "1", "change": "new", "add": "2"}

    def test_a_bind_takes_the_nomination_away(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        name = made["metadata"]["name"]
        nominated = Patch("Pod", "default", name, b'{"status":{"nominatedNodeName":"n2"}}', "status")
        assert self.body(port.do(nominated), 200)["status"]["nominatedNodeName"] == "n2"
        self.body(self.bind(port, made, "n1"), 201)
        assert "nominatedNodeName" not in self.body(self.get(port, "Pod", made), 200)["status"]
        status = self.refused(port.do(nominated), 422, "Invalid")
        why = "Forbidden: may not be set on pods that are already bound to a node"
        assert status["message"] == f'Pod "{name}" is invalid: status.nominatedNodeName: {why}'


__all__ = ["Bindings"]
