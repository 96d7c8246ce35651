"""The trial of a gang: order, what breaks it, when the scheduler goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.diagnosis.gang import Trial, scheduling_order, try_gang
from projections.diagnosis.views import GroupView, NodeView, TaskView
from projections.diagnosis.words import group_message, task_message
from tests.unit.diagnosis.build import cluster, node, obj, pod, task


def group(tasks: list[TaskView], minimum: int, **spec: Any) -> GroupView:
    body = obj(
        "PodGroup",
        metadata={"name": "g", "namespace": "default", "uid": "u"},
        spec={"minMember": minimum, "queue": "default", **spec},
        status={"phase": "Inqueue"},
    )
    return GroupView(namespace="default", name="g", pod_group=body, tasks=tasks)


def members(count: int, cpu: str = "2", role: str = "w", **more: Any) -> list[TaskView]:
    return [task(pod(f"{role}-{i}"), {"cpu": cpu}, index=i, role=role, **more) for i in range(count)]


def trial(tasks: list[TaskView], minimum: int, nodes: list[NodeView], **spec: Any) -> Trial:
    return try_gang(group(tasks, minimum, **spec), cluster(nodes))


def test_a_gang_that_fits_is_placed_whole() -> None:
    found = trial(members(4), 4, [node("n1", cpu="4"), node("n2", cpu="4")])
    assert len(found.placed) == 4
    assert found.short == 0
    assert found.breaker is None


def test_the_first_that_fits_nowhere_breaks_it_and_the_rest_is_not_tried() -> None:
    found = trial(members(4), 4, [node("n1", cpu="4")])
    assert [task.name for task in found.order if task.uid in found.placed] == ["w-0", "w-1"]
    assert found.breaker is not None
    assert found.breaker.name == "w-2"
    assert found.untried == ["uid-w-3"]
    assert found.short == 2


def test_members_that_run_already_count() -> None:
    running = members(2, role="r", status="Running")
    found = trial([*running, *members(2)], 4, [node("n1", cpu="4")])
    assert (found.ready, found.short) == (2, 0)


def test_after_a_failure_others_of_the_role_are_skipped_and_other_roles_tried() -> None:
    tasks = [*members(3, "64", "big"), *members(2, "1", "small")]
    found = trial(tasks, 1, [node("n1", cpu="4")])
    assert list(found.failed) == ["uid-big-0"]
    assert found.skipped == {"uid-big-1": "big-0", "uid-big-2": "big-0"}
    assert set(found.placed) == {"uid-small-0", "uid-small-1"}
    assert found.short == 0


def test_a_role_that_misses_its_own_minimum_ends_the_trial() -> None:
    tasks = [*members(1, "64", "big"), *members(2, "1", "small")]
    found = trial(tasks, 2, [node("n1", cpu="4")], minTaskMember={"big": 1, "small": 1})
    assert set(found.untried) == {"uid-small-0", "uid-small-1"}


def test_without_minimums_of_roles_the_others_are_tried_even_if_they_cannot_be_enough() -> None:
    tasks = [*members(3, "64", "big"), *members(2, "1", "small")]
    found = trial(tasks, 4, [node("n1", cpu="4")])
    assert set(found.placed) == {"uid-small-0", "uid-small-1"}
    assert (found.untried, found.short) == ([], 2)


@pytest.mark.parametrize(("small", "untried"), [(2, []), (1, ["uid-small-0", "uid-big-1", "uid-big-2"])])
def test_a_minimum_below_the_sum_of_the_roles_is_held_against_what_is_left_of_other_roles(
    small: int, untried: list[str]
) -> None:
    tasks = [*members(3, "64", "big"), *members(small, "1", "small")]
    found = trial(tasks, 2, [node("n1", cpu="4")], minTaskMember={"big": 2, "small": 1})
    assert found.untried == untried


def test_what_is_left_leaves_out_pods_without_a_role_once_one_of_them_failed() -> None:
    tasks = [*members(1, "64", ""), *(task(pod(f"more-{i}"), {"cpu": "1"}, index=1 + i) for i in range(2))]
    assert trial(tasks, 2, [node("n1", cpu="4")], minTaskMember={"w": 3}).untried == ["uid-more-0", "uid-more-1"]


def test_gated_and_best_effort_members_are_left_out() -> None:
    gated = task(pod("gated"), {"cpu": "1"}, gated=True)
    easy = task(pod("easy"))
    found = trial([gated, easy, *members(1)], 2, [node("n1")])
    assert [one.name for one in found.order] == ["w-0"]
    assert found.ready == 1
    assert found.short == 0


def test_order_is_priority_then_index_then_age_then_uid() -> None:
    tasks = [
        task(pod("late"), {"cpu": "1"}, index=0, created="2026-01-02T00:00:00Z"),
        task(pod("early"), {"cpu": "1"}, index=0, created="2026-01-01T00:00:00Z"),
        task(pod("second"), {"cpu": "1"}, index=1),
        task(pod("urgent"), {"cpu": "1"}, index=9, priority=100),
    ]
    assert [one.name for one in scheduling_order(tasks)] == ["urgent", "early", "late", "second"]


def test_host_anti_affinity_puts_one_on_each_node() -> None:
    rule = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    tasks = [task(pod(f"w-{i}", labels={"app": "x"}, affinity=rule), {"cpu": "1"}, index=i, role="w") for i in range(4)]
    where = cluster([node(f"n{i}") for i in range(3)])
    found = try_gang(group(tasks, 4), where)
    assert sorted(found.placed.values()) == ["n0", "n1", "n2"]
    assert found.breaker is not None
    assert group_message(group(tasks, 4), found, where) == (
        "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 1 Unschedulable, 3 Schedulable. Origin reason is "
        "w-3: 0/3 nodes are unavailable: 3 node(s) didn't match pod anti-affinity rules."
    )


def test_the_sentence_of_each_member() -> None:
    where = cluster([node("n1", cpu="4")])
    whole = group(members(3), 3)
    found = try_gang(whole, where)
    tasks = {one.name: one for one in whole.tasks}
    assert task_message(tasks["w-0"], whole, found, where) == (
        "Pod default/w-0 can possibly be assigned to n1, once minAvailable is satisfied"
    )
    assert task_message(tasks["w-2"], whole, found, where) == "0/1 nodes are unavailable: 1 Insufficient cpu."
    loose = group([*members(3)], 1)
    found = try_gang(loose, cluster([node("n1", cpu="2")]))
    assert task_message(loose.tasks[2], loose, found, where) == (
        "Task w-2 with role spec w has already predicated failed, skip"
    )


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=6),
    st.lists(st.integers(1, 10), min_size=1, max_size=4),
)
def test_a_trial_never_oversells_a_node(requests: list[int], sizes: list[int]) -> None:
    tasks = [task(pod(f"t-{i}"), {"cpu": str(cpu)}, index=i, role=f"r{i}") for i, cpu in enumerate(requests)]
    found = trial(tasks, 1, [node(f"n{i}", cpu=str(size)) for i, size in enumerate(sizes)])
    used: dict[str, int] = {}
    for uid, name in found.placed.items():
        used[name] = used.get(name, 0) + requests[int(uid.removeprefix("uid-t-"))]
    assert all(used[name] <= sizes[int(name[1:])] for name in used)
    assert len(found.placed) + len(found.failed) + len(found.skipped) + len(found.untried) == len(tasks)


# --- what asks for nothing ----------------------------------------------------------------------------------------


def test_what_asks_for_nothing_keeps_what_refused_it_and_breaks_no_gang() -> None:
    """Volcano's backfill writes the nodes' refusals of such a task as allocate does of the others."""
    idle = task(pod("b", nodeSelector={"no": "such"}))
    of, nodes = group([idle, *members(1)], 2), cluster([node("n1"), node("n2")])
    found = try_gang(of, nodes)
    assert (found.short, found.breaker, list(found.placed), list(found.unfilled)) == (0, None, ["uid-w-0"], ["uid-b"])
    words = "0/2 nodes are unavailable: 2 node(s) didn't match Pod's node affinity/selector."
    assert task_message(idle, of, found, nodes) == words
    assert group_message(of, found, nodes).endswith(f". Origin reason is b: {words}")
    assert list(found.untried_all().unfilled) == ["uid-b"]


def test_what_asks_for_nothing_and_fits_has_no_refusals_and_gates_are_asked_first() -> None:
    gated = task(pod("b", nodeSelector={"no": "such"}), gated=True)
    assert trial([task(pod("a")), gated, *members(1)], 1, [node("n1")]).unfilled == {}


def test_backfill_finds_the_nodes_without_what_a_short_gang_gives_back() -> None:
    """The member that had a place holds its port no more when the gang of two is given up; one that goes on does."""
    ports = {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
    first = task(pod("w-0", **ports), {"cpu": "2"}, index=0)
    idle = task(pod("b", **ports))
    short = trial([first, *members(2)[1:], idle], 3, [node("n1", cpu="2")])
    assert (short.short, short.unfilled) == (1, {})
    assert list(trial([first, idle], 2, [node("n1", cpu="2")]).unfilled) == ["uid-b"]


def test_what_backfill_found_a_node_for_is_allocated_while_its_gang_is_short() -> None:
    idle, large = task(pod("b")), members(1, "64")[0]
    of, nodes = group([idle, large], 2), cluster([node("n1")])
    found = try_gang(of, nodes)
    assert (found.short, found.filled) == (1, {"uid-b": "n1"})
    assert task_message(idle, of, found, nodes) == (
        "Pod default/b can possibly be assigned to n1, once minAvailable is satisfied"
    )
    assert group_message(of, found, nodes) == (
        "pod group is not ready, 1 Allocated, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable. "
        "Origin reason is w-0: 0/1 nodes are unavailable: 1 Insufficient cpu."
    )


def test_of_a_gang_with_too_few_members_backfill_tries_none() -> None:
    assert trial([task(pod("b"))], 2, [node("n1")]).filled == {}
