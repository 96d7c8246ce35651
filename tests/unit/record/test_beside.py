"""A recorder beside others: an import into the same ledger, a ledger that stalls, PostgreSQL, a terminal."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from eventstore import open_store
from tests.unit.record.front import Front
from tests.unit.record.runs import CLUSTER, Running, events, fast, live, same
from tests.unit.record.simulated import Server, eventually
from vcledger.codec import observation_of
from vcledger.ledger import Ledger
from vcledger.record.backlog import Backlog
from vcledger.record.feed import size_of
from vcledger.record.meters import Meters
from vcledger.record.writer import Writer
from vcledger.sources import ImportOptions, import_paths
from vcledger.verify import verify

SECOND = 1_000_000


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    fast(monkeypatch)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def watch_file(path: Path, items: list[dict[str, Any]]) -> Path:
    """What kubectl's watch had written."""
    lines = [json.dumps({"type": "MODIFIED", "object": {"kind": "Node", "apiVersion": "v1", **one}}) for one in items]
    path.write_text("\n".join(lines) + "\n")
    return path


def node_now(server: Server, name: str) -> dict[str, Any]:
    with server.lock:
        found = server.api.object("Node", "", name)
    assert found is not None
    return found


def test_an_import_beside_it_changes_neither_the_present_nor_what_is_late(
    server: Server, db: Path, tmp_path: Path
) -> None:
    server.node("n1")
    server.node("n2")
    seen = []
    with Running(db, server) as run:
        run.watching()
        for i in range(5):
            server.touch("n1", str(i))
            seen.append(node_now(server, "n1"))
        eventually(lambda: same(db, server), "the same")
        with Ledger.open(str(db)) as ledger:
            # An old state of n1, the states that are there already, and an older object that is gone from the server.
            old = {**seen[0], "metadata": {**seen[0]["metadata"], "resourceVersion": "7"}}
            gone = {**old, "metadata": {"name": "gone", "uid": "u-gone", "resourceVersion": "5"}}
            file = watch_file(tmp_path / "watch.json", [old, gone, *seen])
            yesterday = time.time_ns() // 1_000 - 86_400 * SECOND
            report = import_paths(ledger, [file], cluster=CLUSTER, options=ImportOptions(observed_at=yesterday))
        assert report.already == 5 and report.late == 2
        server.touch("n2", "after")
        server.touch("n1", "after")
        eventually(lambda: same(db, server), "the same after the import")
    late = [(event.name, event.resource_version) for event in events(db, kinds="Node", late=True)]
    assert late == [("n1", 7), ("gone", 5)]
    with Ledger.open(str(db)) as ledger:
        assert sorted(ledger.cache(cluster=CLUSTER, model="exact").nodes) == ["n1", "n2"]
        assert verify(ledger).ok


def test_an_import_that_saw_more_is_not_undone_by_what_the_recorder_sees_later(
    server: Server, db: Path, tmp_path: Path
) -> None:
    server.node("n1")
    with Running(db, server) as run:
        run.watching()
        eventually(lambda: same(db, server), "the same")
    server.touch("n1", "a")
    between = node_now(server, "n1")
    server.touch("n1", "b")
    newest = node_now(server, "n1")
    with Ledger.open(str(db)) as ledger:
        import_paths(ledger, [watch_file(tmp_path / "w.json", [newest])], cluster=CLUSTER)
    with Running(db, server):
        wanted = int(between["metadata"]["resourceVersion"])
        eventually(lambda: any(e.resource_version == wanted for e in events(db, kinds="Node")), "the state between")
    assert live(db) == server.objects("Node")
    assert [event.late for event in events(db, kinds="Node", name="n1")] == [False, False, True]


def test_a_clock_behind_the_ledger_makes_nothing_late(server: Server, db: Path) -> None:
    """As after an import of what a machine recorded whose clock is an hour ahead."""
    ahead = time.time_ns() // 1_000 + 3_600 * SECOND
    with Ledger.open(str(db), create=True) as ledger:
        server.node("n1")
        first = json.dumps({"kind": "Node", "apiVersion": "v1", **node_now(server, "n1")}).encode()
        event = observation_of(cluster=CLUSTER, kind="Node", change="ADDED", payload=first, observed_at=ahead)
        ledger.store.append([event])
    with Running(db, server) as run:
        run.watching()
        server.touch("n1", "x")
        eventually(lambda: same(db, server), "the same")
    assert not events(db, late=True)
    assert {event.observed_at for event in events(db, kinds="Node")} == {ahead}
    assert "what is recorded until then is dated at that moment" in run.lines[0]


def test_a_cluster_that_is_new_beside_others_is_said(server: Server, db: Path) -> None:
    """Whoever forgot --cluster would else find the same cluster twice, and no command that works without the name."""
    server.node("n1")
    with Ledger.open(str(db), create=True) as ledger:
        first = json.dumps({"kind": "Node", "apiVersion": "v1", **node_now(server, "n1")}).encode()
        ledger.store.append(
            [observation_of(cluster="other", kind="Node", change="ADDED", payload=first, observed_at=SECOND)]
        )
    said = f"cluster {CLUSTER} is new in this ledger, which has other"
    for told in (True, False):
        with Running(db, server) as run:
            run.watching()
        assert (said in run.lines) == told, "once, at its first run"


def test_a_ledger_that_stalls_holds_the_watches_back_and_memory_is_bounded(
    server: Server, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.node("n1")
    with Running(db, server, backlog_bytes=20_000) as run:
        run.watching()
        assert run.recorder._writer is not None
        store = run.recorder._writer.store
        whole, go_on, stalled = store.append, threading.Event(), threading.Event()

        def stalls(*args: Any, **options: Any) -> Any:
            stalled.set()
            while not go_on.is_set():
                time.sleep(0.01)
            return whole(*args, **options)

        monkeypatch.setattr(store, "append", stalls)
        put, waiting, sizes = run.recorder.backlog.put, list[int](), list[int]()

        def putting(group: Any) -> bool:
            sizes.append(sum(map(size_of, group)))
            waiting.append(sizes[-1])
            try:
                return put(group)
            finally:
                waiting.pop()

        monkeypatch.setattr(run.recorder.backlog, "put", putting)
        touched = itertools.count()

        def touch() -> None:
            server.touch("n1", str(next(touched)))

        def full() -> bool:
            """Whether somebody waits for room, which only the append that stalls could make."""
            touch()
            held = run.recorder.backlog.bytes
            return stalled.is_set() and any(held and held + size > 20_000 for size in waiting)

        for _ in range(400):
            touch()
        eventually(full, "a full backlog")
        # What one look at the stream gave may exceed the bound, alone.
        assert run.recorder.backlog.bytes <= max(20_000, *sizes)
        held = run.recorder.backlog.items
        for _ in range(50):
            touch()
        time.sleep(0.2)
        assert run.recorder.backlog.items == held
        go_on.set()
        eventually(lambda: same(db, server), "the same")
    assert len({event.resource_version for event in events(db, kinds="Node", name="n1")}) == next(touched) + 1


@pytest.mark.postgres
def test_the_same_on_postgresql(server: Server, postgres_url: str) -> None:
    server.node("n1")
    for value in ("a", "b"):
        with Running(postgres_url, server) as run:
            run.watching()
            server.touch("n1", value)
            eventually(lambda: live(postgres_url) == server.objects("Node"), "the same")
        server.touch("n1", f"away-{value}")
    server.compact()
    with Running(postgres_url, server, take_over=True):
        eventually(lambda: live(postgres_url) == server.objects("Node"), "the same")
    with open_store(postgres_url) as store:
        assert store.verify().ok
        assert sum(verb == "list" for verb, _, _ in server.asked) == 2


@pytest.mark.slow
def test_on_a_terminal_there_is_a_status_line(tmp_path: Path) -> None:
    """As a person sees it: a line below that is drawn again, lines above it."""
    with Front(Server()) as front:
        front.server.node("n1")
        config = front.kubeconfig(tmp_path)
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cli.main", "record", "--kubeconfig", str(config)),
                *("-k", "nodes,queues", "--for", "600s"),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
            | {"TERM": "xterm", "COLUMNS": "160"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown, ended = b"", False
        while True:
            try:
                more = os.read(ours, 4_096)
            except OSError:
                break
            shown += more
            if re.search(rb"2 of 2 watched \|[^\r\n]* 0 waiting", shown) and not ended:
                ended = True
                process.send_signal(signal.SIGTERM)
        os.close(ours)
        assert process.wait(120) == 0
    text = shown.decode()
    assert "2 of 2 watched | " in text and "events, " in text and "0 waiting" in text
    assert "nodes: listed, 1 at version" in text and "ended: 7 events stored" in text


def test_what_another_stores_between_our_look_and_our_append_is_learnt(db: Path) -> None:
    def node(name: str, version: int) -> Any:
        body = json.dumps({"metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}}).encode()
        return observation_of(cluster=CLUSTER, kind="Node", change="MODIFIED", payload=body, observed_at=SECOND)

    stop = threading.Event()
    with open_store(str(db), create=True) as store, open_store(str(db)) as other:
        writer = Writer(store, CLUSTER, Backlog(size_of), Meters(), stop)
        writer.append([node("a", 1), node("b", 1)])
        whole, once = store.append, [node("a", 9)]

        def slow(*args: Any, **options: Any) -> Any:
            while once:
                other.append([once.pop()])
            return whole(*args, **options)

        store.append = slow  # type: ignore[method-assign]
        writer.append([node("b", 2)])
        writer.append([node("a", 5), node("b", 3)])
        writer.append([node("a", 10)])
        found = [(event.name, event.resource_version, event.late) for event in store.read()]
    assert found == [
        ("a", 1, False), ("b", 1, False), ("a", 9, False), ("b", 2, False), ("a", 5, True), ("b", 3, False),
        ("a", 10, False)]  # fmt: skip
