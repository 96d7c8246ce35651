"""Observations made ready in bulk: columns instead of an object for each event, payloads in their short form.

Owns that form, and the packing, which needs no ledger and can be done in another process than the append. Must not know
tables, positions nor dictionaries. Called by importers, which pack, and by `eventstore.append`.

A run of events is stored exactly as the same events would be one by one. What is in one is all of a cluster's, seen by
a watch: each has a resource version, none is late by itself, none has a cause or a cycle, and times never go back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pickle import PickleBuffer
from typing import Any, NamedTuple, final

from eventstore.codec import Known, lengthen, shorten
from eventstore.types import KEYED, NewEvent, StreamId

STREAMS_MAX = 100_000
"""Streams that a packer numbers before it begins anew."""


class Form(NamedTuple):
    """What many events of a run have in common."""

    type: str
    family: str
    schema: int
    known: int
    gone: bool


@final
class Run:
    """Some events in order, as columns. `stream` and `form` are places in the tables `streams` and `forms`; `size` is
    the length of the payload as it was handed in; `shorts` are the payloads' short forms, end to end, each `length`
    long; `about` is None when no event speaks of another object."""

    __slots__ = ("about", "form", "forms", "length", "observed", "revision", "shorts", "size", "stream", "streams")

    def __init__(
        self,
        streams: Sequence[StreamId],
        forms: Sequence[Form],
        stream: array[int],
        form: bytes,
        observed: array[int],
        revision: array[int],
        size: array[int],
        length: array[int],
        shorts: bytes | memoryview,
        about: Sequence[str] | None,
    ) -> None:
        self.streams, self.forms, self.stream, self.form = streams, forms, stream, form
        self.observed, self.revision, self.size, self.length = observed, revision, size, length
        self.shorts, self.about = shorts, about

    def __len__(self) -> int:
        return len(self.stream)

    @property
    def observed_at(self) -> int:
        """When its first event was observed."""
        return self.observed[0]

    @property
    def cluster(self) -> str:
        return self.streams[self.stream[0]].cluster

    def payloads(self) -> list[bytes]:
        """The short forms, one by one."""
        ends = list(accumulate(self.length))
        whole = bytes(self.shorts)
        return [whole[end - length : end] for end, length in zip(ends, self.length, strict=True)]

    def part(self, first: int, end: int) -> Run:
        """The events from place `first` up to `end`, the latter left out."""
        start = sum(self.length[:first])
        length = self.length[first:end]
        return Run(
            self.streams,
            self.forms,
            self.stream[first:end],
            self.form[first:end],
            self.observed[first:end],
            self.revision[first:end],
            self.size[first:end],
            length,
            memoryview(self.shorts)[start : start + sum(length)],
            self.about[first:end] if self.about is not None else None,
        )

    def before(self, time: int, also: bool) -> int:
        """How many of its events were observed before a time, or, with `also`, at it."""
        return bisect_right(self.observed, time) if also else bisect_left(self.observed, time)

    def not_before(self, time: int) -> Run:
        """The same events, those that were observed before a time moved to it."""
        early = self.before(time, False)
        if not early:
            return self
        moved = array("q", [time]) * early + self.observed[early:]
        return Run(
            self.streams, self.forms, self.stream, self.form, moved, self.revision, self.size, self.length, self.shorts,
            self.about,
        )  # fmt: skip

    def last_places(self) -> dict[str, int]:
        """The place of the last event of each kind."""
        streams = self.streams
        return {streams[number].kind: place for place, number in enumerate(self.stream)}

    def event(self, place: int) -> NewEvent:
        """One of its events."""
        return next(iter(self.part(place, place + 1).events()))

    def events(self) -> Iterator[NewEvent]:
        """Its events one by one."""
        for place, short in enumerate(self.payloads()):
            stream, form, revision = (
                self.streams[self.stream[place]],
                self.forms[self.form[place]],
                self.revision[place],
            )
            known = Known(stream.uid.encode(), stream.name.encode())
            about = self.about[place] if self.about is not None else ""
            yield NewEvent(
                stream, form.type, form.family, self.observed[place], lengthen(short, known, revision), form.schema,
                form.known, revision, form.gone, False, about,
            )  # fmt: skip


Packed = tuple[
    bool, list[StreamId], list[Form], bytes, bytes, bytes, bytes, bytes, bytes, Any, list[str] | None
]  # fmt: skip
"""A run on its way to another process: whether the tables begin anew, what comes into them, and the columns. The
payloads are a buffer that pickle can leave out of its stream (protocol 5)."""


class Packer:
    """Makes runs of one cluster's events, for one receiver."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._numbers: dict[StreamId, int] = {}
        self._known: list[Known] = []
        self._forms: dict[tuple[str, str, int, int, bool], int] = {}
        self.fresh = True
        self._begin()

    def _begin(self) -> None:
        self._new_streams: list[StreamId] = []
        self._new_forms: list[Form] = []
        self._stream: list[int] = []
        self._form: list[int] = []
        self._observed: list[int] = []
        self._revision: list[int] = []
        self._size: list[int] = []
        self._shorts: list[bytes] = []
        self._about: dict[int, str] = {}
        self._last = -(2**63)
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._stream)

    def add(self, event: NewEvent) -> bool:
        """Puts an event into the run at hand; False when it is none for a run, or not for this one."""
        stream, type_, family, time, payload, schema, known, revision, gone, late, about, cause, cycle = event
        if revision is None or revision >= KEYED or late or cause is not None or cycle is not None or time < self._last:
            return False
        number = self._numbers.get(stream)
        if number is None:
            number = self._numbered(stream)
            if number is None:
                return False
        short = shorten(payload, self._known[number], revision)
        form = self._forms.get((type_, family, schema, known, gone))
        if form is None:
            form = self.form(Form(type_, family, schema, known, gone))
        if not short or not self.put(number, form, time, revision, len(payload), short):
            return False
        if about:
            self._about[len(self._stream) - 1] = about
        return True

    def put(self, number: int, form: int, time: int, revision: int, size: int, short: bytes) -> bool:
        """Puts an observation into the run at hand, by the places of its stream and form; False when it is not for this
        one. `revision` is below KEYED, `short` is not empty."""
        if time < self._last or form > 255:
            return False
        self._last = time
        self._stream.append(number)
        self._form.append(form)
        self._observed.append(time)
        self._revision.append(revision)
        self._size.append(size)
        self._shorts.append(short)
        self.bytes += len(short)
        return True

    def number(self, stream: StreamId) -> int | None:
        """A stream's place in the table; None when it is another cluster's, or cannot be kept."""
        found = self._numbers.get(stream)
        return self._numbered(stream) if found is None else found

    def known(self, number: int) -> Known:
        """What is left out of the payloads of the stream at a place."""
        return self._known[number]

    def _numbered(self, stream: StreamId) -> int | None:
        try:
            known = Known(stream.uid.encode(), stream.name.encode())
        except UnicodeEncodeError:
            return None
        if stream.cluster != self._cluster:
            return None
        number = self._numbers[stream] = len(self._known)
        self._known.append(known)
        self._new_streams.append(stream)
        return number

    def form(self, form: Form) -> int:
        """A form's place in the table."""
        found = self._forms.get(form)
        if found is not None:
            return found
        number = self._forms[form] = len(self._forms)
        self._new_forms.append(form)
        return number

    def take(self) -> Packed | None:
        """The run at hand, and begins the next; None when there is nothing in it and nothing to be told."""
        if not self._stream:
            return None
        lengths = list(map(len, self._shorts))
        about = [self._about.get(place, "") for place in range(len(self._stream))] if self._about else None
        packed = (
            self.fresh,
            self._new_streams,
            self._new_forms,
            array("q", self._stream).tobytes(),
            bytes(self._form),
            array("q", self._observed).tobytes(),
            array("q", self._revision).tobytes(),
            array("q", self._size).tobytes(),
            array("q", lengths).tobytes(),
            PickleBuffer(b"".join(self._shorts)),
            about,
        )
        self._begin()
        self.fresh = False
        # From here on numbers that were given out mean nothing: `fresh` says so.
        if len(self._known) >= STREAMS_MAX:
            self._numbers, self._known, self._forms, self.fresh = {}, [], {}, True
        return packed


class Unpacker:
    """Takes what one packer has made, in its order."""

    def __init__(self) -> None:
        self._streams: list[StreamId] = []
        self._forms: list[Form] = []

    def run(self, packed: Packed) -> Run:
        fresh, streams, forms, stream, form, observed, revision, size, length, shorts, about = packed
        if fresh:
            self._streams, self._forms = [], []
        self._streams += streams
        self._forms += forms
        return Run(
            self._streams,
            self._forms,
            _numbers(stream),
            form,
            _numbers(observed),
            _numbers(revision),
            _numbers(size),
            _numbers(length),
            bytes(shorts),
            about,
        )


def _numbers(data: bytes) -> array[int]:
    found = array("q")
    found.frombytes(data)
    return found


def one_by_one(batch: Sequence[NewEvent | Run]) -> list[NewEvent]:
    """A batch without runs."""
    found: list[NewEvent] = []
    for one in batch:
        if type(one) is Run:
            found += one.events()
        else:
            found.append(one)
    return found
