"""The leader lock's thread: it leads, says so once, gives the lock up when told, and tells when it was lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.schedule.test_election import Server
from vcledger.schedule.election import MICROS, Ask, Election, Timing
from vcledger.schedule.lock import LeaderLock
from vcledger.scheduler.requests import Answer

TIMING = Timing(lease_seconds=15, renew_seconds=10, retry_seconds=0.05)
WAIT_SECONDS = 120
"""For a thread to come to what it must come to, however busy the machine is."""


class Port:
    """The way to a Lease, which may be cut."""

    def __init__(self, server: Server) -> None:
        self.server, self.cut = server, False

    def raw(self, verb: str, path: str, body: bytes | None = None, type_: str = "application/json") -> Answer:
        return Answer(None, b"cut") if self.cut else self.server.do(Ask(verb, path, body or b""))


class Candidate:
    """A lock with a clock that stands until it is moved."""

    def __init__(self, server: Server, name: str) -> None:
        self.port, self.now, self.told = Port(server), 0, list[str]()
        self.lost, self.why = threading.Event(), ""
        election = Election("kube-system", "vcledger", name, TIMING)
        self.lock = LeaderLock(election, self.port, now=lambda: self.now, told=self.told.append, lost=self._lost)

    def _lost(self, why: str) -> None:
        self.why = why
        self.lost.set()


@contextmanager
def running(server: Server, name: str) -> Iterator[Candidate]:
    candidate = Candidate(server, name)
    candidate.lock.begin()
    try:
        yield candidate
    finally:
        candidate.lock.end()


def test_it_leads_says_so_once_and_gives_the_lock_up_at_its_end() -> None:
    server = Server()
    with running(server, "one") as one:
        assert one.lock.leading.wait(WAIT_SECONDS)
        assert server.spec["holderIdentity"] == "one"
    assert server.spec["holderIdentity"] == ""
    assert one.told == ["lock kube-system/vcledger: leading"]
    assert not one.lost.is_set()
    with running(server, "two") as two:
        assert two.lock.leading.wait(WAIT_SECONDS), "what was given up is free at once"


def test_who_cannot_renew_it_has_lost_it_and_is_told() -> None:
    server = Server()
    with running(server, "one") as one:
        assert one.lock.leading.wait(WAIT_SECONDS)
        one.port.cut = True
        one.now += 11 * MICROS
        assert one.lost.wait(WAIT_SECONDS)
        assert one.why
    assert server.spec["holderIdentity"] == "one", "what was lost is not given up: it may be another's"
