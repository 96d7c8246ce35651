"""The values that go in and out of the log, and its typed errors.

Owns the shape of an event as the log sees it: opaque payload bytes under labelled columns. Must not know Kubernetes,
nor what a payload means. Called by every module of `eventstore` and by `vcledger`.

Times are UTC in integer microseconds since 1970. Positions start at 1 and have no holes.
"""

from __future__ import annotations

from typing import NamedTuple

RECORDED, INFERRED, RECOMPUTED = 0, 1, 2
"""How an event is known: from a watch or an API answer; from a relist or an audit line; by our own evaluation."""

KEYED = 1 << 61
"""Resource versions from here on are keys: `resource_version` of an event that is no observation of its stream's
object, but is to be stored once all the same (a bind that an audit log tells of, a marker). A key makes the event known
again, as an observation's version does, and the event raises the stream's version; but it says nothing of the object,
so it leaves the head's position, resource version and `gone` as they are."""


RETURNED = KEYED >> 1
"""Resource versions from here up to KEYED are the object's own no more: that of an observation by which an object is
there again, as it was when it was thought to have gone, is this and its position. Who makes numbers of versions that
are none takes them from here on too."""


def is_observation(resource_version: int | None, gone: bool) -> bool:
    """Whether an event shows its stream's object: it has a resource version that is no key, or says that the object is
    gone without one."""
    return gone if resource_version is None else resource_version < KEYED


KNOWN_NAMES: tuple[str, ...] = ("recorded", "inferred", "recomputed")
"""`NewEvent.known` to its word."""


class StreamId(NamedTuple):
    """What a stream is about. All five together identify it; namespace, name and uid may be ''."""

    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str


class NewEvent(NamedTuple):
    """An event to append.

    stream            the stream whose version it raises by one
    type, family      its name in the vocabulary, and the family's
    schema            version of the payload's schema, from 1
    observed_at       when it was observed, in microseconds
    payload           bytes; the log compresses them and gives them back unchanged
    known             RECORDED, INFERRED or RECOMPUTED
    resource_version  with `gone` what stores an event once in its stream: an observation's version, from 0 below KEYED,
                      or a key from KEYED on; None: neither, stored each time
    gone              the observation says that the object is gone
    late              the ledger had already got past it: kept, but folds skip it
    about             uid of another object that the event speaks of (an Event's involvedObject), or ''
    causation         position of the event that caused it, which must be before it; -k: the k-th event of the same
                      append (from 1), wherever that stands then
    cycle             number of the scheduling cycle it belongs to
    """

    stream: StreamId
    type: str
    family: str
    observed_at: int
    payload: bytes
    schema: int = 1
    known: int = RECORDED
    resource_version: int | None = None
    gone: bool = False
    late: bool = False
    about: str = ""
    causation: int | None = None
    cycle: int | None = None


class StoredEvent(NamedTuple):
    """An event as read: the columns of NewEvent with the stream flattened, and what the log gave it."""

    position: int
    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: int
    type: str
    family: str
    schema: int
    observed_at: int
    appended_at: int
    payload: bytes
    known: int
    resource_version: int | None
    gone: bool
    late: bool
    about: str
    causation: int | None
    cycle: int | None

    @property
    def stream(self) -> StreamId:
        return StreamId(self.cluster, self.kind, self.namespace, self.name, self.uid)


class AppendResult(NamedTuple):
    """What an append did. positions[i] is where event i stands now: a new position, or the old one of an observation
    that was already there. stored + already == len(positions)."""

    positions: list[int]
    stored: int
    already: int
    late: int


class StreamHead(NamedTuple):
    """A stream's version, and the last observation of its object that the log has, late ones apart: its position, or 0
    when there is none, its resource version, and whether it says that the object is gone."""

    stream: StreamId
    version: int
    position: int
    resource_version: int | None
    gone: bool


class Snapshot(NamedTuple):
    """A projection's state at a position. `base` is the position of the snapshot that it builds upon, None when it is
    whole; a reader gets the chain from the whole one on, oldest first."""

    projection: str
    version: int
    cluster: str
    position: int
    base: int | None
    payload: bytes


class Lease(NamedTuple):
    """That one writer, and nobody else, does something (`role`) for a cluster. `owner` is the holder's name for people;
    `term` is a number that no other holder of the role had. Times in microseconds."""

    cluster: str
    role: str
    owner: str
    term: int
    acquired_at: int
    renewed_at: int
    expires_at: int


class EventStoreError(Exception):
    """Base of the log's errors. Its text is one line and says what to do."""


class WrongExpectedVersion(EventStoreError):
    """A stream is not at the version that the append expected; nothing of the append was stored."""


class LogMoved(EventStoreError):
    """The log does not end where the append expected; nothing of the append was stored."""


class LeaseHeld(EventStoreError):
    """Another has the role on that cluster."""


class LeaseLost(EventStoreError):
    """The role was taken by another, or given up; nothing was stored."""


class LedgerBusy(EventStoreError):
    """Another writer held the ledger for longer than the busy timeout."""


class LedgerNewer(EventStoreError):
    """The ledger was made by a newer version of the program."""


class LedgerOutdated(EventStoreError):
    """The ledger's schema is older than the program's: open it once with `upgrade`."""


class NotALedger(EventStoreError):
    """The file or database holds something else."""


class LedgerMissing(EventStoreError):
    """There is no ledger at that place."""


class PlaceMissing(LedgerMissing):
    """Nor is there the folder or database that could hold one."""


class LedgerUnwritable(EventStoreError):
    """Read-only file or folder, disk full, or missing rights; nothing of the append was stored."""


class LedgerCorrupt(EventStoreError):
    """The bytes in the ledger are not what was written."""


class InvalidEvent(EventStoreError):
    """An event that the log cannot keep unchanged (a NUL or a lone surrogate in a column, a payload too large);
    nothing of the append was stored."""


class SnapshotMissing(EventStoreError):
    """A prune was asked for that no snapshot covers."""


class LedgerUnreachable(EventStoreError):
    """The database server does not answer, or the connection was lost; nothing of the append is known to be stored:
    send the batch again with its token."""


class RoleUnknown(EventStoreError):
    """A role of the database that is not there, or a database that has none. Nothing was granted."""


class SnapshotInfo(NamedTuple):
    """A snapshot without its payload. Sizes in bytes: as given, and as stored."""

    projection: str
    version: int
    cluster: str
    position: int
    base: int | None
    created_at: int
    size: int
    stored_size: int


class Finding(NamedTuple):
    """Something that `verify` found wrong. `rule` is a short name, `position` the log position, 0: none."""

    rule: str
    position: int
    message: str


class VerifyReport(NamedTuple):
    """What `verify` walked and found. `pruned_to` is the last position that retention has dropped (0: none), `kept` the
    rows below it that were kept. `head_hash` is the chain's last hash in hex: written down elsewhere, it proves later
    that nothing before it was changed."""

    events: int
    batches: int
    streams: int
    dictionaries: int
    snapshots: int
    pruned_to: int
    kept: int
    head_hash: str
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return not self.findings


class PruneReport(NamedTuple):
    """What a prune did: events dropped and kept at or below `cut`, streams and snapshots that went with them, and the
    ledger's size on disk before and after, in bytes. `cut` 0: there was nothing to drop."""

    cut: int
    dropped: int
    kept: int
    streams: int
    snapshots: int
    size_before: int
    size_after: int


class StoreStats(NamedTuple):
    """Counts and sizes in bytes. `payload_size` is what was handed in, `payload_stored` what it takes compressed; both
    count everything ever appended. `size` is the whole ledger on disk."""

    backend: str
    events: int
    head: int
    first: int
    streams: int
    batches: int
    clusters: int
    dictionaries: int
    snapshots: int
    snapshot_stored: int
    payload_size: int
    payload_stored: int
    size: int
