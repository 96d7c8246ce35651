"""What people are told while a recorder runs: a line for what has become durable and is worth one.

Owns the wording, and what is worth a line. Must not know threads nor terminals. Called by `vcledger.record.recorder`.
"""

from __future__ import annotations

from collections.abc import Callable

from eventstore.types import NewEvent
from vcledger.at import format_time
from vcledger.record.feed import REFUSED
from volcano.events import catalog
from volcano.events.base import DomainEvent
from volcano.events.observation import (
    GapRecorded,
    ListCompleted,
    Marker,
    WatchExpired,
    WatchFailed,
    WatchStarted,
)
from volcano.objects.kinds import BY_NAME

TOLD = frozenset({"ListCompleted", "WatchStarted", "WatchExpired", "WatchFailed", "GapRecorded", "Marker"})


class Telling:
    """Turns durable events into lines. A watch that opens is told after a failure, and at the start."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._quiet: set[tuple[str, str]] = set()

    def durable(self, event: NewEvent, position: int) -> None:
        """An event that the ledger has now, at a position."""
        if event.type not in TOLD:
            return
        kind, namespace = event.stream.kind, event.stream.namespace
        text = self._text((kind, namespace), catalog.decode(event.type, event.schema, kind, event.payload))
        if text:
            where = (
                f"{BY_NAME[kind].full_resource}{' in ' + namespace if namespace else ''}: " if kind in BY_NAME else ""
            )
            self._say(f"{format_time(event.observed_at)} {where}{text} (position {position})")

    def trouble(self, problem: str) -> None:
        """The ledger refuses, or works again."""
        self._say(f"the ledger refuses: {problem}; trying on" if problem else "the ledger works again")

    def _text(self, scope: tuple[str, str], event: DomainEvent) -> str:
        if isinstance(event, WatchStarted):
            if scope in self._quiet:
                return ""
            self._quiet.add(scope)
            return f"watching from version {event.resource_version}"
        if isinstance(event, ListCompleted):
            return (
                f"{'listed again' if event.relist else 'listed'}, {event.items:,} at version {event.resource_version}"
            )
        if isinstance(event, GapRecorded):
            return gap(event)
        if isinstance(event, WatchExpired):
            self._quiet.discard(scope)
            return f"version {event.resource_version} has expired: {event.message}"
        if isinstance(event, WatchFailed):
            self._quiet.discard(scope)
            return f"failed{f' ({event.code})' if event.code else ''}: {event.message}"
        if isinstance(event, Marker) and event.name == REFUSED:
            return f"could not be used: {event.label}"
        return ""


def gap(event: GapRecorded) -> str:
    """`gap 13:51:39 to 13:51:59: 1 new, 2 changed, 0 gone (reason)`"""
    since = format_time(event.from_time) if event.from_time is not None else "the beginning"
    until = format_time(event.to_time) if event.to_time is not None else "now"
    if not event.to_resource_version:
        return f"gap from {since} to {until}: {event.reason}"
    found = f"{event.added} new, {event.modified} changed, {event.deleted} gone"
    return f"gap from {since} to {until}: {found} ({event.reason})"
