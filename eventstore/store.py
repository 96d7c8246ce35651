"""The log as its users see it: one object with all that a ledger can do.

Owns the public interface. Must not do the work itself: each method hands over to the module of its subject. Called by
`vcledger`, by tests, and by anyone who uses the log on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType

from eventstore.append import Appender
from eventstore.backend import Backend, translated
from eventstore.follow import follow
from eventstore.leases import Leases
from eventstore.opening import open_backend
from eventstore.read import Filter, RawEvent, Reader, Scalars
from eventstore.retention import prune
from eventstore.runs import Run
from eventstore.snapshots import Snapshots
from eventstore.stats import stats
from eventstore.types import (
    AppendResult,
    Lease,
    NewEvent,
    PruneReport,
    Snapshot,
    SnapshotInfo,
    StoredEvent,
    StoreStats,
    StreamHead,
    StreamId,
    VerifyReport,
)
from eventstore.upcast import Upcasters
from eventstore.verify import verify


def now_microseconds() -> int:
    return time.time_ns() // 1000


def open_store(
    db: str,
    *,
    create: bool = False,
    read_only: bool = False,
    upgrade: bool = False,
    busy_timeout_seconds: float = 30.0,
    clock: Callable[[], int] = now_microseconds,
) -> EventStore:
    """Opens the ledger at a path or SQLAlchemy URL.

    create                 makes it when there is none; else LedgerMissing
    read_only              never writes; works in a folder that cannot be written
    upgrade                brings an older schema forward; else LedgerOutdated, unless read_only can do without
    busy_timeout_seconds   how long a writer waits for its turn before LedgerBusy
    clock                  what `appended_at` is taken from, microseconds since 1970

    LedgerNewer when a newer version made it, NotALedger when something else is there.
    """
    backend = open_backend(
        str(db), create=create, read_only=read_only, upgrade=upgrade, busy_timeout_seconds=busy_timeout_seconds
    )
    return EventStore(backend, clock)


class EventStore:
    """An append-only log of events in streams, with a total order. Use it as a context manager, or `close` it."""

    def __init__(self, backend: Backend, clock: Callable[[], int] = now_microseconds) -> None:
        self.backend = backend
        self._clock = clock
        self._reader = Reader(backend)
        self._appender = Appender(backend, clock)
        self._snapshots = Snapshots(backend, clock)
        self._leases = Leases(backend, clock)

    @property
    def address(self) -> str:
        """What `open_store` opens it by once more, such as in another process. A URL's password is in it."""
        return self.backend.address

    def close(self) -> None:
        self.backend.close()

    def __enter__(self) -> EventStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(
        self,
        events: Sequence[NewEvent | Run],
        *,
        expected: Mapping[StreamId, int] | None = None,
        token: str | None = None,
        lift: bool = False,
        lease: Lease | None = None,
        first: int | None = None,
    ) -> AppendResult:
        """Appends a batch: all of it or nothing, durable when this returns. A `Run` in it stands for its events.

        expected  the version that each of these streams must be at (0: not there yet), or WrongExpectedVersion
        token     a batch appended with the token of an earlier one is not appended again; the earlier result is given
        lift      who appends sees the present: an event observed before the high-water mark (another writer's clock was
                  ahead) is not stored late but as observed at the mark. One that is `late` by itself stays late. And an
                  object that the log takes for gone at the very version that is seen is there after all, see below
        lease     the appender's role: LeaseLost, with nothing stored, once another has taken it
        first     the position at which the batch must begin, for whoever names positions in it: LogMoved otherwise

        An observation that its stream already has (same resource version, same `gone`) is not stored again. With `lift`
        there is one exception: where the stream's last observation says that the object went at that version (it was
        missing in a list that was of less, or stale), it is stored under a version of its own, see `RETURNED`. Events
        observed before the cluster's high-water mark are stored late: they raise their stream's version, but neither
        its head's position nor the mark.
        """
        return self._appender.append(events, expected or {}, token, lift, lease, first)

    # --- writers' roles -------------------------------------------------------------------------------------------

    def acquire(self, cluster: str, role: str, owner: str, *, seconds: float, take_over: bool = False) -> Lease:
        """Takes a role on a cluster, such as that of its recorder, for so many seconds from now. LeaseHeld when another
        has it and its time has not ended, unless `take_over` says to take it all the same. `owner` is the taker's name
        for people; it need not be unique."""
        return self._leases.acquire(cluster, role, owner, seconds, take_over)

    def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """The lease, to end so many seconds from now. LeaseLost when it was given up or another has taken the role; one
        that ended while nobody came goes on."""
        return self._leases.renew(lease, seconds)

    def release(self, lease: Lease) -> None:
        """Gives the role up. Nothing happens when it is lost already."""
        self._leases.release(lease)

    def leases(self, cluster: str | None = None) -> list[Lease]:
        """The roles that are held now, by cluster and role."""
        return self._leases.held(cluster)

    def now(self) -> int:
        """What the ledger's clock says, in microseconds: leases are timed by it."""
        return self._clock()

    # --- reading --------------------------------------------------------------------------------------------------

    def read(
        self,
        *,
        after: int = 0,
        to: int | None = None,
        cluster: Scalars = None,
        kinds: Scalars = None,
        types: Scalars = None,
        families: Scalars = None,
        namespace: Scalars = None,
        name: Scalars = None,
        uid: Scalars = None,
        about: Scalars = None,
        observed_from: int | None = None,
        observed_to: int | None = None,
        late: bool | None = None,
        reverse: bool = False,
        limit: int | None = None,
        batch: int = 2000,
        upcasters: Upcasters | None = None,
    ) -> Iterator[StoredEvent]:
        """Events after a position and up to another, by filters that must all hold. Streams: memory stays bounded by
        `batch`. `late` None gives both, False leaves late ones out, True gives only them. Names of types are the
        stored ones; upcasters are applied to what the filters let through."""
        wanted = Filter(cluster, kinds, types, families, namespace, name, uid, about, observed_from, observed_to, late)
        found = self._reader.read(wanted, after=after, to=to, reverse=reverse, limit=limit, batch=batch)
        return found if upcasters is None else map(upcasters.event, found)

    def read_raw(
        self,
        after: int = 0,
        to: int | None = None,
        cluster: str | None = None,
        *,
        late: bool = False,
        batch: int = 5000,
    ) -> Iterator[list[RawEvent]]:
        """The fast path for folds: lists of plain tuples (position, stream, type, schema, observed_at, known, late,
        resource_version, causation, cycle, payload), in order. Late events are left out unless asked for."""
        return self._reader.read_raw(after=after, to=to, cluster=cluster, late=late, batch=batch)

    def get(self, positions: Sequence[int]) -> list[StoredEvent]:
        """Events by their positions, in the order asked for; positions that are not there are left out."""
        return self._reader.get(positions)

    def head(self) -> int:
        """The newest event's position; 0 when there is none."""
        return self._reader.head()

    def first(self) -> int:
        """The position from which the log is whole: 1, or the first that retention has left."""
        return self._reader.first()

    def clusters(self) -> list[str]:
        """Names of all clusters with events, sorted."""
        return self._reader.clusters()

    def stream_head(self, stream: StreamId) -> StreamHead | None:
        """A stream's version, and its last event that is not late (position 0 when all are); None: no such stream."""
        return self._reader.stream_head(stream)

    def live(self, cluster: str, kind: str) -> list[StreamHead]:
        """Heads of a kind's streams whose objects are not gone, by position."""
        return self._reader.live(cluster, kind)

    def has_live(self, cluster: str, kind: str) -> bool:
        """Whether `live` has any that is named: a stream of the kind as a whole has no name. Reads one row."""
        return self._reader.has_live(cluster, kind)

    def high_water(self, cluster: str) -> int | None:
        """How far a cluster's observed time has got, in microseconds; None when nothing was observed."""
        return self._reader.high_water(cluster)

    def position_at(self, observed_at: int, cluster: str | None = None) -> int:
        """Position of the last event that is not late and was observed at or before a time; 0 when there is none.
        Without a cluster: the highest of all clusters' positions."""
        return self._reader.position_at(observed_at, cluster)

    def follow(
        self,
        after: int,
        *,
        stop: Callable[[], bool],
        poll_seconds: float = 0.5,
        cluster: Scalars = None,
        kinds: Scalars = None,
        types: Scalars = None,
        families: Scalars = None,
        namespace: Scalars = None,
        name: Scalars = None,
        uid: Scalars = None,
        about: Scalars = None,
        late: bool | None = None,
        batch: int = 2000,
    ) -> Iterator[list[StoredEvent]]:
        """What is there after a position, then what comes, in lists that are never empty, until `stop` says True.
        Looks each `poll_seconds` on SQLite; on PostgreSQL it is told (LISTEN), and looks no less often than that."""
        wanted = Filter(cluster, kinds, types, families, namespace, name, uid, about, None, None, late)
        return follow(self.backend, self._reader, wanted, after, stop, poll_seconds, batch)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Walks the whole ledger and reports each finding; progress(events walked, events in all) is called now and
        then."""
        return verify(self.backend, progress)

    def prune(
        self,
        *,
        before_position: int | None = None,
        before_time: int | None = None,
        projections: Sequence[tuple[str, int]] | None = None,
        reclaim: bool = True,
    ) -> PruneReport:
        """Drops events below a position, or observed before a time, as far as whole batches and snapshots allow.

        projections  (name, version) of those that must be covered, for each cluster; None: any one snapshot will do
        reclaim      gives the room back to the disk, which takes as long as writing the rest anew (SQLite)

        What stays, and how it stays verifiable: see `eventstore.retention`. States at positions below `first()` - 1 can
        no longer be folded. SnapshotMissing when nothing covers the events; LedgerCorrupt, with nothing dropped, when
        what would go does not verify.
        """
        return prune(
            self.backend,
            self._clock,
            before_position=before_position,
            before_time=before_time,
            projections=projections,
            reclaim=reclaim,
        )

    def grant_reading(self, role: str) -> None:
        """Lets a role of the database (PostgreSQL) read this ledger and follow it, and nothing more, what later
        revisions of the schema add included. RoleUnknown when it is not there; LedgerUnwritable without the right to
        grant."""
        with translated(self.backend):
            self.backend.grant_reading(role)

    def stats(self) -> StoreStats:
        """Counts and sizes."""
        return stats(self.backend)

    def save_snapshot(self, snapshot: Snapshot, *, replace: bool = False) -> None:
        """Saves a projection's state. One that is there already stays as it is, unless `replace` says that it is no
        good. SnapshotMissing when its base is not there."""
        self._snapshots.save(snapshot, replace)

    def load_snapshots(self, projection: str, version: int, cluster: str, at: int) -> list[Snapshot]:
        """The chain, whole one first, that ends in the newest snapshot at or before a position; [] when this version of
        the projection has none. LedgerCorrupt when one of them was changed."""
        return self._snapshots.load(projection, version, cluster, at)

    def snapshots(
        self, projection: str | None = None, version: int | None = None, cluster: str | None = None
    ) -> list[SnapshotInfo]:
        """All snapshots of these, without their payloads, by position."""
        return self._snapshots.list(projection, version, cluster)
