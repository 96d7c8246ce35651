"""What comes into the loop: observations, answers, time, and commands, as values.

Owns their shapes, and Effect, which goes out. Must not know what is decided on them. Made by watches, workers, the
simulation and the session; read by `vcledger.scheduler.decide`.
"""

from __future__ import annotations

import msgspec

from vcledger.scheduler.requests import Answer, Request
from volcano.events.base import DomainEvent


class Effect(msgspec.Struct, frozen=True):
    """A request to carry out, handed over after the event at position `intent` was committed. Give it back in an
    `Answered`; the same intent may have several effects, so it is the two together that name one."""

    intent: int
    request: Request


class Input(msgspec.Struct, frozen=True):
    """Base of all inputs."""


class Observed(Input, frozen=True):
    """A watch line, or an item of a list. `kind` is our name (`volcano.objects.kinds`), `type` ADDED, MODIFIED or
    DELETED, `object_json` the object as the log is to keep it. PersistentVolumes and claims are sent back whole when
    they are updated, so they must come with all their annotations. `inferred`: a relist found it missing."""

    kind: str
    type: str
    object_json: bytes
    inferred: bool = False


class Listed(Input, frozen=True):
    """All items of a list of a kind have been given."""

    kind: str
    resource_version: str
    items_count: int
    relist: bool = False


class Noted(Input, frozen=True):
    """Any other event of the observation family, about a kind as a whole (WatchStarted, WatchExpired, GapRecorded)."""

    kind: str
    event: DomainEvent


class Answered(Input, frozen=True):
    """What came of an effect."""

    effect: Effect
    answer: Answer


class Ticked(Input, frozen=True):
    """Time has passed: what is due at the loop's time is done. `since` is the time of the tick before."""

    since: int


class Noticed(Input, frozen=True):
    """Something that the fold saw at `position` and that a decision has to follow; the loop gives it by itself. `what`:

    job        a job (key) may be over; `detail` is its PodGroup's UID
    node       a node (key) was seen: `detail` is new, placeholder or known; or it is gone: its UID
    refused    a node's object could not be read; `detail` says why
    ended      a task (UID) can't go on: its pod is over or elsewhere, its assumptions must go
    seen       a task (UID) whose answer was lost was seen bound to our node
    lost       a task (UID) whose bind was in doubt, and whose pod is gone; `detail` is intent, node and pod
    going      a task (UID) that is to go was seen going, and no answer to come says so
    left       a task (UID) that was to go, and whose pod is gone before it was asked for, or while that was in doubt;
               `detail` is intent (0: none), node, pod and job
    changed    a claim or volume that a task (UID) waits for
    flush      the bind queue has a batch
    recovered  nothing is in doubt any more
    """

    what: str
    key: str
    position: int
    detail: str = ""


class AssumeTask(Input, frozen=True):
    """Give the pod (namespace/name) the node, and assume its volumes there."""

    pod: str
    node: str


class BindTask(Input, frozen=True):
    """Hand an assumed task to the bind queue."""

    pod: str
    node: str


class FlushTasks(Input, frozen=True):
    """Bind these assumed tasks in one batch, now."""

    pods: tuple[str, ...]
    node: str


class DiscardJob(Input, frozen=True):
    """Give back all that was assumed for tasks of the job (namespace/podgroup) and is not on its way to be bound."""

    job: str
    reason: str


class ScheduleTask(Input, frozen=True):
    """Find a node for one pod, gang or not, and hand it to the bind queue; or say why there is none."""

    pod: str


class Allocate(Input, frozen=True):
    """One cycle: a session over all jobs, by the configuration of the flow."""


class CleanupFire(Input, frozen=True):
    """The clean-up queue hands out this key, `namespace/podgroup/UID`, whether it is due or not."""

    key: str


class SetBindErrorHandler(Input, frozen=True):
    """The pod's own handler of bind errors, by name. It stays the task's until it has succeeded or the pod is gone."""

    pod: str
    handler: str


class Restarted(Input, frozen=True):
    """The process begins anew on what the log holds: whatever was in flight is in doubt. `snapshot`: the position of
    the snapshot that it went on from, None when it has read the whole log."""

    snapshot: int | None = None


__all__ = [
    "Allocate",
    "Answered",
    "AssumeTask",
    "BindTask",
    "CleanupFire",
    "DiscardJob",
    "Effect",
    "FlushTasks",
    "Input",
    "Listed",
    "Noted",
    "Noticed",
    "Observed",
    "Restarted",
    "ScheduleTask",
    "SetBindErrorHandler",
    "Ticked",
]
