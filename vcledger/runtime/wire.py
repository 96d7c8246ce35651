"""The API port over the wire: requests as HTTP, answers as the bytes that came, watches as streams.

Owns the transport: paths, bodies, time-outs, and the thread that reads each watch. Must not know what is asked for, nor
decode objects; who we are is `vcledger.runtime.access`'s. Called by the loop's workers, the recorder, and the tests,
which prove on a real API server that this port and the simulated one do the same.

No request is ever sent twice, but after a 401, which says that nothing was done. A time-out or a dropped connection is
an answer with code None: the request may or may not have been carried out.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.response import BaseHTTPResponse

from vcledger.runtime.access import Access, find_access, from_kubeconfig, from_service_account
from vcledger.runtime.port import Answer, WatchLine
from vcledger.scheduler.requests import Bind, Create, Delete, Patch, Request, Update, path_of

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
"""For an answer; a list of a big cluster's page included."""

BUFFER_BYTES_MAX = 16 << 20
"""Lines of one watch that have arrived and were not yet taken; its reading waits beyond that."""

READ_BYTES = 1 << 16

CLOSE_SECONDS = 5.0
"""For a watch's thread to end once its socket is shut."""

Told = Callable[[str, str, int | None, float, int], None]
"""Called after each request with verb, path, code, seconds and bytes of the answer."""

PATCH_TYPE, PLAIN_PATCH_TYPE = "application/strategic-merge-patch+json", "application/merge-patch+json"


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)


class WirePort:
    """An API server behind the port. `access`: the way to it. `told`: hears of each request. Threads may share it."""

    def __init__(
        self,
        access: Access,
        *,
        request_seconds: float = REQUEST_SECONDS,
        buffer_bytes: int = BUFFER_BYTES_MAX,
        told: Told | None = None,
    ) -> None:
        self.access = access
        self._request_seconds, self._buffer_bytes = request_seconds, buffer_bytes
        self._told = told

    @property
    def server(self) -> str:
        """The server's URL."""
        return self.access.host

    @property
    def cluster_name(self) -> str:
        """What the kubeconfig's context calls the cluster; '' inside of one."""
        return self.access.cluster

    def do(self, request: Request) -> Answer:
        """Carries out one request."""
        return self._answer(request.verb, request.path, body_of(request), type_of(request))

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
        """A list of a kind (our name), or a page of it; of one namespace, and of the labels selected, where given."""
        query = {
            "limit": str(limit or ""),
            "continue": continue_,
            "resourceVersion": resource_version,
            "labelSelector": selector,
        }
        return self._answer("GET", _with(path_of(kind, namespace), query))

    def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        bookmarks: bool = True,
        namespace: str = "",
        selector: str = "",
        timeout_seconds: int = 0,
        news: Callable[[], None] | None = None,
    ) -> Answer | WireWatch:
        """A watch from a version, once the server has opened it, or its refusal. The server ends it after
        `timeout_seconds` (0: when it likes to). `news` is called, on the watch's own thread, when there is something
        to take."""
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else "",
            "timeoutSeconds": str(timeout_seconds or ""),
            "labelSelector": selector,
        }
        path = _with(path_of(kind, namespace), query)
        started = time.monotonic()
        try:
            response = self._send("GET", path, None, "", stream=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return self._failed("GET", path, started, error)
        if response.status != 200:
            return self._read("GET", path, started, response)
        self._tell("GET", path, 200, started, 0)
        return WireWatch(response, self._buffer_bytes, news)

    def raw(self, verb: str, path: str, body: bytes | None = None, type_: str = "application/json") -> Answer:
        """Any request, by its path; for what the port has no word for (reviews, health, definitions)."""
        return self._answer(verb, path, body, type_)

    def close(self) -> None:
        """Closes the connections that are not in use; open watches are closed each for itself."""
        self.access.close()

    # --- one request ----------------------------------------------------------------------------------------------

    def _answer(self, verb: str, path: str, body: bytes | None = None, type_: str = "") -> Answer:
        started = time.monotonic()
        try:
            response = self._send(verb, path, body, type_, stream=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return self._failed(verb, path, started, error)
        return self._read(verb, path, started, response)

    def _read(self, verb: str, path: str, started: float, response: BaseHTTPResponse) -> Answer:
        """The whole body, and the connection back into the pool."""
        try:
            data = response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            response.close()
            return self._failed(verb, path, started, error)
        response.release_conn()
        self._tell(verb, path, response.status, started, len(data))
        return Answer(response.status, data, _seconds(response.headers.get("Retry-After")))

    def _send(self, verb: str, path: str, body: bytes | None, type_: str, *, stream: bool) -> BaseHTTPResponse:
        response = self._sent(verb, path, body, type_, stream)
        if response.status != 401:
            return response
        response.drain_conn()
        response.release_conn()
        self.access.renew()
        return self._sent(verb, path, body, type_, stream)

    def _sent(self, verb: str, path: str, body: bytes | None, type_: str, stream: bool) -> BaseHTTPResponse:
        headers = {"Accept": "application/json", "User-Agent": "vcledger", **self.access.headers()}
        if type_:
            headers["Content-Type"] = type_
        return self.access.pool.request(
            verb,
            self.access.host + path,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            preload_content=not stream,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=self._request_seconds),
        )

    def _failed(self, verb: str, path: str, started: float, error: Exception) -> Answer:
        self._tell(verb, path, None, started, 0)
        return Answer(None, f"{type(error).__name__}: {error}".encode())

    def _tell(self, verb: str, path: str, code: int | None, started: float, size: int) -> None:
        if self._told is not None:
            self._told(verb, path, code, time.monotonic() - started, size)


def connect(
    context: str | None = None, kubeconfig: str | Path | None = None, *, in_cluster: bool | None = None
) -> WirePort:
    """The port on the server that a kubeconfig's context names, or, with `in_cluster`, of the cluster that we run in.
    None: by a kubeconfig if there is one, else the latter. NoAccess when neither can be used."""
    if in_cluster is None:
        return WirePort(find_access(kubeconfig, context))
    return WirePort(from_service_account() if in_cluster else from_kubeconfig(kubeconfig, context))


class WireWatch:
    """An open watch, read by a thread of its own. How long it may say nothing is for who waits to judge: the server
    sends a bookmark each minute where they are asked for.

    problem      what broke the stream, '' when the server, or this side, ended it
    bytes_read   so many bytes have come
    """

    def __init__(self, response: BaseHTTPResponse, buffer_bytes: int, news: Callable[[], None] | None = None) -> None:
        self.problem = ""
        self.bytes_read = 0
        self._response, self._buffer_bytes, self._news = response, buffer_bytes, news
        self._socket = _socket_of(response)
        if self._socket is not None:
            self._socket.settimeout(None)
        self._lines: list[WatchLine] = []
        self._held = 0
        self._ended = self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def take(self) -> list[WatchLine]:
        """The lines that have arrived since the last call, without waiting."""
        with self._changed:
            lines, self._lines, self._held = self._lines, [], 0
            self._changed.notify_all()
        return lines

    @property
    def closed(self) -> bool:
        """The stream has ended and all its lines have been taken."""
        return self._ended and not self._lines

    def wait(self, seconds: float) -> list[WatchLine]:
        """The lines that have arrived; while there are none, waits so long for some. [] when the time is over, or when
        the stream has ended."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._lines) or self._ended or self._closing, seconds)
        return self.take()

    def close(self) -> None:
        """Ends the watch from this side, from any thread and as often as one likes; whoever waits is let go."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._socket is not None:
            # The plain socket's end, under TLS as well: it wakes the reader, whatever state it is in.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        problem = ""
        try:
            problem = self._read()
        except Exception as error:  # whatever it is, the stream has ended, and who waits must hear of it
            problem = f"{type(error).__name__}: {error}"
        self._response.close()
        with self._changed:
            self.problem = "" if self._closing else problem
            self._ended = True
            self._changed.notify_all()
        if self._news is not None:
            self._news()

    def _read(self) -> str:
        """Reads to the end of the stream; what was wrong with it, if anything."""
        rest = b""
        while data := self._response.read1(READ_BYTES):
            self.bytes_read += len(data)
            *whole, rest = (rest + data).split(b"\n")
            lines: list[WatchLine] = []
            try:
                lines.extend(_decoded(line) for line in whole if line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._put(lines)
                return f"a line is not one of a watch: {error}"
            if lines and not self._put(lines):
                return ""
        return f"it ended within a line, after {len(rest)} bytes of it" if rest.strip() else ""

    def _put(self, lines: list[WatchLine]) -> bool:
        """Hands lines over, when there is room; False when this side has closed the watch."""
        with self._changed:
            self._changed.wait_for(lambda: self._held < self._buffer_bytes or self._closing)
            if self._closing:
                return False
            self._lines += lines
            self._held += sum(len(line.object) for line in lines)
            self._changed.notify_all()
        if self._news is not None:
            self._news()
        return True


def _decoded(line: bytes) -> WatchLine:
    found = _line.decode(line)
    return WatchLine(found.type, bytes(found.object))


def _seconds(header: str | None) -> int:
    """Retry-After in seconds; the API server never gives a date."""
    return int(header) if header and header.isascii() and header.isdigit() else 0


def _socket_of(response: BaseHTTPResponse) -> socket.socket | None:
    """The socket under a response that is being read."""
    connection = getattr(response, "connection", None) or getattr(response, "_connection", None)
    found: socket.socket | None = getattr(connection, "sock", None)
    return found


def _with(path: str, query: dict[str, str]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def body_of(request: Request) -> bytes | None:
    """What a request sends."""
    match request:
        case Create() | Update() | Patch():
            return request.body
        case Bind():
            meta: dict[str, Any] = {"namespace": request.namespace, "name": request.name, "uid": request.uid}
            if request.annotations:
                meta["annotations"] = request.annotations
            target = {"apiVersion": "v1", "kind": "Node", "name": request.node}
            return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})
        case Delete():
            options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
            if request.uid:
                options["preconditions"] = {"uid": request.uid}
            if request.grace_seconds is not None:
                options["gracePeriodSeconds"] = request.grace_seconds
            return msgspec.json.encode(options)
    return None


def type_of(request: Request) -> str:
    """The Content-Type of what a request sends."""
    if isinstance(request, Patch):
        return PLAIN_PATCH_TYPE if request.plain else PATCH_TYPE
    return "" if body_of(request) is None else "application/json"


__all__ = ["Told", "WirePort", "WireWatch", "connect"]
