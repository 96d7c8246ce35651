"""Events of the event exporter in a layout that somebody configured for it.

Owns telling them, and finding the whole Event where the layout carries it along. Must not know files nor the log.
Called by `vcledger.sources.detect` and `reader`.

A receiver's `layout` is a map of templates: its lines hold what somebody chose to write. With `{{ toJson . }}` for one
of the values the Event is in it whole, as a string; without, its uid, version and times are lost and it is no
observation. Source: kubernetes-event-exporter, pkg/sinks (convertLayoutTemplate) and its README.
"""

from __future__ import annotations

from typing import Any

import msgspec

WHOLE = frozenset({"metadata", "involvedObject"})
OF_AN_EVENT = frozenset({"reason", "message"})
OF_ITS_OBJECT = frozenset({"kind", "namespace", "involvedobject"})
REFUSED = (
    "an Event in a layout of somebody's own, without its uid and times: it can be read when the exporter's receiver "
    "has no layout, or one with the whole Event ({{ toJson . }})"
)

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def whole_event(data: bytes) -> bytes | None:
    """The Event that a value of no other form carries along whole, as JSON; None when it has none."""
    value = _dict(data)
    for part in value.values():
        found = part if isinstance(part, dict) else _dict(part) if isinstance(part, str) and part[:1] == "{" else {}
        if found.keys() >= WHOLE:
            return _encode(found)
    return None


def of_own_layout(data: bytes) -> bool:
    """Whether a value of no other form has an Event's fields, in it or one level down."""
    value = _dict(data)
    return any(isinstance(part, dict) and _speaks_of_an_event(part) for part in (value, *value.values()))


def _speaks_of_an_event(part: dict[str, Any]) -> bool:
    names = {name.lower() for name in part}
    return names >= OF_AN_EVENT and not names.isdisjoint(OF_ITS_OBJECT)


def _dict(data: bytes | str) -> dict[str, Any]:
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


__all__ = ["REFUSED", "of_own_layout", "whole_event"]
