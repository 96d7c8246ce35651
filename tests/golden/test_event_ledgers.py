"""Ledgers that were written on the day their events landed say today what they said then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.data import GOLDEN
from tests.golden.events.make import contents
from volcano.events.catalog import CATALOG

EVENTS = GOLDEN / "events"
KEPT = sorted(path.stem for path in EVENTS.glob("*.db"))

NOT_KEPT = (
    *("BindErrorHandlerCalled", "BindErrorHandlerSet", "Bookmark", "JobCleanupDropped", "JobCleanupQueued"),
    *(
        "JobCleanupRetried",
        "JobDeleted",
        "ListStarted",
        "Marker",
        "NodeSyncFailed",
        "QueueCreateFailed",
        "ResyncFailed",
    ),
)
"""Events that had landed before and that a simulated world of a few steps does not come to."""


def lacking(said: Any, says: Any, where: str = "") -> list[str]:
    """What was said and is not any more; what has come since is none of it."""
    if isinstance(said, dict) and isinstance(says, dict):
        return [line for key, one in said.items() for line in lacking(one, says.get(key), f"{where}.{key}")]
    if isinstance(said, list) and isinstance(says, list) and len(said) == len(says):
        return [line for at, one in enumerate(said) for line in lacking(one, says[at], f"{where}[{at}]")]
    return [] if said == says else [f"{where}: {said!r} was said, and now {says!r}"]


@pytest.mark.parametrize("name", KEPT)
def test_it_says_what_it_said(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(EVENTS / f"{name}.db", path)
    said = json.loads((EVENTS / f"{name}.json").read_text())
    says = json.loads(json.dumps(contents(path)))
    assert says["counts"] == said["counts"]
    assert lacking(said["first"], says["first"]) == []
    assert lacking(said["invariants"], says["invariants"]) == []
    assert says["verified"]


def test_each_event_is_kept_but_for_some() -> None:
    """An event that has come since needs a ledger of its day (`tests.golden.events.make`)."""
    told = {name for one in KEPT for name in json.loads((EVENTS / f"{one}.json").read_text())["counts"]}
    assert sorted(set(CATALOG) - told) == sorted(NOT_KEPT)
