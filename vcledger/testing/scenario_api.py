"""The API server that a scenario's script plays: its API lines, and what its watch lines have said.

Owns which line answers which request. Must not know the loop nor what a request is for. Called by
`vcledger.testing.scenario`.

A request is answered by the first line of its verb and path that was not used yet, once the script has got there; until
then it waits. One that no line answers: a GET gets the object as the watch lines have it, writes of a status or of an
Event are accepted, and any other write is the scenario's failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from vcledger.errors import VcledgerError
from vcledger.scheduler.inputs import Effect
from vcledger.scheduler.requests import Answer, Request
from vcledger.testing.scenario_format import Step

READS = frozenset({"GET"})
NOT_FOUND = 404


class Unanswered(VcledgerError):
    """The flow asked for a write that no line of the script answers."""


class ApiLine(msgspec.Struct):
    """An API line of the script, and whether a request has used it."""

    line: int
    verb: str
    path: str
    answer: Answer
    optional: bool
    used: bool = False


class Call(NamedTuple):
    """A request that was made: when (microseconds), and after which line of the script."""

    request: Request
    at: int
    line: int


def bare(path: str) -> str:
    """A path without its query."""
    return path.partition("?")[0].rstrip("/")


def _line(step: Step) -> ApiLine:
    found = step.object
    body = found.get("body")
    answer = Answer(found["code"], msgspec.json.encode(body) if body is not None else b"")
    return ApiLine(step.line, found["verb"], bare(found["path"]), answer, found.get("optional", False))


class ScriptedApi:
    """`at` is the line that the script has got to; `objects` what the watch lines said, by path."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.lines = [_line(step) for step in steps if step.type == "API"]
        self.objects: dict[str, bytes] = {}
        self.calls: list[Call] = []
        self.waiting: list[Effect] = []
        self.at = 0

    def ask(self, effect: Effect, now: int) -> None:
        """A request goes out."""
        self.calls.append(Call(effect.request, now, self.at))
        self.waiting.append(effect)

    def died(self) -> None:
        """The process that waits for the answers is gone."""
        self.waiting.clear()

    def answers(self) -> list[tuple[Effect, Answer]]:
        """What can be answered now, in the order asked. Unanswered on a write that nothing answers."""
        found, self.waiting = self.waiting, []
        ready: list[tuple[Effect, Answer]] = []
        for effect in found:
            answer = self._answer(effect.request)
            if answer is None:
                self.waiting.append(effect)
            else:
                ready.append((effect, answer))
        return ready

    def answerable(self) -> bool:
        """Whether something that waits could be answered now."""
        return any(self._reached(effect.request) for effect in self.waiting)

    def _reached(self, request: Request) -> bool:
        line = self._line(request)
        return line is None or line.line <= self.at

    def _line(self, request: Request) -> ApiLine | None:
        """The first unused line of the request's verb and path."""
        wanted = request.verb, bare(request.path)
        return next((one for one in self.lines if not one.used and (one.verb, one.path) == wanted), None)

    def collection(self, verbs: Iterable[str], path: str) -> ApiLine | None:
        """The next unused line that answers a list or a watch of a collection, reached or not."""
        wanted = frozenset(verbs)
        return next((one for one in self.lines if not one.used and one.verb in wanted and one.path == path), None)

    def _answer(self, request: Request) -> Answer | None:
        verb, path = request.verb, bare(request.path)
        line = self._line(request)
        if line is not None:
            if line.line > self.at:
                return None
            line.used = True
            return line.answer
        if verb in READS:
            body = self.objects.get(path)
            return Answer(200, body) if body is not None else Answer(NOT_FOUND, _not_found(path))
        if path.endswith("/status"):
            return Answer(200, self.objects.get(path.removesuffix("/status"), b"{}"))
        if "/events" in path:
            return Answer(201 if verb == "POST" else 200, b"{}")
        raise Unanswered(f"after line {self.at}: {verb} {path} was asked for, and no API line answers it")

    def never_asked(self) -> list[ApiLine]:
        """The lines that had to be asked for and were not."""
        return [one for one in self.lines if not one.used and not one.optional]

    def count(self, verb: str, path: str) -> int:
        """How many requests were made. STATUS as the verb: writes of that object's status subresource."""
        return count_of(self.calls, verb, path)


def count_of(calls: Iterable[Call], verb: str, path: str) -> int:
    """How many of the calls were of the verb and path. STATUS: any write of that object's status subresource."""
    wanted = bare(path)
    if verb != "STATUS":
        return sum((call.request.verb, bare(call.request.path)) == (verb, wanted) for call in calls)
    wanted = wanted if wanted.endswith("/status") else f"{wanted}/status"
    return sum(call.request.verb not in READS and bare(call.request.path) == wanted for call in calls)


def _not_found(path: str) -> bytes:
    name = path.rpartition("/")[2]
    resource = path.split("/")[-2]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'{resource} "{name}" not found',
        "reason": "NotFound",
        "code": NOT_FOUND,
    }
    return msgspec.json.encode(status)


__all__ = ["ApiLine", "Call", "ScriptedApi", "Unanswered", "bare", "count_of"]
