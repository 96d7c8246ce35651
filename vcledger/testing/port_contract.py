"""What every API server behind the port must do, as a pytest class to subclass.

Owns the tests. Must not know which server it is. Called by this project's own tests, once for the simulated server and
once for a real kube-apiserver, and by whoever brings a server of their own:

    class TestMyServer(ApiPortContract):
        @pytest.fixture
        def port(self):
            yield connect()

Nobody else may write to the server meanwhile: no controllers, no kubelet. Objects get names of their own in each test,
so one server may serve them all. `compact` and `drop_watches` are for servers that a test can make do so; where they
raise NotImplementedError those tests are skipped. It needs pytest, which `vcledger` itself does not.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import msgspec
import pytest

from vcledger.runtime.port import Answer, ApiPort, WatchLine, WatchStream
from vcledger.scheduler.requests import Bind, Create, Delete, Get, Patch, Update

_names = itertools.count(1)
Object = dict[str, Any]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
WAIT_SECONDS_MAX = 10.0


def a_name(prefix: str) -> str:
    """A name that no other test has."""
    return f"{prefix}-{next(_names)}"


def pod(name: str, **spec: Any) -> Object:
    """A pod for one cpu."""
    container = {"name": "main", "image": "img:1", "resources": {"requests": {"cpu": "1"}}}
    whole = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 30, "containers": [container], **spec}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "spec": whole}


def volume(name: str) -> Object:
    """A CSI volume of 1Gi."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}


def claim(name: str) -> Object:
    """A claim of 1Gi."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": name, "namespace": "default"}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": meta, "spec": spec}


class PortBase:
    """Helpers of the suite."""

    @pytest.fixture
    def port(self) -> ApiPort:
        """The server under test."""
        raise NotImplementedError("the subclass brings the port")

    def compact(self, port: ApiPort) -> None:
        """Makes the server forget its history up to now."""
        raise NotImplementedError

    def drop_watches(self, port: ApiPort, kind: str) -> None:
        """Makes the server end its watches of a kind."""
        raise NotImplementedError

    def create(self, port: ApiPort, kind: str, item: Object) -> Object:
        namespace = item["metadata"].get("namespace", "")
        return self.body(port.do(Create(kind, namespace, msgspec.json.encode(item))), 201)

    def get(self, port: ApiPort, kind: str, item: Object) -> Answer:
        return port.do(Get(kind, item["metadata"].get("namespace", ""), item["metadata"]["name"]))

    def put(self, port: ApiPort, kind: str, item: Object, subresource: str = "") -> Answer:
        meta = item["metadata"]
        request = Update(kind, meta.get("namespace", ""), meta["name"], msgspec.json.encode(item), subresource)
        return port.do(request)

    def bind(self, port: ApiPort, item: Object, node: str, **extra: Any) -> Answer:
        meta = item["metadata"]
        return port.do(Bind(meta["namespace"], meta["name"], extra.pop("uid", meta["uid"]), node, **extra))

    def body(self, answer: Answer, code: int) -> Object:
        assert answer.code == code, answer.body
        decoded: Object = msgspec.json.decode(answer.body)
        return decoded

    def refused(self, answer: Answer, code: int, reason: str) -> Object:
        """The Status of a refusal, checked in what all of them share."""
        status = self.body(answer, code)
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert (status["reason"], status["code"]) == (reason, code)
        return status

    def watch(self, port: ApiPort, kind: str, version: str) -> WatchStream:
        opened = port.watch(kind, resource_version=version)
        assert not isinstance(opened, Answer), opened
        return opened

    def lines(self, stream: WatchStream, count: int, name: str = "") -> list[WatchLine]:
        """The next `count` lines (of one object's name), waiting for a server that is elsewhere."""
        found: list[WatchLine] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(found) < count:
            found += [line for line in stream.take() if not name or self.named(line) == name]
            if len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} lines came"
                time.sleep(0.001)
        return found

    def named(self, line: WatchLine) -> str:
        return str(msgspec.json.decode(line.object).get("metadata", {}).get("name", ""))

    def version_now(self, port: ApiPort, kind: str = "Pod") -> str:
        version: str = self.body(port.list(kind, limit=1), 200)["metadata"]["resourceVersion"]
        return version


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
        found = [item["metadata"]["name"] for item in whole["items"]]
        assert [name for name in found if name in names] == names and found == sorted(found)
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
        try:
            self.compact(port)
        except NotImplementedError:
            pytest.skip("this server can't be made to compact")
        status = self.refused(port.list("Pod", limit=1, continue_=page["metadata"]["continue"]), 410, "Expired")
        assert status["message"].startswith("The provided continue parameter is too old")
        rest = self.body(port.list("Pod", continue_=status["metadata"]["continue"]), 200)
        assert int(rest["metadata"]["resourceVersion"]) > int(page["metadata"]["resourceVersion"])


class Updates(PortBase):
    """Optimistic concurrency, preconditions and subresources."""

    def test_an_update_brings_a_new_version(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolumeClaim", claim(a_name("c")))
        made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
        after = self.body(self.put(port, "PersistentVolumeClaim", made), 200)
        assert after["metadata"]["annotations"] == {"volume.kubernetes.io/selected-node": "n1"}
        assert int(after["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        assert after["metadata"]["uid"] == made["metadata"]["uid"]

    def test_an_update_of_an_old_version_conflicts(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        name = made["metadata"]["name"]
        made["metadata"]["labels"] = {"a": "1"}
        self.body(self.put(port, "PersistentVolume", made), 200)
        made["metadata"]["labels"] = {"a": "2"}
        status = self.refused(self.put(port, "PersistentVolume", made), 409, "Conflict")
        assert status["message"] == f'Operation cannot be fulfilled on persistentvolumes "{name}": {MODIFIED}'
        assert status["details"] == {"name": name, "kind": "persistentvolumes"}
        assert self.body(self.get(port, "PersistentVolume", made), 200)["metadata"]["labels"] == {"a": "1"}

    def test_an_update_without_a_version_overwrites(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        del made["metadata"]["resourceVersion"]
        for value in ("1", "2"):
            made["metadata"]["labels"] = {"a": value}
            assert self.body(self.put(port, "PersistentVolume", made), 200)["metadata"]["labels"] == {"a": value}

    def test_an_update_that_changes_nothing_is_not_written(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        after = self.body(self.put(port, "PersistentVolume", made), 200)
        assert after["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    def test_an_update_of_what_is_not_there_is_not_found(self, port: ApiPort) -> None:
        self.refused(self.put(port, "PersistentVolume", volume("nobody")), 404, "NotFound")

    def test_an_update_of_another_uid_conflicts(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        other = {**made, "metadata": {**made["metadata"], "uid": "another-uid"}}
        status = self.refused(self.put(port, "PersistentVolume", other), 409, "Conflict")
        wanted = f"Precondition failed: UID in precondition: another-uid, UID in object meta: {made['metadata']['uid']}"
        assert wanted in status["message"]

    def test_a_write_does_not_change_what_is_the_servers(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        changed = {**made, "metadata": {**made["metadata"], "creationTimestamp": None, "labels": {"a": "1"}}}
        after = self.body(self.put(port, "PersistentVolume", changed), 200)
        assert after["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]

    def test_status_is_written_apart(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        both = {**made, "metadata": {**made["metadata"], "labels": {"a": "1"}}, "status": {"phase": "Available"}}
        after = self.body(self.put(port, "PersistentVolume", both), 200)
        assert after["metadata"]["labels"] == {"a": "1"} and after["status"] == made["status"]
        both = {**after, "spec": {**after["spec"], "storageClassName": "other"}, "status": {"phase": "Available"}}
        last = self.body(self.put(port, "PersistentVolume", both, "status"), 200)
        assert last["status"]["phase"] == "Available" and last["spec"] == after["spec"]

    def test_a_pods_node_is_not_set_by_an_update(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        made["spec"]["nodeName"] = "n1"
        status = self.refused(self.put(port, "Pod", made), 422, "Invalid")
        assert status["message"].startswith(
            f'Pod "{made["metadata"]["name"]}" is invalid: spec: Forbidden: pod updates'
        )

    def test_a_claims_volume_is_set_once(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolumeClaim", claim(a_name("c")))
        made["spec"]["volumeName"] = "pv-a"
        after = self.body(self.put(port, "PersistentVolumeClaim", made), 200)
        assert after["spec"]["volumeName"] == "pv-a"
        after["spec"]["volumeName"] = "pv-b"
        status = self.refused(self.put(port, "PersistentVolumeClaim", after), 422, "Invalid")
        assert "spec: Forbidden: spec is immutable after creation" in status["message"]

    def test_conditions_are_merged_by_type(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        name = made["metadata"]["name"]
        for kind, value in (("Ready", "False"), ("PodScheduled", "False"), ("Ready", "True")):
            patch = {"status": {"conditions": [{"type": kind, "status": value}]}}
            self.body(port.do(Patch("Pod", "default", name, msgspec.json.encode(patch), "status")), 200)
        conditions = self.body(self.get(port, "Pod", made), 200)["status"]["conditions"]
        assert {one["type"]: one["status"] for one in conditions} == {"Ready": "True", "PodScheduled": "False"}
        assert len(conditions) == 2

    def test_a_patch_of_the_status_leaves_the_rest(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        patch = {"spec": {"priority": 7}, "status": {"nominatedNodeName": "n1"}}
        request = Patch("Pod", "default", made["metadata"]["name"], msgspec.json.encode(patch), "status")
        after = self.body(port.do(request), 200)
        assert after["status"]["nominatedNodeName"] == "n1" and after["spec"] == made["spec"]
        assert after["status"]["phase"] == "Pending"

    def test_a_patch_that_changes_nothing_is_not_written(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        patch = {"status": {"conditions": [{"type": "Ready", "status": "False", "lastProbeTime": None}]}}
        request = Patch("Pod", "default", made["metadata"]["name"], msgspec.json.encode(patch), "status")
        first = self.body(port.do(request), 200)
        again = self.body(port.do(request), 200)
        assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]

    def test_a_patch_with_another_uid_is_invalid(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        patch = {"metadata": {"uid": "another-uid", "labels": {"a": "1"}}}
        answer = port.do(Patch("Pod", "default", made["metadata"]["name"], msgspec.json.encode(patch)))
        assert "metadata.uid: Invalid value" in self.refused(answer, 422, "Invalid")["message"]
        assert self.body(self.get(port, "Pod", made), 200) == made

    def test_a_patch_with_an_old_version_conflicts(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        name, version = made["metadata"]["name"], made["metadata"]["resourceVersion"]
        for label, code in (("1", 200), ("2", 409)):
            patch = {"metadata": {"resourceVersion": version, "labels": {"a": label}}}
            answer = port.do(Patch("Pod", "default", name, msgspec.json.encode(patch)))
            assert answer.code == code
        assert MODIFIED in msgspec.json.decode(answer.body)["message"]

    def test_a_patch_removes_by_null(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolumeClaim", claim(a_name("c")))
        for value, expected in (("n1", {"keep": "1", "a": "n1"}), (None, {"keep": "1"})):
            patch = {"metadata": {"annotations": {"a": value, "keep": "1"}}}
            request = Patch("PersistentVolumeClaim", "default", made["metadata"]["name"], msgspec.json.encode(patch))
            assert self.body(port.do(request), 200)["metadata"]["annotations"] == expected


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


class Deletions(PortBase):
    """Grace, finalizers and preconditions of deletes."""

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
        self.body(port.do(Patch("PersistentVolumeClaim", "default", name, patch)), 200)
        self.refused(self.get(port, "PersistentVolumeClaim", made), 404, "NotFound")
        assert [line.type for line in self.lines(stream, 1, name)] == ["DELETED"]

    def test_no_finalizer_is_added_while_it_is_deleted(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolumeClaim", claim(a_name("c")))
        name = made["metadata"]["name"]
        self.body(port.do(Delete("PersistentVolumeClaim", "default", name)), 200)
        patch = msgspec.json.encode({"metadata": {"finalizers": ["example.com/late"]}})
        answer = port.do(Patch("PersistentVolumeClaim", "default", name, patch))
        assert "no new finalizers can be added" in self.refused(answer, 422, "Invalid")["message"]

    def test_a_delete_of_another_uid_conflicts(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        answer = port.do(Delete("Pod", "default", made["metadata"]["name"], uid="another-uid"))
        message = self.refused(answer, 409, "Conflict")["message"]
        assert f"(another-uid) does not match the UID in record ({made['metadata']['uid']})" in message
        self.body(self.get(port, "Pod", made), 200)

    def test_a_delete_of_what_is_not_there_is_not_found(self, port: ApiPort) -> None:
        self.refused(port.do(Delete("Pod", "default", "nobody")), 404, "NotFound")

    def test_a_name_can_be_used_again_by_another_uid(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(port.do(Delete("Pod", "default", made["metadata"]["name"])), 200)
        again = self.create(port, "Pod", pod(made["metadata"]["name"]))
        assert again["metadata"]["uid"] != made["metadata"]["uid"]


class WatchesOfPort(PortBase):
    """Watches."""

    def test_a_watch_tells_what_came_after_its_version(self, port: ApiPort) -> None:
        self.create(port, "Pod", pod(a_name("before")))
        stream = self.watch(port, "Pod", self.version_now(port))
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(self.bind(port, made, "n1"), 201)
        name = made["metadata"]["name"]
        self.body(port.do(Delete("Pod", "default", name, grace_seconds=0)), 200)
        lines = self.lines(stream, 3)
        assert [line.type for line in lines] == ["ADDED", "MODIFIED", "DELETED"]
        found = [msgspec.json.decode(line.object) for line in lines]
        assert [item["metadata"]["name"] for item in found] == [name] * 3
        versions = [int(item["metadata"]["resourceVersion"]) for item in found]
        assert versions == sorted(versions) and len(dict.fromkeys(versions)) == 3
        assert found[2]["spec"]["nodeName"] == "n1"

    def test_a_watch_goes_on_where_another_ended(self, port: ApiPort) -> None:
        start = self.version_now(port)
        names = [self.create(port, "Pod", pod(a_name("p")))["metadata"]["name"] for _ in range(3)]
        first = self.lines(self.watch(port, "Pod", start), 3)
        middle = msgspec.json.decode(first[0].object)["metadata"]["resourceVersion"]
        rest = self.lines(self.watch(port, "Pod", middle), 2)
        assert [self.named(line) for line in rest] == names[1:]
        assert [line.object for line in rest] == [line.object for line in first[1:]]

    def test_a_watch_is_of_one_kind(self, port: ApiPort) -> None:
        stream = self.watch(port, "PersistentVolume", self.version_now(port))
        self.create(port, "Pod", pod(a_name("p")))
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]

    @pytest.mark.parametrize("version", ["", "0"])
    def test_a_watch_from_nowhere_begins_with_what_there_is(self, port: ApiPort, version: str) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        stream = self.watch(port, "PersistentVolume", version)
        (line,) = self.lines(stream, 1, made["metadata"]["name"])
        assert line.type == "ADDED"

    def test_a_write_that_changes_nothing_is_not_told(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        stream = self.watch(port, "PersistentVolume", made["metadata"]["resourceVersion"])
        self.body(self.put(port, "PersistentVolume", made), 200)
        later = self.create(port, "PersistentVolume", volume(a_name("later")))
        assert [self.named(line) for line in self.lines(stream, 1)] == [later["metadata"]["name"]]

    def test_a_watch_from_a_forgotten_version_is_told_410(self, port: ApiPort) -> None:
        old = self.create(port, "Pod", pod(a_name("p")))["metadata"]["resourceVersion"]
        self.create(port, "Pod", pod(a_name("p")))
        try:
            self.compact(port)
        except NotImplementedError:
            pytest.skip("this server can't be made to compact")
        stream = self.watch(port, "Pod", old)
        (line,) = self.lines(stream, 1)
        status = msgspec.json.decode(line.object)
        assert (line.type, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
        assert stream.closed

    def test_a_watch_from_the_compacted_version_itself_goes_on(self, port: ApiPort) -> None:
        self.create(port, "Pod", pod(a_name("p")))
        version = self.version_now(port)
        try:
            self.compact(port)
        except NotImplementedError:
            pytest.skip("this server can't be made to compact")
        stream = self.watch(port, "Pod", version)
        made = self.create(port, "Pod", pod(a_name("p")))
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]

    def test_a_dropped_watch_is_closed_after_its_last_line(self, port: ApiPort) -> None:
        stream = self.watch(port, "Pod", self.version_now(port))
        made = self.create(port, "Pod", pod(a_name("p")))
        try:
            self.drop_watches(port, "Pod")
        except NotImplementedError:
            pytest.skip("this server can't be made to end its watches")
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]
        assert stream.closed

    def test_a_version_that_is_none_is_refused(self, port: ApiPort) -> None:
        opened = port.watch("Pod", resource_version="None")
        if isinstance(opened, Answer):
            assert opened.code is not None and opened.code >= 400
        else:
            (line,) = self.lines(opened, 1)
            assert line.type == "ERROR"


class ApiPortContract(Reads, Updates, Bindings, Deletions, WatchesOfPort):
    """All of it."""


__all__ = ["ApiPortContract", "Bindings", "Deletions", "PortBase", "Reads", "Updates", "WatchesOfPort"]
