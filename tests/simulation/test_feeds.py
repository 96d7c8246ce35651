"""List and watch over the simulated server: whatever happens on the way, in the end what was told is what there is."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from vcledger.scheduler.inputs import Input, Listed, Noted, Observed
from vcledger.scheduler.requests import Delete, Patch
from vcledger.sim.clock import MILLISECOND, SECOND, Timeline
from vcledger.sim.feeds import Feed
from vcledger.sim.server import SimulatedApi
from volcano.events.observation import GapRecorded, WatchExpired

Object = dict[str, Any]


class Told:
    """A feed of pods, and what it told: `objects` by UID as a cache would hold them."""

    def __init__(self, seed: int) -> None:
        self.timeline = Timeline()
        self.chance = Random(seed)
        self.api = SimulatedApi(lambda: self.timeline.now)
        self.inputs: list[Input] = []
        self.objects: dict[str, Object] = {}
        self.feed = Feed("Pod", self.api, self.timeline, self.chance, self.put, {})

    def put(self, given: Input) -> None:
        self.inputs.append(given)
        if isinstance(given, Observed):
            item = msgspec.json.decode(given.object_json)
            if given.type == "DELETED":
                self.objects.pop(item["metadata"]["uid"], None)
            else:
                self.objects[item["metadata"]["uid"]] = item

    def write(self) -> None:
        """A pod comes, changes or goes."""
        name = f"p{self.chance.randrange(8)}"
        if self.api.object("Pod", "default", name) is None:
            self.api.create("Pod", {"metadata": {"name": name, "namespace": "default"}, "spec": {}})
        elif self.chance.random() < 0.5:
            self.api.do(Delete("Pod", "default", name))
        else:
            patch = {"metadata": {"labels": {"a": str(self.api.version)}}}
            self.api.do(Patch("Pod", "default", name, msgspec.json.encode(patch)))

    def run(self, seconds: float) -> None:
        self.timeline.run_until(self.timeline.now + int(seconds * SECOND))

    def there(self) -> dict[str, str]:
        """Names and versions on the server."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["resourceVersion"] for pod in self.api.objects("Pod")
        }  # fmt: skip

    def known(self) -> dict[str, str]:
        """Names and versions that were told."""
        found = self.objects.values()
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in found}

    def events(self, kind: type) -> list[Any]:
        return [given.event for given in self.inputs if isinstance(given, Noted) and isinstance(given.event, kind)]


FAULTS = ("none", "dropped", "expired", "delayed", "twice", "fails", "misses", "stale")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", range(5))
def test_in_the_end_it_is_what_the_server_holds(seed: int, fault: str) -> None:
    told = Told(seed)
    for _ in range(10):
        told.write()
    told.feed.start()
    told.run(2)
    assert told.known() == told.there()
    for step in range(60):
        told.timeline.after(step * 50 * MILLISECOND, told.write)
    told.run(1)
    match fault:
        case "dropped":
            told.api.drop_watches("Pod")
            told.feed.poll_soon()
        case "expired":
            told.feed.held_until = told.timeline.now + SECOND
            told.timeline.after(SECOND // 2, told.api.compact)
        case "delayed":
            told.feed.held_until = told.timeline.now + 2 * SECOND
        case "twice":
            told.feed.twice = 5
        case "fails":
            told.feed.fails = 2
            told.feed.relist("a test")
        case "misses":
            told.feed.misses = 1
            told.feed.relist("a test")
        case "stale":
            told.feed.stale = 10
            told.feed.relist("a test")
    told.run(60)
    if fault in ("misses", "stale"):
        told.feed.relist("the fault is over")
        told.run(5)
    assert told.known() == told.there()
    assert not told.feed.refused


def test_a_forgotten_version_is_told_and_the_gap_with_it() -> None:
    told = Told(1)
    told.feed.start()
    told.run(2)
    told.feed.held_until = told.timeline.now + 2 * SECOND
    for _ in range(20):
        told.write()
    told.api.compact()
    told.run(10)
    assert len(told.events(WatchExpired)) == 1
    (gap,) = told.events(GapRecorded)
    assert gap.added == len(told.there()) and int(gap.to_resource_version) == told.api.version
    assert [given.relist for given in told.inputs if isinstance(given, Listed)] == [False, True]


def test_a_stopped_feed_tells_nothing_more() -> None:
    told = Told(1)
    told.feed.start()
    told.run(2)
    told.feed.stop()
    before = len(told.inputs)
    told.write()
    told.run(10)
    assert len(told.inputs) == before
