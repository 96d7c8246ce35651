"""Revisions of the schema: what is opened, what is brought forward, what is refused, on both databases."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from eventstore import open_store, opening, schema
from eventstore.testing import observation
from eventstore.types import EventStoreError, LedgerNewer, LedgerOutdated
from tests import ledgers


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture(autouse=True)
def _real_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "migrate", ledgers.migrate)


NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9000"
down_revision = "{last}"


def upgrade():
    op.add_column("tokens", sa.Column("note", sa.Text()))
    op.execute(sa.text("UPDATE kinds SET name = 'renamed'"))
    {more}
"""


def with_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str = "pass") -> None:
    """Makes it look as if this version had one revision more."""
    folder = tmp_path / "migrations 100%"
    shutil.copytree(opening.MIGRATIONS, folder, dirs_exist_ok=True)
    (folder / "versions" / "9000_next.py").write_text(NEXT.format(more=more, last=schema.REVISION))
    monkeypatch.setattr(opening, "MIGRATIONS", folder)
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "9000"))
    monkeypatch.setattr(schema, "REVISION", "9000")
    monkeypatch.setattr(schema, "READABLE", frozenset({"9000"}))


def test_the_list_of_revisions_is_the_folder() -> None:
    config = Config()
    config.set_main_option("script_location", str(opening.MIGRATIONS))
    script = ScriptDirectory.from_config(config)
    assert tuple(revision.revision for revision in script.walk_revisions())[::-1] == schema.REVISIONS


def test_the_tables_that_migrations_make_are_those_that_the_code_uses(url: str) -> None:
    with open_store(url, create=True) as store, store.backend.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = compare_metadata(context, schema.metadata)
        # Indexes and unique constraints are the migrations' own affair; partitions are no tables of the schema.
        different = [
            change
            for change in found
            if isinstance(change, list) or (change[0].endswith("_table") and not change[1].name.startswith("events_"))
        ]
        assert different == []


def test_a_ledger_of_a_newer_version_is_refused(url: str) -> None:
    with open_store(url, create=True) as store:
        store.append([observation()])
        with store.backend.writing() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for options in ({}, {"create": True}, {"upgrade": True}, {"read_only": True}):
        with pytest.raises(LedgerNewer, match="9999") as caught:
            open_store(url, **options)
        assert "\n" not in str(caught.value)


def test_an_older_ledger_is_brought_forward_when_asked(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(url, create=True) as store:
        store.append([observation()])
    with_next(tmp_path, monkeypatch)
    for options in ({}, {"create": True}, {"read_only": True, "upgrade": True}):
        with pytest.raises(LedgerOutdated, match="bring it forward"):
            open_store(url, **options)
    with open_store(url, upgrade=True) as store:
        assert [event.kind for event in store.read()] == ["renamed"]
    with open_store(url) as store:
        assert store.head() == 1


def test_a_migration_that_fails_changes_nothing(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(url, create=True) as store:
        store.append([observation()])
    with monkeypatch.context() as patch:
        with_next(tmp_path, patch, 'op.execute(sa.text("UPDATE nothing_of_that_name SET x = 1"))')
        with pytest.raises(Exception, match="nothing_of_that_name"):
            open_store(url, upgrade=True)
    with open_store(url) as store:
        assert [event.kind for event in store.read()] == ["Pod"]
        assert store.verify().ok


def test_a_new_ledger_is_made_through_all_revisions(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_next(tmp_path, monkeypatch)
    with open_store(url, create=True) as store:
        store.append([observation()])
        with store.backend.reading() as connection:
            assert connection.execute(text("SELECT count(note) FROM tokens")).scalar() == 0


def test_a_package_of_the_users_called_migrations_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "migrations", raising=False)
    open_store(str(tmp_path / "ledger.db"), create=True).close()
    assert "migrations" not in sys.modules


def test_missing_migrations_are_a_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MIGRATIONS", tmp_path)
    with pytest.raises(EventStoreError, match="install vcledger again"):
        open_store(str(tmp_path / "ledger.db"), create=True)
