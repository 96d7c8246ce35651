"""What is recorded: kinds, namespaces and labels, and how people write them.

Owns the parsing and the checks. Pure. Must not know requests. Called by `cli.record` and the modules beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vcledger.errors import VcledgerError
from volcano.objects.kinds import BY_NAME, BY_RESOURCE, KINDS, Kind

RECORDED: tuple[str, ...] = tuple(dict.fromkeys(kind.name for kind in KINDS))
"""Our names of every kind that can be recorded. Events are those of core/v1, which has the same objects."""


class BadScope(VcledgerError):
    """A kind, namespace or selector that means nothing."""


class Scope(NamedTuple):
    """What one list and watch is about: a kind (our name), of one namespace ('': all), with these labels ('': any)."""

    kind: str
    namespace: str = ""
    selector: str = ""

    @property
    def resource(self) -> str:
        return BY_NAME[self.kind].full_resource

    @property
    def title(self) -> str:
        """For people: `pods`, `pods in team-a`."""
        return f"{self.resource} in {self.namespace}" if self.namespace else self.resource


def scopes(kinds: Sequence[str], namespaces: Sequence[str], selectors: Iterable[str]) -> list[Scope]:
    """One for each kind, and for each namespace where the kind has any. No kinds: all; no namespaces: all at once.
    A selector is `KIND:LABELS`, the labels as kubectl takes them. BadScope."""
    wanted = list(dict.fromkeys(kind_named(word).name for word in kinds)) or list(RECORDED)
    labels: dict[str, str] = {}
    for text in selectors:
        word, colon, selector = text.partition(":")
        if not colon or not selector:
            raise BadScope(f"selector {text!r}: name the kind it is for, such as pods:team=a")
        kind = kind_named(word).name
        if kind not in wanted:
            raise BadScope(f"selector {text!r}: {word} are not recorded")
        labels[kind] = f"{labels[kind]},{selector}" if kind in labels else selector
    for namespace in namespaces:
        if not namespace or "/" in namespace or not namespace.isprintable():
            raise BadScope(f"{namespace!r} is no name of a namespace")
    found = []
    for kind in wanted:
        where = list(dict.fromkeys(namespaces)) if BY_NAME[kind].namespaced and namespaces else [""]
        found += [Scope(kind, namespace, labels.get(kind, "")) for namespace in where]
    return found


SHORT = {
    "po": "Pod",
    "no": "Node",
    "pg": "PodGroup",
    "podgroups": "PodGroup",
    "q": "Queue",
    "queues": "Queue",
    "vcjob": "VolcanoJob",
    "vcjobs": "VolcanoJob",
    "pv": "PersistentVolume",
    "pvc": "PersistentVolumeClaim",
    "sc": "StorageClass",
    "pc": "PriorityClass",
    "quota": "ResourceQuota",
    "ev": "Event",
    "numatopo": "Numatopology",
}


def kind_named(word: str) -> Kind:
    """The kind that a person means: our name, the resource, its singular or kubectl's short name. BadScope."""
    lower = word.lower()
    for kind in KINDS:
        bare = (kind.name.lower(), kind.resource, kind.resource.removesuffix("s"), kind.full_resource)
        if lower in bare and (kind.name != "VolcanoJob" or lower in ("volcanojob", kind.full_resource)):
            return BY_NAME[kind.name]
    found = BY_NAME.get(SHORT.get(lower, "")) or BY_RESOURCE.get(lower)
    if found is None:
        known = ", ".join(BY_NAME[name].full_resource for name in RECORDED)
        raise BadScope(f"no kind {word!r} is recorded: there are {known}")
    return found
