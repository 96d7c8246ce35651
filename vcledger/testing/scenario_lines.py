"""The lines of a scenario's script: the words that they may have, and the strict check of each.

Owns the tables of actions, operations and storage steps, and how a line becomes a step: an unknown key, a missing one
or a word that is none is a `ScenarioInvalid` that names the line. Must not know how a step is run, nor what may come
before or after it (`vcledger.testing.scenario_order`). Called by `vcledger.testing.scenario_format`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vcledger.scheduler.session.conf import DEFAULT_CONF, ConfInvalid, read_conf
from vcledger.sim import held
from vcledger.sim.faults import FAULTS
from vcledger.testing.places import Located, NotJSON
from vcledger.testing.scenario_values import OBJECT_TYPES, ScenarioInvalid, Step
from volcano.objects.kinds import BY_NAME, BY_RESOURCE


class _Line(msgspec.Struct):
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)


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


def read_steps(name: str, data: bytes) -> list[Step]:
    """The steps of a script, whose name is for the messages; blank lines are none. ScenarioInvalid."""
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
    check_keys(place, value, ("type", "object"), ())
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
    check_keys(place, body, ("action", *ACTIONS[action]), ())
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
    check_keys(place, body, *API_KEYS)
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
        check_keys(place, body, ("op", "do"), tuple(body))
        if wrong := held.problem(body):
            raise ScenarioInvalid(f"{place}: {wrong}")
        return
    if operation not in CONTROLS:
        raise ScenarioInvalid(
            f"{place}: there is no operation {operation!r}; there are {', '.join((*CONTROLS, 'step'))}"
        )
    must, may = CONTROLS[operation]
    check_keys(place, body, ("op", *must), may)
    if operation == "fault":
        _check_fault(place, body)
    if operation in ("drive", "simulate"):
        _check_session(place, body.get("session", DEFAULT_CONF))
    if "resource" in body:
        check_resource(place, body["resource"])
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


def check_resource(place: str, resource: Any) -> None:
    """ScenarioInvalid unless a kind has that resource, with its group or without."""
    if resource not in BY_RESOURCE and resource not in [kind.resource for kind in BY_NAME.values()]:
        raise ScenarioInvalid(f"{place}: no resource is named {resource!r}; there are {', '.join(BY_RESOURCE)}")


def _check_db(place: str, body: dict[str, Any]) -> None:
    who = next((key for key in DB_KEYS if key in body), None)
    if who is None:
        raise ScenarioInvalid(f"{place}: a storage step names its {', '.join(DB_KEYS)}")
    operation = body.get("op")
    if operation not in DB_KEYS[who]:
        raise ScenarioInvalid(f"{place}: {who} has no operation {operation!r}; it has {', '.join(DB_KEYS[who])}")
    check_keys(place, body, (who, "op", *DB_KEYS[who][operation]), ())


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


def check_keys(place: str, value: Any, must: tuple[str, ...], may: tuple[str, ...]) -> None:
    """ScenarioInvalid unless the value is an object with all of `must` and nothing but those and `may`."""
    if not isinstance(value, dict):
        raise ScenarioInvalid(f"{place}: not an object")
    unknown = next((key for key in value if key not in must and key not in may), None)
    if unknown is not None:
        raise ScenarioInvalid(f"{place}: unknown key {unknown!r}; known are {', '.join([*must, *may])}")
    missing = next((key for key in must if key not in value), None)
    if missing is not None:
        raise ScenarioInvalid(f"{place}: the key {missing!r} is missing")
