"""Updates and patches of Kubernetes' own kinds: versions, conflicts, what is whose to write.

Owns these tests. Must not know which server it is. Called by `vcledger.testing.port_contract`.
"""

from __future__ import annotations

import msgspec
import pytest

from vcledger.runtime.port import ApiPort
from vcledger.scheduler.requests import Patch
from vcledger.testing.port.base import (
    MAKERS,
    MODIFIED,
    PortBase,
    a_name,
    claim,
    pod,
    volume,
)


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


__all__ = ["Updates"]
