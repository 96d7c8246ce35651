"""The answer as lines for people: about ten, nodes grouped and counted.

Owns the layout in words. Must not know terminals. Called by `cli.why` and the demo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from projections.diagnosis.details import details
from projections.diagnosis.gaps import outages, tell
from projections.diagnosis.lines import Line
from projections.diagnosis.model import VERDICTS, Explanation, Other, Refusal, Said
from projections.diagnosis.words import counted, some

SAID_CHARS = 260
NODE_GROUPS, SAID_SHOWN, EVIDENCE_SHOWN, ALSO_SHOWN, GAPS_SHOWN = 4, 3, 4, 3, 2

RULES_OUT_NODES = ("gang-short", "pvc-", "storageclass-missing", "no-matching-volume", "volume-node-", "volume-limit")
"""How verdicts begin that rule every node out by themselves."""


NOISE = re.compile(r"0/\d+ tasks in gang unschedulable")
"""PodGroup events that Volcano writes even when nothing is amiss."""


SETTLED = ("scheduled", "finished", "deleted", "running")
"""Verdicts about what waits for nothing: of what was said only the scheduler's own outcome and failures are news."""

FAILURES = ("FailedScheduling", "Evict", "Evicted", "Preempted")


def lines(answer: Explanation, *, full: bool = False, waited: Sequence[Line] = ()) -> list[Line]:
    """The answer as lines: about ten, none of which says again what another has said. `full`: everything that was said
    and every proof, uncut. `waited`: what to say of a wait that is over."""
    headline = VERDICTS[answer.verdict] if answer.causes[:1] == [answer.summary] else answer.summary
    found = [Line("head", _head(answer)), Line("verdict", f"{answer.verdict}: {headline}")]
    if answer.since:
        found.append(Line("note", f"since {answer.since}"))
    found += [Line("cause", cause) for cause in answer.causes]
    found += _gaps(answer, full)
    found += [Line("record", text) for text in answer.notes]
    found += _also(answer, full)
    found += _nodes(answer, full, "\n".join(line.text for line in found))
    heard = _heard(answer, full)
    found += [Line("said", _marked(answer, one, full)) for one in heard]
    found += _recomputed(answer, heard)
    found += [Line("disagreement", text) for text in answer.disagreements]
    found += _changes(answer, full)
    if full:
        found += details(answer)
    found += waited
    proof = _proof(answer, full)
    return found + proof if full else _fitted(found, proof)


def _changes(answer: Explanation, full: bool) -> list[Line]:
    """The smallest change with which it would run; all of them when `full`."""
    if full:
        return [Line("change", f"{one.text} (proven: {one.proof})") for one in answer.changes]
    rest = len(answer.changes) - 1
    more = f" ({counted(rest, 'other')} with --full)" if rest > 0 else ""
    return [Line("change", f"Smallest change: {one.text}{more}") for one in answer.changes[:1]]


LINES_MAX = 10
LEFT_OUT_FIRST = ("node", "also", "said", "record", "gap", "cause", "message", "disagreement", "nodes", "change")
"""What goes first where an answer is longer: of each kind of line but one, then those too."""


def _fitted(found: list[Line], proof: list[Line]) -> list[Line]:
    """The lines cut to ten, with how many were left out."""
    kept, left = list(found), 0
    for least in (1, 0):
        for role in LEFT_OUT_FIRST:
            while len(kept) + len(proof) > LINES_MAX:
                places = [index for index, line in enumerate(kept) if line.role == role]
                if len(places) <= least:
                    break
                kept.pop(places[-1])
                left += 1
    if not left:
        return [*kept, *proof]
    text = f"{counted(left, 'line')} left out (--full)"
    if not proof:
        return [*kept[:-1], kept[-1]._replace(text=f"{kept[-1].text}; {text}")]
    return [*kept, *proof[:-1], proof[-1]._replace(text=f"{proof[-1].text}; {text}")]


def _head(answer: Explanation) -> str:
    uid = f" (uid {answer.uid})" if answer.uid else ""
    when = f", {answer.time}" if answer.time else ""
    when += f" (asked for {answer.asked})" if answer.asked else ""
    group = f"; PodGroup {answer.group}" if answer.group and not answer.subject.startswith("PodGroup") else ""
    queue = f", queue {answer.queue}" if answer.queue else ""
    return f"{answer.subject}{uid} at position {answer.at}{when}{group}{queue}"


def _also(answer: Explanation, full: bool) -> list[Line]:
    """The further verdicts; those that only repeat the chain of causes are left out unless `full`."""
    if full:
        return [Line("also", f"{other.verdict}: {other.text}") for other in answer.also]
    new = [other for other in answer.also if not _follows(answer, other)]
    found = [Line("also", f"{other.verdict}: {short(other.text)}") for other in new[:ALSO_SHOWN]]
    rest = len(new) - ALSO_SHOWN
    return found + ([Line("also", f"and {rest} more (--full)")] if rest > 0 else [])


def _follows(answer: Explanation, other: Other) -> bool:
    """Whether a further verdict says nothing that the causes have not said."""
    if any(other.text in cause for cause in answer.causes):
        return True
    return other.verdict == "no-node-fits" and answer.verdict.startswith(RULES_OUT_NODES)


def short(text: str, most: int = 160) -> str:
    """A text cut to `most` characters, with a mark where it was cut."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _nodes(answer: Explanation, full: bool, told: str) -> list[Line]:
    """How many nodes would take the pod, and the others by their first reason; groups that stand in what was `told`
    are left out unless `full`."""
    if not answer.nodes:
        return []
    groups = [one for one in answer.refused if full or not _told(one, told)]
    found = []
    later = any(row.fits_after_release for row in answer.nodes)
    if full or groups or later or not _no_node_told(answer, told):
        found.append(Line("nodes", _fitting(answer)))
    shown = groups if full else groups[:NODE_GROUPS]
    found += [Line("node", _refused(one, full)) for one in shown]
    rest = groups[len(shown) :]
    if rest:
        count = sum(one.count for one in rest)
        found.append(Line("node", f"{count} for {len(rest)} other reasons (-o wide lists every node)"))
    return found


def _told(one: Refusal, told: str) -> bool:
    """Whether a group, or what it rests on, has been told already."""
    return f"{one.count} {one.reason}" in told or (bool(one.detail) and one.detail in told)


def _no_node_told(answer: Explanation, told: str) -> bool:
    """Whether the verdict, or another that was told, says by itself that no node would take this pod."""
    if answer.fits_on:
        return False
    if "no-node-fits: " in told or answer.verdict.startswith(RULES_OUT_NODES[1:]):
        return True
    return answer.verdict == "gang-short" and "this pod fits on no node" in answer.summary


def _fitting(answer: Explanation) -> str:
    """`8 of 10 nodes would take this pod alone: cpu-0, …`, apart from those that would once pods are gone."""
    names, nodes = answer.fits_on, counted(len(answer.nodes), "node")
    later = [row.node for row in answer.nodes if row.fits_after_release and not row.fits]
    if later:
        return (
            f"{len(names)} of {nodes} would take this pod now{f': {some(names)}' if names else ''}; {len(later)} once "
            f"pods that are ending there are gone: {some(later)}"
        )
    before = ", before its gang-mates are placed" if answer.verdict == "gang-short" and names else ""
    return f"{len(names)} of {nodes} would take this pod alone{before}{f': {some(names)}' if names else ''}"


def _refused(one: Refusal, full: bool) -> str:
    names = ", ".join(one.nodes) if full else some(one.nodes)
    return f"{one.count} {one.reason}{f': {one.detail}' if one.detail else ''} ({names})"


def _heard(answer: Explanation, full: bool) -> list[Said]:
    """The conditions, then the Events about the pod and the latest others; unless `full` only what is new in each."""
    own = f"Pod {answer.namespace}/{answer.name}"
    conditions = [one for one in answer.said if one.source != "event" and (one.status != "True" or one.reason)]
    events = [one for one in answer.said if one.source == "event"]
    if full:
        return [*conditions, *events]
    settled = answer.verdict in SETTLED
    recent = sorted(
        (one for one in events if not NOISE.match(one.message) and (settled or one.reason != "Scheduled")),
        key=lambda one: (one.about == own, one.last or "", one.position),
        reverse=True,
    )
    telling = [one for one in conditions if one.by != "Scheduled"]
    if settled:
        recent = [one for one in recent if one.message == answer.message or one.reason in FAILURES]
    found: list[Said] = []
    for one in [*telling, *recent]:
        if not any(_same_words(one.message, other.message) for other in found):
            found.append(one)
    return found[:SAID_SHOWN]


def _same_words(one: str, other: str) -> bool:
    """Whether one of two messages is the other, or ends with it (a group's message ends with its origin's)."""
    return one.endswith(other) or other.endswith(one)


def _marked(answer: Explanation, one: Said, full: bool) -> str:
    """What was said, and that our evaluation comes to the same words where it does."""
    text = say(one) if full else short(say(one), SAID_CHARS)
    same = bool(answer.message) and one.message == answer.message
    return f"{text} (recomputed: the same, word for word)" if same else text


def _recomputed(answer: Explanation, heard: Sequence[Said]) -> list[Line]:
    """The scheduler's sentence as our evaluation composes it, where nobody has said it."""
    if not answer.message or answer.message in answer.summary:
        return []
    if any(one.message and one.message.endswith(answer.message) for one in [*heard, *answer.said]):
        return []
    return [Line("message", answer.message)]


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
    if one.source == "annotation":
        return f"[{one.position}] {who} wrote {one.reason}: {one.message}"
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
    "also": "Also",
    "nodes": "Nodes",
    "node": "",
    "said": "Was said",
    "message": "Recomputed",
    "disagreement": "Disagreement",
    "change": "Change",
    "gap": "Gap",
    "record": "Record",
    "proof": "Proof",
    "numbers": "Queue",
    "member": "Members",
    "victims": "Preemption",
    "holder": "Held by",
    "state": "In state",
    "try": "Tries",
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
