"""`get` and `state`: the cache as tables and data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Call

PENDING = "marker:many-pending"


def cells(output: str) -> list[list[str]]:
    """A table's lines as cells; columns are at least three spaces apart."""
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in output.splitlines()]


def test_nodes_show_idle_used_and_allocatable(call: Call, unschedulable: Path) -> None:
    result = call("get", "nodes", "--at", PENDING, db=unschedulable)
    assert result.exit_code == 0, result.output
    header, *rows = cells(result.stdout)
    assert header[:4] == ["NAME", "STATUS", "TASKS", "CPU IDLE/USED/ALLOC"]
    assert "NVIDIA.COM/GPU IDLE/USED/ALLOC" in header
    by_name = {row[0]: row for row in rows}
    assert len(by_name) == 10
    assert by_name["cpu-0"][1:5] == ["Ready", "2", "1/7/8", "22Gi/10Gi/32Gi"]


def test_wide_adds_columns(call: Call, unschedulable: Path) -> None:
    header, *rows = cells(call("get", "no", "-o", "wide", "--at", PENDING, db=unschedulable).stdout)
    assert {"TAINTS", "RELEASING", "POSITION", "EPHEMERAL-STORAGE IDLE/USED/ALLOC"} <= set(header)
    assert [row for row in rows if "gpu=true:NoSchedule" in row]


def test_names_choose_rows_in_the_order_given(call: Call, unschedulable: Path) -> None:
    result = call("get", "node/gpu-0", "cpu-1", "-o", "name", db=unschedulable)
    assert result.stdout.split() == ["node/gpu-0", "node/cpu-1"]


@pytest.mark.parametrize("word", ["tasks", "task", "pods", "pod", "po"])
def test_tasks_go_by_many_names(call: Call, unschedulable: Path, word: str) -> None:
    rows = json.loads(call("get", word, "-o", "json", "--at", PENDING, db=unschedulable).stdout)
    assert len(rows) == 38
    assert {row["status"] for row in rows} == {"Pending", "Running"}


def test_json_and_yaml_are_the_same_list(call: Call, unschedulable: Path) -> None:
    words = ("get", "jobs", "--at", PENDING, "-o")
    as_json = json.loads(call(*words, "json", db=unschedulable).stdout)
    assert as_json == yaml.safe_load(call(*words, "yaml", db=unschedulable).stdout)
    assert len(as_json) == 14
    gang = next(row for row in as_json if row["name"].startswith("anti-affinity"))
    assert (gang["queue"], gang["min_available"], gang["ready"], gang["tasks"]) == ("default", 9, 0, {"Pending": 9})
    assert gang["requested"]["cpu"] == 0.9


def test_a_job_is_found_by_the_name_of_its_owner(call: Call, unschedulable: Path) -> None:
    result = call("get", "jobs", "anti-affinity", "-o", "name", "--at", PENDING, db=unschedulable)
    assert result.stdout.startswith("job/anti-affinity-")


def test_queues_sum_up_their_jobs(call: Call, unschedulable: Path) -> None:
    rows = {row["name"]: row for row in json.loads(call("get", "q", "-o", "json", db=unschedulable).stdout)}
    assert rows["small"]["capability"] == {"cpu": "4", "memory": "8Gi"}
    assert rows["default"]["jobs"] > rows["small"]["jobs"]


def test_volumes_and_their_halves(call: Call, tmp_path: Path) -> None:
    from tests.unit.cli.conftest import imported

    db = imported("03", tmp_path)
    kinds = {}
    for word in ("volumes", "pv", "pvc"):
        rows = json.loads(call("get", word, "-o", "json", "-A", db=db).stdout)
        kinds[word] = {row["kind"] for row in rows}
    assert kinds == {"volumes": {"pv", "pvc"}, "pv": {"pv"}, "pvc": {"pvc"}}
    header, *rows = cells(call("get", "pv", "local-1-1", "-o", "wide", db=db).stdout)
    assert header == ["NAME", "STATUS", "CAPACITY", "CLASS", "BOUND-TO", "MODES", "NODES", "POSITION"]
    assert rows[0][:5] == ["pv/local-1-1", "Bound", "20Gi", "local-wffc", "default/ok-2"]


def test_namespaces(call: Call, unschedulable: Path) -> None:
    nothing = call("get", "tasks", "-n", "elsewhere", db=unschedulable)
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "No tasks found in elsewhere namespace" in nothing.stderr
    header, *rows = cells(call("get", "tasks", "-A", db=unschedulable).stdout)
    assert header[0] == "NAMESPACE"
    assert {row[0] for row in rows} == {"default"}


def test_the_models_can_be_chosen(call: Call, unschedulable: Path) -> None:
    outputs = {
        model: call("get", "nodes", "--model", model, db=unschedulable).stdout
        for model in ("volcano-1.10", "volcano-1.11", "exact")
    }
    assert len(set(outputs.values())) == 1, "this recording holds none of Volcano's bugs"


def test_state_has_the_shape_of_the_vectors(call: Call, unschedulable: Path) -> None:
    state = json.loads(call("state", "--at", PENDING, db=unschedulable).stdout)
    assert set(state) >= {"nodes", "jobs", "queues", "priority_classes", "default_priority", "node_list", "bind_flow"}
    node = state["nodes"]["cpu-0"]
    assert node["idle"]["milli_cpu"] == 1000
    assert node["allocatable"]["max_task_num"] == 110
    assert sorted(state["node_list"]) == sorted(state["nodes"])


def test_state_at_position_zero_is_empty(call: Call, unschedulable: Path) -> None:
    state = json.loads(call("state", "--at", "0", db=unschedulable).stdout)
    assert state["nodes"] == state["jobs"] == {}
