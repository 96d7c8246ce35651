"""The answer as lines for people: ten to twenty, nodes grouped and counted.

Owns the layout in words. Must not know terminals. Called by `cli.why` and the demo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from projections.diagnosis.gaps import outages, tell
from projections.diagnosis.model import VERDICTS, Explanation, Said
from projections.diagnosis.reasons import grouped
from projections.diagnosis.words import counted, some

NODE_GROUPS, DETAILS_SHOWN, SAID_SHOWN, EVIDENCE_SHOWN, ALSO_SHOWN, GAPS_SHOWN = 6, 3, 3, 4, 3, 2


NOISE = re.compile(r"0/\d+ tasks in gang unschedulable")
"""PodGroup events that Volcano writes even when nothing is amiss."""


class Line(NamedTuple):
    """A line: `role` says what it is (head, verdict, cause, also, node, said, proof, note), for whoever colours it."""

    role: str
    text: str


def lines(answer: Explanation, *, full: bool = False) -> list[Line]:
    """The answer as lines. `full`: everything that was said and every proof, uncut."""
    headline = VERDICTS[answer.verdict] if answer.causes[:1] == [answer.summary] else answer.summary
    found = [Line("head", _head(answer)), Line("verdict", f"{answer.verdict}: {headline}")]
    if answer.since:
        found.append(Line("note", f"since {answer.since}"))
    found += [Line("cause", cause) for cause in answer.causes]
    found += _gaps(answer, full)
    found += [Line("record", text) for text in answer.notes]
    if answer.message and answer.message not in answer.summary:
        found.append(Line("message", answer.message))
    found += _also(answer, full)
    found += _nodes(answer, full)
    found += _said(answer, full)
    found += [Line("disagreement", text) for text in answer.disagreements]
    return found + _proof(answer, full)


def _head(answer: Explanation) -> str:
    uid = f" (uid {answer.uid})" if answer.uid else ""
    when = f", {answer.time}" if answer.time else ""
    when += f" (asked for {answer.asked})" if answer.asked else ""
    group = f"; PodGroup {answer.group}" if answer.group and not answer.subject.startswith("PodGroup") else ""
    queue = f", queue {answer.queue}" if answer.queue else ""
    return f"{answer.subject}{uid} at position {answer.at}{when}{group}{queue}"


def _also(answer: Explanation, full: bool) -> list[Line]:
    shown = answer.also if full else answer.also[:ALSO_SHOWN]
    return [Line("also", f"{other.verdict}: {other.text if full else short(other.text)}") for other in shown]


def short(text: str, most: int = 160) -> str:
    """A text cut to `most` characters, with a mark where it was cut."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _nodes(answer: Explanation, full: bool) -> list[Line]:
    """The nodes by their first reason."""
    if not answer.nodes:
        return []
    found = [Line("nodes", f"{len(answer.fits_on)} of {counted(len(answer.nodes), 'node')} would take this pod alone")]
    if answer.fits_on:
        found.append(Line("node", f"{len(answer.fits_on)} fit: {some(answer.fits_on)}"))
    groups = _refusals(answer)
    found += [Line("node", text) for text, _ in (groups if full else groups[:NODE_GROUPS])]
    if len(groups) > NODE_GROUPS and not full:
        rest = sum(count for _, count in groups[NODE_GROUPS:])
        found.append(Line("node", f"{rest} for {len(groups) - NODE_GROUPS} other reasons (-o wide lists every node)"))
    return found


def _refusals(answer: Explanation) -> list[tuple[str, int]]:
    """The nodes that refuse by their first reason, as (line, how many), with the differing details of each group."""
    parts = [(*row.reasons[0].partition(": "), row.node) for row in answer.nodes if not row.fits and row.reasons]
    found = []
    for text, names in grouped((text, node) for text, _, _, node in parts):
        details = list(dict.fromkeys(detail for head, _, detail, _ in parts if head == text and detail))
        shown = "; ".join(details[:DETAILS_SHOWN]) + ("; …" if len(details) > DETAILS_SHOWN else "")
        found.append((f"{len(names)} {text}{f': {shown}' if shown else ''} ({some(names)})", len(names)))
    return found


def _said(answer: Explanation, full: bool) -> list[Line]:
    """The conditions, then the Events about the pod and the latest others, each with its count and place."""
    own = f"Pod {answer.namespace}/{answer.name}"
    conditions = [one for one in answer.said if one.source == "condition" and (one.status != "True" or one.reason)]
    events = [one for one in answer.said if one.source == "event"]
    if full:
        return [Line("said", say(one)) for one in [*conditions, *events]]
    heard = {one.message for one in conditions}
    recent = sorted(
        (one for one in events if one.message not in heard and not NOISE.match(one.message)),
        key=lambda one: (one.about == own, one.last or "", one.position),
        reverse=True,
    )
    return [Line("said", short(say(one), 260)) for one in [*conditions, *recent][:SAID_SHOWN]]


def _gaps(answer: Explanation, full: bool) -> list[Line]:
    """The outages around the moment, then the last of those before it, one line each."""
    now = answer.asked or answer.time
    found = outages(answer.gaps)
    around = [tell(one, now) for one in found if one[0].inside]
    before = [tell(one, now) for one in found if not one[0].inside]
    left = 0 if full else max(0, len(before) - GAPS_SHOWN)
    rest = [f"{counted(left, 'earlier gap')} more (--full)"] if left else []
    return [Line("gap", text) for text in [*around, *before[left:], *rest]]


def say(one: Said) -> str:
    """One thing said: [where in the log], who, when and how often, what."""
    times = f", {counted(one.count, 'time')}" if one.count > 1 else ""
    when = one.first if one.first == one.last or one.last is None else f"{one.first} to {one.last}"
    if one.source == "condition":
        return f"[{one.position}] {one.about}: {one.by}={one.status} {one.reason}: {one.message}".rstrip(": ")
    who = f"{one.about}: {one.by or 'somebody'}"
    return f"[{one.position}] {who} said {one.reason} ({when}{times}): {one.message}"


def _proof(answer: Explanation, full: bool) -> list[Line]:
    if not answer.evidence:
        return []
    if full:
        return [
            Line("proof", f"position {one.position} ({one.known}): {one.what} proves: {one.proves}")
            for one in answer.evidence
        ]
    shown = answer.evidence[:EVIDENCE_SHOWN]
    more = len(answer.evidence) - len(shown)
    rest = f"; and {more} more (--full)" if more else ""
    return [Line("proof", "; ".join(f"{one.position} {one.what} ({one.known})" for one in shown) + rest)]


LABELS: dict[str, str] = {
    "head": "",
    "verdict": "Verdict",
    "note": "",
    "cause": "Because",
    "message": "In its words",
    "also": "Also",
    "nodes": "Nodes",
    "node": "",
    "said": "Was said",
    "disagreement": "They differ",
    "gap": "Gap",
    "record": "Record",
    "proof": "Proof",
    "story": "Story",
}
"""A role's label; a run of lines of one role has it on the first."""

WIDTH = max(len(label) for label in LABELS.values())


def labelled(found: Iterable[Line]) -> list[tuple[str, str, str]]:
    """(role, label, text) of each line, the label only where the role changes."""
    result: list[tuple[str, str, str]] = []
    before = ""
    for line in found:
        result.append((line.role, LABELS.get(line.role, "") if line.role != before else "", line.text))
        before = line.role
    return result


def plain(found: Sequence[Line]) -> str:
    """The lines as text without colours: label, two spaces, text."""
    return "\n".join(
        text if role == "head" else f"{label:<{WIDTH}}  {text}".rstrip() for role, label, text in labelled(found)
    )
