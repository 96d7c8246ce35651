"""`get` and `state`: the cache as tables and data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.data import recording
from tests.unit.cli.conftest import Call
from tests.unit.vcledger import build
from vcledger.ledger import Ledger
from vcledger.sources import import_paths

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
    assert len(rows) == 39, "the 38 tasks of Volcano's own dump, and a pod of another scheduler"
    assert [row["name"] for row in rows if not row["job"]] == ["other-sched"]
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


def test_kinds_by_commas(call: Call, unschedulable: Path) -> None:
    both = call("get", "queues,no", "-o", "name", db=unschedulable).stdout
    assert both == "".join(call("get", kind, "-o", "name", db=unschedulable).stdout for kind in ("queues", "no"))
    assert call("get", "nodes,unicorns", db=unschedulable).exit_code == 2
    assert call("get", "nodes,", db=unschedulable).exit_code == 2
    named = call("get", "nodes,pods", "cpu-0", db=unschedulable)
    assert (named.exit_code, "task 'cpu-0' not found" in named.stderr) == (2, True)


def test_short_options_may_have_an_equals_sign(call: Call, unschedulable: Path) -> None:
    assert call("get", "nodes", "-o=name", db=unschedulable).stdout.startswith("node/cpu-0\n")
    assert call("get", "tasks", "-n=elsewhere", "-o=json", db=unschedulable).stdout == "[]\n"
    assert call("get", "nodes", "-o=xml", db=unschedulable).exit_code == 2
    assert call("get", "nodes", "-o", "name", "--", "-o=name", db=unschedulable).exit_code == 2


def test_several_names_and_kinds_as_kubectl_allows(call: Call, unschedulable: Path) -> None:
    words = ("nodes/gpu-0", "nodes/cpu-1", "queues/small")
    assert call("get", *words, "-o", "name", db=unschedulable).stdout.split() == [
        "node/gpu-0",
        "node/cpu-1",
        "queue/small",
    ]
    first, second = call("get", *words, db=unschedulable).stdout.split("\n\n")
    assert [row[0] for row in cells(first)] == ["NAME", "gpu-0", "cpu-1"]
    assert [row[0] for row in cells(second)] == ["NAME", "small"]
    mixed = json.loads(call("get", *words, "-o", "json", db=unschedulable).stdout)
    assert [row["kind"] for row in mixed] == ["node", "node", "queue"]
    assert call("get", "nodes/", db=unschedulable).exit_code == 2


def test_pods_without_a_job_are_listed_with_the_same_keys(call: Call, unschedulable: Path) -> None:
    rows = json.loads(call("get", "tasks", "-o", "json", "--at", PENDING, db=unschedulable).stdout)
    other = next(row for row in rows if row["name"] == "other-sched")
    assert (other["job"], other["queue"], other["status"], other["node"]) == ("", "", "Pending", "")
    assert other["request"]["cpu"] > 0
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)


def test_a_bound_pod_without_a_group_is_a_task_too(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "plain.db"
    with Ledger.open(str(path), create=True) as ledger:
        plain = build.pod("plain", 3, node_name="n1", phase="Running")
        del plain["metadata"]["annotations"]
        plain["spec"]["schedulerName"] = "default-scheduler"
        waiting = build.pod("waiting", 4)
        waiting["metadata"]["annotations"] = {}
        waiting["spec"]["schedulerName"] = "default-scheduler"
        ledger.store.append([build.seen("ADDED", build.node("n1", 1), 1)])
        ledger.store.append([build.seen("ADDED", plain, 2), build.seen("ADDED", waiting, 3)])
    header, *rows = cells(call("get", "pods", "-A", db=path).stdout)
    found = {row[1]: dict(zip(header, row, strict=True)) for row in rows}
    assert {name: (row["STATUS"], row["NODE"], row["JOB"]) for name, row in found.items()} == {
        "plain": ("Running", "n1", "-"),
        "waiting": ("Pending", "-", "-"),
    }


def test_a_job_without_podgroup_shows_what_is_known(call: Call, unschedulable: Path) -> None:
    """At the end gang-12x6 is done and its PodGroup deleted; queue-missing never had one."""
    found = {}
    for name in ("gang-12x6", "queue-missing", "partial-2of6"):
        _, row = cells(call("get", f"job/{name}", db=unschedulable).stdout)
        found[name] = (row[0], row[2])
    assert found["gang-12x6"][0].startswith("gang-12x6-0b502d83")
    assert found["gang-12x6"][1] == "Completed (PodGroup gone)"
    assert found["queue-missing"] == ("queue-missing", "no PodGroup"), "its job has not been looked at: no phase"
    assert found["partial-2of6"][1] == "Running"
    gone = json.loads(call("get", "job", "gang-12x6", "-o", "json", db=unschedulable).stdout)[0]
    assert (gone["pod_group"], gone["pod_group_gone"], gone["job_phase"]) == (False, True, "Completed")
    missing = call("get", "jobs/no-such-job", db=unschedulable)
    assert missing.exit_code == 2
    assert "not found in namespace default" in missing.stderr


@pytest.mark.slow
def test_pending_is_everything_that_waits_with_its_verdict(call: Call, unschedulable: Path) -> None:
    rows = json.loads(call("get", "pending", "--at", PENDING, "-o", "json", db=unschedulable).stdout)
    verdicts = {(row["kind"], row["name"]): row["verdict"] for row in rows}
    tasks = json.loads(call("get", "tasks", "--at", PENDING, "-o", "json", db=unschedulable).stdout)
    assert {name for kind, name in verdicts if kind == "pod"} == {
        row["name"] for row in tasks if row["status"] == "Pending"
    }
    assert verdicts["pod", "gated"] == "gated"
    assert verdicts["pod", "no-toleration-w-0"] == "no-node-fits"
    assert verdicts["pod", "gang-12x6-w-1"] == "gang-short"
    assert verdicts["job", "queue-cap"] == "queue-over-capability"
    assert verdicts["job", "queue-missing"] == "queue-missing"
    for row in rows[:3]:
        told = json.loads(call("why", row["name"], "--at", PENDING, "-o", "json", db=unschedulable).stdout)
        assert (row["verdict"], row["since"], row["summary"]) == (told["verdict"], told["since"], told["summary"])
    header, *lines = cells(call("get", "pending", "-A", "--at", PENDING, db=unschedulable).stdout)
    assert header == ["NAMESPACE", "NAME", "SINCE", "VERDICT", "SUMMARY"]
    assert len(lines) == len(rows)
    one = json.loads(call("get", "pending", "gated", "--at", PENDING, "-o", "json", db=unschedulable).stdout)
    assert one == [row for row in rows if row["name"] == "gated"]
    assert call("get", "pending/cpu-0", "--at", PENDING, db=unschedulable).exit_code == 2
    nothing = call("get", "pending", "-n", "elsewhere", db=unschedulable)
    assert "Nothing pending in elsewhere namespace at position" in nothing.stderr
    assert "-A" not in nothing.stderr, "it was asked for"


def test_nothing_in_the_default_namespace_leads_to_the_others(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.db"
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append([build.seen("ADDED", build.node("n", 1), 0)])
    for kind in ("pods", "pending"):
        said = call("get", kind, db=path).stderr
        assert said.endswith(" in default namespace at position 1 (-A: all namespaces).\n")
        assert "namespace" not in call("get", kind, "-A", db=path).stderr


def test_markers_can_be_copied_into_at(call: Call, unschedulable: Path) -> None:
    header, *rows = cells(call("get", "markers", db=unschedulable).stdout)
    assert header == ["AT", "TIME", "POSITION", "LABEL"]
    assert rows[0][3] == "many-pending"
    for at, _, position, _ in rows:
        done = call("get", "nodes", "--at", at, db=unschedulable)
        assert f"at position {position} " in done.stderr
    until = call("get", "markers", "--at", PENDING, "-o", "name", db=unschedulable).stdout.split()
    assert len(until) == 1
    assert call("get", "marker/many-pending", "-o", "name", db=unschedulable).stdout.split() == until
    every = call("get", "markers", "-o", "name", db=unschedulable).stdout.split()
    assert [name.replace("/", ":") for name in every] == [at for at, *_ in rows], "names that are no two markers'"


def test_gaps_and_clusters_of_the_whole_ledger_or_of_one(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "two.db"
    with Ledger.open(str(path), create=True) as ledger:
        import_paths(ledger, [recording("07") / "watch.jsonl.zst"], cluster="lab")
        ledger.store.append(build.life("small"))
    gaps = json.loads(call("get", "gaps", "-o", "json", db=path).stdout)
    pods = next(gap for gap in gaps if gap["of"] == "Pod" and gap["from"] == "2026-11-29T13:51:39.842421Z")
    assert (pods["to"], pods["reason"]) == ("2026-11-29T13:51:59.482341Z", "the recorder was stopped")
    assert (pods["added"], pods["modified"], pods["deleted"]) == (2, 1, 9)
    assert call("get", "gaps", "--cluster", "small", db=path).stderr == "No gaps found.\n"
    inside = call("get", "gaps", "--cluster", "lab", "--at", "2026-11-29T13:51:50Z", "-o", "json", db=path).stdout
    assert {gap["of"] for gap in json.loads(inside)} <= {gap["of"] for gap in gaps}
    assert "Pod" in inside
    rows = {row["name"]: row for row in json.loads(call("get", "clusters", "-o", "json", db=path).stdout)}
    assert list(rows) == ["lab", "small"]
    assert rows["small"]["first"] == "2026-03-01T03:00:01Z"
    assert rows["small"]["last_position"] - rows["small"]["first_position"] == 8
    markers = cells(call("get", "markers", db=path).stdout)
    assert markers[0][0] == "CLUSTER"
    assert {row[0] for row in markers[1:]} == {"lab", "small"}
    assert call("get", "clusters", "--at", "3", db=path).exit_code == 2
