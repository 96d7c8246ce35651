"""The list+watch machines of a scenario: its lines go in as what the API server sends, and what the machines say goes
into the flow.

Owns one machine a kind, each with an open watch from the script's first line on, and the watches that the script
expects. Must not know the flow's answers nor its facts. Called by `vcledger.testing.scenario`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vcledger.scheduler import inputs
from vcledger.scheduler.requests import path_of
from vcledger.sources import listwatch as lw
from vcledger.sources.lists import Known
from vcledger.testing.scenario_format import OBJECT_TYPES, ScenarioInvalid, Step
from volcano.events.observation import ListCompleted
from volcano.objects.kinds import BY_NAME, BY_RESOURCE, Kind, kind_of

if TYPE_CHECKING:
    from vcledger.testing.scenario import Runner


def kind_named(resource: str) -> Kind:
    """The kind of a resource, by `pods`, `podgroups` or `podgroups.scheduling.volcano.sh`. ScenarioInvalid."""
    found = BY_RESOURCE.get(resource) or next((one for one in BY_NAME.values() if one.resource == resource), None)
    if found is None:
        raise ScenarioInvalid(f"no resource is named {resource!r}; there are {', '.join(BY_RESOURCE)}")
    return found


class Feeds:
    """The list+watch machines of a scenario, one a kind, each with an open watch from the first line on."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._machines: dict[str, lw.ListWatch] = {}
        self._asks: dict[str, lw.AskList | lw.AskWatch] = {}
        self._expected: list[tuple[int, str, str]] = []
        self._last: str = ""
        self._fresh: dict[str, bool] = {}
        self.watched: dict[str, list[str]] = {}

    # --- what the script says -------------------------------------------------------------------------------------

    def line(self, step: Step) -> None:
        """A watch line. Kinds that the ledger does not keep are passed over."""
        if step.type == "ERROR":
            name = self._of_error(step)
        else:
            kind = kind_of(step.object["apiVersion"], step.object["kind"])
            if kind is None:
                if step.object["kind"] == "Status" and self._last:
                    self._open(step, self._last)
                    self._take(self._last, lw.Line(step.type, step.raw))
                return
            name = self._last = kind.name
        self._open(step, name)
        self._fresh[name] = False
        self._take(name, lw.Line(step.type, step.raw))
        if step.type in OBJECT_TYPES:
            self._seen(step.type, name, step.object, step.raw)

    def listed(self, step: Step) -> None:
        """The answer of a list, asked for or not."""
        kind = kind_of(step.object["apiVersion"], step.object["kind"].removesuffix("List"))
        if kind is None and step.object["kind"] == "List" and step.object.get("items"):
            first = step.object["items"][0]
            kind = kind_of(first.get("apiVersion", ""), first.get("kind", ""))
        if kind is None:
            raise ScenarioInvalid(f"line {step.line}: a list of {step.object['kind']}, which no ledger keeps")
        machine = self._machine(kind.name)
        if machine.state is lw.State.STOPPED:
            self._take(kind.name, lw.Start())
        elif machine.state is lw.State.LIST_LATER:
            self._take(kind.name, lw.Due())
        elif machine.state is not lw.State.LISTING:
            self._take(kind.name, lw.AskRelist())
        before = list(machine.known.values())
        self._take(kind.name, lw.Answered(200, step.raw))
        for one in before:
            if one.uid not in machine.known:
                self._runner.api.objects.pop(path_of(kind.name, one.namespace, one.name), None)
        for item, raw in zip(step.object.get("items") or (), raw_items(step.raw), strict=True):
            self._seen("ADDED", kind.name, item, raw)

    def closed(self, resource: str | None) -> None:
        """The watch of a resource ended, or all did."""
        for name in self._named(resource):
            if self._machines[name].state is lw.State.OPENING:
                self._take(name, lw.Answered(200))
            if self._machines[name].state is lw.State.WATCHING:
                self._take(name, lw.Closed())

    def reconnect(self, resource: str | None) -> None:
        """Whoever waits before the next try, tries now."""
        for name in self._named(resource):
            if self._machines[name].due is not None:
                self._take(name, lw.Due())

    def expect(self, step: Step, resource: str, version: str) -> None:
        """The next watch of the resource must carry a version: one that is out and has heard nothing yet counts."""
        name = kind_named(resource).name
        if self._fresh.get(name):
            self._check(step.line, resource, version, self.watched[resource][-1])
        else:
            self._expected.append((step.line, resource, version))

    def unmet(self) -> list[str]:
        """The watches that were expected and never asked for."""
        return [
            f"line {line}: no watch of {resource} was asked for; one from {version} is expected"
            for line, resource, version in self._expected
        ]

    def next_watch(self, resource: str) -> str | None:
        """What the watch carries that was asked for last, or the one that is asked for next."""
        machine = self._machines.get(kind_named(resource).name)
        asked = self.watched.get(resource)
        if machine is None:
            return None
        going = machine.state in (lw.State.OPENING, lw.State.WATCHING)
        return asked[-1] if asked and going else machine.version

    # --- what the machines ask ------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Timers that are due, and answers that API lines give to lists and watches."""
        for name, machine in self._machines.items():
            if machine.due is not None and machine.due <= self._runner.now:
                self._take(name, lw.Due())
            ask = self._asks.get(name)
            if ask is not None:
                self._answer(name, ask)

    def next_due(self) -> int | None:
        return min((one.due for one in self._machines.values() if one.due is not None), default=None)

    def _answer(self, name: str, ask: lw.AskList | lw.AskWatch) -> None:
        """A list waits for its LIST line. A watch opens at once, unless an API line has another answer to it."""
        watch = isinstance(ask, lw.AskWatch)
        line = self._runner.api.collection(("GET", "WATCH" if watch else "LIST"), path_of(name, ""))
        if line is not None:
            if line.line <= self._runner.api.at:
                line.used = True
                self._take(name, lw.Answered(line.answer.code, line.answer.body))
        elif watch:
            self._take(name, lw.Answered(200))

    def _take(self, name: str, heard: lw.Input) -> None:
        machine = self._machine(name)
        step = machine.take(heard, self._runner.now)
        for output in step.outputs:
            self._put(name, output)
        if isinstance(heard, lw.Answered) or step.ask is not None:
            self._asks.pop(name, None)
        if step.ask is not None:
            self._asks[name] = step.ask
        if isinstance(step.ask, lw.AskWatch):
            self._watch(BY_NAME[name].full_resource, name, step.ask.resource_version)

    def _watch(self, resource: str, name: str, version: str) -> None:
        self.watched.setdefault(resource, []).append(version)
        self._fresh[name] = True
        for one in [one for one in self._expected if kind_named(one[1]).name == name]:
            self._expected.remove(one)
            self._check(one[0], one[1], one[2], version)

    def _check(self, line: int, resource: str, wanted: str, version: str) -> None:
        if version != wanted:
            self._runner.problems.append(
                f"line {line}: the watch of {resource} carries {version!r}, expected {wanted!r}"
            )

    def _put(self, name: str, output: lw.Output) -> None:
        put = self._runner.loop.put
        if isinstance(output, lw.Change):
            put(inputs.Observed(name, output.type, output.object))
        elif isinstance(output, lw.Inferred):
            put(inputs.Observed(name, "DELETED", self._last_state(name, output.known), inferred=True))
        elif isinstance(output, lw.Tell):
            event = output.event
            if isinstance(event, ListCompleted):
                put(inputs.Listed(name, event.resource_version, event.items, event.relist))
            else:
                put(inputs.Noted(name, event))

    def _last_state(self, name: str, known: Known) -> bytes:
        return self._runner.api.objects[path_of(name, known.namespace, known.name)]

    # --- the rest -------------------------------------------------------------------------------------------------

    def _machine(self, name: str) -> lw.ListWatch:
        if name not in self._machines:
            self._machines[name] = lw.ListWatch(name)
        return self._machines[name]

    def _open(self, step: Step, name: str) -> None:
        """Sees to it that the kind's watch is open, as its line says."""
        machine = self._machine(name)
        if machine.state is lw.State.STOPPED:
            machine.watching("", self._runner.now)
        if machine.state is lw.State.WATCH_LATER:
            self._take(name, lw.Due())
        if machine.state is lw.State.OPENING:
            self._take(name, lw.Answered(200))
        if machine.state is not lw.State.WATCHING:
            raise ScenarioInvalid(
                f"line {step.line}: a watch line of {machine.resource}, which have to be listed first (a LIST line)"
            )

    def _of_error(self, step: Step) -> str:
        """Whose watch an ERROR line ends: that of the list which follows it, else that of the last watch line."""
        for after in self._runner.script.steps:
            if after.line > step.line and after.type == "ERROR":
                break
            if after.line > step.line and after.type == "LIST":
                kind = kind_of(after.object["apiVersion"], after.object["kind"].removesuffix("List"))
                if kind is not None:
                    return kind.name
        if not self._last:
            raise ScenarioInvalid(f"line {step.line}: an ERROR line before any object: of which watch is not known")
        return self._last

    def _named(self, resource: str | None) -> list[str]:
        return list(self._machines) if resource is None else [kind_named(resource).name]

    def _seen(self, change: str, name: str, obj: dict[str, Any], raw: bytes) -> None:
        meta = obj["metadata"]
        path = path_of(name, meta.get("namespace", ""), meta["name"])
        if change == "DELETED":
            self._runner.api.objects.pop(path, None)
        else:
            self._runner.api.objects[path] = raw


class _Items(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_items = msgspec.json.Decoder(_Items)


def raw_items(data: bytes) -> list[bytes]:
    """The items of a list, each as it stands there."""
    return [bytes(item) for item in _items.decode(data).items or ()]
