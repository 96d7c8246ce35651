"""Laws of the session's data: the columns agree with the node table of `why` on every node; a mirror kept up event by
event is one made anew; a cycle leaves no trace, and gives the same for the same seed.

Owns these laws. Called by pytest.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.reasons import scheduler_reasons
from projections.diagnosis.views import ClusterView, PlacedPod
from tests.unit.session.world import CONF, Object, World, group, node, pod, queue
from vcledger.scheduler.session.events import events_of
from vcledger.scheduler.session.feasible import ALL_CHECKS, Feasible
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.run import close_session, open_session, run
from vcledger.scheduler.session.statement import Statement
from vcledger.testing import strategies as kit
from vcledger.why_views import node_view, reported_attachments, task_view
from volcano.events.base import DomainEvent

LABELS = st.sampled_from(({"app": "a"}, {"app": "b"}, {}))
SELECTOR = {"matchLabels": {"app": "a"}}
EXTRAS: tuple[Object, ...] = (
    {},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": SELECTOR, "topologyKey": "zone"}]}}},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": SELECTOR, "topologyKey": "zone"}]}}},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]}}}},
    {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}]},
)  # fmt: skip


@st.composite
def pods(draw: st.DrawFn, names: tuple[str, ...], claims: tuple[str, ...]) -> Object:
    """A pod of a group, waiting or on a node, at times with an eye on others."""
    node = draw(st.sampled_from(("", "", *names)))
    pod = draw(kit.pods(groups=("group-0", "group-1"), claims=claims, node=node))
    pod["metadata"]["labels"] = draw(LABELS)
    pod["spec"] |= draw(st.sampled_from(EXTRAS))
    if draw(st.integers(0, 4)) == 0:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": draw(st.sampled_from((80, 81)))}]
    if node and draw(st.booleans()):
        pod["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    return pod


@st.composite
def worlds(draw: st.DrawFn) -> list[tuple[Object, bool]]:
    """Objects in the order in which they are seen, some seen again or lost."""
    cluster = draw(kit.clusters(pods_max=0))
    names = tuple(one["metadata"]["name"] for one in cluster.nodes)
    claims = tuple(one["metadata"]["name"] for one in cluster.claims)
    found = [one for one in cluster.all if one["kind"] != "PodGroup"]
    found += [draw(kit.pod_groups(st.just(name))) for name in ("group-0", "group-1")]
    found += draw(st.lists(pods(names, claims), min_size=1, max_size=10))
    steps = [(one, False) for one in draw(st.permutations(found))]
    again = draw(st.lists(st.sampled_from(found), max_size=4))
    return steps + [(one, draw(st.booleans())) for one in again]


def seen(steps: list[tuple[Object, bool]], *, each: bool = False, model: str = "exact") -> World:
    """A world of these steps; `each`: the mirror is brought up to date after each of them."""
    world = World(model=model)
    for one, gone in steps:
        (world.lose if gone else world.see)(one)
        if each:
            world.mirror.refresh()
    world.mirror.refresh()
    return world


def view_of(world: World) -> ClusterView:
    """The cluster as `why` looks at it, with every pod that is on a node."""
    cache = world.cache
    placed = [
        PlacedPod.of(world.pods[key], ref.node_name)
        for key, ref in cache.pods.items()
        if ref.node_name and ref.phase not in {"Succeeded", "Failed"}
    ]
    return ClusterView(
        nodes=[node_view(info) for _, info in sorted(cache.nodes.items())],
        pods=placed,
        claims=cache.claims,
        volumes=cache.volumes,
        classes=cache.storage_classes,
        csi_nodes=cache.csi_nodes,
    )


@pytest.mark.slow
@settings(max_examples=80)
@given(worlds())
def test_the_columns_agree_with_the_node_table_on_every_node(steps: list[tuple[Object, bool]]) -> None:
    world = seen(steps)
    mirror, cluster = world.mirror, view_of(world)
    reported = reported_attachments(world.cache)
    ssn = open_session(mirror, CONF)
    ssn.checks = ALL_CHECKS
    mirror.feasible.open(ssn)
    for job in mirror.jobs.values():
        for task in job.pending():
            info, pod = world.cache.jobs[job.uid].tasks[task.uid], world.mirror.pod(task)
            if pod is None:  # it left its group and went: the cache's job has it still
                assert not mirror.feasible.mask(task).any()
                continue
            evaluation = Evaluation(task_view(info, pod, 1, reported), pod, cluster)
            table = {node.name: evaluation.on(node) for node in cluster.nodes if node.schedulable}
            assert mirror.nodes.names == sorted(table)
            mask = mirror.feasible.mask(task)
            assert {name: not refuses(table[name]) for name in table} == dict(
                zip(mirror.nodes.names, mask.tolist(), strict=True)
            )
            said = {name: tuple(scheduler_reasons(found)) for name, found in table.items() if refuses(found)}
            refusals = mirror.feasible.refusals(task)
            assert {name: reasons for reasons, names in refusals.groups for name in names} == said


def image(mirror: Mirror) -> Any:
    """What a session looks at, in an order that does not depend on how it came to be."""
    nodes = mirror.nodes
    columns = [nodes.allocatable, nodes.idle, nodes.used, nodes.releasing, nodes.pipelined, nodes.pod_counts]
    amounts = mirror.resources.amounts
    jobs = [
        (
            uid,
            job.queue,
            job.phase,
            job.min_available,
            amounts(job.allocated),
            amounts(job.asked),
            sorted(
                (task.uid, task.status, task.node, tuple(amounts(task.request).items())) for task in job.tasks.values()
            ),
            sorted((status, sorted(index)) for status, index in job.by_status.items() if index),
        )
        for uid, job in sorted(mirror.jobs.items())
    ]
    queues = [
        (name, [amounts(part) for part in (one.allocated, one.requested, one.inqueue, one.elastic)], one.has_jobs)
        for name, one in sorted(mirror.queues.items())
    ]
    rows = [sorted(tasks) for tasks in nodes.tasks]
    tables = [[amounts(row) if row.ndim else int(row) for row in column] for column in columns]
    return nodes.names, tables, rows, jobs, queues, sorted(mirror.waiting), sorted(mirror.unadmitted)


def told(world: World, seed: int) -> list[DomainEvent]:
    return [event for _, event in events_of(run(world.mirror, CONF, seed=seed))]


@pytest.mark.slow
@settings(max_examples=80)
@given(worlds(), st.integers(0, 9), st.sampled_from(("exact", "volcano-1.11", "volcano-1.10")))
def test_a_mirror_kept_up_is_one_made_anew_and_a_cycle_leaves_no_trace(
    steps: list[tuple[Object, bool]], seed: int, model: str
) -> None:
    kept, anew = seen(steps, each=True, model=model), seen(steps, model=model)
    before = image(kept.mirror)
    assert before == image(anew.mirror)
    assert set(anew.mirror.resources.names) <= set(kept.mirror.resources.names)
    first = told(kept, seed)
    kept.mirror.refresh()
    assert image(kept.mirror) == before
    again = told(kept, seed)
    assert msgspec.json.encode(again) == msgspec.json.encode(first)
    assert msgspec.json.encode(told(anew, seed)) == msgspec.json.encode(first)
    assert not np.isnan(kept.mirror.nodes.idle).any()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans(), st.booleans()), max_size=12))
def test_columns_that_follow_what_is_done_are_those_made_anew(steps: list[tuple[int, int, bool, bool]]) -> None:
    """Task, node, whether it is promised only, and whether the statement is discarded after it."""
    nodes = [node(f"n{index}", cpu=str(2 + index), pods=str(1 + index)) for index in range(3)]
    tasks = [pod(f"p{index}", "g", cpu=str(1 + index % 3)) for index in range(6)]
    running = pod("r", "g", on="n2")
    world = World(queue(), *nodes, group("g"), *tasks, running)
    world.mirror.refresh()
    before = image(world.mirror)
    ssn = open_session(world.mirror, CONF)
    ssn.checks = ALL_CHECKS
    feasible = world.mirror.feasible
    feasible.open(ssn)
    job = ssn.jobs["d/g"]
    shapes = [task.like for task in job.pending()]
    statement = Statement(ssn)
    for number, row, promised, discarded in steps:
        task = job.tasks[f"p{number}-u"]
        if task.node:
            continue
        (statement.pipeline if promised else statement.allocate)(task, ssn.nodes.names[row])
        feasible.columns(shapes[number])
        if discarded:
            statement.discard()
    if job.tasks["r-u"].status == 32:
        statement.evict(job.tasks["r-u"], "room", "preempt")
    for shape in shapes:
        kept = feasible.columns(shape)
        fresh = Feasible(world.mirror)
        fresh.open(ssn)
        anew = fresh.columns(shape)
        assert (kept.now.tolist(), kept.later.tolist()) == (anew.now.tolist(), anew.later.tolist())
        assert kept.open == anew.open
    close_session(ssn)
    assert image(world.mirror) == before


WORDS = {
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "pod-anti-affinity": "node(s) didn't match pod anti-affinity rules",
    "spread": "node(s) didn't match pod topology spread constraints",
    "node-affinity": "node(s) didn't match Pod's node affinity/selector",
    "taints": "node(s) had untolerated taint(s)",
    "unschedulable": "node(s) were unschedulable",
    "pod-count": "node(s) pod number exceeded",
    "resources": "Insufficient cpu",
}


def asking(family: str) -> Object:
    """The spec of a pod that one family keeps from node n1, where a pod of app a runs, and lets onto n2."""
    near = {"labelSelector": SELECTOR, "topologyKey": "zone"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    port = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    specs: dict[str, Object] = {
        "ports": {"containers": port},
        "pod-anti-affinity": {"affinity": {"podAntiAffinity": {required: [near]}}},
        "spread": {"topologySpreadConstraints": [spread]},
        "node-affinity": {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}},
    }
    return specs.get(family, {})


@pytest.mark.parametrize("family", WORDS)
def test_each_family_keeps_the_pod_from_a_node_in_its_words(family: str) -> None:
    parts: dict[str, Object] = {
        "taints": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "unschedulable": {"unschedulable": True},
        "pod-count": {"pods": "1"},
        "resources": {"cpu": "1"},
    }
    first = node("n1", labels={"zone": "a"}, **parts.get(family, {}))
    there = pod("r", "o", cpu="1", on="n1", labels={"app": "a"}, spec={**asking("ports")} if family == "ports" else {})
    wants = pod("p", "g", cpu="" if family == "pod-count" else "1", labels={"app": "a"}, spec=asking(family))
    world = World(queue(), first, node("n2", labels={"zone": "b"}), group("o"), there, group("g"), wants)
    world.mirror.refresh()
    ssn = open_session(world.mirror, CONF)
    ssn.checks = ALL_CHECKS
    world.mirror.feasible.open(ssn)
    (task,) = ssn.jobs["d/g"].pending()
    assert world.mirror.feasible.mask(task).tolist() == [False, True]
    assert world.mirror.feasible.fits_now(task, 0) is (family == "resources")
    ((said, names),) = world.mirror.feasible.refusals(task).groups
    assert names == ["n1"]
    assert WORDS[family] in said
    lasting = family in {"taints", "unschedulable", "node-affinity"}
    assert world.mirror.feasible.resolvable(task).tolist() == ([1] if lasting else [0, 1])
    off = "pod-affinity" if family == "pod-anti-affinity" else family
    if family != "resources":
        ssn.checks = ALL_CHECKS - {off}
        world.mirror.feasible.open(ssn)
        assert world.mirror.feasible.mask(task).tolist() == [True, True]
