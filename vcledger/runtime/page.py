"""`/metrics`, `/healthz` and `/readyz` of a process that runs for long.

Owns the server, its paths, and how long a ledger may refuse before a process is unhealthy. Must not know what is
measured, nor when a process is ready: whoever derives from `StatusPage` says so. Called by `vcledger.record.page` and
`vcledger.schedule.page`.
"""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from vcledger.errors import VcledgerError

SICK_SECONDS = 60.0
"""A ledger may refuse for so long before the process calls itself unhealthy."""


class NoPage(VcledgerError):
    """The address to listen on is none, or cannot be had."""


class StatusPage:
    """The server, on a thread of its own. `address` is HOST:PORT or :PORT; port 0 takes any, see `port`."""

    def __init__(self, address: str, collector: Collector) -> None:
        self._sick_since: float | None = None
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        self._server = self._bound(address)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="status page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def over(self) -> bool:
        """The process's work has ended."""
        raise NotImplementedError

    @property
    def problem(self) -> str:
        """Why the ledger refuses, '' when it does not."""
        raise NotImplementedError

    def health(self) -> tuple[int, str]:
        """The answer of /healthz: code and text."""
        if self.over:
            return 503, "it has ended\n"
        problem = self.problem
        if not problem:
            self._sick_since = None
            return 200, "ok\n"
        self._sick_since = self._sick_since or time.monotonic()
        sick = time.monotonic() - self._sick_since >= SICK_SECONDS
        return (503 if sick else 200), f"the ledger refuses: {problem}\n"

    def ready(self) -> tuple[int, str]:
        """The answer of /readyz."""
        raise NotImplementedError

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """The answer of /metrics: the bytes and their Content-Type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _bound(self, address: str) -> ThreadingHTTPServer:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise NoPage(f"--listen {address}: give HOST:PORT or :PORT")
        try:
            server = ThreadingHTTPServer((host.strip("[]"), int(port)), _handler(self))
        except OSError as error:
            raise NoPage(f"--listen {address}: {error.strerror or error}") from error
        server.daemon_threads = True
        return server


def _handler(page: StatusPage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                body, content_type = page.metrics(self.headers.get("Accept", ""))
                self._answer(200, body, content_type)
            elif path in ("/healthz", "/readyz"):
                code, text = page.health() if path == "/healthz" else page.ready()
                self._answer(code, text.encode(), "text/plain; charset=utf-8")
            else:
                self._answer(404, b"/metrics, /healthz, /readyz\n", "text/plain; charset=utf-8")

        def _answer(self, code: int, body: bytes, content_type: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a probe each few seconds is not worth a line."""

    return Handler


__all__ = ["NoPage", "StatusPage"]
