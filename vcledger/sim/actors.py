"""What the simulated controllers share: they look at what changed, a little later, and write what is still missing.

Owns the queue of each and the helpers for writing. Must not know what a controller wants. Called by
`vcledger.sim.volumes` and `vcledger.sim.kubelet`.

A controller is level-triggered, as the real ones are: a key is looked at once however often it changed meanwhile, and
each look does at most one write, whose own event brings the next look. So a pod, a node or a claim can vanish between
any two of its writes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from vcledger.runtime.port import Answer
from vcledger.scheduler.requests import Delete, Update
from vcledger.sim.clock import MILLISECOND, Timeline
from vcledger.sim.mvcc import Object, Revision
from vcledger.sim.server import SimulatedApi
from volcano.objects.kinds import BY_NAME


class World:
    """What a controller needs of the world: the server, the time, and the one source of chance."""

    def __init__(self, api: SimulatedApi, timeline: Timeline, chance: Random) -> None:
        self.api = api
        self.timeline = timeline
        self.chance = chance

    def between(self, least: int, most: int) -> int:
        """A whole number of milliseconds, in microseconds."""
        return self.chance.randint(least, most) * MILLISECOND

    def put(self, kind: str, item: Object, subresource: str = "") -> Answer:
        """PUT of an object as just read and changed."""
        meta = item["metadata"]
        body = msgspec.json.encode(item)
        return self.api.do(Update(kind, meta.get("namespace", ""), meta["name"], body, subresource))

    def delete(self, kind: str, item: Object, *, grace_seconds: int | None = None) -> Answer:
        """DELETE of exactly this object."""
        meta = item["metadata"]
        request = Delete(kind, meta.get("namespace", ""), meta["name"], meta["uid"], grace_seconds)
        return self.api.do(request)


class Actor:
    """A controller: `look` is called for a (kind, key) some time after it changed, or after `later` planned it.

    `delay`: least and most milliseconds until a look. `stalled_until`: it does nothing before that time."""

    kinds: tuple[str, ...] = ()
    delay: tuple[int, int] = (5, 60)

    def __init__(self, world: World) -> None:
        self.world = world
        self.api = world.api
        self.stalled_until = 0
        self._planned: dict[tuple[str, str], int] = {}
        world.api.store.listeners.append(self._changed)

    def look(self, kind: str, key: str) -> None:
        """One look at an object that may be gone by now."""
        raise NotImplementedError

    def changed(self, revision: Revision) -> None:
        """A write of one of `kinds`: by default its object is looked at."""
        self.soon(revision.kind, revision.key)

    def soon(self, kind: str, key: str) -> None:
        """Plans a look, if none is planned."""
        self.later(kind, key, self.world.between(*self.delay))

    def later(self, kind: str, key: str, delay: int) -> None:
        """Plans a look in `delay` microseconds, if none is planned sooner."""
        due = max(self.world.timeline.now + delay, self.stalled_until)
        if self._planned.get((kind, key), due + 1) <= due:
            return
        self._planned[kind, key] = due
        self.world.timeline.at(due, self._action(kind, key, due))

    def _action(self, kind: str, key: str, due: int) -> Callable[[], None]:
        def act() -> None:
            if self._planned.get((kind, key)) != due:
                return
            del self._planned[kind, key]
            if self.world.timeline.now < self.stalled_until:
                self.later(kind, key, 0)
            else:
                self.look(kind, key)

        return act

    def _changed(self, revision: Revision) -> None:
        if revision.kind in self.kinds:
            self.changed(revision)

    def object(self, kind: str, key: str) -> Object | None:
        """The object at a key of the store."""
        namespace, _, name = key.rpartition("/")
        return self.api.object(kind, namespace, name)


def key_in_store(kind: str, item: Object) -> str:
    """An object's key."""
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if BY_NAME[kind].namespaced else str(meta["name"])


def with_annotations(item: Object, changes: dict[str, str | None]) -> Object:
    """The object with annotations set, or removed where None."""
    meta = item["metadata"]
    annotations = {**(meta.get("annotations") or {})}
    for name, value in changes.items():
        if value is None:
            annotations.pop(name, None)
        else:
            annotations[name] = value
    return {**item, "metadata": {**meta, "annotations": annotations}}


def annotation(item: Object, name: str) -> str:
    """An annotation, '' when it is not there."""
    return str((item["metadata"].get("annotations") or {}).get(name, ""))


def with_status(item: Object, **fields: Any) -> Object:
    """The object with fields of its status set."""
    return {**item, "status": {**(item.get("status") or {}), **fields}}


def with_spec(item: Object, **fields: Any) -> Object:
    """The object with fields of its spec set, or removed where None."""
    spec = {**(item.get("spec") or {}), **fields}
    return {**item, "spec": {name: value for name, value in spec.items() if value is not None}}


def without_finalizer(item: Object, finalizer: str) -> Object:
    """The object without one of its finalizers."""
    meta = item["metadata"]
    left = [one for one in meta.get("finalizers") or () if one != finalizer]
    return {**item, "metadata": {**meta, "finalizers": left}}
