"""What of a kind a list or a watch is about: one namespace, or labels.

Owns the selection and what a change means to somebody who sees only a selection. Must not know versions nor streams.
Called by `vcledger.sim.server`.

As on the real server, an object that leaves the selection is told as DELETED, with its last state that was in it, and
one that comes in as ADDED.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from vcledger.sim import status
from vcledger.sim.mvcc import Object, Revision


class Scope(NamedTuple):
    """`namespace` '' is all; `labels` are those that an object must have."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def has(self, item: Object) -> bool:
        """Whether an object is in it."""
        meta = item["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        found = meta.get("labels") or {}
        return all(found.get(name) == value for name, value in self.labels)

    def told(self, revision: Revision) -> tuple[str, bytes] | None:
        """A write as a watch line's type and object; None when it does not concern the selection."""
        if self == WHOLE:
            return revision.change, revision.stored.body
        was = revision.before is not None and self.has(revision.before.object)
        now = revision.change != "DELETED" and self.has(revision.stored.object)
        if now:
            return ("MODIFIED" if was else "ADDED"), revision.stored.body
        if not was or revision.before is None:
            return None
        left = revision.before.object
        meta = {**left["metadata"], "resourceVersion": str(revision.version)}
        return "DELETED", msgspec.json.encode({**left, "metadata": meta})


WHOLE = Scope()


def scope(namespace: str, selector: str) -> Scope:
    """Of a request's namespace and labelSelector. Only `name=value` is understood: anything else is refused (400)."""
    labels = []
    for one in selector.split(",") if selector else ():
        name, found, value = one.partition("=")
        if not found or not name or name.endswith("!"):
            raise status.bad_request(f"unable to parse requirement: found '{one}', expected: '='")
        labels.append((name, value.removeprefix("=")))
    return Scope(namespace, tuple(labels))
