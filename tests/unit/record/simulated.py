"""A server for the recorder's tests: the simulated one behind a lock, with streams to wait for, and faults."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from vcledger.runtime.port import Answer, WatchLine
from vcledger.scheduler.requests import Delete, Patch, Request
from vcledger.sim import status
from vcledger.sim.server import SimulatedApi, SimulatedWatch

NODE = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}


class Stream:
    """A watch of the simulated server for a thread to wait for. `silent`: nothing comes any more, and it stays open."""

    def __init__(self, server: Server, inner: SimulatedWatch) -> None:
        self.server, self.inner = server, inner
        self.problem = ""
        self.silent = False
        self._closed = threading.Event()

    def take(self) -> list[WatchLine]:
        with self.server.lock:
            return [] if self.silent or self._closed.is_set() else self.inner.take()

    def wait(self, seconds: float) -> list[WatchLine]:
        end = time.monotonic() + seconds
        while not self.closed and time.monotonic() < end:
            if lines := self.take():
                return lines
            self._closed.wait(0.005)
        return []

    @property
    def closed(self) -> bool:
        if self._closed.is_set():
            return True
        with self.server.lock:
            return self.inner.closed and not self.silent

    def close(self) -> None:
        self._closed.set()

    def break_off(self, problem: str) -> None:
        """The connection is lost."""
        self.problem = problem
        self._closed.set()


class Server:
    """The port. `refusals` are answers that the next requests get instead, by (verb, kind); `missing` kinds have no
    resource; `asked` is every list and watch with what it asked for."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.api = SimulatedApi(lambda: time.time_ns() // 1_000)
        self.refusals: dict[tuple[str, str], deque[Answer]] = {}
        self.missing: set[str] = set()
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.streams: list[Stream] = []
        self.down = False

    def refuse(self, verb: str, kind: str, *answers: Answer) -> None:
        with self.lock:
            self.refusals.setdefault((verb, kind), deque()).extend(answers)

    def do(self, request: Request) -> Answer:
        with self.lock:
            return self.api.do(request)

    def list(self, kind: str, **asked: Any) -> Answer:
        with self.lock:
            return self._refused("list", kind, asked) or self.api.list(kind, **asked)

    def watch(self, kind: str, **asked: Any) -> Answer | Stream:
        with self.lock:
            refused = self._refused("watch", kind, asked)
            if refused is not None:
                return refused
            opened = self.api.watch(kind, **asked)
            if isinstance(opened, Answer):
                return opened
            self.streams.append(Stream(self, opened))
            return self.streams[-1]

    def _refused(self, verb: str, kind: str, asked: dict[str, Any]) -> Answer | None:
        self.asked.append((verb, kind, asked))
        if self.down:
            return Answer(None, b"NewConnectionError: <pool object at 0x7f00>: [Errno 111] Connection refused")
        if kind in self.missing:
            return Answer(404, b"404 page not found\n")
        waiting = self.refusals.get((verb, kind))
        return waiting.popleft() if waiting else None

    # --- what happens in it ---------------------------------------------------------------------------------------

    def node(self, name: str, **labels: str) -> None:
        with self.lock:
            self.api.create("Node", {"metadata": {"name": name, "labels": labels}, **NODE})

    def touch(self, name: str, value: str) -> None:
        patch = msgspec.json.encode({"metadata": {"labels": {"touched": value}}})
        assert self.do(Patch("Node", "", name, patch)).ok

    def delete(self, name: str) -> None:
        assert self.do(Delete("Node", "", name)).ok

    def bookmark(self) -> None:
        with self.lock:
            self.api.send_bookmarks()

    def compact(self) -> None:
        with self.lock:
            self.api.compact()

    def drop(self, kind: str) -> None:
        with self.lock:
            self.api.drop_watches(kind)

    def objects(self, kind: str) -> dict[str, str]:
        """UID to version of what there is."""
        with self.lock:
            found = self.api.objects(kind)
            return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in found}


def throttled(seconds: int) -> Answer:
    return Answer(429, b"Too many requests, please try again later.\n", seconds)


def failed(code: int) -> Answer:
    return Answer(code, msgspec.json.encode(status.failure(code, "No", "it does not work")))


def eventually(holds: Callable[[], bool], what: str = "it", seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} did not come about within {seconds:g} s"
        time.sleep(0.005)
