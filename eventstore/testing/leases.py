"""Writers' roles: one holder at a time, and a former one is refused.

Owns these tests. Must not know a database. Called by `eventstore.testing`.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from eventstore.testing.build import START, Opener, observation
from eventstore.types import InvalidEvent, Lease, LeaseHeld, LeaseLost


class LeaseConformance:
    """Needs the fixture `opener`. A lease of no seconds has ended by the time that anybody looks."""

    def test_a_second_holder_is_refused_and_told_of_the_first(self, opener: Opener) -> None:
        one, two = opener(), opener()
        lease = one.acquire("one", "recorder", "host-a:17", seconds=60)
        assert (lease.owner, lease.term, lease.expires_at - lease.acquired_at) == ("host-a:17", 1, 60_000_000)
        for store in (one, two):
            with pytest.raises(LeaseHeld, match="host-a:17") as caught:
                store.acquire("one", "recorder", "host-b:4", seconds=60)
            assert "\n" not in str(caught.value)
        assert two.leases() == [lease]

    def test_clusters_and_roles_are_apart(self, opener: Opener) -> None:
        store = opener()
        first = store.acquire("one", "recorder", "a", seconds=60)
        others = [store.acquire("two", "recorder", "b", seconds=60), store.acquire("one", "scheduler", "c", seconds=60)]
        assert store.leases() == [first, others[1], others[0]]
        assert store.leases("two") == [others[0]]

    def test_what_was_given_up_or_has_ended_is_free(self, opener: Opener) -> None:
        one, two = opener(), opener()
        one.release(one.acquire("one", "recorder", "a", seconds=60))
        assert two.leases() == []
        ended = two.acquire("one", "recorder", "b", seconds=0)
        assert one.acquire("one", "recorder", "c", seconds=60).term == ended.term + 1 == 3

    def test_a_renewed_one_goes_on_also_when_it_had_ended_and_nobody_came(self, opener: Opener) -> None:
        one, two = opener(), opener()
        renewed = one.renew(one.acquire("one", "recorder", "a", seconds=0), seconds=60)
        assert (renewed.term, renewed.expires_at - renewed.renewed_at) == (1, 60_000_000)
        with pytest.raises(LeaseHeld):
            two.acquire("one", "recorder", "b", seconds=60)

    def test_a_former_holder_can_neither_renew_nor_append(self, opener: Opener) -> None:
        one, two = opener(), opener()
        former = one.acquire("one", "recorder", "a", seconds=0)
        assert one.append([observation("x", at=START)], lease=former).stored == 1
        present = two.acquire("one", "recorder", "b", seconds=60)
        for refused in (lambda: one.renew(former, seconds=60), lambda: one.append([observation("y")], lease=former)):
            with pytest.raises(LeaseLost, match="b has taken it"):
                refused()
        one.release(former)
        assert two.append([observation("z")], lease=present).positions == [2]
        assert [event.name for event in one.read()] == ["x", "z"]
        assert one.verify().ok

    def test_one_that_was_given_up_cannot_be_used(self, opener: Opener) -> None:
        store = opener()
        lease = store.acquire("one", "recorder", "a", seconds=60)
        store.release(lease)
        store.release(lease)
        with pytest.raises(LeaseLost, match="given up"):
            store.append([observation()], lease=lease)
        with pytest.raises(LeaseLost, match="nothing was stored"):
            store.renew(lease, seconds=60)

    def test_it_can_be_taken_over(self, opener: Opener) -> None:
        one, two = opener(), opener()
        former = one.acquire("one", "recorder", "a", seconds=60)
        assert two.acquire("one", "recorder", "b", seconds=60, take_over=True).term == 2
        with pytest.raises(LeaseLost):
            one.append([observation()], lease=former)

    def test_an_append_that_was_stored_is_not_denied_afterwards(self, opener: Opener) -> None:
        one, two = opener(), opener()
        former = one.acquire("one", "recorder", "a", seconds=0)
        first = one.append([observation()], lease=former, token="t")
        two.acquire("one", "recorder", "b", seconds=60)
        assert one.append([observation()], lease=former, token="t") == first

    def test_of_many_at_once_one_gets_it(self, opener: Opener) -> None:
        stores = [opener() for _ in range(6)]
        won: list[Lease] = []

        def take(number: int) -> None:
            with suppress(LeaseHeld):
                won.append(stores[number].acquire("one", "recorder", f"w{number}", seconds=60))

        threads = [threading.Thread(target=take, args=(number,)) for number in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(won) == 1
        assert stores[0].leases() == won

    def test_a_name_that_cannot_be_kept_is_refused(self, opener: Opener) -> None:
        with pytest.raises(InvalidEvent):
            opener().acquire("one", "recorder", "a\x00b", seconds=60)
