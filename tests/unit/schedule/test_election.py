"""The leader lock, against a Lease that behaves as the API server's: never two leaders at one time."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcledger.schedule.election import MICROS, Ask, BadLease, Election, Standing, Timing, place
from vcledger.scheduler.requests import Answer

TIMING = Timing(lease_seconds=15, renew_seconds=10, retry_seconds=2)


class Server:
    """One Lease, with versions."""

    def __init__(self) -> None:
        self.lease: dict[str, object] | None = None
        self.version = 0

    def do(self, ask: Ask) -> Answer:
        if ask.verb == "GET":
            return Answer(200, json.dumps(self.lease).encode()) if self.lease else Answer(404, b"{}")
        body = json.loads(ask.body)
        if ask.verb == "POST" and self.lease is not None:
            return Answer(409, b"{}")
        if ask.verb == "PUT":
            if self.lease is None:
                return Answer(404, b"{}")
            if body["metadata"].get("resourceVersion") != str(self.version):
                return Answer(409, b'{"message":"the object has been modified"}')
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return Answer(201 if ask.verb == "POST" else 200, json.dumps(body).encode())

    @property
    def spec(self) -> dict[str, object]:
        assert self.lease is not None
        found = self.lease["spec"]
        assert isinstance(found, dict)
        return found


def turn(election: Election, server: Server, now: int) -> None:
    """All that a candidate asks at a time, answered at once."""
    while (ask := election.ask(now)) is not None:
        election.take(server.do(ask), now)


def candidate(name: str) -> Election:
    return Election("kube-system", "vcledger", name, TIMING)


def test_the_first_makes_the_lease_and_leads() -> None:
    server, one = Server(), candidate("one")
    turn(one, server, 5 * MICROS)
    assert one.standing is Standing.LEADING
    assert server.spec == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "1970-01-01T00:00:05.000000Z",
        "renewTime": "1970-01-01T00:00:05.000000Z",
        "leaseTransitions": 0,
    }
    assert one.due == 7 * MICROS
    turn(one, server, 7 * MICROS)
    assert (server.spec["acquireTime"], server.spec["renewTime"]) == (
        "1970-01-01T00:00:05.000000Z",
        "1970-01-01T00:00:07.000000Z",
    )


def test_the_second_waits_until_nothing_has_been_heard_for_the_lease_s_time() -> None:
    server, one, two = Server(), candidate("one"), candidate("two")
    turn(one, server, 0)
    for second in range(1, 15):
        turn(two, server, second * MICROS)
        assert two.standing is Standing.WAITING
    turn(two, server, 17 * MICROS)
    assert (two.standing, two.taken_from, server.spec["leaseTransitions"]) == (Standing.LEADING, "one", 1)
    # The first comes back from wherever it was: its time had ended before, and it never leads again.
    turn(one, server, 17 * MICROS)
    assert one.standing is Standing.LOST


def test_a_lock_that_is_given_up_is_free_at_once() -> None:
    server, one, two = Server(), candidate("one"), candidate("two")
    turn(one, server, 0)
    turn(two, server, MICROS)
    ask = one.release(2 * MICROS)
    assert ask is not None and server.do(ask).code == 200
    assert one.release(2 * MICROS) is None
    turn(two, server, 3 * MICROS)
    assert two.standing is Standing.LEADING


def test_who_finds_another_s_name_in_the_lease_has_lost() -> None:
    server, one = Server(), candidate("one")
    turn(one, server, 0)
    server.spec["holderIdentity"] = "thief"
    server.version += 1
    assert server.lease is not None
    server.lease["metadata"] = {"name": "vcledger", "namespace": "kube-system", "resourceVersion": str(server.version)}
    turn(one, server, 2 * MICROS)
    assert one.standing is Standing.LOST
    assert "thief" in one.problem


def test_a_lock_that_cannot_be_renewed_is_lost_before_another_may_take_it() -> None:
    server, one = Server(), candidate("one")
    turn(one, server, 0)
    for second in (2, 4, 6, 8):
        ask = one.ask(second * MICROS)
        assert ask is not None and ask.verb == "PUT"
        one.take(Answer(None, b"time-out"), second * MICROS)
        assert one.standing is Standing.LEADING
    assert "time-out" in one.problem
    assert one.ask(10 * MICROS) is None
    assert one.standing is Standing.LOST


def test_an_answer_that_was_lost_is_no_reason_to_lose() -> None:
    server, one = Server(), candidate("one")
    turn(one, server, 0)
    ask = one.ask(2 * MICROS)
    assert ask is not None
    server.do(ask)
    one.take(Answer(None, b"dropped"), 2 * MICROS)
    turn(one, server, 4 * MICROS)  # 409, as the version is another; looks, and finds itself
    assert one.standing is Standing.LEADING
    assert server.spec["renewTime"] == "1970-01-01T00:00:04.000000Z"


@pytest.mark.parametrize("text", ["", "x", "/x", "x/", "a/b/c", "a/b\n"])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(BadLease):
        place(text)
    assert place("a/b") == ("a", "b")


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_never_two_at_once(seed: int) -> None:
    """Candidates with clocks of their own (each runs up to a tenth fast or slow, which is less than the margin between
    losing and taking), answers that are lost before or after the effect, stalls, new processes."""
    chance = Random(seed)
    server = Server()
    rates = {name: chance.uniform(0.95, 1.05) for name in "abc"}
    alive = {name: candidate(f"{name}0") for name in rates}
    until = dict.fromkeys(rates, 0.0)
    lives = 0
    for tick in range(1, 1_500):
        real = tick * 0.2
        for name, election in list(alive.items()):
            if real < until[name]:
                continue
            now = int(real * rates[name] * MICROS)
            while (ask := election.ask(now)) is not None:
                luck = chance.random()
                answer = Answer(None, b"lost") if luck < 0.1 else server.do(ask)
                election.take(Answer(None, b"lost") if luck < 0.2 else answer, now)
            if chance.random() < 0.01:
                until[name] = real + chance.uniform(0, 30)
            if election.standing is Standing.LOST:
                lives += 1
                alive[name] = candidate(f"{name}{lives}")
        # Who stalls cannot act; when it wakes it asks the time first, as `ask` does.
        acting = [
            name
            for name, election in alive.items()
            if real >= until[name] and election.leads(int(real * rates[name] * MICROS))
        ]
        assert len(acting) <= 1, (seed, real, acting)
