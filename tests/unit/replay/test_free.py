"""Free replay: the simulation's rules, on small traces and a decider of the tests' own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from eventstore.types import StreamId
from tests.unit.replay.fake import FirstFit
from tests.unit.replay.traces import Gang, Stage, events, group, ledger_of, member, queue
from tests.unit.vcledger.build import node, seen
from vcledger.ledger import Ledger
from vcledger.replay import freely, templates
from vcledger.replay.engine import Job, ReplayPlan, ReplayResult
from vcledger.replay.result import AnotherPlan, ResultExists, origin_of
from vcledger.scheduler.session.outcome import Outcome
from volcano.events.base import DomainEvent, Subject
from volcano.events.scheduling import JobConsidered

STAGE = Stage((8, 8), (Gang(4, 4, 4, 0, 30), Gang(2, 2, 8, 5, 20), Gang(3, 3, 9, 6, 10)))
"""A gang that fills both nodes, one that has to wait for it, one that fits nowhere."""

OWNED = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job", "uid": "job-1", "controller": True}


def free(
    source: Ledger, out: Path, *, decider: object = FirstFit, resume: bool = False, stop: object = None, **plan: object
) -> ReplayResult:
    made = replace(ReplayPlan(mode="free"), **plan)  # type: ignore[arg-type]
    head = source.store.head()
    job = Job(source, made, source.cluster(None), made.from_position, head, decider, None, stop or (lambda: False))  # type: ignore[arg-type]
    return freely.run_free(job, str(out), resume=resume)


def told(path: Path) -> list[tuple[object, ...]]:
    with Ledger.open(str(path), read_only=True) as ledger:
        return [stored[:11] + stored[12:] for stored in ledger.store.read()]


def lives(path: Path, name: str) -> list[tuple[float, str, str, str]]:
    """(second, change, phase, node) of a pod in a result ledger."""
    with Ledger.open(str(path), read_only=True) as ledger:
        start = next(ledger.store.read()).observed_at
        return [
            (
                (one.observed_at - start) / 1e6,
                type(one.event).__name__.removeprefix("Object"),
                one.event.object.status.phase,  # type: ignore[attr-defined]
                one.event.object.spec.node_name,  # type: ignore[attr-defined]
            )
            for one in ledger.recorded(kinds="Pod", name=name)
            if type(one.event).__name__.startswith("Object")
        ]


def test_decisions_are_ours_and_pods_run_as_long_as_recorded(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(STAGE, tmp_path / "source.db"), read_only=True) as source:
        result = free(source, tmp_path / "out.db")
    assert (result.placed, result.pending, result.placed_recorded, result.pending_recorded) == (6, 3, 6, 3)
    assert result.counts.same_node + result.counts.other_node == 6
    assert result.counts.neither == 3
    assert result.finished
    first = lives(tmp_path / "out.db", "g0-0")
    assert [one[1:3] for one in first] == [
        ("Added", "Pending"), ("Modified", "Pending"), ("Modified", "Running"), ("Modified", "Succeeded"),
    ]  # fmt: skip
    assert first[3][0] - first[2][0] == 30
    assert result.waits[""].max >= 25
    assert result.usage["cpu"].peak == 1.0


def test_equal_plans_write_equal_ledgers(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(STAGE, tmp_path / "source.db"), read_only=True) as source:
        for name in ("one.db", "two.db"):
            free(source, tmp_path / name, seed=7)
        with Ledger.open(str(tmp_path / "one.db")) as one, Ledger.open(str(tmp_path / "two.db")) as two:
            assert one.store.verify().head_hash == two.store.verify().head_hash
            assert one.store.verify().ok


def test_a_result_is_a_ledger(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(STAGE, tmp_path / "source.db"), read_only=True) as source:
        free(source, tmp_path / "out.db", seed=3)
    with Ledger.open(str(tmp_path / "out.db"), read_only=True) as result:
        cache = result.cache()
        assert sorted(key for key, ref in cache.pods.items() if not ref.node_name) == [
            f"default/g2-{index}" for index in range(3)
        ]
        assert cache.refused == {} and cache.panics == []
        origin = origin_of(result)
        assert origin is not None and (origin.mode, origin.seed, origin.cluster) == ("free", 3, "c")


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(freely, "TOLD_EACH", 1)
    left = [steps]

    def stop() -> bool:
        left[0] -= 1
        return left[0] <= 0

    with Ledger.open(ledger_of(STAGE, tmp_path / "source.db"), read_only=True) as source:
        whole = free(source, tmp_path / "whole.db")
        part = free(source, tmp_path / "part.db", stop=stop)
        assert not part.finished
        assert 0 <= part.stopped_at <= part.last
        done = free(source, tmp_path / "part.db", resume=True)
        again = free(source, tmp_path / "part.db", resume=True)
    assert told(tmp_path / "part.db") == told(tmp_path / "whole.db")
    for one in (done, again):
        assert msgspec.structs.replace(one, ledger=whole.ledger) == whole


def test_another_plan_is_refused(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(STAGE, tmp_path / "source.db"), read_only=True) as source:
        free(source, tmp_path / "out.db")
        with pytest.raises(ResultExists, match="name another --out"):
            free(source, tmp_path / "out.db")
        with pytest.raises(AnotherPlan, match="another plan"):
            free(source, tmp_path / "out.db", resume=True, seed=2)
        with pytest.raises(AnotherPlan, match="no replay's result"):
            free(source, tmp_path / "source.db", resume=True)


def test_an_evicted_pod_goes_and_is_made_again(tmp_path: Path) -> None:
    stage = Stage((8,), (Gang(2, 1, 4, 0, 30), Gang(1, 1, 99, 0, 0)))
    told_events = []
    for event in events(stage):
        payload = event.payload
        if event.stream.kind == "Pod":
            owners = b'"metadata":{"ownerReferences":' + msgspec.json.encode([OWNED]) + b","
            payload = payload.replace(b'"metadata":{', owners, 1)
        told_events.append(event._replace(payload=payload))
    with Ledger.open(str(tmp_path / "source.db"), create=True) as source:
        source.store.append(told_events)
        result = free(source, tmp_path / "out.db", decider=partial(FirstFit, evicts=["default/g0-0"]))
    assert result.evictions == 1
    assert result.gangs_broken == 0  # one member is enough for it
    history = lives(tmp_path / "out.db", "g0-0")
    gone = next(number for number, one in enumerate(history) if one[1] == "Deleted")
    assert [one[2] for one in history[gone + 1 :]] == ["Pending", "Pending", "Running", "Succeeded"]
    assert history[-1][0] - history[-2][0] == 30
    with Ledger.open(str(tmp_path / "out.db"), read_only=True) as ledger:
        assert len({stored.uid for stored in ledger.store.read(kinds="Pod", name="g0-0")}) == 2


def test_a_gang_that_loses_a_member_it_needs_is_broken(tmp_path: Path) -> None:
    with Ledger.open(
        ledger_of(Stage((8,), (Gang(2, 2, 4, 0, 30), Gang(1, 1, 99, 0, 0))), tmp_path / "source.db")
    ) as source:
        result = free(source, tmp_path / "out.db", decider=partial(FirstFit, evicts=["default/g0-0"]))
    assert (result.evictions, result.gangs_broken) == (1, 1)


def test_pods_of_a_job_come_after_its_group_is_let_in_here(tmp_path: Path) -> None:
    told_events = [seen("ADDED", queue("default", 1), 0), seen("ADDED", node("n0", 2, cpu="8"), 0)]
    gang = Gang(1, 1, 4, 0, 10)
    pod_group = group(0, gang, 3)
    pod_group["metadata"]["ownerReferences"] = [OWNED]
    told_events.append(seen("ADDED", pod_group, 10.25))
    admitted = group(0, gang, 4)
    admitted["metadata"]["ownerReferences"] = [OWNED]
    admitted["status"] = {"phase": "Inqueue"}
    told_events.append(seen("MODIFIED", admitted, 50))
    pod = member(0, 0, gang, 5, "", "Pending")
    pod["metadata"]["ownerReferences"] = [OWNED]
    told_events.append(seen("ADDED", pod, 53))
    with Ledger.open(str(tmp_path / "source.db"), create=True) as source:
        source.store.append(told_events)
        free(source, tmp_path / "out.db")
    assert lives(tmp_path / "out.db", "g0-0")[0][:2] == (14.0, "Added")  # let in at 11, and 3 seconds later


def never_let_in(source: Ledger, replicas: int) -> None:
    """A record in which a Job of so many pods waited for its queue to the end."""
    job = {
        "kind": "Job",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": {"name": "job", "namespace": "default", "uid": "job-1", "resourceVersion": "3"},
        "spec": {
            "queue": "default",
            "tasks": [{"name": "w", "replicas": replicas, "template": {"spec": {"containers": [{"name": "main"}]}}}],
        },
    }
    pod_group = group(0, Gang(2, 2, 1, 0, 0), 4)
    pod_group["metadata"]["ownerReferences"] = [OWNED]
    told_events = [
        seen("ADDED", queue("default", 1), 0),
        seen("ADDED", node("n0", 2, cpu="8"), 0),
        seen("ADDED", job, 1)._replace(stream=StreamId("c", "VolcanoJob", "default", "job", "job-1")),
        seen("ADDED", pod_group, 1),
    ]
    source.store.append(told_events)


def test_a_job_that_was_never_let_in_gets_its_pods_from_its_templates(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "source.db"), create=True) as source:
        never_let_in(source, 2)
        result = free(source, tmp_path / "out.db")
    assert (result.pods, result.placed) == (2, 2)
    assert any("templates" in line for line in result.notes)
    assert [one[3] for one in lives(tmp_path / "out.db", "job-w-1")][:2] == ["", "n0"]


def test_a_job_that_asks_for_pods_beyond_all_bounds_gets_some_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "PODS_MAX", 3)
    with Ledger.open(str(tmp_path / "source.db"), create=True) as source:
        never_let_in(source, 2**31 - 1)
        result = free(source, tmp_path / "out.db")
    assert result.pods == 3
    assert "Job default/job asks for 2,147,483,647 pods: the first 3 of them were made" in result.notes


def test_bad_input_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    gang = Gang(1, 1, 4, 0, 10)
    odd = member(1, 0, gang, 9, "", "Pending")
    odd["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
    told_events = [
        seen("ADDED", queue("default", 1), 5),
        seen("ADDED", node("n0", 2, cpu="8"), 5),
        seen("ADDED", group(0, gang, 3), 5),
        seen("ADDED", group(1, gang, 4), 5),
        seen("ADDED", member(0, 0, gang, 5, "", "Pending"), 6),
        seen("ADDED", odd, 6),
        seen("ADDED", node("early", 7, cpu="8"), 1),
    ]
    with Ledger.open(str(tmp_path / "source.db"), create=True) as source:
        source.store.append(told_events)
        result = free(source, tmp_path / "out.db")
    assert result.placed == 1
    assert "1 observation goes back in time (the record had got past it): left out" in result.notes
    assert "no node has any example.com/fpga: default/g1-0 cannot be placed" in result.notes


def test_the_reason_of_a_pod_whose_job_was_held_back_is_the_jobs(tmp_path: Path) -> None:
    class Gated(FirstFit):
        def events(self, outcome: Outcome) -> list[tuple[Subject, DomainEvent]]:
            said = JobConsidered(job="default/g2", outcome="gated", queue="default", message="its queue is full")
            found = super().events(outcome)
            return [*found[:-1], (Subject("PodGroup", "default", "g2"), said), found[-1]]

    small = Stage((8,), (Gang(1, 1, 4, 0, 10), Gang(1, 1, 4, 1, 10), Gang(1, 1, 4, 2, 10)))
    with Ledger.open(ledger_of(small, tmp_path / "small.db"), read_only=True) as source:
        result = free(source, tmp_path / "small-out.db", decider=partial(Gated, refuses=["default/g2"]))
    assert result.divergence is not None
    assert result.divergence.replayed.reason == "its queue is full"


def test_a_record_without_nodes_says_so(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(Stage((), (Gang(1, 1, 4, 0, 10),)), tmp_path / "source.db")) as source:
        result = free(source, tmp_path / "out.db")
    assert (result.placed, result.pending) == (0, 1)
    assert "there is no node: nothing can be placed" in result.notes


def test_a_replay_may_begin_within_the_record(tmp_path: Path) -> None:
    with Ledger.open(ledger_of(STAGE, tmp_path / "source.db"), read_only=True) as source:
        running = next(
            stored.position for stored in source.store.read(kinds="Pod", name="g0-3") if b"Running" in stored.payload
        )
        result = free(source, tmp_path / "out.db", from_position=running)
    assert result.placed == 6
    kept = lives(tmp_path / "out.db", "g0-0")
    assert kept[0][1:3] == ("Added", "Running")
    assert kept[-1][2] == "Succeeded"


@pytest.mark.parametrize("steps", [0, 3, 5])
def test_a_pod_whose_name_is_still_taken_comes_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    gang = Gang(1, 1, 4, 0, 10)
    told_events = [
        seen("ADDED", queue("default", 1), 0),
        seen("ADDED", node("n0", 2, cpu="8"), 0),
        seen("ADDED", group(0, gang, 3), 0),
        seen("ADDED", member(0, 0, gang, 4, "", "Pending"), 1),
        seen("MODIFIED", member(0, 0, gang, 5, "n0", "Running"), 1.2),
        seen("DELETED", member(0, 0, gang, 6, "n0", "Running"), 10),
    ]
    second = member(0, 0, gang, 7, "", "Pending")
    second["metadata"] |= {"uid": "pod-second", "ownerReferences": [OWNED]}  # another owner's pod of that name
    told_events.append(seen("ADDED", second, 10))
    late = [steps]

    def stop() -> bool:
        late[0] -= 1
        return late[0] == 0

    with Ledger.open(str(tmp_path / "source.db"), create=True) as source:
        source.store.append(told_events)
        monkeypatch.setattr(freely, "TOLD_EACH", 1)
        free(source, tmp_path / "out.db", period_seconds=4.0, stop=stop)
        if steps:
            free(source, tmp_path / "out.db", period_seconds=4.0, resume=True)
    history = lives(tmp_path / "out.db", "g0-0")
    first = ["Added", "Modified", "Modified", "Modified", "Deleted"]  # placed at 4, running, told to go, gone
    assert [one[1] for one in history] == [*first, "Added", "Modified", "Modified"]
    assert history[4][0] == history[5][0] == 12.8
