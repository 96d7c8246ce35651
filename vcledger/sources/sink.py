"""Items into the log: times that never go back, lists worked out with what the ledger knows, batches appended.

Owns everything of an import that needs the ledger's state. Must not know files nor formats. Called by
`vcledger.sources.pipeline`.

Time in the log of a cluster never goes back. Whatever is older than what the ledger had when the import began is late;
jitter between the files of one call is evened out to the time of what came before. A list and what it proves (items,
inferred deletions, the gap) go into one batch, so that a crash leaves all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType

from eventstore import EventStore
from eventstore.runs import Run
from eventstore.types import KEYED, RECORDED, AppendResult, NewEvent, StoredEvent, StreamId
from vcledger.codec import OBJECT_TYPES
from vcledger.sources.causes import CAUSES, Causes
from vcledger.sources.items import Broke, ListBegun, ListItem, Sighting, Taken, Vanished
from vcledger.sources.lists import CHANGED, Known, LastSeen, Outage, Relist, Watches
from vcledger.sources.observe import hash_key
from vcledger.sources.report import Gap, ImportReport
from vcledger.sources.shape import deletion, said
from vcledger.sources.stored import Stored, last_seen
from volcano.events.observation import GapRecorded, ListCompleted, WatchFailed

BATCH = 4_000
BATCH_BYTES = 32 << 20
LIST_BATCH = 200_000
LIST_BATCH_BYTES = 256 << 20
"""Events and bytes of an append; while a list is in progress the larger limits hold, so that it stays whole."""


class _InProgress:
    """A list whose items are coming in. `time` is that of what it proves."""

    def __init__(self, begun: ListBegun, relist: Relist, outage: Outage | None, time: int) -> None:
        self.begun, self.relist, self.outage, self.time, self.left = begun, relist, outage, time, begun.length


class Sink:
    """Takes the items of one import, in order. Call `finish` at the end."""

    def __init__(
        self,
        store: EventStore,
        cluster: str,
        report: ImportReport,
        batch: int = BATCH,
        appended: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.cluster, self.report, self._appended = store, cluster, report, appended
        self.stored = Stored(store, cluster)
        mark = store.high_water(cluster)
        self.start = -(2**62) if mark is None else mark
        self._now = self.start
        self._batch: list[NewEvent | Run] = []
        self._count = self._bytes = 0
        self._batch_max, self._limit = batch, batch
        self._bytes_limit = BATCH_BYTES
        self._lists: dict[str, _InProgress] = {}
        self._last: dict[str, NewEvent] = {}
        self._watches = Watches()
        self._sighted: set[StreamId] = set()
        self._writer = ThreadPoolExecutor(1, "vcledger-append")
        self._under_way: Future[AppendResult] | None = None
        self._causes = Causes()

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for the append that is under way: all of it is stored, or nothing."""
        self._writer.shutdown()

    # --- taking -------------------------------------------------------------------------------------------------

    def take(self, item: Taken) -> None:
        """One item, or a run."""
        if type(item) is Run:
            self._run(item)
        elif type(item) is NewEvent:
            self._event(item)
        elif type(item) is ListItem:
            self._list_item(item)
        elif type(item) is ListBegun:
            self._list_begun(item)
        elif type(item) is Sighting:
            self._sighting(item.event)
        elif type(item) is Broke:
            self._broke(item)
        elif type(item) is Vanished:
            self._vanished(item)

    def _event(self, event: NewEvent) -> None:
        """An event of a watch, or one that is ready."""
        if event.known == RECORDED:
            kind = event.stream.kind
            if self._lists and kind in self._lists:
                self._end_list(kind)
            if event.type == "WatchStarted":
                self._watches.resumed(kind)
            self._last[kind] = event
        self._add(event)

    def _run(self, run: Run) -> None:
        """Events of watches, as one after the other."""
        last = run.last_places()
        if any(kind in self._lists for kind in last) or any(form.known != RECORDED for form in run.forms):
            for event in run.events():
                self._event(event)
            return
        for kind, place in last.items():
            self._last[kind] = run.event(place)
        old = run.before(self.start, False)
        if old:
            self._add_run(run.part(0, old))
            run = run.part(old, len(run))
        if len(run):
            self._add_run(run.not_before(self._now))
            self._now = max(self._now, run.observed[-1])

    def _add_run(self, run: Run) -> None:
        """Into the batch, and the next ones when it is full."""
        while True:
            end, size = self._room(run)
            part = run if end == len(run) else run.part(0, end)
            self._batch.append(part)
            self._count += end
            self._bytes += size
            if self._count >= self._limit or self._bytes >= self._bytes_limit:
                self.flush()
            if part is run:
                return
            run = run.part(end, len(run))

    def _room(self, run: Run) -> tuple[int, int]:
        """How many of a run's events fill the batch at most, and the bytes of their payloads."""
        end = min(len(run), self._limit - self._count)
        size = sum(run.size[:end])
        if self._bytes + size < self._bytes_limit:
            return end, size
        size = 0
        for place in range(end):
            size += run.size[place]
            if self._bytes + size >= self._bytes_limit:
                return place + 1, size
        return end, size

    def _add(self, event: NewEvent) -> None:
        """Into the batch, its time made to fit."""
        time = event.observed_at
        if time >= self._now:
            if not event.late:
                self._now = time
        elif time >= self.start and not event.late:
            event = event._replace(observed_at=self._now)
        if event.causation is not None and event.causation <= -KEYED:
            event = event._replace(causation=self._causes.of(event, self.settle))
        self._batch.append(event)
        self._count += 1
        if event.type in CAUSES:
            self._causes.add(event, self._count)
        self._bytes += len(event.payload)
        if self._count >= self._limit or self._bytes >= self._bytes_limit:
            self.flush()

    def late(self, event: NewEvent) -> None:
        """An event that the folds are to skip, whatever its time."""
        self._add(event._replace(late=True))

    def flush(self) -> None:
        """Appends what waits, beside what comes next: compression, the database and the disk need no lock of Python's.
        One append is under way at a time, so they stand in the log in order; what goes wrong in one is raised by the
        next call of this or of `settle`, and nothing after it is appended."""
        if not self._batch:
            return
        self.settle()
        batch, self._batch, self._count, self._bytes = self._batch, [], 0, 0
        self._causes.sent()
        self._under_way = self._writer.submit(self.store.append, batch)

    def settle(self) -> None:
        """Waits for the append that is under way: what was flushed is durable then, and can be read."""
        if self._under_way is None:
            return
        result = self._under_way.result()
        self._under_way = None
        self._causes.stored(result.positions)
        self.report.stored += result.stored
        self.report.already += result.already
        self.report.late += result.late
        self._appended()

    def finish(self) -> None:
        """The end of the input."""
        for kind in list(self._lists):
            progress = self._lists[kind]
            progress.outage = None  # told when the list goes on
            self._end_list(kind)
            self._cut_off(progress)
        self.flush()
        self.settle()

    def _hold(self) -> None:
        """Larger batches while a list is in progress."""
        self._limit = LIST_BATCH if self._lists else self._batch_max
        self._bytes_limit = LIST_BATCH_BYTES if self._lists else BATCH_BYTES

    # --- lists --------------------------------------------------------------------------------------------------

    def _list_begun(self, begun: ListBegun) -> None:
        kind = begun.kind
        if kind in self._lists:
            self._end_list(kind)
        if begun.observed_at <= self.start and self._overtaken(begun):
            # From before what the ledger has got to: its items are late, and what is missing in it was either worked
            # out when it was first imported, or must not rewrite what has been known since.
            self._watches.resumed(kind)
            return
        self.flush()
        self.settle()
        outage = self._watches.listed(kind, self._last_sign(kind, begun.observed_at), begun.relist)
        time = max(begun.observed_at, self.start)
        self._lists[kind] = _InProgress(begun, Relist(self.stored.objects(kind)), outage, time)
        self._hold()
        if begun.length == 0:
            self._end_list(kind)

    def _last_sign(self, kind: str, before: int) -> LastSeen | None:
        """When a watch of the kind last gave a sign of life, in this import or, before a time, as the ledger has it."""
        event = self._last.get(kind) or self.stored.last_sign(kind, before)
        return None if event is None else last_seen(event)

    def _cut_off(self, progress: _InProgress) -> None:
        """The input ends inside a list. That is put on record, so that the list can go on when the file has grown."""
        begun = progress.begun
        message = f"the list is cut off after {begun.length - progress.left} of its {begun.length} items"
        event = WatchFailed(resource=begun.resource, message=message)
        self._add(said(self.cluster, begun.kind, event, self._now, _cut_key(begun)))

    def _overtaken(self, begun: ListBegun) -> bool:
        """Whether the ledger has got past the list, or, when it stands at its very moment, has it already. A list of
        which the ledger has last that it was cut off goes on."""
        self.settle()
        read, kind = partial(self.store.read, cluster=self.cluster, late=False, reverse=True), begun.kind
        if begun.observed_at == self.start:
            same_time = read(kinds=kind, types="ListCompleted", observed_from=self.start)
            return any(one.resource_version == begun.key for one in same_time)
        return all(one.resource_version != _cut_key(begun) for one in read(kinds=kind, limit=1))

    def _list_item(self, item: ListItem) -> None:
        event = item.event
        stream = event.stream
        progress = self._lists.get(stream.kind)
        if progress is None:
            self._add(event)
            return
        found = progress.relist.item(stream.namespace, stream.name, stream.uid, event.resource_version)
        if found.replaced is not None:
            self._gone([found.replaced], stream.kind, event.observed_at)
        self._add(event._replace(type="ObjectModified") if found.change == CHANGED else event)
        progress.left -= 1
        if progress.left == 0:
            self._end_list(stream.kind)

    def _end_list(self, kind: str) -> None:
        """The list is whole, or as whole as it gets: when items are lacking, nothing is inferred from that."""
        progress = self._lists.pop(kind)
        begun, relist, outage = progress.begun, progress.relist, progress.outage
        whole = progress.left <= 0
        if whole:
            self._gone(relist.missing(), kind, progress.time)
        else:
            self.report.note(
                f"a list of {begun.resource} lacks {progress.left} of its {begun.length} items: "
                "nothing is inferred from what is missing in it"
            )
        if outage is not None:
            self._gap(progress, outage)
        if whole:
            event = ListCompleted(
                resource=begun.resource, resource_version=begun.version, items=begun.length, relist=begun.relist
            )
            completed = said(self.cluster, kind, event, progress.time, begun.key)
            self._last[kind] = completed
            self._add(completed)
        self._hold()
        if self._count >= self._limit:
            self.flush()

    def _gap(self, progress: _InProgress, outage: Outage) -> None:
        begun, relist = progress.begun, progress.relist
        event = GapRecorded(
            resource=begun.resource,
            from_time=outage.since.time,
            to_time=begun.observed_at,
            from_resource_version=outage.since.version,
            to_resource_version=begun.version,
            added=relist.added,
            modified=relist.changed,
            deleted=relist.deleted,
            reason=outage.reason,
        )
        key = hash_key(str(begun.key), "gap")
        self._add(said(self.cluster, begun.kind, event, progress.time, key))
        counts = relist.added, relist.changed, relist.deleted
        self.report.gaps.append(Gap(begun.kind, outage.since.time, begun.observed_at, *counts, outage.reason))

    def _gone(self, missing: Sequence[Known], kind: str, time: int) -> None:
        """Inferred deletions, with the last state that the log has of each object."""
        self.settle()
        for start in range(0, len(missing), 500):
            some = missing[start : start + 500]
            stored = {event.position: event for event in self.store.get([one.position for one in some])}
            for one in some:
                last = stored.get(one.position)
                if last is not None:
                    self._add(deletion(last.stream, last.payload, last.resource_version, time))

    # --- the rest -----------------------------------------------------------------------------------------------

    def _broke(self, broke: Broke) -> None:
        for kind in [broke.kind] if broke.kind else list(self._last):
            event = self._last.get(kind)
            if event is not None:
                self._watches.broke(kind, last_seen(event), broke.reason)

    def _sighting(self, event: NewEvent) -> None:
        """An object of which is not said whether it is new. One that the ledger knows to be deleted is from before."""
        stream = event.stream
        if stream in self._sighted:
            self._add(event)
            return
        self._sighted.add(stream)
        self.settle()
        head = self.store.stream_head(stream)
        if head is not None and head.gone:
            self.late(event)
        else:
            self._add(event if head is not None and head.position else event._replace(type="ObjectAdded"))

    def _last_waiting(self, stream: StreamId) -> NewEvent | None:
        """The last observation of a stream's object in the batch at hand."""
        for one in reversed(self._batch):
            for event in reversed(list(one.events())) if type(one) is Run else (one,):
                if event.stream == stream and event.type in OBJECT_TYPES:
                    return event
        return None

    def _uid_now(self, item: Vanished) -> str:
        """The uid of the object that had a name last, as far as this import has got; '' when there was none."""
        self.flush()
        self.settle()
        return self.stored.uid_of(item.kind, item.namespace, item.name)

    def _vanished(self, item: Vanished) -> None:
        """A deletion without a last state: the ledger's own last state stands in for it."""
        uid = item.uid or self._uid_now(item)
        stream = StreamId(self.cluster, item.kind, item.namespace, item.name, uid)
        last: NewEvent | StoredEvent | None = self._last_waiting(stream)
        self.settle()
        if last is None and (head := self.store.stream_head(stream)) is not None and not head.gone:
            last = self.stored.last_object(stream)
        if last is None or last.type == "ObjectDeleted" or item.observed_at < self.start:
            self.report.ignored["deletion, by name only, of what is not in the ledger, or gone from it already"] += 1
            return
        self._add(deletion(stream, last.payload, last.resource_version, item.observed_at))


def _cut_key(begun: ListBegun) -> int:
    return hash_key(str(begun.key), "cut off")
