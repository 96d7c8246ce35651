"""A scheduler in a thread of this process, and what tests of it wait for and look at.

Owns these helpers. Must not know what is tested. Called by the tests of this folder that run `vcledger schedule` on the
real API server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.kube import things
from tests.kube.control_plane import ControlPlane
from tests.kube.proxy import Proxy
from vcledger.ledger import Ledger
from vcledger.runtime.wire import WirePort, connect
from vcledger.schedule.election import Timing
from vcledger.schedule.scheduler import Options, Outcome, Scheduler, State

CLUSTER = "real"
PATIENCE_SECONDS = 300.0

LOCK = Timing(60, 40.0, 0.5)
"""Asked for often, and not lost because the machine is busy: whoever ends gives it up, so nobody waits so long."""

QUICK = Options(lock=None, period_seconds=0.5, bind_timeout_seconds=6.0, settle_seconds=8.0, absent_seconds=5.0)


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Waits for something; fails with what it was."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:g} s: {what}")
        time.sleep(0.2)


class Running:
    """A scheduler in a thread of this process."""

    def __init__(
        self, db: str, port: WirePort, options: Options, lock_port: WirePort | None = None, name: str = "one"
    ) -> None:
        self.lines: list[str] = []
        told = self.lines.append
        self.scheduler = Scheduler(db, CLUSTER, port, options, lock_port=lock_port, told=told, identity=name)
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self.scheduler.run()
        except BaseException as error:
            self.error = error

    @property
    def state(self) -> State:
        return self.scheduler.state()

    def end(self) -> Outcome:
        """Stops it and waits."""
        self.scheduler.stop()
        self._thread.join(PATIENCE_SECONDS)
        assert self.error is None, self.error
        assert self.outcome is not None
        return self.outcome

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()


@contextmanager
def running(db: str, port: WirePort, options: Options = QUICK) -> Iterator[Running]:
    """A scheduler, and its end."""
    one = Running(db, port, options)
    try:
        yield one
    finally:
        one.scheduler.stop()
        port.close()


def through(proxy: Proxy, seconds: float = 60.0) -> WirePort:
    """The way to the server by the proxy; after how long an answer is given up, which is short only where one hangs."""
    return WirePort(connect(kubeconfig=proxy.kubeconfig).access, request_seconds=seconds)


def is_sound(db: str) -> None:
    """`check` and `verify` find nothing."""
    for command in ("check", "verify"):
        done = CliRunner().invoke(app, [command, "--db", db])
        assert done.exit_code == 0, (command, done.output)


def agrees(db: str, plane: ControlPlane, namespace: str) -> None:
    """The ledger's cache holds each pod where the server has it."""
    with Ledger.open(db) as ledger:
        cache = ledger.cache(cluster=CLUSTER, model="exact")
    held = {key: name for name, info in cache.nodes.items() for key in info.tasks}
    there = {
        f"{namespace}/{name}": pod["spec"]["nodeName"]
        for name, pod in things.pods(plane, namespace).items()
        if pod["spec"].get("nodeName") in cache.nodes
    }
    assert held == there
    nodes = {item["metadata"]["name"] for item in plane.request("GET", "/api/v1/nodes")["items"]}
    # A node that is gone keeps its place while pods are on it; it has no object any more.
    assert {name for name, info in cache.nodes.items() if info.node is not None} == nodes


def nodes_of(plane: ControlPlane, namespace: str) -> dict[str, str]:
    return {name: pod["spec"].get("nodeName", "") for name, pod in things.pods(plane, namespace).items()}


def settle(one: Running, plane: ControlPlane) -> None:
    """Until the log has got to where the server is: a label that is given last has been seen."""
    body = {"metadata": {"name": "end", "labels": {"end": "yes"}}}
    plane.request("POST", "/api/v1/nodes", body, code=201)
    until(
        lambda: one.scheduler.loop is not None and "end" in one.scheduler.loop.flow.cache.node_objects, "the last node"
    )
