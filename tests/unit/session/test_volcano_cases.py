"""Situations that Volcano's own unit tests of preempt, reclaim and capacity set up, with what they expect of them.

Sources: Volcano's actions/preempt/preempt_test.go, actions/reclaim/reclaim_test.go, plugins/capacity/capacity_test.go.
A pod is written `name group cpu,memory [@node] [kept] [!priority]`; kept: not preemptable; amounts in cores and Gi.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.session.world import Object, World, group, node, pod, queue
from vcledger.scheduler.session.conf import read_conf
from vcledger.scheduler.session.outcome import Enqueued, Evicted, Placed
from vcledger.scheduler.session.run import run

HIGH, MID, LOW = 1000, 500, 100


@dataclass(frozen=True)
class Case:
    """`groups`: name to queue, minimum, priority and phase; `placed`: pods with the node that they are bound to, or
    with a ~ promised; `admitted`: groups that are let into their queue."""

    name: str
    pods: tuple[str, ...]
    groups: dict[str, tuple[str, int, int, str]]
    evicted: tuple[str, ...] = ()
    placed: dict[str, str] = field(default_factory=dict)
    nodes: tuple[Object, ...] = ()
    queues: tuple[Object, ...] = ()
    least: dict[str, dict[str, str]] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    admitted: tuple[str, ...] = ()


def machine(name: str, cpu: str, memory: str, pods: str = "10", **more: Any) -> Object:
    return node(name, cpu=cpu, memory=memory, pods=pods, **more)


def amounts(cpu: str, memory: str, **more: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, **more}


def made(text: str, **spec: Any) -> Object:
    """A pod from its line."""
    name, of, size, *rest = text.split()
    cpu, memory, *gpus = size.split(",")
    on = next((word[1:] for word in rest if word[0] == "@"), "")
    priority = next((int(word[1:]) for word in rest if word[0] == "!"), None)
    requests = {"nvidia.com/A100": gpus[0]} if gpus else {}
    one = pod(
        name, of, cpu="" if cpu == "0" else cpu, memory="" if memory == "0" else f"{memory}Gi",
        on=on, requests=requests, priority=priority,
        spec={key: value for key, value in spec.items() if value is not None},
    )  # fmt: skip
    if "kept" in rest:
        one["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    if "never" in rest:
        one["spec"]["preemptionPolicy"] = "Never"
    if "gpu-pool" in rest:
        one["spec"]["nodeSelector"] = {"pool": "gpu"}
    return one


def check(case: Case, actions: str, *switches: str) -> None:
    """Runs the actions with the case's plugins, all in one tier; a switch is `plugin.enableX: value`."""
    lines = [f'actions: "{actions}"', "tiers:", "- plugins:"]
    for name in case.plugins:
        lines.append(f"  - name: {name}")
        lines += [f"    {switch.split('.')[1]}" for switch in switches if switch.split(".")[0] == name]
    world = World(*case.nodes, *case.queues)
    values = sorted({value for _, _, value, _ in case.groups.values()})
    world.see(*({"kind": "PriorityClass", "metadata": {"name": f"p{v}", "uid": f"p{v}-u"}, "value": v} for v in values))
    for name, (of, least, value, phase) in case.groups.items():
        more = {"minResources": case.least[name]} if name in case.least else {}
        world.see(group(name, least, phase=phase, queue=of, priorityClassName=f"p{value}", **more))
    world.see(*(made(text) for text in case.pods))
    outcome = run(world.mirror, read_conf("\n".join(lines)), seed=1)
    assert sorted(one.task.name for one in outcome.decisions if isinstance(one, Evicted)) == sorted(case.evicted)
    assert {one.job.removeprefix("d/") for one in outcome.decisions if isinstance(one, Enqueued)} == set(case.admitted)
    found = {
        one.task.name: ("~" if one.pipelined else "") + one.node for one in outcome.decisions if isinstance(one, Placed)
    }
    assert found == case.placed


IN, RUN = "Inqueue", "Running"
ONE_QUEUE = (queue("q1"),)
BY_PREEMPT = ("conformance", "gang", "priority", "proportion")


def limited(cpu: str) -> tuple[Object, ...]:
    return (queue("q1", capability=amounts(cpu, f"{cpu}Gi")),)


PREEMPT = [
    Case(
        "room enough: nobody is evicted",
        ("e1 pg1 1,1 @n1", "e2 pg1 1,1 @n1", "p1 pg1 1,1"),
        {"pg1": ("q1", 3, 0, IN)},
        placed={"p1": "~n1"},
        nodes=(machine("n1", "10", "10Gi"),),
        queues=ONE_QUEUE,
    ),
    Case(
        "a gang that has its minimum preempts nobody",
        ("e1 pg1 1,1 @n1", "e2 pg1 1,1 @n1", "p1 pg2 1,1", "p2 pg2 1,1"),
        {"pg1": ("q1", 1, 0, IN), "pg2": ("q1", 1, 0, IN)},
        placed={"p1": "~n1"},
        nodes=(machine("n1", "3", "3Gi"),),
        queues=ONE_QUEUE,
    ),
    Case(
        "one task of a lesser job goes, so that both jobs run",
        ("e1 pg1 1,1 @n1", "e2 pg1 1,1 @n1 kept", "p1 pg2 1,1", "p2 pg2 1,1"),
        {"pg1": ("q1", 1, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        ("e1",),
        {"p1": "~n1"},
        (machine("n1", "2", "2Gi"),),
        ONE_QUEUE,
    ),
    Case(
        "as many go as a large task needs",
        ("e1 pg1 1,1 @n1", "e2 pg1 1,1 @n1", "e3 pg1 1,1 @n1 kept", "p1 pg2 5,5"),
        {"pg1": ("q1", 1, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        ("e1", "e2"),
        {"p1": "~n1"},
        (machine("n1", "6", "6Gi"),),
        ONE_QUEUE,
    ),
    Case(
        "the cluster has room, but the queue is at its capability",
        ("e1 pg1 3,3 @n1", "p1 pg2 3,3"),
        {"pg1": ("q1", 0, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        ("e1",),
        {"p1": "~n1"},
        (machine("n1", "12", "12Gi"),),
        limited("4"),
    ),
    Case(
        "the queue may hold both",
        ("e1 pg1 3,3 @n1", "p1 pg2 3,3"),
        {"pg1": ("q1", 0, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        placed={"p1": "~n1"},
        nodes=(machine("n1", "12", "12Gi"),),
        queues=limited("6"),
    ),
    Case(
        "of a job's tasks the one with the lowest priority goes",
        ("e1 pg1 1,1 @n1 kept", "e2 pg1 1,1 @n1", f"e3 pg1 1,1 @n1 !{HIGH}", "p1 pg2 1,1"),
        {"pg1": ("q1", 1, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        ("e2",),
        {"p1": "~n1"},
        (machine("n1", "12", "12Gi"),),
        limited("3"),
    ),
    Case(
        "a pod that asks for nothing holds the node's only place",
        ("e1 pg1 0,0 @n1", "p1 pg2 3,3"),
        {"pg1": ("q1", 0, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        ("e1",),
        {"p1": "~n1"},
        (machine("n1", "12", "12Gi", "1"),),
        limited("6"),
    ),
    Case(
        "so that one that asks for nothing may have it",
        ("e1 pg1 0,0 @n1", "p1 pg2 0,0"),
        {"pg1": ("q1", 0, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        ("e1",),
        {"p1": "~n1"},
        (machine("n1", "12", "12Gi", "1"),),
        limited("6"),
    ),
    Case(
        "a pod whose preemptionPolicy is Never",
        ("e1 pg1 1,1 @n1", "p1 pg2 1,1 never"),
        {"pg1": ("q1", 0, LOW, IN), "pg2": ("q1", 1, HIGH, IN)},
        nodes=(machine("n1", "1", "1Gi"),),
        queues=ONE_QUEUE,
    ),
]


@pytest.mark.parametrize("case", PREEMPT, ids=lambda case: case.name)
def test_preempt(case: Case) -> None:
    check(Case(**{**case.__dict__, "plugins": BY_PREEMPT}), "preempt")


THREE = ("e1 pg1 1,1 @n1 kept", "e2 pg1 1,1 @n1", "e3 pg1 1,1 @n1 kept", "p1 pg2 1,1")
TWO_GROUPS = {"pg1": ("q1", 1, LOW, IN), "pg2": ("q2", 1, HIGH, IN)}
SHUT: Object = {**queue("q2"), "status": {"state": "Closed"}}
SMALL = machine("n1", "3", "3Gi")

RECLAIM = [
    Case("a queue over its share", THREE, TWO_GROUPS, ("e2",), {"p1": "~n1"}, (SMALL,), (queue("q1"), queue("q2"))),
    Case(
        "the lesser of two jobs in queues alike",
        ("a1 pg1 1,1 @n1", "a2 pg1 1,1 @n1", "b1 pg2 1,1 @n1", "b2 pg2 1,1 @n1 kept", "p1 pg3 1,1"),
        {"pg1": ("q1", 1, MID, IN), "pg2": ("q2", 1, LOW, IN), "pg3": ("q3", 1, HIGH, IN)},
        ("b1",),
        {"p1": "~n1"},
        (machine("n1", "4", "4Gi"),),
        (queue("q1"), queue("q2"), queue("q3")),
    ),
    Case(
        "the queue of lower priority",
        ("a1 pg1 1,1 @n1", "a2 pg1 1,1 @n1 kept", "b1 pg2 1,1 @n1", "b2 pg2 1,1 @n1 kept", "p1 pg3 1,1"),
        {"pg1": ("q1", 1, MID, IN), "pg2": ("q2", 1, MID, IN), "pg3": ("q3", 1, MID, IN)},
        ("a1",),
        {"p1": "~n1"},
        (machine("n1", "4", "4Gi"),),
        (queue("q1", priority=5), queue("q2", priority=10), queue("q3", priority=1)),
    ),
    Case(
        "a pod whose preemptionPolicy is Never",
        ("e1 pg1 1,1 @n1", "p1 pg2 1,1 never"),
        {"pg1": ("q1", 0, LOW, IN), "pg2": ("q2", 0, HIGH, IN)},
        nodes=(machine("n1", "1", "1Gi", "1"),),
        queues=(queue("q1", weight=5), queue("q2", weight=10)),
    ),
    Case("a queue that is closed", THREE, TWO_GROUPS, nodes=(SMALL,), queues=(queue("q1"), SHUT)),
    Case(
        "only on a node that the reclaimer's selector admits",
        ("e1 pg1 1,1 @n1 kept", "e2 pg1 1,1 @n1", "e3 pg1 1,1 @n1 kept", "e4 pg1 1,1 @n2", "p1 pg2 1,1 gpu-pool"),
        {"pg1": ("q1", 0, LOW, IN), "pg2": ("q2", 1, HIGH, IN)},
        ("e2",),
        {"p1": "~n1"},
        (
            machine("n1", "3", "3Gi", labels={"pool": "gpu"}),
            machine("n2", "1", "1Gi", labels={"pool": "cpu"}),
        ),
        (queue("q1"), queue("q2")),
    ),
    Case(
        "no node that its selector admits",
        ("e1 pg1 1,1 @n1 kept", "e2 pg1 1,1 @n1", "e3 pg1 1,1 @n1 kept", "p1 pg2 1,1 gpu-pool"),
        TWO_GROUPS,
        nodes=(SMALL,),
        queues=(queue("q1"), queue("q2")),
    ),
]


@pytest.mark.parametrize("case", RECLAIM, ids=lambda case: case.name)
def test_reclaim(case: Case) -> None:
    plugins = ("conformance", "gang", "proportion", "priority", "predicates")
    check(Case(**{**case.__dict__, "plugins": plugins}), "reclaim")


def test_reclaim_for_a_closed_queue_under_capacity() -> None:
    case = Case("", THREE, TWO_GROUPS, nodes=(SMALL,), queues=(queue("q1"), SHUT))
    check(Case(**{**case.__dict__, "plugins": ("conformance", "gang", "capacity", "priority")}), "reclaim")


N1, N2 = machine("n1", "2", "4Gi", labels={"pool": "gpu"}), machine("n2", "2", "4Gi")


def gpus(name: str) -> Object:
    return machine(name, "2", "4Gi", amounts={"nvidia.com/A100": "10"})


def stated(name: str, deserved: dict[str, str] | None, capability: dict[str, str] | None = None, **more: Any) -> Object:
    spec = {"deserved": deserved, "capability": capability, **more}
    return queue(name, **{key: value for key, value in spec.items() if value is not None})


A100 = {"nvidia.com/A100": "10"}
CAPACITY = [
    Case(
        "below its capability a queue is served",
        ("p1 pg1 1,1 @n1", "p2 pg2 1,1 gpu-pool"),
        {"pg1": ("q1", 1, 0, RUN), "pg2": ("q1", 1, 0, IN)},
        placed={"p2": "n1"},
        nodes=(N1, N2),
        queues=(stated("q1", None, amounts("2", "2Gi")),),
    ),
    Case(
        "above it, it is not",
        ("p3 pg3 1,1 @n1", "p4 pg4 1,1"),
        {"pg3": ("q2", 1, 0, RUN), "pg4": ("q2", 1, 0, IN)},
        nodes=(N1, N2),
        queues=(stated("q2", None, amounts("1.5", "1.5Gi")),),
    ),
    Case(
        "a queue below what it deserves reclaims",
        ("p5 pg5 2,4 @n1 kept", "p6 pg5 2,4 @n2", "p7 pg6 2,4"),
        {"pg5": ("q3", 1, 0, RUN), "pg6": ("q4", 1, 0, IN)},
        ("p6",),
        {"p7": "~n2"},
        (N1, N2),
        (stated("q3", amounts("2", "4Gi")), stated("q4", amounts("2", "4Gi"))),
    ),
    Case(
        "over in cpu and memory, but not in what the pod asks for",
        ("p8 pg7 0,0,10 @n3 kept", "p9 pg7 0,0,10 @n4", "p10 pg8 2,4 @n3", "p11 pg8 2,4 @n4", "p12 pg9 0,0,10"),
        {"pg7": ("q5", 1, 0, RUN), "pg8": ("q6", 1, 0, RUN), "pg9": ("q6", 1, 0, IN)},
        ("p9",),
        {"p12": "~n4"},
        (gpus("n3"), gpus("n4")),
        (stated("q5", amounts("2", "4Gi", **A100)), stated("q6", amounts("2", "4Gi", **A100))),
    ),
    Case(
        "queues are served by their priority",
        ("p13 pg10 2,4 @n5", "p14 pg11 2,4", "p15 pg12 2,4"),
        {"pg10": ("q7", 1, 0, RUN), "pg11": ("q8", 1, 0, IN), "pg12": ("q9", 1, 0, IN)},
        placed={"p15": "n6"},
        nodes=(machine("n5", "2", "4Gi"), machine("n6", "2", "4Gi")),
        queues=tuple(stated(f"q{n}", None, amounts("2", "4Gi"), priority=p) for n, p in ((7, 5), (8, 1), (9, 10))),
    ),
    Case(
        "within what it deserves of one resource is enough to reclaim",
        ("p16 pg16 1,3 @n1", "p17 pg17 1,1", "p18 pg18 1,1 @n1"),
        {"pg16": ("q10", 1, 0, RUN), "pg17": ("q10", 1, 0, IN), "pg18": ("q11", 1, 0, RUN)},
        ("p18",),
        {"p17": "~n1"},
        (N1,),
        (
            stated("q10", amounts("2", "2Gi"), amounts("4", "4Gi")),
            stated("q11", amounts("0", "0"), amounts("2", "2Gi")),
        ),
    ),
    Case(
        "beyond it in all, a queue reclaims nothing",
        ("p19 pg19 1,1 @n1", "p20 pg20 1,2", "p21 pg21 1,1 @n1"),
        {"pg19": ("q12", 1, 0, RUN), "pg20": ("q12", 1, 0, IN), "pg21": ("q13", 1, 0, RUN)},
        nodes=(N1,),
        queues=(
            stated("q12", amounts("1", "2Gi"), amounts("4", "4Gi")),
            stated("q13", amounts("0", "0"), amounts("2", "2Gi")),
        ),
    ),
]


@pytest.mark.parametrize("case", CAPACITY, ids=lambda case: case.name)
def test_capacity(case: Case) -> None:
    plugins = ("capacity", "predicates", "gang")
    check(Case(**{**case.__dict__, "plugins": plugins}), "allocate, reclaim", "gang.enableReclaimable: false")


HELD = ("a pg1 1,3 @n1", "b pg2 3,1 @n2")
TWO = (stated("q1", amounts("2", "2Gi"), amounts("2", "2Gi")), stated("q2", amounts("2", "2Gi"), amounts("3", "3Gi")))


@pytest.mark.parametrize(
    ("asks", "of", "size", "placed"),
    [
        ("c pg3 1,0", "q1", ("1", "0"), "n1"),
        ("c pg3 0,1", "q2", ("0", "1Gi"), "n2"),
        ("c pg3 1,1", "q1", ("1", "1Gi"), ""),
    ],
    ids=["memory is over, cpu asked", "cpu is over, memory asked", "over in one of them"],
)
def test_capacity_lets_in_what_asks_only_for_what_is_left(
    asks: str, of: str, size: tuple[str, str], placed: str
) -> None:
    case = Case(
        "",
        (*HELD, asks),
        {"pg1": ("q1", 1, 0, RUN), "pg2": ("q2", 1, 0, RUN), "pg3": (of, 1, 0, "Pending")},
        placed={"c": placed} if placed else {},
        nodes=(machine("n1", "3", "3Gi"), machine("n2", "3", "3Gi")),
        queues=TWO,
        least={"pg1": amounts("1", "3Gi"), "pg2": amounts("3", "1Gi"), "pg3": amounts(*size)},
        plugins=("capacity",),
        admitted=("pg3",) if placed else (),
    )
    check(case, "enqueue, allocate")


# --- queues of queues ---------------------------------------------------------------------------------------------

ROOT = stated("root", None)


def part(name: str, of: str, deserved: dict[str, str] | None, capability: dict[str, str] | None, **more: Any) -> Object:
    return stated(name, deserved, capability, parent=of, **more)


PLAIN = (
    ROOT,
    part("q1", "root", None, amounts("4", "4Gi")),
    part("q2", "root", None, amounts("4", "4Gi")),
    part("q11", "q1", None, amounts("1", "1Gi")),
    part("q12", "q1", None, amounts("3", "3Gi")),
)
FOUR, Q2 = amounts("4", "4Gi", pods="4"), amounts("2", "2Gi", pods="2")
SHARED = (
    ROOT,
    part("q3", "root", amounts("4", "4Gi", pods="10"), amounts("4", "4Gi", pods="10")),
    part("q4", "root", amounts("2", "2Gi", pods="1"), FOUR),
    part("q31", "q3", Q2, FOUR),
    part("q32", "q3", Q2, FOUR),
)
BIG = (machine("n1", "8", "8Gi", "11"),)

TREES = [
    Case("in a queue without parts", ("p1 pg1 1,1",), {"pg1": ("q11", 1, 0, IN)}, (), {"p1": "n1"}, BIG, PLAIN),
    Case("in a queue with parts nothing is scheduled", ("p2 pg2 1,1",), {"pg2": ("q1", 1, 0, IN)}, (), {}, BIG, PLAIN),
    Case(
        "within its own and its parent's capability",
        ("p3 pg3 2,2", "p4 pg3 2,2"),
        {"pg3": ("q31", 2, 0, IN)},
        placed={"p3": "n1", "p4": "n1"},
        nodes=BIG,
        queues=SHARED,
    ),
    Case(
        "the nearest queue gives first",
        ("p5 pg4 4,4 @n1", "p6 pg5 2,2 @n1 kept", "p7 pg5 2,2 @n1", "p8 pg6 2,2"),
        {"pg4": ("q4", 1, 0, RUN), "pg5": ("q31", 1, 0, RUN), "pg6": ("q32", 1, 0, IN)},
        ("p7",),
        {"p8": "~n1"},
        BIG,
        SHARED,
    ),
    Case(
        "the parent's capability is too small for all of its parts",
        ("p6 pg5 2,2 @n1 kept", "p9 pg7 2,2 @n1", "p10 pg8 3,3"),
        {"pg5": ("q31", 1, 0, RUN), "pg7": ("q32", 1, 0, RUN), "pg8": ("q33", 1, 0, IN)},
        nodes=BIG,
        queues=(*SHARED[:2], *SHARED[3:], part("q33", "q3", amounts("0", "0", pods="2"), FOUR)),
    ),
    Case(
        "a capability that is not stated is the parent's",
        ("p11 pg9 1,0",),
        {"pg9": ("q51", 1, 0, RUN)},
        placed={"p11": "n1"},
        nodes=BIG,
        queues=(ROOT, part("q5", "root", None, {"memory": "4Gi"}), part("q51", "q5", None, {"memory": "2Gi"})),
    ),
    Case(
        "two queues let in what their parent may hold once",
        (),
        {"pg10": ("q61", 1, 0, "Pending"), "pg11": ("q62", 1, 0, "Pending")},
        nodes=BIG,
        queues=(
            ROOT,
            part("q6", "root", None, amounts("2", "4Gi")),
            part("q61", "q6", None, None),
            part("q62", "q6", None, None),
        ),
        least={"pg10": amounts("2", "4Gi"), "pg11": amounts("2", "4Gi")},
        admitted=("pg10",),
    ),
    Case(
        "parts are guaranteed more than their parent may have",
        ("p pg 1,1",),
        {"pg": ("q71", 1, 0, IN)},
        placed={"p": "n1"},
        nodes=BIG,
        queues=(
            ROOT,
            part("q7", "root", None, amounts("6", "4Gi")),
            part("q71", "q7", None, amounts("6", "4Gi"), guarantee={"resource": amounts("4", "3Gi")}),
            part("q72", "q7", None, amounts("6", "4Gi"), guarantee={"resource": amounts("4", "3Gi")}),
        ),
    ),
    Case(
        "within what it deserves of one resource",
        ("p16 pg16 1,1,2", "p17 pg17 1,1,2 @n3", "p18 pg18 1,1,2 @n3 kept"),
        {"pg16": ("q1", 1, 0, IN), "pg17": ("q2", 1, 0, RUN), "pg18": ("q2", 1, 0, RUN)},
        ("p17",),
        {"p16": "~n3"},
        (machine("n3", "16", "16Gi", "11", amounts={"nvidia.com/A100": "5"}),),
        (ROOT, part("q", "root", {"nvidia.com/A100": "2"}, None), part("q1", "q", {"nvidia.com/A100": "2"}, None),
         part("q2", "q", None, None)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", TREES, ids=lambda case: case.name)
def test_queues_of_queues(case: Case) -> None:
    case = Case(**{**case.__dict__, "plugins": ("capacity", "predicates", "gang")})
    check(case, "enqueue, reclaim, allocate", "capacity.enableHierarchy: true", "gang.enableReclaimable: false")


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ((queue("q1"),), "there is no queue root"),
        ((ROOT, part("q1", "gone", None, None)), "queue q1 is part of gone, which there is not"),
        ((ROOT, part("q1", "q2", None, None), part("q2", "q1", None, None)), "queue q1 is part of itself"),
        ((ROOT, queue("q1"), part("q11", "q1", None, None)), "queue q1 has jobs, and queues that are part of it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_queues_that_do_not_hang_together(queues: tuple[Object, ...], words: str) -> None:
    world = World(*BIG, *queues, group("g", 1, phase="Pending", queue="q1", minResources=amounts("1", "1Gi")))
    world.see(made("p g 1,1"))
    text = "actions: 'enqueue, allocate'\ntiers:\n- plugins:\n  - name: capacity\n    enableHierarchy: true\n"
    outcome = run(world.mirror, read_conf(text))
    assert outcome.decisions == []
    assert words in outcome.jobs["d/g"].message


LEVELS = """\
actions: reclaim
tiers:
- plugins:
  - name: capacity
    enableHierarchy: true
    arguments: {ancestorReclaimLevel: LEVEL}
  - name: gang
    enableReclaimable: false
"""


@pytest.mark.parametrize(("level", "evicted"), [("0", []), ("1", ["held"])])
def test_a_queue_that_deserves_nothing_reclaims_for_the_one_above_it(level: str, evicted: list[str]) -> None:
    """Team a deserves 4 and has nothing; its only queue states nothing. Team b has all 4, of which it deserves none."""
    world = World(
        machine("n1", "4", "4Gi"), ROOT,
        part("a", "root", amounts("4", "4Gi"), None), part("a1", "a", None, None),
        part("b", "root", None, None), part("b1", "b", None, None),
        group("g", 1, queue="a1"), group("h", 1, phase=RUN, queue="b1"),
        made("asks g 4,4"), made("held h 4,4 @n1"),
    )  # fmt: skip
    outcome = run(world.mirror, read_conf(LEVELS.replace("LEVEL", level)))
    assert [one.task.name for one in outcome.decisions if isinstance(one, Evicted)] == evicted


@pytest.mark.parametrize("level", ["0", "1"])
def test_parts_of_one_queue_that_deserve_nothing_leave_each_other_alone(level: str) -> None:
    """With the queue above to speak for them, neither may take what neither deserves."""
    world = World(
        machine("n1", "4", "4Gi"), ROOT, part("a", "root", amounts("8", "8Gi"), None),
        part("a1", "a", None, None), part("a2", "a", None, None),
        group("g", 1, queue="a1"), group("h", 1, phase=RUN, queue="a2"),
        made("asks g 4,4"), made("held h 4,4 @n1"),
    )  # fmt: skip
    outcome = run(world.mirror, read_conf(LEVELS.replace("LEVEL", level)))
    assert outcome.decisions == []
