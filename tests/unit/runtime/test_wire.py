"""The API port over the wire, against a server of a few lines that answers what a test says."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from vcledger.runtime.access import NoAccess, find_access, from_kubeconfig, from_service_account
from vcledger.runtime.port import Answer, LiveStream, WatchLine
from vcledger.runtime.wire import WirePort, WireWatch, connect
from vcledger.scheduler.requests import Bind, Create, Delete, Get, Patch, Request, Update

Handler = BaseHTTPRequestHandler
Script = Callable[[Handler], None]
WAIT_SECONDS = 120.0


class Server:
    """Answers each request with the next step of a script, the last one again and again. `heard`: what came."""

    def __init__(self, *script: Script) -> None:
        self.heard: list[tuple[str, str, dict[str, str], bytes]] = []
        self.script = list(script)
        self.over = threading.Event()
        server = self

        class Answering(Handler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.heard.append((self.command, self.path, dict(self.headers), body))
                step = server.script.pop(0) if len(server.script) > 1 else server.script[0]
                step(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that it calls

            def log_message(self, *args: Any) -> None:
                """Says nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.over.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def says(code: int, body: bytes = b"{}", **headers: str) -> Script:
    """An answer with a length."""

    def step(handler: Handler) -> None:
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return step


def streams(*chunks: bytes, ends: bool = True, held: threading.Event | None = None) -> Script:
    """A chunked answer, which is then ended, broken off, or held open until the event comes."""

    def step(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for chunk in chunks:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            handler.wfile.flush()
        if held is not None:
            held.wait(WAIT_SECONDS)
        if ends:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)

    return step


def says_nothing_until(held: threading.Event) -> Script:
    """No answer at all."""

    def step(handler: Handler) -> None:
        held.wait(WAIT_SECONDS)
        handler.close_connection = True

    return step


def breaks_off(handler: Handler) -> None:
    """An answer that is shorter than it says."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.close_connection = True


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[Server, WirePort]]]:
    """A server by a script, and a port on it."""
    open_: list[tuple[Server, WirePort]] = []

    def make(*script: Script, **options: Any) -> tuple[Server, WirePort]:
        server = Server(*script)
        port = WirePort(from_kubeconfig(kubeconfig(tmp_path, server.url)), **options)
        open_.append((server, port))
        return server, port

    yield make
    for server, port in open_:
        port.close()
        server.close()


def kubeconfig(folder: Path, url: str, token: str = "secret") -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "blue", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": token}}],
        "contexts": [{"name": "work", "context": {"cluster": "blue", "user": "me"}}],
        "current-context": "work",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def line(type_: str, **object_: Any) -> bytes:
    return json.dumps({"type": type_, "object": object_}).encode() + b"\n"


def opened(port: WirePort, **options: Any) -> WireWatch:
    watch = port.watch("Pod", resource_version="7", **options)
    assert isinstance(watch, WireWatch) and isinstance(watch, LiveStream), watch
    return watch


def all_of(watch: WireWatch) -> list[WatchLine]:
    """Everything up to the end."""
    lines: list[WatchLine] = []
    while not watch.closed:
        lines += watch.wait(WAIT_SECONDS)
    return lines


REQUESTS: list[tuple[Request, str, str, str, Any]] = [
    (Get("Node", "", "n1"), "GET", "/api/v1/nodes/n1", "", None),
    (
        Create("PodGroup", "ns", b'{"a":1}'),
        "POST",
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups",
        "json",
        {"a": 1},
    ),
    (Update("PersistentVolume", "", "v", b'{"a":1}'), "PUT", "/api/v1/persistentvolumes/v", "json", {"a": 1}),
    (
        Patch("Pod", "ns", "p", b'{"a":1}', "status"),
        "PATCH",
        "/api/v1/namespaces/ns/pods/p/status",
        "strategic-merge-patch+json",
        {"a": 1},
    ),
    (
        Bind("ns", "p", "u1", "n1", {"k": "v"}),
        "POST",
        "/api/v1/namespaces/ns/pods/p/binding",
        "json",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": "ns", "name": "p", "uid": "u1", "annotations": {"k": "v"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        },
    ),
    (
        Delete("Pod", "ns", "p", uid="u1", grace_seconds=0),
        "DELETE",
        "/api/v1/namespaces/ns/pods/p",
        "json",
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1"}, "gracePeriodSeconds": 0},
    ),
    (
        Delete("Node", "", "n1"),
        "DELETE",
        "/api/v1/nodes/n1",
        "json",
        {"apiVersion": "v1", "kind": "DeleteOptions"},
    ),
]


@pytest.mark.parametrize(("request_", "verb", "path", "type_", "body"), REQUESTS)
def test_a_request_on_the_wire(serve: Any, request_: Request, verb: str, path: str, type_: str, body: Any) -> None:
    server, port = serve(says(201, b'{"ok":1}'))
    assert port.do(request_) == Answer(201, b'{"ok":1}')
    ((heard_verb, heard_path, headers, heard_body),) = server.heard
    assert (heard_verb, heard_path) == (verb, path)
    assert headers["Authorization"] == "Bearer secret" and headers["Accept"] == "application/json"
    assert headers.get("Content-Type", "") == (f"application/{type_}" if type_ else "")
    assert (json.loads(heard_body) if heard_body else None) == body


def test_a_list_says_what_it_wants(serve: Any) -> None:
    server, port = serve(says(200))
    port.list("Pod", limit=5, continue_="a+b/=", namespace="ns", selector="a=b,c")
    port.list("Node")
    first, second = (urlsplit(path) for _, path, _, _ in server.heard)
    assert first.path == "/api/v1/namespaces/ns/pods"
    assert parse_qs(first.query) == {"limit": ["5"], "continue": ["a+b/="], "labelSelector": ["a=b,c"]}
    assert (second.path, second.query) == ("/api/v1/nodes", "")


def test_a_refusal_is_an_answer_with_the_wait_it_asks_for(serve: Any) -> None:
    _, port = serve(says(429, b"Too many requests", Retry_After="3"), says(500, b"x", Retry_After="Sun"))
    assert port.list("Pod") == Answer(429, b"Too many requests", 3)
    assert port.list("Pod") == Answer(500, b"x", 0)


def test_no_redirect_is_followed(serve: Any) -> None:
    server, port = serve(says(307, b"", Location="http://127.0.0.1:1/"))
    assert port.list("Pod").code == 307 and len(server.heard) == 1


def test_who_is_refused_says_anew_who_it_is_once(serve: Any, tmp_path: Path) -> None:
    server, port = serve(says(401), says(200, b"[]"), says(401))
    kubeconfig(tmp_path, server.url, token="newer")
    assert port.list("Pod") == Answer(200, b"[]")
    assert [headers["Authorization"] for _, _, headers, _ in server.heard] == ["Bearer secret", "Bearer newer"]
    assert port.list("Pod").code == 401 and len(server.heard) == 4
    refused = port.watch("Pod", resource_version="7")
    assert isinstance(refused, Answer) and refused.code == 401


def test_a_configuration_that_is_gone_meanwhile_changes_nothing(serve: Any, tmp_path: Path) -> None:
    server, port = serve(says(401))
    (tmp_path / "kubeconfig").unlink()
    assert port.list("Pod").code == 401 and len(server.heard) == 2


def test_no_answer_is_none_with_the_reason(serve: Any) -> None:
    held = threading.Event()
    _, port = serve(says_nothing_until(held), request_seconds=0.1)
    late = port.list("Pod")
    held.set()
    assert late.code is None and b"imed out" in late.body
    _, port = serve(breaks_off)
    short = port.do(Bind("ns", "p", "u", "n"))
    assert short.code is None and b"IncompleteRead" in short.body
    server, port = serve(says(200))
    server.close()
    nobody = port.list("Pod")
    assert nobody.code is None and nobody.body


def test_each_request_is_told(serve: Any) -> None:
    told: list[tuple[str, str, int | None, int]] = []
    _, port = serve(
        says(200, b"12345"),
        streams(line("ADDED")),
        told=lambda verb, path, code, seconds, size: told.append((verb, path, code, size)),
    )
    port.do(Get("Node", "", "n1"))
    opened(port).close()
    assert told == [
        ("GET", "/api/v1/nodes/n1", 200, 5),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=7&allowWatchBookmarks=true", 200, 0),
    ]


def test_a_watchs_lines_come_whole_however_they_were_cut(serve: Any) -> None:
    whole = line("ADDED", a=[1, 2], b="é") + line("MODIFIED") + b"\n" + line("BOOKMARK", metadata={})
    for size in (1, 7, len(whole)):
        server, port = serve(streams(*(whole[at : at + size] for at in range(0, len(whole), size))))
        watch = opened(port, timeout_seconds=9, namespace="ns", selector="x")
        assert all_of(watch) == [
            WatchLine("ADDED", json.dumps({"a": [1, 2], "b": "é"}).encode()),
            WatchLine("MODIFIED", b"{}"),
            WatchLine("BOOKMARK", b'{"metadata": {}}'),
        ]
        assert watch.problem == "" and watch.bytes_read == len(whole)
        query = parse_qs(urlsplit(server.heard[0][1]).query)
        assert query == {
            "watch": ["true"],
            "resourceVersion": ["7"],
            "allowWatchBookmarks": ["true"],
            "timeoutSeconds": ["9"],
            "labelSelector": ["x"],
        }


@pytest.mark.parametrize(
    ("script", "kept", "why"),
    [
        (streams(line("ADDED"), ends=False), 1, "IncompleteRead"),
        (streams(line("ADDED"), b'{"type":"MODI', ends=True), 1, "within a line"),
        (streams(line("ADDED") + b"<html>\n" + line("ADDED")), 1, "not one of a watch"),
        (streams(line("ADDED") + b'{"kind":"Status"}\n'), 1, "not one of a watch"),
        (streams(b"\xff\n"), 0, "not one of a watch"),
        (streams(), 0, ""),
        (says(200, b""), 0, ""),
    ],
)
def test_a_watch_says_how_it_ended_and_keeps_what_came_before(serve: Any, script: Script, kept: int, why: str) -> None:
    watch = opened(serve(script)[1])
    assert len(all_of(watch)) == kept
    assert why in watch.problem and bool(watch.problem) == bool(why)


def test_a_watch_that_is_refused_is_an_answer(serve: Any) -> None:
    _, port = serve(says(410, b'{"kind":"Status"}'))
    assert port.watch("Pod", resource_version="7") == Answer(410, b'{"kind":"Status"}')


def test_a_watch_that_is_quiet_is_waited_for_no_longer_than_asked(serve: Any) -> None:
    held = threading.Event()
    watch = opened(serve(streams(held=held))[1])
    assert watch.wait(0.02) == [] and watch.take() == [] and not watch.closed
    held.set()
    assert all_of(watch) == [] and watch.problem == ""


def test_closing_a_watch_lets_go_who_waits_for_it(serve: Any) -> None:
    held, heard = threading.Event(), threading.Event()
    watch = opened(serve(streams(held=held))[1], news=heard.set)
    closer = threading.Timer(0.05, watch.close)
    closer.start()
    assert watch.wait(WAIT_SECONDS) == []
    closer.join()
    watch.close()
    assert watch.closed and watch.problem == "" and heard.is_set()
    held.set()


def test_a_watch_reads_no_further_ahead_than_its_buffer(serve: Any) -> None:
    many = 200
    big = [line("ADDED", n=number, pad="x" * 20_000) for number in range(many)]
    watch = opened(serve(streams(*big))[1])
    watch.close()
    _, port = serve(streams(*big), buffer_bytes=50_000)
    watch = opened(port)
    first = watch.wait(WAIT_SECONDS)
    lines = [*first, *all_of(watch)]
    assert [json.loads(one.object)["n"] for one in lines] == list(range(many))
    _, port = serve(streams(*big), buffer_bytes=50_000)
    held = opened(port)
    while not held.wait(WAIT_SECONDS):
        pass
    held.close()
    assert held.bytes_read < 40 * 20_000


def test_connecting_by_context(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:9")
    for port in (connect("work", path), connect(kubeconfig=path), connect(kubeconfig=path, in_cluster=False)):
        assert (port.server, port.cluster_name) == ("http://127.0.0.1:9", "blue")
        port.close()
    with pytest.raises(NoAccess, match="no context is named home; there are work"):
        connect("home", path)
    with pytest.raises(NoAccess, match="kubeconfig"):
        connect(kubeconfig=tmp_path / "none")
    path.write_text("{}")
    with pytest.raises(NoAccess):
        connect(kubeconfig=path)


@pytest.mark.parametrize(
    "held", [b"[1, 2]", b"only text", b"\xa0\xff", b"contexts: 5", b"users: {", b"# A page\nof: a: b"]
)
def test_what_is_no_kubeconfig_is_named(tmp_path: Path, held: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes"
    path.write_bytes(held)
    monkeypatch.setenv("KUBECONFIG", str(path))
    for given in (path, None):
        with pytest.raises(NoAccess, match="notes is no kubeconfig"):
            find_access(given)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:9")
    with pytest.raises(NoAccess, match=r"there is no kubeconfig at .*none$"):
        find_access(tmp_path / "none")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}")
    with pytest.raises(NoAccess, match=r"there is no kubeconfig at .*none$"):
        find_access()
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{path}")
    assert find_access().host == "http://127.0.0.1:9", "of several one that is there will do"


def test_inside_a_cluster_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    authority = base64.b64encode(b"x" * 40)
    (tmp_path / "ca.crt").write_bytes(b"-----BEGIN CERTIFICATE-----\n" + authority + b"\n-----END CERTIFICATE-----\n")
    (tmp_path / "token").write_text("of-the-pod")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoAccess):
        from_service_account()
    with pytest.raises(NoAccess):
        find_access()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for access in (from_service_account(), find_access()):
        assert access.host == "https://10.0.0.1:443" and access.cluster == ""
        assert access.headers() == {"Authorization": "bearer of-the-pod"}
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path, "http://127.0.0.1:9").rename(tmp_path / ".kube" / "config")
    assert connect(in_cluster=True).server == "https://10.0.0.1:443"
