"""The laws of a ledger's states, on histories that hypothesis makes up: however the events were appended, to whichever
database, whatever snapshots were made on the way and whatever was pruned, a state is the fold of the whole history.

Owns the comparison. The histories are those of the cache's own laws (tests.stateful.histories).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from eventstore import open_store
from eventstore.types import NewEvent
from projections.cache import MODELS, CacheProjection
from projections.registry import PROJECTIONS
from tests.postgres import copied_database, database_url
from tests.stateful.histories import STEPS, appends, history
from vcledger.ledger import Ledger, cache_projection
from vcledger.snapshotter import Policy, Snapshotter
from vcledger.verify import verify

TEMPLATE = "laws_template"
CLUSTER = "c"
NOT_CHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


class Way(NamedTuple):
    """How a ledger came to hold a history. `chunks` are the sizes of its appends, again and again. After each of them
    that `snapshots` says, in turn, snapshots are brought up to the end, each so many events, every so many of them
    whole."""

    chunks: list[int]
    snapshots: list[bool]
    every: int
    whole: int


WAYS = st.builds(
    Way,
    chunks=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    snapshots=st.lists(st.booleans(), min_size=1, max_size=3),
    every=st.integers(1, 9),
    whole=st.integers(1, 3),
)


@pytest.fixture(scope="module")
def empty(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """An empty ledger in a file, and a server that has one in the database TEMPLATE: copies are quicker made."""
    path = tmp_path_factory.mktemp("laws") / "empty.db"
    open_store(str(path), create=True).close()
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{TEMPLATE}"')
        open_store(database_url(postgres_server, TEMPLATE), create=True).close()
        yield path, postgres_server
        connection.execute(f'DROP DATABASE "{TEMPLATE}" WITH (FORCE)')


@contextmanager
def both(empty: tuple[Path, str]) -> Iterator[list[Ledger]]:
    """A new ledger in a file, and one in PostgreSQL."""
    path, server = empty
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        here = shutil.copy(path, Path(folder) / "ledger.db")
        there = stack.enter_context(copied_database(server, TEMPLATE))
        yield [stack.enter_context(Ledger.open(str(where))) for where in (here, there)]


def append(ledger: Ledger, events: Sequence[NewEvent], way: Way) -> None:
    """Appends a history in that way."""
    policy = Policy(whole_every=way.every * way.whole, changes_every=way.every)
    at, turn = 0, 0
    while at < len(events):
        size = way.chunks[turn % len(way.chunks)]
        assert ledger.store.append(events[at : at + size]).already == 0
        at += size
        if way.snapshots[turn % len(way.snapshots)]:
            for projection in PROJECTIONS:
                Snapshotter(ledger.store, CLUSTER, projection, policy).run()
        turn += 1


def folded(steps: list[Any], model: str) -> list[str]:
    """The digest of the plain fold after each event; that of nothing first. No log, no snapshots."""
    projection = CacheProjection(model)
    events = [event._replace(position=number) for number, event in enumerate(history(steps)[0], 1)]
    states = accumulate(events, projection.evolve, initial=projection.initial())
    return [projection.digest(state) for state in states]


def digest(ledger: Ledger, model: str, position: int) -> str:
    """That of the state as the ledger gives it: the nearest snapshots, then the tail."""
    projection = cache_projection(model)
    return projection.digest(ledger.folder.at(projection, CLUSTER, position))


ONE_POD = [(("Pod", {"metadata": {"name": "p1", "namespace": "ns"}, "spec": {"nodeName": ""}, "status": {}}), 1, 1)]


@pytest.mark.slow
@pytest.mark.postgres
@settings(max_examples=25, deadline=None, suppress_health_check=NOT_CHECKED)
@given(steps=STEPS, ways=st.tuples(WAYS, WAYS), cuts=st.tuples(st.integers(0, 45), st.integers(0, 45)))
@example(steps=ONE_POD, ways=(Way([1], [True], 1, 1), Way([1], [False], 9, 3)), cuts=(2, 1))
def test_every_way_leads_to_the_state_of_the_plain_fold(
    empty: tuple[Path, str], steps: list[Any], ways: tuple[Way, Way], cuts: tuple[int, int]
) -> None:
    """SQLite = PostgreSQL = any chunking = snapshots plus tail = pruned plus tail: each model, at each position."""
    events = appends(steps)
    wanted = {model: folded(steps, model) for model in MODELS}
    with both(empty) as ledgers:
        for ledger, way, cut in zip(ledgers, ways, cuts, strict=True):
            append(ledger, events, way)
            assert ledger.store.head() == len(events)
            for model in MODELS:
                assert [digest(ledger, model, at) for at in range(len(events) + 1)] == wanted[model]
            if 0 < cut <= len(events):
                ledger.prune(cut)
            first = ledger.store.first() - 1
            assert first < max(cut, 1)
            for model in MODELS:
                after = range(first, len(events) + 1)
                assert [digest(ledger, model, at) for at in after] == wanted[model][first:]
            assert verify(ledger, every_snapshot=True).ok
