"""What-if changes: what is different in a free replay from what was recorded, as values.

Owns what each change makes of the recorded objects, and which nodes come on top. Must not know the command line
(`vcledger.replay.whatif_text` reads it), the log, nor what a scheduler does. Called by the replay's inputs.

A change is frozen and has no state, so it can be sent to another process. Objects are the JSON that the API server
sent, as dicts; what `rewrite` gets stays as it was, and what it does not speak of is handed back, the same dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias

from vcledger.errors import VcledgerError
from volcano.objects.quantity import parse as parse_quantity

Object: TypeAlias = dict[str, Any]
Pairs: TypeAlias = tuple[tuple[str, str], ...]

KUBELET_LABELS = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
"""Labels that a kubelet gives its node, beside the one with its name."""

UNCOUNTED = ("pods", "count/", "limits.")
"""Beginnings of the names in minResources that are not requests."""


class ChangeInvalid(VcledgerError):
    """A what-if change that cannot be read, or that makes no sense."""


class WhatIf(Protocol):
    """A change. `text` is what the person wrote; `kinds` are the kinds that `rewrite` wants to see."""

    @property
    def text(self) -> str: ...

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def added(self) -> Sequence[tuple[str, Object]]:
        """Kind and object of what is there from the beginning."""
        ...

    def rewrite(self, kind: str, obj: Object) -> Object | None:
        """The object as it is with the change; None where it is not there at all. Without the change it is the same
        dict."""
        ...

    def names(self) -> tuple[tuple[str, str, str], ...]:
        """What it speaks of: (kind, pattern of the namespace, pattern of the name); () for everything or nothing."""
        ...


# --- nodes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddNodes:
    """`count` ready nodes PREFIX-`first`, and so on. `resources` are capacity and allocatable in Kubernetes'
    quantities, "pods" among them; a taint is (key, value, effect)."""

    text: str
    count: int
    resources: Pairs
    prefix: str = "whatif"
    first: int = 0
    labels: Pairs = ()
    taints: tuple[tuple[str, str, str], ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        return ()

    def names(self) -> tuple[tuple[str, str, str], ...]:
        return ()

    def node_names(self) -> list[str]:
        """In the order in which they are added."""
        return [f"{self.prefix}-{number}" for number in range(self.first, self.first + self.count)]

    def added(self) -> Sequence[tuple[str, Object]]:
        return [("Node", self._node(name)) for name in self.node_names()]

    def _node(self, name: str) -> Object:
        resources = dict(self.resources)
        taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in self.taints]
        return {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "uid": made_uid("Node", name),
                "labels": {"kubernetes.io/hostname": name, **KUBELET_LABELS, **dict(self.labels)},
            },
            "spec": {"taints": taints} if taints else {},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "WhatIf",
                        "message": "added for a what-if replay",
                    }
                ],
            },
        }

    def rewrite(self, kind: str, obj: Object) -> Object | None:
        return obj


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Nodes whose name matches were never there. Pods that had been placed on one before the replay begins wait again;
    pods that belong to the node itself (a DaemonSet's, or static ones) go with it."""

    text: str
    pattern: str

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("Node", "CSINode", "Numatopology", "Pod")

    def names(self) -> tuple[tuple[str, str, str], ...]:
        return (("Node", "", self.pattern),)

    def added(self) -> Sequence[tuple[str, Object]]:
        return ()

    def rewrite(self, kind: str, obj: Object) -> Object | None:
        if kind != "Pod":
            return None if kind in self.kinds and fnmatchcase(name_of(obj), self.pattern) else obj
        node = (obj.get("spec") or {}).get("nodeName") or ""
        if not node or not fnmatchcase(node, self.pattern):
            return obj
        owners = obj["metadata"].get("ownerReferences") or ()
        if any(owner.get("kind") in {"DaemonSet", "Node"} for owner in owners):
            return None
        spec = {key: value for key, value in obj["spec"].items() if key != "nodeName"}
        return {**obj, "spec": spec, "status": _waiting(obj)}


def _waiting(pod: Object) -> Object:
    """A pod's status before it was placed. One that has ended stays ended."""
    status = pod.get("status") or {}
    if status.get("phase") not in {"Running", "Pending"}:
        return dict(status)
    return {"phase": "Pending", **({"qosClass": status["qosClass"]} if "qosClass" in status else {})}


# --- fields --------------------------------------------------------------------------------------------------------

Value: TypeAlias = int | bool | str | None


@dataclass(frozen=True, slots=True)
class SetField:
    """A field of the objects of a kind whose namespace and name match. `kind` is Queue, PodGroup, or VolcanoJob: then
    the PodGroup that the job's controller made, or that has the job's name, has the field too. `path` is below spec;
    None takes the field away."""

    text: str
    kind: str
    namespace: str
    pattern: str
    path: tuple[str, ...]
    value: Value

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("VolcanoJob", "PodGroup") if self.kind == "VolcanoJob" else (self.kind,)

    def names(self) -> tuple[tuple[str, str, str], ...]:
        return tuple((kind, self.namespace, self.pattern) for kind in self.kinds)

    def added(self) -> Sequence[tuple[str, Object]]:
        return ()

    def rewrite(self, kind: str, obj: Object) -> Object | None:
        if kind not in self.kinds or not self._speaks_of(kind, obj):
            return obj
        spec = obj.get("spec") or {}
        path = self.path
        if kind == "VolcanoJob":
            path = JOB_PATHS.get(path[0], path)
            if not path:
                return obj
        changed = set_at(spec, path, self.value)
        if kind == "PodGroup" and path == ("minMember",):
            changed = _shrunk(spec, changed)
        return {**obj, "spec": changed}

    def _speaks_of(self, kind: str, obj: Object) -> bool:
        meta = obj.get("metadata") or {}
        if self.namespace and not fnmatchcase(meta.get("namespace") or "", self.namespace):
            return False
        names = [meta.get("name") or ""]
        if self.kind == "VolcanoJob" and kind == "PodGroup":
            owners = meta.get("ownerReferences") or ()
            names += [owner.get("name") or "" for owner in owners if owner.get("kind") == "Job"]
        return any(fnmatchcase(name, self.pattern) for name in names)


JOB_PATHS: Mapping[str, tuple[str, ...]] = {"minMember": ("minAvailable",), "minResources": ()}
"""Where a PodGroup's field stands in the spec of a Volcano Job, where that is another place; () where it has none."""


def set_at(spec: Mapping[str, Any], path: Sequence[str], value: Value) -> Object:
    """A copy of `spec` in which the field has the value, or is missing."""
    head, *rest = path
    changed = dict(spec)
    if rest:
        changed[head] = set_at(spec.get(head) or {}, rest, value)
    elif value is None:
        changed.pop(head, None)
    else:
        changed[head] = value
    return changed


def _shrunk(before: Mapping[str, Any], after: Object) -> Object:
    """minResources follows minMember, each member taken to ask for the same: the queue's gate reads it."""
    old, new = before.get("minMember") or 0, after.get("minMember") or 0
    resources = before.get("minResources")
    if not resources or old <= 0:
        return after
    part = Fraction(new, old)
    return {**after, "minResources": {name: scaled(name, amount, part) for name, amount in resources.items()}}


# --- requests ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScaleRequests:
    """What pods ask for, times a factor: of each resource of `factors`, or of all by `every`. Rounded up to thousandths
    of cpu and to whole units of everything else."""

    text: str
    every: str = ""
    factors: Pairs = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("Pod", "PodGroup", "VolcanoJob")

    def names(self) -> tuple[tuple[str, str, str], ...]:
        return ()

    def added(self) -> Sequence[tuple[str, Object]]:
        return ()

    def rewrite(self, kind: str, obj: Object) -> Object | None:
        spec = obj.get("spec") or {}
        if kind == "Pod":
            changed = self._pod_spec(spec)
        elif kind == "PodGroup":
            changed = self._group_spec(spec)
        elif kind == "VolcanoJob":
            changed = {**spec, "tasks": [self._task(task) for task in spec.get("tasks") or ()]}
        else:
            return obj
        return obj if changed == spec else {**obj, "spec": changed}

    def _factor(self, resource: str) -> Fraction | None:
        found = dict(self.factors).get(resource, self.every)
        return Fraction(found) if found else None

    def _amounts(self, amounts: Mapping[str, Any], resource_of: Callable[[str], str] = str) -> Object:
        changed = dict(amounts)
        for name, amount in amounts.items():
            resource = resource_of(name)
            factor = self._factor(resource) if resource else None
            if factor is not None:
                changed[name] = scaled(resource, amount, factor)
        return changed

    def _pod_spec(self, spec: Object) -> Object:
        changed = dict(spec)
        for which in ("containers", "initContainers"):
            if spec.get(which):
                changed[which] = [self._container(one) for one in spec[which]]
        return changed

    def _container(self, container: Object) -> Object:
        resources = container.get("resources") or {}
        asks = resources.get("requests")
        if not asks:
            return container
        return {**container, "resources": {**resources, "requests": self._amounts(asks)}}

    def _group_spec(self, spec: Object) -> Object:
        asks = spec.get("minResources")
        return {**spec, "minResources": self._amounts(asks, _requested)} if asks else spec

    def _task(self, task: Object) -> Object:
        template = task.get("template") or {}
        if not template.get("spec"):
            return task
        return {**task, "template": {**template, "spec": self._pod_spec(template["spec"])}}


def _requested(name: str) -> str:
    """The resource of which an entry of minResources says how much is requested, '' for another entry."""
    return "" if name.startswith(UNCOUNTED) else name.removeprefix("requests.")


def scaled(resource: str, amount: Any, factor: Fraction) -> str:
    """A quantity times a factor, rounded up.

    >>> half = Fraction(1, 2)
    >>> scaled("cpu", "1500m", Fraction(1, 4)), scaled("memory", "1Gi", Fraction(3, 2)), scaled("gpu", 3, half)
    ('375m', '1610612736', '2')
    """
    parsed = parse_quantity(amount)
    whole = Fraction(parsed.mantissa) * (10**parsed.scale if parsed.scale >= 0 else Fraction(1, 10**-parsed.scale))
    milli = resource.removeprefix("requests.").removeprefix("limits.") == "cpu"
    exact = whole * factor * (1000 if milli else 1)
    number = -(-exact.numerator // exact.denominator)
    return f"{number}m" if milli and number % 1000 else str(number // 1000 if milli else number)


# --- what they share ----------------------------------------------------------------------------------------------


def name_of(obj: Object) -> str:
    """metadata.name, '' without one."""
    return (obj.get("metadata") or {}).get("name") or ""


def made_uid(kind: str, name: str) -> str:
    """A uid of an object that was never on an API server: the same for the same kind and name."""
    digest = blake2b(f"whatif/{kind}/{name}".encode(), digest_size=16).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


__all__ = [
    "AddNodes",
    "ChangeInvalid",
    "Object",
    "Pairs",
    "RemoveNodes",
    "ScaleRequests",
    "SetField",
    "WhatIf",
    "made_uid",
    "name_of",
    "scaled",
    "set_at",
]
