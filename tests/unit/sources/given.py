"""What the importers' tests share: a ledger of their own, objects, and recordings cut to size.

Owns these makers. Must not assert anything. Called by the tests of vcledger.sources.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import zstandard

from tests.data import recording
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, ImportReport, import_paths

NOW = 1_893_456_000_000_000
"""2030-01-01, in microseconds: the clock of the tests' imports."""

NO_SNAPSHOTS = ImportOptions(snapshots=False)


def pod(name: str = "p1", version: int = 100, uid: str = "", **extra: Any) -> dict[str, Any]:
    """A pod as an API server sends it. `extra` goes into metadata, but `spec` and `status` into the pod."""
    spec = extra.pop("spec", {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]})
    status = extra.pop("status", {"phase": "Pending"})
    meta = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-of-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-03-01T08:00:00Z",
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta | extra, "spec": spec, "status": status}


def watch_line(change: str, obj: dict[str, Any]) -> bytes:
    """A watch line as the API server sends it."""
    return compact({"type": change, "object": obj}) + b"\n"


def recorded(change: str, obj: dict[str, Any], second: float, resource: str = "pods", **flags: Any) -> bytes:
    """A recording's line, `second` seconds after nine o'clock."""
    head = {"recordedAt": moment(second), "resource": resource} | (
        {"relist": True} if flags.pop("relist", False) else {}
    )
    return compact(head | {"type": change} | flags | {"object": obj}) + b"\n"


def marker(name: str, second: float, **fields: Any) -> bytes:
    """A recording's marker."""
    return compact({"recordedAt": moment(second), "marker": name} | fields) + b"\n"


def listed(objects: Iterable[dict[str, Any]], second: float, version: str = "1000", relist: bool = False) -> bytes:
    """A list of pods in a recording: the marker, then the items without kind and apiVersion."""
    items = list(objects)
    head = marker(
        "list",
        second,
        resource="pods",
        kind="PodList",
        apiVersion="v1",
        listMetadata={"resourceVersion": version},
        items=len(items),
        relist=relist,
    )
    lines = []
    for one in items:
        bare = {key: value for key, value in one.items() if key not in ("kind", "apiVersion")}
        lines.append(recorded("ADDED", bare, second, relist=relist, initialList=True))
    return head + b"".join(lines)


def moment(second: float) -> str:
    """Nine o'clock of a day in March 2026 and so many seconds, with nanoseconds as the recorder writes them."""
    whole, rest = divmod(round(second * 1_000_000), 1_000_000)
    return f"2026-03-01T09:{whole // 60:02d}:{whole % 60:02d}.{rest:06d}123Z"


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@lru_cache
def watch_of(name: str) -> bytes:
    """A recording's watch lines, decompressed."""
    return plain(recording(name) / "watch.jsonl.zst")


def plain(path: Path) -> bytes:
    """A zstd file's content."""
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes())) as reader:
        return reader.read()


def clock() -> int:
    """The time of the tests' imports, so that nothing depends on the machine's."""
    return NOW


@contextmanager
def ledger(folder: Path, name: str = "test.db") -> Iterator[Ledger]:
    """A ledger in the folder, made when it is not there."""
    with Ledger.open(str(folder / name), create=True) as opened:
        yield opened


def imported(folder: Path, *paths: Path | str, db: str = "test.db", **extra: Any) -> ImportReport:
    """An import into a ledger of the folder, without snapshots unless options say otherwise."""
    options = extra.pop("options", NO_SNAPSHOTS)
    with ledger(folder, db) as opened:
        return import_paths(opened, list(paths), options=options, **{"clock": clock} | extra)


def written(folder: Path, name: str, *parts: bytes) -> Path:
    """A file of these bytes."""
    path = folder / name
    path.write_bytes(b"".join(parts))
    return path


def events(folder: Path, db: str = "test.db", **filters: Any) -> list[Any]:
    """The ledger's events."""
    with ledger(folder, db) as opened:
        return list(opened.store.read(**filters))


def objects_in(watch: bytes) -> dict[str, list[dict[str, Any]]]:
    """Type and object of each watch line of a recording, by resource, lists left out."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in watch.splitlines():
        value = json.loads(line)
        if "marker" not in value and value["type"] != "BOOKMARK" and not value.get("initialList"):
            found.setdefault(value["resource"], []).append({"type": value["type"], "object": value["object"]})
    return found
