"""The API port: requests and answers as values, and the interface behind which an API server stands, simulated or real.

Owns these shapes. Must not know who answers. Called by the loop, the simulation, and the list+watch machine's driver.

A request is what would go over the wire: verb, path and body. `code` None in an answer means that no answer came (a
time-out, a dropped connection): the request may or may not have been carried out.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from vcledger.scheduler.requests import Answer, Request


class WatchLine(msgspec.Struct, frozen=True):
    """One line of a watch stream: type ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object's JSON."""

    type: str
    object: bytes


class WatchStream(Protocol):
    """An open watch."""

    def take(self) -> list[WatchLine]:
        """The lines that have arrived since the last call, without waiting."""
        ...

    @property
    def closed(self) -> bool:
        """The server ended the stream and all its lines have been taken."""
        ...


@runtime_checkable
class LiveStream(WatchStream, Protocol):
    """An open watch that a thread can wait for, and another can end."""

    def wait(self, seconds: float) -> list[WatchLine]:
        """The lines that have arrived; while there are none, waits so long for some. [] when the time is over, or when
        the stream has ended."""
        ...

    @property
    def problem(self) -> str:
        """What broke the stream, in words; '' when the server ended it as it should."""
        ...

    def close(self) -> None:
        """Ends it, from any thread and as often as one likes; whoever waits is let go."""
        ...


class ApiPort(Protocol):
    """What an API server can be asked."""

    def do(self, request: Request) -> Answer:
        """Carries out one request."""
        ...

    def list(
        self,
        kind: str,
        *,
        limit: int | None = None,
        continue_: str = "",
        resource_version: str = "",
        namespace: str = "",
        selector: str = "",
    ) -> Answer:
        """A list of a kind (our name), with pagination; of one namespace, and of the labels selected, where given."""
        ...

    def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        bookmarks: bool = True,
        namespace: str = "",
        selector: str = "",
        timeout_seconds: int = 0,
    ) -> Answer | WatchStream:
        """A watch from a version; an Answer (such as 410) when it is refused at once. The server ends it after
        `timeout_seconds` (0: when it likes to)."""
        ...


__all__ = ["Answer", "ApiPort", "LiveStream", "Request", "WatchLine", "WatchStream"]
