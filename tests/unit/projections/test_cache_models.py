"""What each policy of a model does, on the vector that pins Volcano's side: the mirror has the bug, `exact` has not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projections.cache import Cache, CacheProjection, UnknownModel, model_named, state_json
from projections.cache.models import EXACT, MODELS, VOLCANO_1_10, VOLCANO_1_11
from tests.data import vectors
from tests.stateful.histories import history
from vcledger.conformance import VectorRunner, config_of_vector
from volcano.events.observation import ObjectModified


def run(number: str, model: str, steps: int | None = None) -> tuple[Cache, list[dict[str, Any]]]:
    """A cache after the first steps of a vector (without snapshots, unless they are among them), and each state."""
    path = next(path for path in vectors() if path.stem.startswith(number))
    vector = json.loads(path.read_text())
    runner = VectorRunner(Cache(model, config_of_vector(vector)))
    states = []
    for step in vector["steps"][:steps]:
        runner.run(step)
        states.append(state_json(runner.cache))
    return runner.cache, states


def test_the_models_are_named_sets_of_policies() -> None:
    assert list(MODELS) == ["volcano-1.10", "volcano-1.11", "exact"]
    assert VOLCANO_1_10._replace(name="", freezes_not_ready=False) == VOLCANO_1_11._replace(name="")
    assert not any(EXACT[1:])
    with pytest.raises(UnknownModel, match="there are volcano-1"):
        model_named("volcano-9")


def test_a_node_that_is_not_ready_is_frozen_by_1_10_only() -> None:
    def idle(model: str) -> list[float]:
        return [s["nodes"]["n1"]["idle"]["milli_cpu"] for s in run("037", model)[1] if "n1" in s["nodes"]]

    assert idle("volcano-1.11") == idle("exact") != idle("volcano-1.10")


def test_a_node_that_comes_back_has_its_pods_at_once_under_exact() -> None:
    mirror, exact = run("043", "volcano-1.11")[1], run("043", "exact")[1]
    differing = [index for index, (one, two) in enumerate(zip(mirror, exact, strict=True)) if one != two]
    back = next(index for index in differing if mirror[index]["nodes"].get("n1", {}).get("phase") == "Ready")
    ours, theirs = exact[back]["nodes"]["n1"], mirror[back]["nodes"]["n1"]
    assert set(theirs["tasks"]) < set(ours["tasks"])
    assert ours["idle"]["milli_cpu"] < theirs["idle"]["milli_cpu"]


def test_a_placeholder_goes_with_its_last_pod_under_exact() -> None:
    assert any(state["nodes"] for state in run("034", "volcano-1.11")[1][-2:])
    assert run("034", "exact")[1][-1]["nodes"] == {}


def test_roles_follow_the_pod_group_under_exact() -> None:
    mirror, exact = run("060", "volcano-1.11")[1][-1], run("060", "exact")[1][-1]
    group = next(iter(exact["jobs"]))
    assert set(exact["jobs"][group]["task_min_available"]) < set(mirror["jobs"][group]["task_min_available"])


def test_oversubscription_follows_the_node_under_exact() -> None:
    assert run("047", "volcano-1.11")[1][-1]["nodes"]["n1"]["allocatable"]["milli_cpu"] == 8500
    assert run("047", "exact")[1][-1]["nodes"]["n1"]["allocatable"]["milli_cpu"] == 8000


def test_the_default_priority_is_that_of_a_class_that_is_there_under_exact() -> None:
    """067: d2 is the default still when d1 is deleted."""
    assert [state["default_priority"] for state in run("067", "volcano-1.11", 6)[1]][-2:] == [20, 0]
    exact = run("067", "exact", 6)[1]
    assert [state["default_priority"] for state in exact][-2:] == [10, 20]
    assert [state["jobs"]["team-a/g"]["priority"] for state in exact[1:]] == [0, 10, 10, 10, 20]


def test_a_pod_added_twice_counts_once_under_exact() -> None:
    for number in ("070", "072"):
        mirror, exact = run(number, "volcano-1.11", 5)[1][-1], run(number, "exact", 5)[1][-1]
        assert exact["jobs"]["team-a/g"]["total_request"]["milli_cpu"] == 1000
        assert mirror["jobs"]["team-a/g"]["total_request"]["milli_cpu"] == 2000


def test_a_claim_that_comes_after_its_pod_is_counted_under_exact() -> None:
    for number, position in (("052", 6), ("115", None)):
        path = next(path for path in vectors() if path.stem.startswith(number))
        steps = json.loads(path.read_text())["steps"]
        claim = next(
            i for i, s in enumerate(steps) if s.get("event", {}).get("object", {}).get("kind", "")[-5:] == "Claim"
        )
        mirror, exact = run(number, "volcano-1.11", claim + 1)[1][-1], run(number, "exact", claim + 1)[1][-1]
        key = "attachable-volumes-csi-disk.own.io"
        tasks = [exact["jobs"]["team-a/g"]["tasks"]] if number == "052" else [exact["nodes"]["n1"]["tasks"]]
        (task,) = tasks[0].values()
        assert task["resreq"]["scalars"][key] == 1
        assert exact["pending_resync"] == [] and mirror["pending_resync"] != []
        assert position is None or position == claim


def test_a_node_that_was_never_cached_is_not_retried_under_exact() -> None:
    assert any(state["pending_node_sync"] for state in run("046", "volcano-1.11")[1])
    assert not any(state["pending_node_sync"] for state in run("046", "exact")[1])


def test_missing_scalars_are_zero_under_exact() -> None:
    """013: idle pods 1 after a pod came and went."""
    mirror, exact = run("013", "volcano-1.11", 5)[1][-1], run("013", "exact", 5)[1][-1]
    assert mirror["nodes"]["n1"]["idle"]["scalars"]["pods"] == 1
    assert exact["nodes"]["n1"]["idle"]["scalars"]["pods"] == 0


def test_exact_does_not_round_nor_panic() -> None:
    """015: sums past 2^53."""
    path = next(path for path in vectors() if path.stem.startswith("015"))
    vector = json.loads(path.read_text())
    mirror, exact = VectorRunner(Cache("volcano-1.11")), VectorRunner(Cache("exact"))
    results = [(mirror.run(step), exact.run(step)) for step in vector["steps"]]
    assert any("panic" in result for result, _ in results)
    assert not any("panic" in result for _, result in results)


def test_an_older_version_from_a_watch_is_ignored_under_exact_only() -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"schedulerName": "volcano", "nodeName": "n1", "containers": []},
        "status": {"phase": "Running"},
    }
    events, _ = history([(("Pod", pod), 1, 1), (("Pod", pod), 1, 1)])
    stale = events[0]._replace(event=ObjectModified(object=events[0].event.object), position=9)  # type: ignore[attr-defined]
    for model, position in (("exact", 2), ("volcano-1.11", 9)):
        projection = CacheProjection(model)
        cache = projection.initial()
        for event in (*events, stale):
            cache = projection.evolve(cache, event)
        assert cache.pods["ns/p"].position == position


def test_a_pod_group_that_is_gone_leaves_a_job_of_pods_under_exact() -> None:
    for model, queue in (("volcano-1.11", "default"), ("exact", "")):
        states = run("055", model)[1]
        without = next(s for s in states[3:] if s["jobs"] and not s["jobs"]["team-a/g"]["has_podgroup"])
        assert without["jobs"]["team-a/g"]["queue"] == queue
