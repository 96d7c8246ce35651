"""Laws of a free replay, over generated traces: no node is overfilled, gangs run whole or not at all, the same seed
gives the same log, one that was interrupted anywhere goes on to the same end, and where there is room nobody starves.

Owns the laws, checked on the result ledger's observations by arithmetic of its own. Must not know the replay's inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.unit.replay.traces import Gang, Stage, ledger_of
from vcledger.ledger import Ledger
from vcledger.replay.digest import result_digest
from vcledger.replay.engine import ReplayPlan, ReplayResult, run_replay
from vcledger.replay.whatif_text import read_changes
from vcledger.testing.profiles import share
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.core import Node, Pod
from volcano.objects.quantity import milli_value

pytestmark = pytest.mark.slow

HELD = ("Pending", "Running")

gangs = st.builds(
    lambda pods, short, cpu, arrives, runs, queue: Gang(pods, max(1, pods - short), cpu, arrives, runs, queue),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(1, 5),
    st.integers(0, 60),
    st.integers(1, 40),
    st.sampled_from(["default", "other"]),
)
stages = st.builds(
    lambda nodes, gangs: Stage(tuple(nodes), tuple(sorted(gangs, key=lambda gang: gang.arrives))),
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.lists(gangs, min_size=1, max_size=8),
)


def replayed(
    stage: Stage,
    look: Callable[[Ledger, ReplayResult], None],
    *,
    seed: int = 0,
    changes: dict[str, list[str]] | None = None,
    conf: str = "",
    begin: float = 0.0,
) -> None:
    """Replays the stage freely and shows the result ledger."""
    with TemporaryDirectory() as folder:
        trace, out = ledger_of(stage, Path(folder) / "trace.db"), str(Path(folder) / "out.db")
        made = read_changes(**(changes or {}))  # type: ignore[arg-type]
        with Ledger.open(trace, read_only=True) as source:
            first = int(begin * (source.store.head() - 1))
            plan = ReplayPlan(mode="free", seed=seed, conf=conf, changes=made, from_position=first)
            result = run_replay(source, plan, out=out)
        with Ledger.open(out, read_only=True) as ledger:
            look(ledger, result)


class Seen:
    """The cluster as the observations of the result ledger tell it."""

    def __init__(self, stage: Stage) -> None:
        self.room: dict[str, int] = {}
        self.pods: dict[str, Pod] = {}
        self.least = {f"g{number}": gang.least for number, gang in enumerate(stage.gangs)}
        self.began: dict[str, set[str]] = {}
        """The pods of a gang that ever had a node."""

    def see(self, event: object) -> None:
        obj = getattr(event, "object", None)
        if isinstance(obj, Node):
            self.room[obj.metadata.name] = milli_value((obj.status.allocatable or {})["cpu"])
        if not isinstance(obj, Pod):
            return
        if isinstance(event, ObjectDeleted):
            self.pods.pop(obj.metadata.uid, None)
        elif isinstance(event, ObjectAdded | ObjectModified):
            self.pods[obj.metadata.uid] = obj
            if obj.spec.node_name:
                group = (obj.metadata.annotations or {})["scheduling.k8s.io/group-name"]
                self.began.setdefault(group, set()).add(obj.metadata.uid)

    def overfilled(self) -> list[str]:
        used: Counter[str] = Counter()
        for pod in self.pods.values():
            if pod.spec.node_name and pod.status.phase in HELD:
                (container,) = pod.spec.containers or ()
                used[pod.spec.node_name] += milli_value(
                    ((container.resources and container.resources.requests) or {})["cpu"]
                )
        return [name for name, amount in used.items() if amount > self.room.get(name, 0)]

    def broken(self) -> list[str]:
        return [name for name, uids in self.began.items() if len(uids) < self.least[name]]


@settings(max_examples=share(12))
@given(stages, st.integers(0, 3))
def test_no_node_is_overfilled_and_gangs_run_whole_or_not_at_all(stage: Stage, seed: int) -> None:
    def look(ledger: Ledger, result: ReplayResult) -> None:
        seen, moment = Seen(stage), None
        for recorded in ledger.recorded():
            if recorded.observed_at != moment:
                assert seen.broken() == []
                moment = recorded.observed_at
            seen.see(recorded.event)
            assert seen.overfilled() == []
        assert seen.broken() == []
        assert result.gangs_broken == 0
        assert sum(map(len, seen.began.values())) == result.placed

    replayed(stage, look, seed=seed)


VICTIMS = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""A configuration in which queues take back from each other."""


@settings(max_examples=share(12))
@given(stages, st.integers(0, 3))
def test_no_node_is_overfilled_where_pods_are_told_to_go(stage: Stage, seed: int) -> None:
    def look(ledger: Ledger, result: ReplayResult) -> None:
        seen = Seen(stage)
        told = list(ledger.recorded())
        assert told
        for recorded in told:
            seen.see(recorded.event)
            assert seen.overfilled() == []
        event(f"evictions: {min(3, result.evictions)}")

    replayed(stage, look, seed=seed, conf=VICTIMS)


@settings(max_examples=share(12))
@given(stages, st.floats(0.1, 1.0))
def test_begun_in_the_middle_no_node_is_overfilled_and_no_pod_is_there_twice(stage: Stage, begin: float) -> None:
    def look(ledger: Ledger, result: ReplayResult) -> None:
        seen = Seen(stage)
        names: Counter[str] = Counter()
        for recorded in ledger.recorded():
            seen.see(recorded.event)
            assert seen.overfilled() == []
            if recorded.kind == "Pod" and isinstance(recorded.event, ObjectAdded):
                names[recorded.name] += 1
        assert [name for name, count in names.items() if count > 1] == []
        assert result.pending + result.placed <= sum(gang.pods for gang in stage.gangs)

    replayed(stage, look, begin=begin)


@settings(max_examples=share(6))
@given(stages, st.integers(0, 3))
def test_the_same_seed_gives_the_same_log(stage: Stage, seed: int) -> None:
    digests: list[str] = []

    def look(ledger: Ledger, result: ReplayResult) -> None:
        assert result.finished
        digests.append(result_digest(ledger))

    for _ in range(2):
        replayed(stage, look, seed=seed)
    assert digests[0] == digests[1]


@settings(max_examples=share(8))
@given(stages)
def test_where_there_is_room_for_all_nobody_starves(stage: Stage) -> None:
    def look(ledger: Ledger, result: ReplayResult) -> None:
        assert result.pending == 0
        assert result.placed == sum(gang.pods for gang in stage.gangs)

    cpus = sum(gang.pods * gang.cpu for gang in stage.gangs)
    replayed(stage, look, changes={"add": [f"{len(stage.gangs)}:cpu={cpus},memory=1000Gi"]})


@settings(max_examples=share(8))
@given(stages, st.integers(1, 20), st.integers(0, 3))
def test_interrupted_anywhere_it_goes_on_to_the_same_end(stage: Stage, steps: int, seed: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("vcledger.replay.freely.TOLD_EACH", 1)
        trace = ledger_of(stage, Path(folder) / "trace.db")
        outs = [str(Path(folder) / name) for name in ("calm.db", "stopped.db")]
        plan = ReplayPlan(mode="free", seed=seed)
        asked = 0

        def stop() -> bool:
            nonlocal asked
            asked += 1
            return asked in {steps, steps + 1, 2 * steps}

        with Ledger.open(trace, read_only=True) as source:
            calm = run_replay(source, plan, out=outs[0])
            result = run_replay(source, plan, out=outs[1], stop=stop)
            while not result.finished:
                result = run_replay(source, plan, out=outs[1], resume=True, stop=stop)
            again = run_replay(source, plan, out=outs[1], resume=True)
        digests = []
        for out in outs:
            with Ledger.open(out, read_only=True) as ledger:
                digests.append(result_digest(ledger))
        assert digests[0] == digests[1]
        for one in (result, again):
            assert (one.placed, one.pending, one.waits, one.counts) == (
                calm.placed,
                calm.pending,
                calm.waits,
                calm.counts,
            )
