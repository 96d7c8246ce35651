"""The simulated cluster as a handle: what is filled in."""

from __future__ import annotations

import pytest

from vcledger.ledger import Ledger
from vcledger.testing import SimCluster
from vcledger.testing.strategies import api_object


def test_drawn_or_recorded_objects_are_filled_in_as_if_made_anew(ledger: Ledger) -> None:
    cluster = SimCluster(ledger)
    queue, group, job = (
        api_object(kind, name) for kind, name in (("Queue", "default"), ("PodGroup", "g"), ("VolcanoJob", "j"))
    )
    cluster.fill([queue, group, job])
    cluster.fill([group])
    (found,) = cluster.objects("PodGroup")
    assert found["metadata"]["name"] == "g"
    assert found["metadata"]["uid"] != group["metadata"]["uid"]
    assert [one["metadata"]["name"] for one in cluster.objects("Queue")] == ["default"]
    assert [one["metadata"]["name"] for one in cluster.objects("VolcanoJob")] == ["j"]
    with pytest.raises(ValueError, match="d: no Dog of v1 is known here"):
        cluster.fill([{"apiVersion": "v1", "kind": "Dog", "metadata": {"name": "d"}}])


def test_what_struck_is_told_and_what_no_request_met_is_not(ledger: Ledger) -> None:
    cluster = SimCluster(ledger)
    cluster.create("Node", {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}})
    group, pod = {"name": "g", "namespace": "default"}, {"name": "p", "namespace": "default"}
    cluster.create("PodGroup", {"metadata": group, "spec": {"minMember": 1}, "status": {"phase": "Inqueue"}})
    cluster.fault("timeout-after", verb="POST", kind="Pod")
    cluster.fault("server-error", verb="PUT", kind="PersistentVolume")
    of_group = {**pod, "annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    cluster.create("Pod", {"metadata": of_group, "spec": spec})
    assert cluster.hits == {}
    cluster.run(seconds=5)
    cluster.fault("crash")
    cluster.rest()
    assert cluster.hits == {"timeout-after": 1, "crash": 1}
