"""A pod's story as lines."""

from __future__ import annotations

from typing import Any

from projections.timeline import story
from tests.unit.diagnosis.build import claim, obj, pod
from volcano.events.base import DomainEvent, Recorded
from volcano.events.binding import BindFailed, BindSucceeded
from volcano.events.observation import ObjectAdded, ObjectDeleted, ObjectModified


def recorded(position: int, event: DomainEvent, kind: str = "Pod", known: int = 0, late: bool = False) -> Recorded:
    return Recorded(position, "c", kind, "default", "p", "u", position * 1000, known, late, position, None, None, event)


def seen(position: int, subject: Any, kind: str = "Pod", **more: Any) -> Recorded:
    change = ObjectAdded if position == 1 else ObjectModified
    return recorded(position, change(object=subject), kind, **more)


def condition(message: str) -> dict[str, Any]:
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
    }


def test_only_what_changes_is_told() -> None:
    told = story(
        [
            seen(1, pod(schedulingGates=[{"name": "wait"}])),
            seen(2, pod()),
            seen(3, pod(status=condition("no room"))),
            seen(4, pod(labels={"touched": "yes"}, status=condition("no room"))),
            recorded(5, BindFailed(node="n1", code=500, message="boom"), known=1),
            recorded(6, BindSucceeded(node="n1"), known=1, late=True),
            seen(7, pod(nodeName="n1", status={"phase": "Running"})),
            recorded(8, ObjectDeleted(object=pod()), known=1),
        ]
    )
    assert [(line.position, line.text) for line in told] == [
        (1, "created for volcano"),
        (1, "gated by wait"),
        (2, "its scheduling gates were taken off"),
        (3, "PodScheduled=False Unschedulable: no room"),
        (5, "bind to n1 failed: 500 boom"),
        (6, "bound to n1 (201)"),
        (7, "on node n1"),
        (7, "phase Running"),
        (8, "deleted (inferred: no watch saw it go)"),
    ]
    assert told[4].known == "inferred"
    assert told[5].late


def test_the_same_line_in_a_row_is_counted() -> None:
    event = obj(
        "Event",
        metadata={"name": "e"},
        involvedObject={"kind": "Pod", "namespace": "default", "name": "p"},
        reason="FailedScheduling",
        message="no room",
        source={"component": "volcano"},
    )
    told = story([seen(position, event, "Event") for position in (1, 2, 3)])
    assert [(line.text, line.count, line.last_position) for line in told] == [
        ("volcano says FailedScheduling: no room", 3, 3)
    ]
    assert told[0].about == "Pod default/p"


def test_claims_and_groups_have_their_own_changes() -> None:
    chosen = claim("c", annotations={"volume.kubernetes.io/selected-node": "n1"})
    kind = "PersistentVolumeClaim"
    told = story([seen(1, claim("c"), kind), seen(2, chosen, kind), seen(3, claim("c"), kind)])
    assert [line.text for line in told] == [
        "created",
        "phase Pending",
        "selected node n1",
        "its selected node was taken away",
    ]
    group = obj("PodGroup", metadata={"name": "g"}, spec={"minMember": 2, "queue": "q"}, status={"phase": "Pending"})
    inqueue = obj("PodGroup", metadata={"name": "g"}, spec={"minMember": 2, "queue": "q"}, status={"phase": "Inqueue"})
    told = story([seen(1, group, "PodGroup"), seen(2, inqueue, "PodGroup")])
    assert [line.text for line in told] == ["created for queue q, minMember 2", "phase Pending", "phase Inqueue"]
