"""What the strategies draw: clusters whose objects fit together, and plans that can be run."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from vcledger.sim.plan import Plan
from vcledger.sim.simulate import run_plan
from vcledger.testing.machines import ExactCache
from vcledger.testing.strategies import GROUP_ANNOTATION, ClusterObjects, clusters, fault_plans
from volcano.objects import kinds


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(clusters())
def test_a_cluster_names_only_what_it_has(cluster: ClusterObjects) -> None:
    names = {(one["kind"], one["metadata"]["name"]) for one in cluster.all}
    assert len(names) == len(cluster.all)
    for pod in cluster.pods:
        group = pod["metadata"].get("annotations", {}).get(GROUP_ANNOTATION)
        assert group is None or ("PodGroup", group) in names
        for volume in pod["spec"].get("volumes", []):
            assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
    for one in (*cluster.claims, *cluster.volumes):
        assert ("StorageClass", one["spec"]["storageClassName"]) in names


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_a_cluster_can_be_read_and_folded(cluster: ClusterObjects) -> None:
    cache = ExactCache()
    for one in cluster.all:
        kind = kinds.kind_of(one["apiVersion"], one["kind"])
        assert kind is not None
        kinds.decode(kind.name, msgspec.json.encode(one))
        cache.observe("ADDED", kind.name, one)
    assert sorted(cache.books()) == sorted(one["metadata"]["name"] for one in cluster.nodes)
    assert cache.cache.refused == {}


@settings(max_examples=5, deadline=None)
@given(fault_plans(steps_max=10))
def test_a_plan_runs_to_rest(plan: Plan) -> None:
    result = run_plan(plan, twice=False, shrink=False)
    assert result.broken == ()
