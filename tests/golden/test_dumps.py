"""Volcano's own dumps against our cache, through the command: equal at each marker, and any tampering is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from typer.testing import CliRunner

from cli.main import app
from tests.data import recording, recordings
from vcledger.ledger import Ledger
from vcledger.sources import import_paths

DUMPS = [path for folder in recordings() for path in sorted(folder.glob("volcano-cache-dump-*.json*"))]

Documents = list[Any]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """The ledger of a recording's watch, made once."""
    made: dict[Path, Path] = {}

    def ledger_of(folder: Path) -> Path:
        if folder not in made:
            made[folder] = tmp_path_factory.mktemp(folder.name) / "ledger.db"
            with Ledger.open(str(made[folder]), create=True) as ledger:
                import_paths(ledger, [folder / "watch.jsonl.zst"], cluster="lab")
        return made[folder]

    return ledger_of


def compare(dump: Path, ledger: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["compare", str(dump), "--db", str(ledger), *words])


def test_every_recording_has_dumps() -> None:
    assert len(DUMPS) == 20
    assert {path.parent for path in DUMPS} == set(recordings())


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_cache_equals_the_dump_at_its_marker(ledgers: Callable[[Path], Path], dump: Path) -> None:
    result = compare(dump, ledgers(dump.parent), "-o", "json")
    found = json.loads(result.stdout)
    assert found["differences"] == []
    assert result.exit_code == 0
    said = [line for line in result.stderr.splitlines() if not line.startswith("note: gap in the record")]
    assert said == [], "the moment is that of the marker, without a word but for the gaps of recording 07"
    if "binding-in-flight" not in dump.name:
        assert found["only_the_scheduler_knows"] == found["explained"] == []


@pytest.mark.slow
def test_the_moment_may_be_named_by_marker_and_by_position(ledgers: Callable[[Path], Path]) -> None:
    dump = DUMPS[0]
    ledger = ledgers(dump.parent)
    position = json.loads(compare(dump, ledger, "-o", "json").stdout)["position"]
    for at in (str(position), "marker:all-running", "marker:volcano-cache-dump-1-all-running.json"):
        assert compare(dump, ledger, "--at", at).exit_code == 0
    other = compare(dump, ledger, "--at", "marker:all-deleted")
    assert other.exit_code == 1
    assert "only in Volcano's" in other.stdout


# --- what only the scheduler knows --------------------------------------------------------------------------------

IN_FLIGHT = recording("03") / "volcano-cache-dump-2-binding-in-flight.json.zst"


def test_tasks_in_flight_are_listed_apart_and_explain_what_they_changed(ledgers: Callable[[Path], Path]) -> None:
    result = compare(IN_FLIGHT, ledgers(IN_FLIGHT.parent), "-o", "json")
    found = json.loads(result.stdout)
    listed = {(task["name"], task["status"], task["node"]) for task in found["only_the_scheduler_knows"]}
    assert listed == {
        ("default/gang-never-vol-0", "Binding", "node-4"),
        ("default/never-prov", "Binding", "node-2"),
    }
    explained = {(change["kind"], change["quantity"]) for change in found["explained"]}
    assert {("node", "idle.cpu"), ("node", "used.cpu"), ("job", "allocated.cpu"), ("task", "status")} <= explained
    text = compare(IN_FLIGHT, ledgers(IN_FLIGHT.parent)).stdout
    assert "known only to the scheduler: 2 tasks, explaining " in text
    assert text.endswith("equal in everything else\n")


def test_the_scheduler_s_command_line_decides_which_volumes_count(
    ledgers: Callable[[Path], Path], tmp_path: Path
) -> None:
    """Recording 03's scheduler ran with --ignored-provisioners; away from its folder the dump does not tell."""
    alone = tmp_path / IN_FLIGHT.name
    alone.write_bytes(IN_FLIGHT.read_bytes())
    result = compare(alone, ledgers(IN_FLIGHT.parent))
    assert result.exit_code == 1
    assert "attachable-volumes-csi-kubernetes.io/no-provisioner" in result.stdout
    assert "--ignored-provisioners" in result.stderr
    told = compare(alone, ledgers(IN_FLIGHT.parent), "--scheduler-args", str(IN_FLIGHT.parent / "scheduler-args.txt"))
    assert told.exit_code == 0


# --- tampering ----------------------------------------------------------------------------------------------------


def tampered(dump: Path, folder: Path, change: Callable[[Documents], None]) -> Path:
    """The dump with something changed, beside the same scheduler arguments and under the same name."""
    data = dump.read_bytes()
    plain = zstandard.decompress(data, 1 << 28) if dump.suffix == ".zst" else data
    documents = [json.loads(line) for line in plain.splitlines()]
    change(documents)
    path = folder / dump.name.removesuffix(".zst")
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    (folder / "scheduler-args.txt").write_text((dump.parent / "scheduler-args.txt").read_text())
    return path


def node_of(documents: Documents, name: str) -> Any:
    return documents[0][name]


def task_of(documents: Documents, status: int) -> Any:
    """The first task of that status, of the jobs in the order of their names."""
    jobs = documents[-1]
    tasks = (task for key in sorted(jobs) for _, task in sorted(jobs[key]["Tasks"].items()))
    return next(task for task in tasks if task["Status"] == status)


def shrink_idle(documents: Documents) -> None:
    node_of(documents, "node-2")["Idle"]["MilliCPU"] -= 1


def grow_used_scalar(documents: Documents) -> None:
    node_of(documents, "node-2")["Used"]["ScalarResources"]["pods"] += 1


def release(documents: Documents) -> None:
    node_of(documents, "node-3")["Releasing"]["Memory"] = 4096


def change_capacity(documents: Documents) -> None:
    node_of(documents, "node-3")["Capacity"]["ScalarResources"]["example.com/fpga"] = 1000


def drop_node(documents: Documents) -> None:
    del documents[0]["node-3"]


def end_a_task(documents: Documents) -> None:
    task_of(documents, 32)["Status"] = 128


def move_a_task(documents: Documents) -> None:
    task_of(documents, 32)["NodeName"] = "node-99"


def ask_for_more(documents: Documents) -> None:
    task_of(documents, 1)["Resreq"]["MilliCPU"] += 1


def drop_a_task(documents: Documents) -> None:
    job = next(job for job in documents[-1].values() if job["Tasks"])
    job["Tasks"].popitem()


def lift_min_available(documents: Documents) -> None:
    next(iter(documents[-1].values()))["MinAvailable"] += 1


def change_queue(documents: Documents) -> None:
    next(iter(documents[-1].values()))["Queue"] = "elsewhere"


def change_priority(documents: Documents) -> None:
    next(iter(documents[-1].values()))["Priority"] += 1


def add_a_job(documents: Documents) -> None:
    name, job = next(iter(documents[-1].items()))
    documents[-1][f"{name}-x"] = {**job, "Name": "x", "Tasks": {}}


def bind_without_a_charge(documents: Documents) -> None:
    """A task that says Binding although no node was charged for it: it does not explain itself."""
    task_of(documents, 1).update(Status=8, NodeName="node-2")


def allocate_too_much(documents: Documents) -> None:
    """The node of a task in flight is charged for more than the task asks for."""
    node_of(documents, task_of(documents, 8)["NodeName"])["Idle"]["MilliCPU"] -= 100


TAMPERINGS: dict[Callable[[Documents], None], str] = {
    shrink_idle: "idle.cpu",
    grow_used_scalar: "used.pods",
    release: "releasing.memory",
    change_capacity: "capacity.example.com/fpga",
    drop_node: "only in ours",
    end_a_task: "status",
    move_a_task: "node-99",
    ask_for_more: "request.cpu",
    drop_a_task: "tasks[default/",
    lift_min_available: "min_available",
    change_queue: "queue",
    change_priority: "priority",
    add_a_job: "only in Volcano's",
    bind_without_a_charge: "tasks[",
    allocate_too_much: "idle.cpu",
}


@pytest.mark.parametrize("change", TAMPERINGS, ids=lambda change: change.__name__)
def test_a_tampered_dump_fails_and_the_quantity_is_named(
    ledgers: Callable[[Path], Path], tmp_path: Path, change: Callable[[Documents], None]
) -> None:
    result = compare(tampered(IN_FLIGHT, tmp_path, change), ledgers(IN_FLIGHT.parent))
    assert result.exit_code == 1
    table = result.stdout.partition(" difference")[2].partition("difference")[2]
    assert TAMPERINGS[change] in table, result.stdout


def keep_nodes_only(documents: Documents) -> None:
    del documents[1:]


def keep_four(documents: Documents) -> None:
    del documents[3:-1]


@pytest.mark.slow
@pytest.mark.parametrize("change", [keep_nodes_only, keep_four], ids=lambda change: change.__name__)
@pytest.mark.parametrize("dump", [IN_FLIGHT, DUMPS[0]], ids=lambda path: path.name)
def test_older_layouts_of_the_same_moment_are_equal_too(
    ledgers: Callable[[Path], Path], tmp_path: Path, dump: Path, change: Callable[[Documents], None]
) -> None:
    """A dump of the oldest layout has nodes only: what their tasks say is compared, jobs are not."""
    result = compare(tampered(dump, tmp_path, change), ledgers(dump.parent))
    assert result.exit_code == 0, result.stdout

    def also_shrink(documents: Documents) -> None:
        change(documents)
        next(iter(documents[0].values()))["Idle"]["Memory"] -= 1024

    result = compare(tampered(dump, tmp_path, also_shrink), ledgers(dump.parent))
    assert result.exit_code == 1
    assert "idle.memory" in result.stdout
