"""What only `--full` tells: the queue's numbers, the gang member by member, preemption, the history.

Owns these parts in words. Must not know how they are found. Called by `projections.diagnosis.text` and `cli.why`.
"""

from __future__ import annotations

from collections.abc import Sequence

from projections.diagnosis.history import PLACED, STATES, History
from projections.diagnosis.lines import Line, table
from projections.diagnosis.model import Explanation, Member, NodeVictims, Preemption, QueueNumbers, ResourceNumbers
from projections.diagnosis.words import counted, some

MEMBERS_MAX = 60
"""A larger gang is told by counts, with as many of its members."""

WAIT_SECONDS_LEAST = 2.0
"""A shorter wait is what a scheduler's cycle and the API server's whole seconds make of no wait at all."""


def details(answer: Explanation) -> list[Line]:
    """The queue's numbers, the members, what preemption could do."""
    found = number_lines(answer.numbers) if answer.numbers is not None else []
    found += member_lines(answer.members)
    return found + (victim_lines(answer.preemption) if answer.preemption is not None else [])


def number_lines(numbers: QueueNumbers) -> list[Line]:
    """The queue's state and the table of its resources."""
    state = f"{numbers.queue} ({numbers.state or 'state unknown'}, weight {numbers.weight})"
    into = "the group has been taken in" if numbers.enqueued else "the group has not been taken in"
    gates = (
        f": {'; '.join(numbers.gates)}" if numbers.gates else "" if numbers.enqueued else ", though no gate is found"
    )
    return [
        Line("numbers", f"{state}: {into}{gates}"),
        *(Line("numbers", row) for row in resource_table(numbers.resources)),
    ]


def resource_table(resources: Sequence[ResourceNumbers]) -> list[str]:
    """The numbers of each resource, one a row."""
    head = (
        "RESOURCE", "ASKED", "ALLOCATED", "ADMITTED", "REQUESTED", "DESERVED", "CAPABILITY", "GUARANTEE", "CLUSTER",
        "CLUSTER USED",
    )  # fmt: skip
    rows = [
        (
            one.resource,
            one.asked or "-",
            one.allocated,
            one.admitted,
            one.requested,
            one.deserved or "-",
            one.capability or "-",
            one.guarantee or "-",
            one.cluster,
            one.cluster_used,
        )
        for one in resources
    ]
    return table(head, rows)


def member_lines(members: Sequence[Member]) -> list[Line]:
    """The gang as a compact table; of a large one its counts and the first members."""
    if not members:
        return []
    counts: dict[str, int] = {}
    for one in members:
        counts[one.trial] = counts.get(one.trial, 0) + 1
    grouped: dict[str, int] = {}
    for trial, count in counts.items():
        word = "could be placed" if trial.startswith("could go to ") else trial
        grouped[word] = grouped.get(word, 0) + count
    total = f"{counted(len(members), 'member')}: {', '.join(f'{count} {word}' for word, count in grouped.items())}"
    rows = [(one.name, one.role or "-", one.status, one.node or "-", one.trial) for one in members[:MEMBERS_MAX]]
    lines = [Line("member", row) for row in table(("NAME", "ROLE", "STATUS", "NODE", "TRIAL"), rows)]
    rest = len(members) - MEMBERS_MAX
    return [Line("member", total), *lines, *([Line("member", f"and {rest} more (-o json)")] if rest > 0 else [])]


def victim_lines(found: Preemption) -> list[Line]:
    """What follows, then each node: who may go, who is spared and why."""
    return [Line("victims", found.note), *(Line("victims", _victims(one)) for one in found.nodes)]


def _victims(one: NodeVictims) -> str:
    parts = [f"{word} {some(pods)}" for word, pods in (("preempt", one.preempt), ("reclaim", one.reclaim)) if pods]
    whys: dict[str, list[str]] = {}
    for spared in one.spared:
        whys.setdefault(spared.why, []).append(spared.pod)
    parts += [f"spared {some(pods)}: {why}" for why, pods in whys.items()]
    enough = "enough" if one.enough else "not enough"
    return f"{one.node} ({enough if one.preempt or one.reclaim else 'nobody'}): {'; '.join(parts) or 'no pod is there'}"


# --- the history --------------------------------------------------------------------------------------------------


def history_lines(found: History) -> list[Line]:
    """The time in each state, then the tries."""
    told = [f"{state} {duration(seconds)}" for state, seconds in found.time_in_state_seconds.items()]
    lines = [Line("state", ", ".join(told))] if told else []
    if found.spans:
        last = found.spans[-1]
        still = f"until {last.to}" if last.to is not None else "and still is"
        lines.append(Line("state", f"{last.state} since {last.since} {still}: {STATES[last.state]}"))
    for one in found.tries:
        verdict = f" [{one.verdict}]" if one.verdict else ""
        changed = f" ({'; '.join(one.changed)})" if one.changed else ""
        lines.append(
            Line("try", f"{one.time} {one.position:>7} {one.state or 'ended'}{verdict}: {one.message}{changed}")
        )
    if found.left_out:
        lines.append(Line("try", f"{counted(found.left_out, 'try', 'tries')} in the middle left out"))
    return lines


def waited_line(found: History) -> list[Line]:
    """Of a pod or job that waits no more: how long it did, in which states, and the position at which its longest wait
    began, for `--at`; nothing of a wait that is none."""
    told = {state: seconds for state, seconds in found.time_in_state_seconds.items() if state not in PLACED}
    waits = [span for span in found.spans if span.state not in PLACED]
    if sum(told.values()) < WAIT_SECONDS_LEAST:
        return []
    longest = max(waits, key=lambda span: span.seconds)
    parts = ", ".join(f"{state} {duration(seconds)}" for state, seconds in told.items() if seconds > 0)
    text = f"waited {duration(sum(told.values()))}: {parts}; why: --at {longest.position}"
    return [Line("state", text)]


def duration(seconds: float) -> str:
    """`2h03m`, `4m10s`, `38.8s`."""
    if seconds >= 3600:
        return f"{int(seconds // 3600)}h{int(seconds % 3600 // 60):02d}m"
    if seconds >= 60:
        return f"{int(seconds // 60)}m{int(seconds % 60):02d}s"
    return f"{seconds:.1f}s"
