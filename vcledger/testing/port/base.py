"""What the tests of the API port share: objects to write, and helpers around a port.

Owns these. Must not know any test. Called by the modules beside it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from vcledger.runtime.port import Answer, ApiPort, WatchLine, WatchStream
from vcledger.scheduler.requests import Bind, Create, Get, Update

_names = itertools.count(1)
Object = dict[str, Any]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
WAIT_SECONDS_MAX = 120.0

BOOKMARK_WATCH_SECONDS = 4
"""A real server sends a bookmark two seconds before it ends a watch, else each minute."""


def a_name(prefix: str) -> str:
    """A name that no other test has."""
    return f"{prefix}-{next(_names)}"


def pod(name: str, **spec: Any) -> Object:
    """A pod for one cpu."""
    container = {"name": "main", "image": "img:1", "resources": {"requests": {"cpu": "1"}}}
    whole = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 30, "containers": [container], **spec}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "spec": whole}


def volume(name: str) -> Object:
    """A CSI volume of 1Gi."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}


def claim(name: str) -> Object:
    """A claim of 1Gi."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": name, "namespace": "default"}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": meta, "spec": spec}


def group(name: str, **spec: Any) -> Object:
    """A PodGroup of one."""
    meta = {"name": name, "namespace": "default"}
    whole = {"minMember": 1, "queue": "default", **spec}
    return {"kind": "PodGroup", "apiVersion": "scheduling.volcano.sh/v1beta1", "metadata": meta, "spec": whole}


def volcano_queue(name: str) -> Object:
    """A Queue."""
    api_version = "scheduling.volcano.sh/v1beta1"
    return {"kind": "Queue", "apiVersion": api_version, "metadata": {"name": name}, "spec": {"weight": 1}}


def node(name: str) -> Object:
    """A Node with four cpus."""
    state = {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": state}


def event(name: str) -> Object:
    """An Event about a pod. The real server keeps no watch cache of these: etcd itself answers."""
    meta = {"name": name, "namespace": "default"}
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    said = {"reason": "Tested", "message": name, "type": "Normal"}
    return {"kind": "Event", "apiVersion": "v1", "metadata": meta, "involvedObject": about, **said}


MAKERS: dict[str, Callable[[str], Object]] = {
    "Pod": pod,
    "PersistentVolume": volume,
    "PersistentVolumeClaim": claim,
    "Node": node,
    "Event": event,
    "PodGroup": group,
    "Queue": volcano_queue,
}


def seconds_of(moment: str) -> float:
    """Since 1970."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


class PortBase:
    """Helpers of the suite."""

    @pytest.fixture
    def port(self) -> ApiPort:
        """The server under test."""
        raise NotImplementedError("the subclass brings the port")

    def compact(self, port: ApiPort) -> None:
        """Makes the server forget its history up to now."""
        raise NotImplementedError

    def drop_watches(self, port: ApiPort, kind: str) -> None:
        """Makes the server end its watches of a kind."""
        raise NotImplementedError

    def send_bookmarks(self, port: ApiPort) -> None:
        """Makes the server send bookmarks now, where that does not come about by itself in time."""

    def compact_or_skip(self, port: ApiPort) -> None:
        try:
            self.compact(port)
        except NotImplementedError:
            pytest.skip("this server can't be made to compact")

    def create(self, port: ApiPort, kind: str, item: Object) -> Object:
        namespace = item["metadata"].get("namespace", "")
        return self.body(port.do(Create(kind, namespace, msgspec.json.encode(item))), 201)

    def get(self, port: ApiPort, kind: str, item: Object) -> Answer:
        return port.do(Get(kind, item["metadata"].get("namespace", ""), item["metadata"]["name"]))

    def put(self, port: ApiPort, kind: str, item: Object, subresource: str = "") -> Answer:
        meta = item["metadata"]
        request = Update(kind, meta.get("namespace", ""), meta["name"], msgspec.json.encode(item), subresource)
        return port.do(request)

    def bind(self, port: ApiPort, item: Object, node: str, **extra: Any) -> Answer:
        meta = item["metadata"]
        return port.do(Bind(meta["namespace"], meta["name"], extra.pop("uid", meta["uid"]), node, **extra))

    def body(self, answer: Answer, code: int) -> Object:
        assert answer.code == code, answer.body
        decoded: Object = msgspec.json.decode(answer.body)
        return decoded

    def refused(self, answer: Answer, code: int, reason: str) -> Object:
        """The Status of a refusal, checked in what all of them share."""
        status = self.body(answer, code)
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert (status["reason"], status["code"]) == (reason, code)
        return status

    def watch(self, port: ApiPort, kind: str, version: str) -> WatchStream:
        opened = port.watch(kind, resource_version=version)
        assert not isinstance(opened, Answer), opened
        return opened

    def bookmarked(self, port: ApiPort, kind: str) -> tuple[list[WatchStream], Object]:
        """A watch with bookmarks and one without, and an object made while they were open. Both last long enough for it
        to come before the bookmark that a real server sends, also where that is slow."""
        seconds = BOOKMARK_WATCH_SECONDS
        while True:
            start, began = self.version_now(port, kind), time.monotonic()
            streams = []
            for bookmarks in (True, False):
                opened = port.watch(kind, resource_version=start, bookmarks=bookmarks, timeout_seconds=seconds)
                assert not isinstance(opened, Answer), opened
                streams.append(opened)
            made = self.create(port, kind, MAKERS[kind](a_name("b")))
            if time.monotonic() - began < seconds / 2 - 1:
                return streams, made
            seconds *= 2

    def lines(self, stream: WatchStream, count: int, name: str = "") -> list[WatchLine]:
        """The next `count` lines (of one object's name), waiting for a server that is elsewhere."""
        found: list[WatchLine] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(found) < count:
            found += [line for line in stream.take() if not name or self.named(line) == name]
            if len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} lines came"
                time.sleep(0.001)
        return found

    def until_closed(self, stream: WatchStream) -> None:
        """Waits for the end of a stream on which nothing comes any more."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not stream.closed:
            assert stream.take() == []
            assert time.monotonic() < deadline, "the watch does not end"
            time.sleep(0.001)

    def named(self, line: WatchLine) -> str:
        return str(msgspec.json.decode(line.object).get("metadata", {}).get("name", ""))

    def version_now(self, port: ApiPort, kind: str = "Pod") -> str:
        version: str = self.body(port.list(kind, limit=1), 200)["metadata"]["resourceVersion"]
        return version
