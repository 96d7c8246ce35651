"""A cache's state as a table of quantities, and what counts as a change; checked on the golden vectors' states."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.data import GOLDEN
from vcledger import quantities as q


def state(name: str, step: int = -1) -> dict[str, Any]:
    vector = json.loads((GOLDEN / "vectors" / name).read_text())
    found: dict[str, Any] = [step for step in vector["expected"] if step is not None][step]
    return found


NATURAL = "078-everything-natural.json"


def test_a_node_has_its_resources_and_tasks_as_quantities() -> None:
    table = q.of_state(state(NATURAL))
    _, node = table[q.NODE, "n2"]
    assert node["idle.cpu"] == 6000.0
    assert node["allocatable.nvidia.com/gpu"] == 2000.0
    assert node["used.pods"] == 2.0
    assert node["tasks[team-a/p3]"] == "Running"
    assert not [name for name in node if name.startswith("releasing")], "what is zero is left out"


def test_tasks_are_keyed_by_uid_and_read_by_name() -> None:
    entity, task = q.of_state(state(NATURAL))[q.TASK, "uid-team-a-p4"]
    assert str(entity) == "task team-a/p4"
    assert task["status"] == "Bound"
    assert task["node"] == "n1"
    assert task["job"] == "team-a/g"
    assert task["request.memory"] == 1073741824.0


def test_a_task_that_only_a_node_holds_is_there() -> None:
    _, task = q.of_state(state("022-no-podgroup.json"))[q.TASK, only_on_a_node()]
    assert task["node"]
    assert "job" not in task


def only_on_a_node() -> str:
    found = state("022-no-podgroup.json")
    in_jobs = {uid for job in found["jobs"].values() for uid in job["tasks"]}
    uids = [task["uid"] for node in found["nodes"].values() for task in node["tasks"].values()]
    return str(next(uid for uid in uids if uid not in in_jobs))


def test_equal_states_have_no_changes_and_each_change_is_one_line() -> None:
    before = state(NATURAL)
    after = copy.deepcopy(before)
    assert q.changes(q.of_state(before), q.of_state(after)) == []
    after["nodes"]["n1"]["idle"]["milli_cpu"] = 5000
    after["jobs"]["team-a/g"]["tasks"]["uid-team-a-p0"]["status"] = "Succeeded"
    del after["queues"]["default"]
    found = q.changes(q.of_state(before), q.of_state(after))
    assert [(str(change.entity), change.quantity, change.before, change.after) for change in found] == [
        ("node n1", "idle.cpu", 6000.0, 5000.0),
        ("task team-a/p0", "status", "Running", "Succeeded"),
        ("queue default", q.PRESENT, True, False),
    ]


def test_a_missing_scalar_is_zero() -> None:
    before = state(NATURAL)
    after = copy.deepcopy(before)
    after["nodes"]["n1"]["idle"]["scalars"]["nvidia.com/gpu"] = 0
    assert q.changes(q.of_state(before), q.of_state(after)) == []


def test_every_state_of_every_vector_can_be_flattened() -> None:
    count = 0
    for path in sorted((GOLDEN / "vectors").glob("*.json")):
        for expected in json.loads(path.read_text())["expected"]:
            if expected is not None:
                table = q.of_state(expected)
                tasks = {uid for job in expected["jobs"].values() for uid in job["tasks"]}
                assert tasks <= {key for kind, key in table if kind == q.TASK}, path.name
                count += 1
    assert count > 1000


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 2500, "2.5"),
        ("cpu", 100, "0.1"),
        ("cpu", -1000, "-1"),
        ("cpu", 0, "0"),
        ("memory", 3221225472, "3Gi"),
        ("memory", 1536, "1.5Ki"),
        ("memory", 500, "500"),
        ("memory", -1073741824, "-1Gi"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 2000, "2"),
        ("ephemeral-storage", 214748364800000, "200Gi"),
        ("hugepages-2Mi", 2097152000, "2Mi"),
        ("attachable-volumes-csi-disk", 3, "3"),
    ],
)
def test_amounts_are_written_as_people_write_them(resource: str, amount: float, text: str) -> None:
    assert q.human(resource, amount) == text


@pytest.mark.parametrize(
    ("quantity", "value", "text"),
    [
        ("idle.cpu", 1500.0, "1.5"),
        ("idle.cpu", None, "0"),
        ("min_available", 3.0, "3"),
        ("status", "Running", "Running"),
        ("node", None, "-"),
        ("preemptable", True, "yes"),
    ],
)
def test_values_are_written_by_their_quantity(quantity: str, value: q.Value, text: str) -> None:
    assert q.human_value(quantity, value) == text
