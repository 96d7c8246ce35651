"""The page on SQL: its columns are the view's, and its queries run."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcledger.demo import CLUSTERS, FOLDER
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths

PAGE = (Path(__file__).parent.parent.parent / "docs" / "sql.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    db = tmp_path_factory.mktemp("sql") / "demo.db"
    with Ledger.open(str(db), create=True) as ledger:
        for cluster, folder in CLUSTERS[:1]:
            import_paths(ledger, [FOLDER / folder], cluster=cluster, options=ImportOptions(snapshots=False))
    connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
    yield connection
    connection.close()


def test_the_columns_are_those_of_the_view(connection: sqlite3.Connection) -> None:
    documented = [
        word
        for line in PAGE.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)`", line.split("|")[1])
    ]
    cursor = connection.execute("SELECT * FROM events_view LIMIT 0")
    assert documented == sorted(documented, key=documented.index)
    assert {name for name, *_ in cursor.description} == set(documented)


def test_the_queries_answer(connection: sqlite3.Connection) -> None:
    most, binds, unseen, oldest = (connection.execute(query).fetchall() for query in QUERIES)
    assert len(most) == 3
    assert all(changes > 20 for *_, changes in most)
    assert binds == [("BindRequested", 25), ("BindSucceeded", 25)]
    assert unseen == []
    assert len(oldest) == 3
    assert oldest[0][2] <= oldest[1][2] <= oldest[2][2]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time) for *_, time in oldest)


def test_the_second_view_s_columns(connection: sqlite3.Connection) -> None:
    sentence = PAGE[PAGE.index("`streams_view`") :].partition(".\n")[0]
    cursor = connection.execute("SELECT * FROM streams_view LIMIT 0")
    assert [name for name, *_ in cursor.description] == re.findall(r"`(\w+)`", sentence)[1:]
