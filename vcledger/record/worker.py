"""A thread for each feed: it carries out what the feed asks, and hands on what the feed makes of the answers.

Owns the waiting, and when a silent connection is given up. Must not know what an answer means. Called by
`vcledger.record.recorder`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

from vcledger.record.feed import Turn
from vcledger.record.meters import Meters
from vcledger.record.scope import Scope
from vcledger.runtime.port import Answer, ApiPort, LiveStream, WatchLine, WatchStream
from vcledger.sources.listwatch import Answered, AskList, AskWatch, Closed, Due, Input

WAIT_SECONDS = 1.0
"""How long it waits for lines before it looks whether it is to stop."""

POLL_SECONDS = 0.02
"""How often a stream is looked at that cannot be waited for: the simulated one."""

IDLE_SECONDS = 150.0
"""Of silence, after which a watch is taken for hung: the server sends a bookmark about each minute."""

WATCH_SECONDS = (290, 580)
"""How long a watch is asked for at least and at most, so that not all end at once."""

QUIET_SHARE = (0.6, 0.9)
"""Of the silence allowed, what a watch is asked for that may get no bookmarks (those of Events never do): the server
then ends it before it could be taken for hung."""

PACE_SECONDS = 0.25
"""At least between two openings of a watch, whatever the server does."""

_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>(?:, )?:? ?|object at 0x[0-9a-f]+")


T = TypeVar("T")
P_contra = TypeVar("P_contra", contravariant=True)


class Fed(Protocol[T]):
    """What a worker runs: a `vcledger.record.feed.Feed`, or what makes other items of one."""

    @property
    def scope(self) -> Scope: ...

    def begin(self, now: int) -> Turn[T]: ...

    def take(self, heard: Input, now: int, luck: float = 0.0) -> Turn[T]: ...

    def lines(self, lines: Iterable[tuple[str, bytes]], now: int, luck: float = 0.0) -> Turn[T]: ...


class Intake(Protocol[P_contra]):
    """Where a worker's items go. False: nothing more is taken."""

    def put(self, group: Sequence[P_contra], /) -> bool: ...


class Worker(Generic[T]):
    """Runs one feed until `stop`. `crashed` says what went wrong in it, if anything of ours did."""

    def __init__(
        self,
        feed: Fed[T],
        port: ApiPort,
        backlog: Intake[T],
        meters: Meters,
        stop: threading.Event,
        *,
        clock: Callable[[], int],
        chance: Random,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.feed, self.port, self.backlog, self.meters, self.stop = feed, port, backlog, meters, stop
        self.clock, self.chance, self.idle_seconds = clock, chance, idle_seconds
        self.crashed = ""
        self._stream: WatchStream | None = None
        self._opened = 0.0
        self._heard = 0.0
        self._bookmarked = False

    def run(self) -> None:
        """The thread's life."""
        try:
            turn: Turn[T] | None = self.feed.begin(self.clock())
            while turn is not None and self.backlog.put(turn.items) and not self.stop.is_set():
                turn = self._next(turn)
        except Exception as error:
            # A feed that ends in an error of ours must not go unnoticed: the recorder ends with it.
            self.crashed = f"{self.feed.scope.title}: {type(error).__name__}: {error}"
            self.stop.set()
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Ends its watch, from any thread."""
        if isinstance(self._stream, LiveStream):
            self._stream.close()

    def _next(self, turn: Turn[T]) -> Turn[T] | None:
        """What comes after a turn; None when it is to stop."""
        if turn.ask is not None:
            return self._take(self._ask(turn.ask))
        if turn.due is not None:
            wait = max(0.0, (turn.due - self.clock()) / 1_000_000)
            return None if self.stop.wait(wait) else self._take(Due())
        return self._listen()

    def _take(self, heard: Input) -> Turn[T] | None:
        return None if self.stop.is_set() else self.feed.take(heard, self.clock(), self.chance.random())

    def _ask(self, ask: AskList | AskWatch) -> Answered:
        scope = self.feed.scope
        if isinstance(ask, AskList):
            answer = self.port.list(
                scope.kind,
                limit=ask.limit,
                continue_=ask.continue_,
                namespace=scope.namespace,
                selector=scope.selector,
            )
            self._count("list", answer.code)
            return answered(answer)
        self.stop.wait(max(0.0, self._opened + PACE_SECONDS - time.monotonic()))
        self._opened = self._heard = time.monotonic()
        opened = self.port.watch(
            scope.kind,
            resource_version=ask.resource_version,
            namespace=scope.namespace,
            selector=scope.selector,
            timeout_seconds=self._watch_seconds(),
        )
        if isinstance(opened, Answer):
            self._count("watch", opened.code)
            return answered(opened)
        self._count("watch", 200)
        self._stream = opened
        return Answered(200)

    def _watch_seconds(self) -> int:
        """How long the next watch is asked for: long where bookmarks say that it lives."""
        if self._bookmarked:
            return self.chance.randint(*WATCH_SECONDS)
        least, most = (max(1, int(self.idle_seconds * share)) for share in QUIET_SHARE)
        return self.chance.randint(least, most)

    def _count(self, verb: str, code: int | None) -> None:
        self.meters.add("requests", self.feed.scope.resource, verb, str(code or "none"))

    def _listen(self) -> Turn[T] | None:
        """The next lines of the watch, or its end."""
        stream = self._stream
        if stream is None:
            return self._take(Closed())
        while not self.stop.is_set():
            lines = stream.wait(WAIT_SECONDS) if isinstance(stream, LiveStream) else self._polled(stream)
            if lines:
                self._heard = time.monotonic()
                self._bookmarked = self._bookmarked or any(line.type == "BOOKMARK" for line in lines)
                pairs = [(line.type, line.object) for line in lines]
                return self.feed.lines(pairs, self.clock(), self.chance.random())
            if stream.closed:
                self._stream = None
                problem = stream.problem if isinstance(stream, LiveStream) else ""
                return self._take(Answered(None, in_words(problem.encode())) if problem else Closed())
            silent = time.monotonic() - self._heard
            if silent >= self.idle_seconds:
                self.close()
                self._stream, self._bookmarked = None, False
                return self._take(Answered(None, f"nothing was heard for {self.idle_seconds:g} s".encode()))
        return None

    def _polled(self, stream: WatchStream) -> list[WatchLine]:
        lines = stream.take()
        if not lines and not stream.closed:
            self.stop.wait(POLL_SECONDS)
        return lines


def answered(answer: Answer) -> Answered:
    """An answer of the port for the machine."""
    body = answer.body if answer.code is not None else in_words(answer.body)
    return Answered(answer.code, body, answer.retry_after_seconds * 1_000_000)


def in_words(reason: bytes) -> bytes:
    """Why nothing came, without the addresses of objects in memory, so that the same trouble is told in the same
    words."""
    return _ADDRESS.sub("", reason.decode("utf-8", "replace")).strip().encode()
