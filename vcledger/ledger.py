"""The facade that commands, importers and users' programs hold: a ledger opened, and what can be asked of it.

Owns the answers to "which cluster", "which position" and "what was the state there". Must not know formats of files nor
of output. Called by `cli`, `vcledger.why`, `vcledger.listing`, `vcledger.sources` and users' code.

    with Ledger.open("vcledger.db") as ledger:
        cache = ledger.cache(ledger.position("-2h"))
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import msgspec

from eventstore import EventStore, open_store
from eventstore.types import NotALedger, PruneReport, StoredEvent
from projections.base import Projection
from projections.cache import MODELS, Cache, CacheConfig, CacheProjection
from projections.registry import PROJECTIONS
from vcledger import codec, retention
from vcledger.at import AtMarker, AtOffset, AtPosition, bare_name, format_time, parse
from vcledger.errors import (
    BadTime,
    ClusterNotNamed,
    NoSuchEvent,
    UndecodableEvent,
    UnknownCluster,
    UnknownKind,
    UnknownMarker,
    UnknownModel,
)
from vcledger.folding import Folder
from vcledger.scheduled import newest_run
from volcano.events.base import MARKERS, Recorded
from volcano.events.observation import Marker
from volcano.objects import kinds
from volcano.objects.meta import Part

S = TypeVar("S")

Words: TypeAlias = str | Sequence[str] | None
"""A filter: a word, several of which any will do, or no filter."""

DB_VARIABLE = "VCLEDGER_DB"
DB_DEFAULT = "./vcledger.db"
DEFAULT_MODEL = "volcano-1.11"
DEFAULT_CONFIG = CacheConfig()

_STATES_KEPT = 4
_AT_ONCE = 200
_NEAR = 20
"""Events before a position among which one of the cluster is mostly found; only without one it is searched for."""
_OBJECTS_KEPT = 20_000


class _Labelled(msgspec.Struct, gc=False):
    label: str = ""


class Ledger:
    """An open ledger. Close it, or use it as a context manager. Not for several threads at once."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.folder = Folder(store)
        self._states: OrderedDict[tuple[str, str, int, int], Any] = OrderedDict()
        self._objects: OrderedDict[int, Part] = OrderedDict()

    @classmethod
    def open(
        cls, db: str | None = None, *, create: bool = False, read_only: bool = False, upgrade: bool = False
    ) -> Ledger:
        """Opens `db`, a path or an SQLAlchemy URL; None means VCLEDGER_DB, else ./vcledger.db. Raises the typed errors
        of `eventstore`: LedgerMissing, NotALedger, LedgerNewer, LedgerOutdated, LedgerUnwritable, …"""
        if db is not None and not db.strip():  # as of a shell's variable that is not set: the default is not meant
            raise NotALedger("an empty name is no ledger")
        where = db or os.environ.get(DB_VARIABLE) or DB_DEFAULT
        return cls(open_store(where, create=create, read_only=read_only, upgrade=upgrade))

    def close(self) -> None:
        self._states.clear()
        self._objects.clear()
        self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- which cluster, which position ----------------------------------------------------------------------------

    def clusters(self) -> list[str]:
        """The clusters that the ledger has events of, in the order in which it met them."""
        return self.store.clusters()

    def cluster(self, name: str | None = None) -> str:
        """The cluster of that name, or the only one there is. UnknownCluster or ClusterNotNamed otherwise."""
        known = self.store.clusters()
        if name is not None:
            if name in known:
                return name
            has = f"it has {', '.join(known)}" if known else "it is empty"
            raise UnknownCluster(f"the ledger has no cluster {name!r}: {has}")
        if len(known) == 1:
            return known[0]
        if not known:
            raise UnknownCluster("the ledger is empty: import a recording first")
        raise ClusterNotNamed(f"the ledger holds several clusters, name one of {', '.join(known)}")

    def position(self, at: str | int | None = None, cluster: str | None = None) -> int:
        """The position that `at` means: None the head; a number itself; a time the last event observed at or before
        it; an offset such as -2h counted from the newest observed time; marker:NAME the marker of that name, label or
        file. The state "at" a position is the one after its event. BadTime when there is no such moment."""
        if at is None:
            return self.store.head()
        wanted = AtPosition(at) if isinstance(at, int) else parse(at)
        if isinstance(wanted, AtPosition):
            return self._within(wanted.position)
        name = self.cluster(cluster)
        if isinstance(wanted, AtMarker):
            return self._marker(wanted.name, name)
        micros = wanted.micros
        if isinstance(wanted, AtOffset):
            newest = self.store.high_water(name)
            if newest is None:
                raise BadTime(f"nothing was observed in cluster {name}: there is no end to count back from")
            micros = newest - wanted.micros
        found = self.store.position_at(micros, name)
        if found == 0:
            raise BadTime(f"nothing was recorded at or before {format_time(micros)}{self._begins(name)}")
        return self._within(found)

    def _within(self, position: int) -> int:
        """The position itself, unless the log has never had it or has dropped what it rests on."""
        head, first = self.store.head(), self.store.first()
        if position < 0:
            raise BadTime(f"{position} is no position: they begin at 1, and 0 is before everything")
        if position > head:
            raise BadTime(f"the ledger ends at position {head}, there is no {position} yet")
        if position < first - 1:
            raise BadTime(f"position {position} was pruned: the ledger begins at {first}")
        return position

    def _begins(self, cluster: str) -> str:
        first = next(self.store.read(cluster=cluster, late=False, limit=1), None)
        return "" if first is None else f": the record begins at {format_time(first.observed_at)}"

    def markers(self, cluster: str | None = None) -> Iterator[tuple[StoredEvent, Marker]]:
        """The markers of a cluster, in the order of the log."""
        wanted = self.store.read(cluster=self.cluster(cluster), kinds=MARKERS.kind, name=MARKERS.name, types="Marker")
        for stored in wanted:
            event = codec.recorded(stored).event
            if isinstance(event, Marker):
                yield stored, event

    def _marker(self, name: str, cluster: str) -> int:
        found: list[StoredEvent] = []
        every: dict[str, None] = {}
        bare = bare_name(name)
        for stored, marker in self.markers(cluster):
            words = [word for word in (marker.file, label_of(marker), marker.name) if word]
            every.setdefault(words[0] if words else "")
            if any(name == word or bare == bare_name(word) for word in words):
                found.append(stored)
        if not found:
            has = f"it has {', '.join(every)}" if every else "it has none"
            raise UnknownMarker(f"no marker {name!r} in cluster {cluster}: {has}")
        if len({stored.observed_at for stored in found}) > 1:
            places = ", ".join(f"{stored.position} ({format_time(stored.observed_at)})" for stored in found[:5])
            raise UnknownMarker(f"{len(found)} markers are called {name!r}: name the file, or a position: {places}")
        return found[-1].position

    def observed_at(self, position: int, cluster: str | None = None) -> int | None:
        """The observed time (microseconds) of the event at that position; None when the log doesn't have it. With a
        cluster the newest observed time of that cluster up to the position: the time for which its state there stands.
        Other clusters' events and late ones don't count."""
        if cluster is None:
            found = self.store.get([position])
            return found[0].observed_at if found else None
        near = self.store.read(
            after=position - _NEAR, to=position, cluster=cluster, late=False, reverse=True, limit=1, batch=_NEAR
        )
        for stored in near:
            return stored.observed_at
        newest_time = self.store.high_water(cluster)
        if newest_time is None:
            return None
        last = self.store.position_at(newest_time, cluster)
        if last <= position:
            return newest_time
        wanted = self.store.read(to=position, cluster=cluster, late=False, reverse=True, limit=1, batch=_AT_ONCE)
        newest = next(wanted, None)
        return newest.observed_at if newest is not None else None

    # --- events and objects ---------------------------------------------------------------------------------------

    def recorded(
        self,
        *,
        after: int = 0,
        to: int | None = None,
        cluster: Words = None,
        kinds: Words = None,
        types: Words = None,
        families: Words = None,
        namespace: Words = None,
        name: Words = None,
        uid: Words = None,
        about: Words = None,
        observed_from: int | None = None,
        observed_to: int | None = None,
        late: bool | None = None,
        reverse: bool = False,
        limit: int | None = None,
        batch: int = 2000,
    ) -> Iterator[Recorded]:
        """Decoded events after a position and up to another, oldest first unless `reverse`. Every filter must hold; one
        that takes a word takes several too. `about` is the uid that an Event speaks of, times are in microseconds,
        `late` None gives both; see `EventStore.read`."""
        found = self.store.read(
            after=after,
            to=to,
            cluster=cluster,
            kinds=kinds,
            types=types,
            families=families,
            namespace=namespace,
            name=name,
            uid=uid,
            about=about,
            observed_from=observed_from,
            observed_to=observed_to,
            late=late,
            reverse=reverse,
            limit=limit,
            batch=batch,
        )
        return map(codec.recorded, found)

    def event(self, position: int) -> Recorded:
        """The event at a position. NoSuchEvent when the log doesn't have it (any more)."""
        return codec.recorded(self._stored(position))

    def _stored(self, position: int) -> StoredEvent:
        found = self.store.get([position])
        if not found:
            raise NoSuchEvent(f"the ledger has no event at position {position}")
        return found[0]

    def raw_object(self, position: int) -> bytes:
        """The JSON of the object that was observed at a position, as it was stored. NoSuchEvent when the event there is
        no observation of an object."""
        stored = self._stored(position)
        if stored.type not in codec.OBJECT_TYPES:
            raise NoSuchEvent(f"position {position} is a {stored.type}, not the observation of an object")
        return stored.payload

    def object(self, kind: str, position: int) -> Any:
        """The partial struct of the object of `kind` (our name) that was observed at exactly that position. NoSuchEvent
        when something else stands there, UnknownKind when there is no such kind."""
        struct = _kind(kind).struct
        found = self.objects([position]).get(position)
        if found is None or not isinstance(found, struct):
            raise NoSuchEvent(f"no {kind} was observed at position {position}")
        return found

    def objects(self, positions: Iterable[int]) -> dict[int, Any]:
        """Position to the partial struct observed there, in the order asked for; positions that are not observations,
        or that the log does not have, are left out. What was decoded stays in memory for the next call."""
        wanted = list(positions)
        missing = [position for position in wanted if position not in self._objects]
        for stored in self.store.get(missing) if missing else ():
            if stored.type in codec.OBJECT_TYPES:
                try:
                    self._objects[stored.position] = kinds.decode(stored.kind, stored.payload)
                except (KeyError, msgspec.DecodeError) as error:
                    raise UndecodableEvent(f"position {stored.position}: {stored.kind}: {error}") from error
        found = {position: self._objects[position] for position in wanted if position in self._objects}
        while len(self._objects) > _OBJECTS_KEPT:
            self._objects.popitem(last=False)
        return found

    def object_as_of(
        self, kind: str, namespace: str, name: str, position: int | None = None, *, cluster: str | None = None
    ) -> tuple[int, Any] | None:
        """The last observation at or before `position` of the object that had this name then: its position and partial
        struct; None when there was none, or the last one says that it is gone. UnknownKind for no kind."""
        _kind(kind)
        last = next(
            self.store.read(
                to=position,
                cluster=self.cluster(cluster),
                kinds=kind,
                namespace=namespace,
                name=name,
                types=codec.OBJECT_TYPES,
                late=False,
                reverse=True,
                limit=1,
            ),
            None,
        )
        if last is None or last.gone:
            return None
        return last.position, kinds.decode(kind, last.payload)

    # --- state ----------------------------------------------------------------------------------------------------

    def cache(
        self,
        position: int | str | None = None,
        *,
        cluster: str | None = None,
        model: str = DEFAULT_MODEL,
        config: CacheConfig = DEFAULT_CONFIG,
    ) -> Cache:
        """The cache after `position` (None: the head; a text means what it means to `position()`), from the nearest
        snapshots and the events after them. Several calls for the same moment give the same object: do not change
        it."""
        return self.state(cache_projection(model, config), position, cluster=cluster)

    def caches(
        self,
        positions: Iterable[int],
        *,
        cluster: str | None = None,
        model: str = DEFAULT_MODEL,
        config: CacheConfig = DEFAULT_CONFIG,
    ) -> Iterator[tuple[int, Cache]]:
        """The cache at each of some rising positions, in one pass over the log. Each is good until the next is asked
        for: the same object is folded on."""
        return self.folder.along(cache_projection(model, config), self.cluster(cluster), positions)

    def rebuild(
        self,
        position: int | str | None = None,
        *,
        cluster: str | None = None,
        model: str = DEFAULT_MODEL,
        config: CacheConfig = DEFAULT_CONFIG,
        progress: Callable[[int], None] | None = None,
    ) -> Cache:
        """The cache after `position` folded from the beginning of the record, snapshots left aside. `progress` is told
        the position that has been reached."""
        name = self.cluster(cluster)
        where = self.position(position, name)
        return self.folder.rebuild(cache_projection(model, config), name, where, progress)

    def state(self, projection: Projection[S], position: int | str | None = None, *, cluster: str | None = None) -> S:
        """The state of any projection after `position`, likewise."""
        name = self.cluster(cluster)
        where = self.position(position, name)
        key = (projection.name, name, projection.version, where)
        if key in self._states:
            self._states.move_to_end(key)
            found: S = self._states[key]
            return found
        state = self.folder.at(projection, name, where)
        self._states[key] = state
        while len(self._states) > _STATES_KEPT:
            self._states.popitem(last=False)
        return state

    def ways(self, cluster: str) -> tuple[str, CacheConfig]:
        """The model and the configuration to read a cluster with, unless one is asked for: `exact` with the scheduler's
        own options where our scheduler has run, else those of a Volcano with default flags."""
        run = newest_run(self.store, cluster)
        return (DEFAULT_MODEL, DEFAULT_CONFIG) if run is None else ("exact", run.config)

    # --- upkeep ---------------------------------------------------------------------------------------------------

    def prune(
        self,
        before: str | int,
        *,
        cluster: str | None = None,
        projections: Sequence[Projection[Any]] = PROJECTIONS,
        reclaim: bool = True,
    ) -> PruneReport:
        """Drops what is older than `before` (as in `position`: the event at that position or time stays), up to the end
        of a batch, of all clusters: `cluster` only says whose marker is meant, or whose end an offset counts from.
        First a whole snapshot of each projection (the cache under its three models) is put at the cut for each cluster,
        so every state from there on can still be had, and the newest observation of each object that is not gone stays
        readable. `reclaim` gives the room back to the disk. BadTime, or the log's typed errors."""
        self._states.clear()
        self._objects.clear()
        return retention.prune(self, before, projections, cluster=cluster, reclaim=reclaim)


def _kind(name: str) -> kinds.Kind:
    """The kind of that name. UnknownKind names near ones, or all."""
    found = kinds.BY_NAME.get(name)
    if found is None:
        near = get_close_matches(name, kinds.BY_NAME, n=3) or list(dict.fromkeys(kind.name for kind in kinds.KINDS))
        raise UnknownKind(f"no kind is named {name!r}: is it {', '.join(near)}?")
    return found


def cache_projection(model: str = DEFAULT_MODEL, config: CacheConfig = DEFAULT_CONFIG) -> CacheProjection:
    """The cache fold of that model. UnknownModel lists those there are."""
    if model not in MODELS:
        raise UnknownModel(f"no model is named {model!r}: there are {', '.join(MODELS)}")
    return CacheProjection(model, config)


def label_of(marker: Marker) -> str:
    """A marker's label, that in the rest of its line where it has none of its own; '' for neither."""
    if marker.label:
        return marker.label
    try:
        return msgspec.json.decode(marker.detail, type=_Labelled).label if marker.detail else ""
    except msgspec.DecodeError:
        return ""
