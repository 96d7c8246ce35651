"""The order of a scenario's lines: what none of them alone shows to be wrong.

Owns the check of it: `ScenarioInvalid` names the line that is out of place. Must not know a line's own keys
(`vcledger.testing.scenario_lines`) nor how it is run. Called by `vcledger.testing.scenario_format`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcledger.testing.scenario_lines import IN_A_WORLD
from vcledger.testing.scenario_values import EXPECTATIONS_SUFFIX, OBJECT_TYPES, ScenarioInvalid, Script


def check_order(script: Script) -> None:
    """What cannot be in this order: actions on pods that nothing has shown, pods handed over that nothing has assumed,
    storage steps between others, a transaction that ends before it began, a checkpoint after a line that is not
    there."""
    name, seen, assumed = script.path.name, set[str](), set[str]()
    lines = {step.line for step in script.steps}
    for one in script.checkpoints:
        if one.after_line not in lines:
            raise ScenarioInvalid(
                f"{name.removesuffix('.jsonl')}{EXPECTATIONS_SUFFIX}, line {one.line}: the script has no line "
                f"{one.after_line}"
            )
    if script.simulated:
        _check_world(script)
    if script.driven:
        _check_driven(script)
    for step in script.steps:
        place = f"{name}, line {step.line}"
        word = step.object.get("op") or step.object.get("action")
        if not script.driven and step.type == "CONTROL" and word in ("drive", "step"):
            raise ScenarioInvalid(f"{place}: `{word}` needs a world that is driven: `drive` as the first line")
        if not script.simulated and step.type in ("ACTION", "CONTROL") and word in (*IN_A_WORLD, "simulate"):
            raise ScenarioInvalid(f"{place}: `{word}` needs a simulated API server: `simulate` as the first line")
        if script.storage and step.type not in ("DB", "CONTROL"):
            raise ScenarioInvalid(f"{place}: a script of storage steps has no {step.type} lines")
        if step.type in OBJECT_TYPES and step.object["kind"] == "Pod":
            seen.add(_key(step.object))
        elif step.type == "LIST":
            seen.update(_key(item) for item in step.object.get("items") or () if isinstance(item, dict))
        elif step.type == "ACTION":
            wanted = [step.object["pod"]] if "pod" in step.object else step.object.get("pods", [])
            if step.object.get("kind") == "Pod" and "object" in step.object:
                seen.add(_key(step.object["object"]))
            unknown = next((pod for pod in wanted if pod not in seen), None)
            if unknown is not None:
                raise ScenarioInvalid(f"{place}: no line before has shown a pod {unknown}")
            if step.object["action"] == "assume":
                assumed.update(wanted)
            early = next((pod for pod in wanted if pod not in assumed), None)
            if early is not None and step.object["action"] in ("bind", "flush"):
                raise ScenarioInvalid(f"{place}: {early} is handed over, and no line before has assumed it")
    _check_transactions(script)


def _check_world(script: Script) -> None:
    """What has no place where the API server is simulated: lines and answers of it, and time after the world's end."""
    name, left = script.path.name, script.steps[0].object["seconds"] * 1.0
    for step in script.steps[1:]:
        place = f"{name}, line {step.line}"
        operation = step.object.get("op")
        if step.type not in ("ACTION", "CONTROL"):
            raise ScenarioInvalid(f"{place}: the API server is simulated: a {step.type} line has no place here")
        if step.type == "CONTROL" and operation not in ("advance", "fault"):
            raise ScenarioInvalid(f"{place}: `{operation}` has no place where the API server is simulated")
        if operation == "advance":
            left -= step.object["seconds"]
            if left < -1e-6:
                raise ScenarioInvalid(f"{place}: the world's {script.steps[0].object['seconds']} seconds are over")


def _check_driven(script: Script) -> None:
    """What has no place in a world that is driven: anything but its steps."""
    for step in script.steps[1:]:
        if step.type != "CONTROL" or step.object["op"] != "step":
            place = f"{script.path.name}, line {step.line}"
            raise ScenarioInvalid(f"{place}: the world is driven: nothing but `step` has a place here")


def _check_transactions(script: Script) -> None:
    open_: set[str] = set()
    for step in script.steps:
        if step.type != "DB" or "tx" not in step.object:
            continue
        tx, operation = step.object["tx"], step.object["op"]
        if (operation == "begin") == (tx in open_):
            word = "has begun already" if operation == "begin" else "has not begun"
            raise ScenarioInvalid(f"{script.path.name}, line {step.line}: transaction {tx} {word}")
        if operation == "begin":
            open_.add(tx)
        elif operation != "insert":
            open_.discard(tx)


def _key(obj: Mapping[str, Any]) -> str:
    meta = obj.get("metadata") or {}
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"
