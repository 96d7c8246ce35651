"""A proxy between a client and the API server that answers as a server in trouble does.

Owns the faults and how each comes about on the wire. Must not know who asks. Started by the tests of this folder.

    drop-before   the connection ends, and the server has never heard of the request
    drop-after    the server has carried it out, and the connection ends without an answer
    hang-before, hang-after   the same, and the connection stays open and silent until the client gives up
    409, 500, 503 that answer, and the server has never heard of the request
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.kube.control_plane import ControlPlane

HANG_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.05

REASONS = {409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable"}


class Fault:
    """The next `count` requests of this verb whose path matches have it."""

    def __init__(self, verb: str, path: str, fault: str, count: int = 1) -> None:
        self.verb, self.path, self.fault, self.left = verb, re.compile(path), fault, count


class Proxy:
    """The proxy of a control plane. `faults` are those that hold; `hits` counts those that struck, `asked` all requests
    by verb and path, `bound` the bindings that the server took, by path, whether or not its answer got through."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path) -> None:
        self.plane, self.kubeconfig = plane, kubeconfig
        self.faults: list[Fault] = []
        self.hits: Counter[str] = Counter()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.bound: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._upstream = plane.connect()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="proxy", daemon=True).start()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": {"server": self.url}}],
            "users": [{"name": "anybody", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "tests", "user": "anybody"}}],
            "current-context": "proxy",
        }
        kubeconfig.write_text(yaml.safe_dump(config))

    def fault(self, verb: str, path: str, fault: str, count: int = 1) -> None:
        """From now on."""
        with self._lock:
            self.faults.append(Fault(verb, path, fault, count))

    def heal(self) -> None:
        """No fault any more."""
        with self._lock:
            self.faults.clear()

    def due(self, verb: str, path: str) -> str:
        """The fault of a request, '' for none."""
        with self._lock:
            self.asked[verb, path.partition("?")[0]] += 1
            for one in self.faults:
                if one.left and one.verb == verb and one.path.search(path):
                    one.left -= 1
                    self.hits[one.fault] += 1
                    return one.fault
        return ""

    def forward(self, verb: str, path: str, body: bytes | None, type_: str) -> urllib3.BaseHTTPResponse:
        """What the server answers."""
        access = self._upstream.access
        headers = {"Accept": "application/json", **access.headers()}
        if type_:
            headers["Content-Type"] = type_
        answer = access.pool.request(
            verb,
            self.plane.url + path,
            body=body,
            headers=headers,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=None),
        )
        if path.endswith("/binding") and answer.status == 201:
            with self._lock:
                self.bound[path] += 1
        return answer

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._upstream.close()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            fault = proxy.due(self.command, self.path)
            if fault.isdigit():
                self._status(int(fault))
                return
            if fault.endswith("after") or not fault:
                answer = proxy.forward(self.command, self.path, body, self.headers.get("Content-Type", ""))
            if fault:
                if fault.startswith("hang"):
                    self._hang()
                self.close_connection = True
                return
            with suppress(OSError):  # the client has gone away
                self._pass_on(answer)

        def _hang(self) -> None:
            """Until the client has closed the connection."""
            end = time.monotonic() + HANG_SECONDS_MAX
            while time.monotonic() < end:
                readable, _, _ = select.select([self.connection], [], [], LOOK_SECONDS)
                with suppress(OSError):
                    if not readable or self.connection.recv(1, socket.MSG_PEEK):
                        continue
                return

        def _pass_on(self, answer: urllib3.BaseHTTPResponse) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
            if "watch=" not in self.path:
                data = answer.read()
                answer.release_conn()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while data := answer.read1(1 << 16):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except (OSError, urllib3.exceptions.HTTPError):
                self.close_connection = True
            finally:
                answer.close()

        def _status(self, code: int) -> None:
            status: dict[str, Any] = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "message": f"the proxy says {code}",
                "reason": REASONS[code],
                "code": code,
            }
            data = json.dumps(status).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{verb}", Handler._any)
    return Handler


@contextmanager
def running_proxy(plane: ControlPlane, kubeconfig: Path) -> Iterator[Proxy]:
    """A proxy, and its end."""
    proxy = Proxy(plane, kubeconfig)
    try:
        yield proxy
    finally:
        proxy.close()
