"""Gangs that broke in the record, for the figure beside that of a free replay.

Owns that count. Must not know the simulation. Called by `vcledger.replay.freely`.

A gang breaks when a member that has its place is taken from it, by an eviction or with its node, and then fewer are
left than its PodGroup asked for at that time. Ready are, as in Volcano's ReadyTaskNum, members that have a place and
are not told to go, and those that have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcledger.replay.record import Group, Life, Record

Step = tuple[int, int, int, bool]
"""Time, place in the record at one time, how many more are ready, and whether somebody was taken away."""


def broken_in_record(record: Record) -> int:
    """How often a gang of the record broke."""
    return sum(_broken(group) for group in record.groups.values() if any(life.taken for life in group.lives))


def _broken(group: Group) -> int:
    count = ready = 0
    for time, _, more, taken in sorted(step for life in group.lives for step in _steps(life)):
        count += taken and ready == group.least_at(time) > 0
        ready += more
    return count


def _steps(life: Life) -> Iterator[Step]:
    """A member becomes ready, and is so no more."""
    if life.started is None:
        return
    yield life.started, life.decided_at, 1, False
    if life.taken:
        time = life.deleted if life.lost or life.asked_to_go is None else life.asked_to_go
        if time is not None:
            yield time, life.last_position, -1, True
        return
    over = life.ended if life.phase == "Failed" else None
    for time in (over, life.asked_to_go, life.deleted):
        if time is not None:
            yield time, life.last_position, -1, False
            return


__all__ = ["broken_in_record"]
