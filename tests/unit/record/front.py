"""The simulated server behind HTTP: lists and watches as the real one sends them, for tests of the command.

`Front(server)` is a context; `kubeconfig(folder)` writes a file that leads to it. A token may be demanded (`tokens`);
an answer without a body may be given instead of a watch (`empty_watches`).
"""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

import msgspec
import yaml

from tests.unit.record.simulated import Server, Stream
from vcledger.runtime.port import Answer
from volcano.objects.kinds import KINDS

KIND_AT = {
    (f"/apis/{kind.group}/{kind.versions[0]}" if kind.group else f"/api/{kind.versions[0]}", kind.resource): kind.name
    for kind in reversed(KINDS)
}


class Front:
    """A server on a free port."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.tokens: set[str] | None = None
        self.empty_watches = 0
        self.requests: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def kubeconfig(self, folder: Path, token_file: Path | None = None) -> Path:
        user = {"tokenFile": str(token_file)} if token_file else {"token": "any"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "contexts": [{"name": "main", "context": {"cluster": "test", "user": "me"}}],
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": user}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def __enter__(self) -> Front:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            front.requests.append(self.path)
            if front.tokens is not None and self.headers.get("Authorization", "").split()[-1] not in front.tokens:
                self._answer(
                    Answer(401, b'{"kind":"Status","code":401,"message":"Unauthorized","reason":"Unauthorized"}')
                )
                return
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            parts = url.path.split("/")
            namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else ""
            root = "/".join(parts[: 3 if parts[1] == "api" else 4])
            kind = KIND_AT[root, parts[-1]]
            wanted = {"namespace": namespace, "selector": query.get("labelSelector", "")}
            if query.get("watch") != "true":
                limit = int(query.get("limit", "0")) or None
                self._answer(front.server.list(kind, limit=limit, continue_=query.get("continue", ""), **wanted))
                return
            if front.empty_watches:
                front.empty_watches -= 1
                self._answer(Answer(200))
                return
            opened = front.server.watch(kind, resource_version=query["resourceVersion"], **wanted)
            if isinstance(opened, Answer):
                self._answer(opened)
            else:
                self._stream(opened, time.monotonic() + float(query["timeoutSeconds"]))

        def _answer(self, answer: Answer) -> None:
            if answer.code is None:
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answer.code)
            if answer.retry_after_seconds:
                self.send_header("Retry-After", str(answer.retry_after_seconds))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def _stream(self, stream: Stream, until: float) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            try:
                while not stream.closed and not front.ending.is_set() and time.monotonic() < until:
                    for line in stream.wait(0.1):
                        text = msgspec.json.encode({"type": line.type, "object": msgspec.Raw(line.object)}) + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                if not stream.problem:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                pass
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    return Handler
