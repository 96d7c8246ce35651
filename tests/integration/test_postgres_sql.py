"""A PostgreSQL ledger for people who query it: views, times, plans that use indexes and partitions, a role that reads.

Owns these tests. Plans are those of a ledger that is large enough for the planner to have a choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy.engine import make_url
from typer.testing import CliRunner

from cli.main import app
from eventstore import open_store
from eventstore.opening import bring_up
from eventstore.postgres import PostgresBackend
from eventstore.store import EventStore
from eventstore.testing import SECOND, START, observation
from eventstore.types import LedgerUnwritable, RoleUnknown
from tests.postgres import database_url, running_server
from vcledger.demo import CLUSTERS, FOLDER
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths

PODS, ROUNDS, PARTITION = 500, 40, 2_000
EVENTS = PODS * ROUNDS


@pytest.fixture(scope="module")
def large() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to a ledger of 20,000 events in ten partitions, a round each minute."""
    with running_server() as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE large")
        url = database_url(server, "large")
        backend = PostgresBackend(make_url(url), busy_timeout_seconds=5, partition_events=PARTITION)
        bring_up(backend, create=True, upgrade=False)
        with EventStore(backend) as store:
            for number in range(ROUNDS):
                store.append([event(number, pod) for pod in range(PODS)])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
            yield connection


def event(number: int, pod: int) -> object:
    about = f"uid-of-{pod}" if pod % 50 == 0 else ""
    return observation(f"pod-{pod}", number + 1, at=START + number * 60 * SECOND, cluster="one", about=about)


def plan(connection: psycopg.Connection[tuple[object, ...]], query: str) -> str:
    """The plan of a query as it was carried out."""
    rows = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) {query}").fetchall()  # type: ignore[call-overload]
    return "\n".join(str(row[0]) for row in rows)


def partitions_read(text: str) -> set[str]:
    """The partitions of `events` that a plan reads."""
    words = (word.strip("()") for line in text.splitlines() if "never executed" not in line for word in line.split())
    return {word for word in words if word.startswith("events_") and word.count("_") == 2 and word[-1].isdigit()}


def read_whole(text: str) -> list[str]:
    """The steps of a plan that read a table of the log from end to end, those of empty partitions apart."""
    steps = [line.strip() for line in text.splitlines() if "Seq Scan on events" in line or "Seq Scan on stream" in line]
    return [step for step in steps if "never executed" not in step and "rows=0" not in step]


@pytest.mark.slow
def test_a_range_of_positions_reads_its_partition_alone(large: psycopg.Connection[tuple[object, ...]]) -> None:
    text = plan(large, "SELECT position, name, type FROM events_view WHERE position BETWEEN 4100 AND 4200")
    assert partitions_read(text) == {"events_4001_6000"}
    assert not [step for step in read_whole(text) if "events_" in step]


def test_a_range_of_times_reads_its_partitions_alone(large: psycopg.Connection[tuple[object, ...]]) -> None:
    """Observed time has no index: it never decreases, so `position_at` finds the positions."""
    start = f"timestamptz 'epoch' + interval '{START // SECOND} seconds'"
    begin, end = (f"{start} + interval '{minutes} minutes'" for minutes in (9, 11))
    query = (
        "SELECT count(*) FROM events_view WHERE cluster = 'one' "
        f"AND position > (SELECT position_at('one', {begin})) AND position <= (SELECT position_at('one', {end}))"
    )
    assert large.execute(query).fetchone() == (2 * PODS,)  # type: ignore[call-overload]
    assert len(partitions_read(plan(large, query))) <= 2


@pytest.mark.parametrize(
    "condition", ["name = 'pod-7'", "uid = 'uid-of-pod-7' AND name = 'pod-7'", "about = 'uid-of-50'"]
)
def test_one_object_is_found_through_indexes(large: psycopg.Connection[tuple[object, ...]], condition: str) -> None:
    query = f"SELECT position, type, observed_time FROM events_view WHERE {condition} ORDER BY position"
    assert len(large.execute(query).fetchall()) == ROUNDS  # type: ignore[call-overload]
    assert read_whole(plan(large, query)) == []


def test_an_object_as_it_stands_is_found_through_indexes(large: psycopg.Connection[tuple[object, ...]]) -> None:
    query = "SELECT version, position, resource_version, gone FROM streams_view WHERE name = 'pod-7'"
    assert large.execute(query).fetchall() == [(ROUNDS, EVENTS - PODS + 8, ROUNDS, False)]
    assert read_whole(plan(large, query)) == []


def test_position_at_is_the_log_s_own(large: psycopg.Connection[tuple[object, ...]]) -> None:
    with open_store(_url(large)) as store:
        for micros in (
            START - 1, START, START + 1, START + 7 * 60 * SECOND - 1, START + 7 * 60 * SECOND, START + 10**12
        ):  # fmt: skip
            query = "SELECT position_at('one', timestamptz 'epoch' + %s * interval '1 microsecond')"
            assert large.execute(query, (micros,)).fetchone() == (store.position_at(micros, "one"),)
    assert large.execute("SELECT position_at('nothing', now())").fetchone() == (0,)


def test_times_are_exact(large: psycopg.Connection[tuple[object, ...]]) -> None:
    query = """SELECT count(*) FROM events_view WHERE position < 100 AND
               (extract(epoch FROM observed_time) * 1000000 <> observed_at
                OR extract(epoch FROM appended_time) * 1000000 <> appended_at)"""
    assert large.execute(query).fetchone() == (0,)


def _url(connection: psycopg.Connection[tuple[object, ...]]) -> str:
    info = connection.info
    return f"postgresql://{info.user}@/{info.dbname}?host={info.host}"


@pytest.fixture
def reader_url(postgres_url: str) -> Iterator[str]:
    """URL of a ledger of the demo's recording, as a role that was granted to read it, and that owns nothing."""
    with Ledger.open(postgres_url, create=True) as ledger:
        cluster, folder = CLUSTERS[0]
        import_paths(ledger, [FOLDER / folder], cluster=cluster, options=ImportOptions(snapshots=True))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE auditor LOGIN")
        done = CliRunner().invoke(app, ["db", "grant", "auditor", "--db", postgres_url])
        assert (done.exit_code, done.output) == (0, "auditor can read the ledger\n")
        try:
            yield make_url(postgres_url).set(username="auditor").render_as_string(hide_password=False)
        finally:
            connection.execute("DROP OWNED BY auditor")
            connection.execute("DROP ROLE auditor")


@pytest.mark.slow
def test_a_role_that_only_reads(reader_url: str) -> None:
    """`get`, `why`, `log` and following work; nothing can be written."""
    run = CliRunner()
    pods = run.invoke(app, ["get", "tasks", "-A", "-o", "json", "--db", reader_url])
    assert pods.exit_code == 0, pods.output
    first = json.loads(pods.stdout)[0]
    for arguments in (
        ["why", f"{first['namespace']}/{first['name']}"],
        ["log", f"pod/{first['name']}", "-n", first["namespace"]],
        ["state"],
        ["stats"],
        ["verify"],
    ):
        done = run.invoke(app, [*arguments, "--db", reader_url])
        assert done.exit_code == 0, (arguments, done.output)
    with open_store(reader_url, read_only=True) as store:
        head = store.head()
        some = next(iter(store.follow(head - 1, stop=lambda: False)))
        assert [event.position for event in some] == [head]
    with open_store(reader_url) as store:
        with pytest.raises(LedgerUnwritable, match="rights of its user"):
            store.append([observation()])
        with pytest.raises(LedgerUnwritable, match="owner"):
            store.grant_reading("auditor")
    with psycopg.connect(reader_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DELETE FROM events")


def test_what_cannot_be_granted(postgres_url: str, tmp_path: object) -> None:
    with open_store(postgres_url, create=True) as store, pytest.raises(RoleUnknown, match="CREATE ROLE"):
        store.grant_reading("nobody-there")
    with open_store(f"{tmp_path}/l.db", create=True) as store, pytest.raises(RoleUnknown, match="rights are those of"):
        store.grant_reading("auditor")
