"""What is expected of a scenario: the kinds of facts with their keys, and the strict check of FILE.expect.json.

Owns the tables of facts and of what their values are, and how the file becomes checkpoints and facts, each with its
line. Must not know how a fact is found (`vcledger.testing.scenario_facts`). Called by
`vcledger.testing.scenario_format`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcledger.testing.places import Located, NotJSON
from vcledger.testing.scenario_lines import check_keys, check_resource
from vcledger.testing.scenario_values import Checkpoint, Fact, ScenarioInvalid
from volcano.objects.quantity import QuantityInvalid, parse

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


def read_expectations(name: str, data: bytes, script: str) -> tuple[list[Checkpoint], list[Fact]]:
    """The checkpoints and the facts at the end, of the file named so that belongs to the script named so.
    ScenarioInvalid, also where no fact is expected."""
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
    check_keys(f"{name}, line {found.line(path)}", value, keys, ())


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
        check_resource(place, value[about])
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
