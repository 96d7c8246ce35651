"""One stream of bytes of any known format to items for the pipeline.

Owns the way from a format to its reader, and that a broken piece is counted and kept aside while its neighbours are
read. Must not know the log. Called by `vcledger.sources.source`.

A file may hold several forms: each JSON value is told by itself. The format only says how the stream is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from vcledger.errors import BadTime
from vcledger.sources import alibaba, cluster_info, dump, simkube, simulator
from vcledger.sources.alibaba_objects import EPOCH
from vcledger.sources.audit import AuditLog, in_order
from vcledger.sources.compress import CutOff
from vcledger.sources.detect import HEAD_BYTES, Format, detect, first_line_is_whole, form_of
from vcledger.sources.framing import Piece, line_batches, values
from vcledger.sources.items import Item, ListBegun, ListItem, Sighting
from vcledger.sources.layouts import REFUSED, of_own_layout, whole_event
from vcledger.sources.moments import MINUTE, Moments, Unsure, at, settled
from vcledger.sources.observe import Observer, Unusable, Unwanted, decoded, hash_key, kind_of_object, shown
from vcledger.sources.packing import Packing
from vcledger.sources.recording import PACKED, Recording
from vcledger.sources.redact import compact
from vcledger.sources.report import Tally
from vcledger.sources.shape import Clock, Shape, is_list, shapes
from vcledger.sources.unnamed import LIST_KIND, named
from vcledger.sources.volcano_dump import NotADump, parse
from vcledger.sources.watchlines import WatchLines
from volcano.objects.kinds import BY_GROUP_KIND, BY_NAME, Kind

DUMP_FACTOR = 16
"""Cache dumps and SimKube traces are read whole: they may be this many times as large as one piece of other formats."""

_LIST_VERSION = re.compile(rb'"apiVersion"\s*:\s*"([^"\\]{1,80})"')
_SCENARIO = frozenset({"ACTION", "API", "CONTROL", "DB"})
_raw_items = msgspec.json.Decoder(list[msgspec.Raw] | None)


class _ListOnly(msgspec.Struct, rename="camel"):
    resource_version: str = ""


_list_meta = msgspec.json.Decoder(_ListOnly)


class Reader:
    """Reads one stream. `name` is what it is called, `dump_time` when a dump in it was taken, if that is known;
    `moments` says when things were observed of which the format does not say it, `epoch` from when a trace counts;
    `whole_dump`: it is a file of a `kubectl cluster-info dump`."""

    def __init__(
        self,
        name: str,
        observer: Observer,
        tally: Tally,
        limit: int,
        moments: Moments,
        dump_time: int | None = None,
        packing: Packing | None = None,
        epoch: int = EPOCH,
        whole_dump: bool = False,
    ) -> None:
        self.name, self.observer, self.tally, self.limit = name, observer, tally, limit
        self.moments, self.dump_time, self.epoch = moments, dump_time, epoch
        self.whole_dump = whole_dump
        self.format = Format.unknown
        self.met: dict[Format, None] = {}
        self._recording = Recording(observer, moments.clock, packing)
        self._watch = WatchLines(observer, moments)
        self._audit = AuditLog(observer)
        self._simulator = simulator.Records(observer, moments)

    def open(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Looks at the beginning and sets `format`; returns all of the chunks again."""
        head: list[bytes] = []
        size = 0
        try:
            for chunk in chunks:
                head.append(chunk)
                size += len(chunk)
                if size >= HEAD_BYTES:
                    break
        except CutOff as error:
            chunks = _failing(error)
        beginning = b"".join(head)[: HEAD_BYTES * 4]
        self.format = detect(beginning)
        self._by_lines = first_line_is_whole(beginning)
        self.tally.file.format = str(self.format)
        return chain(head, chunks)

    def items(self, chunks: Iterator[bytes]) -> Iterator[Item]:
        """What is in the stream that `open` gave back, times never going back. A stream that is cut off gives what came
        before. At the end the tally's file says of which forms the values were, and notes which times were odd."""
        yield from self._items(chunks)
        if self.met or self.whole_dump:
            self.tally.file.format = ", ".join(format_ for format_ in Format if format_ in self.forms())
        for note in (self.moments.note(self.name), self.moments.clock.note(self.name)):
            if note is not None:
                self.tally.report.note(note)

    def forms(self) -> list[Format]:
        """The forms that were met, once the items are all read; before that, or when there were none, the format."""
        found = list(self.met) or [self.format]
        if not self.whole_dump:
            return found
        plain = (Format.objects, Format.yaml)
        return list(dict.fromkeys(Format.cluster_info if form in plain else form for form in found))

    def _items(self, chunks: Iterator[bytes]) -> Iterator[Item]:
        match self.format:
            case Format.recording:
                self.met[Format.recording] = None
                return self._settled(self._lines(chunks, True))
            case Format.watch | Format.simulator | Format.exported if self._by_lines:
                return self._settled(self._lines(chunks, False))
            case Format.audit if self._by_lines:
                return self._clocked(in_order(self._settled(self._lines(chunks, False))))
            case Format.objects | Format.watch | Format.audit | Format.simulator | Format.exported:
                found = self._values(values(self._without_logs(chunks), self.limit, self._complain))
                return self._clocked(in_order(self._settled(found)))
            case Format.snapshot:
                limit = self.limit * DUMP_FACTOR
                return self._settled(self._values(values(chunks, limit, self._complain)))
            case Format.yaml:
                return self._settled(self._values(self._yaml(self._without_logs(chunks))))
            case Format.dump:
                self.met[Format.dump] = None
                return self._settled(self._dump(chunks))
            case Format.simkube:
                self.met[Format.simkube] = None
                return self._settled(self._simkube(chunks))
            case Format.openb_nodes | Format.openb_pods:
                self.met[self.format] = None
                read = alibaba.nodes if self.format is Format.openb_nodes else alibaba.pods
                return self._settled(read(chunks, self.observer, self.tally, self.limit, self.epoch))
            case _:
                return iter(())

    # --- cutting ------------------------------------------------------------------------------------------------

    def _without_logs(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The stream without the logs of a cluster-info dump, if it is one."""
        return cluster_info.without_logs(chunks, self._meet_logs)

    def _meet_logs(self) -> None:
        self.whole_dump = True
        self.tally.ignored("the log of a container")

    def _complain(self, line: int, reason: str, data: bytes) -> None:
        self.tally.read()
        self.tally.broken(line, reason, data)

    def _settled(self, items: Iterator[Item | Unsure]) -> Iterator[Item]:
        return settled(self._guarded(items), self.moments)

    def _guarded(self, items: Iterator[Item | Unsure]) -> Iterator[Item | Unsure]:
        """A stream that fails is told where, and gives what came before."""
        try:
            yield from items
        except CutOff as error:
            self.tally.broken(0, f"{error}; {self.tally.file.read:,} lines or objects were read before that")
        except OSError as error:
            self.tally.broken(0, f"cannot be read further: {error.strerror or error}")

    def _clocked(self, items: Iterator[Item]) -> Iterator[Item]:
        """Times of the file never go back: what is left out of order takes the time of what is before it. (An
        audited request came in a while before its line was written.)"""
        clock = Clock()
        for item in items:
            time = clock.said(item.observed_at, MINUTE)
            yield item if time == item.observed_at else at(item, time)
        if (note := clock.note(self.name, "event")) is not None:
            self.tally.report.note(note)

    def _lines(self, chunks: Iterator[bytes], recording: bool) -> Iterator[Item | Unsure]:
        """JSON lines. A recording's usual lines take a short way."""
        fast, tally = self._recording.fast, self.tally
        for number, lines in line_batches(chunks, self.limit, self._complain):
            before = len(lines)
            for offset, line in enumerate(lines):
                if recording:
                    try:
                        item = fast(line)
                        if item is not None:
                            if item is not PACKED:
                                yield item
                            continue
                    except (Unusable, Unwanted, BadTime):
                        pass  # the long way finds out again, and says so
                if not line or line.isspace():
                    before -= 1
                    continue
                yield from self._told(number + offset, line)
            tally.read(before)

    def _values(self, pieces: Iterable[Piece]) -> Iterator[Item | Unsure]:
        for piece in named(pieces, self.limit * DUMP_FACTOR):
            if piece.item:
                self.tally.read()
                yield from self._told(piece.line, piece.data, piece.head or b"[")
            elif not self._is_emptied_list(piece.data):
                self.tally.read()
                yield from self._told(piece.line, piece.data)

    def _yaml(self, chunks: Iterator[bytes]) -> Iterator[Piece]:
        """The pieces of a YAML stream as JSON."""
        from vcledger.sources import yamldocs  # its library takes a while to load, and few files are YAML

        for piece in yamldocs.pieces(chunks, self.limit, self._complain):
            try:
                data = yamldocs.to_json(piece.data, self.limit)
                head = yamldocs.to_json(piece.head, self.limit) if piece.head else b""
            except Unusable as error:
                self._complain(piece.line, str(error), piece.data)
                continue
            if data != b"null":
                yield Piece(piece.line, data, piece.item, head)

    def _dump(self, chunks: Iterator[bytes]) -> Iterator[Item | Unsure]:
        """A whole dump, or one line that says why it cannot be read."""
        data = self._whole(chunks, "a dump")
        if data is None:
            return
        try:
            parsed = parse(data, self.name)
        except (NotADump, RecursionError) as error:
            self._complain(0, str(error), b"")
            return
        moment = self.dump_time if self.dump_time is not None else dump.time_in_name(self.name)
        time = 0
        for event in dump.observations(parsed, self.observer, self.tally, moment):
            time = event.observed_at if moment is not None else self.moments.dump(event.observed_at)
            yield Sighting(time, event._replace(observed_at=time))
        if time:
            yield dump.marker(self.observer.cluster, self.name, time, data)

    def _simkube(self, chunks: Iterator[bytes]) -> Iterator[Item | Unsure]:
        """A whole SimKube trace, or one line that says why it cannot be read."""
        data = self._whole(chunks, "a SimKube trace")
        if data is None:
            return
        try:
            yield from simkube.items(data, self.observer, self.tally)
        except simkube.NotATrace as error:
            self._complain(0, str(error), b"")

    def _whole(self, chunks: Iterator[bytes], what: str) -> bytes | None:
        """All of a stream that is of no use in part; None, which is told, when it is too large."""
        parts, size, limit = [], 0, self.limit * DUMP_FACTOR
        for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                self._complain(0, f"{what} of more than {limit:,} bytes: raise --max-line-size", b"")
                return None
        return b"".join(parts)

    # --- one value ----------------------------------------------------------------------------------------------

    def _told(self, line: int, data: bytes, head: bytes = b"") -> Iterator[Item | Unsure]:
        """The items of one JSON value; a broken one is counted, an unwanted one too, each with its reason."""
        self.moments.clock.line = line
        try:
            yield from self._value(data, head)
        except Unwanted as error:
            self.tally.ignored(str(error))
        except Unusable as error:
            self.tally.broken(line, str(error), data)

    def _value(self, data: bytes, head: bytes) -> Iterator[Item | Unsure]:
        shape = decoded(shapes, data)
        form = form_of(shape)
        if form is Format.recording:
            self._meet(form)
            yield from self._recording.line(shape, data)
        elif form is Format.watch:
            self._meet(form)
            yield from self._watch_line(shape, data)
        elif form is Format.audit:
            self._meet(form)
            yield from self._audit.event(data)
        elif is_list(shape):
            yield from self._list(shape, data)
        elif form is Format.simulator:
            self._meet(form)
            yield from self._simulator.line(data)
        elif form is Format.snapshot:
            self._meet(form)
            yield from self._snapshot(data)
        elif form is Format.exported and not LIST_KIND.search(head):
            self._meet(form)
            yield self._exported(data)
        elif self.format is Format.exported and form is None and shape.level is not None:
            raise Unwanted("a line of the event exporter's own log")
        elif form is None and not LIST_KIND.search(head) and (event := whole_event(data)) is not None:
            self._meet(Format.exported)
            yield self._exported(event)
        else:
            if form is None and not LIST_KIND.search(head) and of_own_layout(data):
                raise Unusable(REFUSED)
            yield self._object(shape, data, head)

    def _meet(self, form: Format) -> None:
        """Remembers that a value of this form was met. The objects of a YAML file are YAML objects."""
        if form is Format.objects and self.format is Format.yaml:
            form = Format.yaml
        if form is not Format.recording:
            self._recording.packing = None  # its items may be held back (`settled`): others must not get ahead of them
        self.met[form] = None

    def _watch_line(self, shape: Shape, data: bytes) -> Iterator[Item | Unsure]:
        if shape.type == "LIST":
            yield from self._whole_list(bytes(shape.object), data)
        elif shape.type in _SCENARIO:
            raise Unwanted(f"a scenario's {shape.type} line")
        else:
            if b"\n" in data:
                shape.object = msgspec.Raw(compact(bytes(shape.object)))
            yield from self._watch.line(shape, data)

    def _object(self, shape: Shape, data: bytes, head: bytes) -> Item | Unsure:
        """An object by itself, which may be a line of `kubectl get -w`, or an item of a list, which may lack its kind.
        The last one of a file is what was written last."""
        if b"\n" in data:
            data = compact(data)
        kind = kind_of_object(data) if shape.kind and shape.api_version else self._kind_of_item(shape, head)
        self._meet(Format.objects)
        part = self.observer.read(kind, data)
        time = self.moments.state(part) if head else self.moments.change(part, data)[0]
        sighting = Sighting(time, self.observer.event(kind, "MODIFIED", part, data, time))
        return sighting if head or not self.moments.between else Unsure(time, sighting)

    def _exported(self, data: bytes) -> Item | Unsure:
        """An Event as the event exporter writes it: without kind, with labels and annotations of what it is about."""
        if b"\n" in data:
            data = compact(data)
        kind = BY_NAME["Event"]
        part = self.observer.read(kind, data)
        time, newer = self.moments.change(part, data)
        sighting = Sighting(time, self.observer.event(kind, "MODIFIED", part, data, time))
        return sighting if newer or not self.moments.between else Unsure(time, sighting)

    def _snapshot(self, data: bytes) -> Iterator[Item]:
        """All lists of a simulator's snapshot; what is broken in it is told with its line."""
        problem: Unusable | None = None
        for item in simulator.snapshot(data, self.observer, self.moments):
            if isinstance(item, Unusable):
                problem = item
            else:
                yield item
        if problem is not None:
            raise problem

    def _kind_of_item(self, shape: Shape, head: bytes) -> Kind:
        """From the beginning of the list, where the API server writes its kind."""
        found, version = LIST_KIND.search(head), _LIST_VERSION.search(head)
        if found is None or version is None:
            missing = "kind" if not shape.kind else "apiVersion"
            raise Unusable(
                f"neither a watch line, a recording's line, an audit event nor an object: it has no {missing}"
            )
        return self._known_kind(version[1].decode("utf-8", "replace"), found[1].decode("utf-8", "replace"))

    def _known_kind(self, api_version: str, name: str) -> Kind:
        kind = BY_GROUP_KIND.get((api_version.rpartition("/")[0], name))
        if kind is None:
            raise Unwanted(f"kind {shown(name)} of {shown(api_version)}")
        return kind

    def _list(self, shape: Shape, data: bytes) -> Iterator[Item | Unsure]:
        """A list on one line among other lines. What is broken in it is told with the list's line."""
        head = data[: data.find(b'"items"')]
        if shape.kind and f'"kind":"{shape.kind}"'.encode() not in head.replace(b" ", b""):
            head = f'{{"kind":"{shape.kind}","apiVersion":"{shape.api_version}",'.encode()
        problem: Unusable | None = None
        items = (decoded(_raw_items, shape.items) or []) if bytes(shape.items) else []
        self.tally.read(len(items) - 1)
        for raw in items:
            try:
                yield from self._value(bytes(raw), head)
            except Unwanted as error:
                self.tally.ignored(str(error))
            except Unusable as error:
                problem = error
        if problem is not None:
            raise problem

    def _whole_list(self, body: bytes, line: bytes) -> Iterator[Item]:
        """A LIST line: the answer to a list of a whole kind, so what is missing in it is gone."""
        shape = decoded(shapes, body)
        if not is_list(shape):
            raise Unusable("a LIST line whose object is no list")
        kind = self._known_kind(shape.api_version or "", (shape.kind or "").removesuffix("List"))
        items = [bytes(raw) for raw in (decoded(_raw_items, shape.items) or () if bytes(shape.items) else ())]
        parts = [(self.observer.read(kind, item), item) for item in items]
        version = decoded(_list_meta, shape.metadata).resource_version if bytes(shape.metadata) else ""
        time = self.moments.together([part for part, _ in parts])
        key = hash_key(line.strip(), self._watch.place())
        events = [self.observer.event(kind, "ADDED", part, item, time) for part, item in parts]
        yield ListBegun(time, kind.name, kind.full_resource, version, len(events), False, key)
        for event in events:
            yield ListItem(time, event)

    def _is_emptied_list(self, data: bytes) -> bool:
        """A list's own text, after its items have been given out."""
        try:
            shape = shapes.decode(data)
            return is_list(shape) and bytes(shape.items).strip(b"[] \t\r\n") in (b"", b"null")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False


def _failing(error: CutOff) -> Iterator[bytes]:
    """An iterator that raises the error when it is asked."""
    yield from ()
    raise error
