"""Scenarios of our own: what the format can say and the given ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.scenarios import (
    PODS,
    Line,
    action,
    advance,
    api,
    claim,
    control,
    group,
    line,
    node,
    pod,
    pod_list,
    status,
    storage_class,
    volume,
    watch,
    write,
)
from vcledger.conformance_files import PASSED, check
from vcledger.scheduler.state import FlowConfig
from vcledger.testing.invariants import check_ledger
from vcledger.testing.scenario import Runner
from vcledger.testing.scenario_format import ScenarioInvalid, read_script

Scenario = tuple[list[Line], list[Line], dict[int, list[Line]]]

BINDING = f"{PODS}/p1/binding"
P1 = f"{PODS}/p1"
PV1 = "/api/v1/persistentvolumes/pv1"
FREE = {"node": "n1", "idle": {"cpu": "4"}, "tasks": []}
QUIET = {"queue": "errTasks", "length": 0}
NO_ANSWER = api("POST", BINDING, None, applied=True)


def alone(*more: Line) -> list[Line]:
    """A node and a pod, which is assumed there and handed over."""
    begin = [watch("ADDED", node()), watch("ADDED", pod()), action("assume", pod="default/p1", node="n1")]
    return [*begin, action("bind", pod="default/p1", node="n1"), *more]


def with_volume(*more: Line) -> list[Line]:
    """The same, and the pod's claim is to take a volume that there is."""
    begin = [
        watch("ADDED", storage_class()),
        watch("ADDED", node()),
        watch("ADDED", volume(95)),
        watch("ADDED", claim(96)),
    ]
    begin += [watch("ADDED", pod(claims=["c1"])), action("assume", pod="default/p1", node="n1")]
    return [*begin, action("bind", pod="default/p1", node="n1"), *more]


WRITTEN = [api("PUT", PV1, 200, volume(101, True), applied=True), watch("MODIFIED", volume(101, True))]

SCENARIOS: dict[str, Scenario] = {
    "died, and the bind was done": (
        alone(NO_ANSWER, control("restart"), api("GET", P1, 200, pod(version=110, on="n1")), advance(120)),
        [
            {"pod": "default/p1", "assumed": False, "node": "n1", "bind": "succeeded"},
            {"outcome": "default/p1", "bind": "succeeded-answer-lost"},
            {"api": f"POST {BINDING}", "calls": 1},
            {"node": "n1", "idle": {"cpu": "3"}, "tasks": ["default/p1"]},
            QUIET,
        ],
        {5: [{"pod": "default/p1", "assumed": True, "bind": "unknown"}], 6: [{"node": "n1", "idle": {"cpu": "3"}}]},
    ),
    "died with a request that nobody answers any more": (
        alone(
            control("restart"),
            api("GET", P1, 200, pod(version=110, on="n1")),
            api("POST", BINDING, 201, optional=True),
        ),
        [{"outcome": "default/p1", "bind": "succeeded-answer-lost"}, {"api": f"POST {BINDING}", "calls": 1}],
        {},
    ),
    "died, and the bind was not done": (
        alone(
            NO_ANSWER,
            control("restart"),
            api("GET", P1, 200, pod()),
            advance(120),
            api("POST", BINDING, 201, optional=True),
            advance(120),
        ),
        [{"api": f"POST {BINDING}", "max_calls": 2}, QUIET],
        {},
    ),
    "died, and another scheduler was first": (
        [
            watch("ADDED", node("n2", 91)),
            *alone(NO_ANSWER, control("restart"), api("GET", P1, 200, pod(version=110, on="n2"))),
        ],
        [{"outcome": "default/p1", "bind": "lost-to-another"}, FREE, {"node": "n2", "tasks": ["default/p1"]}],
        {},
    ),
    "died, and the pod is gone": (
        alone(NO_ANSWER, control("restart"), api("GET", P1, 404, status(404, "not found", "NotFound")), advance(9)),
        [{"outcome": "default/p1", "bind": "pod-gone"}, FREE, QUIET],
        {},
    ),
    "the answer is lost, the bind was not done, and the node is gone when that is known": (
        alone(
            api("POST", BINDING, None, applied=False), watch("DELETED", node(version=120)), api("GET", P1, 200, pod())
        ),
        [
            {"pod": "default/p1", "assumed": False, "node": None, "bind": "failed"},
            {"api": f"POST {BINDING}", "calls": 1},
            {"outcome": "default/p1", "bind": "failed", "events": ["FailedScheduling"]},
            QUIET,
        ],
        {},
    ),
    "the resync itself fails": (
        alone(
            api("POST", BINDING, 500, status(500, "boom", "InternalError")),
            api("GET", P1, 500, status(500, "boom")),
            api("GET", P1, None),
            api("GET", P1, 200, pod()),
            advance(5),
        ),
        [
            QUIET,
            FREE,
            {"pod": "default/p1", "assumed": False, "bind": "failed"},
            {"outcome": "default/p1", "bind": "failed", "events": ["FailedScheduling"]},
            {"api": f"GET {P1}", "calls": 3},
            {"api": f"STATUS {P1}", "calls": 1},
            {"why": "default/p1", "must_mention": ["boom"]},
        ],
        {5: [{"queue": "errTasks", "keys": ["default/p1"]}, {"node": "n1", "idle": {"cpu": "3"}}]},
    ),
    "the node goes before the bind": (
        [*alone()[:3], watch("DELETED", node(version=120)), alone()[3], advance(30)],
        [
            {"api": f"POST {BINDING}", "calls": 0},
            {"node": "n1", "exists": False},
            {"pod": "default/p1", "node": None, "assumed": False},
            {"nodes": []},
            QUIET,
        ],
        {},
    ),
    "a node is chosen": (
        [
            watch("ADDED", node("n1", 90, "1")),
            watch("ADDED", node("n2", 91)),
            watch("ADDED", pod(cpu="2")),
            action("schedule", pod="default/p1"),
            api("POST", BINDING, 201),
            watch("MODIFIED", pod(version=110, on="n2", cpu="2")),
        ],
        [
            {"pod": "default/p1", "node": "n2", "phase": "Running", "requests": {"cpu": "2", "memory": "1Gi"}},
            {"outcome": "default/p1", "bind": "succeeded", "events": ["Scheduled"]},
            {"nodes": ["n2", "n1"]},
            {"pods": ["default/p1"]},
        ],
        {},
    ),
    "no node fits": (
        [
            watch("ADDED", node("n1", 90, "1")),
            watch("ADDED", node("n2", 91, unschedulable=True)),
            watch("ADDED", group()),
            watch("ADDED", pod(cpu="2", group="g")),
            action("schedule", pod="default/p1"),
        ],
        [
            {"why": "default/p1", "fits_on": [], "per_node": {"n1": "cpu", "n2": "unschedulable"}, "first_cause": "g"},
            {"pod": "default/p1", "bind": "none", "node": None},
            {"node": "n2", "schedulable": False, "uid": "n2-u"},
        ],
        {},
    ),
    "a volume that there is": (
        with_volume(
            *WRITTEN,
            watch("MODIFIED", volume(102, True, "Bound")),
            watch("MODIFIED", claim(103, "pv1")),
            advance(2),
            api("POST", BINDING, 201),
            watch("MODIFIED", pod(version=110, on="n1", claims=["c1"])),
        ),
        [
            {"pv": "pv1", "exists": True, "phase": "Bound", "assumed": False, "annotations_kept": ["note"]},
            {"pvc": "default/c1", "volume": "pv1", "phase": "Bound", "assumed": False},
            {"outcome": "default/p1", "bind": "succeeded"},
        ],
        {6: [{"pv": "pv1", "assumed": True, "phase": "Available"}]},
    ),
    "a volume that was edited": (
        with_volume(api("PUT", PV1, 409, status(409, "the object has been modified", "Conflict")), advance(5)),
        [
            {"pv": "pv1", "assumed": False},
            FREE,
            QUIET,
            {"why": "default/p1", "must_mention": ["pv1", "409"]},
            {"bind_attempts": "default/p1", "count": 1, "each_ended_within_seconds": 1},
        ],
        {},
    ),
    "a volume that is never bound": (
        with_volume(*WRITTEN, advance(700)),
        [
            {"pv": "pv1", "assumed": False},
            FREE,
            {"why": "default/p1", "must_mention": ["timed out"]},
            {"bind_attempts": "default/p1", "count": 1, "each_ended_within_seconds": 601},
        ],
        {},
    ),
    "a volume whose claim is taken off again": (
        with_volume(*WRITTEN, advance(2), watch("MODIFIED", volume(102)), advance(5)),
        [
            {"pv": "pv1", "assumed": False},
            FREE,
            {"why": "default/p1", "must_mention": ["ClaimRef got reset"], "must_not_mention": ["timed out"]},
        ],
        {},
    ),
    "a pod that goes while its volume waits": (
        with_volume(*WRITTEN, watch("DELETED", pod(version=120, claims=["c1"])), advance(5)),
        [
            {"pv": "pv1", "assumed": False},
            FREE,
            QUIET,
            {"pod": "default/p1", "exists": False, "deletion": "observed"},
            {"api": f"POST {BINDING}", "calls": 0},
        ],
        {},
    ),
    "a list in two pages, a pod made again, and watches that end": (
        [
            watch("ADDED", node()),
            watch("ADDED", pod()),
            watch("MODIFIED", pod(version=101, on="n1")),
            control("watch-closed", resource="pods"),
            control("expect-watch", resource="pods", resourceVersion="101"),
            control("watch-closed", resource="pods"),
            control("reconnect"),
            control("expect-watch", resource="pods", resourceVersion="101"),
            watch("ERROR", status(410, "too old", "Expired")),
            pod_list("5000", pod(version=4000, uid="p1-other"), more="x"),
            pod_list("5000", pod("p2", 4001)),
            control("expect-watch", resource="pods", resourceVersion="5000"),
            watch("DELETED", pod("p2", 5002)),
            control("watch-closed"),
            control("expect-watch", resource="pods", resourceVersion="5002"),
        ],
        [
            {"resume": "pods", "watch_resource_version": "5002", "never": ["4000", "4001", "0", "", "None"]},
            {"history": "default/p1", "incarnations": 2, "deleted": ["p1-u"], "last_seen_resource_version": "4000"},
            {"gap": "pods", "from_resource_version": "101", "to_resource_version": "5000"},
            {"pod": "default/p1", "exists": True, "uid": "p1-other", "node": None},
            {"pod": "default/p2", "exists": False, "deletion": "observed"},
            {"pods": ["default/p1"]},
            FREE,
        ],
        {},
    ),
    "410 as the answer to a watch": (
        [
            watch("ADDED", pod(on="n1")),
            control("watch-closed"),
            api("GET", "/api/v1/pods", 410, status(410, "too old", "Expired")),
            pod_list("300"),
        ],
        [
            {"pod": "default/p1", "exists": False, "deletion": "inferred"},
            {"gap": "pods", "from_resource_version": "100", "to_resource_version": "300"},
            {"resume": "pods", "watch_resource_version": "300"},
        ],
        {},
    ),
    "an error that is no 410": (
        [
            watch("ADDED", pod()),
            watch("ERROR", status(500, "etcd", "InternalError")),
            advance(60),
            control("expect-watch", resource="pods", resourceVersion="100"),
            watch("ADDED", pod("p2", 101)),
        ],
        [{"pods": ["default/p1", "default/p2"]}, {"resume": "pods", "watch_resource_version": "100"}],
        {},
    ),
    "a gang in one batch": (
        [
            watch("ADDED", node()),
            watch("ADDED", group()),
            *(watch("ADDED", pod(name, 100 + number, group="g")) for number, name in enumerate(("p1", "p2"))),
            *(action("assume", pod=f"default/{name}", node="n1") for name in ("p1", "p2")),
            action("flush", pods=["default/p1", "default/p2"], node="n1"),
            *(api("POST", f"{PODS}/{name}/binding", 201) for name in ("p1", "p2")),
        ],
        [
            {"job": "default/g", "exists": True, "podgroup_uid": "g-u", "min_member": 2, "ready": 2},
            {
                "job": "default/g",
                "ready": True,
                "tasks": ["default/p2", "default/p1"],
                "min_resources": {"cpu": "2000m"},
            },
            {"queue": "bindFlow", "length": 0, "keys": []},
            {"queue": "nodeQueue", "length": 0},
        ],
        {},
    ),
    "a job that is over": (
        [
            watch("ADDED", group()),
            watch("ADDED", pod(group="g")),
            watch("DELETED", group(version=110)),
            action("cleanup-fire", key="default/g/g-u"),
            watch("DELETED", pod(version=120, group="g")),
            action("cleanup-fire", key="default/g/g-u"),
            advance(60),
        ],
        [{"job": "default/g", "exists": False}, {"queue": "deletedJobs", "length": 0}],
        {4: [{"job": "default/g", "exists": True, "tasks": ["default/p1"]}, {"queue": "deletedJobs", "length": 1}]},
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_kind_passes_and_breaks_no_invariant(name: str, tmp_path: Path) -> None:
    lines, facts, after = SCENARIOS[name]
    script = read_script(write(tmp_path, "own", lines, facts, after))
    runner = Runner(script, tmp_path / "own.db", FlowConfig())
    try:
        result = runner.run()
        assert result.problems == []
        assert result.lines == len(lines)
        broken = [one for one in check_ledger(runner.ledger) if one.broken]
        assert broken == []
        assert runner.loop.flow.digest() == runner.loop.rebuild().digest()
    finally:
        runner.ledger.close()


FAILS: dict[str, tuple[list[Line], str]] = {
    "a bind that no line answers": (alone(), f"after line 4: POST {BINDING} was asked for, and no API line answers it"),
    "a line that is never asked for": (
        [watch("ADDED", node()), api("GET", P1, 200, pod())],
        f"line 2: GET {P1} was never asked for",
    ),
    "a watch from elsewhere": (
        [watch("ADDED", pod()), control("watch-closed"), control("expect-watch", resource="pods", resourceVersion="7")],
        "line 3: the watch of pods carries '100', expected '7'",
    ),
    "a watch that nobody asks for": (
        [watch("ADDED", pod()), control("expect-watch", resource="pods", resourceVersion="100")],
        "line 2: no watch of pods was asked for; one from 100 is expected",
    ),
    "a resource that is none": (
        [watch("ADDED", pod()), control("expect-watch", resource="dogs", resourceVersion="100")],
        "no resource is named 'dogs'",
    ),
    "a list of what no ledger keeps": (
        [line("LIST", kind="SecretList", apiVersion="v1", metadata={"resourceVersion": "1"}, items=[])],
        "line 1: a list of SecretList, which no ledger keeps",
    ),
}


@pytest.mark.parametrize("name", FAILS)
def test_what_goes_wrong_is_said_with_its_line(name: str, tmp_path: Path) -> None:
    lines, said = FAILS[name]
    outcome = check(write(tmp_path, "own", lines, [{"nodes": []}], {}))
    assert outcome.verdict != PASSED
    assert any(said in text for text in outcome.lines), outcome.lines


def test_a_script_without_expectations_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "own", alone(), [], {})
    (tmp_path / "own.expect.json").unlink()
    with pytest.raises(ScenarioInvalid, match=r"own\.jsonl: its expectations are missing: own\.expect\.json"):
        read_script(path)
