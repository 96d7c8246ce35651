"""From what a SimKube trace says of owners to pods: how many, from when to when, and by which template.

Owns what can be derived and what not (docs/importing.md). Must not know msgpack, the log, nor what the pods look
like as API objects (`vcledger.sources.simkube_objects`). Called by `vcledger.sources.simkube`.

An owner whose pods' lifecycles are in the trace has had those pods, each there from its start on. One without has had
as many as it asked for, from when it asked, and whether they ran is not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from vcledger.sources.made import each
from vcledger.sources.observe import NAME_MAX, Unusable, Unwanted, shown
from vcledger.sources.report import Tally
from volcano.objects.kinds import kind_of

BARE, JOB, VOLCANO_JOB = "v1.Pod", "batch/v1.Job", "batch.volcano.sh/v1alpha1.Job"
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    BARE: ("",),
    "apps/v1.Deployment": ("/spec/template",),
    "apps/v1.ReplicaSet": ("/spec/template",),
    "apps/v1.StatefulSet": ("/spec/template",),
    JOB: ("/spec/template",),
    "batch/v1.CronJob": ("/spec/jobTemplate/spec/template",),
    VOLCANO_JOB: ("/spec/tasks/*/template",),
}
"""Where the pod templates of well-known kinds are, when a trace's config does not say."""

ONE_UNLESS_SAID = frozenset({BARE, "apps/v1.Deployment", "apps/v1.ReplicaSet", "apps/v1.StatefulSet"})
"""Kinds that have one pod when they name no number of replicas."""

REPLICAS_MAX = 100_000
"""Pods of one template at a time, at most: more are taken for a mistake."""

PODS_MAX = 1_000_000
"""Pods of one owner over the whole trace."""

Built: TypeAlias = Mapping[str, Any]
"""An object as JSON has it."""


class Lifecycle(NamedTuple):
    """When a pod ran, in microseconds; `end` None: it still did when the trace ended."""

    start: int
    end: int | None


class Template(NamedTuple):
    """A pod template of an owner: how its pods' names begin, how many it asks for (None: the owner does not say), and,
    of a Volcano Job, which task it is of."""

    prefix: str
    pod: Built
    replicas: int | None
    role: str = ""


@dataclass
class Pod:
    """A pod from its creation to its deletion (None: not in this trace). Times in microseconds."""

    name: str
    template: Built
    created: int
    lifecycle: Lifecycle | None = None
    deleted: int | None = None
    role: str = ""


@dataclass
class Owner:
    """An object between its first application and its deletion. `states` are the times and objects applied; of objects
    that had its name one after the other, each is another `incarnation`."""

    gvk: str
    namespace: str
    name: str
    incarnation: int
    states: list[tuple[int, Built]] = field(default_factory=list)
    deleted: int | None = None
    pods: list[Pod] = field(default_factory=list)

    @property
    def identity(self) -> str:
        """What its uid is made from."""
        return f"{self.gvk}/{self.namespace}/{self.name}/{self.incarnation}"


class Owners:
    """All objects of a trace. Take them in order of time with `apply` and `delete`; then `derive` their pods. `paths`
    are the pointers to pod templates by kind, `lifecycles` those of each owner, by kind and name, in groups."""

    def __init__(
        self, paths: Mapping[str, tuple[str, ...]], lifecycles: Mapping[tuple[str, str], Sequence[list[Lifecycle]]]
    ) -> None:
        self.paths, self.lifecycles = paths, lifecycles
        self.all: list[Owner] = []
        self._there: dict[tuple[str, str, str], Owner] = {}
        self._born: dict[tuple[str, str, str], int] = {}

    def apply(self, time: int, built: Any) -> tuple[Owner, bool]:
        """An object was applied; whether it is a new one. Unusable when it is none, Unwanted when it is of no use."""
        gvk, namespace, name = key = identity_of(built)
        if kind_of(built["apiVersion"], built["kind"]) is None and not self._pointers(gvk):
            raise Unwanted(f"kind {shown(built['kind'])} of {shown(built['apiVersion'])}")
        self.templates(gvk, built)  # Unusable before anything is remembered
        owner = self._there.get(key)
        new = owner is None
        if owner is None:
            owner = self._there[key] = Owner(gvk, namespace, name, self._born.get(key, 0))
            self._born[key] = owner.incarnation + 1
            self.all.append(owner)
        owner.states.append((time, built))
        return owner, new

    def delete(self, time: int, built: Any) -> Owner:
        """An object was deleted. Unwanted when it was not there."""
        owner = self._there.pop(identity_of(built), None)
        if owner is None:
            raise Unwanted("deleted in a SimKube trace, but not applied in it before")
        owner.deleted = time
        return owner

    # --- templates ----------------------------------------------------------------------------------------------

    def _pointers(self, gvk: str) -> tuple[str, ...]:
        return self.paths.get(gvk) or TEMPLATES.get(gvk, ())

    def templates(self, gvk: str, built: Built) -> list[Template]:
        """The pod templates of an owner, in order. Unusable for a number of pods that is none."""
        name, spec = built["metadata"]["name"], mapping(built.get("spec"))
        if gvk == VOLCANO_JOB:
            return [self._of_task(name, number, task) for number, task in enumerate(each(spec, "tasks"))]
        wanted: int | None = 1 if gvk in ONE_UNLESS_SAID else None
        if gvk == JOB:
            wanted = min(_count(spec, "parallelism"), _count(spec, "completions"))
        elif spec.get("replicas") is not None:
            wanted = _count(spec, "replicas")
        found = [one for pointer in self._pointers(gvk) for one in _at(built, pointer)]
        return [
            Template(name if len(found) == 1 else f"{name}-{number}", template, wanted)
            for number, template in enumerate(found)
        ]

    @staticmethod
    def _of_task(job: str, number: int, task: Built) -> Template:
        """The template of a Volcano Job's task, its pods named as Volcano's job controller does."""
        role = str(task.get("name") or f"default{number}")
        return Template(f"{job}-{role}", mapping(task.get("template")), _count(task, "replicas"), role)

    # --- pods ---------------------------------------------------------------------------------------------------

    def derive(self, owner: Owner, tally: Tally) -> None:
        """Finds the pods that an owner has had; counts what is not told."""
        since, first = owner.states[0]
        templates = self.templates(owner.gvk, first)
        groups = self._lives(owner) if templates else []
        if owner.gvk == BARE and templates:
            life = groups[0][0] if groups else None
            owner.pods = [Pod(owner.name, templates[0].pod, since, life, owner.deleted)]
            return
        matched = _matched(templates, groups)
        if matched is not None:
            for place, lives in enumerate(matched):
                self._from_lifecycles(owner, place, lives)
            return
        if groups:
            count = sum(map(len, groups))
            tally.ignored("SimKube lifecycles of an owner with several pod templates: not told of which", count)
        self._from_replicas(owner)
        if templates and all(one.replicas is None for one in templates):
            tally.ignored(f"{owner.gvk} without lifecycles: how many pods it had is not told")

    def _lives(self, owner: Owner) -> list[list[Lifecycle]]:
        """The lifecycles in the time of an owner, and not of another of its name, each group by its starts."""
        found = self.lifecycles.get((owner.gvk, f"{owner.namespace}/{owner.name}"), ())
        since = owner.states[0][0] if owner.incarnation else 0
        until = owner.deleted
        mine = [
            [one for one in group if one.start >= since and (until is None or one.start <= until)] for group in found
        ]
        return [sorted(group, key=lambda one: one.start) for group in mine if group]

    def _from_lifecycles(self, owner: Owner, place: int, lives: Sequence[Lifecycle]) -> None:
        """A pod for each, of the template that stood when it started. A job makes its pods when it begins, so as
        many as it asks for have waited since then, and of those that are lacking none ever started."""
        since, first = owner.states[0]
        wanted = (self.templates(owner.gvk, first)[place].replicas or 0) if owner.gvk in (JOB, VOLCANO_JOB) else 0
        for number in range(max(len(lives), wanted)):
            life = lives[number] if number < len(lives) else None
            created = since if life is None or number < wanted else life.start
            started = created if life is None else life.start
            standing = [built for time, built in owner.states if time <= started] or [first]
            for template in self.templates(owner.gvk, standing[-1])[place : place + 1]:
                name = f"{template.prefix}-{number}"
                owner.pods.append(Pod(name, template.pod, created, life, owner.deleted, template.role))

    def _from_replicas(self, owner: Owner) -> None:
        """As many pods as are asked for; the youngest go first, and all of a template when it changes."""
        alive: dict[str, list[Pod]] = {}
        numbers: dict[str, int] = {}
        for time, built in owner.states:
            wanted = {one.prefix: one for one in self.templates(owner.gvk, built)}
            for prefix, pods in alive.items():
                _shrink(pods, wanted.get(prefix), time)
            for prefix, one in wanted.items():
                pods = alive.setdefault(prefix, [])
                if len(owner.pods) + (one.replicas or 0) > PODS_MAX:
                    raise Unusable(f"more than {PODS_MAX:,} pods")
                while len(pods) < (one.replicas or 0):
                    number = numbers[prefix] = numbers.get(prefix, -1) + 1
                    pods.append(Pod(f"{prefix}-{number}", one.pod, time, role=one.role))
                    owner.pods.append(pods[-1])
        for pods in alive.values():
            for pod in pods:
                pod.deleted = owner.deleted


def _matched(templates: Sequence[Template], groups: Sequence[list[Lifecycle]]) -> list[list[Lifecycle]] | None:
    """The lifecycles for each template; None when it is not told. They are grouped by a hash that only SimKube can
    make: with one template all are of it, with several each group must be as large as one template's number of pods."""
    if not groups or not templates:
        return None
    if len(templates) == 1:
        return [sorted((one for group in groups for one in group), key=lambda one: one.start)]
    by_size = {len(group): group for group in groups}
    sizes = [one.replicas for one in templates]
    if len(by_size) != len(groups) or sorted(by_size) != sorted(size or 0 for size in sizes):
        return None
    return [by_size[size or 0] for size in sizes]


def _shrink(pods: list[Pod], wanted: Template | None, time: int) -> None:
    """Deletes the pods that are not asked for any more."""
    same = wanted is not None and bool(pods) and pods[0].template == wanted.pod
    keep = wanted.replicas or 0 if wanted is not None and same else 0
    for pod in pods[keep:]:
        pod.deleted = time
    del pods[keep:]


# --- parts of objects ---------------------------------------------------------------------------------------------


def identity_of(built: Any) -> tuple[str, str, str]:
    """`group/version.Kind` as SimKube writes it, namespace and name. Unusable when the object lacks one."""
    if not isinstance(built, dict) or not isinstance(built.get("metadata"), dict):
        raise Unusable("no object: it has no metadata")
    meta = built["metadata"]
    found = built.get("apiVersion"), built.get("kind"), meta.get("name")
    namespace = meta.get("namespace") or ""
    for text, what in zip((*found, namespace), ("apiVersion", "kind", "name", "namespace"), strict=True):
        if not isinstance(text, str) or (not text and what != "namespace"):
            raise Unusable(f"an object without {what}")
        if len(text) > NAME_MAX or not text.isprintable():
            raise Unusable(f"{what} {shown(text)} is not one that the API allows")
    return f"{found[0]}.{found[1]}", namespace, str(found[2])


def mapping(value: Any) -> dict[str, Any]:
    """The object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _count(built: Built, key: str) -> int:
    """A number of pods; 1 when there is none."""
    value = built.get(key)
    if value is None:
        return 1
    if type(value) is not int or not 0 <= value <= REPLICAS_MAX:
        raise Unusable(f"{key} {shown(str(value))} is no number of pods up to {REPLICAS_MAX:,}")
    return value


def count_or(built: Built, key: str, default: int) -> int:
    """A number of pods, or the default when there is none."""
    return default if built.get(key) is None else _count(built, key)


def _at(built: Any, pointer: str) -> Iterator[Built]:
    """The objects that a JSON pointer leads to; `*` stands for each item of a list. None where the path ends early."""
    key, _, rest = pointer.removeprefix("/").partition("/")
    if not pointer:
        if isinstance(built, dict):
            yield built
    elif key == "*" and isinstance(built, list):
        for item in built:
            yield from _at(item, f"/{rest}" if rest else "")
    elif isinstance(built, dict):
        yield from _at(built.get(key.replace("~1", "/").replace("~0", "~")), f"/{rest}" if rest else "")
    elif isinstance(built, list) and key.isdigit() and int(key) < len(built):
        yield from _at(built[int(key)], f"/{rest}" if rest else "")
