"""What a reader finds, made into the parts of messages for the process that appends.

Owns the choice of what travels in a run, and the short way of a pod's observation from its bytes into one. Must not
know files, formats nor the log. Called by `vcledger.sources.beside` and, for the short way, by
`vcledger.sources.recording`.

Nearly all that a long record holds are observations of pods. Of those no event is made here: what is stored of the
object is cut, shortened and put into the columns in one go. The outcome is that of the long way, which takes the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventstore.codec import Known, shorten_json
from eventstore.runs import Form, Packed, Packer
from eventstore.types import RECORDED, NewEvent
from vcledger.sources.items import Item
from vcledger.sources.moments import payload_size
from vcledger.sources.observe import TYPES, Observer
from volcano.objects.kinds import Kind

EVENTS, BYTES = 1_000, 4 << 20
"""Events, and bytes of their payloads, after which a message is due."""

DIGITS_MAX = 17
"""Digits of a resourceVersion that is surely its own number in the log."""

Parts = list[Packed | list[Item]]


class Packing:
    """The events of a message in the making; `send` is called with the parts of each that is long enough."""

    def __init__(self, cluster: str, pack: bool, send: Callable[[Parts], None]) -> None:
        self._packer, self._pack, self._send = Packer(cluster), pack, send
        self._forms: dict[str, int] = {}
        self._pods: dict[str, tuple[str, str, int, Known]] = {}
        self._begin()

    def _begin(self) -> None:
        self._parts: Parts = []
        self._items: list[Item] = []
        self._events = self._bytes = 0

    def add(self, item: Item) -> None:
        """One more."""
        if not self._pack or type(item) is not NewEvent or not self._packed(item):
            self._end_run()
            self._items.append(item)
            self._events += 1
            self._bytes += payload_size(item)
        self._end_message()

    def observed(self, observer: Observer, kind: Kind, change: str, part: Any, data: bytes, time: int) -> bool:
        """Takes what `Observer.event` would be called with; False when it has to be. Raises as that does."""
        if kind.name != "Pod" or not self._pack:
            return False
        meta = part.metadata
        text = meta.resource_version
        if not text or len(text) > DIGITS_MAX or not text.isdigit() or not text.isascii() or text[0] == "0":
            return False
        pieces = observer.clean.pieces_of_pod(part, data)
        if pieces is None:
            return False
        found = self._pods.get(meta.uid)
        if found is None or found[0] != meta.name or found[1] != meta.namespace:
            found = self._pod(observer, kind, meta)
            if found is None:
                return False
        version = int(text)
        short = shorten_json(pieces, found[3], version)
        form = self._forms.get(change)
        if form is None:
            form = self._forms[change] = self._packer.form(
                Form(TYPES[change], "observation", 1, RECORDED, change == "DELETED")
            )
        if not short:
            return False
        if self._items:
            self._parts.append(self._items)
            self._items = []
        packer = self._packer
        if not packer.put(found[2], form, time, version, sum(map(len, pieces)), short):
            return False
        if self._events + len(packer) >= EVENTS or self._bytes + packer.bytes >= BYTES:
            self.flush()
        return True

    def _pod(self, observer: Observer, kind: Kind, meta: Any) -> tuple[str, str, int, Known] | None:
        """Name, namespace, place in the run's table, and what the short form leaves out, of a pod that is new here."""
        number = self._packer.number(observer.stream(kind, meta))
        if number is None:
            return None
        found = self._pods[meta.uid] = meta.name, meta.namespace, number, self._packer.known(number)
        return found

    def _packed(self, event: NewEvent) -> bool:
        """Puts an event into the run at hand, or into a new one; False when it is for none."""
        if self._items:
            self._parts.append(self._items)
            self._items = []
        if self._packer.add(event):
            return True
        self._end_run()
        return self._packer.add(event)

    def _end_run(self) -> None:
        count, size = len(self._packer), self._packer.bytes
        packed = self._packer.take()
        if packed is not None:
            self._parts.append(packed)
            self._events += count
            self._bytes += size
            if self._packer.fresh:
                self._forms, self._pods = {}, {}

    def _end_message(self) -> None:
        if self._events + len(self._packer) >= EVENTS or self._bytes + self._packer.bytes >= BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends what there is, be it nothing, and begins the next message."""
        self._end_run()
        if self._items:
            self._parts.append(self._items)
        parts = self._parts
        self._begin()
        self._send(parts)
