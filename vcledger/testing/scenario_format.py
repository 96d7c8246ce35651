"""The two files of a scenario as values: the script's lines and the facts expected, each with its line.

Owns the format (the README of data/reports) and the strict check of it: an unknown key, a missing one, a word that is
none and an impossible order are errors that name the line. Must not know how a script is run. Called by
`vcledger.testing.scenario`, `vcledger.testing.scenario_db` and `vcledger.conformance_files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from vcledger.errors import VcledgerError
from vcledger.scheduler.session.conf import DEFAULT_CONF, ConfInvalid, read_conf
from vcledger.sim import held
from vcledger.sim.faults import FAULTS
from vcledger.testing.places import Located, NotJSON
from volcano.objects.kinds import BY_NAME, BY_RESOURCE
from volcano.objects.quantity import QuantityInvalid, parse

EXPECTATIONS_SUFFIX = ".expect.json"

WATCH_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})
OBJECT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class ScenarioInvalid(VcledgerError):
    """A scenario that does not follow the format. The text names the file and the line."""


class Step(NamedTuple):
    """A line of the script: its number from 1, its type, and its object with the bytes as they stand there."""

    line: int
    type: str
    object: dict[str, Any]
    raw: bytes


class _Line(msgspec.Struct):
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)


class Fact(NamedTuple):
    """A fact: `about` the kind of fact (`node`, `api`, ...), `name` what it speaks of, `keys` what is expected, and the
    line of the file of expectations where it stands."""

    about: str
    name: Any
    keys: dict[str, Any]
    line: int


class Checkpoint(NamedTuple):
    """Facts that hold once line `after_line` of the script has been run."""

    after_line: int
    facts: list[Fact]
    line: int


class Script(NamedTuple):
    """A scenario that follows the format."""

    path: Path
    steps: list[Step]
    checkpoints: list[Checkpoint]
    facts: list[Fact]

    @property
    def storage(self) -> bool:
        """A script of storage steps, to be run on a log alone."""
        return any(step.type == "DB" or step.object.get("op") == "spawn" for step in self.steps)

    @property
    def simulated(self) -> bool:
        """A script of a simulated API server, which answers by itself (`vcledger.sim.script`)."""
        return self._begins("simulate")

    @property
    def driven(self) -> bool:
        """A script of steps that drive a simulated world (`vcledger.sim.held`)."""
        return self._begins("drive")

    def _begins(self, operation: str) -> bool:
        return self.steps[0].type == "CONTROL" and self.steps[0].object["op"] == operation


class ScenarioResult(NamedTuple):
    """What came of a scenario: lines run, facts compared, and what was not as expected, one a line."""

    lines: int
    facts: int
    problems: list[str]

    @property
    def passed(self) -> bool:
        return not self.problems


ACTIONS: dict[str, tuple[str, ...]] = {
    "assume": ("pod", "node"),
    "bind": ("pod", "node"),
    "flush": ("pods", "node"),
    "discard": ("job", "reason"),
    "schedule": ("pod",),
    "cleanup-fire": ("key",),
    "allocate": (),
    "create": ("kind", "object"),
    "run": ("kind", "object"),
    "label": ("kind", "name"),
    "remove": ("kind", "name"),
}
"""Each action with the keys that it must have. From `allocate` on they are ours: a pass over all jobs, and what users
do in a simulated cluster (`run`: a pod that is made again when it is lost)."""

IN_A_WORLD = frozenset({"create", "run", "label", "remove", "fault"})
"""Actions and operations for a simulated API server only."""

CONTROLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "advance": (("seconds",), ()),
    "watch-closed": ((), ("resource",)),
    "reconnect": ((), ("resource",)),
    "restart": ((), ()),
    "expect-watch": (("resource", "resourceVersion"), ()),
    "spawn": (("processes", "appends_each"), ()),
    "simulate": (("seed", "seconds"), ("session",)),
    "fault": (("fault",), ("verb", "kind", "seconds", "count", "pick")),
    "drive": (("seed",), ("session",)),
}
"""Each control operation with the keys that it must have, and those that it may have. The last three are ours, and
so is `step`, whose keys depend on what it does."""

API_KEYS = (("verb", "path", "code"), ("body", "applied", "optional", "error"))
VERBS = frozenset({"GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "DELETE"})

DB_TRANSACTION = frozenset({"begin", "insert", "commit", "rollback"})
DB_KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "tx": {"begin": (), "insert": ("seq",), "commit": (), "rollback": ()},
    "sub": {"poll": ()},
    "conn": {
        "begin deferred": (),
        "begin": (),
        "select max(seq)": (),
        "append": ("n",),
        "commit": (),
        "rollback": (),
    },
}
"""Who does a storage step (`tx` a transaction, `sub` a subscriber, `conn` a connection), and what each can do."""

FACTS: dict[str, tuple[str, ...]] = {
    "pod": ("exists", "uid", "node", "phase", "assumed", "requests", "bind", "deletion"),
    "pvc": ("exists", "phase", "volume", "selected_node", "assumed", "annotations_kept"),
    "pv": ("exists", "phase", "volume", "selected_node", "assumed", "annotations_kept"),
    "job": ("exists", "podgroup_uid", "min_member", "ready", "tasks", "min_resources"),
    "queue": ("length", "keys"),
    "api": ("calls", "max_calls"),
    "outcome": ("bind", "events"),
    "bind_attempts": ("count", "each_ended_within_seconds"),
    "why": ("must_mention", "must_not_mention", "fits_on", "per_node", "first_cause"),
    "events_of": ("distinct", "counts", "first", "last"),
    "gap": ("from_resource_version", "to_resource_version"),
    "resume": ("watch_resource_version", "never"),
    "history": ("incarnations", "deleted", "changes", "last_seen_resource_version"),
    "subscriber": ("delivered_so_far_is_prefix_of", "checkpoint_at_most", "delivered", "each", "checkpoint"),
    "store": ("count", "unique"),
    "log": ("count",),
    "nodes": (),
    "pods": (),
    "invariant": ("broken",),
    "world": ("broken",),
    "node": ("exists", "schedulable", "uid", "idle", "used", "tasks"),
}
"""Each kind of fact with its keys; `invariant` and `world` are ours. `node` comes last: it is a key of a pod's fact as
well."""

WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("pod", "bind"): ("none", "unknown", "succeeded", "failed"),
    ("pod", "deletion"): ("observed", "inferred"),
    ("outcome", "bind"): ("succeeded", "succeeded-answer-lost", "failed", "lost-to-another", "pod-gone"),
}
TRUTH, NUMBER, SECONDS, LIST, OBJECT, AMOUNTS, NAME = (
    "true or false",
    "a whole number",
    "a number",
    "a list of texts",
    "an object",
    "an object of quantities",
    "a text or null",
)
VALUES: dict[str, str] = {
    **dict.fromkeys(("exists", "schedulable", "assumed", "unique"), TRUTH),
    **dict.fromkeys(("length", "calls", "max_calls", "count", "distinct", "min_member", "checkpoint_at_most"), NUMBER),
    "each_ended_within_seconds": SECONDS,
    **dict.fromkeys(("tasks", "keys", "events", "must_mention", "must_not_mention", "fits_on"), LIST),
    **dict.fromkeys(("annotations_kept", "never", "nodes", "pods"), LIST),
    **dict.fromkeys(("per_node", "counts"), OBJECT),
    **dict.fromkeys(("idle", "used", "requests", "min_resources"), AMOUNTS),
    **dict.fromkeys(("uid", "node", "phase", "volume", "selected_node", "podgroup_uid", "first_cause"), NAME),
}
"""What the value of a key is, where any other is a mistake."""

QUEUES = ("bindFlow", "errTasks", "deletedJobs", "nodeQueue")
STORE_FACTS = frozenset({"subscriber", "store", "log"})
EXPECTATION_KEYS = ("id", "source", "input", "note", "checkpoints", "facts")


def read_script(path: Path) -> Script:
    """Reads FILE.jsonl and the FILE.expect.json beside it. ScenarioInvalid; OSError when one cannot be read."""
    steps = _steps(path.name, path.read_bytes())
    beside = path.with_name(path.name.removesuffix(".jsonl") + EXPECTATIONS_SUFFIX)
    if not beside.is_file():
        raise ScenarioInvalid(f"{path.name}: its expectations are missing: {beside.name}")
    script = Script(path, steps, *_expectations(beside.name, beside.read_bytes(), path.name))
    _check_order(script)
    return script


# --- the script ---------------------------------------------------------------------------------------------------


def _steps(name: str, data: bytes) -> list[Step]:
    steps = []
    for number, line in enumerate(data.splitlines(), start=1):
        if line.strip():
            steps.append(_step(f"{name}, line {number}", number, line))
    if not steps:
        raise ScenarioInvalid(f"{name}: the scenario is empty")
    return steps


def _step(place: str, number: int, line: bytes) -> Step:
    try:
        value = Located(line.decode()).value
    except (NotJSON, UnicodeDecodeError) as error:
        raise ScenarioInvalid(f"{place}: no JSON: {str(error).removeprefix('line 1: ')}") from error
    _keys(place, value, ("type", "object"), ())
    kind, body = value["type"], value["object"]
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        raise ScenarioInvalid(f"{place}: there is no type {kind!r}; there are {', '.join(_CHECKS)}")
    if not isinstance(body, dict):
        raise ScenarioInvalid(f"{place}: `object` is no object")
    check(place, body)
    return Step(number, kind, body, bytes(_line.decode(line).object))


def _check_watched(place: str, body: dict[str, Any]) -> None:
    meta = body.get("metadata")
    if not isinstance(meta, dict) or not body.get("kind") or not body.get("apiVersion"):
        raise ScenarioInvalid(f"{place}: the object has no kind, apiVersion or metadata")


def _check_object(place: str, body: dict[str, Any]) -> None:
    _check_watched(place, body)
    missing = next((key for key in ("name", "uid", "resourceVersion") if not body["metadata"].get(key)), None)
    if missing and body["kind"] != "Status":
        raise ScenarioInvalid(f"{place}: the object has no metadata.{missing}")


def _check_error(place: str, body: dict[str, Any]) -> None:
    if not isinstance(body.get("code", 0), int):
        raise ScenarioInvalid(f"{place}: a Status' code is a number")


def _check_list(place: str, body: dict[str, Any]) -> None:
    _check_watched(place, body)
    if not isinstance(body.get("items"), list) and body.get("items", 0) is not None:
        raise ScenarioInvalid(f"{place}: a list has `items`")


def _check_action(place: str, body: dict[str, Any]) -> None:
    action = body.get("action")
    if action not in ACTIONS:
        raise ScenarioInvalid(f"{place}: there is no action {action!r}; there are {', '.join(ACTIONS)}")
    _keys(place, body, ("action", *ACTIONS[action]), ())
    for key in ACTIONS[action]:
        value = body[key]
        if key == "object":
            _check_made(place, body)
        elif key == "pods":
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise ScenarioInvalid(f"{place}: `pods` is a list of ns/name")
        elif not isinstance(value, str):
            raise ScenarioInvalid(f"{place}: `{key}` is a text")
    for pod in [body["pod"]] if "pod" in body else body.get("pods", []):
        if pod.count("/") != 1:
            raise ScenarioInvalid(f"{place}: {pod!r} is not ns/name")
    if action in ("label", "remove"):
        _check_kind(place, body, body["name"].count("/") == 1)
    if action == "cleanup-fire" and body["key"].count("/") != 2:
        raise ScenarioInvalid(f"{place}: {body['key']!r} is not namespace/name/uid")


def _check_made(place: str, body: dict[str, Any]) -> None:
    """The object of a `create` or `run`: as a user gives it, so without uid and version."""
    made = body["object"]
    meta = made.get("metadata") if isinstance(made, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise ScenarioInvalid(f"{place}: the object has no metadata.name")
    _check_kind(place, body, bool(meta.get("namespace")))
    if body["action"] == "run" and body["kind"] != "Pod":
        raise ScenarioInvalid(f"{place}: `run` is for pods, not for a {body['kind']}")


def _check_kind(place: str, body: dict[str, Any], in_namespace: bool) -> None:
    kind = BY_NAME.get(body["kind"]) if isinstance(body["kind"], str) else None
    if kind is None:
        raise ScenarioInvalid(f"{place}: there is no kind {body['kind']!r}; there are {', '.join(BY_NAME)}")
    if kind.namespaced != in_namespace:
        raise ScenarioInvalid(f"{place}: a {kind.name} is in {'a' if kind.namespaced else 'no'} namespace")


def _check_fault(place: str, body: dict[str, Any]) -> None:
    if body["fault"] not in FAULTS:
        raise ScenarioInvalid(f"{place}: there is no fault {body['fault']!r}; there are {', '.join(FAULTS)}")
    for key in ("verb", "kind"):
        if not isinstance(body.get(key, ""), str):
            raise ScenarioInvalid(f"{place}: `{key}` is a text")
    for key in ("seconds", "count", "pick"):
        value = body.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ScenarioInvalid(f"{place}: `{key}` is a whole number, not below 0")


def _check_api(place: str, body: dict[str, Any]) -> None:
    _keys(place, body, *API_KEYS)
    if body["verb"] not in VERBS:
        raise ScenarioInvalid(f"{place}: there is no verb {body['verb']!r}; there are {', '.join(sorted(VERBS))}")
    if not isinstance(body["path"], str) or not body["path"].startswith("/"):
        raise ScenarioInvalid(f"{place}: `path` begins with /")
    code = body["code"]
    if code is not None and (not isinstance(code, int) or isinstance(code, bool) or not 100 <= code < 600):
        raise ScenarioInvalid(f"{place}: `code` is an HTTP status or null")
    for key in ("applied", "optional"):
        if not isinstance(body.get(key, False), bool):
            raise ScenarioInvalid(f"{place}: `{key}` is true or false")


def _check_control(place: str, body: dict[str, Any]) -> None:
    operation = body.get("op")
    if operation == "step":
        _keys(place, body, ("op", "do"), tuple(body))
        if wrong := held.problem(body):
            raise ScenarioInvalid(f"{place}: {wrong}")
        return
    if operation not in CONTROLS:
        raise ScenarioInvalid(
            f"{place}: there is no operation {operation!r}; there are {', '.join((*CONTROLS, 'step'))}"
        )
    must, may = CONTROLS[operation]
    _keys(place, body, ("op", *must), may)
    if operation == "fault":
        _check_fault(place, body)
    if operation in ("drive", "simulate"):
        _check_session(place, body.get("session", DEFAULT_CONF))
    if "resource" in body:
        _check_resource(place, body["resource"])
    for key in ("seconds", "processes", "appends_each", "seed"):
        if key in must and (not isinstance(body[key], int | float) or isinstance(body[key], bool) or body[key] < 0):
            raise ScenarioInvalid(f"{place}: `{key}` is a number, not below 0")


def _check_session(place: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ScenarioInvalid(f"{place}: `session` is a text")
    try:
        read_conf(text)
    except ConfInvalid as error:
        raise ScenarioInvalid(f"{place}: `session`: {error}") from error


def _check_resource(place: str, resource: Any) -> None:
    if resource not in BY_RESOURCE and resource not in [kind.resource for kind in BY_NAME.values()]:
        raise ScenarioInvalid(f"{place}: no resource is named {resource!r}; there are {', '.join(BY_RESOURCE)}")


def _check_db(place: str, body: dict[str, Any]) -> None:
    who = next((key for key in DB_KEYS if key in body), None)
    if who is None:
        raise ScenarioInvalid(f"{place}: a storage step names its {', '.join(DB_KEYS)}")
    operation = body.get("op")
    if operation not in DB_KEYS[who]:
        raise ScenarioInvalid(f"{place}: {who} has no operation {operation!r}; it has {', '.join(DB_KEYS[who])}")
    _keys(place, body, (who, "op", *DB_KEYS[who][operation]), ())


_CHECKS = {
    **dict.fromkeys(sorted(OBJECT_TYPES), _check_object),
    "BOOKMARK": _check_watched,
    "ERROR": _check_error,
    "LIST": _check_list,
    "ACTION": _check_action,
    "API": _check_api,
    "CONTROL": _check_control,
    "DB": _check_db,
}


def _keys(place: str, value: Any, must: tuple[str, ...], may: tuple[str, ...]) -> None:
    """ScenarioInvalid unless the value is an object with all of `must` and nothing but those and `may`."""
    if not isinstance(value, dict):
        raise ScenarioInvalid(f"{place}: not an object")
    unknown = next((key for key in value if key not in must and key not in may), None)
    if unknown is not None:
        raise ScenarioInvalid(f"{place}: unknown key {unknown!r}; known are {', '.join([*must, *may])}")
    missing = next((key for key in must if key not in value), None)
    if missing is not None:
        raise ScenarioInvalid(f"{place}: the key {missing!r} is missing")


# --- the expectations ---------------------------------------------------------------------------------------------


def _expectations(name: str, data: bytes, script: str) -> tuple[list[Checkpoint], list[Fact]]:
    try:
        found = Located(data.decode())
    except (NotJSON, UnicodeDecodeError) as error:
        raise ScenarioInvalid(f"{name}: no JSON: {error}") from error
    value = found.value
    if not isinstance(value, dict):
        raise ScenarioInvalid(f"{name}: not a JSON object")
    for key in value:
        if key not in EXPECTATION_KEYS:
            raise ScenarioInvalid(
                f"{name}, line {found.line((key,))}: unknown key {key!r}; known are {', '.join(EXPECTATION_KEYS)}"
            )
    if "input" in value and value["input"] != script:
        raise ScenarioInvalid(f"{name}, line {found.line(('input',))}: its input is {value['input']!r}, not {script!r}")
    checkpoints = []
    for number, one in enumerate(_list(name, found, value, "checkpoints")):
        place = f"{name}, line {found.line(('checkpoints', number))}"
        _keys_located(name, found, ("checkpoints", number), one, ("after_line", "facts"))
        after = one["after_line"]
        if not isinstance(after, int) or isinstance(after, bool) or after < 1:
            raise ScenarioInvalid(f"{place}: `after_line` is the number of a line")
        facts = _facts(name, found, ("checkpoints", number, "facts"), one["facts"])
        checkpoints.append(Checkpoint(after, facts, found.line(("checkpoints", number))))
    facts = _facts(name, found, ("facts",), _list(name, found, value, "facts"))
    if not facts and not any(one.facts for one in checkpoints):
        raise ScenarioInvalid(f"{name}: no fact is expected")
    return checkpoints, facts


def _list(name: str, found: Located, value: Mapping[str, Any], key: str) -> list[Any]:
    inside = value.get(key, [])
    if not isinstance(inside, list):
        raise ScenarioInvalid(f"{name}, line {found.line((key,))}: `{key}` is a list")
    return inside


def _keys_located(name: str, found: Located, path: tuple[str | int, ...], value: Any, keys: tuple[str, ...]) -> None:
    if isinstance(value, dict):
        for key in value:
            if key not in keys:
                line = found.line((*path, key))
                raise ScenarioInvalid(f"{name}, line {line}: unknown key {key!r}; known are {', '.join(keys)}")
    _keys(f"{name}, line {found.line(path)}", value, keys, ())


def _facts(name: str, found: Located, path: tuple[str | int, ...], value: Any) -> list[Fact]:
    if not isinstance(value, list):
        raise ScenarioInvalid(f"{name}, line {found.line(path)}: `facts` is a list")
    return [_fact(name, found, (*path, number), one) for number, one in enumerate(value)]


def _fact(name: str, found: Located, path: tuple[str | int, ...], value: Any) -> Fact:
    place = f"{name}, line {found.line(path)}"
    if not isinstance(value, dict):
        raise ScenarioInvalid(f"{place}: a fact is an object")
    about = next((kind for kind in FACTS if kind in value), None)
    if about is None:
        raise ScenarioInvalid(f"{place}: a fact is about one of {', '.join(FACTS)}")
    for key, expected in value.items():
        line = f"{name}, line {found.line((*path, key))}"
        if key != about and key not in FACTS[about]:
            raise ScenarioInvalid(
                f"{line}: unknown key {key!r} of the fact `{about}`; known are {', '.join(FACTS[about]) or 'none'}"
            )
        if key in VALUES and (key != about or key in ("nodes", "pods")) and not _is(VALUES[key], expected):
            raise ScenarioInvalid(f"{line}: {key} is {VALUES[key]}, not {expected!r}")
        words = WORDS.get((about, key))
        if words is not None and expected not in words:
            raise ScenarioInvalid(f"{line}: {key} is one of {', '.join(words)}, not {expected!r}")
    if about == "queue" and value[about] not in QUEUES:
        raise ScenarioInvalid(f"{place}: there is no queue {value[about]!r}; there are {', '.join(QUEUES)}")
    if about in ("gap", "resume"):
        _check_resource(place, value[about])
    if about == "invariant":
        from vcledger.testing.invariants import INVARIANTS

        names = [one.name for one in INVARIANTS]
        if value[about] not in names:
            raise ScenarioInvalid(f"{place}: there is no invariant {value[about]!r}; there are {', '.join(names)}")
    if about == "api" and len(str(value[about]).split()) != 2:
        raise ScenarioInvalid(f'{place}: `api` is "VERB path"')
    keys = {key: expected for key, expected in value.items() if key != about}
    return Fact(about, value[about], keys, found.line((*path, about)))


def _is(what: str, value: Any) -> bool:
    """Whether a value is what VALUES says."""
    if what == TRUTH:
        return isinstance(value, bool)
    if what in (NUMBER, SECONDS):
        return isinstance(value, int if what == NUMBER else int | float) and not isinstance(value, bool)
    if what == LIST:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if what == NAME:
        return value is None or isinstance(value, str)
    return isinstance(value, dict) and (what == OBJECT or all(map(_is_quantity, value.values())))


def _is_quantity(value: Any) -> bool:
    try:
        parse(value)
    except (QuantityInvalid, TypeError, AttributeError):
        return False
    return not isinstance(value, bool)


# --- order --------------------------------------------------------------------------------------------------------


def _check_order(script: Script) -> None:
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


__all__ = [
    "EXPECTATIONS_SUFFIX",
    "OBJECT_TYPES",
    "Checkpoint",
    "Fact",
    "ScenarioInvalid",
    "ScenarioResult",
    "Script",
    "Step",
    "read_script",
]
