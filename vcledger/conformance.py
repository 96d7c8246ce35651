"""Runs golden vectors of Volcano's cache on our fold and says, step by step, what differs.

Owns the reading of a vector and the comparison. Must not know files nor the terminal: it takes a parsed vector and
returns values. Called by `cli.conformance` and the tests.

Format and comparison: data/vectors README. A missing scalar is zero, numbers are compared as float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from projections.cache import Cache, CacheConfig, Delivery, observe, state_json
from projections.cache.actions import ActionRefused
from projections.cache.fold import deliver_to_handler, relist
from projections.cache.stores import keys
from vcledger.conformance_actions import Harness
from volcano.objects.core import Pod
from volcano.objects.kinds import KINDS, kind_of
from volcano.objects.resource import ResourceInsufficient

PASSED, FAILED, NOT_RUN, UNCHECKED = "passed", "failed", "not run", "unchecked"


class VectorInvalid(ValueError):
    """A vector that doesn't follow the format."""


class StepResult(NamedTuple):
    """One step's outcome: PASSED, FAILED, NOT_RUN (an action that isn't implemented, or a step after one) or UNCHECKED
    (run, but the vector expects nothing of it). `differences` are 'path: expected X, got Y'."""

    step: int
    outcome: str
    what: str
    differences: tuple[str, ...] = ()


class VectorResult(NamedTuple):
    """A vector's outcome. `passed`: no step failed and at least one was checked."""

    description: str
    model: str
    steps: tuple[StepResult, ...]

    @property
    def failed(self) -> bool:
        return any(step.outcome == FAILED for step in self.steps)

    @property
    def passed(self) -> bool:
        return not self.failed and any(step.outcome == PASSED for step in self.steps)

    @property
    def complete(self) -> bool:
        return not any(step.outcome == NOT_RUN for step in self.steps)


def model_of(version: str) -> str:
    """The model that a Volcano version such as v1.10.2 names: 1.10's up to 1.10, 1.11's from 1.11 on."""
    parts = version.removeprefix("v").split(".")
    try:
        release = (int(parts[0]), int(parts[1]))
    except (ValueError, IndexError):
        raise VectorInvalid(f"volcano_version {version!r} is no version such as v1.10.2") from None
    return "volcano-1.10" if release <= (1, 10) else "volcano-1.11"


def config_of_vector(vector: Mapping[str, Any]) -> CacheConfig:
    config = vector.get("config") or {}
    return CacheConfig(
        scheduler_names=tuple(config.get("scheduler_names", ("volcano",))),
        default_queue=config.get("default_queue", "default"),
        node_selectors=tuple(config.get("node_selectors", ())),
    )


def run_vector(vector: Mapping[str, Any], model: str | None = None) -> VectorResult:
    """Run every step that can be run, under the model that the vector's version names unless told otherwise. Raises
    VectorInvalid."""
    steps, expected = vector.get("steps"), vector.get("expected")
    if not isinstance(steps, list) or not isinstance(expected, list) or len(steps) != len(expected):
        raise VectorInvalid("a vector has `steps` and `expected` of the same length")
    results = vector.get("results") or [None] * len(steps)
    name = model or model_of(str(vector.get("volcano_version", "")))
    runner = VectorRunner(Cache(name, config_of_vector(vector)))
    outcomes: list[StepResult] = []
    stopped = False
    for index, step in enumerate(steps):
        what = _what(step)
        if stopped or not runner.can_run(step):
            stopped = True
            outcomes.append(StepResult(index, NOT_RUN, what))
            continue
        got = runner.run(step)
        differences = compare_result(results[index], got)
        if expected[index] is not None:
            differences += compare_states(expected[index], state_json(runner.cache))
        outcome = FAILED if differences else (PASSED if expected[index] is not None else UNCHECKED)
        outcomes.append(StepResult(index, outcome, what, tuple(differences)))
        stopped = "panic" in got
    return VectorResult(str(vector.get("description", "")), name, tuple(outcomes))


def _what(step: Mapping[str, Any]) -> str:
    if "event" in step:
        event = step["event"]
        meta = event["object"].get("metadata", {})
        return f"{event['type']} {event['object'].get('kind')} {meta.get('namespace', '')}/{meta.get('name')}"
    return str(step.get("action"))


def _kind_name(obj: Mapping[str, Any]) -> str:
    kind = kind_of(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    if kind is None:
        raise VectorInvalid(f"no kind {obj.get('apiVersion')}/{obj.get('kind')}")
    return kind.name


_STRUCTS = {kind.name: kind.struct for kind in reversed(KINDS)}


class VectorRunner:
    """A cache under the vectors' steps: the informer's stand-in, and the scheduler's own actions."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.position = 0
        self.harness = Harness(cache)

    def can_run(self, step: Mapping[str, Any]) -> bool:
        return "event" in step or step.get("action") in ACTIONS

    def run(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Run one step; what came of it, in the shape of the vector's `results`."""
        self.position += 1
        self.cache.position = self.position
        try:
            if "event" in step:
                return self.event(step["event"], str(step.get("delivery", "informer")))
            return self.act(step)
        except ResourceInsufficient as panic:
            return {"panic": str(panic)}
        except ActionRefused as refusal:
            return {"error": str(refusal)}

    def act(self, step: Mapping[str, Any]) -> dict[str, Any]:
        action = step["action"]
        if action == "relist":
            return self.relist(step)
        if action == "api_set":
            return self.harness.api_set(step, self.decode(step["object"])[1])
        result: dict[str, Any] = getattr(self.harness, action)(step)
        return result

    def decode(self, obj: Mapping[str, Any]) -> tuple[str, Any]:
        kind = _kind_name(obj)
        return kind, msgspec.convert(obj, _STRUCTS[kind])

    def event(self, event: Mapping[str, Any], delivery: str) -> dict[str, Any]:
        if event["type"] == "BOOKMARK":
            return {"dropped": "bookmark"}
        kind, obj = self.decode(event["object"])
        gone = event["type"] == "DELETED"
        before = self.harness.api.get(_key(event["object"]))
        if kind == "Pod":
            self.answer(obj, gone)
        if delivery == "handler":
            deliver_to_handler(self.cache, event["type"], Delivery(kind, obj), self.position, before)
        elif gone and _key(event["object"]) not in keys(self.cache, kind):
            return {"dropped": "delete of an object the informer does not know"}
        else:
            observe(self.cache, Delivery(kind, obj, gone=gone), self.position)
            if kind in ("Node", "CSINode") and not self.cache.synced:
                return {"node_sync_error": True}
        if kind == "Pod" and not gone:
            self.harness.note(obj)
        return {}

    def answer(self, pod: Pod, gone: bool) -> None:
        """Each pod event sets what the API server answers to a GET."""
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if gone:
            self.harness.api.pop(key, None)
        else:
            self.harness.api[key] = pod

    def relist(self, step: Mapping[str, Any]) -> dict[str, Any]:
        kind = str(step["kind"])
        objects = [self.decode(item)[1] for item in step["items"]]
        relist(self.cache, kind, objects, self.position)
        for obj in objects if kind == "Pod" else ():
            self.answer(obj, gone=False)
            self.harness.note(obj)
        return {}


ACTIONS = frozenset(
    {
        "add_bind_task",
        "api_delete",
        "api_set",
        "assume",
        "cleanup_jobs",
        "evict",
        "node_add_task",
        "node_remove_task",
        "process_binds",
        "relist",
        "resync",
        "set_job_fit_errors",
        "set_status",
        "set_task_fit_error",
        "snapshot",
        "sync_nodes",
        "task_unschedulable",
        "unassume",
        "update_job_status",
    }
)


def _key(obj: Mapping[str, Any]) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


# --- comparison ---------------------------------------------------------------------------------------------------


def compare_result(expected: Mapping[str, Any] | None, got: Mapping[str, Any]) -> list[str]:
    """The differences between a step's `results` entry and ours, each as a line."""
    return _compare("result", dict(expected or {}), dict(got))


def compare_states(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """The differences between two states in the vectors' shape, each as a line; a scalar that one lacks is zero."""
    return _compare("", expected, got)


def _compare(path: str, expected: Any, got: Any) -> list[str]:
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        lines: list[str] = []
        for key in sorted({*expected, *got}):
            here = f"{path}.{key}" if path else str(key)
            default = _default(path, key)
            lines += _compare(here, expected.get(key, default), got.get(key, default))
        return lines
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return [line for index, (one, two) in pairs for line in _compare(f"{path}[{index}]", one, two)]
    if _number(expected) and _number(got):
        return [] if float(expected) == float(got) else [f"{path}: expected {expected}, got {got}"]
    return [] if expected == got else [f"{path}: expected {_show(expected)}, got {_show(got)}"]


_ABSENT = "(absent)"


def _default(path: str, key: str) -> Any:
    """What a missing entry counts as: a scalar is 0, a nil map of them is empty."""
    if path.endswith(".scalars"):
        return 0
    return {} if key == "scalars" else _ABSENT


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"


__all__ = [
    "FAILED",
    "NOT_RUN",
    "PASSED",
    "UNCHECKED",
    "StepResult",
    "VectorInvalid",
    "VectorResult",
    "VectorRunner",
    "compare_states",
    "config_of_vector",
    "model_of",
    "run_vector",
]
