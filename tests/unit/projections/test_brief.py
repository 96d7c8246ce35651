"""The fold's own, leaner way to read a pod: it gives what the whole pod gives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from projections.cache import MODELS, CacheProjection
from projections.cache.brief import PodBrief, brief_of, decode_brief
from projections.cache.state import Cache
from projections.cache.tasks import new_task, pod_ref
from tests.data import recording
from tests.golden.recorded import read_text
from volcano.events.base import Recorded, Unreadable
from volcano.events.observation import ObjectAdded
from volcano.objects.core import Pod
from volcano.objects.kinds import decode

ODD: list[dict[str, Any]] = [
    {},
    {"metadata": {"labels": None, "annotations": None}, "spec": {"containers": None, "volumes": None}},
    {"metadata": {"deletionTimestamp": None}, "spec": {"containers": [{"resources": {"requests": None}}]}},
    {"metadata": {"labels": {"volcano.sh/task-spec": "a"}, "annotations": {"volcano.sh/task-spec": ""}}},
    {"metadata": {"labels": {"volcano.sh/preemptable": "false"}, "annotations": {"volcano.sh/revocable-zone": "*"}}},
    {"metadata": {"annotations": {"volcano.sh/preemptable": "true", "volcano.sh/task-priority": "7"}}},
    {"metadata": {"annotations": {"volcano.sh/preemptable": "no", "volcano.sh/task-priority": "1e3"}}},
    {"spec": {"containers": [{"resources": {"requests": {"cpu": 1.5, "memory": 2**40}}}, {"resources": {}}]}},
    {"spec": {"containers": [{"ports": [{"hostPort": 80}]}], "overhead": {"cpu": "250m"}, "priority": 0}},
    {"spec": {"hostNetwork": True, "containers": [{"ports": [{}]}], "initContainers": [{"restartPolicy": "Always"}]}},
    {"spec": {"affinity": {"nodeAffinity": {}}, "schedulingGates": [{"name": "g"}]}},
    {"spec": {"affinity": {"podAntiAffinity": {}, "podAffinity": None}, "topologySpreadConstraints": [{}]}},
    {"spec": {"volumes": [{"name": "v", "ephemeral": {}}, {"persistentVolumeClaim": {"claimName": "c"}}, {}]}},
]


def recorded_pods() -> list[bytes]:
    bodies = [
        msgspec.json.encode(line["object"])
        for name in ("01", "03", "06")
        for line in map(msgspec.json.decode, read_text(recording(name) / "watch.jsonl.zst").splitlines())
        if line.get("resource") == "pods" and "object" in line and line["object"]["kind"] == "Pod"
    ]
    assert len(bodies) > 500
    return bodies


@pytest.mark.parametrize("model", sorted(MODELS))
def test_both_ways_give_the_same_entry_and_task(model: str) -> None:
    cache = Cache(model)
    for body in [*recorded_pods(), *map(msgspec.json.encode, ODD)]:
        whole, brief = brief_of(decode("Pod", body)), decode_brief(body)
        ref = pod_ref(cache, brief, 7)
        assert ref == pod_ref(cache, whole, 7)
        assert new_task(brief, ref) == new_task(whole, ref)


def test_a_brief_stays_what_it_is() -> None:
    brief = decode_brief(b'{"metadata":{"name":"a"}}')
    assert brief_of(brief) is brief
    assert isinstance(brief_of(Pod()), PodBrief)


@pytest.mark.parametrize("requests", [b"7", b"[]", b'{"cpu":[]}', b'{"cpu":"1 core"}'])
def test_requests_that_are_none_are_refused_and_noted(requests: bytes) -> None:
    body = b'{"metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{"containers":[{"resources":{"requests":%s}}]}}'
    projection = CacheProjection()
    cache = projection.initial()
    before = projection.digest(cache)
    event = ObjectAdded(object=decode_brief(body % requests))
    cache = projection.evolve(cache, Recorded(3, "c", "Pod", "n", "a", "u", 9, 0, False, None, None, None, event))
    assert projection.digest(cache) == before
    assert cache.refused[3]
    assert cache.position == 3


def test_what_cannot_be_read_is_noted_and_changes_nothing_else() -> None:
    projection = CacheProjection()
    cache = projection.initial()
    before = projection.digest(cache)
    event = Unreadable(type="ObjectAdded", reason="no Pod: Expected `object`")
    envelope = Recorded(3, "c", "Pod", "n", "a", "u", 9, 0, False, None, None, None, event)
    cache = projection.evolve(cache, envelope)
    cache = projection.evolve(cache, envelope._replace(position=4, kind="Event"))
    cache = projection.evolve(cache, envelope._replace(position=5, late=True))
    assert cache.refused == {3: "no Pod: Expected `object`"}
    assert projection.digest(cache) == before
    assert projection.load([projection.dump(cache)]).refused == cache.refused
