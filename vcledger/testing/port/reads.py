"""Reading and creating: identity, versions, lists, pages; what a new object needs.

Owns these tests. Must not know which server it is. Called by `vcledger.testing.port_contract`.
"""

from __future__ import annotations

import msgspec
import pytest

from vcledger.runtime.port import ApiPort
from vcledger.scheduler.requests import Create, Delete, Get
from vcledger.testing.port.base import (
    PortBase,
    a_name,
    claim,
    group,
    node,
    pod,
    volcano_queue,
    volume,
)


class Reads(PortBase):
    """Objects, versions and lists."""

    def test_a_created_object_has_identity_and_version(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("made")))
        meta = made["metadata"]
        assert meta["uid"] and int(meta["resourceVersion"]) > 0 and meta["creationTimestamp"].endswith("Z")
        assert made["status"]["phase"] == "Pending"
        assert self.body(self.get(port, "Pod", made), 200) == made

    def test_versions_rise_over_all_kinds(self, port: ApiPort) -> None:
        made = [
            self.create(port, "Pod", pod(a_name("rise"))),
            self.create(port, "PersistentVolume", volume(a_name("v"))),
        ]
        made.append(self.create(port, "PersistentVolumeClaim", claim(a_name("c"))))
        versions = [int(item["metadata"]["resourceVersion"]) for item in made]
        assert versions == sorted(versions) and len(dict.fromkeys(versions)) == 3

    def test_what_is_not_there_is_not_found(self, port: ApiPort) -> None:
        status = self.refused(port.do(Get("Pod", "default", "nobody")), 404, "NotFound")
        assert status["message"] == 'pods "nobody" not found'
        assert status["details"] == {"name": "nobody", "kind": "pods"}

    def test_a_name_is_taken_once(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("once")))
        again = port.do(Create("Pod", "default", msgspec.json.encode(pod(made["metadata"]["name"]))))
        status = self.refused(again, 409, "AlreadyExists")
        assert status["message"] == f'pods "{made["metadata"]["name"]}" already exists'

    def test_a_list_is_sorted_and_of_one_version(self, port: ApiPort) -> None:
        names = sorted(a_name("list") for _ in range(3))
        for name in reversed(names):
            self.create(port, "Pod", pod(name))
        whole = self.body(port.list("Pod"), 200)
        assert (whole["kind"], whole["apiVersion"]) == ("PodList", "v1")
        found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in whole["items"]]
        assert [name for _, name in found if name in names] == names and found == sorted(found)
        newest = max(int(item["metadata"]["resourceVersion"]) for item in whole["items"])
        assert int(whole["metadata"]["resourceVersion"]) >= newest
        assert all("kind" not in item and "apiVersion" not in item for item in whole["items"])

    def test_pages_are_one_consistent_list(self, port: ApiPort) -> None:
        first, last = sorted(self.create(port, "Pod", pod(a_name("page")))["metadata"]["name"] for _ in range(2))
        before = [item["metadata"]["name"] for item in self.body(port.list("Pod"), 200)["items"]]
        page = self.body(port.list("Pod", limit=1), 200)
        version = page["metadata"]["resourceVersion"]
        assert page["metadata"]["remainingItemCount"] == len(before) - 1
        port.do(Delete("Pod", "default", last, grace_seconds=0))
        self.create(port, "Pod", pod(a_name("zz-later")))
        found = [item["metadata"]["name"] for item in page["items"]]
        while token := page["metadata"].get("continue"):
            page = self.body(port.list("Pod", limit=2, continue_=token), 200)
            assert page["metadata"]["resourceVersion"] == version
            found += [item["metadata"]["name"] for item in page["items"]]
        assert found == before and first in found and last in found

    def test_a_page_of_a_forgotten_version_is_gone(self, port: ApiPort) -> None:
        for _ in range(2):
            self.create(port, "Pod", pod(a_name("stale")))
        page = self.body(port.list("Pod", limit=1), 200)
        self.create(port, "Pod", pod(a_name("stale")))
        self.compact_or_skip(port)
        status = self.refused(port.list("Pod", limit=1, continue_=page["metadata"]["continue"]), 410, "Expired")
        assert status["message"].startswith("The provided continue parameter is too old")
        rest = self.body(port.list("Pod", continue_=status["metadata"]["continue"]), 200)
        assert int(rest["metadata"]["resourceVersion"]) > int(page["metadata"]["resourceVersion"])

    def test_a_list_of_the_future_times_out(self, port: ApiPort) -> None:
        later = str(int(self.version_now(port)) + 1_000_000)
        answer = port.list("Pod", resource_version=later)
        status = self.refused(answer, 504, "Timeout")
        assert status["message"].startswith(f"Timeout: Too large resource version: {later}, current: ")
        (cause,) = status["details"]["causes"]
        assert cause == {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        assert status["details"]["retryAfterSeconds"] == 1

    @pytest.mark.parametrize("token", ["nonsense", "bm9uc2Vuc2U"])
    def test_a_token_of_no_page_is_refused(self, port: ApiPort, token: str) -> None:
        status = self.refused(port.list("Pod", limit=1, continue_=token), 400, "BadRequest")
        assert status["message"].startswith("invalid continue token: continue key is not valid: ")

    def test_a_page_takes_no_version(self, port: ApiPort) -> None:
        for _ in range(2):
            self.create(port, "Pod", pod(a_name("two")))
        token = self.body(port.list("Pod", limit=1), 200)["metadata"]["continue"]
        answer = port.list("Pod", limit=1, continue_=token, resource_version=self.version_now(port))
        self.refused(answer, 400, "BadRequest")

    def test_a_list_of_some(self, port: ApiPort) -> None:
        wanted, other = pod(a_name("some")), pod(a_name("some"))
        wanted["metadata"]["labels"] = {"part": a_name("part"), "also": "1"}
        for item in (wanted, other):
            self.create(port, "Pod", item)
        selector = f"part={wanted['metadata']['labels']['part']}"
        for namespace, names in (("", [wanted["metadata"]["name"]]), ("nowhere", [])):
            found = self.body(port.list("Pod", selector=selector, namespace=namespace), 200)
            assert [item["metadata"]["name"] for item in found["items"]] == names

    def test_what_is_left_of_a_selection_is_not_counted(self, port: ApiPort) -> None:
        label = {"part": a_name("part")}
        for _ in range(2):
            item = pod(a_name("counted"))
            item["metadata"]["labels"] = label
            self.create(port, "Pod", item)
        selected = self.body(port.list("Pod", limit=1, selector=f"part={label['part']}"), 200)["metadata"]
        assert selected["continue"] and "remainingItemCount" not in selected
        whole = self.body(port.list("Pod", limit=1), 200)["metadata"]
        assert whole["remainingItemCount"] >= 1

    def test_a_list_from_what_is_no_version_is_refused(self, port: ApiPort) -> None:
        status = self.refused(port.list("Pod", resource_version="None"), 400, "BadRequest")
        why = 'resourceVersion: Invalid value: "None": strconv.ParseUint: parsing "None": invalid syntax'
        assert status["message"] == f"invalid resource version: {why}"

    def test_items_of_custom_resources_say_what_they_are(self, port: ApiPort) -> None:
        made = self.create(port, "PodGroup", group(a_name("g")))
        whole = self.body(port.list("PodGroup"), 200)
        assert (whole["kind"], whole["apiVersion"]) == ("PodGroupList", "scheduling.volcano.sh/v1beta1")
        (item,) = [item for item in whole["items"] if item["metadata"]["name"] == made["metadata"]["name"]]
        assert item == made and item["kind"] == "PodGroup"


class Creates(PortBase):
    """What a new object must and must not have."""

    def test_a_name_is_made_from_its_beginning(self, port: ApiPort) -> None:
        item = pod("")
        item["metadata"] = {"generateName": "made-", "namespace": "default"}
        names = [self.create(port, "Pod", item)["metadata"]["name"] for _ in range(3)]
        assert all(name.startswith("made-") and len(name) == len("made-") + 5 for name in names)
        assert len(dict.fromkeys(names)) == 3

    def test_an_object_needs_a_name(self, port: ApiPort) -> None:
        item = pod("")
        del item["metadata"]["name"]
        status = self.refused(port.do(Create("Pod", "default", msgspec.json.encode(item))), 422, "Invalid")
        assert status["message"] == 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'
        (cause,) = status["details"]["causes"]
        wanted = "Required value: name or generateName is required"
        assert cause == {"reason": "FieldValueRequired", "message": wanted, "field": "metadata.name"}

    def test_an_object_of_another_namespace_is_refused(self, port: ApiPort) -> None:
        answer = port.do(Create("Pod", "elsewhere", msgspec.json.encode(pod(a_name("p")))))
        status = self.refused(answer, 400, "BadRequest")
        assert (
            status["message"] == "the namespace of the provided object does not match the namespace sent on the request"
        )

    def test_a_new_object_has_no_version(self, port: ApiPort) -> None:
        item = pod(a_name("p"))
        item["metadata"]["resourceVersion"] = "7"
        answer = port.do(Create("Pod", "default", msgspec.json.encode(item)))
        status = self.body(answer, 500)
        assert status["message"] == "resourceVersion should not be set on objects to be created"
        assert "reason" not in status

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
    @pytest.mark.parametrize("kind", ["Pod", "PodGroup"])
    def test_a_body_that_is_no_object_is_refused(self, port: ApiPort, kind: str, body: bytes) -> None:
        status = self.refused(port.do(Create(kind, "default", body)), 400, "BadRequest")
        assert status["message"].startswith(f"the object provided is unrecognized (must be of type {kind}): ")

    def test_a_custom_resource_says_what_it_is(self, port: ApiPort) -> None:
        item = group(a_name("g"))
        del item["kind"]
        status = self.refused(port.do(Create("PodGroup", "default", msgspec.json.encode(item))), 400, "BadRequest")
        wanted = "the object provided is unrecognized (must be of type PodGroup): Object 'Kind' is missing in "
        assert status["message"].startswith(wanted)
        plain = pod(a_name("p"))
        del plain["kind"], plain["apiVersion"]
        assert self.create(port, "Pod", plain)["kind"] == "Pod"

    def test_a_status_is_not_created_but_a_nodes(self, port: ApiPort) -> None:
        item = {**pod(a_name("p")), "status": {"phase": "Running"}}
        assert self.create(port, "Pod", item)["status"]["phase"] == "Pending"
        made = self.create(port, "Queue", {**volcano_queue(a_name("q")), "status": {"state": "Open", "allocated": {}}})
        assert "status" not in made
        assert self.create(port, "Node", node(a_name("n")))["status"]["allocatable"] == {"cpu": "4"}

    def test_a_gated_pod_says_so(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p"), schedulingGates=[{"name": "example.com/hold"}]))
        (condition,) = made["status"]["conditions"]
        del condition["lastTransitionTime"]
        assert (
            condition.items()
            >= {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }.items()
        )


__all__ = ["Creates", "Reads"]
