"""Whether the sentences that the real scheduler wrote come out of the record again, word for word.

Owns the choice of the state and the comparison. Must not know how a sentence is made: a speaker makes it, without
looking at any condition or Event. Called by `vcledger.proof`.

A cycle looks at the state that it began with, and at what it has itself decided since; it writes its conditions when it
ends. So a sentence is made of the state with which its cycle began, as far as the cycle before and the period tell when
that was; where that does not give it, of the state before the cycle's first write, and then of the one just before it
was observed, in which the binds of its cycle stand. Binds that failed never stand in any state,
and yet their pods held their place until then; so where neither gives it, they are put in, as far as the record names
their node afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from projections.cache.state import Cache, CacheConfig
from projections.diagnosis.agreement import explains, parse_fit_message
from projections.diagnosis.reasons import Reason
from vcledger.proof_log import Cycle, Written
from volcano.events.binding import BindFailed

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

WORD_FOR_WORD, NODE, IN_FLIGHT, REASON, COUNTS, OTHER, ANSWER = (
    "word for word",
    "but for the node",
    "with binds in flight",
    "other reason",
    "other counts",
    "other",
    "answer unseen",
)
FAILED = "SchedulerError"
MISSED = (REASON, COUNTS, OTHER)
HOWS = (WORD_FOR_WORD, NODE, IN_FLIGHT, REASON, COUNTS, OTHER, ANSWER)
"""How a sentence compares with ours: equal; equal but for the node that it names, which we let through too; equal once
failed binds are put in; equal but for which of a node's several reasons is named; equal but for numbers; otherwise
different; or it repeats an answer of the API server that the record lacks, so that there is nothing to make it of."""

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
_FAILED_ON = re.compile(r"failed to bind to node (\S+): ")
_ASSIGNED = re.compile(r"(?<=can possibly be assigned to )\S+(?=, once)")
_NUMBER = re.compile(r"\d+")


class Speaker(Protocol):
    """Makes the scheduler's sentences of one state."""

    def of_pod(self, key: str, uid: str) -> str | None:
        """The message of the pod's PodScheduled=False; None where it would write none."""

    def of_group(self, key: str) -> str | None:
        """The message of the PodGroup's Unschedulable condition; None where it would write none."""

    def lets_through(self, key: str, node: str) -> bool:
        """Whether the node would take the pod, at once or once pods there are gone."""

    def table(self, key: str) -> Mapping[str, Sequence[Reason]]:
        """The nodes that the pod's (or for a PodGroup: its first failed member's) sentence counts, with all reasons."""


Speaks = Callable[["Ledger", Cache, frozenset[str], Mapping[str, str]], Speaker]
"""Makes the speaker of a state. The uids are of pods whose bind failed in the cycle: no volume that was asked for them
holds a place for them until they are tried again. Then node by uid of pods whose bind is in flight."""


class Compared(NamedTuple):
    """A sentence, ours for the two states, and how they compare."""

    written: Written
    how: str
    ours: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What kind of sentence it is; its own name in KINDS."""
        return kind_of(self.written.message)


def kind_of(message: str) -> str:
    """The kind of a sentence; `other` for one that is none of them."""
    return next((name for name, pattern in KINDS if pattern.match(message)), "other")


class _Look(NamedTuple):
    """One of the states in which a sentence is made. `in_flight`: with what failed binds held."""

    position: Callable[[Cycle, Written], int]
    in_flight: bool = False


LOOKS = (
    _Look(lambda part, one: part.began),
    _Look(lambda part, one: part.start),
    _Look(lambda part, one: one.position - 1),
)
"""In the order in which they are tried; a sentence that has come out is not looked at again."""


def compare_words(
    ledger: Ledger, cluster: str, parts: Sequence[Cycle], model: str, config: CacheConfig, speaks: Speaks
) -> list[Compared]:
    """Every sentence of the cycles, in the order of the log."""
    failures = [one for part in parts for one in part.written if one.reason == FAILED]
    found = {one.written.position: one for one in _answered(ledger, cluster, failures)}
    again = [look._replace(in_flight=True) for look in LOOKS] if failures else []
    for look in (*LOOKS, *again):
        asked: dict[int, list[tuple[Cycle, Written]]] = {}
        for part in parts:
            for one in part.written:
                if one.reason != FAILED and (one.position not in found or found[one.position].how in MISSED):
                    asked.setdefault(look.position(part, one), []).append((part, one))
        for position, cache in ledger.caches(sorted(asked), cluster=cluster, model=model, config=config):
            part = asked[position][0][0]
            in_flight = _in_flight(failures, part.began) if look.in_flight else {}
            free = frozenset(one.uid for one in part.written if one.reason == FAILED)
            speaker = speaks(ledger, cache, free, in_flight)
            for _, one in asked[position]:
                how, ours = _said(one, speaker)
                found[one.position] = _better(found.get(one.position), Compared(one, how, (ours,)), look)
    return [found[one.position] for part in parts for one in part.written]


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


def _better(before: Compared | None, now: Compared, look: _Look) -> Compared:
    """What comes nearer to the sentence; with binds in flight only an equal one counts."""
    if look.in_flight and now.how in {WORD_FOR_WORD, NODE}:
        now = now._replace(how=IN_FLIGHT)
    if before is None:
        return now
    ours = tuple(dict.fromkeys((*before.ours, *now.ours)))
    better = HOWS.index(now.how) < HOWS.index(before.how) and not (look.in_flight and now.how != IN_FLIGHT)
    return (now if better else before)._replace(ours=ours)


def _in_flight(failures: Sequence[Written], after: int) -> dict[str, str]:
    """Node by uid of the pods whose next failure after a position names the node."""
    found: dict[str, str] = {}
    for one in failures:
        named = _FAILED_ON.match(one.message) if one.position > after else None
        if named is not None:
            found.setdefault(one.uid, named.group(1))
    return found


def _said(written: Written, speaker: Speaker) -> tuple[str, str]:
    """How our sentence of one state compares, and the sentence."""
    group = written.kind == "PodGroup"
    ours = (speaker.of_group(written.key) if group else speaker.of_pod(written.key, written.uid)) or ""
    return _how(written, ours, speaker), ours


def _how(written: Written, ours: str, speaker: Speaker) -> str:
    theirs = written.message
    if ours == theirs:
        return WORD_FOR_WORD
    node = _ASSIGNED.search(theirs)
    if node is not None and _ASSIGNED.sub("", ours) == _ASSIGNED.sub("", theirs):
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
    "WORD_FOR_WORD",
    "Compared",
    "Speaker",
    "Speaks",
    "compare_words",
    "kind_of",
]
