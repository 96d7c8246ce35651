"""The verdict: which of several that hold comes first, what stands under it, and what proves it."""

from __future__ import annotations

from typing import Any

import pytest

from projections.diagnosis.case import Attempt, Case, Earlier, Ending
from projections.diagnosis.explain import explain, rank
from projections.diagnosis.model import VERDICTS, Said
from projections.diagnosis.text import labelled, lines, plain
from projections.diagnosis.views import GroupView, QueueView, TaskView
from tests.unit.diagnosis.build import claim, cluster, node, obj, pod, storage_class, task, uses, volume

GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}


def podgroup(phase: str = "Inqueue", minimum: int = 1, **more: Any) -> Any:
    return obj(
        "PodGroup",
        metadata={"name": "g", "namespace": "default", "uid": "pg"},
        spec={"minMember": minimum, "queue": "default"},
        status={"phase": phase, **more},
    )


def case(subject: Any, request: dict[str, str] | None = None, **more: Any) -> Case:
    """A case of a pod in group g, with two free nodes, unless told otherwise."""
    own = task(subject, request or {"cpu": "1"}, status=more.pop("status", "Pending"))
    tasks: list[TaskView] = [own, *more.pop("mates", [])]
    grouped = bool(subject.metadata.annotations)
    body = more.pop("pod_group", podgroup())
    group = GroupView(namespace="default", name="g", pod_group=body, tasks=tasks, position=7) if grouped else None
    return Case(
        namespace="default",
        name=subject.metadata.name,
        uid=subject.metadata.uid,
        at=100,
        now="2026-01-01T00:00:00Z",
        cluster=more.pop("cluster", None) or cluster([node("n1"), node("n2")]),
        pod=subject,
        position=50,
        task=own,
        group=more.pop("group", group),
        group_name="g" if grouped else "",
        **more,
    )


def verdicts(of: Case) -> list[str]:
    answer = explain(of)
    return [answer.verdict, *(other.verdict for other in answer.also)]


def said(reason: str, message: str, about: str = "Pod default/p", source: str = "event", **more: Any) -> Said:
    times = {"first": "2026-01-01T00:00:01Z", "last": "2026-01-01T00:00:09Z"}
    return Said(source=source, about=about, reason=reason, message=message, position=9, **{**times, **more})


def test_nothing_wrong_is_schedulable() -> None:
    answer = explain(case(pod(**GROUPED)))
    assert answer.verdict == "schedulable"
    assert answer.fits_on == ["n1", "n2"]
    assert answer.nodes[0].reasons == []


def test_a_running_pod_whose_node_nobody_names() -> None:
    answer = explain(case(pod(status={"phase": "Running"}, **GROUPED), status="Running"))
    assert (answer.verdict, answer.causes) == ("scheduled", ["it runs; the record does not say on which node"])
    assert answer.message == "Running, on a node that the record does not name"


def test_another_schedulers_pod() -> None:
    assert verdicts(case(pod(schedulerName="other", **GROUPED)))[0] == "not-this-scheduler"


def test_gates_come_before_everything_that_a_node_could_say() -> None:
    gated = pod(schedulingGates=[{"name": "wait"}], nodeSelector={"no": "such"}, **GROUPED)
    assert verdicts(case(gated)) == ["gated", "no-node-fits"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished(phase: str) -> None:
    done = pod(nodeName="n1", status={"phase": phase}, **GROUPED)
    assert explain(case(done, status=phase)).verdict == "finished"
    for said, cause in (
        ({"message": "OOM"}, ": OOM"),
        ({"reason": "Evicted", "message": "no disk"}, ": Evicted no disk"),
    ):
        done = pod(nodeName="n1", status={"phase": phase, **said}, **GROUPED)
        assert explain(case(done, status=phase)).causes[0] == f"it has {phase.lower()} on n1{cause}"


def test_placed_deleted_and_terminating() -> None:
    assert explain(case(pod(nodeName="n1", status={"phase": "Running"}, **GROUPED))).verdict == "scheduled"
    simulated = case(pod(**GROUPED), gone_at="2026-01-01T00:00:05Z", gone_position=60, gone_known="recomputed")
    assert "inferred" not in explain(simulated).causes[0]
    gone = explain(case(pod(**GROUPED), gone_at="2026-01-01T00:00:05Z", gone_position=60, gone_known="inferred"))
    assert gone.verdict == "deleted"
    assert gone.causes == ["it was deleted at 2026-01-01T00:00:05Z (inferred: no watch saw it go); it never had a node"]
    told = pod(status={"conditions": [{"type": "PodScheduled", "status": "True"}]}, **GROUPED)
    traced = explain(case(told, gone_at="2026-01-01T00:00:05Z", gone_position=60, gone_known="inferred"))
    assert traced.causes[0].endswith("it had been scheduled, to a node that the record does not name")
    assert gone.nodes == []
    ending = pod(meta={"deletionTimestamp": "2026-01-01T00:00:30Z"}, **GROUPED)
    assert explain(case(ending, status="Releasing")).verdict == "terminating"


def test_no_group_and_a_group_that_is_not_there() -> None:
    alone = explain(case(pod()))
    assert alone.verdict == "podgroup-missing"
    assert "podgroup controller" in alone.causes[0]
    absent = explain(case(pod(**GROUPED), pod_group=None))
    assert absent.verdict == "podgroup-missing"
    assert "PodGroup default/g does not exist" in absent.causes[0]


def test_a_record_that_never_looked_at_podgroups_shows_no_lack_of_one() -> None:
    for waiting in (case(pod(), unwatched=["PodGroup"]), case(pod(**GROUPED), pod_group=None, unwatched=["PodGroup"])):
        assert verdicts(waiting) == ["schedulable"]
        assert any("PodGroup" in note for note in explain(waiting).notes)
    in_group = explain(case(pod(**GROUPED), pod_group=None, unwatched=["PodGroup"]))
    assert in_group.summary.endswith("its PodGroup is not in the record")
    assert "not known without its PodGroup" in in_group.causes[0]
    assert explain(case(pod(), unwatched=["PodGroup"])).summary.endswith("the scheduler has yet to bind it")


def test_a_pod_without_a_group_that_was_tried_is_not_blamed_on_it() -> None:
    tried = case(
        pod(), {"cpu": "64"}, said=[said("FailedScheduling", "0/2 nodes are unavailable: 2 Insufficient cpu.")]
    )
    assert verdicts(tried) == ["no-node-fits"]


def test_fewer_pods_than_min_member_names_who_makes_them() -> None:
    small = GroupView(
        namespace="default",
        name="g",
        pod_group=podgroup(minimum=3),
        tasks=[task(pod(**GROUPED), {"cpu": "1"})],
        owner="ReplicaSet web",
    )
    answer = explain(case(pod(**GROUPED), group=small))
    assert answer.verdict == "members-missing"
    assert "asks for 3 members and has 1: ReplicaSet web has yet to make them" in answer.causes[0]


def queue_of(state: str = "Open", **spec: Any) -> dict[str, QueueView]:
    body = obj("Queue", metadata={"name": "default", "uid": "q"}, spec={"weight": 1, **spec}, status={"state": state})
    return {"default": QueueView("default", body, {}, {}, {}, has_jobs=False)}


def test_queue_closed_comes_before_nodes() -> None:
    where = cluster([node("n1")], queues=queue_of("Closed"))
    blocked = case(pod(nodeSelector={"no": "such"}, **GROUPED), cluster=where, pod_group=podgroup("Pending"))
    assert verdicts(blocked)[:1] == ["queue-closed"]
    assert "no-node-fits" in verdicts(blocked)


def test_pending_group_over_its_queues_capability() -> None:
    where = cluster([node("n1")], queues=queue_of(capability={"cpu": "1"}))
    waiting = case(pod(**GROUPED), cluster=where, pod_group=podgroup("Pending"), asked_min={"cpu": 2000.0})
    answer = explain(waiting)
    assert answer.verdict == "queue-over-capability"
    assert "stays Pending, outside queue default" in answer.causes[1]


def test_pending_group_without_a_gate_is_told_as_such() -> None:
    where = cluster([node("n1")], queues=queue_of())
    waiting = case(pod(**GROUPED), cluster=where, pod_group=podgroup("Pending"), asked_min={"cpu": 1000.0})
    assert explain(waiting).verdict == "podgroup-pending"


def test_a_gang_broken_by_another_member() -> None:
    big = task(pod("big", **GROUPED), {"cpu": "64"}, index=5, role="big")
    answer = explain(case(pod(**GROUPED), mates=[big], pod_group=podgroup(minimum=2)))
    assert answer.verdict == "gang-short"
    assert "task big breaks the gang" in answer.causes[0]
    assert "short by 1" in answer.causes[1]
    assert answer.fits_on == ["n1", "n2"]


def test_a_running_group_whose_pod_is_pending_says_so() -> None:
    mate = task(pod("mate", **GROUPED), {"cpu": "1"}, status="Running")
    answer = explain(case(pod(**GROUPED), {"cpu": "64"}, mates=[mate], pod_group=podgroup("Running")))
    assert answer.verdict == "no-node-fits"
    assert "PodGroup default/g is Running all the same" in answer.causes[-1]


def test_volumes_come_before_nodes_only_where_they_decide() -> None:
    where = cluster(
        [node("n1")],
        claims={"default/c": claim("c")},
        classes={"wait": storage_class()},
        volumes={"v": volume("v", size="1Gi")},
    )
    assert verdicts(case(pod(**uses("c"), **GROUPED), cluster=where)) == ["no-matching-volume", "no-node-fits"]
    both = pod(**uses("c"), nodeSelector={"no": "such"}, **GROUPED)
    assert verdicts(case(both, cluster=where)) == ["no-node-fits"]


def test_a_failed_bind_has_code_count_and_times() -> None:
    tries = [
        Attempt("bind", False, f"2026-01-01T00:00:0{second}Z", 60 + second, "n1", 500, "InternalError", "injected")
        for second in (1, 2, 3)
    ]
    answer = explain(case(pod(**GROUPED), attempts=tries))
    assert answer.verdict == "bind-failed"
    assert answer.causes[0] == (
        "the bind failed 3 times between 2026-01-01T00:00:01Z and 2026-01-01T00:00:03Z: 3 x 500 injected (node n1)"
    )
    assert answer.since == "2026-01-01T00:00:01Z"
    assert {61, 62, 63} <= {one.position for one in answer.evidence}
    assert {one.known for one in answer.evidence if one.position == 61} == {"inferred"}


def test_a_failed_bind_that_only_an_event_tells_of() -> None:
    answer = explain(case(pod(**GROUPED), said=[said("FailedScheduling", "failed to bind to node n1: boom", count=4)]))
    assert answer.verdict == "bind-failed"
    recorded = "failed at least 4 times recorded (tries without an event or audit line leave no trace)"
    assert recorded in answer.causes[0]
    assert "boom (node n1)" in answer.causes[0]


def test_tries_count_as_whole_only_where_each_has_its_own_line() -> None:
    """An Event that tells of more tries than audit lines do shows that some left none."""
    one = Attempt("bind", False, "2026-01-01T00:00:01Z", 61, "n1", 500, "InternalError", "boom")
    told = said("FailedScheduling", "failed to bind to node n1: boom", count=2)
    assert "the bind failed 1 time at" in explain(case(pod(**GROUPED), attempts=[one])).causes[0]
    assert "at least 2 times recorded" in explain(case(pod(**GROUPED), attempts=[one], said=[told])).causes[0]
    volumes = Attempt("volumes", False, "2026-01-01T00:00:01Z", 61, "n1", 500, message="boom")
    refused = said("FailedScheduling", "execute preBind for pod default/p failed: boom, resync the task")
    assert "volumes failed 1 time at" in explain(case(pod(**GROUPED), attempts=[volumes])).causes[0]
    assert "at least 1 time recorded" in explain(case(pod(**GROUPED), said=[refused])).causes[0]
    placed = pod(nodeName="n1", status={"phase": "Running"}, **GROUPED)
    assert "binding it failed at least 2 times" in explain(case(placed, said=[told])).causes[-1]


@pytest.mark.parametrize(
    ("attempt", "verdict", "words"),
    [
        (
            {"code": 409, "reason": "Conflict", "object": "PersistentVolumeClaim a2"},
            "volume-conflict",
            "a2 409 Conflict",
        ),
        ({"timed_out": True, "message": "binding volumes: timed out"}, "volume-bind-timeout", "timed out"),
        ({"code": 500, "message": "boom"}, "volume-bind-failed", "500 boom"),
    ],
)
def test_attempts_to_bind_volumes(attempt: dict[str, Any], verdict: str, words: str) -> None:
    failed = Attempt("volumes", False, "2026-01-01T00:00:01Z", 61, "n1", **attempt)
    answer = explain(case(pod(**GROUPED), attempts=[failed]))
    assert answer.verdict == verdict
    assert words in answer.causes[0]


def test_provisioning_and_its_failure() -> None:
    chosen = claim("c", annotations={"volume.kubernetes.io/selected-node": "n1"})
    where = cluster(
        [node("n1")], claims={"default/c": chosen}, classes={"wait": storage_class("wait", "csi.example.com")}
    )
    subject = pod(**uses("c"), **GROUPED)
    assert explain(case(subject, cluster=where)).verdict == "provisioning"
    refusal = said("ProvisioningFailed", "no space in vg0", "PersistentVolumeClaim default/c", count=3)
    answer = explain(case(subject, cluster=where, said=[refusal]))
    assert answer.verdict == "provisioning-failed"
    assert "failed 3 times" in answer.causes[0]
    assert "no space in vg0" in answer.causes[0]


RELEASING = "Pod default/p can possibly be assigned to n2, once resource is released and minAvailable is satisfied"


def waiting(**more: Any) -> Case:
    """A pod that fits on n1 and n2 once what is ending there is gone, and not on n3."""
    busy = [
        node(name, cpu="2", used={"cpu": 2000.0}, releasing={"cpu": 2000.0}, position=position)
        for name, position in (("n1", 21), ("n2", 22))
    ]
    full = node("n3", cpu="2", used={"cpu": 2000.0}, position=23)
    return case(pod(**GROUPED), cluster=cluster([*busy, full]), **more)


def test_waiting_for_pods_that_are_ending_names_them_and_the_nominated_node() -> None:
    words = said("Unschedulable", RELEASING, source="condition", by="PodScheduled", status="False")
    ending = [Ending("default/low", 61, evicted="Pod is evicted, because of reclaim", evicted_position=62)]
    answer = explain(waiting(said=[words], ending=ending))
    assert (answer.verdict, answer.summary) == ("waiting-for-release", "it waits for 1 pod to end on n2")
    assert answer.causes == [
        "on n2, the node that the scheduler named for it, it lacks room until default/low (evicted: reclaim) is gone "
        "(cpu: asks 1, idle 0 now)",
        "1 more node would do once pods that are ending there are gone",
    ]
    assert [other.verdict for other in answer.also] == []
    assert [(one.position, one.what) for one in answer.evidence[:3]] == [
        (61, "Pod default/low as last seen"),
        (62, "event of Pod default/low"),
        (22, "Node n2 as last seen"),
    ]
    assert answer.disagreements == []


def test_what_fits_now_is_told_apart_from_what_fits_once_pods_are_gone() -> None:
    answer = explain(waiting(ending=[Ending("default/low", 61, until="2026-01-01T00:00:30Z")]))
    assert answer.fits_on == []
    assert [(row.fits, row.fits_after_release) for row in answer.nodes] == [
        (False, True),
        (False, True),
        (False, False),
    ]
    assert answer.nodes[0].reasons == ["Insufficient cpu: asks 1, idle 0 now; 2 is being released"]
    assert "on n1 it lacks room until default/low (deleted, to be gone by 2026-01-01T00:00:30Z)" in answer.causes[0]
    text = plain(lines(answer))
    assert "0 of 3 nodes would take this pod now; 2 once pods that are ending there are gone: n1, n2" in text
    assert "1 Insufficient cpu: asks 1; idle 0 of 2 (n3)" in text
    free = cluster([node("n0"), node("n1", cpu="2", used={"cpu": 2000.0}, releasing={"cpu": 2000.0})])
    both = explain(case(pod(**GROUPED), cluster=free))
    assert (both.verdict, both.fits_on) == ("schedulable", ["n0"])
    assert "it would fit on 1 node at this position (n0)" in both.causes[0]


def test_since_is_the_start_of_the_unbroken_wait() -> None:
    large = {"cpu": "64"}
    assert explain(case(pod(**GROUPED), large, created="2026-01-01T00:00:00Z")).since == "2026-01-01T00:00:00Z"
    since = "2026-01-01T00:00:07Z"
    for subject in (
        case(pod(**GROUPED), large, created="2026-01-01T00:00:00Z", waiting_since=since),
        case(pod(**GROUPED), large, created="2026-01-01T00:00:00Z", waiting_since=since, pod_group=podgroup(minimum=1)),
        case(pod(**GROUPED), created="2026-01-01T00:00:00Z", waiting_since=since),
    ):
        assert explain(subject).since == since


def test_no_line_says_again_what_another_has_said() -> None:
    """One reason for a whole gang: it stands in the causes, and in what was said."""
    mates = [task(pod(f"m{i}", **GROUPED), {"cpu": "6"}, index=i + 1) for i in range(2)]
    nodes = [node(f"n{i}", used={"cpu": 7000.0 - 1000 * i}) for i in range(3)]
    short = case(
        pod(**GROUPED), {"cpu": "6"}, mates=mates, pod_group=podgroup(minimum=3), cluster=cluster(nodes), created="t"
    )
    message = explain(short).message
    condition = said("Unschedulable", message, source="condition", by="PodScheduled", status="False")
    longer = f"3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending. Origin reason is p: {message}"
    group = said("NotEnoughResources", longer, "PodGroup default/g", "condition", by="Unschedulable", status="True")
    short.said = [condition, group, said("FailedScheduling", message)]
    answer = explain(short)
    text = plain(lines(answer))
    assert text.count("Insufficient cpu") == 2
    assert "no-node-fits" not in text
    assert [other.verdict for other in answer.also] == ["no-node-fits"]
    assert "3 Insufficient cpu: asks 6, at most 3 idle, on n2" in answer.causes[0]
    assert "(recomputed: the same, word for word)" in text
    assert "\nRecomputed" not in text
    assert len(text.splitlines()) <= 10
    everything = plain(lines(answer, full=True))
    assert "3 Insufficient cpu: asks 6; idle 1 to 3 of 8, most on n2 (n0, n1, n2)" in everything
    assert longer in everything


def test_the_recomputed_sentence_is_shown_where_nobody_said_it() -> None:
    other = said("Unschedulable", "0/2 nodes are unavailable: 2 node(s) were unschedulable.", source="condition")
    for what in ([], [other]):
        text = plain(lines(explain(case(pod(**GROUPED), {"cpu": "64"}, said=what))))
        assert "Recomputed    0/2 nodes are unavailable: 2 Insufficient cpu." in text


def test_a_member_that_fits_alone_is_told_to_before_its_mates_are_placed() -> None:
    spread = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
    members = [pod(f"m{i}", labels={"app": "x"}, affinity=spread, **GROUPED) for i in range(3)]
    mates = [task(one, {"cpu": "1"}, index=i) for i, one in enumerate(members[:2])]
    own = members[2]
    asked = case(own, mates=mates, pod_group=podgroup(minimum=3))
    asked.task = asked.group.tasks[0] if asked.group is not None else None
    text = plain(lines(explain(asked)))
    assert "2 of 2 nodes would take this pod alone, before its gang-mates are placed: n1, n2" in text


def test_condition_and_eviction_are_told() -> None:
    failed = Attempt("condition", False, "2026-01-01T00:00:01Z", 61, code=500, message="no")
    assert explain(case(pod(**GROUPED), attempts=[failed])).verdict == "condition-failed"
    before = Earlier("older", "2026-01-01T00:00:00Z", 12, "Pod is evicted, because of preempt")
    assert verdicts(case(pod(**GROUPED), earlier=[before])) == ["schedulable", "evicted"]


def test_what_differs_from_the_schedulers_words_is_said() -> None:
    condition = said(
        "Unschedulable",
        "0/2 nodes are unavailable: 2 Insufficient cpu.",
        source="condition",
        by="PodScheduled",
        status="False",
    )
    answer = explain(case(pod(nodeSelector={"no": "such"}, **GROUPED), said=[condition]))
    assert len(answer.disagreements) == 1
    assert "2 Insufficient cpu" in answer.disagreements[0]
    agreeing = explain(case(pod(**GROUPED), {"cpu": "64"}, said=[condition]))
    assert agreeing.disagreements == []
    assert agreeing.message == condition.message


def test_verdicts_stand_in_the_order_of_the_table() -> None:
    big = task(pod("big", **GROUPED), {"cpu": "64"}, index=5, role="big")
    tries = [Attempt("bind", False, "2026-01-01T00:00:01Z", 61, "n1", 500, "x", "y")]
    where = cluster([node("n1")], queues=queue_of("Closed"))
    answer = explain(case(pod(**GROUPED), mates=[big], pod_group=podgroup(minimum=2), attempts=tries, cluster=where))
    found = [answer.verdict, *(other.verdict for other in answer.also)]
    assert found == ["queue-closed", "gang-short", "bind-failed"]
    assert found == sorted(found, key=rank)
    assert set(found) <= set(VERDICTS)


def test_the_text_for_people_labels_each_run_of_lines_once() -> None:
    answer = explain(case(pod(nodeSelector={"no": "such"}, **GROUPED)))
    labels = [label for _, label, _ in labelled(lines(answer)) if label]
    assert len(labels) == len(set(labels))
    text = plain(lines(answer))
    assert text.splitlines()[0].startswith("Pod default/p (uid uid-p) at position 100")
    assert "nodeSelector no=such" in text


def test_many_kinds_of_refusal_are_cut_but_counted() -> None:
    nodes = [node(f"n{i}", taints=[{"key": f"k{i}", "effect": "NoSchedule"}], cpu=str(i + 1)) for i in range(30)]
    answer = explain(case(pod(**GROUPED), {"cpu": "40"}, cluster=cluster(nodes)))
    assert len(plain(lines(answer)).splitlines()) < 20
    assert len(answer.nodes) == 30


def test_the_default_queue_trap() -> None:
    """A job of the queue asks for attachments of a driver that no CSINode reports: everything in the queue waits, and
    the scheduler says only that the pod group is not ready."""
    body = obj("Queue", metadata={"name": "default", "uid": "q"}, spec={"weight": 1}, status={"state": "Open"})
    ghost = "attachable-volumes-csi-ghost.example.com"
    asked = {"cpu": 2000.0, "pods": 2.0, ghost: 1.0}
    where = cluster([node("n1")], queues={"default": QueueView("default", body, {}, asked, {})})
    passed = said(
        "Unschedulable",
        "pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable",
        source="condition",
        by="PodScheduled",
        status="False",
    )
    answer = explain(case(pod(**GROUPED), cluster=where, said=[passed]))
    assert answer.verdict == "queue-overused"
    assert "queue default asks for what no node has" in answer.causes[0]
    assert f"{ghost}: its jobs ask 1, the cluster has 0" in answer.causes[0]
    assert explain(case(pod(**GROUPED), cluster=where)).verdict == "schedulable"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({}, "the job is Completed"),
        ({"reason": "Done"}, "the job is Completed: Done"),
        ({"message": "all pods ended"}, "the job is Completed: all pods ended"),
        ({"reason": "Done", "message": "all pods ended"}, "the job is Completed: Done all pods ended"),
    ],
)
def test_a_finished_job_misses_no_podgroup(said: dict[str, str], cause: str) -> None:
    job = obj(
        "VolcanoJob",
        metadata={"name": "j", "namespace": "default", "uid": "j"},
        spec={"queue": "default"},
        status={"state": {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z", **said}},
    )
    asked = Case("default", "j", "j", 9, None, cluster([node("n1")]), kind="Job", job=job, job_position=8)
    answer = explain(asked)
    assert (answer.verdict, answer.causes[0]) == ("finished", cause)
