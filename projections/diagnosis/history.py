"""A pod's (or group's) way through the scheduler: in which state it was when, and each try with what was said of it.

Owns the states and how an observation is put into one of them. Must not know the log, nor other pods. Called by
`vcledger.why_history`.

A state is read off what the scheduler and the controllers wrote: gates, the PodGroup's phase, the pod's condition, a
claim's chosen node. Between two observations the state is that of the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from projections.diagnosis.agreement import ASSIGNABLE, parse_fit_message
from projections.diagnosis.claims import fully_bound, selected_node
from projections.diagnosis.outcomes import BIND_MESSAGE, PREBIND_MESSAGE
from projections.diagnosis.reasons import (
    VOLUME_AFFINITY,
    VOLUME_BIND,
    VOLUME_GONE,
    VOLUME_LIMIT,
    VOLUME_SPACE,
    VOLUME_ZONE,
)
from volcano.objects.core import PersistentVolumeClaim, Pod
from volcano.objects.scheduling import PodGroup

STATES: dict[str, str] = {
    "gated": "scheduling gates are on it",
    "podgroup": "its PodGroup does not exist yet",
    "queue": "its PodGroup is not in the queue, or the queue has its share",
    "first-try": "in the queue, and the scheduler has not said anything yet",
    "gang": "its gang cannot be placed whole",
    "nodes": "it fits on no node",
    "volumes": "its volumes keep it, or are being made",
    "bind": "the bind failed, and is tried again",
    "starting": "it has its node, and does not run yet",
    "running": "it runs",
}
"""The states in the order of a life, with what each means."""

PLACED = ("starting", "running")

VOLUME_TEXTS = (VOLUME_AFFINITY, VOLUME_BIND, VOLUME_GONE, VOLUME_LIMIT, VOLUME_SPACE, VOLUME_ZONE)
_PRE_PREDICATES = "pre-predicates failed"
_RELEASED = "once resource is released"
_ORIGIN = re.compile(r"Origin reason is \S+: ")
_IN_GANG = re.compile(r"\A\d+/\d+ tasks in gang unschedulable: ")


class Seen(NamedTuple):
    """An observation of the subject or of what it depends on, as it was from `time` (microseconds) on: one of a pod
    (None: gone), a group (None: gone), or a claim. `what` says which."""

    time: int
    position: int
    what: str
    object: Pod | PodGroup | PersistentVolumeClaim | None
    key: str = ""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The subject was in `state` from a time to another; `to` None: until the moment asked about. `since` and `to` are
    RFC 3339, `position` is where the log has its beginning."""

    state: str
    since: str
    to: str | None
    seconds: float
    position: int


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """A try of the scheduler, as far as it wrote something about it: when, where in the log, what; `state` in which it
    left the subject; `changed` what had changed since the try before; `verdict` our own evaluation at that position,
    '' where none was made."""

    time: str
    position: int
    state: str
    message: str
    changed: list[str] = []
    verdict: str = ""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The spans from the first on, the tries, and the time in each state in the order of a life. `left_out` tries in
    the middle are not told."""

    spans: list[Span]
    tries: list[Try]
    time_in_state_seconds: dict[str, float]
    left_out: int = 0


class Passage(NamedTuple):
    """The subject came into a state."""

    time: int
    position: int
    state: str


def pod_state(pod: Pod | None, group: PodGroup | None, waiting: bool) -> str:
    """The state of a pod; '' once it has ended. `waiting`: a claim of it has its node chosen, and no volume yet."""
    if pod is None or pod.status.phase in {"Succeeded", "Failed"}:
        return ""
    if pod.spec.node_name or pod.status.phase == "Running":
        return "running" if pod.status.phase == "Running" else "starting"
    if pod.spec.scheduling_gates:
        return "gated"
    message = scheduled_message(pod)
    if group is None:
        return said_state(message) or "podgroup"
    if waiting:
        return "volumes"
    if group.status.phase in {"", "Pending"}:
        return "queue"
    return said_state(message) or "first-try"


def group_state(group: PodGroup | None) -> str:
    """The state of a group, by its phase and its condition."""
    if group is None or group.status.phase == "Completed":
        return ""
    if group.status.phase in {"", "Pending"}:
        return "queue"
    if group.status.phase == "Running":
        return "running"
    return said_state(group_message(group)) or "first-try"


def scheduled_message(pod: Pod) -> str:
    """What PodScheduled=False says; '' without."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


def group_message(group: PodGroup) -> str:
    """What Unschedulable=True says; '' without."""
    for condition in group.status.conditions or ():
        if condition.type == "Unschedulable" and condition.status == "True":
            return condition.message
    return ""


def said_state(message: str) -> str:
    """The state that a sentence of the scheduler tells of; '' for no sentence or an unknown one."""
    text = _IN_GANG.sub("", message)
    if BIND_MESSAGE.match(text):
        return "bind"
    if PREBIND_MESSAGE.match(text):
        return "volumes"
    if ASSIGNABLE.match(text):
        return "nodes" if _RELEASED in text else "gang"
    if text.startswith("pod group is"):
        if _ORIGIN.search(text) or "Pipelined" in text:
            return "gang"
        return "queue"
    if text.startswith("Task ") and "already predicated failed" in text:
        return "nodes"
    parsed = parse_fit_message(text)
    if parsed is None:
        return ""
    return "volumes" if parsed[1] and all(_of_volumes(one) for one in parsed[1]) else "nodes"


def _of_volumes(text: str) -> bool:
    return text in VOLUME_TEXTS or _PRE_PREDICATES in text


def passages(seen: Iterable[Seen], *, of_group: bool) -> list[Passage]:
    """The changes of state along the observations, which come in the order of time; '' is the end."""
    pod: Pod | None = None
    group: PodGroup | None = None
    claims: dict[str, bool] = {}
    found: list[Passage] = []
    begun = False
    for one in seen:
        if one.what == "pod":
            pod, begun = one.object if isinstance(one.object, Pod) else None, True
        elif one.what == "group":
            group = one.object if isinstance(one.object, PodGroup) else None
            begun = begun or of_group
        elif one.object is None or isinstance(one.object, PersistentVolumeClaim):
            claims[one.key] = one.object is not None and bool(selected_node(one.object)) and not fully_bound(one.object)
        if not begun:
            continue
        state = group_state(group) if of_group else pod_state(pod, group, any(claims.values()))
        if not found or found[-1].state != state:
            found.append(Passage(one.time, one.position, state))
    return found


def lasting(found: Sequence[Passage], until: int) -> list[tuple[Passage, int | None, float]]:
    """Each state with when it ended (None: it lasts) and how many seconds it lasted up to `until` (microseconds); the
    end of a life is none."""
    result: list[tuple[Passage, int | None, float]] = []
    for index, one in enumerate(found):
        if not one.state:
            continue
        end = found[index + 1].time if index + 1 < len(found) else None
        result.append((one, end, max(0, (end if end is not None else until) - one.time) / 1e6))
    return result


def time_in_states(spans: Sequence[tuple[Passage, int | None, float]]) -> dict[str, float]:
    """The seconds in each state that there was, in the order of a life."""
    totals: dict[str, float] = {}
    for one, _, seconds in spans:
        totals[one.state] = totals.get(one.state, 0.0) + seconds
    return {state: round(totals[state], 3) for state in STATES if state in totals}


def reworded(before: str, after: str) -> str:
    """How a sentence changed: by its counts where both have such, else both."""
    old, new = parse_fit_message(before), parse_fit_message(after)
    if old is None or new is None:
        return f"said before: {before}" if before else "nothing was said before"
    parts = [f"{new[0]} nodes instead of {old[0]}"] if old[0] != new[0] else []
    for text in dict.fromkeys([*old[1], *new[1]]):
        was, now = old[1].get(text, 0), new[1].get(text, 0)
        if was != now:
            parts.append(f"{now} instead of {was} {text}")
    return ", ".join(parts) if parts else f"said before: {before}"
