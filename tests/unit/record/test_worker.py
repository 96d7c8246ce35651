"""What a feed's worker makes of the port's answers."""

from __future__ import annotations

from vcledger.record.worker import answered
from vcledger.scheduler.requests import Answer
from vcledger.sources.listwatch import Answered


def test_an_answer_goes_on_as_it_came_with_the_wait_in_microseconds() -> None:
    body = b'{"message": "<thing object at 0x7f0011223344>"} '
    assert answered(Answer(429, body, 3)) == Answered(429, body, 3_000_000)


def test_where_none_came_the_reason_is_the_same_for_the_same_trouble() -> None:
    found = [answered(Answer(None, f"<Pool object at {where}>: timed out ".encode())) for where in ("0x7f01", "0x8e02")]
    assert found[0] == found[1]
    assert found[0].body == b"timed out"
