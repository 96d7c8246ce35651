"""Makes new SQLite ledgers quickly: the migrations run once in a process, later ledgers are told the same statements.

Owns the shortcut. Must not know what is migrated. Called by `tests.conftest`, for all tests but those of the migrations
themselves. Nearly every test makes a ledger, and Alembic takes nearly ten times as long as the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event

from eventstore import opening

Statement = tuple[str, Any]

migrate: Callable[[Connection, str], None] = opening.migrate
_READS = ("SELECT", "PRAGMA main.", "PRAGMA temp.")
_told: dict[str, list[Statement]] = {}


@contextmanager
def _written_down(connection: Connection) -> Iterator[list[Statement]]:
    """What is carried out on the connection meanwhile and changes something."""
    found: list[Statement] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if not statement.lstrip().startswith(_READS):
            found.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(connection, "before_cursor_execute", note)


def migrate_quickly(connection: Connection, revision: str) -> None:
    """`migrate`, but for an empty SQLite database after the first one."""
    if (
        connection.dialect.name != "sqlite"
        or connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    ):
        migrate(connection, revision)
    elif revision in _told:
        for statement, parameters in _told[revision]:
            connection.exec_driver_sql(statement, parameters)
    else:
        with _written_down(connection) as told:
            migrate(connection, revision)
        _told[revision] = told


def install() -> None:
    """From now on, in this process."""
    opening.migrate = migrate_quickly
