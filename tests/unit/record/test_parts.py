"""The recorder's parts each for itself: scopes, the backlog's bound, upkeep, the lease, the page's health."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eventstore import open_store
from eventstore.types import NewEvent
from tests.unit.record.runs import CLUSTER, Running, fast, same
from tests.unit.record.simulated import Server, eventually
from vcledger import roles
from vcledger.codec import observation_of
from vcledger.ledger import Ledger
from vcledger.record import upkeep
from vcledger.record.backlog import Backlog
from vcledger.record.meters import Meters
from vcledger.record.page import Page
from vcledger.record.recorder import Options, Recorder
from vcledger.record.scope import RECORDED, BadScope, Scope, kind_named, scopes
from vcledger.record.upkeep import Upkeep

SECOND = 1_000_000


# --- scopes -------------------------------------------------------------------------------------------------------


def test_all_kinds_are_recorded_unless_some_are_named() -> None:
    assert [scope.kind for scope in scopes([], [], [])] == list(RECORDED)
    assert len(RECORDED) == len(set(RECORDED)) == 14
    assert scopes(["po", "nodes", "pods"], ["b", "a"], ["pods:team=x", "pod:tier in (1,2)"]) == [
        Scope("Pod", "b", "team=x,tier in (1,2)"),
        Scope("Pod", "a", "team=x,tier in (1,2)"),
        Scope("Node"),
    ]
    assert Scope("PodGroup", "a").title == "podgroups.scheduling.volcano.sh in a"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("PodGroup", "PodGroup"),
        ("pvc", "PersistentVolumeClaim"),
        ("vcjob", "VolcanoJob"),
        ("ev", "Event"),
        ("jobs.batch.volcano.sh", "VolcanoJob"),
        ("queue", "Queue"),
        ("storageclasses", "StorageClass"),
    ],
)
def test_kinds_go_by_the_names_that_people_use(word: str, kind: str) -> None:
    assert kind_named(word).name == kind


@pytest.mark.parametrize(
    ("kinds", "namespaces", "selectors"),
    [(["jobs"], [], []), (["secrets"], [], []), ([], [], ["a=b"]), (["nodes"], [], ["pods:a=b"]), ([], ["a/b"], [])],
)
def test_what_means_nothing_is_refused(kinds: list[str], namespaces: list[str], selectors: list[str]) -> None:
    with pytest.raises(BadScope):
        scopes(kinds, namespaces, selectors)


# --- the backlog --------------------------------------------------------------------------------------------------


def test_the_backlog_is_bounded_and_keeps_the_order() -> None:
    backlog: Backlog[int] = Backlog(lambda item: 10, bytes_max=40)
    assert backlog.put([1, 2, 3])
    waits = threading.Thread(target=lambda: backlog.put([4, 5]))
    waits.start()
    waits.join(0.05)
    assert waits.is_alive() and (backlog.items, backlog.bytes) == (3, 30)
    assert backlog.take(100, 1) == [1, 2, 3]
    assert waits.is_alive() and backlog.bytes == 30  # not stored yet
    backlog.done(3)
    waits.join(60)
    assert backlog.put(list(range(2)))
    assert backlog.take(1, 1) == [4, 5]
    backlog.done(2)
    assert backlog.take(100, 1) == [0, 1]
    backlog.done(2)
    assert backlog.put(list(range(9)))  # larger than the bound, alone
    assert backlog.take(100, 0.01) is not None
    backlog.close()
    assert not backlog.put([1])
    assert backlog.take(100, 0.01) is None


def test_closing_lets_go_who_waits() -> None:
    backlog: Backlog[int] = Backlog(lambda item: 10, bytes_max=10)
    backlog.put([1])
    answers: list[bool] = []
    waits = threading.Thread(target=lambda: answers.append(backlog.put([2])))
    waits.start()
    backlog.close()
    waits.join(60)
    assert answers == [False] and backlog.take(9, 1) == [1]


# --- upkeep -------------------------------------------------------------------------------------------------------


def pods(count: int, start: int = 0) -> list[NewEvent]:
    """Changes of ten pods, one each second."""
    events = []
    for i in range(start, start + count):
        body = (
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d","namespace":"ns","uid":"u%d",'
            b'"resourceVersion":"%d","labels":{"i":"%d"}},"spec":{"containers":[]}}' % (i % 10, i % 10, i + 1, i * 7919)
        )
        events.append(
            observation_of(cluster=CLUSTER, kind="Pod", change="MODIFIED", payload=body, observed_at=i * SECOND)
        )
    return events


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with open_store(str(path), create=True) as store:
        for start in range(0, 6_000, 100):
            store.append(pods(100, start))
    return path


def kept_up(
    db: Path | str,
    told: list[str],
    now: int,
    *,
    retain: int | None = None,
    most: int | None = None,
    snapshots: bool = False,
) -> Meters:
    """One round of upkeep at a time (microseconds)."""
    meters = Meters()
    care = Upkeep(
        str(db), CLUSTER, meters, threading.Event(), snapshots=snapshots, retain_seconds=retain, bytes_max=most,
        clock=lambda: now, told=told.append,
    )  # fmt: skip
    with Ledger.open(str(db)) as ledger:
        care.round(ledger)
    return meters


def test_snapshots_are_made_as_they_fall_due(db: Path) -> None:
    meters = kept_up(db, [], 6_000 * SECOND, snapshots=True)
    assert meters.count("snapshots") == 4
    with open_store(str(db)) as store:
        assert [one.position for one in store.snapshots()] == [1_250, 2_500, 3_750, 5_000]


def test_what_is_older_than_retained_is_dropped_and_the_rest_stays_whole(db: Path) -> None:
    told: list[str] = []
    meters = kept_up(db, told, 6_000 * SECOND, retain=1_000)
    assert meters.count("pruned") > 4_500 and told[0].startswith("dropped ")
    with Ledger.open(str(db)) as ledger:
        assert ledger.store.first() == 5_001
        assert len(ledger.cache(cluster=CLUSTER).pods) == 10
        assert ledger.store.verify().ok
    assert kept_up(db, told, 6_000 * SECOND, retain=100_000).count("pruned") == 0


def test_a_ledger_that_is_too_large_loses_its_oldest_until_it_fits(db: Path) -> None:
    with open_store(str(db)) as store:
        before = upkeep.used_bytes(store)
    told: list[str] = []
    for _ in range(4):
        kept_up(db, told, 6_000 * SECOND, most=before * 2 // 3)
    with open_store(str(db)) as store:
        assert upkeep.used_bytes(store) <= before * 2 // 3
        assert store.first() > 1 and store.head() == 6_000 and store.verify().ok
    told.clear()
    for _ in range(3):
        kept_up(db, told, 6_000 * SECOND, most=1)
    assert "nothing more can be dropped" in told[-1]
    with open_store(str(db)) as store:
        assert store.first() <= 6_000 - upkeep.KEPT_MIN + 1


@pytest.mark.postgres
def test_a_size_that_postgresql_keeps_is_not_taken_for_too_much_again_and_again(postgres_url: str) -> None:
    with open_store(postgres_url, create=True) as store:
        for start in range(0, 6_000, 100):
            store.append(pods(100, start))
        before = upkeep.used_bytes(store)
    for _ in range(6):
        kept_up(postgres_url, [], 6_000 * SECOND, most=before * 3 // 4)
    with open_store(postgres_url) as store:
        assert upkeep.used_bytes(store) <= before * 3 // 4
        assert 1 < store.first() < 5_000 and store.verify().ok


def test_trouble_in_upkeep_is_told_once_and_ends_nothing(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    care = Upkeep(
        str(db), CLUSTER, Meters(), threading.Event(), snapshots=False, retain_seconds=1, bytes_max=None,
        clock=lambda: 9_000_000 * SECOND, told=told.append,
    )  # fmt: skip
    with Ledger.open(str(db)) as ledger, open_store(str(db)) as other:
        ledger.store.backend.busy_timeout_seconds = 0.05  # type: ignore[attr-defined]
        monkeypatch.setattr(ledger, "prune", lambda *a, **o: (_ for _ in ()).throw(upkeep.VcledgerError("no")))
        for _ in range(2):
            care._retain_due = 0
            care.round(ledger)
        assert told == ["upkeep: no"] and other.head() == 6_000


# --- the lease ----------------------------------------------------------------------------------------------------


def test_a_process_of_this_machine_that_is_gone_is_known_to_be_dead() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert roles.is_dead(f"{socket.gethostname()}:{gone.pid}")
    assert not roles.is_dead(f"{socket.gethostname()}:1")
    assert not roles.is_dead(f"elsewhere:{gone.pid}")
    assert not roles.is_dead("somebody")


def test_a_recorder_whose_role_was_taken_ends_and_stores_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast(monkeypatch)
    monkeypatch.setattr(roles, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(roles, "RENEWALS", 1_000)
    server, db = Server(), tmp_path / "ledger.db"
    first = Running(db, server)
    with first:
        first.watching()
        with Running(db, server, take_over=True) as second:
            second.watching()
            eventually(lambda: first.outcome is not None, "the first one's end")
            server.node("n1")
            eventually(lambda: same(db, server), "the second goes on")
    assert first.outcome is not None and "no longer the recorder" in first.outcome.problem


# --- the page -----------------------------------------------------------------------------------------------------


def test_health_follows_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(str(tmp_path / "l.db"), CLUSTER, Server(), Options([Scope("Node")]))
    page = Page(recorder, "127.0.0.1:0")
    try:
        assert page.health() == (200, "ok\n")
        assert page.ready() == (503, "0 of 0 listed, 0 watched\n")
        standing = recorder.standing()._replace(problem="the disk is full")
        monkeypatch.setattr(recorder, "standing", lambda: standing)
        assert page.health() == (200, "the ledger refuses: the disk is full\n")
        monkeypatch.setattr("vcledger.runtime.page.SICK_SECONDS", 0.0)
        assert page.health()[0] == 503
        recorder.stop()
        assert page.health() == (503, "it has ended\n")
    finally:
        page.close()
