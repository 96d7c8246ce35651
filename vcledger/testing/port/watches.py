"""Watches: order, where they begin, bookmarks, versions that are forgotten.

Owns these tests. Must not know which server it is. Called by `vcledger.testing.port_contract`.
"""

from __future__ import annotations

import msgspec
import pytest

from vcledger.runtime.port import Answer, ApiPort
from vcledger.scheduler.requests import Delete, Patch
from vcledger.testing.port.base import (
    MAKERS,
    Object,
    PortBase,
    a_name,
    event,
    pod,
    volume,
)


class WatchesOfPort(PortBase):
    """Watches."""

    def test_a_watch_tells_what_came_after_its_version(self, port: ApiPort) -> None:
        self.create(port, "Pod", pod(a_name("before")))
        stream = self.watch(port, "Pod", self.version_now(port))
        made = self.create(port, "Pod", pod(a_name("p")))
        self.body(self.bind(port, made, "n1"), 201)
        name = made["metadata"]["name"]
        self.body(port.do(Delete("Pod", "default", name, grace_seconds=0)), 200)
        lines = self.lines(stream, 4)
        assert [line.type for line in lines] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        found = [msgspec.json.decode(line.object) for line in lines]
        assert [item["metadata"]["name"] for item in found] == [name] * 4
        versions = [int(item["metadata"]["resourceVersion"]) for item in found]
        assert versions == sorted(versions) and len(dict.fromkeys(versions)) == 4
        assert found[3]["spec"]["nodeName"] == "n1"

    def test_a_watch_goes_on_where_another_ended(self, port: ApiPort) -> None:
        start = self.version_now(port)
        names = [self.create(port, "Pod", pod(a_name("p")))["metadata"]["name"] for _ in range(3)]
        first = self.lines(self.watch(port, "Pod", start), 3)
        middle = msgspec.json.decode(first[0].object)["metadata"]["resourceVersion"]
        rest = self.lines(self.watch(port, "Pod", middle), 2)
        assert [self.named(line) for line in rest] == names[1:]
        assert [line.object for line in rest] == [line.object for line in first[1:]]

    def test_a_watch_is_of_one_kind(self, port: ApiPort) -> None:
        stream = self.watch(port, "PersistentVolume", self.version_now(port))
        self.create(port, "Pod", pod(a_name("p")))
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]

    @pytest.mark.parametrize("version", ["", "0"])
    def test_a_watch_from_nowhere_begins_with_what_there_is(self, port: ApiPort, version: str) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        stream = self.watch(port, "PersistentVolume", version)
        (line,) = self.lines(stream, 1, made["metadata"]["name"])
        assert line.type == "ADDED"

    def test_a_write_that_changes_nothing_is_not_told(self, port: ApiPort) -> None:
        made = self.create(port, "PersistentVolume", volume(a_name("v")))
        stream = self.watch(port, "PersistentVolume", made["metadata"]["resourceVersion"])
        self.body(self.put(port, "PersistentVolume", made), 200)
        later = self.create(port, "PersistentVolume", volume(a_name("later")))
        assert [self.named(line) for line in self.lines(stream, 1)] == [later["metadata"]["name"]]

    @pytest.mark.parametrize("kind", ["Pod", "Event"])
    def test_a_watch_from_a_forgotten_version_is_told_410(self, port: ApiPort, kind: str) -> None:
        make = MAKERS[kind]
        old = self.create(port, kind, make(a_name("old")))["metadata"]["resourceVersion"]
        for _ in range(2):  # etcd keeps the very last change before the version it was compacted to
            self.create(port, kind, make(a_name("new")))
        self.compact_or_skip(port)
        stream = self.watch(port, kind, old)
        (line,) = self.lines(stream, 1)
        status = msgspec.json.decode(line.object)
        assert (line.type, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
        self.until_closed(stream)

    def test_a_watch_from_the_compacted_version_itself_goes_on(self, port: ApiPort) -> None:
        self.create(port, "Event", event(a_name("e")))
        version = self.version_now(port, "Event")
        self.compact_or_skip(port)
        stream = self.watch(port, "Event", version)
        made = self.create(port, "Event", event(a_name("e")))
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]

    @pytest.mark.parametrize(
        ("kind", "rest"),
        [
            ("Pod", {"spec": {"containers": None}, "status": {}}),
            ("PersistentVolume", {"spec": {}, "status": {}}),
            ("PodGroup", {}),
        ],
    )
    def test_a_bookmark_says_how_far_a_watch_is(self, port: ApiPort, kind: str, rest: Object) -> None:
        make = MAKERS[kind]
        streams, made = self.bookmarked(port, kind)
        self.send_bookmarks(port)
        lines = self.lines(streams[0], 2)
        assert [line.type for line in lines] == ["ADDED", "BOOKMARK"]
        bookmark = msgspec.json.decode(lines[1].object)
        version = bookmark["metadata"]["resourceVersion"]
        assert int(version) >= int(made["metadata"]["resourceVersion"])
        assert bookmark["kind"] == kind and bookmark["apiVersion"] == made["apiVersion"]
        assert list(bookmark["metadata"]) == ["resourceVersion"]
        assert {name: value for name, value in bookmark.items() if name in ("spec", "status")} == rest
        assert [line.type for line in self.lines(streams[1], 1)] == ["ADDED"] and streams[1].take() == []
        resumed = self.watch(port, kind, version)
        later = self.create(port, kind, make(a_name("later")))
        assert [self.named(line) for line in self.lines(resumed, 1)] == [later["metadata"]["name"]]

    def test_a_watch_of_some_tells_who_comes_and_goes(self, port: ApiPort) -> None:
        part = a_name("part")
        opened = port.watch(
            "Pod", resource_version=self.version_now(port), namespace="default", selector=f"part={part}"
        )
        assert not isinstance(opened, Answer), opened
        self.create(port, "Pod", pod(a_name("other")))
        made = self.create(port, "Pod", pod(a_name("p")))
        versions = []
        for labels in ({"part": part}, {"part": part, "more": "1"}, {"part": None}):
            patch = msgspec.json.encode({"metadata": {"labels": labels}})
            after = self.body(port.do(Patch("Pod", "default", made["metadata"]["name"], patch)), 200)
            versions.append(after["metadata"]["resourceVersion"])
        lines = self.lines(opened, 3)
        assert [line.type for line in lines] == ["ADDED", "MODIFIED", "DELETED"]
        found = [msgspec.json.decode(line.object)["metadata"] for line in lines]
        assert [meta["resourceVersion"] for meta in found] == versions
        assert found[2]["labels"] == {"part": part, "more": "1"}

    def test_a_dropped_watch_is_closed_after_its_last_line(self, port: ApiPort) -> None:
        stream = self.watch(port, "Pod", self.version_now(port))
        made = self.create(port, "Pod", pod(a_name("p")))
        try:
            self.drop_watches(port, "Pod")
        except NotImplementedError:
            pytest.skip("this server can't be made to end its watches")
        assert [self.named(line) for line in self.lines(stream, 1)] == [made["metadata"]["name"]]
        self.until_closed(stream)

    def test_a_version_that_is_none_is_refused(self, port: ApiPort) -> None:
        refused = port.watch("Pod", resource_version="None")
        assert isinstance(refused, Answer)
        why = 'resourceVersion: Invalid value: "None": strconv.ParseUint: parsing "None": invalid syntax'
        assert self.body(refused, 500)["message"] == why


__all__ = ["WatchesOfPort"]
