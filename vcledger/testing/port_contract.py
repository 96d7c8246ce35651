"""What every API server behind the port must do, as a pytest class to subclass.

Owns the tests. Must not know which server it is. Called by this project's own tests, once for the simulated server and
once for a real kube-apiserver, and by whoever brings a server of their own:

    class TestMyServer(ApiPortContract):
        @pytest.fixture
        def port(self):
            yield connect()

Nobody else may write to the server meanwhile: no controllers, no kubelet. Objects get names of their own in each test,
so one server may serve them all; it serves Volcano's kinds too. `compact` and `drop_watches` are for servers that a
test can make do so; where they raise NotImplementedError those tests are skipped. It needs pytest, which `vcledger`
itself does not.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from vcledger.runtime.port import Answer, ApiPort, WatchLine, WatchStream
from vcledger.scheduler.requests import Bind, Create, Delete, Get, Patch, Update

_names = itertools.count(1)
Object = dict[str, Any]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
WAIT_SECONDS_MAX = 10.0

BOOKMARK_WATCH_SECONDS = 4
"""A real server sends a bookmark two seconds before it ends a watch, else each minute."""


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


def group(name: str, **spec: Any) -> Object:
    """A PodGroup of one."""
    meta = {"name": name, "namespace": "default"}
    whole = {"minMember": 1, "queue": "default", **spec}
    return {"kind": "PodGroup", "apiVersion": "scheduling.volcano.sh/v1beta1", "metadata": meta, "spec": whole}


def volcano_queue(name: str) -> Object:
    """A Queue."""
    api_version = "scheduling.volcano.sh/v1beta1"
    return {"kind": "Queue", "apiVersion": api_version, "metadata": {"name": name}, "spec": {"weight": 1}}


def node(name: str) -> Object:
    """A Node with four cpus."""
    state = {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": state}


def event(name: str) -> Object:
    """An Event about a pod. The real server keeps no watch cache of these: etcd itself answers."""
    meta = {"name": name, "namespace": "default"}
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    said = {"reason": "Tested", "message": name, "type": "Normal"}
    return {"kind": "Event", "apiVersion": "v1", "metadata": meta, "involvedObject": about, **said}


MAKERS: dict[str, Callable[[str], Object]] = {
    "Pod": pod,
    "PersistentVolume": volume,
    "PersistentVolumeClaim": claim,
    "Node": node,
    "Event": event,
    "PodGroup": group,
    "Queue": volcano_queue,
}


def seconds_of(moment: str) -> float:
    """Since 1970."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


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

    def send_bookmarks(self, port: ApiPort) -> None:
        """Makes the server send bookmarks now, where that does not come about by itself in time."""

    def compact_or_skip(self, port: ApiPort) -> None:
        try:
            self.compact(port)
        except NotImplementedError:
            pytest.skip("this server can't be made to compact")

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

    def until_closed(self, stream: WatchStream) -> None:
        """Waits for the end of a stream on which nothing comes any more."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not stream.closed:
            assert stream.take() == []
            assert time.monotonic() < deadline, "the watch does not end"
            time.sleep(0.001)

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

    @pytest.mark.parametrize(
        ("kind", "shown", "stored"),
        [
            ("PersistentVolume", "persistentvolumes", "persistentvolumes/"),
            ("PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaims/default/"),
            ("Node", "nodes", "minions/"),
            ("PodGroup", "podgroups.scheduling.volcano.sh", "scheduling.volcano.sh/podgroups/default/"),
        ],
    )
    def test_an_update_of_another_uid_conflicts(self, port: ApiPort, kind: str, shown: str, stored: str) -> None:
        made = self.create(port, kind, MAKERS[kind](a_name("u")))
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        for version in (made["metadata"]["resourceVersion"], "1"):
            other = {**made, "metadata": {**made["metadata"], "uid": "another-uid", "resourceVersion": version}}
            status = self.refused(self.put(port, kind, other), 409, "Conflict")
            storage = f"StorageError: invalid object, Code: 4, Key: /registry/{stored}{name}, ResourceVersion: 0, "
            why = (
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: another-uid, UID in object meta: {uid}"
            )
            assert status["message"] == f'Operation cannot be fulfilled on {shown} "{name}": {storage}{why}'

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

    @pytest.mark.parametrize("kind", ["Pod", "PersistentVolume"])
    def test_a_write_of_the_status_may_change_labels(self, port: ApiPort, kind: str) -> None:
        item = MAKERS[kind](a_name("s"))
        item["metadata"]["labels"] = {"old": "1"}
        made = self.create(port, kind, item)
        meta = {**made["metadata"], "labels": {"new": "1"}, "annotations": {"a": "2"}}
        after = self.body(self.put(port, kind, {**made, "metadata": meta}, "status"), 200)["metadata"]
        assert (after["labels"], after["annotations"]) == ({"new": "1"}, {"a": "2"})
        assert after["uid"] == made["metadata"]["uid"]

    def test_what_a_patch_merges_comes_first(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        name = made["metadata"]["name"]
        for kind, order in (("a", "a"), ("b", "ba"), ("c", "cba"), ("a", "cba"), ("b", "cba")):
            patch = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
            after = self.body(port.do(Patch("Pod", "default", name, msgspec.json.encode(patch), "status")), 200)
            assert "".join(one["type"] for one in after["status"]["conditions"]) == order
        for finalizer in ("example.com/first", "example.com/second"):
            body = msgspec.json.encode({"metadata": {"finalizers": [finalizer]}})
            after = self.body(port.do(Patch("Pod", "default", name, body)), 200)
        assert after["metadata"]["finalizers"] == ["example.com/second", "example.com/first"]

    def test_a_condition_without_a_type_cannot_be_merged(self, port: ApiPort) -> None:
        made = self.create(port, "Pod", pod(a_name("p")))
        name = made["metadata"]["name"]
        for condition, code in (({"type": "Ready", "status": "False"}, 200), ({"status": "True"}, 500)):
            patch = msgspec.json.encode({"status": {"conditions": [condition]}})
            answer = port.do(Patch("Pod", "default", name, patch, "status"))
            assert answer.code == code
        wanted = "map: map[status:True] does not contain declared merge key: type"
        assert msgspec.json.decode(answer.body)["message"] == wanted

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


class WatchesOfPort(PortBase):
    """Watches."""

    def test_a_watch_tells_what_came_after_its_version(self, port: ApiPort) -> None:
        self.create(port, "Pod", pod(a_name("before")))
        stream = self.watch(port, "Pod", self.version_now(port))
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(self.bind(port, made, "n1"), 201)
        name = made["metadata"]["name"]
        self.body(port.do(Delete("Pod", "default", name, grace_seconds=0)), 200)
        lines = self.lines(stream, 4)
        assert [line.type for line in lines] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        found = [msgspec.json.decode(line.object) for line in lines]
        assert [item["metadata"]["name"] for item in found] == [name] * 4
        versions = [int(item["metadata"]["resourceVersion"]) for item in found]
        assert versions == sorted(versions) and len(dict.fromkeys(versions)) == 4
        assert found[3]["spec"]["nodeName"] == "n1"

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

    @pytest.mark.parametrize("kind", ["Pod", "Event"])
    def test_a_watch_from_a_forgotten_version_is_told_410(self, port: ApiPort, kind: str) -> None:
        make = MAKERS[kind]
        old = self.create(port, kind, make(a_name("old")))["metadata"]["resourceVersion"]
        for _ in range(2):  # etcd keeps the very last change before the version it was compacted to
            self.create(port, kind, make(a_name("new")))
        self.compact_or_skip(port)
        stream = self.watch(port, kind, old)
        (line,) = self.lines(stream, 1)
        status = msgspec.json.decode(line.object)
        assert (line.type, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
        self.until_closed(stream)

    def test_a_watch_from_the_compacted_version_itself_goes_on(self, port: ApiPort) -> None:
        self.create(port, "Event", event(a_name("e")))
        version = self.version_now(port, "Event")
        self.compact_or_skip(port)
        stream = self.watch(port, "Event", version)
        made = self.create(port, "Event", event(a_name("e")))
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]

    @pytest.mark.parametrize(
        ("kind", "rest"),
        [
            ("Pod", {"spec": {"containers": None}, "status": {}}),
            ("PersistentVolume", {"spec": {}, "status": {}}),
            ("PodGroup", {}),
        ],
    )
    def test_a_bookmark_says_how_far_a_watch_is(self, port: ApiPort, kind: str, rest: Object) -> None:
        start = self.version_now(port, kind)
        make = MAKERS[kind]
        streams = []
        for bookmarks in (True, False):
            opened = port.watch(
                kind, resource_version=start, bookmarks=bookmarks, timeout_seconds=BOOKMARK_WATCH_SECONDS
            )
            assert not isinstance(opened, Answer), opened
            streams.append(opened)
        made = self.create(port, kind, make(a_name("b")))
        self.send_bookmarks(port)
        lines = self.lines(streams[0], 2)
        assert [line.type for line in lines] == ["ADDED", "BOOKMARK"]
        bookmark = msgspec.json.decode(lines[1].object)
        version = bookmark["metadata"]["resourceVersion"]
        assert int(version) >= int(made["metadata"]["resourceVersion"])
        assert bookmark["kind"] == kind and bookmark["apiVersion"] == made["apiVersion"]
        assert list(bookmark["metadata"]) == ["resourceVersion"]
        assert {name: value for name, value in bookmark.items() if name in ("spec", "status")} == rest
        assert [line.type for line in streams[1].take()] == ["ADDED"]
        resumed = self.watch(port, kind, version)
        later = self.create(port, kind, make(a_name("later")))
        assert [self.named(line) for line in self.lines(resumed, 1)] == [later["metadata"]["name"]]

    def test_a_watch_of_some_tells_who_comes_and_goes(self, port: ApiPort) -> None:
        part = a_name("part")
        opened = port.watch(
            "Pod", resource_version=self.version_now(port), namespace="default", selector=f"part={part}"
        )
        assert not isinstance(opened, Answer), opened
        self.create(port, "Pod", pod(a_name("other")))
        made = self.create(port, "Pod", pod(a_name("p")))
        versions = []
        for labels in ({"part": part}, {"part": part, "more": "1"}, {"part": None}):
            patch = msgspec.json.encode({"metadata": {"labels": labels}})
            after = self.body(port.do(Patch("Pod", "default", made["metadata"]["name"], patch)), 200)
            versions.append(after["metadata"]["resourceVersion"])
        lines = self.lines(opened, 3)
        assert [line.type for line in lines] == ["ADDED", "MODIFIED", "DELETED"]
        found = [msgspec.json.decode(line.object)["metadata"] for line in lines]
        assert [meta["resourceVersion"] for meta in found] == versions
        assert found[2]["labels"] == {"part": part, "more": "1"}

    def test_a_dropped_watch_is_closed_after_its_last_line(self, port: ApiPort) -> None:
        stream = self.watch(port, "Pod", self.version_now(port))
        made = self.create(port, "Pod", pod(a_name("p")))
        try:
            self.drop_watches(port, "Pod")
        except NotImplementedError:
            pytest.skip("this server can't be made to end its watches")
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]
        self.until_closed(stream)

    def test_a_version_that_is_none_is_refused(self, port: ApiPort) -> None:
        refused = port.watch("Pod", resource_version="None")
        assert isinstance(refused, Answer)
        why = 'resourceVersion: Invalid value: "None": strconv.ParseUint: parsing "None": invalid syntax'
        assert self.body(refused, 500)["message"] == why


class ApiPortContract(Reads, Creates, Updates, CustomResources, Bindings, Deletions, WatchesOfPort):
    """All of it."""


__all__ = [
    "ApiPortContract",
    "Bindings",
    "Creates",
    "CustomResources",
    "Deletions",
    "PortBase",
    "Reads",
    "Updates",
    "WatchesOfPort",
]
