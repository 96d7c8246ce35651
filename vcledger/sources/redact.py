"""What is left out of an object before it is stored, without touching any other byte of it.

Owns the storage rules: managedFields dropped, values of environment variables and the last-applied annotation
redacted, kind and apiVersion added where a list left them out. Must not know where an object came from nor the log.
Called by `vcledger.sources.observe`.

An object is decoded once, into the partial struct of its kind with the doomed parts as raw JSON; what goes out or comes
in is then cut from, or put into, the bytes that were received. Numbers, escapes and the order of keys stay as sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from volcano.objects import core, scheduling
from volcano.objects.kinds import KINDS, Kind
from volcano.objects.meta import ObjectMeta

REDACTED = b'"<redacted>"'
"""What stands where a value was."""

Raw = msgspec.Raw
ABSENT = Raw()

_ENV_KEPT = 50_000


class StorageOptions(msgspec.Struct, frozen=True):
    """What to keep that is left out by default."""

    keep_managed_fields: bool = False
    keep_env: bool = False
    keep_last_applied: bool = False


# --- the partial structs, with what is left out as raw JSON -------------------------------------------------------


class StoredMeta(ObjectMeta, frozen=True):
    managed_fields: Raw = ABSENT


class StoredContainer(core.Container, frozen=True):
    env: Raw = ABSENT


class StoredPodSpec(core.PodSpec, frozen=True):
    containers: list[StoredContainer] | None = None  # type: ignore[assignment]
    init_containers: list[StoredContainer] | None = None  # type: ignore[assignment]
    ephemeral_containers: list[StoredContainer] | None = None


class StoredTemplate(scheduling.PodTemplate, frozen=True):
    spec: StoredPodSpec | None = None


class StoredTask(scheduling.TaskSpec, frozen=True):
    template: StoredTemplate | None = None


class StoredJobSpec(scheduling.VolcanoJobSpec, frozen=True):
    tasks: list[StoredTask] | None = None  # type: ignore[assignment]


_SPECS: dict[str, type[msgspec.Struct]] = {"Pod": StoredPodSpec, "VolcanoJob": StoredJobSpec}


def _stored_struct(kind: Kind) -> type[msgspec.Struct]:
    """The kind's partial struct with kind, apiVersion, managedFields and env beside its own fields."""
    fields: list[Any] = [("kind", str, ""), ("api_version", str, ""), ("metadata", StoredMeta)]
    if (spec := _SPECS.get(kind.name)) is not None:
        fields.append(("spec", spec, spec()))
    return msgspec.defstruct(f"Stored{kind.name}", fields, bases=(kind.struct,), frozen=True, kw_only=True)


DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.name: msgspec.json.Decoder(_stored_struct(kind)) for kind in reversed(KINDS)
}
"""Our kind name to the decoder of its struct as used here."""


# --- cutting ------------------------------------------------------------------------------------------------------

_VALUE = re.compile(rb'"value"(\s*):\s*"[^"\\]*+(?:\\.[^"\\]*+)*+"')
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LAST_APPLIED = re.compile(rb'("kubectl\.kubernetes\.io/last-applied-configuration"\s*:\s*)"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_MANAGED = b'"managedFields":'
_ENV = b'"env":'
_HIDDEN = b'"value":' + REDACTED


class Odd(ValueError):
    """The bytes are not laid out as an API server does it; compact them first."""


def compact(data: bytes) -> bytes:
    """JSON without blanks between its tokens; the tokens themselves unchanged."""
    return msgspec.json.format(data, indent=-1)


def managed_fields_at(data: bytes, value: Raw) -> tuple[int, int]:
    """Where metadata.managedFields, whose value is `value`, begins and ends, a comma included. Odd when it is not
    found."""
    text = bytes(value)
    start = data.find(_MANAGED)
    while start >= 0 and not data.startswith(text, start + len(_MANAGED)):
        start = data.find(_MANAGED, start + 1)
    if start < 0:
        raise Odd
    end = start + len(_MANAGED) + len(text)
    if data[start - 1] == 0x2C:
        start -= 1
    elif data[end] == 0x2C:
        end += 1
    return start, end


class EnvRedactor:
    """Works out lists of environment variables without their values. Equal lists, as in all pods of a job, are worked
    out once."""

    def __init__(self) -> None:
        self.known: dict[bytes, bytes] = {}

    def redacted(self, raw: Raw) -> tuple[bytes, bytes]:
        """A container's `"env":[...]` as it is and as it is stored; twice the same when there is nothing to hide."""
        old = _ENV + bytes(raw)
        return old, self.known.get(old) or self.work_out(old)

    def work_out(self, old: bytes) -> bytes:
        """The redacted text of one that was not seen before."""
        if len(self.known) >= _ENV_KEPT:
            self.known.clear()
        new = self.known[old] = _VALUE.sub(_HIDDEN, old)
        return new


def without_last_applied(data: bytes) -> bytes:
    """The object with the value of kubectl's last-applied annotation redacted, wherever it stands."""
    return _LAST_APPLIED.sub(rb"\1" + REDACTED, data)


def containers_of(kind: str, part: Any) -> Iterable[StoredContainer]:
    """Every container in a Pod, or in the templates of a Volcano Job."""
    if kind == "Pod":
        spec = part.spec
        if spec.init_containers or spec.ephemeral_containers:
            return [*(spec.init_containers or ()), *(spec.containers or ()), *(spec.ephemeral_containers or ())]
        return spec.containers or ()
    if kind != "VolcanoJob":
        return ()
    specs = [task.template.spec for task in part.spec.tasks or () if task.template and task.template.spec]
    return [
        container
        for spec in specs
        for group in (spec.init_containers, spec.containers, spec.ephemeral_containers)
        for container in group or ()
    ]


class Cleaner:
    """Applies the storage rules."""

    def __init__(self, options: StorageOptions) -> None:
        self.options = options
        self._env = EnvRedactor()
        self._usual = options == StorageOptions()

    def __call__(self, kind: Kind, part: Any, data: bytes) -> bytes:
        """What is stored of `data`, the JSON of an object of `kind`; `part` is its struct from DECODERS."""
        if kind.name == "Pod" and (pieces := self.pieces_of_pod(part, data)) is not None:
            return b"".join(pieces)
        try:
            return self._clean(kind, part, data)
        except Odd:
            data = compact(data)
            return self._clean(kind, DECODERS[kind.name].decode(data), data)

    def pieces_of_pod(self, part: Any, data: bytes) -> list[bytes] | None:
        """What is stored of a pod, in pieces: the same as `_clean` makes under the default options, in one go from
        front to back, for a pod as API servers lay it out, which is nearly all there is to store. None for any other
        layout, and under other options."""
        if not self._usual:
            return None
        meta, spec = part.metadata, part.spec
        annotations = meta.annotations
        if not part.kind or not part.api_version or (annotations is not None and LAST_APPLIED in annotations):
            return None
        pieces: list[bytes] = []
        at = 0
        if meta.managed_fields is not ABSENT:
            text = bytes(meta.managed_fields)
            start = data.find(_MANAGED)
            if data[start - 1] != 0x2C or not data.startswith(text, start + 16):
                return None
            pieces.append(data[: start - 1])
            at = start + 16 + len(text)
        if spec.init_containers or spec.ephemeral_containers:
            containers: Iterable[StoredContainer] = containers_of("Pod", part)
        else:
            containers = spec.containers or ()
        known = self._env.known
        for container in containers:
            if container.env is ABSENT:
                continue
            old = _ENV + bytes(container.env)
            new = known.get(old) or self._env.work_out(old)
            start = data.find(_ENV, at)
            if not data.startswith(old, start):
                return None
            pieces.append(data[at:start])
            pieces.append(new)
            at = start + len(old)
        if not at:
            return [data]
        pieces.append(data[at:])
        return pieces

    def _clean(self, kind: Kind, part: Any, data: bytes) -> bytes:
        options = self.options
        managed = part.metadata.managed_fields
        if managed is not ABSENT and not options.keep_managed_fields:
            start, end = managed_fields_at(data, managed)
            data = data[:start] + data[end:]
        if not options.keep_env:
            for container in containers_of(kind.name, part):
                if container.env is not ABSENT:
                    data = self._without_env(data, container.env)
        if not options.keep_last_applied and self._has_last_applied(kind, part, data):
            data = without_last_applied(data)
        if not part.kind or not part.api_version:
            data = with_type(kind, part, data)
        return data

    def _without_env(self, data: bytes, raw: Raw) -> bytes:
        """The object with a container's variables redacted. Several containers may have the very same ones. (What is
        searched for is the short key: for a long needle bytes.find works out a table first, which takes longer.)"""
        old, new = self._env.redacted(raw)
        if new == old:
            return data
        start, found = data.find(_ENV), False
        while start >= 0:
            if data.startswith(old, start):
                data, found = data[:start] + new + data[start + len(old) :], True
            start = data.find(_ENV, start + len(_ENV))
        if not found and new not in data:
            raise Odd
        return data

    @staticmethod
    def _has_last_applied(kind: Kind, part: Any, data: bytes) -> bool:
        """By the annotations of the object itself; a job's templates have some of their own."""
        annotations = part.metadata.annotations
        if annotations is not None and LAST_APPLIED in annotations:
            return True
        return kind.name == "VolcanoJob" and LAST_APPLIED.encode() in data


def with_type(kind: Kind, part: Any, data: bytes) -> bytes:
    """The object with kind and apiVersion, which the items of a list of a built-in kind lack."""
    begin = data.index(b"{") + 1
    group = f"{kind.group}/" if kind.group else ""
    head = b"" if part.kind else b'"kind":"%s",' % kind.api_kind.encode()
    if not part.api_version:
        head += b'"apiVersion":"%s%s",' % (group.encode(), kind.versions[0].encode())
    return data[:begin] + head + data[begin:]
