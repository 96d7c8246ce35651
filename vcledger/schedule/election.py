"""The leader lock: of those who would schedule one cluster with one name, one at a time.

Owns what is asked of the API server for a Lease of coordination.k8s.io, and what each answer says. Pure: time comes in
as microseconds, answers as values. Must not know threads nor connections. Called by `vcledger.schedule.scheduler`,
which carries out what `ask` says, and by tests without any.

Source: the protocol of client-go's leaderelection package. Who does not hold the lock goes by when it last saw the
Lease change, on its own clock, never by the times in it: clocks of two machines need not agree. Who holds it and could
not renew it for `renew_seconds` counts it as lost, which is earlier than anybody else may take it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from vcledger.errors import VcledgerError
from vcledger.scheduler.requests import Answer

MICROS = 1_000_000


class BadLease(VcledgerError):
    """A name for the lock that is none."""


class Timing(NamedTuple):
    """How long the lock lasts, after which time without renewal it counts as lost, and how often it is asked for."""

    lease_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


class Standing(StrEnum):
    """What this candidate is."""

    WAITING = "waiting"
    LEADING = "leading"
    LOST = "lost"


class Ask(NamedTuple):
    """A request about the Lease."""

    verb: str
    path: str
    body: bytes = b""


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel"):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


_decoder = msgspec.json.Decoder(_Lease)


def place(text: str) -> tuple[str, str]:
    """Namespace and name of `NAMESPACE/NAME`. BadLease."""
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name or not text.isprintable():
        raise BadLease(f"{text!r} is no lock: give NAMESPACE/NAME, such as kube-system/vcledger")
    return namespace, name


class Election:
    """One candidate. Carry out `ask(now)`, put the answer into `take`, until `ask` says None; come again at `due`.

    standing   what it is; LOST is for good: the process has to end, or begin as a new candidate
    holder     who has the lock, as it was last seen; before that of the one from whom it was taken
    problem    why the API server could not be asked, '' when it could
    """

    def __init__(self, namespace: str, name: str, identity: str, timing: Timing | None = None) -> None:
        self.namespace, self.name, self.identity, self.timing = namespace, name, identity, timing or Timing()
        self.standing = Standing.WAITING
        self.holder = self.taken_from = self.problem = ""
        self.due = 0
        self._lease: _Lease | None = None
        self._seen_at = 0
        self._renewed_at = 0
        self._next: str | None = "GET"
        self._sent_at = 0

    @property
    def collection(self) -> str:
        """The path of the namespace's Leases."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def leads(self, now: int) -> bool:
        """Whether the lock is ours at this time. To be asked again after any wait: time may have run out meanwhile."""
        self._lose(now)
        return self.standing is Standing.LEADING

    def ask(self, now: int) -> Ask | None:
        """What is to be asked now; None: nothing before `due`."""
        self._lose(now)
        if self.standing is Standing.LOST:
            return None
        if self._next is None:
            if now < self.due:
                return None
            self._next = "PUT" if self.standing is Standing.LEADING else "GET"
        self._sent_at = now
        if self._next == "GET":
            return Ask("GET", f"{self.collection}/{self.name}")
        body = msgspec.json.encode(self._mine(now))
        path = self.collection if self._next == "POST" else f"{self.collection}/{self.name}"
        return Ask(self._next, path, body)

    def take(self, answer: Answer, now: int) -> None:
        """The answer to what was asked last."""
        asked, self._next = self._next, None
        self.due = now + int(self.timing.retry_seconds * MICROS)
        self.problem = "" if answer.code in (200, 201, 404, 409) else _why(answer)
        if answer.code in (200, 201):
            self._seen(_decoder.decode(answer.body), now)
            if asked == "GET":
                self._next = "PUT" if self._is_free(now) else None
            else:
                self._lead()
        elif answer.code == 404 and asked == "GET":
            self._lease, self._next = None, "POST"
        elif asked in ("PUT", "POST"):
            # Somebody else wrote it, or nobody knows: look again, at once when it was ours and its time runs.
            self._next = "GET" if answer.code in (404, 409) and self.standing is Standing.LEADING else None
        self._lose(now)

    def release(self, now: int) -> Ask | None:
        """Gives the lock up, so that another need not wait for its time to end; None when there is none to give up."""
        if self.standing is not Standing.LEADING or self._lease is None:
            return None
        self.standing = Standing.LOST
        lease = self._mine(now)
        lease.spec.holder_identity, lease.spec.lease_duration_seconds = "", 1
        return Ask("PUT", f"{self.collection}/{self.name}", msgspec.json.encode(lease))

    # --- what is seen ---------------------------------------------------------------------------------------------

    def _seen(self, lease: _Lease, now: int) -> None:
        """A Lease that is not the one seen before is a sign of life of its holder."""
        if self._lease is None or lease.spec != self._lease.spec:
            self._seen_at = now
        self._lease = lease
        holder = lease.spec.holder_identity or ""
        if holder != self.identity:
            self.taken_from = holder
            if self.standing is Standing.LEADING:
                self.standing, self.problem = Standing.LOST, f"{holder or 'nobody'} has the lock now"
        self.holder = holder

    def _is_free(self, now: int) -> bool:
        assert self._lease is not None
        spec = self._lease.spec
        if not spec.holder_identity or spec.holder_identity == self.identity:
            return True
        lasts = spec.lease_duration_seconds or self.timing.lease_seconds
        return now >= self._seen_at + lasts * MICROS

    def _lead(self) -> None:
        """The Lease was written: it is ours from when the request was sent."""
        if self.holder != self.identity:
            return
        self.standing, self._renewed_at = Standing.LEADING, self._sent_at

    def _lose(self, now: int) -> None:
        """A lock that could not be renewed in time is gone, whatever the Lease says."""
        overdue = now - self._renewed_at >= int(self.timing.renew_seconds * MICROS)
        if self.standing is Standing.LEADING and overdue:
            self.standing = Standing.LOST
            self.problem = self.problem or f"the lock could not be renewed for {self.timing.renew_seconds:g} s"

    def _mine(self, now: int) -> _Lease:
        """The Lease as it is to be, held by us."""
        before = self._lease
        renewed = before is not None and before.spec.holder_identity == self.identity
        transitions = (before.spec.lease_transitions or 0) if before is not None else 0
        spec = _Spec(
            holder_identity=self.identity,
            lease_duration_seconds=self.timing.lease_seconds,
            acquire_time=before.spec.acquire_time if before is not None and renewed else micro_time(now),
            renew_time=micro_time(now),
            lease_transitions=transitions if renewed or before is None else transitions + 1,
        )
        version = before.metadata.resource_version if before is not None else ""
        return _Lease(_Meta(self.name, self.namespace, version), spec)


def micro_time(micros: int) -> str:
    """Kubernetes' MicroTime: RFC 3339 with six decimals, UTC."""
    return datetime.fromtimestamp(micros / MICROS, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _Status(msgspec.Struct):
    message: str = ""


def _why(answer: Answer) -> str:
    try:
        message = msgspec.json.decode(answer.body, type=_Status).message
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = ""
    text = message or answer.body[:200].decode("utf-8", "replace")
    return " ".join(f"{answer.code or 'no answer'}: {text}".split())


__all__ = ["Ask", "BadLease", "Election", "Standing", "Timing", "micro_time", "place"]
