"""preempt and reclaim against the real Volcano: the recording in which q-a takes back its share from q-b, and gangs of
a high priority make room for themselves inside q-b. Which of equal victims go is chance; how many, and of whom, is not.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard

from tests.data import recording
from vcledger.ledger import Ledger
from vcledger.scheduler.session.conf import read_conf
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.outcome import Evicted, Outcome, Placed
from vcledger.scheduler.session.run import run
from vcledger.sources import import_paths

FOLDER = recording("06-churn")


def lines() -> Iterator[dict[str, Any]]:
    with (FOLDER / "watch.jsonl.zst").open("rb") as file:
        yield from map(json.loads, io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8"))


class Wave(NamedTuple):
    """What the real scheduler evicted for one reason, and when the first of it was told to go."""

    pods: frozenset[str]
    began_at: str


@pytest.fixture(scope="module")
def waves() -> dict[str, Wave]:
    told: dict[str, set[str]] = {"reclaim": set(), "preempt": set()}
    going: dict[str, str] = {}
    for line in lines():
        one = line.get("object", {})
        if line.get("resource") == "events" and one.get("reason") == "Evict" and one["involvedObject"]["kind"] == "Pod":
            told[one["message"].rsplit(" ", 1)[-1]].add(one["involvedObject"]["name"])
        elif line.get("resource") == "pods" and one.get("metadata", {}).get("deletionTimestamp"):
            going.setdefault(one["metadata"]["name"], line["recordedAt"])
    return {reason: Wave(frozenset(pods), min(going[pod] for pod in pods)) for reason, pods in told.items()}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    path: Path = tmp_path_factory.mktemp("churn") / "ledger.db"
    with Ledger.open(str(path), create=True) as made:
        import_paths(made, [FOLDER / "watch.jsonl.zst"])
        yield made


def session_before(ledger: Ledger, wave: Wave) -> tuple[Outcome, Mirror]:
    """A session under the recording's own configuration in the state just before the wave."""
    cache = ledger.cache(ledger.position(wave.began_at) - 1)
    mirror = Mirror(cache, lambda ref: ledger.objects([ref.position]).get(ref.position))
    conf = read_conf((FOLDER / "scheduler-conf.yaml").read_text())
    return run(mirror, conf, seed=1), mirror


def group(name: str) -> str:
    """The kind of gang that a pod belongs to: b-low, b-high, a-mid."""
    return name.rsplit("-", 3)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("action", "mine"), [("reclaim", "a-mid"), ("preempt", "b-high")])
def test_as_many_are_evicted_for_the_same_gangs_and_none_below_its_minimum(
    ledger: Ledger, waves: dict[str, Wave], action: str, mine: str
) -> None:
    wave = waves[action]
    outcome, mirror = session_before(ledger, wave)
    evicted = [one for one in outcome.decisions if isinstance(one, Evicted)]
    assert {one.action for one in evicted} == {action}
    assert Counter(group(one.task.name) for one in evicted) == Counter(group(pod) for pod in wave.pods)
    assert {group(one.preemptor.name) for one in evicted if one.preemptor is not None} == {mine}
    promised = [one for one in outcome.decisions if isinstance(one, Placed) and one.pipelined]
    assert Counter(group(one.task.name) for one in promised) == Counter({mine: len(wave.pods)})
    for uid, number in Counter(one.task.job for one in evicted).items():
        job = mirror.jobs[uid]
        assert job.ready_count - number >= job.min_available
