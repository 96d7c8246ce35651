"""What an observation is to a log that an object came back in."""

from __future__ import annotations

from typing import cast

from eventstore import EventStore
from projections.cache import Cache
from vcledger import codec
from vcledger.runtime.standing import Standing, Standings, came_back
from vcledger.scheduler.decision import INFERRED, RECORDED, Draft
from vcledger.scheduler.state import FLOW_MODEL
from vcledger.sim.memory import MemoryLog
from volcano.events.base import Subject
from volcano.events.observation import ObjectAdded, ObjectDeleted
from volcano.objects import kinds

POD = b'{"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "300"}}'


def test_a_process_that_begins_anew_knows_what_went_and_came_under_no_version() -> None:
    """Lists had missed the pod twice: what was stored again has no version, which the log has all the same."""
    log = MemoryLog()
    where = {"namespace": "ns", "name": "p", "uid": "u"}
    for change, version, known in (
        ("ADDED", "300", 0),
        ("DELETED", "300", 1),
        ("ADDED", None, 0),
        ("DELETED", None, 1),
    ):
        log.append(
            [
                codec.observation(
                    cluster="c", kind="Pod", change=change, payload=POD, observed_at=1, known=known,
                    resource_version=version, **where,
                )
            ]
        )  # fmt: skip
    standings = Standings(cast(EventStore, log), "c")
    standings.begin({"Pod": 300})
    event = ObjectAdded(object=kinds.decode("Pod", POD))
    draft = Draft(Subject("Pod", "ns", "p", "u"), event, RECORDED, None, None, POD, "ADDED", "300")
    assert standings.of(draft, [], Cache(FLOW_MODEL)) is Standing.AGAIN
    newer = draft._replace(resource_version="301")
    assert standings.of(newer, [], Cache(FLOW_MODEL)) is Standing.NEW


def test_a_process_that_begins_anew_knows_what_came_back() -> None:
    """A list had missed the pod, which is there again: the log must take it for there, or it could never go again."""
    log = MemoryLog()
    where = {"namespace": "ns", "name": "p", "uid": "u"}
    for position, (change, version, known) in enumerate(
        (("ADDED", "300", 0), ("DELETED", "300", 1), ("ADDED", came_back("300", 3), 0)), 1
    ):
        log.append(
            [
                codec.observation(
                    cluster="c", kind="Pod", change=change, payload=POD, observed_at=position, known=known,
                    resource_version=version, **where,
                )
            ]
        )  # fmt: skip
    (head,) = log.live("c", "Pod")
    assert head.position == 3
    standings = Standings(cast(EventStore, log), "c")
    standings.begin({"Pod": 300})
    event = ObjectAdded(object=kinds.decode("Pod", POD))
    there = Draft(Subject("Pod", "ns", "p", "u"), event, RECORDED, None, None, POD, "ADDED", "300")
    missing = there._replace(event=ObjectDeleted(object=event.object), known=INFERRED, change="DELETED")
    assert standings.of(there, [], Cache(FLOW_MODEL)) is Standing.KNOWN
    assert standings.of(missing, [], Cache(FLOW_MODEL)) is Standing.AGAIN
    assert standings.of(there, [], Cache(FLOW_MODEL)) is Standing.AGAIN
    assert standings.of(there._replace(resource_version="299"), [], Cache(FLOW_MODEL)) is Standing.LATE
