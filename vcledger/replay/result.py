"""The result ledger: every step of a replay as events of a normal ledger.

Owns how they are written: positions, versions, uids and times come from the replay alone, so that equal plans write
equal ledgers. Must not know what is simulated. Called by `vcledger.replay.free` and `vcledger.replay.shadow`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from eventstore import open_store
from eventstore.types import KEYED, RECOMPUTED, NewEvent
from vcledger import codec
from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.replay.record import encode
from volcano.events.base import RECORDING, DomainEvent, Recorded, Subject
from volcano.events.observation import Marker

STARTED = Subject(RECORDING, "", "replay-started")
"""The stream of the event that says what is replayed. It is a result ledger's first."""

BATCH = 2000
"""Events after which a step's end is made durable."""


class ResultExists(VcledgerError):
    """There is something at the place of the result ledger already."""


class AnotherPlan(VcledgerError):
    """The result ledger that was to be gone on with holds another replay."""


class Origin(msgspec.Struct, frozen=True):
    """What the first event says of the replay. `plan` is the digest of all that decides its course."""

    plan: str
    mode: str = ""
    seed: int = 0
    name: str = ""
    cluster: str = ""
    first: int = 0
    last: int = 0
    conf: str = ""
    model: str = ""


_origins = msgspec.json.Decoder(Origin)


class ResultLedger:
    """A result ledger being written. The next event stands at `next`; what was written is made durable at `flush`,
    which only whole steps end with."""

    def __init__(self, path: str, cluster: str, *, resume: bool = False) -> None:
        self.path, self.cluster, self.now = path, cluster, 0
        self._store = open_store(path, create=True, clock=lambda: self.now)
        self.ledger = Ledger(self._store)
        self.held = self._store.head()
        self.next = self.held + 1
        self._waiting: list[NewEvent] = []
        if self.held and not resume:
            self.close()
            raise ResultExists(f"{path} holds a ledger already: name another --out, or go on with --resume")

    def begin(self, origin: Origin, now: int) -> None:
        """The first event; or, when it is there, that it is the same replay's."""
        if not self.held:
            self.now = now
            text = msgspec.json.encode(origin).decode()
            self.decided(STARTED, Marker(name=STARTED.name, detail=text), key=KEYED)
            return
        known = origin_of(self.ledger)
        if known is None or known.plan != origin.plan:
            told = "is no replay's result" if known is None else "holds the result of another plan"
            raise AnotherPlan(f"{self.path} {told}: name another --out, or give the options of the interrupted run")

    def read(self) -> Iterator[Recorded]:
        """What it holds."""
        return self.ledger.recorded(to=self.held)

    def observed(self, kind: str, change: str, obj: dict[str, Any], known: int = RECOMPUTED) -> tuple[int, bytes]:
        """An object seen: its position and bytes. Its version becomes its position, as each write on an API server
        gives a new one."""
        position, meta = self.next, obj["metadata"]
        meta["resourceVersion"] = str(position)
        payload = encode(obj)
        self._put(
            codec.observation(
                cluster=self.cluster,
                kind=kind,
                change=change,
                payload=payload,
                observed_at=self.now,
                known=known,
                namespace=meta.get("namespace") or "",
                name=meta["name"],
                uid=meta.get("uid") or "",
                resource_version=str(position),
            )
        )
        return position, payload

    def decided(
        self, subject: Subject, event: DomainEvent, *, cause: int | None = None, cycle: int | None = None,
        known: int = RECOMPUTED, key: int | None = None,
    ) -> int:  # fmt: skip
        """Any other event: its position."""
        made = codec.domain(self.cluster, subject, event, self.now, known=known, causation=cause, cycle=cycle)
        return self._put(made if key is None else made._replace(resource_version=key))

    def copied(self, event: NewEvent) -> int:
        """An event of the source as it is: its position here."""
        self.now = max(self.now, event.observed_at)
        return self._put(event)

    def _put(self, event: NewEvent) -> int:
        self._waiting.append(event)
        position, self.next = self.next, self.next + 1
        return position

    def step_ended(self) -> None:
        """Makes what was written durable, if it is much."""
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Makes everything written durable."""
        if self._waiting:
            self._store.append(self._waiting, first=self.next - len(self._waiting))
            self._waiting = []

    def close(self) -> None:
        self.ledger.close()


def origin_of(ledger: Ledger) -> Origin | None:
    """What a result ledger replays; None for a ledger that is none."""
    found = ledger.store.read(kinds=STARTED.kind, name=STARTED.name, types="Marker", limit=1)
    for stored in found:
        event = codec.recorded(stored).event
        if isinstance(event, Marker):
            try:
                return _origins.decode(event.detail)
            except msgspec.DecodeError:
                return None
    return None


def made_uid(seed: int, *names: str) -> str:
    """A uid that follows from the seed and some names."""
    digest = hashlib.blake2b("\x00".join((str(seed), *names)).encode(), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:]}"


def stamp(micros: int) -> str:
    """A whole-second API time."""
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


__all__ = ["AnotherPlan", "Origin", "ResultExists", "ResultLedger", "made_uid", "origin_of", "stamp"]
