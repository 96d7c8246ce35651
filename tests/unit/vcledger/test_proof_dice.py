"""Which nodes the real scheduler could have taken: the best, and in a large cluster the best of a sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from tests.unit.session.small import Small
from vcledger.proof_dice import BEST, LOWER, REFUSED, SAMPLED, Dice
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.sampling import Sampling


class Large(NamedTuple):
    nodes: NodeTable
    task: SessionTask


@pytest.fixture(scope="module")
def large() -> Large:
    """300 nodes."""
    world = Small()
    for number in range(300):
        world.node(f"n{number:03}", 8, 8)
    task = world.task(world.job("job"), "task")
    return Large(world.open("priority").nodes, task)


@pytest.mark.parametrize(
    ("nodes", "enough"), [(1, 1), (100, 100), (101, 100), (300, 144), (1_000, 420), (5_000, 500), (10_000, 500)]
)
def test_how_many_nodes_are_enough(nodes: int, enough: int) -> None:
    """CalculateNumOfFeasibleNodesToFind: 50 in 100 less one for each 125 nodes, 5 in 100 and 100 at least."""
    assert Sampling().enough(nodes) == enough


@pytest.mark.parametrize(
    ("fitting", "better", "what"),
    [(300, 0, BEST), (300, 156, SAMPLED), (300, 157, LOWER), (145, 1, SAMPLED), (144, 1, LOWER), (2, 1, LOWER)],
)
def test_better_nodes_may_have_been_left_out_of_a_sample(large: Large, fitting: int, better: int, what: str) -> None:
    """Of 300 nodes 144 that would do are enough: as many as there are beyond those may be better, and not looked at."""
    rows = np.arange(fitting)
    scores = np.array([2.0] * better + [1.0] * (fitting - better))
    name = large.nodes.names[fitting - 1]
    for always in (False, True):
        dice = Dice({large.task.uid: name}, always=always)
        chosen = dice.choose(large.nodes, large.task, rows, scores)
        assert dice.stood == {large.task.uid: what}
        assert chosen == (fitting - 1 if always or what != LOWER else None)


@pytest.mark.parametrize(
    ("better", "at", "what"),
    [
        ([0], 299, SAMPLED),
        ([0, 155], 100, SAMPLED),
        ([0, 145], 100, SAMPLED),
        ([0, 144], 100, LOWER),
        ([100, 250], 0, SAMPLED),
        ([100, 256], 0, LOWER),
        ([100, 255], 299, SAMPLED),
        ([100, 255], 99, SAMPLED),
        (list(range(1, 300, 100)), 0, LOWER),
    ],
)
def test_the_better_ones_lie_outside_one_stretch_of_the_list(
    large: Large, better: list[int], at: int, what: str
) -> None:
    """144 in a row round the node, none of them better; the end of the list goes on at its beginning."""
    scores = np.ones(300)
    scores[better] = 2.0
    dice = Dice({large.task.uid: large.nodes.names[at]}, large.nodes.names)
    dice.choose(large.nodes, large.task, np.arange(300), scores)
    assert dice.stood == {large.task.uid: what}


def test_the_stretch_is_one_of_the_lists_own_order_not_of_the_names(large: Large) -> None:
    """Every third node is better: by name no stretch is without one, in an order that has them last there is."""
    scores = np.ones(300)
    scores[::3] = 2.0
    order = sorted(large.nodes.names, key=lambda name: int(name[1:]) % 3 == 0)
    for listed, what in ((large.nodes.names, LOWER), (order, SAMPLED)):
        dice = Dice({large.task.uid: "n001"}, listed)
        dice.choose(large.nodes, large.task, np.arange(300), scores)
        assert dice.stood == {large.task.uid: what}


def test_nodes_that_would_not_do_do_not_break_a_stretch_nor_count(large: Large) -> None:
    rows, scores = np.arange(0, 300, 2), np.ones(150)
    for better, what in (([0], SAMPLED), ([0, 5], SAMPLED), ([0, 6], LOWER)):
        scores[:] = 1.0
        scores[better] = 2.0
        dice = Dice({large.task.uid: "n100"}, large.nodes.names)
        dice.choose(large.nodes, large.task, rows, scores)
        assert dice.stood == {large.task.uid: what}


def test_what_is_not_in_the_record_is_left_to_the_seed(large: Large) -> None:
    rows, scores = np.arange(2), np.zeros(2)
    dice = Dice({})
    assert dice.choose(large.nodes, large.task, rows, scores) is None
    assert dice.stood == {}
    for name in ("n002", "gone"):
        dice = Dice({large.task.uid: name}, always=True)
        assert dice.choose(large.nodes, large.task, rows, scores) is None
        assert dice.stood == {large.task.uid: REFUSED}
