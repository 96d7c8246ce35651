"""preempt, reclaim and capacity on small clusters, worked out by hand."""

from __future__ import annotations

import pytest

from tests.unit.session.small import Small
from vcledger.scheduler.session.actions import preempt, reclaim
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.outcome import Evicted, Outcome, Placed
from vcledger.scheduler.session.victims import in_order
from volcano.objects.core import Pod, PodSpec, PodStatus
from volcano.objects.meta import ObjectMeta
from volcano.objects.status import TaskStatus

PLUGINS = [["priority", "gang", "conformance"], ["predicates", "proportion", "nodeorder"]]
"""drf has a say in who may be preempted as well, which usual configurations turn off."""


def told(outcome: Outcome) -> list[str]:
    """The decisions in few words."""
    words = []
    for one in outcome.decisions:
        if isinstance(one, Evicted):
            assert one.preemptor is not None
            words.append(f"{one.action}: {one.task.name} off {one.node} for {one.preemptor.name}")
        elif isinstance(one, Placed):
            assert one.pipelined
            words.append(f"{one.task.name} to {one.node}")
    return words


def run(world: Small, action: str, plugins: list[list[str]] | None = None, seed: int = 0) -> tuple[Session, Outcome]:
    ssn = world.open(tiers=plugins if plugins is not None else PLUGINS, seed=seed)
    outcome = Outcome(cycle=1, seed=seed)
    {"preempt": preempt, "reclaim": reclaim}[action].execute(ssn, outcome)
    return ssn, outcome


def full(world: Small, *, low: int = 1, minimum: int = 1) -> None:
    """Two nodes of 4 cores, each with two tasks of 2 cores of the job `low`."""
    for name in ("n0", "n1"):
        world.node(name, 4, 8)
    job = world.job("low", priority=low, min_available=minimum)
    for number in range(4):
        world.task(job, f"low-{number}", 2, on=f"n{number // 2}", index=number)


# --- preempt ------------------------------------------------------------------------------------------------------


def test_a_gang_of_higher_priority_takes_as_many_places_as_it_needs_the_last_tasks_first() -> None:
    world = Small()
    full(world)
    high = world.job("high", priority=10, min_available=1)
    world.task(high, "high-0", 2)
    ssn, outcome = run(world, "preempt")
    node = outcome.decisions[-1].node  # type: ignore[union-attr]
    victim = {"n0": "low-1", "n1": "low-3"}[node]
    assert told(outcome) == [f"preempt: {victim} off {node} for high-0", f"high-0 to {node}"]
    assert outcome.jobs["ns/high"].outcome == "pipelined"
    assert outcome.jobs["ns/high"].pipelined == 1
    assert world.jobs["ns/low"].tasks[victim].status == TaskStatus.RELEASING
    assert ssn.nodes.future_idle()[ssn.nodes.row[node]][0] == 0


def test_the_same_seed_gives_the_same_and_equal_nodes_are_told_apart_by_it() -> None:
    def node_of(seed: int) -> str:
        world = Small()
        full(world)
        world.task(world.job("high", priority=10, min_available=1), "high-0", 2)
        return run(world, "preempt", seed=seed)[1].decisions[-1].node  # type: ignore[union-attr]

    assert [node_of(seed) for seed in range(8)] == [node_of(seed) for seed in range(8)]
    assert {node_of(seed) for seed in range(8)} == {"n0", "n1"}


def test_a_gang_that_cannot_be_brought_to_its_minimum_evicts_nobody() -> None:
    """Of the low job's four tasks three may go; the gang needs four places."""
    world = Small()
    full(world)
    high = world.job("high", priority=10, min_available=4)
    for number in range(4):
        world.task(high, f"high-{number}", 2)
    ssn, outcome = run(world, "preempt")
    assert outcome.decisions == []
    assert {task.status for task in world.jobs["ns/low"].tasks.values()} == {TaskStatus.RUNNING}
    assert {task.status for task in high.tasks.values()} == {TaskStatus.PENDING}
    assert not ssn.nodes.releasing.any()
    assert not ssn.nodes.pipelined.any()


def test_equal_priority_takes_nothing_nor_does_a_pod_that_must_never_preempt() -> None:
    world = Small()
    full(world, low=10)
    world.task(world.job("equal", priority=10, min_available=1), "equal-0", 2)
    never = Pod(metadata=ObjectMeta(name="never-0"), spec=PodSpec(preemption_policy="Never"))
    world.task(world.job("never", priority=99, min_available=1), "never-0", 2, pod=never)
    assert run(world, "preempt")[1].decisions == []


def test_tasks_that_are_not_preemptable_or_of_another_queue_stay() -> None:
    world = Small()
    full(world)
    for task in world.jobs["ns/low"].tasks.values():
        task.preemptable = False
    world.task(world.job("high", priority=10, min_available=1), "high-0", 2)
    world.task(world.job("elsewhere", "other", priority=10, min_available=1), "elsewhere-0", 2)
    assert run(world, "preempt", [["priority", "gang"]])[1].decisions == []


def test_a_node_that_an_eviction_would_not_help_is_left_alone() -> None:
    world = Small()
    full(world)
    world.task(world.job("high", priority=10, min_available=1), "high-0", 2)
    ssn = world.open(tiers=PLUGINS)
    ssn.feasible.never = {"n0"}
    outcome = Outcome(cycle=1, seed=0)
    preempt.execute(ssn, outcome)
    assert told(outcome) == ["preempt: low-3 off n1 for high-0", "high-0 to n1"]


def test_a_pod_that_waits_for_its_nominated_node_does_not_preempt_again() -> None:
    world = Small()
    full(world)
    pod = Pod(metadata=ObjectMeta(name="high-0"), status=PodStatus(nominated_node_name="n0"))
    world.task(world.job("high", priority=10, min_available=1), "high-0", 2, pod=pod)
    assert run(world, "preempt")[1].decisions == []


@pytest.mark.parametrize("anew", [False, True])
def test_a_pod_whose_nominated_node_is_gone_preempts_again_where_that_is_wanted(anew: bool) -> None:
    """Volcano's taskEligibleToPreempt refuses it."""
    world = Small()
    full(world)
    pod = Pod(metadata=ObjectMeta(name="high-0"), status=PodStatus(nominated_node_name="gone"))
    world.task(world.job("high", priority=10, min_available=1), "high-0", 2, pod=pod)
    ssn = world.open(tiers=PLUGINS)
    ssn.anew = anew
    outcome = Outcome(cycle=1, seed=0)
    preempt.execute(ssn, outcome)
    assert [one.startswith("preempt") for one in told(outcome)] == ([True, False] if anew else [])


def test_within_a_job_the_task_of_higher_priority_takes_a_lesser_ones_place() -> None:
    """The job has its minimum, so that gang lets one go; without gang's say it starves by its tasks' number."""
    world = Small()
    world.node("n0", 4, 8)
    job = world.job("job", min_available=1)
    world.task(job, "worker-0", 2, on="n0", priority=1)
    world.task(job, "worker-1", 2, on="n0", priority=1)
    world.task(job, "master", 2, priority=5)
    assert told(run(world, "preempt", [["priority"], ["gang"]])[1]) == [
        "preempt: worker-1 off n0 for master",
        "master to n0",
    ]


def test_tasks_that_are_alike_share_what_was_tried_in_vain() -> None:
    """Nobody may go for either of two tasks that are alike: the nodes are looked at for the first only."""
    world = Small()
    full(world, low=10)
    first = world.job("first", priority=10, min_available=2)
    like = object()
    for number in range(2):
        world.task(first, f"first-{number}", 2, like=like)
    ssn = world.open(tiers=PLUGINS)
    asked: list[str] = []
    resolvable = ssn.feasible.resolvable
    ssn.feasible.resolvable = lambda task: asked.append(task.name) or resolvable(task)
    preempt.execute(ssn, Outcome(cycle=1, seed=0))
    assert asked == ["first-0", "first-0"], "once between jobs, once within the job"


# --- reclaim ------------------------------------------------------------------------------------------------------


def lent(world: Small, *, reclaimable: bool = True, minimum: int = 1) -> None:
    """Queue b holds all 8 cores of two nodes; a, of the same weight, asks for 4."""
    for name in ("n0", "n1"):
        world.node(name, 4, 8)
    world.queue("b", reclaimable=reclaimable)
    job = world.job("lent", "b", min_available=minimum)
    for number in range(4):
        world.task(job, f"lent-{number}", 2, on=f"n{number // 2}", index=number)
    mine = world.job("mine", "a", min_available=2)
    for number in range(2):
        world.task(mine, f"mine-{number}", 2)


def test_a_queue_takes_back_what_it_deserves() -> None:
    world = Small()
    lent(world)
    outcome = run(world, "reclaim")[1]
    assert sorted(one.task.name for one in outcome.decisions if isinstance(one, Placed)) == ["mine-0", "mine-1"]
    evicted = [one.task.name for one in outcome.decisions if isinstance(one, Evicted)]
    assert len(evicted) == 2
    assert all(one.action == "reclaim" for one in outcome.decisions if isinstance(one, Evicted))
    assert outcome.jobs["ns/mine"].pipelined == 2


def test_nothing_is_taken_from_a_queue_that_is_not_reclaimable() -> None:
    world = Small()
    lent(world, reclaimable=False)
    assert run(world, "reclaim")[1].decisions == []


def test_a_job_at_its_minimum_loses_nothing_if_no_later_tier_lets_it() -> None:
    """A tier in which nobody may go leaves it to the next: there proportion lets tasks go above what b deserves."""
    world = Small()
    lent(world, minimum=4)
    assert run(world, "reclaim", [["gang", "proportion"]])[1].decisions == []
    assert len(run(world, "reclaim", [["gang"], ["proportion"]])[1].decisions) == 4


def test_a_queue_that_has_what_it_deserves_reclaims_nothing() -> None:
    """a has weight 1 of 4: it deserves 2 of 8 cores, and holds them."""
    world = Small()
    world.node("n0", 8, 8)
    world.queue("b", weight=3)
    job = world.job("lent", "b", min_available=1)
    for number in range(3):
        world.task(job, f"lent-{number}", 2, on="n0")
    world.task(job, "lent-more", 2)
    held = world.job("held", "a", min_available=1)
    world.task(held, "held-0", 2, on="n0")
    world.task(world.job("mine", "a", min_available=1), "mine-0", 2)
    assert run(world, "reclaim")[1].decisions == []


def test_victims_go_from_the_last_queue_job_and_task() -> None:
    world = Small()
    world.node("n0", 32, 32)
    for name, cpu in (("b", 6), ("c", 2)):
        job = world.job(f"{name}-job", name, priority=1)
        for number in range(2):
            world.task(job, f"{name}-{number}", cpu / 2, on="n0", index=number)
    late = world.job("c-late", "c", priority=0)
    world.task(late, "late", 1, on="n0")
    asks = world.task(world.job("mine", "a"), "mine-0", 1)
    ssn = world.open(tiers=PLUGINS)
    tasks = [task for job in world.jobs.values() for task in job.tasks.values() if task.node]
    assert [task.name for task in in_order(ssn, tasks, asks)] == ["late", "c-1", "c-0", "b-1", "b-0"]


# --- capacity -----------------------------------------------------------------------------------------------------


def test_capacity_orders_queues_by_what_they_have_of_what_they_deserve() -> None:
    world = Small()
    world.node("n0", 20, 20)
    for name, deserved in (("half", 4.0), ("quarter", 8.0), ("nothing", 0.0)):
        world.queue(name, deserved=world.amount(deserved, deserved))
        world.task(world.job(f"{name}-job", name), f"{name}-0", 2, on="n0")
    over = world.queue("over", deserved=world.amount(1, 1))
    world.task(world.job("over-job", "over"), "over-0", 1, 1, on="n0")
    ssn = world.open("capacity")
    ordered = sorted(world.queues.values(), key=ssn.queue_key)
    assert [queue.name for queue in ordered] == ["quarter", "half", "over", "nothing"]
    assert not ssn.overused(over), "a queue may borrow"


def test_capacity_lets_a_queue_borrow_up_to_its_capability_but_reclaim_only_what_it_deserves() -> None:
    world = Small()
    world.node("n0", 10, 10)
    limit = world.queue("a").capability.copy()
    limit[0] = 6000.0
    queue = world.queue("a", capability=limit, deserved=world.amount(4, 4))
    world.task(world.job("job", "a"), "held", 3, on="n0")
    one, three, four = (world.task(world.job(f"j{cpu}", "a"), f"t{cpu}", cpu) for cpu in (1, 3, 4))
    ssn = world.open("capacity")
    assert ssn.allocatable(queue, three)
    assert not ssn.allocatable(queue, four)
    assert ssn.preemptive(queue, one)
    assert not ssn.preemptive(queue, three)


def test_capacity_takes_back_what_a_queue_has_above_what_it_deserves_and_keeps_its_guarantee() -> None:
    """b holds 8 and deserves 4, so two of 2 go; c deserves nothing, but is guaranteed 2 of its 4."""
    world = Small()
    world.node("n0", 20, 20)
    world.queue("b", deserved=world.amount(4))
    world.queue("c", guarantee=world.amount(2))
    for name in ("b", "c"):
        job = world.job(f"{name}-job", name)
        for number in range(4 if name == "b" else 2):
            world.task(job, f"{name}-{number}", 2, on="n0", index=number)
    world.queue("a", deserved=world.amount(8))
    asks = world.task(world.job("mine", "a"), "mine-0", 2)
    memory = world.task(world.job("memory", "a"), "memory-0", 0, 1)
    ssn = world.open("capacity")
    running = [task for job in world.jobs.values() for task in job.tasks.values() if task.node]
    victims = ssn.victims("reclaimable", asks, running)
    assert sorted(task.name for task in victims) == ["b-2", "b-3", "c-1"]
    assert ssn.victims("reclaimable", memory, running) == [], "they have no memory to give"


def test_reclaim_under_capacity() -> None:
    world = Small()
    lent(world)
    world.queues["a"].deserved = world.amount(4, 4)
    world.queues["b"].deserved = world.amount(4, 4)
    outcome = run(world, "reclaim", [["capacity"], ["gang"]])[1]
    assert len([one for one in outcome.decisions if isinstance(one, Evicted)]) == 2
    assert len([one for one in outcome.decisions if isinstance(one, Placed)]) == 2


def test_of_jobs_that_no_plugin_tells_apart_the_last_task_goes_first_whatever_the_jobs_age() -> None:
    """As in recording 06, where of two gangs that held as much the pod with the higher index went, then the one that
    came later, then the one with the higher uid."""
    world = Small()
    world.node("n0", 20, 20)
    old, young = world.job("a-old", created="1"), world.job("b-young", created="2")
    tasks = [
        world.task(young, "u2", 1, on="n0", index=3, created="5"),
        world.task(old, "u3", 1, on="n0", index=3, created="5"),
        world.task(old, "u1", 1, on="n0", index=7, created="1"),
        world.task(young, "u9", 1, on="n0", index=3, created="4"),
    ]
    asks = world.task(world.job("asks", priority=9), "asks-0", 1)
    ssn = world.open("priority", "gang", "drf")
    assert [task.name for task in in_order(ssn, tasks, asks)] == ["u1", "u3", "u2", "u9"]
    old.priority = 5
    assert [task.name for task in in_order(ssn, tasks, asks)] == ["u2", "u9", "u1", "u3"]
