"""The answers about a queue (who holds it, what holds its jobs back) and about a node (why nothing is placed on it).

Owns their shapes and how they are told. Must not know how they are found. Called by `vcledger.why_queue`,
`vcledger.why_node` and `cli.why`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from projections.diagnosis.details import resource_table
from projections.diagnosis.lines import Line, table
from projections.diagnosis.model import Evidence, ResourceNumbers
from projections.diagnosis.text import LINES_MAX, short
from projections.diagnosis.words import counted, some

QUEUE_VERDICTS: dict[str, str] = {
    "queue-missing": "the queue does not exist, and jobs name it",
    "queue-closed": "the queue takes no new jobs",
    "queue-over-capability": "the queue holds its capability, or what of the cluster is left to it",
    "queue-overused": "the queue has its share of the cluster",
    "held-back": "the queue has room, and its jobs wait for something else",
    "nothing-waits": "nothing waits in the queue",
}
"""What a queue is told to be: the first that holds."""

NODE_VERDICTS: dict[str, str] = {
    "not-ready": "the scheduler leaves the node out",
    "cordoned": "the node is cordoned",
    "nothing-waits": "no pod waits for a node",
    "would-take": "pods that wait would fit on the node, and are held back by something else",
    "full": "every pod that waits asks for more than the node has left",
    "refuses": "the node refuses every pod that waits",
}
"""What a node is told to be: the first that holds."""

HOLDERS_SHOWN, GROUPS_SHOWN = 4, 3


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A job that holds something of a queue: `amounts` as people write them, `share` of what the queue holds (of the
    resource of which that is most)."""

    job: str
    phase: str
    pods: int
    amounts: dict[str, str]
    share: float


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs or pods that wait for the same: how many, what the first of them is told, and all their names."""

    verdict: str
    count: int
    summary: str
    names: list[str]


def by_verdict(told: Mapping[str, Sequence[tuple[str, str]]]) -> list[HeldBack]:
    """Names and summaries by verdict as groups, the largest first."""
    found = [
        HeldBack(verdict=verdict, count=len(those), summary=those[0][1], names=[name for name, _ in those])
        for verdict, those in told.items()
    ]
    return sorted(found, key=lambda one: (-one.count, one.verdict))


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about a queue. `waiting` jobs of it were asked about, of `waiting_total` that wait."""

    subject: str
    name: str
    at: int
    time: str | None
    verdict: str
    summary: str
    state: str
    weight: int
    resources: list[ResourceNumbers]
    holders: list[Holder]
    held_back: list[HeldBack]
    waiting: int
    waiting_total: int
    evidence: list[Evidence]
    notes: list[str] = []
    asked: str | None = None


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about a node. `refused` groups the pods that wait by the first reason why they may not go there;
    `would_fit` those that it would take, by what else holds them back; `asked_about` pods of `waiting_total`."""

    subject: str
    name: str
    at: int
    time: str | None
    verdict: str
    summary: str
    state: list[str]
    allocatable: dict[str, str]
    idle: dict[str, str]
    releasing: dict[str, str]
    pods: int
    pods_max: int | None
    refused: list[HeldBack]
    would_fit: list[HeldBack]
    asked_about: int
    waiting_total: int
    evidence: list[Evidence]
    notes: list[str] = []
    asked: str | None = None


def queue_lines(answer: QueueAnswer, *, full: bool = False) -> list[Line]:
    """The answer about a queue: ten lines at most, unless `full`."""
    found = [
        Line("head", _head(answer.subject, answer.at, answer.time, answer.asked)),
        Line("verdict", f"{answer.verdict}: {answer.summary}"),
    ]
    rows = resource_table(answer.resources)
    told = rows if full else rows[:3]
    found += [Line("numbers", row) for row in told]
    holders = answer.holders if full else answer.holders[:HOLDERS_SHOWN]
    if full:
        table_rows = [(one.job, one.phase, str(one.pods), _amounts(one.amounts)) for one in holders]
        found += [Line("holder", row) for row in table(("JOB", "PHASE", "PODS", "HOLDS"), table_rows)]
    elif holders:
        named = "; ".join(f"{one.job} {_amounts(one.amounts)} ({one.share:.0%})" for one in holders)
        rest = len(answer.holders) - len(holders)
        more = f"; and {counted(rest, 'more job')}" if rest else ""
        found.append(Line("holder", named + more))
    found += _held_back(answer.held_back, full)
    found += [Line("record", note) for note in answer.notes]
    return _cut(found, _proof(answer.evidence, full), full)


def node_lines(answer: NodeAnswer, *, full: bool = False) -> list[Line]:
    """The answer about a node: ten lines at most, unless `full`."""
    found = [
        Line("head", _head(answer.subject, answer.at, answer.time, answer.asked)),
        Line("verdict", f"{answer.verdict}: {answer.summary}"),
    ]
    found += [Line("cause", text) for text in answer.state]
    limit = f" of {answer.pods_max}" if answer.pods_max is not None else ""
    ending = f"; being released: {_amounts(answer.releasing)}" if answer.releasing else ""
    idle = f"idle: {_amounts(answer.idle)} of {_amounts(answer.allocatable)}; {answer.pods}{limit} pods{ending}"
    found.append(Line("nodes", idle))
    found += [Line("also", _held(one, full, "would fit, but ")) for one in _shown(answer.would_fit, full)]
    found += [Line("node", _held(one, full, "")) for one in _shown(answer.refused, full)]
    found += [Line("record", note) for note in answer.notes]
    return _cut(found, _proof(answer.evidence, full), full)


def _head(subject: str, at: int, time: str | None, asked: str | None) -> str:
    return f"{subject} at position {at}{f', {time}' if time else ''}{f' (asked for {asked})' if asked else ''}"


def _amounts(amounts: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "nothing"


def _shown(found: Sequence[HeldBack], full: bool) -> Sequence[HeldBack]:
    return found if full else found[:GROUPS_SHOWN]


def _held_back(found: Sequence[HeldBack], full: bool) -> list[Line]:
    lines = [Line("also", _held(one, full, "")) for one in _shown(found, full)]
    rest = sum(one.count for one in found) - sum(one.count for one in _shown(found, full))
    return lines + ([Line("also", f"and {rest} that wait for other things (--full)")] if rest else [])


def _held(one: HeldBack, full: bool, before: str) -> str:
    names = ", ".join(one.names) if full else some(one.names)
    summary = one.summary if full else short(one.summary)
    return (
        f"{one.count} {before}{one.verdict}: {summary} ({names})"
        if summary
        else f"{one.count} {before}{one.verdict} ({names})"
    )


def _proof(evidence: Sequence[Evidence], full: bool) -> list[Line]:
    if full:
        return [
            Line("proof", f"position {one.position} ({one.known}): {one.what} proves: {one.proves}") for one in evidence
        ]
    told = "; ".join(f"{one.position} {one.what} ({one.known})" for one in evidence[:3])
    return [Line("proof", told)] if told else []


def _cut(found: list[Line], proof: list[Line], full: bool) -> list[Line]:
    """Ten lines at most; what is left out is counted."""
    most = LINES_MAX - len(proof)
    if full or len(found) <= most:
        return [*found, *proof]
    left = len(found) - (most - 1)
    return [*found[: most - 1], Line("note", f"{counted(left, 'line')} left out (--full)"), *proof]
