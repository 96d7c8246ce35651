"""A ledger of a real recording, and a way to call the command as a person does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.data import recording
from vcledger.ledger import Ledger
from vcledger.sources import import_paths

Call = Callable[..., Any]


def imported(name: str, folder: Path) -> Path:
    """A ledger with the watch of a recording, in a folder."""
    path = folder / f"{name}.db"
    with Ledger.open(str(path), create=True) as ledger:
        import_paths(ledger, [recording(name) / "watch.jsonl.zst"], cluster="lab")
    return path


@pytest.fixture(scope="session")
def unschedulable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recording 02 as a ledger. Not to be written to."""
    return imported("02", tmp_path_factory.mktemp("ledger"))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """`call("get", "nodes", db=path)`: the result of a command, with stdout and stderr apart."""
    monkeypatch.delenv("VCLEDGER_DB", raising=False)
    monkeypatch.delenv("VCLEDGER_DEBUG", raising=False)

    def run(*words: str, db: Path | None = None) -> Any:
        return CliRunner().invoke(app, [*words, *(["--db", str(db)] if db is not None else [])])

    return run
