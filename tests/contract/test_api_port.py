"""The API port's contract on the simulated server, and what that one does beyond it."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

pytest.register_assert_rewrite("vcledger.testing.port", "vcledger.testing.port_contract")

from vcledger.runtime.port import Answer, ApiPort  # noqa: E402
from vcledger.scheduler.requests import Create, Delete  # noqa: E402
from vcledger.sim.mvcc import Compacted  # noqa: E402
from vcledger.sim.server import SimulatedApi, SimulatedWatch  # noqa: E402
from vcledger.testing.port_contract import ApiPortContract, group, pod, volume  # noqa: E402


class TestSimulated(ApiPortContract):
    @pytest.fixture
    def port(self) -> SimulatedApi:
        return SimulatedApi()

    def compact(self, port: ApiPort) -> None:
        cast(SimulatedApi, port).compact()

    def send_bookmarks(self, port: ApiPort) -> None:
        cast(SimulatedApi, port).send_bookmarks()

    def drop_watches(self, port: ApiPort, kind: str) -> None:
        cast(SimulatedApi, port).drop_watches(kind)


def opened(api: SimulatedApi, kind: str, version: str) -> SimulatedWatch:
    watch = api.watch(kind, resource_version=version)
    assert isinstance(watch, SimulatedWatch)
    return watch


def test_bookmarks_say_how_far_the_watch_is() -> None:
    api = SimulatedApi()
    wanted, unwanted = opened(api, "Pod", "100"), api.watch("Pod", resource_version="100", bookmarks=False)
    api.create("PersistentVolume", volume("v"))
    api.create("Pod", pod("p"))
    api.send_bookmarks()
    added, bookmark = wanted.take()
    assert (added.type, bookmark.type) == ("ADDED", "BOOKMARK")
    body = msgspec.json.decode(bookmark.object)
    assert body["metadata"] == {"resourceVersion": "102"}
    assert (body["kind"], body["spec"]) == ("Pod", {"containers": None})
    assert isinstance(unwanted, SimulatedWatch) and [line.type for line in unwanted.take()] == ["ADDED"]


def test_a_watch_that_asks_too_late_gets_410() -> None:
    api = SimulatedApi()
    watch = opened(api, "Pod", "100")
    for name in ("a", "b"):
        api.create("Pod", pod(name))
    api.compact(101)
    (line,) = watch.take()
    assert msgspec.json.decode(line.object)["message"] == "too old resource version: 100 (101)"
    assert watch.closed and watch.take() == []


def test_a_snapshot_of_any_kept_version_is_what_was_then() -> None:
    api = SimulatedApi()
    seen: dict[int, list[bytes]] = {}
    for step, name in enumerate("abcab"):
        if api.object("PodGroup", "default", name):
            api.do(Delete("PodGroup", "default", name))
        else:
            api.create("PodGroup", group(name))
        seen[api.version] = [stored.body for _, stored in api.store.items("PodGroup")]
        assert api.version == 101 + step
    for version, bodies in seen.items():
        assert [stored.body for _, stored in api.store.at("PodGroup", version)] == bodies
    api.compact(103)
    with pytest.raises(Compacted):
        api.store.at("PodGroup", 102)
    assert len(api.store.at("PodGroup", 103)) == 3


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"metadata":{}}'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    answer = SimulatedApi().do(Create("Pod", "default", body))
    assert isinstance(answer, Answer) and answer.code in (400, 422)
