"""The writer's role: taken, renewed in time, lost, given up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore import EventStore, open_store
from eventstore.types import EventStoreError, LeaseHeld, LeaseLost, LedgerBusy
from tests.unit.vcledger import build
from vcledger.roles import RECORDER, SCHEDULER, Role

SECOND = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[EventStore]:
    with open_store(str(tmp_path / "ledger.db"), create=True, clock=clock) as opened:
        yield opened


def test_a_second_recorder_of_the_cluster_is_refused(store: EventStore, clock: Clock) -> None:
    with Role.take(store, "c", RECORDER, owner="first") as role:
        with pytest.raises(LeaseHeld, match=r"first is the recorder of cluster c since 1970-01-01T00:16:40Z"):
            Role.take(store, "c", RECORDER)
        with Role.take(store, "d", RECORDER), Role.take(store, "c", SCHEDULER):
            store.append(build.life()[:1], lease=role.lease)
    assert store.leases() == []
    Role.take(store, "c", RECORDER).release()


def test_it_is_renewed_when_a_quarter_of_its_time_has_passed(store: EventStore, clock: Clock) -> None:
    role = Role.take(store, "c", RECORDER, seconds=30)
    for second in range(1_000):
        clock.now = (1_000 + second) * SECOND
        assert role.keep()
        with pytest.raises(LeaseHeld):
            Role.take(store, "c", RECORDER)
    assert role.lease.renewed_at == 1_992 * SECOND
    assert role.lease.term == 1


def test_one_that_stopped_without_a_word_is_followed_when_its_time_has_ended(store: EventStore, clock: Clock) -> None:
    former = Role.take(store, "c", RECORDER, owner="former", seconds=30)
    clock.now += 29 * SECOND
    with pytest.raises(LeaseHeld):
        Role.take(store, "c", RECORDER)
    clock.now += SECOND
    Role.take(store, "c", RECORDER, owner="next")
    with pytest.raises(LeaseLost, match="next has taken it"):
        former.keep()
    with pytest.raises(LeaseLost):
        store.append(build.life()[:1], lease=former.lease)
    assert store.head() == 0


def test_trouble_with_the_ledger_is_put_up_with_while_the_time_lasts(
    store: EventStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = Role.take(store, "c", RECORDER, seconds=30)

    def busy(*_args: object, **_more: object) -> None:
        raise LedgerBusy("busy")

    with monkeypatch.context() as patch:
        patch.setattr(store, "renew", busy)
        clock.now += 20 * SECOND
        assert not role.keep()
        clock.now += 10 * SECOND
        with pytest.raises(LedgerBusy):
            role.keep()
    assert role.keep()


def test_an_error_inside_is_not_hidden_by_one_of_giving_up(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object) -> None:
        raise EventStoreError("no")

    monkeypatch.setattr(store, "release", fails)
    with pytest.raises(ZeroDivisionError), Role.take(store, "c", RECORDER):
        _ = 1 / 0
    with pytest.raises(EventStoreError), Role.take(store, "d", RECORDER):
        pass
