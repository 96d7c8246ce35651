"""The story of a subject: what happened to it up to the moment, line by line.

Owns the gathering. Must not know verdicts. Called by `vcledger.why`, and through it by the command and users' code.
"""

from __future__ import annotations

from projections.diagnosis.model import Explanation
from projections.timeline import StoryLine, story
from vcledger import codec
from vcledger.ledger import Ledger
from vcledger.why_asked import micros
from volcano.events.base import Recorded


def pod_story(ledger: Ledger, answer: Explanation, *, cluster: str | None = None) -> list[StoryLine]:
    """What happened to the subject of an answer up to its position: the pod (or job), its PodGroup, and the Events
    about both and about its claims, by observed time."""
    chosen = ledger.cluster(cluster)
    wanted: list[tuple[str, str, str]] = [(answer.subject.partition(" ")[0], answer.namespace, answer.name)]
    wanted = [("VolcanoJob" if kind == "Job" else kind, namespace, name) for kind, namespace, name in wanted]
    if answer.group:
        namespace, _, name = answer.group.partition("/")
        wanted.append(("PodGroup", namespace, name))
    found: dict[int, Recorded] = {}
    for kind, namespace, name in wanted:
        for recorded in ledger.recorded(cluster=chosen, kinds=kind, namespace=namespace, name=name):
            found[recorded.position] = recorded
    positions = [one.position for one in answer.said if one.source == "event"]
    uids = dict.fromkeys(recorded.uid for recorded in found.values() if recorded.uid)
    if uids:
        for recorded in ledger.recorded(cluster=chosen, kinds="Event", about=list(uids), types=codec.OBJECT_TYPES):
            found[recorded.position] = recorded
    for recorded in map(codec.recorded, ledger.store.get([p for p in positions if p not in found])):
        found[recorded.position] = recorded
    until = micros(answer.asked or answer.time)
    told = [
        recorded
        for recorded in found.values()
        if recorded.position <= answer.at or (recorded.late and until is not None and recorded.observed_at <= until)
    ]
    return story(sorted(told, key=lambda one: (one.observed_at, one.position)))


__all__ = ["pod_story"]
