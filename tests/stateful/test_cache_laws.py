"""The laws of the cache's fold, on histories that hypothesis makes up."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.cache import MODELS, Cache, CacheProjection, state_json
from projections.cache import pods as pods_module
from tests.data import recording
from tests.golden.recorded import observations
from tests.stateful.histories import STEPS, history
from vcledger.conformance import compare_states
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectModified
from volcano.objects.core import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from volcano.objects.resource import Resource
from volcano.objects.status import ALLOCATED_STATUSES, TERMINATED_STATUSES, TaskStatus

EACH_MODEL = pytest.mark.parametrize("model", sorted(MODELS))


def fold(projection: CacheProjection, events: list[Recorded]) -> Cache:
    cache = projection.initial()
    for event in events:
        cache = projection.evolve(cache, event)
    return cache


@EACH_MODEL
@settings(max_examples=60, deadline=None)
@given(steps=STEPS, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_snapshots_and_tail_are_the_whole(model: str, steps: list[Any], cuts: list[int]) -> None:
    """Any chunking, with a chain of snapshots read back at each cut, ends in the state of the whole replay."""
    projection = CacheProjection(model)
    events, _ = history(steps)
    whole = projection.digest(fold(projection, events))
    cache, chain, at = projection.initial(), [], 0
    for cut in sorted(cuts):
        for event in events[at:cut]:
            cache = projection.evolve(cache, event)
        at = max(at, cut)
        chain.append(projection.dump_changes(cache) if chain else projection.dump(cache))
        before = projection.digest(cache)
        assert projection.digest(projection.load(chain)) == before
        if len(chain) % 2:
            cache, chain = projection.load(chain), [projection.dump(projection.load(chain))]
    for event in events[at:]:
        cache = projection.evolve(cache, event)
    assert projection.digest(cache) == whole


@EACH_MODEL
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_the_short_way_of_an_update_is_the_long_way(model: str, steps: list[Any]) -> None:
    projection = CacheProjection(model)
    events, _ = history(steps)
    short = projection.digest(fold(projection, events))
    with patch.object(pods_module, "refresh_task", lambda *_: False):
        long = projection.digest(fold(projection, events))
    assert short == long


def total(resources: list[Resource]) -> dict[str, float]:
    amount = Resource(0, 0)
    for resource in resources:
        amount.add(resource)
    return {name: value for name, value in amount.amounts().items() if value}


def nonzero(resource: Resource) -> dict[str, float]:
    return {name: value for name, value in resource.amounts().items() if value}


def check_books(cache: Cache) -> None:
    for name, node in cache.nodes.items():
        if node.node is None:
            assert nonzero(node.used) == nonzero(node.idle) == {}
            continue
        counted = [task for task in node.tasks.values() if task.status != TaskStatus.PIPELINED]
        assert nonzero(node.used) == total([task.resreq for task in counted]), name
        assert nonzero(node.releasing) == total(
            [task.resreq for task in counted if task.status == TaskStatus.RELEASING]
        )
        together = node.idle.clone()
        together.add(node.used)
        assert nonzero(together) == nonzero(node.allocatable), name
        assert not any(task.status in TERMINATED_STATUSES for task in counted)
    for key, job in cache.jobs.items():
        tasks = list(job.tasks.values())
        assert nonzero(job.total_request) == total([task.resreq for task in tasks]), key
        allocated = [task.resreq for task in tasks if task.status in ALLOCATED_STATUSES]
        assert nonzero(job.allocated) == total(allocated), key
        indexed = {uid: status for status, index in job.tasks_by_status.items() for uid in index}
        assert indexed == {task.uid: task.status for task in tasks}


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_the_exact_books_balance(steps: list[Any]) -> None:
    check_books(fold(CacheProjection("exact"), history(steps)[0]))


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_the_exact_cache_depends_on_what_is_live_and_on_nothing_else(steps: list[Any]) -> None:
    """However the objects came to be, the books are those of a cache that sees them for the first time."""
    projection = CacheProjection("exact")
    events, live = history(steps)
    cache = fold(projection, events)
    fresh = projection.initial()
    for number, ((kind, _), obj) in enumerate(sorted(live.items(), key=lambda item: item[0]), 1):
        meta = obj.metadata
        where = (number, "c", kind, meta.namespace, meta.name, meta.uid)
        fresh = projection.evolve(fresh, Recorded(*where, number, 0, False, None, None, None, ObjectAdded(object=obj)))
    for image in (cache, fresh):
        for node in image.nodes.values():
            node.images = {}
    ours, theirs = state_json(cache), state_json(fresh)
    for state in (ours, theirs):
        state["node_list"].sort()
    assert compare_states(theirs, ours) == []


@EACH_MODEL
def test_a_refused_observation_leaves_the_digest_as_it_was(model: str) -> None:
    projection = CacheProjection(model)
    cache = fold(projection, observations(recording("01"))[:300])
    before = projection.digest(cache)
    bad = Pod(
        metadata=ObjectMeta(name="bad", namespace="default", uid="u"),
        spec=PodSpec(
            scheduler_name="volcano",
            containers=[Container(resources=ResourceRequirements(requests={"cpu": "1 core"}))],
        ),
    )
    where = (10_000, "c", "Pod", "default", "bad", "u", cache.now, 0)
    cache = projection.evolve(cache, Recorded(*where, False, None, None, None, ObjectModified(object=bad)))
    assert projection.digest(cache) == before
    assert "1 core" in cache.refused[10_000]


@EACH_MODEL
def test_late_events_are_skipped(model: str) -> None:
    projection = CacheProjection(model)
    events = observations(recording("01"))[:300]
    cache = fold(projection, events)
    before = projection.digest(cache)
    for event in events[:50]:
        cache = projection.evolve(cache, event._replace(late=True))
    assert projection.digest(cache) == before


@EACH_MODEL
def test_a_recording_in_chunks_with_snapshots(model: str) -> None:
    projection = CacheProjection(model)
    events = observations(recording("03"))
    whole = projection.digest(fold(projection, events))
    cache, chain = projection.initial(), []
    for number, event in enumerate(events, 1):
        cache = projection.evolve(cache, event)
        if number % 60 == 0:
            chain.append(projection.dump_changes(cache) if chain else projection.dump(cache))
    tail = projection.load(chain)
    for event in events[len(events) // 60 * 60 :]:
        tail = projection.evolve(tail, event)
    assert projection.digest(cache) == projection.digest(tail) == whole
