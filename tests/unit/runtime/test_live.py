"""Under real time: the clock, the workers, and a pod bound from end to end on threads."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventstore import open_store
from tests.unit.scheduler.build import Answer, node, pod, said, status
from vcledger.runtime.clock import SystemClock
from vcledger.runtime.effects import Workers
from vcledger.runtime.live import Live
from vcledger.runtime.loop import Loop
from vcledger.scheduler.inputs import Answered, Effect, Observed, ScheduleTask, SetBindErrorHandler
from vcledger.scheduler.requests import Bind, CallHandler, Get, Request


class Port:
    """An API server that answers by a function."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.answer = answer

    def do(self, request: Request) -> Answer:
        return self.answer(request)

    def list(self, *args: Any, **options: Any) -> Answer:
        return Answer(404)

    def watch(self, *args: Any, **options: Any) -> Answer:
        return Answer(404)


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "it did not come to that within 120 s"
        time.sleep(0.005)


def test_the_clock_never_goes_back() -> None:
    readings = iter([5_000_000, 3_000_000, 7_000_000])
    clock = SystemClock(lambda: next(readings))
    assert [clock.now(), clock.now(), clock.now()] == [5_000, 5_000, 7_000]


def test_every_effect_gets_one_answer_whatever_is_raised() -> None:
    def answer(request: Request) -> Answer:
        if isinstance(request, Bind):
            raise ConnectionError("reset")
        return said(pod("p1"))

    def handler(call: CallHandler) -> None:
        raise RuntimeError(f"{call.name} is not to be handled")

    answers: list[Answered] = []
    workers = Workers(Port(answer), answers.append, threads=2, handlers={"h": handler, "fine": lambda call: None})
    effects = [
        Effect(1, Bind("d", "p1", "u", "n1")),
        Effect(2, Get("Pod", "d", "p1")),
        Effect(3, CallHandler("h", "d", "p1", "u", "n1")),
        Effect(4, CallHandler("fine", "d", "p1", "u", "n1")),
        Effect(5, CallHandler("unknown", "d", "p1", "u", "n1")),
    ]
    for effect in effects:
        workers.carry_out(effect)
    eventually(lambda: len(answers) == len(effects))
    workers.close()
    codes = {one.effect.intent: one.answer.code for one in answers}
    assert codes == {1: None, 2: 200, 3: 500, 4: 200, 5: 404}
    workers.carry_out(effects[0])
    assert len(answers) == len(effects)


def test_a_pod_is_bound_under_real_time_after_its_handler_has_worked(tmp_path: Path) -> None:
    """The first binding is refused, the pod read again, the handler called; the second one succeeds."""
    bindings: list[Bind] = []
    called: list[CallHandler] = []
    store = open_store(str(tmp_path / "flow.db"), create=True)
    workers: Workers

    def answer(request: Request) -> Answer:
        if isinstance(request, Bind):
            bindings.append(request)
            return status(500, "boom") if len(bindings) == 1 else Answer(201)
        return said(pod("p1"))

    def carry_out(effect: Effect) -> None:
        workers.carry_out(effect)

    loop = Loop(store, "c", carry_out=carry_out)
    live = Live(loop, SystemClock())
    workers = Workers(Port(answer), live.put, handlers={"h": called.append})
    thread = threading.Thread(target=live.run)
    thread.start()
    for obj in (node("n1"), pod("p1")):
        live.put(Observed(obj["kind"], "ADDED", json.dumps(obj).encode()))
    live.put(SetBindErrorHandler("d/p1", "h"))
    live.put(ScheduleTask("d/p1"))
    eventually(lambda: len(called) == 1)
    live.put(ScheduleTask("d/p1"))
    eventually(lambda: len(bindings) == 2)
    live.put(Observed("Pod", "MODIFIED", json.dumps(pod("p1", 120, node="n1")).encode()))
    eventually(lambda: loop.idle and not loop.outstanding)
    live.stop()
    thread.join()
    workers.close()
    assert loop.flow.cache.nodes["n1"].idle.milli_cpu == 3000
    assert loop.rebuild().digest() == loop.flow.digest()
    store.close()
