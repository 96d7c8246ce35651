"""The plugins' numbers, worked out by hand or read off a real scheduler's log (recording 05, at -v=4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from projections.diagnosis.unasked import unasked
from tests.unit.session.small import Small
from vcledger.scheduler.session.actions import enqueue
from vcledger.scheduler.session.framework import PERMIT, REJECT, Session
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.outcome import Enqueued, Outcome
from vcledger.scheduler.session.plugins import nodeorder
from vcledger.scheduler.session.plugins.binpack import FEW
from vcledger.scheduler.session.plugins.drf import Drf
from vcledger.scheduler.session.plugins.gang import is_pipelined, is_ready, is_starving, valid
from vcledger.scheduler.session.plugins.nodeorder import NodeOrder
from vcledger.scheduler.session.plugins.nodeorder_nodes import image_scores
from vcledger.scheduler.session.plugins.predicates import FAMILIES
from vcledger.scheduler.session.plugins.proportion import attributes, divide
from vcledger.scheduler.session.statement import Statement
from volcano.objects.core import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceQuota,
    ResourceQuotaStatus,
    ResourceRequirements,
    Toleration,
)
from volcano.objects.meta import ObjectMeta, ResourceMap
from volcano.objects.scheduling import PodGroup, PodGroupSpec
from volcano.objects.status import TaskStatus


def all_rows(ssn: Session) -> NDArray[np.intp]:
    return np.arange(len(ssn.nodes))


# --- priority -----------------------------------------------------------------------------------------------------


def test_priority_orders_jobs_and_tasks_and_spares_equals() -> None:
    world = Small()
    world.node("n", 8, 8)
    high, low = world.job("high", priority=10), world.job("low", priority=1)
    mine, other = world.task(high, "mine", priority=5), world.task(high, "other", priority=4, on="n")
    same, victim = world.task(high, "same", priority=5, on="n"), world.task(low, "victim", priority=9, on="n")
    ssn = world.open("priority")
    assert ssn.compare_jobs(high, low) == -1
    assert ssn.compare_tasks(mine, other) == -1
    assert ssn.victims("preemptable", mine, [other, same, victim]) == [other, victim]
    assert ssn.victims("preemptable", victim, [mine]) == []
    assert ssn.job_starving(high)
    assert not ssn.job_starving(low)


# --- gang ---------------------------------------------------------------------------------------------------------


def test_gang_counts_those_that_ask_for_nothing_while_they_wait() -> None:
    world = Small()
    world.node("n", 8, 8)
    job = world.job("job", min_available=2)
    world.task(job, "a", on="n")
    world.task(job, "b", cpu=0, best_effort=True)
    assert is_ready(job)
    assert is_pipelined(job)
    assert is_starving(job)


def test_gang_needs_each_role_unless_the_minimum_is_below_their_sum() -> None:
    world = Small()
    world.node("n", 8, 8)
    job = world.job("job", min_available=2, task_min_available={"ps": 1, "worker": 1})
    world.task(job, "w0", role="worker", on="n")
    world.task(job, "w1", role="worker", on="n")
    ssn = world.open("gang")
    assert valid(job) == ("NotEnoughPodsOfTask", "Not enough valid pods of each task for gang-scheduling")
    assert not ssn.job_ready(job)
    job.task_min_available = {"ps": 1, "worker": 2}
    assert valid(job) is None
    assert ssn.job_ready(job)


def test_gang_passes_over_a_job_with_too_few_tasks() -> None:
    world = Small()
    job = world.job("job", min_available=3)
    world.task(job, "a")
    world.task(job, "b", status=TaskStatus.FAILED)
    ssn = world.open("gang")
    assert ssn.job_valid(job) == ("NotEnoughTasks", "Not enough valid tasks for gang-scheduling, valid: 1, min: 3")


def test_gang_gives_up_only_what_a_job_has_above_its_minimum() -> None:
    world = Small()
    world.node("n", 8, 8)
    job, other = world.job("job", min_available=2), world.job("other")
    tasks = [world.task(job, f"t{number}", on="n") for number in range(4)]
    preemptor = world.task(other, "p")
    ssn = world.open("gang")
    assert ssn.victims("preemptable", preemptor, tasks) == tasks[:2]
    assert ssn.victims("reclaimable", preemptor, tasks) == tasks[:2]


def test_gang_puts_jobs_first_that_are_not_ready() -> None:
    world = Small()
    world.node("n", 8, 8)
    ready, waiting = world.job("a", min_available=1), world.job("b", min_available=1)
    world.task(ready, "r", on="n")
    world.task(waiting, "w")
    assert world.open("gang").compare_jobs(waiting, ready) == -1


# --- conformance --------------------------------------------------------------------------------------------------


def test_conformance_spares_what_the_cluster_runs_on() -> None:
    world = Small()
    world.node("n", 8, 8)
    job, other = world.job("job"), world.job("other")
    plain, critical = world.task(job, "plain", on="n"), world.task(job, "critical", on="n")
    system = world.task(job, "system", on="n")
    system.namespace = "kube-system"
    world.pods["critical"] = Pod(spec=PodSpec(priority_class_name="system-node-critical"))
    preemptor = world.task(other, "p")
    ssn = world.open("conformance")
    assert ssn.victims("reclaimable", preemptor, [plain, critical, system]) == [plain]


# --- drf ----------------------------------------------------------------------------------------------------------


def test_drf_shares_follow_what_the_session_gives_promises_and_takes() -> None:
    """64 cores: one core is the share 0.015625 that the real log has."""
    world = Small()
    for number in range(8):
        world.node(f"node-{number}", 8, 32)
    job, other = world.job("job"), world.job("other")
    first, second = world.task(job, "a", 1, 1), world.task(job, "b", 1, 1)
    running = world.task(other, "r", 2, 1, on="node-0")
    ssn = world.open()
    drf = Drf({})
    drf.on_open(ssn)
    assert drf.share(job) == 0.0
    assert drf.share(other) == 0.03125
    statement = Statement(ssn)
    statement.allocate(first, "node-4")
    assert drf.share(job) == 0.015625
    statement.pipeline(second, "node-5")
    assert drf.share(job) == 0.03125
    statement.evict(running, "preempt", "preempt")
    assert drf.share(other) == 0.0
    statement.discard()
    assert (drf.share(job), drf.share(other)) == (0.0, 0.03125)


def test_drf_takes_memory_when_that_is_the_larger_part() -> None:
    world = Small()
    world.node("n", 10, 10)
    left, right = world.job("left"), world.job("right")
    world.task(left, "l", 4, 1, on="n")
    world.task(right, "r", 1, 5, on="n")
    assert world.open("drf").compare_jobs(left, right) == -1


def test_drf_lets_a_job_be_preempted_down_to_the_preemptors_share() -> None:
    """With its task the preemptor's job has 2 of 10 cores; the other has 4 of them, and keeps at least 2."""
    world = Small()
    world.node("n", 10, 10)
    mine, other = world.job("mine"), world.job("other")
    world.task(mine, "m", 1, on="n")
    preemptor = world.task(mine, "p", 1)
    tasks = [world.task(other, f"t{number}", 1, on="n") for number in range(4)]
    assert world.open("drf").victims("preemptable", preemptor, tasks) == tasks[:2]


# --- overcommit ---------------------------------------------------------------------------------------------------


def test_overcommit_admits_up_to_its_factor_less_what_is_used() -> None:
    """10 cores x 1.2 - 4 used = 8 left, of which 3 are admitted already."""
    world = Small()
    world.node("n", 10, 10)
    running = world.job("running", phase="Running")
    world.task(running, "r", 4, on="n")
    world.queues["default"].inqueue = world.amount(3)
    fits, over = world.job("fits", least=world.amount(5)), world.job("over", least=world.amount(5.1))
    nothing = world.job("nothing")
    ssn = world.open("overcommit")
    assert ssn.job_enqueueable(fits)
    assert ssn.job_enqueueable(nothing)
    assert not ssn.job_enqueueable(over)
    assert ssn.blocked[over.uid] == (
        "the cluster is overused for it: cpu: asks 5.1 on top of 3 already admitted, 8 left (overcommit factor 1.2)"
    )
    ssn.job_enqueued(fits)
    assert not ssn.job_enqueueable(world.job("small", least=world.amount(0.2)))


def test_overcommit_tells_its_factor_of_what_no_node_has() -> None:
    world = Small()
    ssn = world.open("overcommit")
    over = world.job("over", least=world.amount(1))
    assert not ssn.job_enqueueable(over)
    assert ssn.blocked[over.uid].endswith("asks 1 on top of 0 already admitted, 0 left (overcommit factor 1.2)")


def test_overcommit_has_a_factor_for_one_resource() -> None:
    world = Small()
    world.node("n", 10, 10)
    more_cpu = world.job("cpu", least=world.amount(20))
    more_memory = world.job("memory", least=world.amount(1, 11))
    ssn = world.open("overcommit", arguments={"overcommit": {"overcommit-factor": 1.0, "overcommit-factor.cpu": 2}})
    assert ssn.job_enqueueable(more_cpu)
    assert not ssn.job_enqueueable(more_memory)


# --- proportion ---------------------------------------------------------------------------------------------------


def _asking(world: Small, name: str, cpu: float, **more: object) -> None:
    world.queue(name, **more)  # type: ignore[arg-type]
    world.task(world.job(f"{name}-job", name), f"{name}-task", cpu)


def test_proportion_gives_what_one_queue_does_not_ask_to_the_others() -> None:
    """16 cores by 3:1 are 12 and 4; a asks only 6, so b gets the other 10."""
    world = Small()
    _asking(world, "a", 6, weight=3)
    _asking(world, "b", 14, weight=1)
    queues = attributes(world.queues.values(), world.amount(16, 16))
    divide(queues, world.amount(16, 16), world.resources)
    assert [one.deserved[0] for one in queues] == [6000.0, 10000.0]


def test_proportion_keeps_to_capability_and_guarantee() -> None:
    """c is guaranteed 4 and asks nothing; a may have 2; b gets what is left: 10 - 4 - 2."""
    world = Small()
    limit = world.queue("a").capability.copy()
    limit[0] = 2000.0
    _asking(world, "a", 9, capability=limit)
    _asking(world, "b", 9)
    _asking(world, "c", 0, guarantee=world.amount(4))
    queues = attributes(world.queues.values(), world.amount(10, 10))
    divide(queues, world.amount(10, 10), world.resources)
    assert [one.deserved[0] for one in queues] == pytest.approx([2000.0, 4000.0, 4000.0])
    assert [one.limit[0] for one in queues] == [2000.0, 6000.0, 10000.0]


def test_proportion_stops_a_queue_at_its_share_and_reclaims_above_it() -> None:
    """8 cores, two queues alike: each deserves 4. a holds 6, b none."""
    world = Small()
    world.node("n", 8, 8)
    a, b = world.job("a", "a"), world.job("b", "b")
    held = [world.task(a, f"t{number}", 2, on="n") for number in range(3)]
    world.task(a, "more", 2)
    asks = world.task(b, "asks", 2)
    world.task(b, "asks-too", 2)
    ssn = world.open("proportion")
    assert ssn.compare_queues(world.queues["b"], world.queues["a"]) == -1
    assert ssn.overused(world.queues["a"])
    assert not ssn.overused(world.queues["b"])
    assert ssn.allocatable(world.queues["b"], asks)
    assert ssn.preemptive(world.queues["b"], asks)
    assert not ssn.allocatable(world.queues["a"], world.task(a, "another", 1))
    assert ssn.victims("reclaimable", asks, held) == held[:1]


def test_proportion_follows_what_the_session_does() -> None:
    world = Small()
    world.node("n", 8, 8)
    b = world.job("b", "b")
    world.task(world.job("a", "a"), "a0", 8)
    first, second = world.task(b, "b0", 3), world.task(b, "b1", 3)
    ssn = world.open("proportion")
    assert ssn.allocatable(world.queues["b"], first)
    statement = Statement(ssn)
    statement.allocate(first, "n")
    assert not ssn.allocatable(world.queues["b"], second)
    statement.discard()
    assert ssn.allocatable(world.queues["b"], second)


def test_proportion_lets_nothing_into_a_closed_queue_or_over_its_capability() -> None:
    world = Small()
    world.node("n", 10, 10)
    limit = world.queue("a").capability.copy()
    limit[0] = 4000.0
    world.queue("a", capability=limit)
    held = world.job("held", "a")
    world.task(held, "h", 3, on="n")
    world.queues["a"].elastic = world.amount(1)
    fits, over = world.job("fits", "a", least=world.amount(2)), world.job("over", "a", least=world.amount(1))
    world.queue("shut", state="Closed")
    shut = world.job("shut", "shut")
    ssn = world.open("proportion")
    assert ssn.job_enqueueable(fits)
    assert not ssn.job_enqueueable(over), "what was admitted counts"
    assert ssn.blocked[over.uid] == (
        "queue a is over its capability: cpu: asks 1 on top of 4 allocated or admitted, may have 4"
    )
    assert not ssn.job_enqueueable(shut)
    assert ssn.blocked[shut.uid] == "queue shut is Closed"


def test_proportion_goes_by_a_queues_priority_first() -> None:
    world = Small()
    world.node("n", 8, 8)
    world.queue("low", priority=1)
    world.queue("high", priority=2)
    world.job("idle", "low")
    world.task(world.job("busy", "high"), "t", 8, on="n")
    ssn = world.open("proportion")
    assert ssn.compare_queues(world.queues["high"], world.queues["low"]) == -1


# --- predicates ---------------------------------------------------------------------------------------------------


def test_predicates_says_which_checks_are_on() -> None:
    assert Small().open("priority").checks is None
    assert Small().open("predicates").checks == frozenset(FAMILIES)
    off = {"predicates": {"predicate.TaintTolerationEnable": False, "predicate.PodTopologySpreadEnable": False}}
    ssn = Small().open("predicates", arguments=off)
    assert ssn.checks == frozenset(FAMILIES) - {"taints", "spread"}


# --- nodeorder and binpack: the numbers of a real log ---------------------------------------------------------------

IDLE = {"node-2": (8000, 32.0), "node-3": (3000, 26.0), "node-4": (1000, 23.0), "node-6": (4000, 28.0)}
"""Idle milli-cores and Gi of the nodes (8 cores, 32Gi each) when fforever-w-0 (1 core, 1Gi) was scored."""


def _scored(cpu: float = 1, memory: float = 1) -> tuple[Small, SessionTask]:
    world = Small()
    other = world.job("other")
    for name, (milli, gi) in IDLE.items():
        world.node(name, 8, 32)
        if milli < 8000:
            world.task(other, f"on-{name}", 8 - milli / 1000, 32 - gi, on=name)
    task = world.task(world.job("fforever"), "fforever-w-0", cpu, memory)
    return world, task


def test_nodeorder_and_binpack_score_as_the_real_scheduler_did() -> None:
    world, task = _scored()
    ssn = world.open("nodeorder")
    plugin = NodeOrder({})
    plugin.on_open(ssn)
    rows = all_rows(ssn)
    assert plugin.least_requested(task, rows).tolist() == [91, 51, 34, 60]
    assert plugin.balanced(task, rows).tolist() == [72, 72, 72, 72]
    assert ssn.scores(task, rows).tolist() == [463.0, 423.0, 406.0, 432.0], "with 3 x 100 for taints that nobody has"
    assert world.open("binpack").scores(task, rows).tolist() == [7.8125, 48.4375, 65.625, 39.0625]


QUIET = Pod(spec=PodSpec(containers=[Container(name="main")]))
"""Its container doesn't say what it asks."""


def _with_requests(*requests: ResourceMap, init: Sequence[Container] = ()) -> Pod:
    containers = [Container(resources=ResourceRequirements(requests=one)) for one in requests]
    return Pod(spec=PodSpec(containers=containers, init_containers=list(init)))


def test_nodeorder_counts_a_pod_that_does_not_say_what_it_asks_as_a_small_one() -> None:
    """100m of 8 cores leave 98 in 100, 200Mi of 32Gi 99: the mean, cut, is 98. It has no opinion on balance."""
    world, _ = _scored()
    task = world.task(world.job("quiet"), "quiet", 0, 0, pod=QUIET)
    plugin = NodeOrder({})
    plugin.on_open(world.open())
    rows = np.array([0])
    assert plugin.least_requested(task, rows).tolist() == [98]
    assert plugin.balanced(task, rows).tolist() == [0]


def test_a_container_that_states_a_request_of_nothing_counts_nothing() -> None:
    """As recording 02's best-effort pod: its node stays as good as those beside it. Each container counts by itself,
    sidecars too, and a plain init container where it is the peak."""
    mega = 1024 * 1024
    assert unasked(_with_requests({"cpu": "0", "memory": "0"})) == (0.0, 0.0)
    assert unasked(QUIET) == (100.0, 200.0 * mega)
    assert unasked(_with_requests({"cpu": "1", "memory": "1Gi"}, {})) == (100.0, 200.0 * mega)
    assert unasked(_with_requests({"cpu": "1"}, {"memory": "1Gi"})) == (100.0, 200.0 * mega)
    sidecar = Container(restart_policy="Always")
    assert unasked(_with_requests({"cpu": "1", "memory": "1Gi"}, init=[sidecar])) == (100.0, 200.0 * mega)
    assert unasked(_with_requests({"cpu": "1", "memory": "1Gi"}, init=[Container()])) == (0.0, 0.0)
    assert unasked(_with_requests({"cpu": "0", "memory": "50Mi"}, init=[Container()])) == (100.0, 150.0 * mega)
    assert unasked(Pod()) == (0.0, 0.0)


def test_what_nodeorder_keeps_of_pods_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that come and go, versions of them too: of those that have gone nothing stays for ever."""
    monkeypatch.setattr(nodeorder, "KNOWN_MAX", 4)
    world = Small()
    world.node("n", 8, 32)
    job = world.job("job")
    there = [world.task(job, f"quiet-{number}", 0, on="n", best_effort=True, pod=QUIET) for number in range(9)]
    ssn = world.open()
    known = nodeorder._Unasked(0, 0, np.zeros((1, 2)))
    mega = 1024 * 1024
    assert known.on(there, ssn) == [(100.0, 200.0 * mega)] * 9
    assert len(known.known) <= 4
    known.known.clear()
    for position in range(9):
        there[0].position = position
        assert known.on(there[:1], ssn) == [(100.0, 200.0 * mega)]
    assert list(known.known) == [there[0].uid]


def test_nodeorder_counts_what_pods_there_do_not_ask() -> None:
    """Three pods that ask for nothing count 300m of 8 cores and 600Mi of 32Gi: with one core and 1Gi more, 83 and 95 in
    100 are left, 89 in the mean. An evicted one counts no more: 85 and 95."""
    world = Small()
    world.node("n", 8, 32)
    job = world.job("job")
    quiet = [world.task(job, f"quiet-{number}", 0, on="n", best_effort=True, pod=QUIET) for number in range(3)]
    task = world.task(job, "task", 1, 1)
    ssn = world.open()
    plugin = NodeOrder({})
    plugin.on_open(ssn)
    rows = np.array([0])
    assert plugin.least_requested(task, rows).tolist() == [89]
    statement = Statement(ssn)
    statement.evict(quiet[0], "preempt", "preempt")
    assert plugin.least_requested(task, rows).tolist() == [90]
    statement.discard()
    assert plugin.least_requested(task, rows).tolist() == [89]
    statement.allocate(world.task(job, "quiet-3", 0, pod=QUIET), "n")
    assert plugin.least_requested(task, rows).tolist() == [(82 + 94) // 2]


def test_nodeorder_most_requested_is_the_other_way_round() -> None:
    world, task = _scored()
    plugin = NodeOrder({"mostrequested.weight": 1})
    plugin.on_open(world.open())
    assert plugin.most_requested(task, np.array([0, 2])).tolist() == [7, 65]


def test_nodeorder_prefers_fewer_taints_and_matching_labels() -> None:
    world = Small()
    world.node("a", 8, 8, taints=[("x", "PreferNoSchedule"), ("y", "PreferNoSchedule")], labels={"disk": "ssd"})
    world.node("b", 8, 8, taints=[("x", "PreferNoSchedule")])
    world.node("c", 8, 8, taints=[("z", "NoSchedule")], labels={"disk": "hdd"})
    match = NodeSelectorRequirement(key="disk", operator="In", values=["ssd"])
    have = NodeSelectorRequirement(key="disk", operator="Exists")
    terms = [
        PreferredSchedulingTerm(weight=30, preference=NodeSelectorTerm(match_expressions=[match])),
        PreferredSchedulingTerm(weight=10, preference=NodeSelectorTerm(match_expressions=[have])),
    ]
    affinity = Affinity(node_affinity=NodeAffinity(preferred_during_scheduling_ignored_during_execution=terms))
    job = world.job("job")
    plain = world.task(job, "plain", 1, 1)
    choosy = world.task(job, "choosy", 1, 1, pod=Pod(spec=PodSpec(affinity=affinity)))
    tolerant = Pod(
        spec=PodSpec(tolerations=[Toleration(key="x", operator="Exists"), Toleration(key="y", operator="Exists")])
    )
    calm = world.task(job, "calm", 1, 1, pod=tolerant)
    weights = {"leastrequested.weight": 0, "balancedresource.weight": 0}
    ssn = world.open("nodeorder", arguments={"nodeorder": weights})
    rows = all_rows(ssn)
    assert ssn.scores(plain, rows).tolist() == [0.0, 150.0, 300.0]
    assert ssn.scores(choosy, rows).tolist() == [0 + 200.0, 150 + 0.0, 300 + 50.0]
    assert ssn.scores(calm, rows).tolist() == [300.0, 300.0, 300.0]


def test_nodeorder_sees_room_where_this_session_has_evicted() -> None:
    world, task = _scored()
    victim = world.jobs["ns/other"].tasks["on-node-4"]
    ssn = world.open("nodeorder")
    row = np.array([ssn.nodes.row["node-4"]])
    before = ssn.scores(task, row).tolist()
    statement = Statement(ssn)
    statement.evict(victim, "preempt", "preempt")
    assert ssn.scores(task, row).tolist() == [463.0]
    statement.discard()
    assert ssn.scores(task, row).tolist() == before == [406.0]


def test_nodeorder_prefers_nodes_that_have_the_image() -> None:
    """500Mi on 1 of 2 nodes count as 250Mi; (250 - 23) of (1000 - 23) are 23 in 100."""
    pod = Pod(spec=PodSpec(containers=[Container(image="registry/app")]))
    held = [{"registry/app:latest": (500 * 1024 * 1024, 1)}, {}]
    assert image_scores(pod, held, 2).tolist() == [23, 0]  # type: ignore[arg-type]


def test_binpack_weighs_resources_and_gives_nothing_where_one_would_not_fit() -> None:
    """cpu (2 of 8, weight 5) and GPUs (1 of 2, weight 10) by hand: (0.25*5 + 0.5*10) / 15 * 100 * 2. On the other node
    cpu is over (9 of 8), and its GPUs count no more either; recording 06 has preemptors prefer larger full nodes."""
    world = Small()
    world.node("n", 8, 8, gpu=2)
    world.node("over", 8, 8, gpu=2)
    task = world.task(world.job("job"), "t", 2, gpu=1)
    world.task(world.job("other"), "full", 7, on="over")
    arguments = {"binpack.weight": 2, "binpack.cpu": 5, "binpack.resources": "nvidia.com/gpu, x/y"}
    arguments["binpack.resources.nvidia.com/gpu"] = 10
    ssn = world.open("binpack", arguments={"binpack": arguments})
    best = (0.25 * 5 + 0.5 * 10) / 15 * 200
    assert ssn.scores(task, np.array([0, 1])).tolist() == pytest.approx([best, 0.0])
    many = np.array([0, 1] * FEW)
    assert ssn.scores(task, many).tolist() == pytest.approx([best, 0.0] * FEW), "by columns as number by number"
    unweighed = {**arguments, "binpack.cpu": 0}
    ssn = world.open("binpack", arguments={"binpack": unweighed})
    assert ssn.scores(task, np.array([0, 1])).tolist() == pytest.approx([100.0, 100.0]), "cpu has no say"


# --- enqueue ------------------------------------------------------------------------------------------------------


def test_enqueue_takes_turns_between_queues_and_says_what_it_keeps_out() -> None:
    """10 cores x 1.2: the jobs of both queues in turn, each queue's by priority; what is over waits."""
    world = Small()
    world.node("n", 10, 10)
    for name, queue, cpu, priority in (("a0", "a", 4, 1), ("a1", "a", 4, 2), ("b0", "b", 6, 1), ("free", "b", 0, 0)):
        least = world.amount(cpu) if cpu else None
        world.job(name, queue, phase="Pending", least=least, priority=priority)
    world.job("running", "a", phase="Running")
    ssn = world.open("priority", "overcommit")
    outcome = Outcome(cycle=1, seed=0)
    enqueue.execute(ssn, outcome)
    assert outcome.decisions == [Enqueued("ns/a1"), Enqueued("ns/a0"), Enqueued("ns/free")]
    assert outcome.jobs["ns/b0"].outcome == "gated"
    assert outcome.jobs["ns/b0"].message.startswith("the cluster is overused for it: cpu: asks 6 on top of 8")
    assert {job.name: job.phase for job in world.jobs.values()} == {
        "a0": "Inqueue",
        "a1": "Inqueue",
        "b0": "Pending",
        "free": "Inqueue",
        "running": "Running",
    }


# --- victims, tier by tier ----------------------------------------------------------------------------------------


def test_the_first_tier_that_leaves_a_victim_decides() -> None:
    world = Small()
    world.node("n", 8, 8)
    job = world.job("job")
    a, b, c = (world.task(job, name, on="n") for name in "abc")
    asks = world.task(world.job("other"), "asks")

    def victims(*tiers: list[list[SessionTask] | None]) -> str:
        names = [[f"{tier}-{number}" for number, _ in enumerate(said)] for tier, said in enumerate(tiers)]
        ssn = world.open(tiers=names, known=())
        for named, said in zip(names, tiers, strict=True):
            for name, one in zip(named, said, strict=True):
                ssn.add("preemptable", name, lambda preemptor, candidates, one=one: one)
        return "".join(task.name for task in ssn.victims("preemptable", asks, [a, b, c]))

    assert victims([[a, b], [b, c]], [[c]]) == "b"
    assert victims([[], [a, b]], [[c]]) == "c", "nobody may go: the rest of the tier is not asked"
    assert victims([[a, b], []], [[b, c]]) == "bc"
    assert victims([None, [a, c]], [[b]]) == "ac", "no opinion"
    assert victims([[a], []], [[]]) == ""


# --- a few rows and many --------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)), min_size=17, max_size=20
    ),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(0, 2),
)
def test_one_row_scores_as_it_does_among_many(
    shapes: list[tuple[int, int, int, int]], cpu: int, memory: int, gpu: int
) -> None:
    world = Small()
    job, weights = world.job("job"), {"mostrequested.weight": 2}
    for number, (cores, gi, gpus, used) in enumerate(shapes):
        world.node(f"n{number}", cores, gi, gpu=gpus)
        world.task(job, f"t{number}", used / 2, used / 3, on=f"n{number}")
        world.task(job, f"q{number}", 0, used % 2, on=f"n{number}")
    task = world.task(job, "task", cpu / 2, memory, gpu=gpu)
    ssn = world.open("nodeorder", "binpack", arguments={"nodeorder": weights})
    statement = Statement(ssn)
    statement.evict(job.tasks["q1"], "preempt", "preempt")
    statement.pipeline(world.task(job, "promised", 1, 1), "n2")
    rows = all_rows(ssn)
    single = [ssn.scores(task, np.array([row]))[0] for row in rows]
    assert single == ssn.scores(task, rows).tolist()


# --- resourcequota ------------------------------------------------------------------------------------------------


def test_a_quota_lets_in_what_it_has_room_for_with_what_the_cycle_let_in() -> None:
    world = Small()
    world.node("n", 8, 8)
    jobs = [world.job(name, phase="Pending") for name in ("a", "b", "c")]
    for job, least in zip(jobs, ({"requests.cpu": "2"}, {"requests.cpu": "2"}, None), strict=True):
        spec = PodGroupSpec(min_resources=least)
        job.pod_group = PodGroup(metadata=job.pod_group.metadata, spec=spec)
    ssn = world.open("resourcequota")
    status = ResourceQuotaStatus(hard={"requests.cpu": "4"}, used={"requests.cpu": "1"})
    ssn.quotas = {"ns/q": ResourceQuota(metadata=ObjectMeta(name="q", namespace="ns"), status=status)}
    [enqueueable] = ssn.functions("job_enqueueable")
    assert [enqueueable(job) for job in jobs] == [PERMIT, REJECT, PERMIT]
    assert ssn.blocked == {
        "ns/b": "ResourceQuota ns/q has no room for it: requests.cpu: asks 2 on top of 3 used, the quota allows 4"
    }
    ssn.quotas = {"other/q": ResourceQuota(metadata=ObjectMeta(name="q", namespace="other"), status=status)}
    assert enqueueable(jobs[1]) == PERMIT
