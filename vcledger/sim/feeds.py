"""List and watch of each kind, over the simulated server and with its faults, into the loop.

Owns the carrying out of what `vcledger.sources.listwatch` asks, and the delays. Must not know what the loop makes of
it. Called by `vcledger.sim.world`.

Lines of one kind keep their order, whatever comes between; those of different kinds overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from vcledger.runtime.port import Answer
from vcledger.scheduler.inputs import Input, Listed, Noted, Observed
from vcledger.sim import status
from vcledger.sim.clock import MILLISECOND, Timeline
from vcledger.sim.mvcc import Revision
from vcledger.sim.server import SimulatedApi, SimulatedWatch
from vcledger.sources import listwatch
from vcledger.sources.lists import Known
from vcledger.sources.listwatch import Answered, AskList, AskWatch, Closed, Due, Line, ListWatch, Start, State
from volcano.events.observation import ListCompleted

LATENCY = (1, 40)
"""Least and most milliseconds of a list, and of a line's way."""

PAGE = 7
"""Items in a page: small, so that each list has several."""


class Feed:
    """One kind. `last`: what the log has of its objects by UID, with their JSON. `put` takes the inputs.

    The faults that hold: `held_until` (no line before), `twice` (lines that come again), `stale`, `misses`, `fails`
    (the next so many lists)."""

    def __init__(
        self,
        kind: str,
        api: SimulatedApi,
        timeline: Timeline,
        chance: Random,
        put: Callable[[Input], None],
        last: dict[str, tuple[Known, bytes]],
    ) -> None:
        self.kind, self.api, self.timeline, self.chance, self.put = kind, api, timeline, chance, put
        self.machine = ListWatch(kind, limit=PAGE, known=[known for known, _ in last.values()])
        self.bodies: dict[str, bytes] = {uid: body for uid, (_, body) in last.items()}
        self.refused: list[str] = []
        self.held_until = self.twice = self.stale = self.misses = self.fails = 0
        self._watch: SimulatedWatch | None = None
        self._alive = True
        self._polled: int | None = None
        self._arrived = 0
        api.store.listeners.append(self._written)

    def start(self) -> None:
        """Begins with a list."""
        self._take(Start())

    def stop(self) -> None:
        """The process is gone: nothing comes of what is still on its way."""
        self._alive = False
        self.api.store.listeners.remove(self._written)

    def relist(self, reason: str) -> None:
        """Lists anew, as somebody doubts what is known."""
        if self.machine.state is not State.STOPPED:
            self._take(listwatch.AskRelist(reason))

    def poll_soon(self) -> None:
        """Looks at the watch after the way of a line."""
        if self._polled is None and self._alive:
            self._polled = self._due(*LATENCY)
            self.timeline.at(self._polled, self._poll)

    # --- carrying out ---------------------------------------------------------------------------------------------

    def _take(self, heard: listwatch.Input) -> None:
        step = self.machine.take(heard, self.timeline.now, self.chance.random())
        for output in step.outputs:
            self._give(output)
        if isinstance(step.ask, AskList | AskWatch):
            self._ask(step.ask)
        elif self.machine.due is not None:
            self._wait(self.machine.due)

    def _wait(self, due: int) -> None:
        def act() -> None:
            if self._alive and self.machine.due == due:
                self._take(Due())

        self.timeline.at(due, act)

    def _ask(self, ask: AskList | AskWatch) -> None:
        """Sends a list or a watch; an answer that the machine does not wait for any more is dropped."""
        self._watch = None

        def arrive() -> None:
            if self._alive:
                answer = self._listed(ask) if isinstance(ask, AskList) else self._watched(ask)
                self.timeline.after(self.chance.randint(*LATENCY) * MILLISECOND, lambda: back(answer))

        wanted = State.LISTING if isinstance(ask, AskList) else State.OPENING

        def back(answer: Answer | SimulatedWatch) -> None:
            if not self._alive or self.machine.state is not wanted or self._asked is not ask:
                return
            if isinstance(answer, Answer):
                self._take(Answered(answer.code, answer.body))
            else:
                self._watch = answer
                self._take(Answered(200))
                self.poll_soon()

        self._asked = ask
        self.timeline.after(self.chance.randint(*LATENCY) * MILLISECOND, arrive)

    def _listed(self, ask: AskList) -> Answer:
        if self.fails > 0:
            self.fails -= 1
            return Answer(500, msgspec.json.encode(status.internal("etcdserver: leader changed")))
        if self.stale and not ask.continue_:
            lag, self.stale = self.stale, 0
            return self.api.list_at(self.kind, self.api.version - lag)
        answer = self.api.list(self.kind, limit=ask.limit, continue_=ask.continue_)
        if self.misses and answer.ok:
            return self._without_one(answer)
        return answer

    def _without_one(self, answer: Answer) -> Answer:
        body = msgspec.json.decode(answer.body)
        if body["items"]:
            del body["items"][self.misses % len(body["items"])]
            self.misses = 0
        return Answer(answer.code, msgspec.json.encode(body))

    def _watched(self, ask: AskWatch) -> Answer | SimulatedWatch:
        return self.api.watch(self.kind, resource_version=ask.resource_version)

    # --- lines ----------------------------------------------------------------------------------------------------

    def _written(self, revision: Revision) -> None:
        if revision.kind == self.kind and self._watch is not None:
            self.poll_soon()

    def _due(self, least: int, most: int) -> int:
        """When what is sent now arrives: after a fault's delay, and not before what was sent earlier."""
        due = self.timeline.now + self.chance.randint(least, most) * MILLISECOND
        self._arrived = max(due, self.held_until, self._arrived)
        return self._arrived

    def _poll(self) -> None:
        self._polled = None
        watch = self._watch
        if not self._alive or watch is None:
            return
        if self.timeline.now < self.held_until:
            self.poll_soon()
            return
        for line in watch.take():
            for _ in range(self._copies()):
                if self._watch is watch:
                    self._take(Line(line.type, line.object))
        if self._watch is watch and watch.closed:
            self._watch = None
            self._take(Closed())

    def _copies(self) -> int:
        if self.twice <= 0:
            return 1
        self.twice -= 1
        return 2

    def _give(self, output: listwatch.Output) -> None:
        match output:
            case listwatch.Change(type=change, object=body):
                uid = msgspec.json.decode(body)["metadata"]["uid"]
                if change == "DELETED":
                    self.bodies.pop(uid, None)
                else:
                    self.bodies[uid] = body
                self.put(Observed(self.kind, change, body))
            case listwatch.Inferred(known=known):
                body = self.bodies.pop(known.uid)
                self.put(Observed(self.kind, "DELETED", body, inferred=True))
            case listwatch.Tell(event=ListCompleted() as done):
                self.put(Listed(self.kind, done.resource_version, done.items, done.relist))
            case listwatch.Tell(event=event):
                self.put(Noted(self.kind, event))
            case listwatch.Refused(reason=reason):
                self.refused.append(reason)
