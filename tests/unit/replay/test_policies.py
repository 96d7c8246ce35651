"""What a Volcano Job's policies make of an eviction in a free replay."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore.types import NewEvent, StreamId
from tests.unit.replay.fake import FirstFit
from tests.unit.replay.test_free import OWNED, free, lives, told
from tests.unit.replay.traces import Gang, group, member, queue
from tests.unit.vcledger.build import node, seen
from vcledger.ledger import Ledger
from vcledger.replay import freely
from vcledger.replay.engine import ReplayResult
from vcledger.replay.policies import action_of

GANG, NEVER = Gang(3, 3, 2, 0, 30), Gang(1, 1, 99, 0, 0)
TASKS = ("ps", "worker", "worker")


def policy(action: str, event: str = "PodEvicted") -> dict[str, Any]:
    return {"event": event, "action": action}


@pytest.mark.parametrize(
    ("own", "whole", "action"),
    [
        ([], [], "SyncJob"),
        ([], [policy("RestartJob")], "RestartJob"),
        ([policy("RestartTask")], [policy("RestartJob")], "RestartTask"),
        ([policy("AbortJob", "PodFailed")], [policy("RestartJob")], "RestartJob"),
        ([], [policy("AbortJob", "*")], "AbortJob"),
        ([], [policy("CompleteJob", "TaskCompleted"), policy("AbortJob")], "AbortJob"),
        ([], [{"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}], "TerminateJob"),
    ],
)
def test_the_first_policy_of_the_task_then_of_the_job_counts(
    own: list[dict[str, Any]], whole: list[dict[str, Any]], action: str
) -> None:
    job = {"spec": {"policies": whole, "tasks": [{"name": "ps"}, {"name": "worker", "policies": own}]}}
    assert action_of(job, "worker", "PodEvicted") == action


def pod(index: int, version: int, node_name: str, phase: str) -> dict[str, Any]:
    made = member(0, index, GANG, version, node_name, phase)
    made["metadata"]["ownerReferences"] = [OWNED]
    made["metadata"]["annotations"]["volcano.sh/task-spec"] = TASKS[index]
    return made


def record(*policies: dict[str, Any], **spec: Any) -> list[NewEvent]:
    """A Job of three pods that run for 30 s, and one for which there is no room, so that cycles go on."""
    job = {
        "kind": "Job",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": {"name": "job", "namespace": "default", "uid": "job-1", "resourceVersion": "3"},
        "spec": {"queue": "default", "policies": list(policies), "tasks": [{"name": "ps"}, {"name": "worker"}], **spec},
    }
    owned = group(0, GANG, 4)
    owned["metadata"]["ownerReferences"] = [OWNED]
    return [
        seen("ADDED", queue("default", 1), 0),
        seen("ADDED", node("n0", 2, cpu="8"), 0),
        seen("ADDED", job, 0)._replace(stream=StreamId("c", "VolcanoJob", "default", "job", "job-1")),
        seen("ADDED", owned, 0),
        seen("ADDED", group(1, NEVER, 5), 0),
        *(seen("ADDED", pod(index, 6, "", "Pending"), 0) for index in range(3)),
        seen("ADDED", member(1, 0, NEVER, 7, "", "Pending"), 0),
        *(seen("MODIFIED", pod(index, 8, "n0", "Running"), 1) for index in range(3)),
        *(seen("MODIFIED", pod(index, 9, "n0", "Succeeded"), 31) for index in range(3)),
    ]


def replayed(folder: Path, events: list[NewEvent], *victims: str, **how: Any) -> ReplayResult:
    path = folder / "source.db"
    if not path.exists():
        with Ledger.open(str(path), create=True) as made:
            made.store.append(events)
    with Ledger.open(str(path), read_only=True) as source:
        return free(source, folder / how.pop("out", "out.db"), decider=partial(FirstFit, evicts=victims), **how)


def deaths(folder: Path) -> list[int]:
    """How often each pod of the Job was deleted."""
    return [[one[1] for one in lives(folder / "out.db", f"g0-{index}")].count("Deleted") for index in range(3)]


def ends(folder: Path) -> list[str]:
    """The last phase of each pod of the Job, '' where it is gone."""
    last = [lives(folder / "out.db", f"g0-{index}")[-1] for index in range(3)]
    return ["" if one[1] == "Deleted" else one[2] for one in last]


@pytest.mark.parametrize(
    ("action", "victim", "died", "left"),
    [
        ("SyncJob", 1, [0, 1, 0], ["Succeeded"] * 3),
        ("RestartPod", 1, [0, 1, 0], ["Succeeded"] * 3),
        ("RestartTask", 1, [0, 1, 1], ["Succeeded"] * 3),
        ("RestartTask", 0, [1, 0, 0], ["Succeeded"] * 3),
        ("RestartJob", 1, [1, 1, 1], ["Succeeded"] * 3),
        ("AbortJob", 1, [1, 1, 1], ["", "", ""]),
        ("TerminateJob", 1, [1, 1, 1], ["", "", ""]),
        ("CompleteJob", 1, [1, 1, 1], ["", "", ""]),
    ],
)
def test_who_goes_along_and_who_is_made_again(
    tmp_path: Path, action: str, victim: int, died: list[int], left: list[str]
) -> None:
    result = replayed(tmp_path, record(policy(action)), f"default/g0-{victim}")
    assert result.evictions == 1
    assert (deaths(tmp_path), ends(tmp_path)) == (died, left)


def test_a_restarted_pod_runs_all_over(tmp_path: Path) -> None:
    replayed(tmp_path, record(policy("RestartJob")), "default/g0-1")
    runs = [one[0] for one in lives(tmp_path / "out.db", "g0-0") if one[2] == "Running" and one[1] == "Modified"]
    done = lives(tmp_path / "out.db", "g0-0")[-1]
    assert done[2] == "Succeeded" and done[0] - runs[-1] == 30


def test_a_job_at_its_end_loses_its_group_and_says_what_it_is(tmp_path: Path) -> None:
    replayed(tmp_path, record(policy("AbortJob")), "default/g0-1")
    with Ledger.open(str(tmp_path / "out.db"), read_only=True) as ledger:
        assert [one.type for one in ledger.store.read(kinds="PodGroup", name="g0")][-1] == "ObjectDeleted"
        *_, last = ledger.recorded(kinds="VolcanoJob", name="job")
        assert last.event.object.status.state.phase == "Aborted"  # type: ignore[attr-defined]


def test_two_evictions_of_one_cycle_are_one_restart(tmp_path: Path) -> None:
    replayed(tmp_path, record(policy("RestartJob"), maxRetry=2), "default/g0-1", "default/g0-2")
    assert (deaths(tmp_path), ends(tmp_path)) == ([1, 1, 1], ["Succeeded"] * 3)


def test_the_restart_that_is_one_too_many_fails_the_job(tmp_path: Path) -> None:
    replayed(tmp_path, record(policy("RestartJob"), maxRetry=1), "default/g0-1")
    assert ends(tmp_path) == ["", "", ""]


@pytest.mark.parametrize("steps", [2, 3, 5])
@pytest.mark.parametrize("action", ["RestartJob", "AbortJob"])
def test_goes_on_in_the_middle_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, action: str) -> None:
    monkeypatch.setattr(freely, "TOLD_EACH", 1)
    left = [steps]

    def stop() -> bool:
        left[0] -= 1
        return left[0] <= 0

    whole = replayed(tmp_path, record(policy(action)), "default/g0-1", out="whole.db")
    replayed(tmp_path, [], "default/g0-1", out="part.db", stop=stop)
    with Ledger.open(str(tmp_path / "part.db"), read_only=True) as part:  # the tests' decider forgets what it evicted
        done_already = any(b'"reason":"Evict"' in one.payload for one in part.store.read(kinds="Pod"))
    victims = () if done_already else ("default/g0-1",)
    done = replayed(tmp_path, [], *victims, out="part.db", resume=True)
    assert told(tmp_path / "part.db") == told(tmp_path / "whole.db")
    assert msgspec.structs.replace(done, ledger=whole.ledger) == whole
