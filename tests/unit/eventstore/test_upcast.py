"""Upcasters: chains, renames, gaps, circles."""

from __future__ import annotations

import pytest

from eventstore.types import EventStoreError
from eventstore.upcast import UpcasterMissing, Upcasters


def test_an_old_payload_passes_through_each_step() -> None:
    upcasters = Upcasters()
    upcasters.add("Bound", 1, lambda payload: ("Bound", 2, payload + b"2"))
    upcasters.add("Bound", 2, lambda payload: ("BindSucceeded", 1, payload + b"!"))
    upcasters.add("BindSucceeded", 1, lambda payload: ("BindSucceeded", 2, payload + b"?"))
    assert upcasters.payload("Bound", 1, b"x") == ("BindSucceeded", 2, b"x2!?")
    assert upcasters.payload("BindSucceeded", 2, b"x") == ("BindSucceeded", 2, b"x")
    assert upcasters.payload("Other", 1, b"x") == ("Other", 1, b"x")


def test_a_step_that_is_missing_is_told() -> None:
    upcasters = Upcasters({("A", 1): lambda payload: ("A", 2, payload)}, current={"A": 3})
    with pytest.raises(UpcasterMissing, match="A from schema 2 to 3"):
        upcasters.payload("A", 1, b"")
    assert upcasters.payload("A", 3, b"") == ("A", 3, b"")


def test_a_circle_is_told() -> None:
    upcasters = Upcasters({("A", 1): lambda p: ("B", 1, p), ("B", 1): lambda p: ("A", 1, p)})
    with pytest.raises(EventStoreError, match="circle"):
        upcasters.payload("A", 1, b"")


def test_two_for_one_schema_are_refused() -> None:
    upcasters = Upcasters({("A", 1): lambda payload: ("A", 2, payload)})
    with pytest.raises(ValueError, match="already"):
        upcasters.add("A", 1, lambda payload: ("A", 2, payload))
