"""The tests' shortcut to a new ledger leads to what the migrations make."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from eventstore import open_store, opening
from eventstore.testing import observation
from tests import ledgers


def held(path: Path) -> list[Any]:
    """All that a new ledger's file says."""
    with sqlite3.connect(path) as connection:
        found: list[Any] = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"
        ).fetchall()
        for name in ("application_id", "user_version", "journal_mode"):
            found += connection.execute(f"PRAGMA {name}").fetchall()
        tables = [row[1] for row in found if row[0] == "table"]
        found += [(name, connection.execute(f"SELECT * FROM {name}").fetchall()) for name in tables]
    connection.close()
    return found


def test_a_ledger_that_is_made_quickly_is_one_that_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opening.migrate is ledgers.migrate_quickly
    with monkeypatch.context() as patch:
        patch.setattr(opening, "migrate", ledgers.migrate)
        open_store(str(tmp_path / "migrated.db"), create=True).close()
    calls: list[str] = []
    monkeypatch.setattr(ledgers, "_told", {})
    monkeypatch.setattr(ledgers, "migrate", lambda *given, whole=ledgers.migrate: (calls.append(""), whole(*given)))
    for name in ("first.db", "second.db"):
        with open_store(str(tmp_path / name), create=True) as store:
            pass
        assert held(tmp_path / name) == held(tmp_path / "migrated.db")
    assert len(calls) == 1
    with open_store(str(tmp_path / "second.db")) as store:
        assert store.append([observation()]).positions == [1] and store.verify().ok
