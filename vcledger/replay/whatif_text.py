"""The what-if options as a person writes them, read into changes.

Owns the notation and what is refused, each with one line that says what is wanted. Must not know what a change does to
an object. Called by `vcledger.replay.variants` and `cli`. docs/whatif.md has the notation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from vcledger.replay.whatif import (
    AddNodes,
    ChangeInvalid,
    Pairs,
    RemoveNodes,
    ScaleRequests,
    SetField,
    Value,
    WhatIf,
)
from volcano.objects.quantity import QuantityInvalid, exact_value

NODES_MAX = 100_000
FACTOR_MAX = 1_000
PODS_DEFAULT = "110"
NODE_PREFIX = "whatif"
NONE = "none"
"""The value that takes a field away."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
_PATTERN = re.compile(r"[-a-z0-9.*?\[\]!]+\Z")
_RESOURCE = re.compile(r"([a-z0-9A-Z]([-.a-z0-9A-Z]*[a-z0-9A-Z])?/)?[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?\Z")
_LABEL_VALUE = re.compile(r"([a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?)?\Z")


# --- --add-nodes ---------------------------------------------------------------------------------------------------


def add_nodes(text: str, taken: Iterable[AddNodes] = ()) -> AddNodes:
    """`10:cpu=16,memory=64Gi,nvidia.com/gpu=8,label/zone=a,taint/dedicated=ml:NoSchedule,name=big`. Nodes are numbered
    on from those of the same prefix in `taken`. ChangeInvalid."""
    count, colon, rest = text.partition(":")
    if not colon or not count.strip().isdecimal() or not 1 <= int(count) <= NODES_MAX:
        raise _wrong("--add-nodes", text, "begin with how many, as in 10:cpu=16,memory=64Gi")
    resources: dict[str, str] = {"pods": PODS_DEFAULT}
    labels: dict[str, str] = {}
    taints: list[tuple[str, str, str]] = []
    prefix, seen = NODE_PREFIX, set[str]()
    for part in rest.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not key:
            raise _wrong("--add-nodes", text, "an empty part between commas")
        if key in seen and not key.startswith("taint/"):
            raise _wrong("--add-nodes", text, f"{key} is given twice")
        seen.add(key)
        if key.startswith("taint/"):
            taints.append(_taint(text, key.removeprefix("taint/") + equals + value))
        elif not equals:
            raise _wrong("--add-nodes", text, f"{part!r} is not NAME=VALUE")
        elif key == "name":
            prefix = _node_prefix(text, value)
        elif key.startswith("label/"):
            labels[_label_key(text, key)] = _label_value(text, value)
        else:
            resources[_resource("--add-nodes", text, key)] = _quantity("--add-nodes", text, key, value)
    if not seen - {"name", "pods"} or not {"cpu", "memory"} & set(resources):
        raise _wrong("--add-nodes", text, "a node needs cpu and memory, as in 10:cpu=16,memory=64Gi")
    first = sum(other.count for other in taken if other.prefix == prefix)
    return AddNodes(text, int(count), tuple(resources.items()), prefix, first, tuple(labels.items()), tuple(taints))


def _node_prefix(text: str, value: str) -> str:
    if not _NAME.match(value):
        raise _wrong("--add-nodes", text, f"{value!r} is no name of a node")
    return value


def _label_key(text: str, key: str) -> str:
    name = key.removeprefix("label/")
    if not _RESOURCE.match(name):
        raise _wrong("--add-nodes", text, f"{name!r} is no label")
    return name


def _label_value(text: str, value: str) -> str:
    if not _LABEL_VALUE.match(value):
        raise _wrong("--add-nodes", text, f"{value!r} is no value of a label")
    return value


def _taint(text: str, given: str) -> tuple[str, str, str]:
    """KEY=VALUE:EFFECT or KEY:EFFECT, as kubectl has it."""
    pair, colon, effect = given.rpartition(":")
    key, _, value = pair.partition("=")
    if not colon or effect not in EFFECTS:
        raise _wrong("--add-nodes", text, f"a taint is taint/KEY=VALUE:EFFECT, its effect one of {', '.join(EFFECTS)}")
    if not _RESOURCE.match(key):
        raise _wrong("--add-nodes", text, f"{key!r} is no key of a taint")
    return key, _label_value(text, value), effect


# --- --remove-node -------------------------------------------------------------------------------------------------


def remove_node(text: str) -> RemoveNodes:
    """A node's name, or a pattern of names such as `gpu-*`. ChangeInvalid."""
    if not _PATTERN.match(text):
        raise _wrong("--remove-node", text, "give a node's name, or a pattern such as gpu-*")
    return RemoveNodes(text, text)


# --- --set ---------------------------------------------------------------------------------------------------------

Reader = Callable[[str, str, str], Value]


def _whole(least: int) -> Reader:
    def read(text: str, field: str, value: str) -> Value:
        if not re.fullmatch(r"-?\d{1,9}", value) or int(value) < least:
            raise _wrong("--set", text, f"{field} is a whole number, {least} or more")
        return int(value)

    return read


def _truth(text: str, field: str, value: str) -> Value:
    if value not in {"true", "false"}:
        raise _wrong("--set", text, f"{field} is true or false")
    return value == "true"


def _word(text: str, field: str, value: str) -> Value:
    if not _NAME.match(value):
        raise _wrong("--set", text, f"{value!r} is no name, as {field} wants it")
    return value


def _amount(text: str, field: str, value: str) -> Value:
    return _quantity("--set", text, field, value)


QUEUE_FIELDS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "weight": (("weight",), _whole(1)),
    "priority": (("priority",), _whole(0)),
    "reclaimable": (("reclaimable",), _truth),
    "parent": (("parent",), _word),
    "capability": (("capability",), _amount),
    "deserved": (("deserved",), _amount),
    "guarantee": (("guarantee", "resource"), _amount),
}
GROUP_FIELDS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "minMember": (("minMember",), _whole(0)),
    "queue": (("queue",), _word),
    "priorityClassName": (("priorityClassName",), _word),
    "minResources": (("minResources",), _amount),
}
"""Field to its path below spec and its reader. One with `_amount` takes a resource after it: capability.cpu."""

KINDS: dict[str, tuple[str, dict[str, tuple[tuple[str, ...], Reader]]]] = {
    "queue": ("Queue", QUEUE_FIELDS),
    "job": ("VolcanoJob", GROUP_FIELDS),
    "podgroup": ("PodGroup", GROUP_FIELDS),
    "pg": ("PodGroup", GROUP_FIELDS),
}


def set_field(text: str) -> SetField:
    """`queue/NAME.weight=3`, `queue/NAME.capability.cpu=8`, `job/NS/NAME.minMember=2`, `podgroup/NS/NAME.queue=q`. NS
    and NAME may be patterns; the value `none` takes the field away. ChangeInvalid."""
    place, equals, value = text.partition("=")
    word, slash, rest = place.strip().partition("/")
    value = value.strip()
    if word not in KINDS or not slash:
        raise _wrong("--set", text, "begin with queue/NAME, job/NS/NAME or podgroup/NS/NAME")
    if not equals or not value:
        raise _wrong("--set", text, "say what the field is to be, as in queue/NAME.weight=3")
    kind, fields = KINDS[word]
    namespace = ""
    if kind != "Queue":
        namespace, slash, rest = rest.partition("/")
        if not slash:
            raise _wrong("--set", text, f"name the namespace: {word}/NS/NAME.FIELD=VALUE")
        _pattern(text, namespace)
    name, field, resource = _split(text, rest, fields)
    path, read = fields[field]
    full = f"{field}.{resource}" if resource else field
    return SetField(
        text,
        kind,
        namespace,
        _pattern(text, name),
        (*path, resource) if resource else path,
        None if value == NONE else read(text, full, value),
    )


def _split(text: str, rest: str, fields: dict[str, tuple[tuple[str, ...], Reader]]) -> tuple[str, str, str]:
    """Name, field and resource ('' where the field takes none). Names and resources may have dots, so each dot is tried
    as the one before the field, the last first."""
    words = rest.split(".")
    for at in range(len(words) - 1, 0, -1):
        field, resource = words[at], ".".join(words[at + 1 :])
        if field not in fields:
            continue
        takes_resource = fields[field][1] is _amount
        if takes_resource != bool(resource):
            continue
        if resource:
            _resource("--set", text, resource)
        return ".".join(words[:at]), field, resource
    known = ", ".join(f"{name}.RESOURCE" if read is _amount else name for name, (_, read) in fields.items())
    raise _wrong("--set", text, f"the field is none of {known}")


def _pattern(text: str, name: str) -> str:
    if not _PATTERN.match(name):
        raise _wrong("--set", text, f"{name!r} is neither a name nor a pattern such as train-*")
    return name


# --- --scale-requests ----------------------------------------------------------------------------------------------


def scale_requests(text: str) -> ScaleRequests:
    """`0.8` for every resource, or `cpu=0.8,memory=0.5` for these. ChangeInvalid."""
    if "=" not in text:
        return ScaleRequests(text, _factor(text, text.strip()))
    factors: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise _wrong("--scale-requests", text, "give a factor, or RESOURCE=FACTOR,… as in cpu=0.8,memory=0.5")
        if name in factors:
            raise _wrong("--scale-requests", text, f"{name} is given twice")
        factors[_resource("--scale-requests", text, name)] = _factor(text, value)
    return ScaleRequests(text, "", tuple(factors.items()))


def _factor(text: str, value: str) -> str:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}", value):
        raise _wrong("--scale-requests", text, f"{value!r} is no factor: want a number such as 0.8")
    if not 0 < Fraction(value) <= FACTOR_MAX:
        raise _wrong("--scale-requests", text, f"a factor is above 0 and at most {FACTOR_MAX}")
    return value


# --- all of them ---------------------------------------------------------------------------------------------------


def read_changes(
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    set_: Sequence[str] = (),
    scale: Sequence[str] = (),
) -> tuple[WhatIf, ...]:
    """All changes of one run, in the order in which they apply: requests, fields, nodes taken away, nodes added.
    ChangeInvalid; two of them for one resource are refused too."""
    nodes: list[AddNodes] = []
    for text in add:
        nodes.append(add_nodes(text, nodes))
    scales = [scale_requests(text) for text in scale]
    _refuse_twice("--scale-requests", scales)
    fields = [set_field(text) for text in set_]
    _refuse_same_field(fields)
    return (*scales, *fields, *(remove_node(text) for text in remove), *nodes)


def _refuse_twice(option: str, scales: Sequence[ScaleRequests]) -> None:
    names: Pairs = tuple((name, one.text) for one in scales for name in ([k for k, _ in one.factors] or ["*"]))
    bare = [name for name, _ in names]
    if len(set(bare)) < len(bare) or ("*" in bare and len(bare) > 1):
        raise ChangeInvalid(f"{option} is given twice for one resource: {' and '.join(one.text for one in scales)}")


def _refuse_same_field(fields: Sequence[SetField]) -> None:
    seen: dict[tuple[str, str, str, tuple[str, ...]], str] = {}
    for one in fields:
        key = (one.kind, one.namespace, one.pattern, one.path)
        if key in seen:
            raise ChangeInvalid(f"--set is given twice for one field: {seen[key]} and {one.text}")
        seen[key] = one.text


def _resource(option: str, text: str, name: str) -> str:
    if not _RESOURCE.match(name):
        raise _wrong(option, text, f"{name!r} is no resource")
    return name


def _quantity(option: str, text: str, name: str, value: str) -> str:
    try:
        amount = exact_value(value, -3)
    except QuantityInvalid as error:
        raise _wrong(option, text, f"{name}: {error}") from None
    if amount < 0:
        raise _wrong(option, text, f"{name} is negative")
    return value


def _wrong(option: str, text: str, what: str) -> ChangeInvalid:
    return ChangeInvalid(f"{option} {text}: {what}")


__all__ = ["add_nodes", "read_changes", "remove_node", "scale_requests", "set_field"]
