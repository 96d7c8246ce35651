"""`import_paths`: files in, events in the log, a report out.

Owns the order of an import: find the files, look what they are, merge them by time, hand them to the sink, make
snapshots. Must not know any format, nor what the sink does. Called by `cli.import_`, the benchmarks, and users.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, cast

import msgspec

from eventstore.types import NewEvent
from vcledger.at import bare_name
from vcledger.codec import OBJECT_TYPES
from vcledger.ledger import Ledger
from vcledger.sources.alibaba_objects import EPOCH
from vcledger.sources.audit import Attempts
from vcledger.sources.beside import ReaderProcess, cores
from vcledger.sources.cluster_info import folders
from vcledger.sources.compress import STDIN, CutOff
from vcledger.sources.detect import Format
from vcledger.sources.interpreter import rare_collections, short_turns
from vcledger.sources.items import Broke, Item, ListBegun, ListItem, Sighting, Taken, Vanished
from vcledger.sources.lateness import Admission
from vcledger.sources.merge import Coverage, by_time, find
from vcledger.sources.options import (
    PARTS_OF_A_TRACE,
    ImportOptions,
    NoSuchInput,
    NothingToImport,
    refuse_impossible,
    refuse_missing,
)
from vcledger.sources.prove import cannot_prove
from vcledger.sources.report import Broken, FileReport, ImportReport, Tally, silent
from vcledger.sources.sink import Sink
from vcledger.sources.snapshots import Snapshots
from vcledger.sources.source import Progress, Reading, Source, items_of, look, now_micros

WATCHES = frozenset({Format.recording, Format.watch, Format.simulator})
SECOND_HAND = frozenset({Format.audit, Format.dump})
"""Formats that show objects as others saw them: late where a watch covers the time."""

WITHOUT_TIMES = frozenset(
    {Format.watch, Format.objects, Format.yaml, Format.openb_nodes, Format.snapshot, Format.exported}
)
"""Formats that do not say when something was observed."""


BESIDE_MAX = 4
"""Processes that read, at most: files that follow each other in time take turns."""


class Import:
    """One call of `import_paths`: `look` at the files, before there need be a ledger, then `run`."""

    def __init__(
        self, cluster: str, options: ImportOptions, progress: Progress | None, clock: Callable[[], int] = now_micros
    ) -> None:
        refuse_impossible(cluster, options, clock())
        self.cluster, self.options, self.progress, self.clock = cluster, options, progress, clock
        self.report = ImportReport(cluster=cluster)
        self.coverage = Coverage()
        self._aside: IO[bytes] | None = None
        self._stack = ExitStack()
        self._found: list[Source] = []
        self._beside: dict[Source, ReaderProcess] = {}

    def __enter__(self) -> Import:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def look(self, paths: Sequence[Path | str]) -> None:
        """Finds the files and what they are, and makes sure that something in them can be read. Raises NoSuchInput and
        NothingToImport; `--broken` that cannot be written is NoSuchInput too."""
        refuse_missing(paths)
        if self.options.broken_file is not None:
            self._aside = self._opened_aside(self.options.broken_file)
        self._found = self._sources(paths)
        self._begin_beside()
        self._refuse_hopeless()

    def _begin_beside(self) -> None:
        """Starts the processes that read the largest files, so that they are there when the ledger is."""
        least = self.options.beside_bytes
        if least is None or cores() < 2:
            return
        large = [source for source in self._found if source.format is not Format.dump and source.weight >= least]
        for source in sorted(large, key=lambda one: -one.weight)[:BESIDE_MAX]:
            with suppress(OSError):  # no more processes or sockets: it is read in this one
                self._beside[source] = process = ReaderProcess(source)
                self._stack.callback(process.close)

    def run(self, ledger: Ledger) -> ImportReport:
        """All of it. The report's `seconds_durable` is the time until the last batch was on disk."""
        self.ledger = ledger
        began = time.perf_counter()
        with self._stack as stack:
            sources = self._found
            two_passes = self._cover(sources)
            self.admission = Admission(self.ledger.store, self.cluster, self.report)
            snapshots = stack.enter_context(Snapshots(self.ledger, self.cluster, self.options.snapshots))
            sink = stack.enter_context(
                Sink(
                    self.ledger.store,
                    self.cluster,
                    self.report,
                    self.options.batch,
                    lambda: snapshots.begin_when_worth_it(self.report.stored),
                )
            )
            stack.enter_context(short_turns())
            stack.enter_context(rare_collections())
            take = sink.take
            for item in self._merged(sources, two_passes):
                take(item)
            sink.finish()
            if two_passes:
                self._second_pass(sources, sink)
            self.report.seconds_durable = time.perf_counter() - began
            self._say_what_is_late(sources)
            self._say_what_lacks(sources)
            self.report.cannot_prove = cannot_prove([form for source in sources for form in source.forms])
            self.report.snapshots = snapshots.finish(self.report)
        return self.report

    def _say_what_is_late(self, sources: Sequence[Source]) -> None:
        """Late audit lines and dumps are as they should be; of anything else a person wants to know."""
        self.admission.tell()
        if self.report.late and any(source.format not in SECOND_HAND for source in sources):
            self.report.note(
                f"{self.report.late} events are older than what the ledger had got to, or than a watch beside them: "
                "kept as late, which timelines and `why` read and caches skip; files of one time belong in one import"
            )

    def _say_what_lacks(self, sources: Sequence[Source]) -> None:
        """Nodes or pods of a trace that neither this call nor the ledger has."""
        met = {form for source in sources for form in source.forms}
        for have, other, kind, lacks, useless in PARTS_OF_A_TRACE:
            if have not in met or any(True for _ in self.ledger.store.read(cluster=self.cluster, kinds=kind, limit=1)):
                continue
            self.report.note(useless if other in met else lacks)

    # --- the files ----------------------------------------------------------------------------------------------

    def _sources(self, paths: Sequence[Path | str]) -> list[Source]:
        """The files that can be read, in a fixed order; the others go into the report."""
        files, _ = find(paths)
        given = {str(path) for path in paths}
        sources: list[Source] = []
        logs, dumps = 0, folders(files)
        for path in files:
            try:
                source = look(path)
            except OSError as error:
                if str(path) in given:
                    raise NoSuchInput(f"{path}: {error.strerror or error}; nothing was imported") from error
                self._tally(str(path), "unreadable").broken(0, f"cannot be read: {error.strerror or error}")
                continue
            except CutOff as error:
                self._tally("stdin" if str(path) == STDIN else str(path), "damaged").broken(0, str(error))
                continue
            if source.format is Format.unknown:
                self.report.unknown_files.append(source.name)
            elif source.format is Format.log:
                logs += 1
            elif source.format is Format.empty:
                self.report.note(f"{source.name} is empty")
                self._tally(source.name, str(Format.empty))
            else:
                source.whole_dump = bool(dumps) and any(root in Path(path).parents for root in dumps)
                sources.append(source)
        if logs:
            self.report.note(
                f"passed over: the containers' logs of a cluster-info dump, {logs:,} file{'s' * (logs > 1)}"
            )
        if not sources:
            raise NothingToImport(self._nothing(files))
        return sources

    def _nothing(self, files: Sequence[Path | str]) -> str:
        if not files:
            return "there are no files in what was given"
        if self.report.broken:
            return f"nothing in the input could be read: {self.report.broken[0]}"
        if not self.report.unknown_files:
            return f"{', '.join(str(path) for path in files[:3])}: nothing in it" + (" …" if len(files) > 3 else "")
        some = ", ".join(self.report.unknown_files[:3]) + (" …" if len(self.report.unknown_files) > 3 else "")
        return (
            f"{some}: not a form that import knows (recordings, watch lines, kubectl's JSON or YAML, not its tables, "
            "audit logs, Volcano cache dumps, openb traces, SimKube traces, simulator records, exported events, "
            "cluster-info dumps)"
        )

    def _refuse_hopeless(self) -> None:
        """NothingToImport when not one piece of all the files can be used, not even as one that is whole and unwanted.
        Standard input is not looked through: it cannot be read again."""
        if any(source.is_stdin for source in self._found):
            return
        for source in sorted(self._found, key=lambda one: one.format is Format.dump):
            tally = silent(source.name)
            if any(True for _ in self._items(source, tally, None)) or not tally.report.nothing_read:
                return
            if not tally.report.broken_count:
                return
        for source in self._found:
            for _ in self._items(source, self._tally(source.name, str(source.format)), None):
                pass
        raise NothingToImport(self._nothing([source.path for source in self._found]))

    def _tally(self, name: str, format_: str) -> Tally:
        file = FileReport(name, format_)
        self.report.files.append(file)
        return Tally(self.report, file, self._keep_aside if self.options.broken_file is not None else None)

    def _opened_aside(self, path: Path) -> IO[bytes]:
        try:
            return self._stack.enter_context(open(path, "wb"))
        except OSError as error:
            reason = f"--broken {path}: cannot be written ({error.strerror or error}); nothing was imported"
            raise NoSuchInput(reason) from error

    def _keep_aside(self, broken: Broken, data: bytes) -> None:
        """A line of --broken: where it was, why, and the text, with bytes that are no UTF-8 as \\xNN."""
        assert self._aside is not None
        text = data.decode("utf-8", "backslashreplace")
        line = {"file": broken.file, "line": broken.line, "reason": broken.reason, "text": text}
        self._aside.write(msgspec.json.encode(line) + b"\n")

    # --- what covers what ---------------------------------------------------------------------------------------

    def _cover(self, sources: list[Source]) -> bool:
        """Whether watches and second-hand files come together; then the watches are looked through once before."""
        if not any(source.format in WATCHES for source in sources):
            return False
        if not any(source.format in SECOND_HAND for source in sources):
            return False
        dumps: dict[str, int] = {}
        for source in sources:
            source.spool(self._stack, self.clock)
            if source.format in WATCHES:
                self._look_through(source, dumps)
        for source in sources:
            if source.format is Format.dump:
                source.dump_time = dumps.get(bare_name(source.name))
        return True

    def _look_through(self, source: Source, dumps: dict[str, int]) -> None:
        first: dict[str, int] = {}
        last = 0
        for item in self._items(source, silent(source.name), None):
            last = item.observed_at
            if (kind := kind_of(item)) and kind not in first:
                first[kind] = last
            if type(item) is NewEvent and item.type == "Marker":
                file = msgspec.json.decode(item.payload).get("file") or ""
                dumps.setdefault(bare_name(file), last)
        self.coverage.add(first, last)

    # --- reading ------------------------------------------------------------------------------------------------

    def _items(self, source: Source, tally: Tally, count: Progress | None) -> Iterator[Item]:
        """What is in a source, read in this process."""
        source.forms = yield from items_of(source, self._reading(source), tally, count, self.clock)

    def _reading(self, source: Source) -> Reading:
        options = self.options
        return Reading(
            self.cluster,
            options.storage,
            options.max_line_bytes,
            source.modified(),
            self._fixed(source),
            source.dump_time,
            EPOCH if options.epoch is None else options.epoch,
            source.whole_dump,
        )

    def _fixed(self, source: Source) -> int | None:
        """The moment that was given; for standard input that was kept to be read twice, when it had come in whole."""
        return self.options.observed_at if self.options.observed_at is not None else source.received

    def _merged(self, sources: Sequence[Source], two_passes: bool) -> Iterator[Taken]:
        """The items of all files by time."""
        items = by_time([self._first_pass(source, two_passes) for source in sources])
        if any(source.format is Format.audit for source in sources):
            return Attempts(self.ledger.store, self.cluster).numbered(items)
        return items

    def _first_pass(self, source: Source, two_passes: bool) -> Iterator[Taken]:
        tally = self._tally(source.name, str(source.format))
        if source in self._beside and self._takes_runs(source):
            return self._read_beside(source, tally)
        items = self._items(source, tally, self.progress)
        if source in self._beside:
            items = cast("Iterator[Item]", self._read_beside(source, tally))
        if source.format is Format.dump:
            items = self._without_marker(items, two_passes)
        if source.format in WITHOUT_TIMES:
            items = self.admission.admitted(items)
        return self._ahead(items) if two_passes and source.format in SECOND_HAND else items

    def _takes_runs(self, source: Source) -> bool:
        """Whether nothing needs to look at the items of a source one by one."""
        if source.format is Format.watch:
            return self.admission.start is None
        return source.format is Format.recording

    def _read_beside(self, source: Source, tally: Tally) -> Iterator[Taken]:
        """What is in a source, read in a second process."""
        process, pack = self._beside[source], self._takes_runs(source)
        source.forms = yield from process.items(self._reading(source), tally, self.progress, self.clock(), pack)

    def _without_marker(self, items: Iterator[Item], watched: bool) -> Iterator[Item]:
        """A dump's own marker only where the dump is news: a recording beside or before it has marked the moment."""
        mark = self.ledger.store.high_water(self.cluster)
        for item in items:
            if type(item) is NewEvent and (watched or (mark is not None and item.observed_at <= mark)):
                continue
            yield item

    def _ahead(self, items: Iterator[Item]) -> Iterator[Item]:
        """Of a second-hand file what no watch covers. What comes just after a watch's end is kept as late, so that the
        watch can be imported again when it has grown."""
        for item in items:
            if self._covered(item):
                continue
            if self.coverage.just_ended(item.observed_at):
                event = item.event if type(item) is Sighting else item
                if type(event) is NewEvent:
                    yield event._replace(late=True)
            else:
                yield item

    def _second_pass(self, sources: list[Source], sink: Sink) -> None:
        """Of the second-hand files what a watch covers, as late."""
        for source in sources:
            if source.format not in SECOND_HAND:
                continue
            for item in self._items(source, silent(source.name), None):
                event = item.event if type(item) is Sighting else item
                if type(event) is NewEvent and event.type in OBJECT_TYPES and self._covered(item):
                    sink.late(event)
        sink.finish()

    def _covered(self, item: Item) -> bool:
        """Whether a second-hand item shows an object of a kind that a watch of this call had in view at the time."""
        if type(item) is NewEvent and item.family != "observation":
            return False
        return self.coverage.has(kind_of(item), item.observed_at)


def kind_of(item: Item) -> str:
    """The kind that an item is of; '' for none."""
    if type(item) is NewEvent:
        return item.stream.kind
    if type(item) in (ListItem, Sighting):
        return item.event.stream.kind  # type: ignore[union-attr]
    if isinstance(item, ListBegun | Vanished | Broke):
        return item.kind
    return ""


def import_paths(
    ledger: Ledger,
    paths: Sequence[Path | str],
    *,
    cluster: str = "default",
    options: ImportOptions | None = None,
    progress: Progress | None = None,
    clock: Callable[[], int] = now_micros,
) -> ImportReport:
    """Imports files, folders and standard input ("-") into a cluster of the ledger. `clock` gives microseconds since
    1970: nothing is taken for observed after it.

    Raises NoSuchInput and NothingToImport before anything is stored, and the log's own errors, after which everything
    up to the last whole batch is in the ledger: running it again goes on from there. Broken input is in the report."""
    with Import(cluster, options or ImportOptions(), progress, clock) as job:
        job.look(paths)
        return job.run(ledger)
