"""What has to hold of evictions at each moment of a simulated world, by what is sent and what the scheduler holds.

Owns these checks; those that a ledger alone can tell are the test kit's. Must not know how the world is run. Called by
`vcledger.sim.world` after each group of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eventstore import EventStore
from vcledger import codec
from vcledger.scheduler.eviction_steps import EvictPhase
from vcledger.scheduler.inputs import Effect
from vcledger.scheduler.requests import Delete
from vcledger.scheduler.state import SECOND, Flow
from volcano.events.base import Recorded
from volcano.events.eviction import EvictFailed, EvictRequested
from volcano.events.scheduling import TaskPipelined
from volcano.objects.status import TaskStatus

_GOES = (int(TaskStatus.RELEASING), int(TaskStatus.SUCCEEDED), int(TaskStatus.FAILED))


def wrong(flow: Flow, log: EventStore, after: int, effects: Iterable[Effect]) -> list[str]:
    """What does not hold, each a sentence, once a group was decided whose events stand behind position `after`."""
    found = [line for effect in effects for line in _deletion(flow, log, effect)]
    if flow.evictions:
        found += [*_not_releasing(flow), *_promised_in_vain(flow, log, after)]
    return found


def _deletion(flow: Flow, log: EventStore, effect: Effect) -> Iterator[str]:
    """A pod is deleted by its UID; and once more only while the request before may still be on its way."""
    request = effect.request
    if not isinstance(request, Delete) or request.kind != "Pod":
        return
    asked = codec.recorded(log.get([effect.intent])[0])
    if request.uid != asked.uid:
        yield f"pod {request.namespace}/{request.name} is deleted whoever has the name, and {asked.uid} is meant"
    event = asked.event
    if not isinstance(event, EvictRequested) or event.attempt == 1:
        return
    before = [
        one for one in _read(log, 0, asked.position - 1)
        if one.uid == asked.uid and isinstance(one.event, EvictRequested) and one.event.decided == event.decided
    ]  # fmt: skip
    if before and asked.observed_at - before[-1].observed_at >= flow.config.settle_seconds * SECOND:
        yield f"pod {request.namespace}/{request.name} is deleted for a decision of long ago"


def _read(log: EventStore, after: int, to: int) -> list[Recorded]:
    return [codec.recorded(one) for one in log.read(after=after, to=to) if one.type in _ABOUT]


_ABOUT = ("EvictRequested", "EvictFailed", "TaskPipelined")


def _not_releasing(flow: Flow) -> Iterator[str]:
    """Every task that was told to go, and whose pod the scheduler has, is Releasing in its job."""
    for one in flow.evictions.values():
        job = flow.cache.jobs.get(one.job)
        task = job.tasks.get(one.uid) if job is not None else None
        if task is not None and int(task.status) not in _GOES:
            yield f"{one.key} was told to go, and is {TaskStatus(task.status).name}"


def _promised_in_vain(flow: Flow, log: EventStore, after: int) -> Iterator[str]:
    """Whom an eviction that has just failed was for is promised nothing, unless anew."""
    news = _read(log, after, flow.position)
    for one in news:
        held = flow.evictions.get(one.uid) if isinstance(one.event, EvictFailed) else None
        if held is None or held.phase is not EvictPhase.FAILED or held.cause != one.position:
            continue
        anew = any(isinstance(late.event, TaskPipelined) and late.uid == held.preemptor for late in news)
        if held.preemptor in flow.nominated and not anew:
            yield f"{held.key} could not be evicted, and the one it was to make room for is promised {held.node}"


__all__ = ["wrong"]
