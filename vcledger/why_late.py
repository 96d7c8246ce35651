"""Facts that were observed by a moment, but came into the log late: what they say, and where that is not what the cache
at the position has.

Owns finding and comparing them. Must not know verdicts. Called by `vcledger.why`.

The cache is folded in the order of the log and leaves late observations out, so an answer that rests on it alone would
contradict them silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vcledger.at import format_time
from vcledger.codec import OBJECT_TYPES
from volcano.events.base import Recorded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified
from volcano.objects.core import Pod
from volcano.objects.scheduling import PodGroup, VolcanoJob

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

OBSERVATIONS = (ObjectAdded, ObjectModified, ObjectDeleted)


def later_than(last: Recorded, ledger: Ledger, cluster: str, until: int | None) -> list[Recorded]:
    """Late observations, observed by `until` (microseconds), of the object of `last` after `last`, and of another
    object that then had its name; newest first."""
    if until is None:
        return []
    late = ledger.recorded(
        cluster=cluster,
        kinds=last.kind,
        namespace=last.namespace,
        name=last.name,
        types=OBJECT_TYPES,
        late=True,
    )
    found = [one for one in late if one.observed_at <= until and _newer(one, last)]
    return sorted(found, key=_age, reverse=True)


def _newer(one: Recorded, last: Recorded) -> bool:
    """By resource version where both have one, else by observed time."""
    if one.resource_version and last.resource_version:
        return one.resource_version > last.resource_version
    return one.observed_at > last.observed_at


def _age(recorded: Recorded) -> tuple[int, int, int]:
    return recorded.resource_version or 0, recorded.observed_at, recorded.position


def contradictions(late: Sequence[Recorded], last: Recorded) -> list[str]:
    """What late facts (newest first) say that the last observation before them, which the cache rests on, does not: of
    the object itself, and of the one that has its name after it."""
    own = next((one for one in late if one.uid == last.uid), None)
    found = [_contradiction(own, last)] if own is not None else []
    other = next((one for one in late if one.uid != last.uid and not isinstance(one.event, ObjectDeleted)), None)
    if other is not None:
        found.append(
            f"another {other.kind} {other.namespace}/{other.name} (uid {other.uid}) was {', '.join(_state(other))} by "
            f"{format_time(other.observed_at)}: position {other.position} says so, which came into the log late"
        )
    return [text for text in found if text]


def _contradiction(fact: Recorded, last: Recorded) -> str:
    """How the newest late fact about an object differs in what decides; '' when it doesn't."""
    says, had = _state(fact), _state(last)
    if len(says) != len(had):
        says, had = says[:1], had[:1]
    differing = [(word, was) for word, was in zip(says, had, strict=True) if word != was]
    if not differing:
        return ""
    now = ", ".join(word for word, _ in differing)
    before = ", ".join(was for _, was in differing)
    when = format_time(fact.observed_at)
    return (
        f"{fact.kind} {fact.namespace}/{fact.name} was {now} by {when}: position {fact.position} says so, which came "
        f"into the log late; the evaluation has it as {before}"
    )


def _state(recorded: Recorded) -> list[str]:
    """What decides about an object, each as words."""
    event = recorded.event
    if isinstance(event, ObjectDeleted):
        return ["gone"]
    found = event.object if isinstance(event, OBSERVATIONS) else None
    if isinstance(found, Pod):
        node = f"on node {found.spec.node_name}" if found.spec.node_name else "without a node"
        ending = "being deleted" if found.metadata.deletion_timestamp else "not being deleted"
        return [node, f"in phase {found.status.phase or 'Pending'}", ending]
    if isinstance(found, PodGroup):
        return [f"in phase {found.status.phase or 'Pending'}"]
    if isinstance(found, VolcanoJob):
        state = found.status.state
        return [f"in phase {state.phase if state is not None and state.phase else 'Pending'}"]
    return ["there"]
