"""What only a bug on purpose showed to be untested: see docs/mutants.md."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projections.cache import Cache, Delivery, digest, observe
from projections.cache.actions import assume
from projections.cache.fold import evolve
from projections.cache.models import EXACT, VOLCANO_1_11
from tests.unit.projections.test_cache_time import POD, events, fold
from volcano.objects import kinds
from volcano.objects.status import TaskStatus


def _made(kind: str, name: str, version: int = 1, *, uid: str = "u", **parts: Any) -> Any:
    meta = {"name": name, "uid": uid, "resourceVersion": str(version), **parts.pop("metadata", {})}
    if kind in ("Pod", "PodGroup", "PersistentVolumeClaim"):
        meta["namespace"] = "ns"
    return kinds.decode(kind, json.dumps({"metadata": meta, **parts}).encode())


def _pod(
    name: str = "p", version: int = 1, *, uid: str = "u", node: str = "", phase: str = "Pending", **more: Any
) -> Any:
    spec: dict[str, Any] = {"schedulerName": more.get("scheduler", "volcano"), "nodeName": node}
    spec["containers"] = [{"resources": {"requests": {"cpu": "1"}}}]
    if more.get("claim"):
        spec["volumes"] = [{"persistentVolumeClaim": {"claimName": more["claim"]}}]
    meta = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    return _made("Pod", name, version, uid=uid, metadata=meta, spec=spec, status={"phase": phase})


def _node() -> Any:
    return _made("Node", "n1", status={"allocatable": {"cpu": "4", "pods": "9"}, "capacity": {"cpu": "4"}})


def _seen(cache: Cache, *deliveries: Delivery) -> Cache:
    for position, delivery in enumerate(deliveries, cache.position + 1):
        observe(cache, delivery, position)
    return cache


def test_what_a_queue_holds_is_part_of_the_digest() -> None:
    """Two caches that will go different ways are not the same, though they show the same."""
    waiting = fold("volcano-1.11", events(("Pod", POD, 1), ("Pod", POD, 0)))
    before = digest(waiting)
    retry = waiting.pending_cleanup.pop("ns/g")
    assert digest(waiting) != before
    waiting.pending_cleanup["ns/g"] = retry._replace(attempts=retry.attempts + 1)
    assert digest(waiting) != before
    waiting.pending_cleanup["ns/g"] = retry
    assert digest(waiting) == before


def test_what_comes_late_is_not_folded() -> None:
    first, second = events(("Pod", POD, 1), ("Pod", POD, 0))
    cache = fold("exact", [first])
    before = digest(cache), cache.position, cache.now
    evolve(cache, second._replace(late=True))
    assert (digest(cache), cache.position, cache.now) == before
    evolve(cache, second)
    assert cache.pods == {}


def test_an_older_version_of_any_object_is_passed_over_under_exact_only() -> None:
    def held(model: Any, version: int, uid: str = "u") -> str:
        new, old = _made("PersistentVolumeClaim", "c", 5), _made("PersistentVolumeClaim", "c", version, uid=uid)
        kind = "PersistentVolumeClaim"
        cache = _seen(Cache(model), Delivery(kind, new), Delivery(kind, old, watched=True))
        return str(cache.claims["ns/c"].metadata.resource_version)

    assert (held(EXACT, 4), held(EXACT, 6), held(VOLCANO_1_11, 4)) == ("5", "6", "4")
    assert held(EXACT, 4, "another") == "4"


def test_a_pod_made_again_has_a_version_of_its_own() -> None:
    again = Delivery("Pod", _pod(version=4, uid="another"), watched=True)
    cache = _seen(Cache(EXACT), Delivery("Pod", _pod(version=5)), again)
    assert cache.pods["ns/p"].uid == "another"
    older = Delivery("Pod", _pod(version=3, uid="another", phase="Failed"), watched=True)
    assert _seen(cache, older).pods["ns/p"].phase == "Pending"


@pytest.mark.parametrize("inferred", [True, False])
def test_the_end_of_another_schedulers_pod_counts_when_a_relist_found_it(inferred: bool) -> None:
    """No filter stands before the handler then; the end of one without a node that a watch shows, it keeps away."""
    bound = Delivery("Pod", _pod(node="n1", scheduler="other", phase="Running"))
    gone = Delivery("Pod", _pod(version=2, scheduler="other"), gone=True, inferred=inferred)
    cache = _seen(Cache(EXACT), Delivery("Node", _node()), bound, gone)
    assert cache.nodes["n1"].used.milli_cpu == (0 if inferred else 1000)


@pytest.mark.parametrize(("phase", "used"), [("Pending", 1000), ("Failed", 0)])
def test_the_end_of_a_pod_that_was_given_a_node_frees_it_under_exact(phase: str, used: int) -> None:
    cache = _seen(Cache(EXACT), Delivery("Node", _node()), Delivery("Pod", _pod()))
    assume(cache, cache.jobs["ns/g"].tasks["u"], "n1", int(TaskStatus.ALLOCATED))
    assert cache.nodes["n1"].used.milli_cpu == 1000
    _seen(cache, Delivery("Pod", _pod(version=2, phase=phase), watched=True))
    assert cache.nodes["n1"].used.milli_cpu == used


def test_a_pod_that_is_gone_uses_no_claim() -> None:
    pod = _pod(claim="c")
    cache = _seen(Cache(EXACT), Delivery("Pod", pod))
    assert list(cache.claim_users) == ["ns/c"]
    _seen(cache, Delivery("Pod", pod, gone=True))
    assert cache.claim_users == {}
    _seen(cache, Delivery("PersistentVolumeClaim", _made("PersistentVolumeClaim", "c")))


def test_a_status_that_no_task_has_has_no_index() -> None:
    cache = _seen(Cache(EXACT), Delivery("Pod", _pod()), Delivery("Pod", _pod("q", uid="v")))
    _seen(
        cache,
        Delivery("Pod", _pod(version=2, node="n1", phase="Running")),
        Delivery("Pod", _pod("q", uid="v"), gone=True),
    )
    assert list(cache.jobs["ns/g"].tasks_by_status) == [int(TaskStatus.RUNNING)]


@pytest.mark.parametrize("model", [EXACT, VOLCANO_1_11])
def test_the_attach_limit_is_the_csi_nodes_alone(model: Any) -> None:
    amounts = {"cpu": "4", "attachable-volumes-csi-d": "25"}
    node = _made("Node", "n1", status={"allocatable": amounts, "capacity": amounts})
    csi_node = _made("CSINode", "n1", spec={"drivers": [{"name": "d", "nodeID": "n1", "allocatable": {"count": 3}}]})
    cache = _seen(Cache(model), Delivery("Node", node), Delivery("CSINode", csi_node))
    assert cache.nodes["n1"].allocatable.get("attachable-volumes-csi-d") == 3


def test_a_volume_that_two_claims_name_is_still_the_others_when_one_goes() -> None:
    kind = "PersistentVolumeClaim"
    one, other = (_made(kind, name, spec={"volumeName": "v"}) for name in ("c", "e"))
    cache = _seen(Cache(EXACT), Delivery(kind, one), Delivery(kind, other), Delivery(kind, one, gone=True))
    assert cache.claims_by_volume == {"v": {"ns/e": None}}
    assert _seen(cache, Delivery(kind, other, gone=True)).claims_by_volume == {}
