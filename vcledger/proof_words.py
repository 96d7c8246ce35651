"""Whether the sentences that the real scheduler wrote come out of the record again, word for word.

Owns the choice of the state and the comparison. Must not know how a sentence is made: a speaker makes it, without
looking at any Event, nor at any condition but for the nodes that they name, which it is told. Called by
`vcledger.proof`.

A cycle looks at the state that it began with, and at what it has itself decided since; it writes its conditions when it
ends. So a sentence is made of the state with which its cycle began, as far as the cycle before and the period tell when
that was; where that does not give it, of the state before the cycle's first write, and then of the one just before it
was observed, in which the binds of its cycle stand. What is left of a cycle is made of one state between the first two.
Binds that failed never stand in any state, and yet their pods held their place until then; so in the end they are put
in, as far as the record names their node afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from projections.cache.state import Cache, CacheConfig
from projections.diagnosis.agreement import explains, parse_fit_message
from projections.diagnosis.reasons import Reason
from vcledger.proof_log import ASSIGNED, FAILED, Cycle, Written, in_flight
from vcledger.proof_moments import moments, search
from volcano.events.binding import BindFailed

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

WORD_FOR_WORD, THROWN, IN_FLIGHT, NODE, REASON, COUNTS, OTHER, ANSWER = (
    "word for word",
    "for the dice thrown",
    "with binds in flight",
    "but for the node",
    "other reason",
    "other counts",
    "other",
    "answer unseen",
)
MISSED = (NODE, REASON, COUNTS, OTHER)
HOWS = (WORD_FOR_WORD, THROWN, IN_FLIGHT, NODE, REASON, COUNTS, OTHER, ANSWER)
"""How a sentence compares with ours: equal; equal, the node that it names included, where that is one of several that
the scheduler could have taken; equal once failed binds are put in; equal but for the node, which we let through too;
equal but for which of a node's several reasons is named; equal but for numbers; otherwise different; or it repeats an
answer of the API server that the record lacks, so that there is nothing to make it of."""

KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("may be assigned", re.compile(r"Pod \S+ can possibly be assigned to (\S+), once minAvailable is satisfied")),
    (
        "may be assigned after a release",
        re.compile(r"Pod \S+ can possibly be assigned to (\S+), once resource is rele"),
    ),
    ("role has failed", re.compile(r"Task \S+ with role spec \S* has already predicated failed, skip")),
    ("no node", re.compile(r"0/\d+ nodes are unavailable")),
    ("pod of a group that waits", re.compile(r"pod group is (not )?ready, ")),
    ("group that waits", re.compile(r"\d+/\d+ tasks in gang unschedulable: ")),
    ("failed bind", re.compile(r"failed to bind to node |execute preBind for pod ")),
)
_NUMBER = re.compile(r"\d+")


class Speaker(Protocol):
    """Makes the scheduler's sentences of one state. `throws_dice`: of equal nodes it takes those that it is told."""

    throws_dice: bool

    def of_pod(self, key: str, uid: str) -> str | None:
        """The message of the pod's PodScheduled=False; None where it would write none."""

    def of_group(self, key: str) -> str | None:
        """The message of the PodGroup's Unschedulable condition; None where it would write none."""

    def lets_through(self, key: str, node: str) -> bool:
        """Whether the node would take the pod, at once or once pods there are gone."""

    def table(self, key: str) -> Mapping[str, Sequence[Reason]]:
        """The nodes that the pod's (or for a PodGroup: its first failed member's) sentence counts, with all reasons."""


Speaks = Callable[["Ledger", Cache, frozenset[str], Mapping[str, str], Mapping[str, str]], Speaker]
"""Makes the speaker of a state. The uids are of pods whose bind failed in the cycle: no volume that was asked for them
holds a place for them until they are tried again. Then node by uid of pods whose bind is in flight, and node by uid of
what the cycle decided on."""


class Compared(NamedTuple):
    """A sentence, ours for the two states, and how they compare."""

    written: Written
    how: str
    ours: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What kind of sentence it is; its own name in KINDS."""
        return kind_of(self.written.message)

    @property
    def names_a_node(self) -> bool:
        """Whether the sentence names the node that the pod may be assigned to."""
        return ASSIGNED.search(self.written.message) is not None


def kind_of(message: str) -> str:
    """The kind of a sentence; `other` for one that is none of them."""
    return next((name for name, pattern in KINDS if pattern.match(message)), "other")


class _Look(NamedTuple):
    """One of the states in which a sentence is made."""

    position: Callable[[Cycle, Written], int]


LOOKS = (
    _Look(lambda part, one: part.began),
    _Look(lambda part, one: part.start),
    _Look(lambda part, one: one.position - 1),
)
"""In the order in which they are tried; a sentence that has come out is not looked at again."""


class _Run:
    """One comparison: what has come out so far, by position."""

    def __init__(
        self,
        read: Callable[[Sequence[int]], Iterator[tuple[int, Cache]]],
        moments: Callable[[Cycle], Sequence[int]],
        speaks: Speaks,
        ledger: Ledger,
    ) -> None:
        self.read, self.moments, self.speaks, self.ledger = read, moments, speaks, ledger
        self.found: dict[int, Compared] = {}

    def left(self, part: Cycle) -> list[Written]:
        """The sentences of a cycle that have not come out."""
        return [
            one
            for one in part.written
            if one.reason != FAILED and (one.position not in self.found or self.found[one.position].how in MISSED)
        ]

    def look(self, parts: Sequence[Cycle], look: _Look, failures: Sequence[Written] = ()) -> None:
        """Makes what is left in one state each."""
        asked: dict[int, list[tuple[Cycle, Written]]] = {}
        for part in parts:
            for one in self.left(part):
                asked.setdefault(look.position(part, one), []).append((part, one))
        for position, cache in self.read(sorted(asked)):
            part = asked[position][0][0]
            speaker = self._speaker(part, cache, in_flight(failures, part.began))
            for _, one in asked[position]:
                self._take(one, *_said(one, speaker), bool(failures))

    def look_between(self, part: Cycle) -> None:
        """Makes what is left of a cycle in one state between its earliest begin and its first write: of some, in the
        one that gives the most."""
        left, best = self.left(part), list[tuple[Written, str, str]]()

        def ask(positions: Sequence[int]) -> list[int]:
            nonlocal best
            numbers = []
            for _, cache in self.read(positions):
                speaker = self._speaker(part, cache, {})
                said = [(one, *_said(one, speaker)) for one in left]
                best = max(best, said, key=_come_out)
                numbers.append(_come_out(said))
            return numbers

        if left:
            search(self.moments(part), ask, lambda: _come_out(best) == len(left))
        for one, how, ours in best:
            self._take(one, how, ours)

    def _speaker(self, part: Cycle, cache: Cache, in_flight: Mapping[str, str]) -> Speaker:
        free = frozenset(one.uid for one in part.written if one.reason == FAILED)
        return self.speaks(self.ledger, cache, free, in_flight, part.thrown)

    def _take(self, one: Written, how: str, ours: str, in_flight: bool = False) -> None:
        """Keeps what comes nearer to the sentence; with binds in flight only an equal one counts."""
        if in_flight:
            how = IN_FLIGHT if how in {WORD_FOR_WORD, THROWN} else OTHER
        before = self.found.get(one.position, Compared(one, how))
        better = how if HOWS.index(how) < HOWS.index(before.how) else before.how
        self.found[one.position] = Compared(one, better, tuple(dict.fromkeys((*before.ours, ours))))


def compare_words(
    ledger: Ledger, cluster: str, parts: Sequence[Cycle], model: str, config: CacheConfig, speaks: Speaks
) -> list[Compared]:
    """Every sentence of the cycles, in the order of the log."""
    failures = [one for part in parts for one in part.written if one.reason == FAILED]
    read = partial(ledger.caches, cluster=cluster, model=model, config=config)
    run = _Run(read, partial(moments, ledger, cluster), speaks, ledger)
    run.found = {one.written.position: one for one in _answered(ledger, cluster, failures)}
    for look in LOOKS:
        run.look(parts, look)
    for part in parts:
        run.look_between(part)
    for look in LOOKS if failures else ():
        run.look(parts, look, failures)
    return [run.found[one.position] for part in parts for one in part.written]


def _come_out(said: Sequence[tuple[Written, str, str]]) -> int:
    return sum(how not in MISSED for _, how, _ in said)


def _answered(ledger: Ledger, cluster: str, failures: Sequence[Written]) -> list[Compared]:
    """The sentences about failed binds, each beside the API server's last answer to a bind of the pod by then."""
    answers: dict[str, list[tuple[int, str]]] = {}
    uids = list(dict.fromkeys(one.uid for one in failures))
    for recorded in ledger.recorded(cluster=cluster, kinds="Pod", types="BindFailed", uid=uids) if uids else ():
        event = recorded.event
        if isinstance(event, BindFailed) and not event.answer_lost:
            said = f"failed to bind to node {event.node}: {event.message}"
            answers.setdefault(recorded.uid, []).append((recorded.observed_at, said))
    found = []
    for one in failures:
        ours = [said for at, said in sorted(answers.get(one.uid, ())) if at <= one.observed_at][-1:]
        how = ANSWER if not ours else WORD_FOR_WORD if ours == [one.message] else OTHER
        found.append(Compared(one, how, tuple(ours)))
    return found


def _said(written: Written, speaker: Speaker) -> tuple[str, str]:
    """How our sentence of one state compares, and the sentence."""
    group = written.kind == "PodGroup"
    ours = (speaker.of_group(written.key) if group else speaker.of_pod(written.key, written.uid)) or ""
    return _how(written, ours, speaker), ours


def _how(written: Written, ours: str, speaker: Speaker) -> str:
    theirs = written.message
    if ours == theirs:
        return THROWN if speaker.throws_dice and ASSIGNED.search(theirs) is not None else WORD_FOR_WORD
    node = ASSIGNED.search(theirs)
    if node is not None and ASSIGNED.sub("", ours) == ASSIGNED.sub("", theirs):
        return NODE if speaker.lets_through(written.key, node.group()) else OTHER
    if _other_choice(ours, theirs, speaker.table(written.key)):
        return REASON
    return COUNTS if _NUMBER.sub("", ours) == _NUMBER.sub("", theirs) else OTHER


def _other_choice(ours: str, theirs: str, table: Mapping[str, Sequence[Reason]]) -> bool:
    """Whether theirs names another of the same nodes' reasons, and says the same otherwise."""
    mine, other = parse_fit_message(ours), parse_fit_message(theirs)
    if mine is None or other is None or mine[0] != other[0] or mine[0] != len(table):
        return False
    heads = [text.partition(" nodes are unavailable: ")[0] for text in (ours, theirs)]
    return heads[0] == heads[1] and explains(other[1], table)


__all__ = [
    "ANSWER",
    "COUNTS",
    "HOWS",
    "IN_FLIGHT",
    "KINDS",
    "NODE",
    "OTHER",
    "REASON",
    "THROWN",
    "WORD_FOR_WORD",
    "Compared",
    "Speaker",
    "Speaks",
    "compare_words",
    "kind_of",
]
