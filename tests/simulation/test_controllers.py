"""The simulated controllers, without a scheduler: what they make of volumes, claims, pods and nodes."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from vcledger.scheduler.requests import Bind, Delete, Patch
from vcledger.sim.actors import World, with_annotations, with_spec
from vcledger.sim.clock import SECOND, START, Timeline
from vcledger.sim.kubelet import RUNS_SECONDS, Kubelet, Owner
from vcledger.sim.server import SimulatedApi
from vcledger.sim.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, Provisioner, VolumeController

Object = dict[str, Any]


class Cluster:
    """A server with all its controllers."""

    def __init__(self, seed: int = 1) -> None:
        self.timeline = Timeline()
        self.api = SimulatedApi(lambda: self.timeline.now)
        self.world = World(self.api, self.timeline, Random(seed))
        self.volumes, self.provisioner = VolumeController(self.world), Provisioner(self.world)
        self.kubelet, self.owner = Kubelet(self.world), Owner(self.world)
        for name, provisioner, mode in (
            ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            ("wait", "csi.example.com", "WaitForFirstConsumer"),
            ("now", "csi.example.com", "Immediate"),
        ):
            found = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
            self.api.create("StorageClass", found)
        self.api.create("Node", {"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}})

    def run(self, seconds: float) -> None:
        self.timeline.run_until(self.timeline.now + int(seconds * SECOND))

    def get(self, kind: str, name: str) -> Object:
        found = self.api.object(kind, "default" if kind in ("Pod", "PersistentVolumeClaim") else "", name)
        assert found is not None, f"no {kind} {name}"
        return found

    def gone(self, kind: str, name: str) -> bool:
        return self.api.object(kind, "default" if kind in ("Pod", "PersistentVolumeClaim") else "", name) is None

    def claim(self, name: str, storage_class: str, size: str = "1Gi") -> Object:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        }
        item = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        return self.api.create("PersistentVolumeClaim", item)

    def volume(self, name: str, storage_class: str, size: str = "1Gi", **spec: Any) -> Object:
        whole = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            **spec,
        }
        return self.api.create("PersistentVolume", {"metadata": {"name": name}, "spec": whole})

    def pod(self, name: str, **annotations: str) -> Object:
        spec = {"terminationGracePeriodSeconds": 2, "containers": [{"name": "main"}]}
        return self.api.create(
            "Pod", {"metadata": {"name": name, "namespace": "default", "annotations": annotations}, "spec": spec}
        )

    def bind(self, pod: Object, node: str = "n1") -> None:
        meta = pod["metadata"]
        assert self.api.do(Bind("default", meta["name"], meta["uid"], node)).ok

    def give(self, volume: str, claim: Object) -> None:
        """Gives a volume to a claim as the scheduler does."""
        meta = claim["metadata"]
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": meta["name"], "uid": meta["uid"]}
        given = with_annotations(
            with_spec(self.get("PersistentVolume", volume), claimRef=reference), {BOUND_BY_CONTROLLER: "yes"}
        )
        assert self.world.put("PersistentVolume", given).ok

    def select(self, claim: str, node: str) -> None:
        """Selects a node for a claim as the scheduler does."""
        found = with_annotations(self.get("PersistentVolumeClaim", claim), {SELECTED_NODE: node})
        assert self.world.put("PersistentVolumeClaim", found).ok


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


class TestVolumes:
    def test_a_claim_is_held_by_a_pod_with_a_node_until_that_is_gone(self, cluster: Cluster) -> None:
        cluster.volume("pv", "now")
        cluster.claim("c", "now")
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        spec = {"containers": [{"name": "main"}], "volumes": volumes}
        pod = cluster.api.create("Pod", {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
        cluster.bind(pod, "n-without-kubelet")
        body = b'{"status":{"phase":"Succeeded"}}'
        assert cluster.api.do(Patch("Pod", "default", "p", body, "status")).ok
        assert cluster.api.do(Delete("PersistentVolumeClaim", "default", "c")).ok
        cluster.run(5)
        assert not cluster.gone("PersistentVolumeClaim", "c")
        assert cluster.api.do(Delete("Pod", "default", "p", grace_seconds=0)).ok
        cluster.run(5)
        assert cluster.gone("PersistentVolumeClaim", "c")

    def test_a_pod_without_a_node_holds_no_claim(self, cluster: Cluster) -> None:
        cluster.claim("c", "local")
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        spec = {"containers": [{"name": "main"}], "volumes": volumes}
        cluster.api.create("Pod", {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
        assert cluster.api.do(Delete("PersistentVolumeClaim", "default", "c")).ok
        cluster.run(5)
        assert cluster.gone("PersistentVolumeClaim", "c")

    def test_a_volume_on_its_way_out_goes_after_its_claim(self, cluster: Cluster) -> None:
        cluster.volume("pv", "local")
        cluster.give("pv", cluster.claim("c", "local"))
        cluster.run(5)
        assert cluster.api.do(Delete("PersistentVolume", "", "pv")).ok
        cluster.run(5)
        assert cluster.get("PersistentVolume", "pv")["status"]["phase"] == "Bound"
        assert cluster.api.do(Delete("PersistentVolumeClaim", "default", "c")).ok
        cluster.run(5)
        assert cluster.gone("PersistentVolumeClaim", "c") and cluster.gone("PersistentVolume", "pv")

    def test_a_volume_given_by_the_scheduler_is_bound(self, cluster: Cluster) -> None:
        cluster.volume("pv", "local")
        claim = cluster.claim("c", "local")
        cluster.run(5)
        assert cluster.get("PersistentVolume", "pv")["status"]["phase"] == "Available"
        assert cluster.get("PersistentVolumeClaim", "c")["status"]["phase"] == "Pending"
        cluster.give("pv", claim)
        cluster.run(5)
        bound = cluster.get("PersistentVolumeClaim", "c")
        assert bound["spec"]["volumeName"] == "pv" and bound["status"]["phase"] == "Bound"
        assert bound["metadata"]["annotations"][BIND_COMPLETED] == "yes"
        assert cluster.get("PersistentVolume", "pv")["status"]["phase"] == "Bound"

    def test_an_immediate_claim_takes_the_smallest_that_fits(self, cluster: Cluster) -> None:
        for name, size in (("big", "9Gi"), ("small", "1Gi"), ("right", "3Gi")):
            cluster.volume(name, "plain", size)
        cluster.api.create(
            "StorageClass",
            {"metadata": {"name": "plain"}, "provisioner": "kubernetes.io/no-provisioner"},
        )
        cluster.run(5)  # a volume is for anybody once the controller has found it available
        cluster.claim("c", "plain", "2Gi")
        cluster.run(5)
        assert cluster.get("PersistentVolumeClaim", "c")["spec"]["volumeName"] == "right"

    def test_a_volume_is_provisioned_once_a_node_is_selected(self, cluster: Cluster) -> None:
        claim = cluster.claim("c", "wait")
        cluster.run(10)
        assert not cluster.api.objects("PersistentVolume")
        cluster.select("c", "n1")
        cluster.run(10)
        bound = cluster.get("PersistentVolumeClaim", "c")
        assert bound["spec"]["volumeName"] == f"pvc-{claim['metadata']['uid']}" and bound["status"]["phase"] == "Bound"
        (volume,) = cluster.api.objects("PersistentVolume")
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert "n1" in str(volume["spec"]["nodeAffinity"])

    def test_an_immediate_class_needs_no_node(self, cluster: Cluster) -> None:
        cluster.claim("c", "now")
        cluster.run(10)
        assert cluster.get("PersistentVolumeClaim", "c")["status"]["phase"] == "Bound"

    def test_a_failing_provisioner_takes_the_node_away_and_says_why(self, cluster: Cluster) -> None:
        cluster.provisioner.failing["wait"] = 1
        cluster.claim("c", "wait")
        cluster.select("c", "n1")
        cluster.run(10)
        assert SELECTED_NODE not in cluster.get("PersistentVolumeClaim", "c")["metadata"]["annotations"]
        (event,) = cluster.api.objects("Event")
        assert event["reason"] == "ProvisioningFailed" and event["involvedObject"]["name"] == "c"
        cluster.select("c", "n1")
        cluster.run(10)
        assert cluster.get("PersistentVolumeClaim", "c")["status"]["phase"] == "Bound"

    def test_a_stuck_provisioner_works_later(self, cluster: Cluster) -> None:
        cluster.provisioner.stuck["wait"] = START + 60 * SECOND
        cluster.claim("c", "wait")
        cluster.select("c", "n1")
        cluster.run(50)
        assert not cluster.api.objects("PersistentVolume")
        cluster.run(20)
        assert cluster.get("PersistentVolumeClaim", "c")["status"]["phase"] == "Bound"

    def test_a_volume_is_taken_back_before_the_claim_is_bound(self, cluster: Cluster) -> None:
        cluster.volumes.undoing = 1
        cluster.volume("pv", "local")
        claim = cluster.claim("c", "local")
        cluster.give("pv", claim)
        cluster.run(5)
        assert "claimRef" not in cluster.get("PersistentVolume", "pv")["spec"]
        cluster.give("pv", claim)
        cluster.run(5)
        assert cluster.get("PersistentVolumeClaim", "c")["spec"]["volumeName"] == "pv"

    def test_the_second_volume_of_a_bound_claim_is_freed(self, cluster: Cluster) -> None:
        cluster.volume("a", "local")
        cluster.volume("b", "local")
        claim = cluster.claim("c", "local")
        cluster.give("a", claim)
        cluster.run(5)
        cluster.give("b", claim)
        cluster.run(5)
        assert cluster.get("PersistentVolumeClaim", "c")["spec"]["volumeName"] == "a"
        assert "claimRef" not in cluster.get("PersistentVolume", "b")["spec"]
        assert cluster.get("PersistentVolume", "b")["status"]["phase"] == "Available"

    def test_a_claim_in_use_is_protected_and_then_its_volume_released(self, cluster: Cluster) -> None:
        cluster.claim("c", "now")
        cluster.volume("kept", "local")
        pod = cluster.pod("p")
        stored = {**pod, "spec": {**pod["spec"], "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}}
        cluster.world.put("Pod", stored)
        cluster.bind(pod)
        cluster.run(10)
        cluster.api.do(Delete("PersistentVolumeClaim", "default", "c"))
        cluster.run(5)
        assert cluster.get("PersistentVolumeClaim", "c")["metadata"]["deletionTimestamp"]
        cluster.api.do(Delete("Pod", "default", "p"))
        cluster.run(5)
        assert cluster.gone("PersistentVolumeClaim", "c")
        assert [volume["metadata"]["name"] for volume in cluster.api.objects("PersistentVolume")] == ["kept"]

    def test_a_volume_of_a_deleted_claim_is_kept_released_when_told_so(self, cluster: Cluster) -> None:
        cluster.volume("pv", "local")
        cluster.give("pv", cluster.claim("c", "local"))
        cluster.run(5)
        cluster.api.do(Delete("PersistentVolumeClaim", "default", "c"))
        cluster.run(5)
        assert cluster.get("PersistentVolume", "pv")["status"]["phase"] == "Released"

    def test_a_slow_controller_comes_back_to_what_it_missed(self, cluster: Cluster) -> None:
        cluster.volumes.stalled_until = START + 30 * SECOND
        cluster.volume("pv", "local")
        cluster.run(29)
        assert cluster.get("PersistentVolume", "pv")["status"]["phase"] == "Pending"
        cluster.run(5)
        assert cluster.get("PersistentVolume", "pv")["status"]["phase"] == "Available"


class TestPods:
    def test_a_bound_pod_runs_and_ends(self, cluster: Cluster) -> None:
        pod = cluster.pod("p", **{RUNS_SECONDS: "5"})
        cluster.run(5)
        assert cluster.get("Pod", "p")["status"]["phase"] == "Pending"
        cluster.bind(pod)
        cluster.run(3)
        assert cluster.get("Pod", "p")["status"]["phase"] == "Running"
        cluster.run(10)
        assert cluster.get("Pod", "p")["status"]["phase"] == "Succeeded"

    def test_a_deleted_pod_goes_when_its_kubelet_is_done(self, cluster: Cluster) -> None:
        cluster.bind(cluster.pod("p"))
        cluster.run(3)
        cluster.api.do(Delete("Pod", "default", "p"))
        assert cluster.get("Pod", "p")["metadata"]["deletionTimestamp"]
        cluster.run(5)
        assert cluster.gone("Pod", "p")

    def test_a_pod_on_a_node_that_is_gone_is_collected(self, cluster: Cluster) -> None:
        cluster.bind(cluster.pod("p"))
        cluster.run(3)
        cluster.api.do(Delete("Node", "", "n1"))
        cluster.run(10)
        cluster.bind(cluster.pod("q"), "n1")
        cluster.run(30)
        assert cluster.gone("Pod", "q")

    def test_a_lost_pod_is_made_again_by_its_owner(self, cluster: Cluster) -> None:
        item = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}}
        cluster.owner.want("default/p", item)
        cluster.run(3)
        first = cluster.get("Pod", "p")["metadata"]["uid"]
        cluster.api.do(Delete("Pod", "default", "p"))
        cluster.run(3)
        assert cluster.get("Pod", "p")["metadata"]["uid"] != first


def history(seed: int) -> list[bytes]:
    """All that a busy little cluster wrote."""
    cluster = Cluster(seed)
    written: list[bytes] = []
    cluster.api.store.listeners.append(lambda revision: written.append(revision.stored.body))
    for number in range(4):
        cluster.claim(f"c{number}", "now" if number % 2 else "wait")
        if number % 2 == 0:
            cluster.select(f"c{number}", "n1")
        cluster.bind(cluster.pod(f"p{number}", **{RUNS_SECONDS: "3"}))
    cluster.run(60)
    return written


def test_the_same_seed_writes_the_same_bytes() -> None:
    first = history(7)
    assert first == history(7) and first != history(8)
    assert all(msgspec.json.decode(body)["metadata"]["resourceVersion"] for body in first)
