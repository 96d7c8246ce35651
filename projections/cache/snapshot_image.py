"""The layout of a snapshot's bytes: sections, columns and rows, as msgpack.

Owns the layout. Must not know what a section means to the fold. Called by `projections.cache.snapshot_write` and
`.snapshot_read`.

Pods lie in columns, so that like stands beside like: it decodes fast and compresses well. Amounts decode straight into
Resource under the models with float64 numbers, into plain rows under `exact`, whose ints must stay ints.
"""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from volcano.objects.resource import Resource

FORMAT = 1

Amount: TypeAlias = int | float | str
"""A number; as text where it is an int that msgpack has no room for."""

ExactRow = tuple[Amount, Amount, dict[str, Amount] | None, Amount]
"""A Resource's fields with ints kept."""

R = TypeVar("R")


class SnapshotInvalid(ValueError):
    """Bytes that are no snapshot of this projection."""


class PodColumns(msgspec.Struct, array_like=True):
    """One entry a pod in each column. namespace, node, phase, scheduler, job index the words; request, profile (-1: no
    task follows) their tables; `age` is the snapshot's position less the pod's. `claims` is by row."""

    namespace: list[int]
    name: list[str]
    uid: list[Any]
    node: list[int]
    phase: list[int]
    scheduler: list[int]
    job: list[int]
    bits: list[int]
    request: list[int]
    profile: list[int]
    age: list[int]
    version: list[int]
    claims: dict[int, list[str]]


class NodeHeader(msgspec.Struct, array_like=True):
    """What of a node changes with its object. `node` False: a placeholder; True: the store's object; bytes: another
    one, from which the store has moved on. `flags`: oversubscription 1, offline job evicting 2. allocatable and
    capacity index the requests; -1, as in the first snapshots, which had neither: they follow from the object."""

    node: bool | bytes
    position: int
    phase: str
    reason: str
    csi: dict[str, int]
    oversubscription_cpu: int | float
    oversubscription_memory: int | float
    flags: int
    revocable_zone: str
    images: dict[str, tuple[int, int]]
    allocatable: int = -1
    capacity: int = -1


class NodeRow(msgspec.Struct, Generic[R], array_like=True):
    """A node's sums; None stands for nothing, and for idle = allocatable - used."""

    name: str
    used: R | None
    releasing: R | None
    pipelined: R | None
    idle: R | None
    header: NodeHeader | None


class JobFields(msgspec.Struct, array_like=True):
    """What of a job changes with its PodGroup, and its fit errors."""

    name: str
    namespace: str
    pg_uid: str
    position: int
    queue: str
    min_available: int
    task_min_available: dict[str, int]
    task_min_available_total: int
    preemptable: bool
    revocable_zone: str
    budget_min_available: str
    budget_max_unavailable: str
    waiting_time_seconds: float | None
    job_fit_errors: str
    nodes_fit_errors: dict[str, str]


class TaskRow(msgspec.Struct, array_like=True):
    """A task that does not follow from its pod's entry. job, namespace and node index the words."""

    uid: Any
    job: int
    namespace: int
    name: str
    status: int
    node: int
    gated: bool
    profile: int


class JobRow(msgspec.Struct, Generic[R], array_like=True):
    """A job's sums. `left_over`: (status, uid, task) of index entries whose task is not the job's (072)."""

    key: str
    priority: int
    allocated: R
    total_request: R
    fields: JobFields | None
    left_over: list[tuple[int, str, TaskRow]]


class Small(msgspec.Struct, array_like=True):
    """The small things. Queues are key to (due, attempts)."""

    default_priority_class: str
    default_priority: int
    namespaces: list[str]
    pending_cleanup: dict[str, tuple[int, int]]
    pending_resync: dict[str, tuple[int, int]]
    pending_node_sync: dict[str, tuple[int, int]]
    panics: list[int]
    node_list: list[str]


class Image(msgspec.Struct, Generic[R], array_like=True):
    """A snapshot. A whole one has everything; one of changes has what was touched, and what is gone by key.

    profiles   (role, priority, bits, zone, request) of tasks; bits: preemptable 1, best effort 2, restartable init 4
    objects    (kind, key, position or 0, object or None when it is not held)
    job_tasks  (job's word, uid, task or None) where a job's task is not what follows from the pods; node_tasks likewise
    """

    format: int
    whole: bool
    model: str
    position: int
    now: int
    words: list[str]
    requests: list[R]
    profiles: list[tuple[int, int, int, int, int]]
    pods: PodColumns
    pods_gone: list[str]
    objects: list[tuple[str, str, int, bytes | None]]
    nodes: list[NodeRow[R]]
    nodes_gone: list[str]
    jobs: list[JobRow[R]]
    jobs_gone: list[str]
    job_tasks: list[tuple[int, str, TaskRow | None]]
    node_tasks: list[tuple[int, str, TaskRow | None]]
    small: Small | None
    refused: dict[int, str]


FLOAT_DECODER: msgspec.msgpack.Decoder[Image[Resource]] = msgspec.msgpack.Decoder(Image[Resource])
EXACT_DECODER: msgspec.msgpack.Decoder[Image[ExactRow]] = msgspec.msgpack.Decoder(Image[ExactRow])
ENCODER = msgspec.msgpack.Encoder()
encode_object = msgspec.json.Encoder().encode
"""A store's object to bytes: as JSON, which has room for every number that an object may carry."""


_EXACT_MAX = 2.0**53


def whole_number(amount: float) -> float:
    """An int where the amount is whole: shorter, and the same number."""
    if isinstance(amount, float) and amount.is_integer() and -_EXACT_MAX < amount < _EXACT_MAX:
        return int(amount)
    return amount


def pack_amount(amount: float) -> Amount:
    """`whole_number`, and as text what doesn't fit into 64 bits."""
    if isinstance(amount, int) and not -(2**63) <= amount < 2**63:
        return str(amount)
    return whole_number(amount)


def unpack_amount(amount: Amount) -> float:
    """The number again."""
    return int(amount) if isinstance(amount, str) else amount


def resource_row(resource: Resource) -> ExactRow:
    """[cpu, memory, scalars or nil, max_task_num], whole numbers as ints."""
    scalars = resource.scalars
    return (
        pack_amount(resource.milli_cpu),
        pack_amount(resource.memory),
        None if scalars is None else {name: pack_amount(amount) for name, amount in sorted(scalars.items())},
        pack_amount(resource.max_task_num),
    )


def pack_uid(uid: str) -> str | bytes:
    """A UUID as its 16 bytes, anything else as it is."""
    if len(uid) == 36 and uid[8] == uid[13] == uid[18] == uid[23] == "-":
        try:
            packed = bytes.fromhex(uid.replace("-", ""))
        except ValueError:
            return uid
        if len(packed) == 16 and unpack_uid(packed) == uid:
            return packed
    return uid


def unpack_uid(packed: str | bytes) -> str:
    """The UID again."""
    if isinstance(packed, str):
        return packed
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_UUID_PLACES = tuple(place for place in range(36) if place not in (8, 13, 18, 23))
"""Where the hex digits stand in a UUID's text."""


def unpack_uids(packed: list[Any]) -> list[str]:
    """`unpack_uid` of each, in an eighth of the time: digit by digit, for all of them at once."""
    digits = b"".join([uid for uid in packed if type(uid) is bytes]).hex().encode()
    count = len(digits) // 32
    text = bytearray(b"-" * (37 * count))
    for number, place in enumerate(_UUID_PLACES):
        text[place::37] = digits[number::32]
    text[36::37] = b" " * count
    unpacked = text.decode().split(" ")
    if count == len(packed):
        return unpacked[:-1]
    found = iter(unpacked)
    return [uid if type(uid) is str else next(found) for uid in packed]


__all__ = [
    "ENCODER",
    "EXACT_DECODER",
    "FLOAT_DECODER",
    "FORMAT",
    "ExactRow",
    "Image",
    "JobFields",
    "JobRow",
    "NodeHeader",
    "NodeRow",
    "PodColumns",
    "Small",
    "SnapshotInvalid",
    "TaskRow",
    "encode_object",
    "pack_amount",
    "pack_uid",
    "resource_row",
    "unpack_amount",
    "unpack_uid",
    "unpack_uids",
    "whole_number",
]
