"""A run is stored exactly as its events would be one by one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from eventstore import EventStore, NewEvent, StreamId, open_store, schema
from eventstore.runs import Packer, Run, Unpacker, one_by_one

UIDS = ("u1", "u2", "u3", "ü4")


def observed(uid: str, version: int, time: int, *, gone: bool = False, known: int = 0, about: str = "") -> NewEvent:
    stream = StreamId("c", "Pod", "default", f"pod-{uid}", uid)
    payload = f'{{"metadata":{{"name":"pod-{uid}","uid":"{uid}","resourceVersion":"{version}"}},"t":{time}}}'
    name = "ObjectDeleted" if gone else "ObjectModified"
    return NewEvent(stream, name, "observation", time, payload.encode(), 1, known, version, gone, False, about)


def packed(events: Sequence[NewEvent], sizes: Sequence[int] = (3, 1, 5, 2)) -> list[NewEvent | Run]:
    """The events in runs of those sizes, which went through pickle on their way."""
    packer, unpacker = Packer("c"), Unpacker()
    found: list[NewEvent | Run] = []

    def end() -> None:
        run = packer.take()
        if run is not None:
            found.append(unpacker.run(pickle.loads(pickle.dumps(run, 5))))

    turn = 0
    for event in events:
        if len(packer) >= sizes[turn % len(sizes)]:
            end()
            turn += 1
        if not packer.add(event):
            end()
            if not packer.add(event):
                found.append(event)
    end()
    return found


def content(store: EventStore) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    with store.backend.reading() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table))), key=repr)
            for table in schema.metadata.sorted_tables
        }


def both(folder: Path, batches: Sequence[Sequence[NewEvent]]) -> None:
    """Appends the batches in both ways and compares every result and every row."""
    for name in ("plain.db", "runs.db"):
        (folder / name).unlink(missing_ok=True)
    with (
        open_store(str(folder / "plain.db"), create=True, clock=lambda: 7) as plain,
        open_store(str(folder / "runs.db"), create=True, clock=lambda: 7) as runs,
    ):
        for batch in batches:
            assert runs.append(packed(batch)) == plain.append(batch)
        assert content(runs) == content(plain)
        assert runs.verify().ok


EVENTS = st.lists(
    st.builds(
        observed,
        st.sampled_from(UIDS),
        st.integers(0, 12),
        st.integers(0, 40),
        gone=st.booleans(),
        known=st.sampled_from([0, 1]),
        about=st.sampled_from(["", "", "other"]),
    ),
    max_size=14,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(batches=st.lists(EVENTS, max_size=4))
def test_the_same_ledger(tmp_path_factory: pytest.TempPathFactory, batches: list[list[NewEvent]]) -> None:
    both(tmp_path_factory.mktemp("runs"), batches)


@pytest.mark.slow
def test_the_same_ledger_with_dictionaries_and_duplicates(tmp_path: Path) -> None:
    first = [observed(f"uid-{number % 700}", number, number) for number in range(3000)]
    again = [observed(f"uid-{number % 700}", number, number) for number in range(2000, 5000)]
    both(tmp_path, [first, first, again, [*again, *again], [observed("uid-1", 9000, 5)]])


def test_a_run_gives_its_events_back() -> None:
    events = [observed("u1", 1, 1), observed("ü4", 2, 1, gone=True), observed("u1", 3, 2, about="x")]
    (run,) = packed(events, sizes=(9,))
    assert isinstance(run, Run)
    assert one_by_one([run]) == events
    assert [run.event(place) for place in range(3)] == events
    assert list(run.part(1, 3).events()) == events[1:]
    assert list(run.part(1, 3).part(1, 2).events()) == events[2:]
    assert (run.before(1, False), run.before(1, True), run.before(2, True)) == (0, 2, 3)
    assert [event.observed_at for event in run.not_before(2).events()] == [2, 2, 2]
    assert run.not_before(1) is run


@pytest.mark.parametrize(
    "event",
    [
        observed("u1", 1, 1)._replace(late=True),
        observed("u1", 1, 1)._replace(resource_version=None),
        observed("u1", 1, 1)._replace(resource_version=1 << 61),
        observed("u1", 1, 1)._replace(causation=-1),
        observed("u1", 1, 1)._replace(cycle=1),
        observed("u1", 1, 1)._replace(payload=b'{"a":"\x01"}'),
        observed("u1", 1, 1)._replace(payload=b""),
        observed("u1", 1, 1)._replace(stream=StreamId("another", "Pod", "default", "p", "u1")),
        observed("u1", 1, 1)._replace(stream=StreamId("c", "Pod", "default", "\ud800", "u1")),
    ],
)
def test_what_is_not_for_a_run(event: NewEvent) -> None:
    packer = Packer("c")
    assert not packer.add(event)
    assert packer.take() is None


def test_times_of_a_run_never_go_back() -> None:
    packer = Packer("c")
    assert packer.add(observed("u1", 1, 5))
    assert not packer.add(observed("u1", 2, 4))
    assert packer.take() is not None
    assert packer.add(observed("u1", 2, 4))


def test_the_tables_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventstore.runs.STREAMS_MAX", 2)
    events = [observed(f"u{number % 5}", number, number) for number in range(40)]
    assert one_by_one(packed(events)) == events
