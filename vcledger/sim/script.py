"""A plan as the lines of a scenario, and back: to be read, cut down by hand, kept as a test, and run again.

Owns that mapping, which loses nothing that a run depends on. Must not know how a scenario is checked or run
(`vcledger.testing`). Called by `vcledger.sim.simulate` for a plan that failed, and by the runner of scenarios.

The first line says that the API server is simulated, from which seed, for how many seconds users and faults are at
work, and in `session`, where that is not the usual one, by which configuration the scheduler decides. What follows is
in the order of time, which `advance` moves on:

    {"type": "CONTROL", "object": {"op": "simulate", "seed": 7, "seconds": 120}}
    {"type": "ACTION", "object": {"action": "create", "kind": "Node", "object": {...}}}
    {"type": "CONTROL", "object": {"op": "advance", "seconds": 1.5}}
    {"type": "CONTROL", "object": {"op": "fault", "fault": "timeout-after", "verb": "POST", "kind": "Pod"}}

A world that is driven step by step (`vcledger.sim.held`), as the state machines do it, has `drive` in its first line,
and then the steps:

    {"type": "CONTROL", "object": {"op": "drive", "seed": 7}}
    {"type": "CONTROL", "object": {"op": "step", "do": "answer", "index": 0, "how": "done"}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from vcledger.sim.clock import SECOND
from vcledger.sim.faults import Fault
from vcledger.sim.plan import Doing, Plan

Line: TypeAlias = dict[str, Any]

MADE = ("create", "run")
"""Actions that bring an object with them."""

NAMED = ("label", "remove")
"""Actions on an object that is named."""

FAULT_KEYS = ("verb", "kind", "seconds", "count", "pick")

_INVARIANT = re.compile(r"invariant \d+, ([a-z-]+),")


def lines_of(plan: Plan) -> list[Line]:
    """The lines of a plan. Of what happens at the same moment users' doings come first, as in a run."""
    session = {"session": plan.session} if plan.session else {}
    found = [_control("simulate", seed=plan.seed, seconds=_seconds(plan.safety), **session)]
    happens = [(doing.at, _doing(doing)) for doing in plan.doings] + [
        (fault.at, _fault(fault)) for fault in plan.faults
    ]
    now = 0
    for at, line in sorted(happens, key=itemgetter(0)):
        if at > now:
            found.append(_control("advance", seconds=_seconds(at - now)))
            now = at
        found.append(line)
    return found


def plan_of(lines: Iterable[Line]) -> Plan:
    """The plan of such lines. Lines that are none of a plan's only have their place in time, see `times`."""
    seed = safety = 0
    session = ""
    doings: list[Doing] = []
    faults: list[Fault] = []
    for now, line in times(lines):
        body = line["object"]
        if body.get("op") == "simulate":
            seed, safety, session = body["seed"], round(body["seconds"] * SECOND), body.get("session", "")
        elif body.get("op") == "fault":
            faults.append(Fault(now, body["fault"], **{key: body[key] for key in FAULT_KEYS if key in body}))
        elif body.get("action") in MADE:
            meta = body["object"]["metadata"]
            where = meta.get("namespace", ""), meta["name"]
            doings.append(Doing(now, body["action"], body["kind"], *where, body["object"]))
        elif body.get("action") in NAMED:
            namespace, _, name = body["name"].rpartition("/")
            doings.append(Doing(now, body["action"], body["kind"], namespace, name))
    return Plan(seed, len(doings), False, safety, tuple(doings), tuple(faults), session)


def times(lines: Iterable[Line]) -> list[tuple[int, Line]]:
    """Each line with its time: microseconds after the world's start."""
    now = 0
    found = []
    for line in lines:
        if line["object"].get("op") == "advance":
            now += round(line["object"]["seconds"] * SECOND)
        found.append((now, line))
    return found


def driven_lines(seed: int, steps: Iterable[Line], session: str = "") -> list[Line]:
    """The lines of a world that is driven by these steps; `session`: the configuration under which it decides, '' for
    the plain one."""
    first = _control("drive", seed=seed, **({"session": session} if session else {}))
    return [first, *(_control("step", **step) for step in steps)]


def write(folder: Path, name: str, plan: Plan, broken: Sequence[str]) -> Path:
    """Writes a plan as name.jsonl with its expectations, see `write_lines`."""
    return write_lines(folder, name, lines_of(plan), broken, f"vcledger simulate --seed {plan.seed}, made smaller")


def write_lines(folder: Path, name: str, lines: Iterable[Line], broken: Sequence[str], source: str) -> Path:
    """Writes name.jsonl and its expectations into the folder: that nothing is broken in this world, of which `broken`
    was. The path of the script."""
    path = folder / f"{name}.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    rules = dict.fromkeys(found[1] for text in broken if (found := _INVARIANT.match(text)))
    expected = {
        "id": name,
        "source": source,
        "input": path.name,
        "note": f"when it was written: {'; '.join(broken)}",
        "facts": [{"invariant": rule, "broken": False} for rule in rules] + [{"world": "simulated", "broken": []}],
    }
    (folder / f"{name}.expect.json").write_bytes(msgspec.json.format(msgspec.json.encode(expected), indent=1) + b"\n")
    return path


def _control(op: str, **parts: Any) -> Line:
    return {"type": "CONTROL", "object": {"op": op, **parts}}


def _seconds(micros: int) -> int | float:
    return micros // SECOND if micros % SECOND == 0 else micros / SECOND


def _fault(fault: Fault) -> Line:
    usual = Fault(0, "")
    said = {key: value for key in FAULT_KEYS if (value := getattr(fault, key)) != getattr(usual, key)}
    return _control("fault", fault=fault.fault, **said)


def _doing(doing: Doing) -> Line:
    said: Line = {"action": doing.do, "kind": doing.kind}
    if doing.do in MADE:
        said["object"] = doing.object
    else:
        said["name"] = f"{doing.namespace}/{doing.name}" if doing.namespace else doing.name
    return {"type": "ACTION", "object": said}


__all__ = ["FAULT_KEYS", "MADE", "NAMED", "driven_lines", "lines_of", "plan_of", "times", "write", "write_lines"]
