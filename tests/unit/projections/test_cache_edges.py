"""What only a bug on purpose showed to be untested: see docs/mutants.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from projections.cache import Cache, CacheProjection, Delivery, digest, observe
from projections.cache import pods as pods_module
from projections.cache.actions import assume
from projections.cache.fold import deliver_to_handler, evolve
from projections.cache.models import EXACT, VOLCANO_1_11
from tests.unit.projections.test_cache_time import POD, events, fold
from volcano.events.observation import ObjectAdded, ObjectModified
from volcano.objects import kinds
from volcano.objects.resource import ResourceInsufficient
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
    spec["containers"] = [{"resources": {"requests": more.get("requests", {"cpu": "1"})}}]
    if more.get("claim"):
        spec["volumes"] = [{"persistentVolumeClaim": {"claimName": more["claim"]}}]
    meta: dict[str, Any] = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    if more.get("deleting"):
        meta["deletionTimestamp"] = "2026-03-01T10:00:00Z"
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


def test_what_was_touched_is_kept_for_the_next_snapshot_however_long_that_takes() -> None:
    """Only a cache that nobody takes snapshots of forgets it now and then."""
    projection = CacheProjection("exact")
    cache = projection.initial()
    chain = [projection.dump(cache)]
    for position, event in enumerate(events(("Pod", POD, 1), ("Queue", {"metadata": {"name": "q"}}, 1)), 4_095):
        cache = projection.evolve(cache, event._replace(position=position))
    chain.append(projection.dump_changes(cache))
    assert projection.digest(projection.load(chain)) == projection.digest(cache)


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


@pytest.mark.parametrize(("model", "counted"), [(EXACT, False), (VOLCANO_1_11, True)])
def test_a_volume_that_nobody_provisions_is_attached_by_no_driver_under_exact(model: Any, counted: bool) -> None:
    local = _made("StorageClass", "s", provisioner="kubernetes.io/no-provisioner")
    claim = _made("PersistentVolumeClaim", "c", spec={"storageClassName": "s"})
    cache = _seen(Cache(model), Delivery("StorageClass", local), Delivery("PersistentVolumeClaim", claim))
    _seen(cache, Delivery("Pod", _pod(claim="c")))
    asked = cache.jobs["ns/g"].total_request.amounts()
    assert any(name.startswith("attachable-volumes") for name in asked) is counted


def test_a_volume_that_two_claims_name_is_still_the_others_when_one_goes() -> None:
    kind = "PersistentVolumeClaim"
    one, other = (_made(kind, name, spec={"volumeName": "v"}) for name in ("c", "e"))
    cache = _seen(Cache(EXACT), Delivery(kind, one), Delivery(kind, other), Delivery(kind, one, gone=True))
    assert cache.claims_by_volume == {"v": {"ns/e": None}}
    assert _seen(cache, Delivery(kind, other, gone=True)).claims_by_volume == {}


@pytest.mark.parametrize(
    ("change", "known", "held"), [(ObjectModified, 0, "5"), (ObjectModified, 1, "4"), (ObjectAdded, 0, "4")]
)
def test_only_a_watchs_own_line_is_held_to_be_old(change: Any, known: int, held: str) -> None:
    """What a list shows counts whatever its version: the API server may have gone back to an older state."""
    first, second = events(("Queue", {"metadata": {"name": "q"}}, 1), ("Queue", {"metadata": {"name": "q"}}, 1))
    cache = fold("exact", [first._replace(event=ObjectAdded(object=_made("Queue", "q", 5)))])
    evolve(cache, second._replace(known=known, event=change(object=_made("Queue", "q", 4))))
    assert cache.queues["q"].metadata.resource_version == held


@pytest.mark.parametrize(
    "kind", ["PriorityClass", "PersistentVolumeClaim", "Queue", "PersistentVolume", "ResourceQuota", "CSINode"]
)
def test_the_end_of_what_was_not_known_is_no_news(kind: str) -> None:
    cache = _seen(Cache(EXACT), Delivery(kind, _made(kind, "x")))
    gone = Delivery(kind, _made(kind, "x"), gone=True)
    assert [observe(cache, gone, position) for position in (2, 3)] == [True, False]


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED"])
def test_a_podgroup_told_to_its_handler_is_its_jobs(change: str) -> None:
    group = _made("PodGroup", "g", spec={"minMember": 2})
    cache = Cache(VOLCANO_1_11)
    deliver_to_handler(cache, change, Delivery("PodGroup", group), 1)
    assert cache.jobs["ns/g"].pod_group == group
    deliver_to_handler(cache, "DELETED", Delivery("PodGroup", group), 2)
    assert cache.jobs["ns/g"].pod_group is None


def test_a_csi_node_that_says_the_same_again_is_no_news() -> None:
    cache = Cache(EXACT)
    drivers = {"drivers": [{"name": "d", "nodeID": "n1", "allocatable": {"count": 3}}]}
    said = [Delivery("CSINode", _made("CSINode", "n1", version, spec=drivers)) for version in (1, 2)]
    said.append(Delivery("CSINode", _made("CSINode", "n1", 3, spec={"drivers": []})))
    assert [observe(cache, one, position) for position, one in enumerate(said, 1)] == [True, False, True]


# --- the short way of an update is the long way --------------------------------------------------------------------


def _both_ways(make: Callable[[], Cache]) -> list[str]:
    with patch.object(pods_module, "refresh_task", lambda *_: False):
        long = digest(make())
    return [digest(make()), long]


def test_a_pod_that_stands_on_the_node_that_it_comes_to() -> None:
    """Added twice with different nodes, as a handler may be told, it stands on both; the first would refuse it now."""
    here, there = _pod(node="n1", phase="Running"), _pod(version=2, node="n2", phase="Running")

    def made() -> Cache:
        cache = _seen(Cache(VOLCANO_1_11), Delivery("Pod", _pod("q", uid="v")), Delivery("Node", _node()))
        for pod in (here, there):
            deliver_to_handler(cache, "ADDED", Delivery("Pod", pod), 3)
        deliver_to_handler(cache, "MODIFIED", Delivery("Pod", _pod(version=3, node="n1")), 4, old=there)
        return cache

    short, long = _both_ways(made)
    assert short == long
    assert list(made().jobs["ns/g"].tasks) == ["v"]


@pytest.mark.parametrize(
    ("name", "amounts"),
    [
        ("cpu", ("9007199254741", "3m", "2m")),
        ("memory", ("9007199254741000", "3", "2")),
        ("ephemeral-storage", ("9007199254741", "3m", "2m")),
    ],
)
def test_a_sum_beyond_what_a_float_can_tell_apart(name: str, amounts: tuple[str, str, str]) -> None:
    """Taking a request off such a sum and putting it back changes it, and so it does in the real cache."""

    def made() -> Cache:
        pods = {pod: {"requests": {name: amount}} for pod, amount in zip("pqr", amounts, strict=True)}
        cache = _seen(Cache(VOLCANO_1_11), *(Delivery("Pod", _pod(pod, uid=pod, **pods[pod])) for pod in pods))
        return _seen(cache, Delivery("Pod", _pod("q", 2, uid="q", phase="Running", **pods["q"])))

    short, long = _both_ways(made)
    assert short == long
    assert made().jobs["ns/g"].total_request.get(name) == 9007199254741008


def test_a_request_that_its_sum_has_swallowed_panics_when_it_is_taken_off() -> None:
    def made() -> Cache:
        amounts = {"p": "9007199254740992m", "q": "1m", "r": "0"}
        pods = {name: {"requests": {"cpu": "1", "ephemeral-storage": amount}} for name, amount in amounts.items()}
        cache = _seen(Cache(VOLCANO_1_11), *(Delivery("Pod", _pod(name, uid=name, **pods[name])) for name in pods))
        _seen(cache, Delivery("Pod", _pod("p", uid="p", **pods["p"]), gone=True))
        with pytest.raises(ResourceInsufficient):
            _seen(cache, Delivery("Pod", _pod("q", 2, uid="q", phase="Running", **pods["q"])))
        return cache

    short, long = _both_ways(made)
    assert short == long


def test_the_end_of_one_pod_of_several_frees_the_node_that_it_was_given() -> None:
    cache = _seen(Cache(EXACT), Delivery("Node", _node()), Delivery("Pod", _pod()), Delivery("Pod", _pod("q", uid="v")))
    assume(cache, cache.jobs["ns/g"].tasks["u"], "n1", int(TaskStatus.ALLOCATED))
    _seen(cache, Delivery("Pod", _pod(version=2, deleting=True), watched=True))
    assert cache.nodes["n1"].used.milli_cpu == 0
    assert list(cache.nodes["n1"].tasks) == []
