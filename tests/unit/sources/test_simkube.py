"""SimKube traces: owners of pods to pods, other versions refused, and what is wrong inside one.

Owns the proof of what is derived. Must not test the replay of such a trace.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore.types import INFERRED
from tests.data import shared
from tests.unit.sources.given import events, imported, ledger, written
from vcledger.sources import ImportOptions, NothingToImport
from vcledger.sources.detect import Format, detect
from vcledger.sources.observe import Observer
from vcledger.sources.redact import StorageOptions
from vcledger.sources.report import silent
from vcledger.sources.simkube import NotATrace, items

ZERO = 1_700_000_000
"""The unix time at which the traces here begin."""


def container(cpu: str = "1") -> dict[str, Any]:
    env = [{"name": "TOKEN", "value": "secret"}]
    return {"name": "main", "image": "busybox", "env": env, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}


def template(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container(cpu)]} | spec}


def owner(kind: str, name: str, spec: dict[str, Any], api_version: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def deployment(name: str = "web", replicas: int = 2, cpu: str = "1") -> dict[str, Any]:
    return owner("Deployment", name, {"replicas": replicas, "template": template(cpu)})


def cronjob(name: str = "tick") -> dict[str, Any]:
    return owner("CronJob", name, {"jobTemplate": {"spec": {"template": template()}}}, "batch/v1")


def at(second: int, *applied: Any, deleted: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"ts": ZERO + second, "applied_objs": list(applied), "deleted_objs": list(deleted)}


def finished(start: int, end: int) -> dict[str, list[int]]:
    return {"Finished": [ZERO + start, ZERO + end]}


def trace(*happened: Any, lives: dict[tuple[str, str], Any] | None = None, **other: Any) -> bytes:
    """A trace as SimKube exports it. `lives`: by kind and name, one list of lifecycles."""
    lifecycles = {key: {2**64 - 1: found} for key, found in (lives or {}).items()}
    whole = {
        "version": 2,
        "config": {"trackedObjects": {"apps/v1.Deployment": {"podSpecTemplatePaths": ["/spec/template"]}}},
        "events": list(happened),
        "index": {"apps/v1.Deployment": {"ns/web": 2**64 - 1}},
        "pod_lifecycles": lifecycles,
    }
    return msgspec.msgpack.encode(whole | other)


def story(tmp_path: Path, kind: str = "Pod") -> list[tuple[str, str, int]]:
    """Type, name and second of a kind's events."""
    found = events(tmp_path, kinds=kind)
    return [(one.type.removeprefix("Object"), one.stream.name, one.observed_at // 1_000_000 - ZERO) for one in found]


def objects(tmp_path: Path, kind: str, name: str) -> list[dict[str, Any]]:
    return [json.loads(one.payload) for one in events(tmp_path, kinds=kind, name=name)]


def test_a_deployment_has_as_many_pods_as_it_asks_for(tmp_path: Path) -> None:
    happened = (
        at(0),
        at(0, deployment(replicas=2)),
        at(10, deployment(replicas=3)),
        at(20, deployment(replicas=1)),
        at(30, deployment(replicas=1, cpu="2")),
        at(40, deleted=(deployment(),)),
    )
    report = imported(tmp_path, written(tmp_path, "web.sktrace", trace(*happened)))
    assert (report.read, report.broken_count, report.late) == (5, 0, 0)
    assert story(tmp_path) == [
        ("Added", "web-0", 0),
        ("Added", "web-1", 0),
        ("Added", "web-2", 10),
        ("Deleted", "web-1", 20),
        ("Deleted", "web-2", 20),
        ("Deleted", "web-0", 30),
        ("Added", "web-3", 30),
        ("Deleted", "web-3", 40),
    ]
    assert {one.known for one in events(tmp_path)} == {INFERRED}
    assert story(tmp_path, "Queue") == [("Added", "default", -1)]
    (pod, *_), (group, *_) = objects(tmp_path, "Pod", "web-3"), objects(tmp_path, "PodGroup", "web-3")
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["metadata"]["annotations"] == {"scheduling.k8s.io/group-name": "web-3"}
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["spec"]["containers"][0]["env"][0]["value"] == "<redacted>"
    assert group["spec"] == {"minMember": 1, "queue": "default", "minResources": {"cpu": "2", "memory": "1073741824"}}
    assert any("4 pods of the default scheduler" in note for note in report.notes)
    assert any("no nodes" in note for note in report.notes)


def test_lifecycles_are_pods_that_ran(tmp_path: Path) -> None:
    lives = {("batch/v1.CronJob", "ns/tick"): [finished(61, 91), finished(1, 31), {"Running": ZERO + 121}, "Empty"]}
    happened = at(0, cronjob()), at(200, deleted=(cronjob(),))
    report = imported(tmp_path, written(tmp_path, "t", trace(*happened, lives=lives)))
    assert story(tmp_path) == [
        ("Added", "tick-0", 1),
        ("Modified", "tick-0", 1),
        ("Modified", "tick-0", 31),
        ("Deleted", "tick-0", 31),
        ("Added", "tick-1", 61),
        ("Modified", "tick-1", 61),
        ("Modified", "tick-1", 91),
        ("Deleted", "tick-1", 91),
        ("Added", "tick-2", 121),
        ("Modified", "tick-2", 121),
        ("Deleted", "tick-2", 200),
    ]
    assert [one["status"]["phase"] for one in objects(tmp_path, "Pod", "tick-0")] == [
        "Pending",
        "Running",
        "Succeeded",
        "Succeeded",
    ]
    assert "nodeName" not in objects(tmp_path, "Pod", "tick-0")[1]["spec"]
    assert report.ignored["a SimKube lifecycle that is Empty: that pod never started"] == 1


def test_bare_pods_wait_until_they_start(tmp_path: Path) -> None:
    bare = owner("Pod", "solo", template()["spec"], "v1")
    other = owner("Pod", "other", template(schedulerName="mine")["spec"], "v1")
    lives = {("v1.Pod", "ns/solo"): [finished(3, 9)]}
    config = {"trackedObjects": {"v1.Pod": {"podSpecTemplatePaths": [""], "trackLifecycle": True}}}
    imported(tmp_path, written(tmp_path, "t", trace(at(1, bare, other), lives=lives, config=config)))
    assert story(tmp_path) == [
        ("Added", "solo", 1),
        ("Added", "other", 1),
        ("Modified", "solo", 3),
        ("Modified", "solo", 9),
        ("Deleted", "solo", 9),
    ]
    assert objects(tmp_path, "Pod", "other")[0]["spec"]["schedulerName"] == "mine"
    with ledger(tmp_path) as opened:
        assert set(opened.cache(model="exact").pods) == set(opened.cache(model="volcano-1.11").pods) == {"ns/other"}


def test_a_volcano_job_is_a_gang(tmp_path: Path) -> None:
    tasks = [{"name": "ps", "replicas": 1, "template": template()}, {"replicas": 2, "template": template("2")}]
    job = owner("Job", "train", {"minAvailable": 2, "queue": "ml", "tasks": tasks}, "batch.volcano.sh/v1alpha1")
    lives = {("batch.volcano.sh/v1alpha1.Job", "ns/train"): [finished(1, 2)]}
    report = imported(tmp_path, written(tmp_path, "t", trace(at(0, job), at(9, deleted=(job,)), lives=lives)))
    assert [name for what, name, _ in story(tmp_path) if what == "Added"] == [
        "train-ps-0",
        "train-default1-0",
        "train-default1-1",
    ]
    assert story(tmp_path, "VolcanoJob") == [("Added", "train", 0), ("Deleted", "train", 9)]
    assert objects(tmp_path, "PodGroup", "train")[0]["spec"] == {"minMember": 2, "queue": "ml"}
    assert {
        one["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
        for one in objects(tmp_path, "Pod", "train-default1-1")
    } == {"train"}
    kinds = [one.stream.kind for one in events(tmp_path) if one.observed_at // 1_000_000 == ZERO]
    assert kinds == ["VolcanoJob", "PodGroup", "Pod", "Pod", "Pod"], "a gang is there before its members"
    (worker, *_), (whole, *_) = objects(tmp_path, "Pod", "train-default1-0"), objects(tmp_path, "VolcanoJob", "train")
    assert worker["metadata"]["annotations"]["volcano.sh/task-spec"] == "default1"
    for one in (worker, objects(tmp_path, "PodGroup", "train")[0]):
        assert one["metadata"]["ownerReferences"][0]["uid"] == whole["metadata"]["uid"]
    assert story(tmp_path, "Queue") == [("Added", "ml", -1)]
    assert sum("several pod templates" in reason for reason in report.ignored) == 1


def test_a_volcano_job_whose_lifecycles_can_be_told_apart(tmp_path: Path) -> None:
    """By their number: one of the master's, two of the workers'."""
    tasks = [
        {"name": "master", "replicas": 1, "template": template()},
        {"name": "w", "replicas": 2, "template": template()},
    ]
    job = owner("Job", "train", {"minAvailable": 3, "tasks": tasks}, "batch.volcano.sh/v1alpha1")
    ran = {1: [finished(5, 9), finished(4, 9)], 2: [finished(6, 8)]}
    whole = msgspec.msgpack.decode(trace(at(0, job)), strict=False)
    whole["pod_lifecycles"] = {("batch.volcano.sh/v1alpha1.Job", "ns/train"): ran}
    imported(tmp_path, written(tmp_path, "t", msgspec.msgpack.encode(whole)))
    started = {name: second for what, name, second in story(tmp_path) if what == "Modified" and second < 8}
    assert [name for what, name, second in story(tmp_path) if second == 0] == [
        "train-master-0",
        "train-w-0",
        "train-w-1",
    ]
    assert started == {"train-master-0": 6, "train-w-0": 4, "train-w-1": 5}
    assert story(tmp_path, "PodGroup") == [("Added", "train", 0), ("Modified", "train", 6)]
    assert objects(tmp_path, "PodGroup", "train")[1]["status"] == {"phase": "Running", "running": 3}


def test_a_job_has_all_its_pods_from_its_start(tmp_path: Path) -> None:
    job = owner("Job", "batch", {"parallelism": 3, "completions": 9, "template": template()}, "batch/v1")
    lives = {("batch/v1.Job", "ns/batch"): [finished(4, 6), finished(5, 7)]}
    imported(tmp_path, written(tmp_path, "t", trace(at(0, job), lives=lives)))
    assert [(name, second) for what, name, second in story(tmp_path) if what == "Added"] == [
        ("batch-0", 0),
        ("batch-1", 0),
        ("batch-2", 0),
    ]
    assert [(name, second) for what, name, second in story(tmp_path) if what == "Deleted"] == [
        ("batch-0", 6),
        ("batch-1", 7),
    ]


def test_core_kinds_as_older_traces_write_them(tmp_path: Path) -> None:
    lives = {("/v1.Pod", "ns/solo"): [finished(3, 9)]}
    config = {"trackedObjects": {"/v1.Pod": {"podSpecTemplatePath": ""}}}
    data = trace(at(1, owner("Pod", "solo", template()["spec"], "v1")), lives=lives, config=config)
    imported(tmp_path, written(tmp_path, "t", data))
    assert [second for _, _, second in story(tmp_path)] == [1, 3, 9, 9]


@pytest.mark.slow
def test_objects_of_kinds_that_the_ledger_keeps_are_kept(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    larger = node | {"status": {"allocatable": {"cpu": "8"}}}
    happened = at(0, node, queue, deployment()), at(5, larger), at(5, node), at(9, deleted=(node,)), at(12, larger)
    report = imported(tmp_path, written(tmp_path, "t", trace(*happened)))
    assert [what for what, _, _ in story(tmp_path, "Node")] == ["Added", "Modified", "Modified", "Deleted", "Added"]
    uids = [one["metadata"]["uid"] for one in objects(tmp_path, "Node", "n1")]
    assert len(set(uids)) == 2
    assert len(objects(tmp_path, "Queue", "default")) == 1
    assert not any("no nodes" in note for note in report.notes)


@pytest.mark.slow
def test_importing_again_or_longer_adds_what_is_new(tmp_path: Path) -> None:
    short = at(0, deployment(replicas=2)), at(10, deployment(replicas=3))
    first = imported(tmp_path, written(tmp_path, "t", trace(*short)))
    again = imported(tmp_path, written(tmp_path, "t.gz", gzip.compress(trace(*short))))
    assert (again.stored, again.already) == (0, first.stored)
    longer = imported(tmp_path, written(tmp_path, "u", trace(*short, at(20, deployment(replicas=4)))))
    assert (longer.stored, longer.late) == (2, 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (trace(version=3), "of version 3; only version 2"),
        (trace(version="2"), "of version '2'; only version 2"),
        (trace(version=None), "that says no version; only version 2"),
        (msgspec.msgpack.encode([{"trackedObjects": {}}, [], {}, {}]), "of version 1, which says none"),
        (trace(at(0, deployment()))[:-40], "no whole SimKube trace: "),
        (trace(events=[{"ts": "soon"}]), "no whole SimKube trace: Expected `int`"),
        (trace()[:30] + b"\xc1" * 30, "no whole SimKube trace: "),
    ],
)
def test_other_versions_and_what_is_not_whole_are_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    assert detect(data) is Format.simkube
    with pytest.raises(NothingToImport, match=reason):
        imported(tmp_path, written(tmp_path, "t", data))
    assert not (tmp_path / "other.db").exists()


def test_what_is_broken_inside_is_named_and_the_rest_is_stored(tmp_path: Path) -> None:
    wrong = [
        (5, "no object: it has no metadata"),
        ({"metadata": {"name": "x"}}, "an object without apiVersion"),
        (owner("Deployment", "", {}), "an object without name"),
        (owner("Deployment", "a\nb", {}), "is not one that the API allows"),
        (owner("Deployment", "x", {"replicas": "many", "template": template()}), "replicas many is no number of pods"),
        (owner("Job", "j", {"tasks": 1.5, "minAvailable": -1}, "batch.volcano.sh/v1alpha1"), "Expected `array | null`"),
        (owner("Deployment", "x", {"replicas": 10**9, "template": template()}), "replicas 1000000000 is no number"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "x"}}}, "'x'"),
    ]
    happened = [at(number, built) for number, (built, _) in enumerate(wrong, 1)]
    bad_pods = owner("Deployment", "bad", {"replicas": 1, "template": template("lots")})
    lives = {("apps/v1.Deployment", "ns/web"): [finished(9, 3), {"Paused": 1}, {"Running": -5}, finished(4, 6)]}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    data = trace(at(0, deployment()), *happened, at(8, bad_pods, config_map), at(9, deleted=(cronjob(),)), lives=lives)
    aside = tmp_path / "aside.jsonl"
    report = imported(tmp_path, written(tmp_path, "t", data), options=ImportOptions(snapshots=False, broken_file=aside))
    assert story(tmp_path)[0] == ("Added", "web-0", 4)
    by_line = {one.line: one.reason for one in report.broken if one.line}
    for number, (_, reason) in enumerate(wrong, 2):
        assert reason in by_line[number]
    whole = [one.reason for one in report.broken if not one.line]
    assert any("Finished [1700000009, 1700000003] ends before it starts: a negative duration" in one for one in whole)
    assert any("Paused" in one for one in whole)
    assert any("holds no times" in one for one in whole)
    assert any("pods of ns/bad: Pod bad-0: " in one and "lots" in one for one in whole)
    assert report.ignored["kind ConfigMap of v1"] == 1
    assert report.ignored["deleted in a SimKube trace, but not applied in it before"] == 1
    assert len(aside.read_bytes().splitlines()) == report.broken_count


def test_events_that_go_back_in_time_are_put_in_order_and_told(tmp_path: Path) -> None:
    happened = at(10, deployment(replicas=2)), at(0, deployment(replicas=1))
    report = imported(tmp_path, written(tmp_path, "t", trace(*happened)))
    assert story(tmp_path) == [("Added", "web-0", 0), ("Added", "web-1", 10)]
    assert any("1 event goes back in time" in note for note in report.notes)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_whatever_is_done_to_the_bytes_there_is_an_answer(tmp_path: Path, seed: int) -> None:
    """Either the file is refused with a reason, or what can be read of it is there."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    lives = {("apps/v1.Deployment", "ns/web"): [finished(1, 4)]}
    good = trace(at(0, deployment(), cronjob()), at(5, deleted=(deployment(),)), lives=lives)
    for number in range(12):
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(9, len(data))] = chance.randrange(256)
        try:
            report = imported(tmp_path, written(tmp_path, "t", bytes(data)), db=f"{number}.db")
        except NothingToImport as error:
            assert "could be read" in str(error)
        else:
            assert report.stored + report.broken_count + sum(report.ignored.values())


ODD: list[Any] = [None, 0, -1, 2**63, 1.5, "", "x" * 300, "a\nb", [], {}, [None], True, b"\xff", {1: 2}, [[]]]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*at, key)
        yield from places(value[key], (*at, key))


def changed(whole: Any, chance: random.Random) -> bytes:
    """A trace with up to three odd values somewhere in it."""
    mine = copy.deepcopy(whole)
    for _ in range(chance.randint(1, 3)):
        *way, last = chance.choice(list(places(mine)))
        inner = mine
        for key in way:
            inner = inner[key]
        inner[last] = chance.choice(ODD)
    return msgspec.msgpack.encode(mine)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_whatever_stands_in_a_trace_is_read_or_named(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    bare = owner("Pod", "solo", template()["spec"], "v1")
    tasks = [{"name": "ps", "replicas": 1, "template": template()}, {"replicas": 2, "template": template("2")}]
    job = owner("Job", "train", {"minAvailable": 2, "tasks": tasks}, "batch.volcano.sh/v1alpha1")
    lives = {("apps/v1.Deployment", "ns/web"): [finished(1, 4)], ("v1.Pod", "ns/solo"): [{"Running": ZERO + 2}]}
    happened = at(0, deployment(), job, bare, cronjob()), at(5, deployment(replicas=3)), at(9, deleted=(job, bare))
    whole = msgspec.msgpack.decode(trace(*happened, lives=lives), strict=False)
    answers = Counter[str]()
    for _ in range(250):
        tally = silent("t")
        try:
            found = list(items(changed(whole, chance), Observer("c", StorageOptions()), tally))
        except NotATrace:
            answers["refused"] += 1
        else:
            answers["read"] += 1
            times = [event.observed_at for event in found]
            assert times == sorted(times)
            assert found or tally.report.broken_count or tally.report.ignored
    assert min(answers.values()) > 10


@pytest.mark.parametrize(("name", "pods"), [("bare-pods", 4), ("cronjob", 3), ("dsb-scaling", 54)])
@pytest.mark.slow
def test_published_traces(tmp_path: Path, name: str, pods: int) -> None:
    path = shared("simkube", f"{name}.sktrace")
    report = imported(tmp_path, path)
    assert report.broken_count == 0
    assert sum(what == "Added" for what, _, _ in story(tmp_path)) == pods
    assert imported(tmp_path, path).stored == 0
