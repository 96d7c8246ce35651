"""Upcasters: old payloads brought to today's schema when they are read.

Owns the chain. Must not know any event. Called by `eventstore.store` on request, and by whoever registers upcasters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from eventstore.types import EventStoreError, StoredEvent

Upcast = Callable[[bytes], "tuple[str, int, bytes]"]
"""An old payload to (type, schema, payload). A pure function."""


class UpcasterMissing(EventStoreError):
    """An event has a schema that is older than today's, and no upcaster brings it on."""


class Upcasters:
    """A table of (type, schema) -> upcaster. An event passes through one after another until none is left.

    `current` gives today's schema of each type, where known: an event that ends below it is refused with
    UpcasterMissing rather than handed on in a shape that nobody reads any more.
    """

    def __init__(
        self,
        table: Mapping[tuple[str, int], Upcast] = MappingProxyType({}),
        current: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._table: dict[tuple[str, int], Upcast] = {}
        self._current = dict(current)
        for (type_, from_schema), upcast in table.items():
            self.add(type_, from_schema, upcast)

    def add(self, type_: str, from_schema: int, upcast: Upcast) -> None:
        """Registers one. ValueError when that schema of the type has one already."""
        if (type_, from_schema) in self._table:
            raise ValueError(f"{type_} schema {from_schema} has an upcaster already")
        self._table[type_, from_schema] = upcast

    def payload(self, type_: str, schema: int, payload: bytes) -> tuple[str, int, bytes]:
        """(type, schema, payload) as of today. A chain that comes back to where it was is an error."""
        seen = {(type_, schema)}
        while (upcast := self._table.get((type_, schema))) is not None:
            type_, schema, payload = upcast(payload)
            if (type_, schema) in seen:
                raise EventStoreError(f"the upcasters of {type_} run in a circle at schema {schema}")
            seen.add((type_, schema))
        if schema < self._current.get(type_, schema):
            raise UpcasterMissing(f"no upcaster brings {type_} from schema {schema} to {self._current[type_]}")
        return type_, schema, payload

    def event(self, event: StoredEvent) -> StoredEvent:
        """The event as of today. Its envelope stays as it was stored."""
        type_, schema, payload = self.payload(event.type, event.schema, event.payload)
        if payload is event.payload and schema == event.schema and type_ == event.type:
            return event
        return event._replace(type=type_, schema=schema, payload=payload)
