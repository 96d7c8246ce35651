"""Which nodes a task looks at in a large cluster: how many, in which order, from where; what a gang's turn remembers.

Volcano's pkg/scheduler/util: predicateHelper.PredicateNodes, CalculateNumOfFeasibleNodesToFind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.session.world import CONF, World, group, node, pod, queue
from vcledger.scheduler.session.conf import PluginConf, SessionConf
from vcledger.scheduler.session.model import Resources, SessionTask
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.outcome import Outcome, Placed
from vcledger.scheduler.session.run import run
from vcledger.scheduler.session.sampling import DEFAULT_SAMPLING, EVERY_NODE, Looks, Sampling

ROOM = SessionConf(("allocate",), ((PluginConf("gang"), PluginConf("predicates"), PluginConf("nodeorder")),))


@pytest.mark.parametrize(
    ("sampling", "nodes", "enough"),
    [
        (DEFAULT_SAMPLING, 100, 100),
        (DEFAULT_SAMPLING, 101, 100),
        (DEFAULT_SAMPLING, 300, 144),
        (DEFAULT_SAMPLING, 5_000, 500),
        (DEFAULT_SAMPLING, 20_000, 1_000),
        (Sampling(minimum=10), 11, 10),
        (Sampling(minimum=10), 1_000, 420),
        (Sampling(minimum_percentage=20), 10_000, 2_000),
        (Sampling(percentage=30), 1_000, 300),
        (Sampling(percentage=1), 1_000, 100),
        (Sampling(percentage=100), 1_000, 1_000),
        (Sampling(percentage=150), 1_000, 1_000),
        (Sampling(percentage=-1), 300, 144),
        (EVERY_NODE, 7_000, 7_000),
    ],
)
def test_so_many_nodes_are_enough(sampling: Sampling, nodes: int, enough: int) -> None:
    assert sampling.enough(nodes) == enough


def looks(count: int, sampling: Sampling, start: int = 0) -> Looks:
    """Over nodes whose list is in the order of their names, beginning at a place."""
    table = NodeTable(Resources(), [f"n{number:03}" for number in range(count)])
    numbers = iter(range(count))
    return Looks(table, sampling, 0, lambda *names: next(numbers) if names[0] == "listed" else start)


def test_a_task_stops_at_the_first_after_enough_and_the_next_goes_on_behind_it() -> None:
    """As one worker does: the node at which it is known that there are enough has been looked at as well."""
    one, all_do = looks(10, Sampling(minimum=3, percentage=30)), np.ones(10, dtype=bool)
    assert one.look("a", all_do).tolist() == [0, 1, 2]
    assert (one.place, one.looked_at.tolist(), one.saw_all) == (4, [0, 1, 2, 3], False)
    assert one.look("b", all_do).tolist() == [4, 5, 6]
    assert one.look("c", all_do).tolist() == [8, 9, 0]
    assert one.place == 2


def test_nodes_that_would_not_do_are_passed_on_the_way() -> None:
    one = looks(10, Sampling(minimum=3, percentage=30), start=8)
    would_do = np.array([True, False, True, False, True, True, False, False, False, True])
    assert one.look("a", would_do).tolist() == [9, 0, 2]
    assert one.looked_at.tolist() == [8, 9, 0, 1, 2, 3, 4]
    assert one.place == 5


def test_where_there_are_not_enough_all_are_looked_at_and_the_place_stays() -> None:
    one = looks(10, Sampling(minimum=3, percentage=30), start=6)
    would_do = np.zeros(10, dtype=bool)
    would_do[[2, 7]] = True
    assert one.look("a", would_do).tolist() == [7, 2]
    assert (one.saw_all, one.place) == (True, 6)
    assert one.look("b", ~would_do & False).tolist() == []
    assert one.place == 6


def test_both_kinds_of_room_count_and_a_part_of_the_list_is_its_own_circle() -> None:
    one = looks(10, Sampling(minimum=3, percentage=30), start=7)
    now, later = np.zeros((2, 10), dtype=bool)
    now[1], later[[7, 8]] = True, True
    assert one.look("a", now, later).tolist() == [7, 8, 1]
    part = np.array([2, 4, 6, 8, 9], dtype=np.intp)
    one.place = 7
    assert one.look("b", np.ones(10, dtype=bool), among=part).tolist() == [6, 8, 9]
    assert one.place == 1


def test_a_node_looked_at_alone_takes_the_place_back() -> None:
    one = looks(10, Sampling(minimum=3, percentage=30), start=5)
    one.look("a", np.ones(10, dtype=bool))
    one.look_at_one()
    assert one.look("b", np.ones(10, dtype=bool)).tolist() == [0, 1, 2]


def places(outcome: Outcome) -> dict[str, str]:
    return {one.task.name: one.node for one in outcome.decisions if isinstance(one, Placed)}


def large(nodes: int = 120, pods: int = 6) -> World:
    """The last node is far the best; each pod is a job of its own."""
    others = [node(f"n{number:03}", cpu="4", memory="16Gi") for number in range(nodes - 1)]
    world = World(queue(), *others, node("best", cpu="4000", memory="16000Gi"))
    for number in range(pods):
        world.see(group(f"g{number}"), pod(f"p{number}", f"g{number}", cpu="1", memory="4Gi"))
    return world


def test_the_best_node_is_taken_only_by_tasks_that_look_at_it() -> None:
    world = large(pods=40)
    assert set(places(run(world.mirror, replace(ROOM, sampling=EVERY_NODE))).values()) == {"best"}
    found = places(run(world.mirror, ROOM))
    assert 0 < sum(name != "best" for name in found.values()) < len(found)
    assert len(found) == 40


def test_up_to_the_minimum_every_node_is_looked_at() -> None:
    world = large(nodes=100, pods=20)
    assert set(places(run(world.mirror, ROOM)).values()) == {"best"}
    fewer = replace(ROOM, sampling=Sampling(minimum=20, percentage=10))
    assert set(places(run(world.mirror, fewer)).values()) != {"best"}


def test_the_same_seed_looks_at_the_same_nodes_however_the_mirror_came_to_its_state() -> None:
    found = [places(run(large().mirror, ROOM, seed=seed)) for seed in range(8)]
    assert found == [places(run(large().mirror, ROOM, seed=seed)) for seed in range(8)]
    grown = large(nodes=119)
    grown.mirror.refresh()
    grown.see(node("n118", cpu="4", memory="16Gi"))
    assert [places(run(grown.mirror, ROOM, seed=seed)) for seed in range(8)] == found
    assert len({tuple(sorted(one.items())) for one in found}) > 1


def test_what_a_waiting_pod_says_counts_every_node() -> None:
    world = large(pods=0)
    world.see(group("big"), pod("big", "big", cpu="5000"))
    (unfit,) = run(world.mirror, ROOM).unfit.values()
    assert unfit.message == "0/120 nodes are unavailable: 120 Insufficient cpu."


def test_a_pod_whose_room_is_in_no_sample_of_idle_nodes_waits_for_what_is_released() -> None:
    """The sample is of nodes that will do; only within it those come first that do at once."""
    world = World(queue(), *(node(f"n{number:03}", cpu="4") for number in range(120)))
    for number in range(119):
        world.see(group(f"r{number}"), pod(f"r{number}", f"r{number}", cpu="4", on=f"n{number:03}", deleting=True))
    world.see(group("g"), pod("p", "g", cpu="2"))
    sampled = [run(world.mirror, ROOM, seed=seed) for seed in range(40)]
    waits = [outcome for outcome in sampled if not outcome.jobs["d/g"].placed]
    assert 0 < len(waits) < 40
    for outcome in waits:
        (unfit,) = outcome.unfit.values()
        assert unfit.message.startswith("Pod d/p can possibly be assigned to n")
        assert unfit.message.endswith(", once resource is released and minAvailable is satisfied")
    assert places(run(world.mirror, replace(ROOM, sampling=EVERY_NODE))) == {"p": "n119"}


def test_a_chooser_sees_every_node() -> None:
    world = large(pods=1)
    seen: list[int] = []

    def chooser(task: SessionTask, rows: Any, scores: Any) -> int | None:
        seen.append(len(rows))
        return None

    run(world.mirror, ROOM, chooser=chooser)
    assert seen == [120]


# --- what a turn remembers --------------------------------------------------------------------------------------------


def spread(count: int, *, role: str) -> World:
    """A gang over two zones of two nodes each, at most one more in one than in the other."""
    even = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    even |= {"labelSelector": {"matchLabels": {"app": "x"}}}  # type: ignore[dict-item]
    nodes = [node(f"{zone}{number}", labels={"zone": zone}) for zone in "ab" for number in range(2)]
    world = World(queue(), *nodes, group("g", count))
    spec = {"topologySpreadConstraints": [even]}
    world.see(*(pod(f"p{index}", "g", labels={"app": "x"}, role=role, spec=spec) for index in range(count)))
    return world


def zones(outcome: Outcome) -> list[str]:
    return sorted(name[0] for name in places(outcome).values())


def test_a_role_does_not_come_back_to_nodes_that_refused_it_in_the_same_turn() -> None:
    """The second of a spread gang makes its first zone refuse; Volcano's error cache keeps that up for the turn, so
    that the fourth finds none, and the gang of four never begins."""
    outcome = run(spread(4, role="w").mirror, ROOM)
    assert not outcome.decisions
    (last,) = [one for one in outcome.unfit.values() if one.error is not None]
    words = "4 node(s) didn't match pod topology spread constraints"
    assert last.message == f"0/4 nodes are unavailable: {words}."
    assert zones(run(spread(3, role="w").mirror, ROOM)) in (["a", "b", "b"], ["a", "a", "b"])


def test_pods_without_a_role_and_with_the_cache_off_are_asked_each_time() -> None:
    assert zones(run(spread(4, role="").mirror, ROOM)) == ["a", "a", "b", "b"]
    off = replace(ROOM, configurations={"allocate": {"predicateErrorCacheEnable": False}})
    assert zones(run(spread(4, role="w").mirror, off)) == ["a", "a", "b", "b"]


def test_a_job_that_is_ready_has_a_turn_for_each_task() -> None:
    world = spread(4, role="w")
    world.see(group("g", 1))
    assert zones(run(world.mirror, ROOM)) == ["a", "a", "b", "b"]


def test_backfill_goes_on_after_a_task_that_no_node_takes() -> None:
    world = World(queue(), node("n1"), group("a"), group("b"))
    elsewhere = {"nodeSelector": {"disk": "ssd"}}
    world.see(pod("a", "a", cpu="", spec=elsewhere), pod("b", "b", cpu=""))
    outcome = run(world.mirror, CONF)
    assert places(outcome) == {"b": "n1"}
    (unfit,) = outcome.unfit.values()
    assert unfit.message == "0/1 nodes are unavailable: 1 node(s) didn't match Pod's node affinity/selector."
