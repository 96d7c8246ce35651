"""One full and one bare example of every event, made from the structs' own types.

Owns the examples. Must not know any event by name: what is added to the catalog is covered at once. Called by the tests
of the vocabulary.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcano.events.base import DomainEvent
from volcano.events.catalog import EventType

info = msgspec.inspect


def _scalar(hint: Any, name: str) -> Any:
    if isinstance(hint, info.StrType):
        return f"{name} ü"
    if isinstance(hint, info.IntType):
        return 1 + len(name)
    if isinstance(hint, info.FloatType):
        return len(name) + 0.25
    if isinstance(hint, info.BoolType):
        return True
    if isinstance(hint, info.LiteralType):
        return hint.values[0]
    raise AssertionError(f"no example for {hint} of {name}")


def value_of(hint: Any, name: str) -> Any:
    """Some value of that type which is not the field's default."""
    if isinstance(hint, info.UnionType):
        return value_of(next(part for part in hint.types if not isinstance(part, info.NoneType)), name)
    if isinstance(hint, info.VarTupleType):
        return (value_of(hint.item_type, name), value_of(hint.item_type, name + "2"))
    if isinstance(hint, info.DictType):
        return {"cpu": value_of(hint.value_type, name), "nvidia.com/gpu": value_of(hint.value_type, name + "2")}
    if isinstance(hint, info.StructType):
        return hint.cls(**{field.name: value_of(field.type, field.name) for field in hint.fields})
    return _scalar(hint, name)


def _fields(event: EventType) -> tuple[Any, ...]:
    found = info.type_info(event.struct)
    assert isinstance(found, info.StructType)
    return found.fields


def full(event: EventType) -> DomainEvent:
    """Every field set to something else than its default."""
    return event.struct(**{field.name: value_of(field.type, field.name) for field in _fields(event)})


def bare(event: EventType) -> DomainEvent:
    """Only the fields that have no default."""
    return event.struct(**{field.name: value_of(field.type, field.name) for field in _fields(event) if field.required})
