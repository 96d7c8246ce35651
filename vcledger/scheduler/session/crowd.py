"""The pods on nodes, counted by what they are alike in, as a session has them: what tasks with inter-pod affinity or
topology spread are held against.

Owns the counts by kind of pod and node, kept up by what comes and goes. Must not know terms. Held by `feasible`, read
on by `around`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from projections.diagnosis.podaffinity import anti_affinity_terms
from projections.diagnosis.views import INDEX_LABEL, PlacedPod
from vcledger.scheduler.session.placed import PlacedPods

_encode = msgspec.json.Encoder(order="deterministic").encode
_JOURNAL_MAX = 200_000


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """Pods that are alike to every term: `number` tells kinds apart, `sample` is one of its pods."""

    number: int
    sample: PlacedPod


class Change(NamedTuple):
    """A pod of a kind came to a node (`times` 1) or went (-1)."""

    kind: Kind
    node: str
    times: int


class Crowd:
    """`on` has for each kind its pods by node. `journal` are the changes in their order, for whoever reads on from
    where it was; it begins anew with another `epoch`. `by_index` says that some pod keeps others away by the index that
    they have in their job, so that pods of a shape may not be alike to it."""

    def __init__(self, placed: PlacedPods) -> None:
        self.placed = placed
        self.on: dict[Kind, dict[str, int]] = {}
        self.journal: list[Change] = []
        self.epoch = 0
        self.by_index = False
        self._seen: tuple[int, int] | None = None
        self._kinds: dict[Any, Kind] = {}
        self._came: dict[str, PlacedPod] = {}
        self._gone: dict[str, PlacedPod] = {}

    def catch_up(self) -> None:
        """All that is on nodes is counted."""
        placed = self.placed
        there = placed.all()
        if self._seen is None or self._seen[0] != placed.epoch or len(self.journal) > _JOURNAL_MAX:
            self._begin(there)
        else:
            for before, after in placed.log[self._seen[1] :]:
                if before is not None:
                    self._count(before, -1)
                if after is not None:
                    self._count(after, 1)
        self._seen = placed.epoch, len(placed.log)

    def _begin(self, there: Mapping[str, PlacedPod]) -> None:
        self.epoch += 1
        self.on, self.journal, self._kinds, self.by_index = {}, [], {}, False
        for one in there.values():
            self._count(one, 1)
        for one in self._came.values():
            self._count(one, 1)
        for one in self._gone.values():
            self._count(one, -1)

    # --- a session ----------------------------------------------------------------------------------------------------

    @property
    def used(self) -> bool:
        """Whether anybody has asked yet."""
        return self._seen is not None

    def come(self, one: PlacedPod) -> None:
        """A pod was given a node by the session."""
        self._came[one.uid] = one
        self._count(one, 1)

    def came(self, uid: str) -> bool:
        """Whether it was."""
        return uid in self._came

    def leave(self, key: str, uid: str) -> None:
        """A pod was told to go by it."""
        one = self.placed.all().get(key)
        if one is not None and one.uid == uid:
            self._gone[uid] = one
            self._count(one, -1)

    def undo(self, uid: str) -> None:
        """Neither."""
        came, gone = self._came.pop(uid, None), self._gone.pop(uid, None)
        if came is not None:
            self._count(came, -1)
        if gone is not None:
            self._count(gone, 1)

    def undo_all(self) -> None:
        """The session is over."""
        for uid in (*self._came, *self._gone):
            self.undo(uid)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count(self, one: PlacedPod, times: int) -> None:
        kind = self._kind(one)
        nodes = self.on.setdefault(kind, {})
        left = nodes.get(one.node, 0) + times
        if left:
            nodes[one.node] = left
        else:
            nodes.pop(one.node, None)
        self.journal.append(Change(kind, one.node, times))

    def _kind(self, one: PlacedPod) -> Kind:
        repels = _encode(one.affinity) if anti_affinity_terms(one.affinity) else b""
        key = one.namespace, tuple(sorted(one.labels.items())), one.deleting, repels
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = Kind(len(self._kinds), one)
            self.by_index = self.by_index or INDEX_LABEL.encode() in repels
        return found


__all__ = ["Change", "Crowd", "Kind"]
