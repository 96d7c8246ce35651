"""API objects for what a SimKube trace tells: the objects in it that the ledger keeps, and the pods of their owners.

Owns what they look like, and their order in time. Must not know msgpack nor the log. Called by
`vcledger.sources.simkube`.

Names, uids and versions of pods are made here, and so are PodGroups: one for each pod as Volcano's controller would, or
one for a Volcano Job. Pods of the default scheduler become Volcano's: a trace is there to be replayed. Of a scheduled
pod the node is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eventstore.types import NewEvent
from vcledger.at import MICROS
from vcledger.sources import made
from vcledger.sources.made import CREATED, DEFAULT_QUEUE, DELETED, ENDED, GROUP_ANNOTATION, SCHEDULED, observed
from vcledger.sources.observe import Observer, Unusable
from vcledger.sources.report import Tally
from vcledger.sources.simkube_pods import VOLCANO_JOB, Built, Owner, Owners, Pod, count_or, mapping
from volcano.objects.kinds import kind_of

DEFAULT_SCHEDULER, VOLCANO = "default-scheduler", "volcano"
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
ROLE_ANNOTATION, JOB_ANNOTATION = "volcano.sh/task-spec", "volcano.sh/job-name"
BEFORE = MICROS
"""Queues are there so long before the trace begins."""

PENDING = {"phase": "Pending"}
RUNNING = {"phase": "Running", "running": 1}

Story = list[tuple[bool, NewEvent]]
"""The events of one object in order, each with whether it ends something."""


class Stories:
    """The events of a trace. `changed` objects of its own as they come, then `events` gives all by time."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._objects: dict[str, Story] = {}
        self._queues: dict[str, None] = {}
        self._first: int | None = None
        self.moved = 0

    def changed(self, owner: Owner, change: str, built: Built, time: int) -> None:
        """An object of the trace was applied or deleted. Those of kinds that the ledger keeps are stored as they are,
        with a uid and a version; pods come by their lives."""
        self._first = time if self._first is None else min(self._first, time)
        kind = kind_of(built["apiVersion"], built["kind"])
        if kind is None or kind.name == "Pod":
            return
        since, step = owner.states[0][0], DELETED
        if change != "DELETED":
            step = min(sum(at == time for at, _ in owner.states) - 1, ENDED)
        meta = made.meta(owner.identity, owner.name, since, made.version_of(time, step), owner.namespace)
        given = {name: value for name, value in built["metadata"].items() if name in ("labels", "annotations")}
        rest = {name: value for name, value in built.items() if name not in ("kind", "apiVersion", "metadata")}
        event = observed(self.observer, kind.name, change, {"metadata": given | meta, **rest}, time)
        self._objects.setdefault(owner.identity, []).append((change == "DELETED", event))

    def events(self, owners: Owners, tally: Tally) -> Iterator[NewEvent]:
        """All of it by time; at one moment what ends comes first, then what is new. An owner whose pods cannot be made
        is counted as broken."""
        stories = list(self._objects.values())
        for owner in owners.all:
            try:
                owners.derive(owner, tally)
                if owner.gvk == VOLCANO_JOB:
                    stories.append(self._group_of_job(owner, owners))
                stories += [story for pod in owner.pods for story in self._pod(owner, pod)]
            except (Unusable, RecursionError) as error:
                tally.broken(0, f"pods of {owner.namespace}/{owner.name}: {error}")
        stories.append(self._made_queues(owners, tally))
        order = [
            (event.observed_at, not (ends and event.observed_at > story[0][1].observed_at), place, number, event)
            for number, story in enumerate(stories)
            for place, (ends, event) in enumerate(story)
        ]
        for *_, event in sorted(order, key=lambda one: one[:4]):
            yield event

    # --- pods ---------------------------------------------------------------------------------------------------

    def _pod(self, owner: Owner, pod: Pod) -> Iterator[Story]:
        """A pod, and its PodGroup when it has one of its own."""
        start, end, gone = times_of(pod)
        pending, status = dict(PENDING), dict[str, Any](PENDING)
        story = [(False, self._observed_pod(owner, pod, "ADDED", CREATED, pod.created, pending))]
        if start is not None:
            status = made.scheduled_status("Running", start)
            story.append((False, self._observed_pod(owner, pod, "MODIFIED", SCHEDULED, start, status)))
        if end is not None:
            status = status | {"phase": "Succeeded"}
            story.append((True, self._observed_pod(owner, pod, "MODIFIED", ENDED, end, status)))
        if gone is not None:
            story.append((True, self._observed_pod(owner, pod, "DELETED", DELETED, gone, status)))
        if owner.gvk != VOLCANO_JOB and GROUP_ANNOTATION not in _annotations(pod):
            yield self._group(owner, pod)
        yield story
        if self._scheduler(pod) == DEFAULT_SCHEDULER:
            self.moved += 1

    def _scheduler(self, pod: Pod) -> Any:
        return mapping(pod.template.get("spec")).get("schedulerName") or DEFAULT_SCHEDULER

    def _observed_pod(
        self, owner: Owner, pod: Pod, change: str, step: int, time: int, status: Mapping[str, Any]
    ) -> NewEvent:
        spec = mapping(pod.template.get("spec"))
        if self._scheduler(pod) == DEFAULT_SCHEDULER:
            spec = {**spec, "schedulerName": VOLCANO}
        group = owner.name if owner.gvk == VOLCANO_JOB else pod.name
        labels = mapping(mapping(pod.template.get("metadata")).get("labels"))
        meta = made.meta(
            f"Pod/{owner.identity}/{pod.name}", pod.name, pod.created, made.version_of(time, step), owner.namespace
        )
        meta |= {"labels": labels} if labels else {}
        meta["annotations"] = {GROUP_ANNOTATION: group, **_annotations(pod)}
        if owner.gvk == VOLCANO_JOB:
            meta["annotations"] |= {ROLE_ANNOTATION: pod.role, JOB_ANNOTATION: owner.name}
            meta |= owned_by(owner)
        return observed(self.observer, "Pod", change, {"metadata": meta, "spec": spec, "status": status}, time)

    # --- groups and queues --------------------------------------------------------------------------------------

    def _group(self, owner: Owner, pod: Pod) -> Story:
        """The PodGroup of a pod by itself."""
        start, _, gone = times_of(pod)
        queue = _annotations(pod).get(QUEUE_ANNOTATION) or DEFAULT_QUEUE
        self._queues[str(queue)] = None
        spec = {"minMember": 1, "queue": queue, "minResources": made.requests_of(pod.template.get("spec"))}
        identity = f"{owner.identity}/{pod.name}"
        story = [(False, self._podgroup(identity, pod.name, owner, spec, "ADDED", CREATED, pod.created, PENDING))]
        if start is not None:
            story.append(
                (False, self._podgroup(identity, pod.name, owner, spec, "MODIFIED", SCHEDULED, start, RUNNING))
            )
        if gone is not None:
            last = PENDING if start is None else RUNNING
            story.append((True, self._podgroup(identity, pod.name, owner, spec, "DELETED", DELETED, gone, last)))
        return story

    def _group_of_job(self, owner: Owner, owners: Owners) -> Story:
        """The PodGroup of a Volcano Job: it has minAvailable members at least, or all, and runs when so many do."""
        since, first = owner.states[0]
        job = mapping(first.get("spec"))
        asked = sum(one.replicas or 0 for one in owners.templates(owner.gvk, first))
        least = count_or(job, "minAvailable", asked)
        queue = str(job.get("queue") or DEFAULT_QUEUE)
        self._queues[queue] = None
        spec = {"minMember": least, "queue": queue}
        started = sorted(start for start, _, _ in map(times_of, owner.pods) if start is not None)
        steps: list[tuple[str, int, int, Mapping[str, Any]]] = [("ADDED", CREATED, since, PENDING)]
        if 0 < least <= len(started):
            steps.append(("MODIFIED", SCHEDULED, started[least - 1], RUNNING | {"running": least}))
        if owner.deleted is not None:
            steps.append(("DELETED", DELETED, max(owner.deleted, steps[-1][2]), steps[-1][3]))
        about = owner.identity, owner.name, owner, spec
        return [(how[1] == DELETED, self._podgroup(*about, *how)) for how in steps]

    def _podgroup(
        self,
        identity: str,
        name: str,
        owner: Owner,
        spec: Mapping[str, Any],
        change: str,
        step: int,
        time: int,
        status: Mapping[str, Any],
    ) -> NewEvent:
        version = made.version_of(time, step)
        meta = made.meta(f"PodGroup/{identity}", name, owner.states[0][0], version, owner.namespace)
        meta |= owned_by(owner) if owner.gvk == VOLCANO_JOB else {}
        return observed(self.observer, "PodGroup", change, {"metadata": meta, "spec": spec, "status": status}, time)

    def _made_queues(self, owners: Owners, tally: Tally) -> Story:
        """The queues that are named, but are no objects of the trace."""
        told = {owner.name for owner in owners.all if owner.gvk.endswith(".Queue")}
        since = (self._first or 0) - BEFORE
        story: Story = []
        for name in self._queues:
            try:
                if name not in told:
                    story.append((False, made.queue(self.observer, name, since)))
            except Unusable as error:
                tally.broken(0, f"a queue that pods name: {error}")
        return story


def times_of(pod: Pod) -> tuple[int | None, int | None, int | None]:
    """When it started, ended and was deleted, none before the other nor before it was there. When a pod that had ended
    was removed is not told: at once, so that it is not taken for running (Volcano's cache passes over an update of a
    running task that names no node)."""
    life = pod.lifecycle
    start = None if life is None else max(pod.created, life.start)
    end = None if life is None or life.end is None or start is None else max(start, life.end)
    if end is not None:
        return start, end, end
    return start, None, None if pod.deleted is None else max(pod.deleted, start or pod.created)


def owned_by(job: Owner) -> dict[str, Any]:
    """Metadata that names the Volcano Job, as its controller writes it."""
    api_version, _, kind = job.gvk.rpartition(".")
    uid = made.uid_of(job.identity)
    reference = {"apiVersion": api_version, "kind": kind, "name": job.name, "uid": uid, "controller": True}
    return {"ownerReferences": [reference]}


def _annotations(pod: Pod) -> dict[str, Any]:
    return mapping(mapping(pod.template.get("metadata")).get("annotations"))
