"""Volcano's own cache dumps: what a scheduler writes to snapshot-<seconds>.json when it gets SIGUSR1.

Owns the reading of all layouts. Must not know our cache nor the ledger. Called by `vcledger.compare` and by the
importer, which takes the API objects that are embedded in a dump.

A dump is a series of JSON values, one a line, written by pkg/scheduler/cache/dumper.go with Go's field names, from a
snapshot of the cache: nodes that are not Ready and jobs without PodGroup or queue are not in it. The first value is
always the nodes. The oldest versions write nothing else; since hyper nodes (1.11's time) the last value is the jobs,
and between them stand two, later three, now four values about hyper nodes, which are not read here.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import zstandard

from vcledger.errors import VcledgerError
from volcano.objects.status import STATUS_WORDS

NODES_ONLY, LAYOUTS = 1, (1, 4, 5, 6)
"""How many JSON values a dump may have."""

PHASE_NAMES: dict[int, str] = {1: "Ready", 2: "NotReady"}
"""NodePhase in pkg/scheduler/api/types.go to its name."""


class NotADump(VcledgerError):
    """The file is no cache dump of Volcano, or not all of one."""


_ABSENT = msgspec.Raw(b"null")
"""What an embedded object is where a dump has none."""


class DumpResource(msgspec.Struct, frozen=True, gc=False):
    """api.Resource: milli-CPU, bytes, scalars in milli-units (`pods` and attachable-volumes-* in units)."""

    milli_cpu: float = msgspec.field(name="MilliCPU")
    memory: float = msgspec.field(name="Memory")
    scalars: dict[str, float] | None = msgspec.field(name="ScalarResources", default=None)
    max_task_num: int = msgspec.field(name="MaxTaskNum", default=0)


class DumpTask(msgspec.Struct, frozen=True, gc=False):
    """api.TaskInfo, as a job or a node holds it. A slimmed dump has names only in the key or in the pod. `pod` is the
    embedded v1.Pod's JSON, a view of the file's bytes."""

    uid: str = msgspec.field(name="UID")
    status_bit: int = msgspec.field(name="Status")
    request: DumpResource = msgspec.field(name="Resreq")
    job: str = msgspec.field(name="Job", default="")
    namespace: str = msgspec.field(name="Namespace", default="")
    name: str = msgspec.field(name="Name", default="")
    node_name: str = msgspec.field(name="NodeName", default="")
    priority: int | None = msgspec.field(name="Priority", default=None)
    preemptable: bool | None = msgspec.field(name="Preemptable", default=None)
    best_effort: bool | None = msgspec.field(name="BestEffort", default=None)
    pod: msgspec.Raw = msgspec.field(name="Pod", default=_ABSENT)

    @property
    def status(self) -> str:
        """The status by name: Pending, Binding, Running ..."""
        return STATUS_WORDS[self.status_bit]


class DumpNodeState(msgspec.Struct, frozen=True, gc=False):
    """api.NodeState."""

    phase: int = msgspec.field(name="Phase")
    reason: str = msgspec.field(name="Reason", default="")


class DumpNode(msgspec.Struct, frozen=True, gc=False):
    """api.NodeInfo. `tasks` is keyed "ns/name"; `node` is the embedded v1.Node's JSON."""

    name: str = msgspec.field(name="Name")
    idle: DumpResource = msgspec.field(name="Idle")
    used: DumpResource = msgspec.field(name="Used")
    allocatable: DumpResource = msgspec.field(name="Allocatable")
    tasks: dict[str, DumpTask] | None = msgspec.field(name="Tasks")
    state: DumpNodeState | None = msgspec.field(name="State", default=None)
    releasing: DumpResource | None = msgspec.field(name="Releasing", default=None)
    pipelined: DumpResource | None = msgspec.field(name="Pipelined", default=None)
    capacity: DumpResource | None = msgspec.field(name="Capacity", default=None)
    revocable_zone: str = msgspec.field(name="RevocableZone", default="")
    oversubscription_node: bool = msgspec.field(name="OversubscriptionNode", default=False)
    offline_job_evicting: bool = msgspec.field(name="OfflineJobEvicting", default=False)
    node: msgspec.Raw = msgspec.field(name="Node", default=_ABSENT)


class DumpJob(msgspec.Struct, frozen=True, gc=False):
    """api.JobInfo. `tasks` is keyed by pod UID; `pod_group` is the embedded PodGroup's JSON, with a `Version`."""

    uid: str = msgspec.field(name="UID")
    name: str = msgspec.field(name="Name")
    namespace: str = msgspec.field(name="Namespace")
    queue: str = msgspec.field(name="Queue")
    min_available: int = msgspec.field(name="MinAvailable")
    allocated: DumpResource = msgspec.field(name="Allocated")
    total_request: DumpResource = msgspec.field(name="TotalRequest")
    tasks: dict[str, DumpTask] | None = msgspec.field(name="Tasks")
    pg_uid: str = msgspec.field(name="PgUID", default="")
    priority: int = msgspec.field(name="Priority", default=0)
    task_min_available: dict[str, int] | None = msgspec.field(name="TaskMinAvailable", default=None)
    preemptable: bool | None = msgspec.field(name="Preemptable", default=None)
    revocable_zone: str = msgspec.field(name="RevocableZone", default="")
    pod_group: msgspec.Raw = msgspec.field(name="PodGroup", default=_ABSENT)


class Dump(msgspec.Struct, frozen=True):
    """A parsed dump. `documents` is the number of JSON values; `jobs` is None where the layout has none."""

    source: str
    documents: int
    nodes: dict[str, DumpNode]
    jobs: dict[str, DumpJob] | None

    def tasks(self) -> dict[str, DumpTask]:
        """All tasks by pod UID: the jobs', and those that only a node holds (pods without a group, or old layouts)."""
        found = {task.uid: task for job in (self.jobs or {}).values() for task in (job.tasks or {}).values()}
        for node in self.nodes.values():
            for task in (node.tasks or {}).values():
                found.setdefault(task.uid, task)
        return found


_NODES = msgspec.json.Decoder(dict[str, DumpNode])
_JOBS = msgspec.json.Decoder(dict[str, DumpJob] | None)
_OTHER = msgspec.json.Decoder(msgspec.Raw)
_LINE = re.compile(rb"\S(?:[^\n]*\S)?")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|null', re.DOTALL)
_OPEN, _CLOSE = b"{}"


def read(path: Path) -> Dump:
    """The dump in a file, plain, gzip or zstd. NotADump, with what is wrong, on anything else; OSError as it comes."""
    return parse(_decompressed(path.read_bytes(), path.name), path.name)


def parse(data: bytes, source: str) -> Dump:
    """The dump in `data` (already decompressed); `source` names it in errors. Raises NotADump."""
    documents = list(_documents(data, source))
    if not documents:
        raise NotADump(f"{source} is empty, not a cache dump")
    try:
        nodes = _NODES.decode(documents[0])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotADump(f"{source} is not a cache dump of Volcano: its nodes: {error}") from error
    if len(documents) not in LAYOUTS:
        raise NotADump(
            f"{source} is not a whole cache dump: it has {len(documents)} JSON values, a dump has 1, 4, 5 or 6"
        )
    jobs: dict[str, DumpJob] | None = None
    try:
        for other in documents[1:-1]:
            _OTHER.decode(other)
        if len(documents) > NODES_ONLY:
            jobs = _JOBS.decode(documents[-1]) or {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotADump(f"{source} is not a whole cache dump: its last value is not the jobs: {error}") from error
    dump = Dump(source=source, documents=len(documents), nodes=nodes, jobs=jobs)
    _check_codes(dump)
    if documents[1:] and not jobs and len(documents) < max(LAYOUTS) and any(task.job for task in dump.tasks().values()):
        raise NotADump(f"{source} is cut off: tasks on its nodes belong to jobs, and no jobs follow")
    return dump


def sniff(head: bytes) -> bool:
    """Whether the first bytes of a file (decompressed) may be those of a dump: a map of names to NodeInfo, whose first
    field is Name, or an empty map on a line of its own, which is a dump of no nodes."""
    return re.match(rb'\s*\{(?:\s*"[^"]*"\s*:\s*\{\s*"Name"\s*:|\}\n\{)', head) is not None


def _check_codes(dump: Dump) -> None:
    """Every status and phase is one that Volcano has."""
    for task in dump.tasks().values():
        if task.status_bit not in STATUS_WORDS:
            raise NotADump(f"{dump.source}: task {task.uid} has status {task.status_bit}, which Volcano does not have")
    for name, node in dump.nodes.items():
        for task in (node.tasks or {}).values():
            if task.status_bit not in STATUS_WORDS:
                raise NotADump(f"{dump.source}: a task on node {name} has the unknown status {task.status_bit}")
        if node.state is not None and node.state.phase not in PHASE_NAMES:
            raise NotADump(f"{dump.source}: node {name} has the unknown phase {node.state.phase}")


def _decompressed(data: bytes, source: str) -> bytes:
    """The bytes without gzip or zstd."""
    try:
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        if data[:4] == b"\x28\xb5\x2f\xfd":
            return _unzstd(data)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise NotADump(f"{source} cannot be decompressed; it may be cut off: {error}") from error
    return data


def _unzstd(data: bytes) -> bytes:
    """All frames of a zstd file; EOFError when the last one does not end, which a plain stream reader would not say."""
    parts: list[bytes] = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(data))
        if not frame.eof:
            raise EOFError("the last frame does not end")
        data = frame.unused_data
    return b"".join(parts)


def _documents(data: bytes, source: str) -> Iterator[memoryview]:
    """The JSON values of a dump, as views of its bytes. As Volcano writes them they are lines; a file that somebody has
    pretty-printed is cut where the brackets close."""
    lines = list(_lines(data))
    view = memoryview(data)
    whole = all(
        (data[start] == _OPEN and data[end - 1] == _CLOSE) or view[start:end].tobytes() == b"null"
        for start, end in lines
    )
    for start, end in lines if whole else _values(data, source):
        yield view[start:end]


def _lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines that are not blank begin and end, without copying them."""
    for line in _LINE.finditer(data):
        yield line.span()


def _values(data: bytes, source: str) -> Iterator[tuple[int, int]]:
    """Where the JSON values of a series begin and end, whatever space is between and in them. NotADump on anything
    else between them and on one that does not end."""
    depth = start = end = 0
    for token in _TOKEN.finditer(data):
        first = token.group()[:1]
        if depth == 0 and data[end : token.start()].strip():
            break
        if first in b"{[":
            if depth == 0:
                start = token.start()
            depth += 1
        elif first in b"}]":
            depth -= 1
        if depth < 0 or (depth == 0 and first == b'"'):
            break
        if depth == 0:
            end = token.end()
            yield start if first in b"}]" else token.start(), end
    if depth > 0:
        raise NotADump(f"{source} is cut off: the JSON value that begins at byte {start} does not end")
    if data[end:].strip():
        raise NotADump(f"{source} is not a cache dump: what stands at byte {end} is not a JSON object")
