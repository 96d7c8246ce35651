"""What pods and groups are told in states that no recording has, each worked out from the sources.

Volcano: api.FitErrors.Error (count and reason, sorted as text), JobInfo.FitError and TaskSchedulingReason, allocate's
predicate (the first resource that is short ends a node), the predicates plugin (a reason that is Unschedulable is
counted and the next filter asked, one that is UnschedulableAndUnresolvable ends the node), gang's OnSessionClose.
kube-scheduler 1.36: the ErrReason constants of its plugins, and with which code each is given.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.session.world import Object, World, group, node, pod, queue
from vcledger.scheduler.session.conf import PluginConf, SessionConf
from vcledger.scheduler.session.outcome import Outcome
from vcledger.scheduler.session.run import run

ROOM = SessionConf(("allocate", "backfill"), ((PluginConf("gang"), PluginConf("predicates"), PluginConf("priority")),))
TAINT = [{"key": "a", "effect": "NoSchedule"}]
ZONES = [node("a", labels={"zone": "a", "host": "a"}), node("b", labels={"zone": "b", "host": "b"})]
PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]


def said(*objects: Object, conf: SessionConf = ROOM) -> dict[str, str]:
    """The message of each pod that got no node."""
    outcome = run(World(queue(), *objects, model="volcano-1.11").mirror, conf)
    return {one.task.name: one.message for one in outcome.unfit.values()}


def outcome_of(*objects: Object) -> Outcome:
    return run(World(queue(), *objects, model="volcano-1.11").mirror, ROOM)


def required(kind: str, label: str, key: str) -> Object:
    """A spec with one required term about pods with a label `app`."""
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def even(label: str, key: str) -> Object:
    """A spec that is to be spread over the values of a label of nodes."""
    chosen = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": key}
    return {"topologySpreadConstraints": [{**chosen, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}


def placed(name: str, on: str, **more: Any) -> list[Object]:
    """A pod that runs, alone in its group."""
    return [group(f"g-{name}"), pod(name, f"g-{name}", on=on, **more)]


ALONE: dict[str, tuple[list[Object], Object, str]] = {
    "a resource that no node has": (
        [node("n1"), node("n2", amounts={"nvidia.com/gpu": "1"})],
        pod("p", "g", requests={"nvidia.com/gpu": "2"}),
        "0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.",
    ),
    "of several the first that is short": (
        [node("n1", memory="1Gi", amounts={"hugepages-2Mi": "4Mi"})],
        pod("p", "g", memory="2Gi", requests={"hugepages-2Mi": "8Mi"}),
        "0/1 nodes are unavailable: 1 Insufficient memory.",
    ),
    "huge pages": (
        [node("n1", amounts={"hugepages-2Mi": "4Mi"})],
        pod("p", "g", requests={"hugepages-2Mi": "8Mi"}),
        "0/1 nodes are unavailable: 1 Insufficient hugepages-2Mi.",
    ),
    "no room for one more pod": (
        [node("n1", pods="1"), *placed("x", "n1")],
        pod("p", "g"),
        "0/1 nodes are unavailable: 1 Insufficient pods.",
    ),
    "a pod that is going still counts, and the next is asked": (
        [node("n1", pods="1", taints=TAINT), *placed("x", "n1", deleting=True)],
        pod("p", "g"),
        "0/1 nodes are unavailable: 1 node(s) had untolerated taint(s), 1 node(s) pod number exceeded.",
    ),
    "one final reason each": (
        [node("n1", unschedulable=True), node("n2", taints=TAINT), node("n3", labels={"disk": "ssd"})],
        pod("p", "g", spec={"nodeSelector": {"disk": "ssd"}}, cpu="8"),
        "0/3 nodes are unavailable: 3 Insufficient cpu.",
    ),
    "what the nodes themselves say": (
        [node("n1", unschedulable=True, labels={"disk": "ssd"}), node("n2", taints=TAINT), node("n3", taints=TAINT)],
        pod("p", "g", spec={"nodeSelector": {"disk": "ssd"}}),
        "0/3 nodes are unavailable: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector.",
    ),
    "counts are sorted as text": (
        [*(node(f"n{number:02}", taints=TAINT) for number in range(10)), node("m1", cpu="0"), node("m2", cpu="0")],
        pod("p", "g"),
        "0/12 nodes are unavailable: 10 node(s) had untolerated taint(s), 2 Insufficient cpu.",
    ),
    "host ports": (
        [node("n1"), *placed("x", "n1", spec={"containers": PORT})],
        pod("p", "g", spec={"containers": PORT}),
        "0/1 nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports.",
    ),
    "affinity": (
        [*ZONES, *placed("x", "a", labels={"app": "y"})],
        pod("p", "g", spec=required("podAffinity", "x", "zone")),
        "0/2 nodes are unavailable: 2 node(s) didn't match pod affinity rules.",
    ),
    "anti-affinity": (
        [*ZONES, *placed("x", "a", labels={"app": "x"}), *placed("y", "b", labels={"app": "x"})],
        pod("p", "g", spec=required("podAntiAffinity", "x", "zone")),
        "0/2 nodes are unavailable: 2 node(s) didn't match pod anti-affinity rules.",
    ),
    "anti-affinity of those that are there": (
        [*ZONES[:1], *placed("x", "a", spec=required("podAntiAffinity", "p", "zone"))],
        pod("p", "g", labels={"app": "p"}),
        "0/1 nodes are unavailable: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
    ),
    "spread, and a node without the label": (
        [
            ZONES[0],
            node("b", labels={"zone": "b"}, cpu="0"),
            node("c"),
            node("d", cpu="0"),
            *placed("x", "a", labels={"app": "p"}),
        ],
        pod("p", "g", labels={"app": "p"}, spec=even("p", "zone")),
        "0/4 nodes are unavailable: 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod "
        "topology spread constraints (missing required label), 2 Insufficient cpu.",
    ),
    "reasons that are not final are all counted": (
        [*ZONES[:1], *placed("x", "a", labels={"app": "x"}, spec={"containers": PORT})],
        pod("p", "g", spec={"containers": PORT, **required("podAntiAffinity", "x", "zone")}),
        "0/1 nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports, 1 node(s) didn't "
        "match pod anti-affinity rules.",
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_what_each_node_says_is_counted(case: str) -> None:
    objects, asks, message = ALONE[case]
    assert said(*objects, group("g"), asks)["p"] == message


def test_a_gang_without_any_node_is_not_tried() -> None:
    """allocateResourcesForTasks returns at once, so that no task has a fit error."""
    assert said(group("g", 2), pod("a", "g"), pod("b", "g"))["a"] == (
        "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable"
    )


def test_a_gang_one_short_of_room_says_where_the_others_could_go() -> None:
    objects = [node("n1", cpu="2"), group("g", 3), *(pod(name, "g") for name in "abc")]
    origin = "0/1 nodes are unavailable: 1 Insufficient cpu."
    outcome = outcome_of(*objects)
    assert {one.task.name: (one.reason, one.message) for one in outcome.unfit.values()} == {
        "a": ("Schedulable", "Pod d/a can possibly be assigned to n1, once minAvailable is satisfied"),
        "b": ("Schedulable", "Pod d/b can possibly be assigned to n1, once minAvailable is satisfied"),
        "c": ("Unschedulable", origin),
    }
    assert outcome.jobs["d/g"].sentence == (
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, "
        f"2 Schedulable. Origin reason is c: {origin}"
    )


def test_statuses_of_all_members_are_counted() -> None:
    """By their names, counts sorted as text; minAvailable stands among them."""
    members = [
        pod("done", "g", on="n1", phase="Succeeded"),
        pod("broken", "g", on="n1", phase="Failed"),
        pod("runs", "g", on="n1", cpu="2"),
        pod("goes", "g", on="n2", cpu="2", deleting=True),
        pod("bound", "g", on="n2", phase="Pending", cpu="2"),
        pod("waits", "g", cpu="9"),
    ]
    outcome = outcome_of(node("n1"), node("n2"), group("g", 4), *members)
    origin = "0/2 nodes are unavailable: 2 Insufficient cpu."
    words = "1 Bound, 1 Failed, 1 Pending, 1 Releasing, 1 Running, 1 Succeeded, 4 minAvailable"
    assert outcome.jobs["d/g"].sentence == (
        f"1/6 tasks in gang unschedulable: pod group is not ready, {words}; Pending: 1 Unschedulable. Origin reason is "
        f"waits: {origin}"
    )


def test_a_gang_that_lacks_pods_is_told_without_having_been_tried() -> None:
    outcome = outcome_of(node("n1"), group("g", 3), pod("a", "g"), pod("b", "g"))
    assert outcome.jobs["d/g"].message == "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"
    assert outcome.jobs["d/g"].sentence == (
        "3/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 3 minAvailable; Pending: 2 Unschedulable"
    )


def test_a_gang_that_lacks_pods_of_a_role() -> None:
    roles = {"minTaskMember": {"ps": 1, "w": 1}}
    outcome = outcome_of(node("n1"), group("g", 2, **roles), pod("a", "g", role="w"), pod("b", "g", role="w"))
    told = outcome.jobs["d/g"]
    assert (told.reason, told.message) == (
        "NotEnoughPodsOfTask",
        "Not enough valid pods of each task for gang-scheduling",
    )


def test_a_ready_job_tells_its_other_pods_in_the_words_of_the_group() -> None:
    objects = [node("n1", cpu="1"), group("g", 1), pod("a", "g"), pod("b", "g")]
    assert said(*objects) == {"b": "0/1 nodes are unavailable: 1 Insufficient cpu."}
    gated = pod("c", "g", spec={"schedulingGates": [{"name": "x"}]})
    assert said(*objects, gated) == {"b": "0/1 nodes are unavailable: 1 Insufficient cpu."}


def test_room_that_is_being_released_is_promised_in_words() -> None:
    objects = [node("n1", cpu="2"), *placed("old", "n1", cpu="2", deleting=True), group("g", 2)]
    outcome = outcome_of(*objects, pod("a", "g"), pod("b", "g"))
    words = "can possibly be assigned to n1, once resource is released and minAvailable is satisfied"
    assert {one.message for one in outcome.unfit.values()} == {f"Pod d/a {words}", f"Pod d/b {words}"}
    assert outcome.jobs["d/g"].sentence == (
        "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pipelined, 2 minAvailable"
    )


def test_pods_of_other_schedulers_static_pods_and_daemons_only_hold_room() -> None:
    """Bound pods without a group count on their node whoever put them there, and are told nothing."""
    other = pod("other", on="n1", cpu="2", spec={"schedulerName": "default-scheduler"})
    static = pod("static", on="n1", cpu="1")
    static["metadata"]["annotations"] |= {"kubernetes.io/config.source": "file"}
    daemon = pod("daemon", on="n1", cpu="500m", spec={"tolerations": [{"operator": "Exists"}]})
    waiting = pod("elsewhere", cpu="9", spec={"schedulerName": "default-scheduler"})
    found = said(node("n1"), other, static, daemon, waiting, group("g"), pod("p", "g", cpu="1"))
    assert found == {"p": "0/1 nodes are unavailable: 1 Insufficient cpu."}


def test_sidecars_init_containers_and_overhead_are_asked_for() -> None:
    """The sidecar beside the container, less than the init container before both; overhead beside those two only."""

    def container(cpu: str, **more: str) -> Object:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1")],
        "initContainers": [container("500m", restartPolicy="Always"), container("2")],
        "overhead": {"cpu": "1"},
    }
    asks = pod("p", "g", spec=spec)
    assert said(node("n1", cpu="2500m"), group("g"), asks) == {}
    assert said(node("n1", cpu="2499m"), group("g"), asks) == {"p": "0/1 nodes are unavailable: 1 Insufficient cpu."}
