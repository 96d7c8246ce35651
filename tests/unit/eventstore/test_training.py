"""When a dictionary is trained: a handful of times, on samples spread over what went by."""

from __future__ import annotations

import pytest

from eventstore.codec import SAMPLES_MIN
from eventstore.training import FIRST, GROWTH, RATIO_WINDOW, SAMPLES, RatioWatch, Sampler, Schedule


def test_the_watch_asks_for_training_when_the_ratio_falls_off() -> None:
    watch = RatioWatch()
    assert not any(watch.fallen_off(1_000, 1_000_000, 50_000) for _ in range(10))
    assert [watch.fallen_off(1_000, 1_000_000, 200_000) for _ in range(2)] == [False, True]
    watch.refused()
    assert [watch.fallen_off(1_000, 1_000_000, 200_000) for _ in range(4)] == [False, False, False, True]
    watch.trained()
    assert not any(watch.fallen_off(1_000, 1_000_000, 200_000) for _ in range(10))


@pytest.mark.parametrize("batch", [1, 7, 1_000, 60_000])
def test_samples_are_spread_over_all_that_went_by(batch: int) -> None:
    sampler = Sampler()
    everything = [b"%d" % i for i in range(60_000)]
    for start in range(0, len(everything), batch):
        sampler.see(everything[start : start + batch])
    numbers = [int(sample) for sample in sampler.samples]
    assert SAMPLES <= len(numbers) < 2 * SAMPLES
    assert numbers == sorted(numbers)
    assert max(after - before for before, after in zip([0, *numbers], [*numbers, 60_000], strict=True)) < 200
    chosen = sampler.chosen()
    assert len(chosen) == len(set(chosen)) == SAMPLES >= SAMPLES_MIN
    assert [int(sample) for sample in chosen] == sorted(map(int, chosen))
    assert int(chosen[-1]) > 59_500
    sampler.clear()
    sampler.see([None, b"", b"x"])
    assert sampler.samples == [b"x"]


def test_a_long_record_is_trained_on_a_handful_of_times() -> None:
    schedule, trained, events = Schedule(), 0, 1_000_000
    schedule.opened(0, None)
    assert schedule.due == FIRST
    for position in range(4_000, events + 1, 4_000):
        if position >= schedule.due:
            trained += 1
            schedule.done(position, taken=trained % 2 == 1)
            assert schedule.due == position * GROWTH
        schedule.appended(position, 4_000, 8_000_000, 500_000)
    assert trained == 13


def test_a_writer_that_comes_to_a_ledger_trains_only_for_many_events_of_its_own() -> None:
    schedule = Schedule()
    schedule.opened(1_000_000, 50_000)
    assert schedule.due == 1_000_000 + RATIO_WINDOW
    schedule.opened(60_000, 50_000)
    assert schedule.due == 50_000 * GROWTH
    schedule.opened(4_000, 1)
    assert schedule.due > 4_000


def test_objects_that_no_longer_fit_bring_it_forward() -> None:
    schedule = Schedule()
    schedule.opened(0, None)
    schedule.done(40_000, taken=True)
    schedule.appended(42_000, 2_000, 1_000_000, 50_000)
    assert schedule.due == 40_000 * GROWTH
    schedule.appended(44_000, 2_000, 1_000_000, 100_000)
    assert schedule.due == 44_000
