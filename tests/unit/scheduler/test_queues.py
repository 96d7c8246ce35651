"""The work queue: keyed, de-duplicating, rate-limited, one worker a key."""

from __future__ import annotations

from itertools import pairwise

import pytest

from vcledger.scheduler.queues import MAX_MICROSECONDS, WorkQueue, backoff_microseconds


def test_a_key_stands_in_it_once_and_is_due_at_the_earlier_time() -> None:
    queue = WorkQueue()
    queue.add("a", 50)
    queue.add("a", 20)
    queue.add("a", 90)
    queue.add("b", 10)
    assert len(queue) == 2
    assert queue.next_due() == 10
    assert queue.due(9) == []
    assert queue.due(20) == ["b", "a"]


def test_nobody_gets_a_key_that_somebody_has() -> None:
    queue = WorkQueue()
    queue.add("a", 1)
    queue.take("a")
    assert queue.due(100) == []
    assert queue.next_due() is None
    assert "a" in queue
    with pytest.raises(ValueError, match="worked on"):
        queue.take("a")
    with pytest.raises(KeyError):
        queue.take("b")


def test_added_while_worked_on_it_comes_back_afterwards() -> None:
    queue = WorkQueue()
    queue.add("a", 1)
    queue.take("a")
    queue.add("a", 30)
    queue.add("a", 20)
    assert queue.due(100) == []
    queue.done("a")
    assert queue.due(19) == []
    assert queue.due(20) == ["a"]
    queue.take("a")
    queue.done("a")
    assert len(queue) == 0
    queue.done("a")


def test_a_retry_is_later_and_counts() -> None:
    queue = WorkQueue()
    queue.add("a", 1)
    queue.take("a")
    queue.retry("a", 40, 2)
    assert queue.items["a"].attempt == 2
    assert queue.due(39) == []
    assert queue.due(40) == ["a"]
    queue.forget("a")
    assert "a" not in queue


def test_after_a_crash_what_was_taken_is_handed_out_again() -> None:
    queue = WorkQueue()
    queue.add("a", 1, attempt=3)
    queue.add("b", 70)
    queue.take("a")
    queue.give_back(60)
    assert queue.due(60) == ["a"]
    assert queue.items["a"].attempt == 3
    assert queue.items["b"].due == 70


def test_the_back_off_doubles_up_to_its_limit() -> None:
    delays = [backoff_microseconds(failures) for failures in range(30)]
    assert delays[:4] == [0, 5_000, 10_000, 20_000]
    assert all(later in (2 * sooner, MAX_MICROSECONDS) for sooner, later in pairwise(delays[1:]))
    assert delays[-1] == MAX_MICROSECONDS
    assert backoff_microseconds(10_000) == MAX_MICROSECONDS
