"""What must hold when several write and read at once.

Owns these tests. Must not know a database. Called by `eventstore.testing`, as part of `EventStoreConformance`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from eventstore.testing.build import START, Opener, observation
from eventstore.types import WrongExpectedVersion


def at_once(*jobs: Callable[[], None]) -> None:
    """Runs jobs in threads of their own; the first error of any is raised here."""
    errors: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)


class ConcurrencyConformance:
    """Needs the fixture `opener`."""

    def test_a_reader_that_has_passed_a_position_finds_nothing_new_below_it(self, opener: Opener) -> None:
        stores = [opener() for _ in range(4)]
        reader = opener()
        done = threading.Event()
        seen: list[int] = []

        def write(number: int) -> Callable[[], None]:
            def job() -> None:
                for i in range(40):
                    names = [f"w{number}-{i}-{k}" for k in range(1 + (i + number) % 3)]
                    stores[number].append([observation(name, at=START) for name in names])

            return job

        def read() -> None:
            while True:
                last = done.is_set()
                seen.extend(event.position for event in reader.read(after=seen[-1] if seen else 0))
                if last:
                    return

        thread = threading.Thread(target=read)
        thread.start()
        try:
            at_once(*(write(number) for number in range(4)))
        finally:
            done.set()
            thread.join(120)
        assert seen == list(range(1, reader.head() + 1))
        assert len(seen) == sum(1 + (i + number) % 3 for i in range(40) for number in range(4))
        assert reader.verify().ok

    def test_of_two_that_expect_the_same_version_one_wins(self, opener: Opener) -> None:
        stream = observation().stream
        stores = [opener() for _ in range(3)]
        won: list[int] = []

        def count_up(number: int) -> Callable[[], None]:
            def job() -> None:
                store = stores[number]
                for _ in range(25):
                    head = store.stream_head(stream)
                    version = head.version if head else 0
                    try:
                        store.append([observation(revision=version + 1, at=START)], expected={stream: version})
                        won.append(version + 1)
                    except WrongExpectedVersion:
                        pass

            return job

        at_once(*(count_up(number) for number in range(3)))
        assert sorted(won) == list(range(1, len(won) + 1))
        assert [event.version for event in stores[0].read()] == sorted(won)

    def test_the_same_observations_from_two_writers_are_stored_once(self, opener: Opener) -> None:
        stores = [opener() for _ in range(2)]
        events = [observation(f"pod-{i % 5}", i, at=START) for i in range(1, 101)]
        stored: list[int] = []

        def write(number: int) -> Callable[[], None]:
            def job() -> None:
                for start in range(0, 100, 5):
                    stored.append(stores[number].append(events[start : start + 5]).stored)

            return job

        at_once(write(0), write(1))
        assert sum(stored) == 100
        assert sorted(event.resource_version or 0 for event in stores[0].read()) == list(range(1, 101))
        assert stores[0].verify().ok

    def test_one_store_may_be_used_from_several_threads(self, opener: Opener) -> None:
        store = opener()

        def work(number: int) -> Callable[[], None]:
            def job() -> None:
                for i in range(20):
                    positions = store.append([observation(f"t{number}-{i}-{k}", at=START) for k in range(3)]).positions
                    assert [event.name for event in store.get(positions)] == [f"t{number}-{i}-{k}" for k in range(3)]

            return job

        at_once(*(work(number) for number in range(4)))
        assert store.head() == 240
        assert store.verify().ok

    def test_a_failed_append_between_two_writers_leaves_no_hole(self, opener: Opener) -> None:
        one, two = opener(), opener()
        one.append([observation("a")])
        two.append([observation("b")])
        with pytest.raises(WrongExpectedVersion):
            one.append([observation("c")], expected={observation("a").stream: 7})
        two.append([observation("d")])
        assert one.append([observation("c")]).positions == [4]
        assert [event.name for event in two.read()] == ["a", "b", "d", "c"]
