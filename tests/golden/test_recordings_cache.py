"""Each recording folded up to each of its dump markers, against what Volcano itself dumped there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from projections.cache import Cache, CacheProjection
from projections.cache.jobs import priority_of
from tests.data import recordings
from tests.golden.recorded import documents, read_text, watch_lines
from vcledger.schedulerargs import config_of
from volcano.events.base import Recorded
from volcano.objects.resource import Resource
from volcano.objects.status import TaskStatus

COLUMNS = {
    "Idle": "idle",
    "Used": "used",
    "Releasing": "releasing",
    "Pipelined": "pipelined",
    "Allocatable": "allocatable",
    "Capacity": "capacity",
}

ONLY_THE_SCHEDULER_KNEW = {
    ("03-volumes", "volcano-cache-dump-2-binding-in-flight.json"): {"default/never-prov", "default/gang-never-vol-0"}
}
"""Tasks that were Binding at a dump, which no observation shows. Their nodes and jobs are compared without them."""


def dumped(row: dict[str, Any]) -> dict[str, float]:
    scalars = row["ScalarResources"] or {}
    return {"cpu": row["MilliCPU"], "memory": row["Memory"], **{name: n for name, n in scalars.items() if n}}


def ours(resource: Resource) -> dict[str, float]:
    return {name: amount for name, amount in resource.amounts().items() if amount or name in ("cpu", "memory")}


def less(row: dict[str, float], part: dict[str, float]) -> dict[str, float]:
    left = {name: row.get(name, 0) - part.get(name, 0) for name in {**row, **part}}
    return {name: amount for name, amount in left.items() if amount or name in ("cpu", "memory")}


def task_row(task: dict[str, Any]) -> tuple[Any, ...]:
    return (
        task["Name"],
        task["Status"],
        task.get("NodeName", ""),
        task["BestEffort"],
        task["Priority"],
        task["TaskRole"],
        task["SchGated"],
        task["Preemptable"],
    )


def compare_nodes(cache: Cache, nodes: dict[str, Any], unseen: set[str]) -> None:
    assert set(nodes) == {name for name, node in cache.nodes.items() if node.ready}
    for name, row in nodes.items():
        node = cache.nodes[name]
        hidden = {key: task for key, task in row["Tasks"].items() if key in unseen and key not in node.tasks}
        for task in hidden.values():
            assert task["Status"] == TaskStatus.BINDING
            row["Used"], row["Idle"] = move(row["Used"], row["Idle"], task["Resreq"])
        for theirs, mine in COLUMNS.items():
            assert ours(getattr(node, mine)) == dumped(row[theirs]), f"{name} {theirs}"
        assert {key: (task.uid, task.status) for key, task in node.tasks.items()} == {
            key: (task["UID"], task["Status"]) for key, task in row["Tasks"].items() if key not in hidden
        }


def move(used: dict[str, Any], idle: dict[str, Any], part: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A task's amount from used back to idle."""

    def plus(row: dict[str, Any], sign: int) -> dict[str, Any]:
        scalars = dict(row["ScalarResources"] or {})
        for name, amount in (part["ScalarResources"] or {}).items():
            scalars[name] = scalars.get(name, 0) + sign * amount
        return {
            "MilliCPU": row["MilliCPU"] + sign * part["MilliCPU"],
            "Memory": row["Memory"] + sign * part["Memory"],
            "ScalarResources": scalars,
        }

    return plus(used, -1), plus(idle, 1)


def compare_jobs(cache: Cache, jobs: dict[str, Any], unseen: set[str]) -> None:
    listed = {key for key, job in cache.jobs.items() if job.pod_group is not None and job.queue in cache.queues}
    assert set(jobs) == listed
    for key, row in jobs.items():
        job = cache.jobs[key]
        assert (job.queue, job.min_available, job.pg_uid) == (row["Queue"], row["MinAvailable"], row["PgUID"]), key
        assert priority_of(cache, job) == row["Priority"]
        assert job.task_min_available == (row["TaskMinAvailable"] or {})
        assert ours(job.total_request) == dumped(row["TotalRequest"]), key
        hidden = [t for t in row["Tasks"].values() if f"{t['Namespace']}/{t['Name']}" in unseen and t["Status"] == 8]
        allocated = dumped(row["Allocated"])
        for task in hidden:
            allocated = less(allocated, dumped(task["Resreq"]))
        assert ours(job.allocated) == allocated, key
        seen = {uid: task for uid, task in row["Tasks"].items() if task not in hidden}
        for uid, task in seen.items():
            mine = job.tasks[uid]
            assert task_row(task) == (
                mine.name,
                mine.status,
                mine.node_name,
                mine.best_effort,
                mine.priority,
                mine.role,
                mine.gated,
                mine.preemptable,
            )
            assert ours(mine.resreq) == dumped(task["Resreq"])
        assert len(job.tasks) == len(row["Tasks"])


@pytest.mark.parametrize("folder", recordings(), ids=lambda path: path.name)
def test_every_dump_is_what_the_fold_says(folder: Path) -> None:
    config = config_of(read_text(folder / "scheduler-args.txt"))
    projection = CacheProjection("volcano-1.11", config)
    cache, dumps = projection.initial(), 0
    for line in watch_lines(folder):
        if isinstance(line, Recorded):
            cache = projection.evolve(cache, line)
        elif line["marker"] == "volcano-cache-dump":
            found = documents(read_text(folder / line["file"]))
            unseen = ONLY_THE_SCHEDULER_KNEW.get((folder.name, line["file"]), set())
            compare_nodes(cache, found[0], unseen)
            compare_jobs(cache, found[-1], unseen)
            dumps += 1
    assert dumps == len(list(folder.glob("volcano-cache-dump-*.json*")))
    assert cache.refused == {} and cache.panics == []
