"""The eviction family: a task that was told to go, and what the API server answered.

Owns these events. Must not know who chose the task. Called through `volcano.events.catalog`.

All stand in the pod's stream, after the decision (TaskEvicted), whose own effect is the conditions that say so in the
pod. EvictRequested is an intent: in the log before the request goes out; its outcome names it by position (`intent`).
"""

from __future__ import annotations

from volcano.events.base import DomainEvent


class EvictRequested(DomainEvent, frozen=True):
    """Intent: DELETE of the pod, if it still has this UID, with the grace period that its spec gives it. `decided` is
    the position of its TaskEvicted; `attempt` counts the requests for one decision."""

    job: str
    node: str
    decided: int
    action: str = ""
    attempt: int = 1


class EvictSucceeded(DomainEvent, frozen=True):
    """The pod is going, or `gone` already (404, or another pod has its name). `code` 0: no answer said so, but a watch
    or a read did; `answer_lost`: no answer came to the request. `intent` None: nothing had been asked for, as somebody
    else had deleted the pod."""

    job: str
    node: str
    code: int = 200
    gone: bool = False
    answer_lost: bool = False
    intent: int | None = None


class EvictFailed(DomainEvent, frozen=True):
    """The pod stays: its conditions could not be written (`intent` None), or the API server refused (`code`, with the
    Status's `reason` and `message`). Or no answer came to the DELETE (`code` 0, `answer_lost`: it may have been carried
    out, and the pod is read). `retry_after_seconds`: the server's wish, when throttled."""

    job: str
    node: str
    code: int
    reason: str = ""
    message: str = ""
    attempt: int = 1
    answer_lost: bool = False
    retry_after_seconds: float | None = None
    intent: int | None = None


__all__ = ["EvictFailed", "EvictRequested", "EvictSucceeded"]
