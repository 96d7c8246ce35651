"""Keeps snapshots of a projection up with the log, so that any past state is a short fold away.

Owns when a snapshot is made: a whole one each `whole_every` events of its cluster, between them one of the changes each
`changes_every`. Must not know what is in one. Called by importers (in a second process, beside their own), by
`Ledger.prune`, and by tests in the same process.

It can stop at any moment: the next one goes on from the newest snapshot.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from eventstore import EventStore, open_store
from eventstore.types import EventStoreError, Snapshot
from projections.base import Projection
from vcledger import codec
from vcledger.errors import VcledgerError
from vcledger.folding import SEGMENT, Folder, decoders_of

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

S = TypeVar("S")

POLL_SECONDS = 0.05
"""How long the second process waits when it has caught up."""

TELL_SECONDS = 0.2
"""How often whoever waits for it is told how far it is."""

CLOSE_SECONDS = 5.0
"""How long the second process has to leave by itself."""

NICE = 5
"""How far the second process stands back: what is read and appended beside it keeps both cores, and it takes what they
leave, a good quarter of one at least."""

_FINISH = b"finish\n"


class Policy(NamedTuple):
    """How many events of the cluster between two whole snapshots, and between two of any sort.

    A read of the past loads one whole snapshot and the changes after it, and folds the rest: with 10,000 live pods the
    whole one takes about as long as 1,500 events, and each of the changes about as long as 60. Whole ones cost about
    50 bytes for each live pod, changes about 25 bytes for each event: 43 bytes an event in all."""

    whole_every: int = 25_000
    changes_every: int = 1_250


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
        newest = folder.chain(projection, cluster, head)
        chain, self.state = folder.loaded(projection, cluster, head)
        self.position = chain[-1].position if chain else 0
        self._void_to = newest[-1].position if newest else 0
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
        decoders, evolve, state = decoders_of(self.projection), self.projection.evolve, self.state
        while self.position < end:
            reached = min(self.position + SEGMENT, end)
            stream = codec.fold_stream(self.store, self.cluster, self.position, reached, decoders=decoders)
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
        # What cannot be read up to there must not stand in the way, nor be built upon.
        self.store.save_snapshot(snapshot, replace=self.position <= self._void_to)
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

    The log is all they share: the child opens `db` itself, follows it, and ends by itself when the parent is gone. It
    is a fresh interpreter that knows nothing of the caller's main module, and a Ctrl-C at the terminal is the
    parent's alone. What to do goes in over its standard input (a URL's password has no place among arguments), how far
    it is comes back as lines of JSON. The projection must be one that can be pickled.
    """

    def __init__(self, db: str, cluster: str, projection: Projection[Any], policy: Policy = DEFAULT_POLICY) -> None:
        asked = pickle.dumps((db, cluster, projection, policy))
        self._reached, self._problem = Progress(0, 0, 0, 0), ""
        self._finished = False
        self._ended = threading.Event()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from vcledger.snapshotter import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            start_new_session=True,
        )
        with suppress(OSError):  # it has ended already: `finish` says so
            self._tell(asked)
        self._listener = threading.Thread(target=self._listen, name="vcledger-snapshots", daemon=True)
        self._listener.start()

    def _tell(self, message: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(message)
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError, OSError):  # a line cut off, or the pipe closed from this side
            for line in self._process.stdout:
                message = json.loads(line)
                if isinstance(message, list):
                    self._reached = Progress(*message)
                else:
                    self._problem, self._finished = message, True
        self._ended.set()

    def progress(self) -> Progress:
        """How far it is. Never waits."""
        return self._reached

    def finish(self, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Lets it fold up to what is the head now, and waits for it; `on_progress` is told a few times a second.
        SnapshotterFailed when it could not."""
        try:
            with suppress(OSError):
                self._tell(_FINISH)
            while not self._ended.wait(TELL_SECONDS):
                if on_progress is not None:
                    on_progress(self.progress())
            if not self._finished:
                raise SnapshotterFailed(
                    f"the snapshot process ended too early{self._last_words()}; run the import again to go on"
                )
        finally:
            self.close()
        if self._problem:
            raise SnapshotterFailed(f"snapshots: {self._problem}")
        if on_progress is not None:
            on_progress(self.progress())
        return self.progress()

    def _last_words(self) -> str:
        self._process.wait(timeout=CLOSE_SECONDS)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()})" if lines else ""

    def close(self) -> None:
        """Ends it wherever it is. The snapshots that it has saved stay good."""
        process = self._process
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout=CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._listener.join()
        if process.stdout is not None:
            process.stdout.close()
        self._errors.close()


class _ParentGone(Exception):
    """Nobody waits for the snapshots any more."""


class _Orders:
    """What the parent says, heard in a thread: that it is time to finish, or, by closing the pipe, to leave."""

    def __init__(self, pipe: FileIO) -> None:
        self.heard, self.gone = threading.Event(), False
        self._pipe = pipe
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        self.gone = self._pipe.readline() != _FINISH
        self.heard.set()
        if self._pipe.readline() == b"":
            self.gone = True

    def check(self) -> None:
        if self.gone:
            raise _ParentGone


def serve() -> None:
    """The second process's whole life: read what to do from standard input, then fold what there is and look again,
    until told to finish or left alone. Its last word is what went wrong, '' when nothing did."""
    asked, words = FileIO(0, closefd=False), sys.stdout  # unbuffered: a thread that reads on at the end holds no lock
    db, cluster, projection, policy = pickle.load(asked)
    os.nice(NICE)
    orders = _Orders(asked)

    def tell(progress: Progress) -> None:
        orders.check()
        print(json.dumps(progress), file=words, flush=True)

    try:
        problem = ""
        try:
            with open_store(db) as store:
                _follow(Snapshotter(store, cluster, projection, policy), orders, tell)
        except (EventStoreError, VcledgerError) as error:
            problem = str(error)
        print(json.dumps(problem), file=words, flush=True)
    except (_ParentGone, BrokenPipeError):
        os._exit(1)  # without the interpreter's own attempt to flush a pipe that nobody reads


def _follow(snapshotter: Snapshotter[Any], orders: _Orders, tell: Callable[[Progress], None]) -> None:
    finishing = False
    while True:
        before = snapshotter.position
        tell(snapshotter.run(on_progress=tell))
        if finishing:
            return
        orders.heard.wait(0.0 if snapshotter.position > before else POLL_SECONDS)
        orders.check()
        finishing = orders.heard.is_set()
