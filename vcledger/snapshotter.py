"""Keeps snapshots of a projection up with the log, so that any past state is a short fold away.

Owns when a snapshot is made: a whole one each `whole_every` events of its cluster, between them one of the changes each
`changes_every`. Must not know what is in one. Called by importers (in a second process, beside their own), by
`Ledger.prune`, and by tests in the same process.

It can stop at any moment: the next one goes on from the newest snapshot.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from eventstore import EventStore, open_store
from eventstore.types import EventStoreError, Snapshot
from projections.base import Projection
from vcledger import codec
from vcledger.errors import VcledgerError
from vcledger.folding import SEGMENT, Folder, kinds_read

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

S = TypeVar("S")

POLL_SECONDS = 0.05
"""How long the second process waits when it has caught up."""

TELL_SECONDS = 0.2
"""How often whoever waits for it is told how far it is."""


class Policy(NamedTuple):
    """How many events of the cluster between two whole snapshots, and between two of any sort.

    A read of the past loads one whole snapshot, the changes after it, and folds the rest: with 10,000 live pods about
    as long as 2,000 events for the whole one and 250 for each 2,500 of changes. Closer whole ones cost room (about 60
    bytes for each live pod), closer changes hardly any."""

    whole_every: int = 25_000
    changes_every: int = 2_500


DEFAULT_POLICY = Policy()


class Progress(NamedTuple):
    """How far a snapshotter is: the position folded, snapshots saved so far, and their bytes before the log's own
    compression."""

    position: int
    whole: int
    changes: int
    size: int


class Snapshotter(Generic[S]):
    """Follows one cluster of a store with one projection."""

    def __init__(
        self, store: EventStore, cluster: str, projection: Projection[S], policy: Policy = DEFAULT_POLICY
    ) -> None:
        if not 1 <= policy.changes_every <= policy.whole_every:
            raise ValueError(f"{policy}: need 1 <= changes_every <= whole_every")
        self.store, self.cluster, self.projection, self.policy = store, cluster, projection, policy
        folder, head = Folder(store), store.head()
        chain = folder.chain(projection, cluster, head)
        self.position, self.state = folder.load(projection, cluster, head, chain)
        self._base = chain[-1].position if chain else None
        self._changes = max(len(chain) - 1, 0)
        self._since = 0
        self._saved = [0, 0, 0]

    @property
    def progress(self) -> Progress:
        return Progress(self.position, *self._saved)

    def run(self, to: int | None = None, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Folds up to `to` (None: what is the head now) and saves each snapshot that falls due on the way."""
        end = self.store.head() if to is None else to
        read, evolve, state = kinds_read(self.projection), self.projection.evolve, self.state
        while self.position < end:
            reached = min(self.position + SEGMENT, end)
            stream = codec.fold_stream(self.store, self.cluster, self.position, reached, read=read)
            while True:
                last = None
                for last in islice(stream, self.policy.changes_every - self._since):
                    state = evolve(state, last)
                    self._since += 1
                if last is None:
                    break
                self.state, self.position = state, last.position
                if self._since >= self.policy.changes_every:
                    self.save()
            self.position = reached
            if on_progress is not None:
                on_progress(self.progress)
        return self.progress

    def save(self, *, whole: bool = False) -> Snapshot:
        """Saves a snapshot of the state as it is, at the position that has been folded."""
        full = whole or self._base is None or (self._changes + 1) * self.policy.changes_every >= self.policy.whole_every
        payload = self.projection.dump(self.state) if full else self.projection.dump_changes(self.state)
        base = None if full else self._base
        snapshot = Snapshot(self.projection.name, self.projection.version, self.cluster, self.position, base, payload)
        self.store.save_snapshot(snapshot)
        self._base, self._since = self.position, 0
        self._changes = 0 if full else self._changes + 1
        self._saved[0 if full else 1] += 1
        self._saved[2] += len(payload)
        return snapshot


def catch_up(
    ledger: Ledger,
    cluster: str | None = None,
    *,
    projection: Projection[Any] | None = None,
    policy: Policy = DEFAULT_POLICY,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Brings the snapshots of a cluster up to the head, in this process. Default projection: the cache of the default
    model."""
    from vcledger.ledger import cache_projection

    chosen = cache_projection() if projection is None else projection
    return Snapshotter(ledger.store, ledger.cluster(cluster), chosen, policy).run(on_progress=on_progress)


class SnapshotterFailed(VcledgerError):
    """The second process could not go on; the ledger is whole, only snapshots are missing."""

    exit_code = 1


class SnapshotProcess:
    """A snapshotter in a process of its own, so that an import and its snapshots each have a core.

    The log is all they share: the child opens `db` itself, follows it, and ends by itself when the parent is gone.
    Like all of multiprocessing's spawn, it needs a main module that can be imported.
    """

    def __init__(self, db: str, cluster: str, projection: Projection[Any], policy: Policy = DEFAULT_POLICY) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._reached = context.Array("q", len(Progress._fields), lock=False)
        self._process = context.Process(
            target=_serve,
            args=(theirs, self._reached, db, cluster, projection, policy),
            name="vcledger-snapshots",
            daemon=True,
        )
        self._process.start()
        theirs.close()

    def progress(self) -> Progress:
        """How far it is. Never waits."""
        return Progress(*self._reached)

    def finish(self, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Lets it fold up to what is the head now, and waits for it; `on_progress` is told a few times a second.
        SnapshotterFailed when it could not."""
        try:
            self._ours.send("finish")
            while not self._ours.poll(TELL_SECONDS):
                if on_progress is not None:
                    on_progress(self.progress())
            problem = self._ours.recv()
        except (EOFError, OSError) as error:
            raise SnapshotterFailed("the snapshot process ended too early; run the import again to go on") from error
        finally:
            self.close()
        if problem:
            raise SnapshotterFailed(f"snapshots: {problem}")
        if on_progress is not None:
            on_progress(self.progress())
        return self.progress()

    def close(self) -> None:
        """Ends it wherever it is. The snapshots that it has saved stay good."""
        self._ours.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


def _serve(pipe: Connection, reached: Any, db: str, cluster: str, projection: Projection[Any], policy: Policy) -> None:
    """The second process: fold what there is, look again, until told to finish or the pipe closes. Its last word is
    what went wrong, '' when nothing did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def tell(progress: Progress) -> None:
        reached[:] = progress

    problem = ""
    try:
        with open_store(db) as store:
            snapshotter = Snapshotter(store, cluster, projection, policy)
            finishing = False
            while True:
                before = snapshotter.position
                tell(snapshotter.run(on_progress=tell))
                if finishing:
                    break
                wait = 0.0 if snapshotter.position > before else POLL_SECONDS
                finishing = pipe.poll(wait) and pipe.recv() == "finish"
    except (EOFError, BrokenPipeError):
        return
    except (EventStoreError, VcledgerError) as error:
        problem = str(error)
    with suppress(OSError):
        pipe.send(problem)
    pipe.close()
