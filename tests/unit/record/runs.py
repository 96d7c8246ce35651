"""A recorder on a thread, for tests, and what the ledger holds afterwards."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from eventstore import open_store
from eventstore.types import StoredEvent
from tests.unit.record.simulated import Server, eventually
from vcledger.record import feed, worker
from vcledger.record.recorder import Options, Outcome, Recorder
from vcledger.record.scope import Scope
from vcledger.runtime.port import ApiPort

NODES = [Scope("Node")]
CLUSTER = "test"


class Running:
    """A context: the recorder runs inside of it, and is stopped at its end."""

    def __init__(self, db: Path | str, port: ApiPort, **options: Any) -> None:
        self.lines: list[str] = []
        scopes = options.pop("scopes", NODES)
        self.recorder = Recorder(
            str(db), CLUSTER, port, Options(scopes, snapshots=False, **options), told=self.lines.append
        )
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.outcome = self.recorder.run()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.recorder.stop("the test is over")
        self._thread.join(120)
        assert not self._thread.is_alive()
        if kind is None and self.error is not None:
            raise self.error

    def watching(self) -> None:
        """Waits until all scopes are watched."""
        eventually(lambda: 0 < self.recorder.standing().watching == self.recorder.standing().scopes, "watching")


def events(db: Path | str, **filters: Any) -> list[StoredEvent]:
    with open_store(str(db), read_only=True) as store:
        return list(store.read(cluster=CLUSTER, **filters))


def about(db: Path | str, kind: str = "Node", namespace: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The events about a kind as a whole: type and fields."""
    found = events(db, kinds=kind, namespace=namespace, name="")
    return [(event.type, msgspec.json.decode(event.payload)) for event in found]


def types(db: Path | str, kind: str = "Node") -> list[str]:
    return [type_ for type_, _ in about(db, kind)]


def live(db: Path | str, kind: str = "Node") -> dict[str, str]:
    """UID to version of the objects that are there, as the ledger has them."""
    with open_store(str(db), read_only=True) as store:
        return {head.stream.uid: str(head.resource_version) for head in store.live(CLUSTER, kind) if head.stream.name}


def same(db: Path | str, server: Server, kind: str = "Node") -> bool:
    """Whether the ledger has what the server has."""
    return Path(db).exists() and live(db, kind) == server.objects(kind)


def fast(monkeypatch: Any) -> None:
    """Short waits, so that what takes a minute in life takes none in a test."""
    from vcledger.sources import listwatch

    monkeypatch.setattr(listwatch, "DELAY_MIN", 20_000)
    monkeypatch.setattr(listwatch, "DELAY_MAX", 50_000)
    monkeypatch.setattr(worker, "PACE_SECONDS", 0.0)
    monkeypatch.setattr(worker, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(feed, "AWAY_MICROS", 3_600_000_000)
