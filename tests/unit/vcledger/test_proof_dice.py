"""Which nodes the real scheduler could have taken: the best, and in a large cluster the best of a sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from tests.unit.session.small import Small
from vcledger.proof_dice import BEST, LOWER, REFUSED, SAMPLED, Dice, chance_without
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
    [
        (300, 0, BEST),
        (300, 1, SAMPLED),
        (300, 10, SAMPLED),
        (300, 11, LOWER),
        (300, 157, LOWER),
        (145, 1, SAMPLED),
        (145, 2, LOWER),
        (144, 1, LOWER),
        (2, 1, LOWER),
    ],
)
def test_a_few_better_nodes_may_have_been_left_out_of_a_sample(
    large: Large, fitting: int, better: int, what: str
) -> None:
    """Of 300 nodes 144 that would do are enough. That ten better ones were left out happens once in 750 times."""
    rows = np.arange(fitting)
    scores = np.array([2.0] * better + [1.0] * (fitting - better))
    name = large.nodes.names[fitting - 1]
    for always in (False, True):
        dice = Dice({large.task.uid: name}, always=always)
        chosen = dice.choose(large.nodes, large.task, rows, scores)
        assert dice.stood == {large.task.uid: what}
        assert chosen == (fitting - 1 if always or what != LOWER else None)


def test_the_chance_is_that_of_a_draw_without_putting_back() -> None:
    assert chance_without(0, 10, 4) == 1
    assert chance_without(1, 10, 4) == pytest.approx(6 / 10)
    assert chance_without(2, 10, 4) == pytest.approx(6 * 5 / (10 * 9))
    assert chance_without(6, 10, 4) == pytest.approx(1 / 210)
    assert chance_without(7, 10, 4) == 0


def test_a_node_on_which_nothing_can_be_had_does_not_fit_and_counts_among_those_that_are_looked_at(
    large: Large,
) -> None:
    rows, scores = np.arange(300), np.full(300, -np.inf)
    scores[:20], scores[0] = 1.0, 2.0
    for name, what in (("n001", SAMPLED), ("n000", BEST), ("n020", REFUSED)):
        dice = Dice({large.task.uid: name})
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
