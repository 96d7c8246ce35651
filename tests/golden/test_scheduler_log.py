"""The scores and choices of a real scheduler, out of its own log at -v=4 (recording 05): whoever it asked about a task
said the same here, scored the same to the last digit, and the node that it took is one that we could have taken.

Each session of the log is made again on the state of the record at its time, the log's node being taken for each task.
Pods that no watch tells of yet are put on the node that the log has for them, from when it was taken until the log says
that the pod was read again from the API: the proxy of that recording swallowed binds and answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.data import recording
from tests.golden.scheduler_log import Decision, LoggedSession, read_log
from vcledger.ledger import Ledger
from vcledger.proof_session import decide
from vcledger.scheduler.session.conf import read_conf
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import NodeTable
from vcledger.scheduler.session.plugins import BUILTIN
from vcledger.scheduler.session.plugins.binpack import Binpack
from vcledger.scheduler.session.plugins.nodeorder import NodeOrder
from vcledger.schedulerargs import config_of
from vcledger.sources import import_paths

FOLDER = recording("05-bind-faults")
CLUSTER, YEAR = "recorded", 2026
pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Ours:
    """What a session of ours says where the log has a choice: the names of the nodes that would do, what each has idle,
    and their scores by the log's words."""

    idle: dict[str, tuple[float, float]]
    least: dict[str, float]
    balanced: dict[str, float]
    total: dict[str, float]
    binpack: dict[str, float]
    scores: dict[str, float]


@dataclass(slots=True)
class Follower:
    """Takes the log's nodes, and notes what our session had to say."""

    decisions: Mapping[str, Decision]
    noted: dict[str, Ours] = field(default_factory=dict)
    order: NodeOrder | None = None
    pack: Binpack | None = None

    def plugins(self) -> dict[str, Any]:
        def order(arguments: Mapping[str, Any]) -> NodeOrder:
            self.order = NodeOrder(arguments)
            return self.order

        def pack(arguments: Mapping[str, Any]) -> Binpack:
            self.pack = Binpack(arguments)
            return self.pack

        return {**BUILTIN, "nodeorder": order, "binpack": pack}

    def choose(self, nodes: NodeTable, task: SessionTask, rows: Any, scores: Any) -> int | None:
        found = self.decisions.get(task.key)
        if found is None:
            return None
        assert self.order is not None and self.pack is not None
        names = [nodes.names[row] for row in rows]
        there = self.order._requested(rows)
        by_kind = self.order.by_kind(task, rows)
        total = self.order.by_room(task, rows) + (by_kind if by_kind is not None else 0.0)
        self.noted[task.key] = Ours(
            {name: (float(nodes.idle[row][0]), float(nodes.idle[row][1])) for name, row in nodes.row.items()},
            *(
                dict(zip(names, values.tolist(), strict=True))
                for values in (
                    self.order.least_requested(task, rows, there),
                    self.order.balanced(task, rows, there),
                    total,
                    self.pack.score(nodes, task, rows),
                    np.asarray(scores),
                )
            ),
        )
        row = nodes.row.get(found.taken, -1)
        return row if row in rows else None


@dataclass(slots=True)
class Pair:
    """A decision of the log, and ours: what the follower noted, and each node's refusal where no node was taken."""

    theirs: Decision
    ours: Ours | None
    refusals: Mapping[str, tuple[str, ...]]


def made_again(ledger: Ledger, log: Sequence[LoggedSession]) -> Iterator[Pair]:
    """Each session of the log on the record's state at its time."""
    conf = read_conf((FOLDER / "scheduler-conf.yaml").read_text())
    config = config_of((FOLDER / "scheduler-args.txt").read_text())
    at = [ledger.store.position_at(session.time, CLUSTER) for session in log]
    states = ledger.caches(sorted(set(at)), cluster=CLUSTER, config=config)
    reached, cache = next(states)
    flying: dict[str, str] = {}
    for position, session in zip(at, log, strict=True):
        while reached < position:
            reached, cache = next(states)
        for task in session.resynced:
            flying.pop(task, None)
        unbound = {key: ref for key, ref in cache.pods.items() if not ref.node_name}
        flying = {key: node for key, node in flying.items() if key in unbound or key not in cache.pods}
        if not session.decisions:
            continue
        on_their_way = {unbound[key].uid: node for key, node in flying.items() if key in unbound}
        nowhere = frozenset(ref.uid for ref in unbound.values())
        follower = Follower({one.task: one for one in session.decisions if one.taken})
        outcome = decide(ledger, cache, nowhere, on_their_way, follower, conf=conf, plugins=follower.plugins())
        tables = {one.task.key: one.table for one in outcome.unfit.values()}
        for one in session.decisions:
            yield Pair(one, follower.noted.get(one.task), dict(tables.get(one.task, {})))
            if one.taken:
                flying[one.task] = one.taken


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    path = tmp_path_factory.mktemp("log") / "05.db"
    with Ledger.open(str(path), create=True) as ledger:
        import_paths(ledger, [FOLDER / "watch.jsonl.zst", FOLDER / "audit.jsonl.zst"], cluster=CLUSTER)
        return list(made_again(ledger, read_log(FOLDER / "scheduler.log.zst", YEAR)))


def test_the_log_has_choices_and_refusals(pairs: list[Pair]) -> None:
    assert len(pairs) == 196
    assert sum(bool(one.theirs.total) for one in pairs) == 74
    assert sum(len(one.theirs.refused) for one in pairs) > 1_000


def test_the_same_nodes_would_do_and_have_as_much_idle(pairs: list[Pair]) -> None:
    for one in pairs:
        if one.theirs.total:
            assert one.ours is not None, one.theirs.task
            assert one.ours.idle == one.theirs.idle
            assert one.ours.total.keys() == one.theirs.total.keys()


def test_a_node_is_not_asked_again_once_it_refused_the_same_role(pairs: list[Pair]) -> None:
    """Volcano's error cache in the log: nodes that a task was not scored on, and that said nothing, have refused a task
    of the same gang and role before."""
    silent, role, refused = 0, "", set[str]()
    for one in (pair.theirs for pair in pairs):
        if one.task.rpartition("-")[0] != role:
            role, refused = one.task.rpartition("-")[0], set()
        missing = one.idle.keys() - one.refused.keys() - one.total.keys() if one.total else set()
        assert missing <= refused, one.task
        silent += len(missing)
        refused |= one.refused.keys()
    assert silent > 10


def test_every_score_is_the_same_to_the_last_digit(pairs: list[Pair]) -> None:
    """nodeorder's parts and its sum, and binpack, which the log has to six places."""
    compared = 0
    for one in pairs:
        theirs, ours = one.theirs, one.ours
        if not theirs.total or ours is None:
            continue
        assert ours.least == theirs.scores["NodeResourcesFit_LeastAllocated"], theirs.task
        assert ours.balanced == theirs.scores["NodeResourcesBalancedAllocation"], theirs.task
        assert ours.total == theirs.total, theirs.task
        assert theirs.scores["TaintToleration"] == dict.fromkeys(theirs.total, 300)
        assert ours.binpack == pytest.approx(theirs.binpack, abs=1e-6), theirs.task
        compared += len(theirs.total)
    assert compared > 400


def test_the_node_that_was_taken_scores_best_here(pairs: list[Pair]) -> None:
    for one in pairs:
        if one.theirs.total and one.ours is not None:
            assert one.ours.scores[one.theirs.taken] == max(one.ours.scores.values()), one.theirs.task


def test_where_no_node_would_do_each_says_the_same(pairs: list[Pair]) -> None:
    waiting = [one for one in pairs if not one.theirs.taken]
    assert len(waiting) > 100
    for one in waiting:
        theirs = {name: (said,) for name, said in one.theirs.refused.items()}
        assert dict(one.refusals) == theirs, one.theirs.task


def test_nodes_are_looked_at_in_one_order_which_is_that_of_a_map(pairs: list[Pair]) -> None:
    """What ADR 0018 says of the cache's list: the nodes that were there at the start stand round in it, node-2 first.
    (Two workers share the work, and may be a few nodes apart.)"""
    orders = Counter(next(iter(one.theirs.idle)) for one in pairs)
    assert orders.most_common(1)[0][0] == "node-2"
    assert orders["node-2"] > len(pairs) // 2
    assert "node-0" not in orders
