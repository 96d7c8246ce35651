"""Whether the nodes that the real scheduler bound pods to are among those that our session scores best.

Owns the choice of the state in which a cycle is judged. Must not know scores. Called by `vcledger.proof`.

A whole cycle is made again on one state, each pod put where the record has it as soon as the session comes to it, so
that what follows is decided after the same. Of the states with which a cycle can have begun (as for sentences, see
`proof_words`), and last the first with the binds in flight, the one counts in which the most of its nodes could have
been taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from projections.cache.state import Cache, CacheConfig
from vcledger.proof_dice import BEST, LOWER, REFUSED, SAMPLED, Dice
from vcledger.proof_log import FAILED, Cycle, Placement, Written, in_flight
from vcledger.proof_moments import moments, search
from vcledger.proof_session import decide
from vcledger.scheduler.session.conf import SessionConf
from vcledger.scheduler.session.outcome import Outcome, Placed

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

FLYING, ELSEWHERE, WAITS, NOT_SEEN = "with binds in flight", "only elsewhere", "waits", "unseen"
HOWS = (BEST, SAMPLED, FLYING, LOWER, REFUSED, ELSEWHERE, WAITS, NOT_SEEN)
"""What of a recorded bind's node: see `proof_dice`; or one of the first two once pods are put in whose bind failed
later, on the node that their failure names; or the session had one node for the pod, which is another; or it left the
pod waiting; or the record has the pod only from when it had its node."""

COULD = (BEST, SAMPLED, FLYING)


class Choice(NamedTuple):
    """A bind, and what its node was to the session."""

    placement: Placement
    how: str


def judge_choices(
    ledger: Ledger, cluster: str, parts: Sequence[Cycle], model: str, config: CacheConfig, conf: SessionConf
) -> list[Choice]:
    """Every bind of the cycles, in the order of the log."""
    read = partial(ledger.caches, cluster=cluster, model=model, config=config)
    run = _Run(ledger, read, conf)
    bound = [part for part in parts if any(one.seen for one in part.placements)]
    run.look({part.began: part for part in bound})
    run.look({part.start: part for part in bound if part.start != part.began and not run.has_all(part)})
    for part in bound:
        if not run.has_all(part):
            search(moments(ledger, cluster, part), partial(run.try_states, part), partial(run.has_all, part))
    failures = [one for part in parts for one in part.written if one.reason == FAILED]
    lacking = [part for part in bound if failures and not run.has_all(part)]
    run.look({part.began: part for part in lacking}, failures)
    return [run.found.get(one.position, Choice(one, NOT_SEEN)) for part in parts for one in part.placements]


class _Run:
    """What the best state so far has given, by position."""

    def __init__(self, ledger: Ledger, read: partial[Iterator[tuple[int, Cache]]], conf: SessionConf) -> None:
        self.ledger, self.read, self.conf = ledger, read, conf
        self.found: dict[int, Choice] = {}

    def has_all(self, part: Cycle) -> bool:
        """Whether all nodes of the cycle could have been taken, in the best state so far."""
        return all(self.found[one.position].how in COULD for one in part.placements if one.seen)

    def look(self, asked: Mapping[int, Cycle], failures: Sequence[Written] = ()) -> None:
        """Makes each of some cycles again, on the state of a position; the pods whose bind is to fail put in."""
        for position, cache in self.read(sorted(asked)):
            part = asked[position]
            own = {one.uid for one in part.placements}
            flying = {uid: node for uid, node in in_flight(failures, part.began).items() if uid not in own}
            self._make(part, cache, flying)

    def try_states(self, part: Cycle, positions: Sequence[int]) -> list[int]:
        """Makes a cycle again on each of some states: how many of its nodes could have been taken."""
        return [self._make(part, cache) for _, cache in self.read(positions)]

    def _make(self, part: Cycle, cache: Cache, flying: Mapping[str, str] = MappingProxyType({})) -> int:
        dice = Dice(part.thrown, always=True, sampling=self.conf.sampling)
        outcome = decide(self.ledger, cache, frozenset(), flying, dice, conf=self.conf)
        seen = [one for one in part.placements if one.seen]
        hows = (FLYING if flying and how in COULD else how for how in _hows(seen, dice, outcome))
        now = list(map(Choice, seen, hows))
        before = [self.found[one.position] for one in seen if one.position in self.found]
        if not before or _could(now) > _could(before):
            self.found.update({one.placement.position: one for one in now})
        return _could(now)


def _could(choices: Sequence[Choice]) -> int:
    return sum(one.how in COULD for one in choices)


def _hows(binds: Sequence[Placement], dice: Dice, outcome: Outcome) -> Iterator[str]:
    """What each node was: where there was only one, or one that had been promised, nothing was thrown."""
    placed = {one.task.uid: one.node for one in outcome.decisions if isinstance(one, Placed) and not one.pipelined}
    for bind in binds:
        node = placed.get(bind.uid)
        if bind.uid in dice.stood:
            yield dice.stood[bind.uid]
        else:
            yield WAITS if node is None else BEST if node == bind.node else ELSEWHERE


__all__ = ["COULD", "HOWS", "Choice", "judge_choices"]
