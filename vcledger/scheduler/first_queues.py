"""The queues that a scheduler makes when it starts: `root` and the default one, where there are none of that name.

Owns when such a queue is asked for, and what follows from the answer. Must not know sessions. Called by
`vcledger.scheduler.cycle`, and with answers by `decide` and `housekeeping`.

Source: newDefaultAndRootQueue of Volcano's scheduler cache, at 1.10 and later: root is not reclaimable, the default
queue is, both have weight 1; one that is there already is left as it is. Volcano tries each second, sixty times, and
then ends. Here it is tried as statuses are (`vcledger.scheduler.written`), and pods are scheduled meanwhile, as the
default queue counts as there. One that somebody deletes while the scheduler runs is left deleted, until it begins anew.
"""

from __future__ import annotations

import msgspec

from vcledger.scheduler.decision import RECORDED, UNANSWERED, Hand, failure_of, wish_of
from vcledger.scheduler.requests import Answer, Create
from vcledger.scheduler.state import Flow, Intent
from vcledger.scheduler.written import REFUSED, ROOT, wait_seconds
from volcano.events.base import SCHEDULER, Subject
from volcano.events.status import QueueCreateFailed, QueueCreateRequested, QueueCreateSucceeded
from volcano.objects.meta import ObjectMeta

QUEUES = Subject(SCHEDULER, "", "queues")
"""The stream of these events: until it is made, a queue has no uid, and so no stream."""

WEIGHT = 1


class _Made(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


_made = msgspec.json.Decoder(_Made)


def make_missing(hand: Hand) -> None:
    """Asks for those that are not there. To be called when all is listed, before each session."""
    flow = hand.flow
    if not flow.config.makes_queues:
        return
    wanted = {ROOT: False}
    wanted.setdefault(flow.config.cache.default_queue, True)
    for name, reclaimable in wanted.items():
        held = flow.making.get(name)
        if not name or name in flow.cache.queues:
            continue
        if held is None or (held.state == REFUSED and held.until <= hand.now):
            event = QueueCreateRequested(queue=name, weight=WEIGHT, reclaimable=reclaimable)
            position = hand.add(QUEUES, event, cause=None)
            hand.effect(position, Create("Queue", "", _body(name, reclaimable)))


def _body(name: str, reclaimable: bool) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": WEIGHT, "reclaimable": reclaimable},
        }
    )


def answered(hand: Hand, position: int, intent: Intent, answer: Answer) -> None:
    """The outcome. One that is there by now, such as by another scheduler's hand, is as good as made."""
    failure = failure_of(answer.code, answer.body) if not answer.ok else None
    if failure is None:
        uid, version = _identity(answer.body)
        event: QueueCreateSucceeded | QueueCreateFailed = QueueCreateSucceeded(
            queue=intent.key, queue_uid=uid, new_resource_version=version, intent=position
        )
    elif failure.code == 409 and failure.reason == "AlreadyExists":
        event = QueueCreateSucceeded(queue=intent.key, existed=True, intent=position)
    else:
        times, wish = _failures(hand.flow, intent) + 1, wish_of(answer)
        event = QueueCreateFailed(
            queue=intent.key,
            code=failure.code,
            reason=failure.reason,
            message=failure.message,
            answer_lost=answer.code is None,
            intent=position,
            attempt=times,
            delay_seconds=wait_seconds(times, wish),
            retry_after_seconds=wish,
        )
    hand.add(QUEUES, event, cause=position, known=RECORDED)


def _identity(body: bytes) -> tuple[str, str]:
    try:
        meta = _made.decode(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", ""
    return meta.uid, meta.resource_version


def _failures(flow: Flow, intent: Intent) -> int:
    held = flow.making.get(intent.key)
    return held.failures if held is not None else 0


def orphan(hand: Hand, position: int, intent: Intent) -> None:
    """After a restart: the answer will not come any more. Whether it was made is seen."""
    event = QueueCreateFailed(
        queue=intent.key,
        code=0,
        message=UNANSWERED,
        answer_lost=True,
        intent=position,
        attempt=_failures(hand.flow, intent),
    )
    hand.add(QUEUES, event, cause=position)


__all__ = ["QUEUES", "answered", "make_missing", "orphan"]
