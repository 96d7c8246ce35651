"""What an import is asked to do, what it notes at its end, and the errors with which it ends before anything is stored.

Owns these values. Must not know how files are read. Called by `vcledger.sources.pipeline`, and by way of it by the
command and by users.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from vcledger.errors import VcledgerError
from vcledger.sources.detect import Format
from vcledger.sources.framing import DEFAULT_LIMIT
from vcledger.sources.merge import find
from vcledger.sources.redact import StorageOptions
from vcledger.sources.sink import BATCH

LIMIT_MIN = 1 << 16

BESIDE_BYTES = 16 << 20
"""Reading less than this takes no longer than starting a process does."""


PARTS_OF_A_TRACE = (
    (
        Format.openb_pods,
        Format.openb_nodes,
        "Node",
        "an openb pod list without its node list, which belongs in the same import: nothing can be placed",
        "the openb node list has no row that can be used: nothing can be placed",
    ),
    (
        Format.openb_nodes,
        Format.openb_pods,
        "Pod",
        "an openb node list without a pod list, which belongs in the same import: nothing arrives",
        "the openb pod list has no row that can be used: nothing arrives",
    ),
    (Format.simkube, None, "Node", "a SimKube trace has no nodes: a replay needs some added", ""),
)
"""A format, the one that belongs beside it, the kind of object that must be there, and what is noted where it is not:
because the other is missing, or because nothing in it could be used."""


class NoSuchInput(VcledgerError):
    """A path that was given is not there, or cannot be opened. Nothing was imported."""


class NothingToImport(VcledgerError):
    """None of the files has a form that the import knows, or there are none."""


class ImportOptions(msgspec.Struct, frozen=True):
    """storage: what to keep of objects. max_line_bytes: the largest line, object or list item. snapshots: make those of
    the cache that are due. broken_file: where broken input is written, as JSON lines. observed_at: when things were
    observed, in microseconds, in formats that do not say it; None: by the rule of `vcledger.sources.moments`.
    epoch: the moment from which an openb trace counts its seconds, in microseconds; None: 2023-01-01.
    beside_bytes: a file of so many bytes, decompressed, is read in a second process; None: never."""

    storage: StorageOptions = StorageOptions()
    max_line_bytes: int = DEFAULT_LIMIT
    snapshots: bool = True
    batch: int = BATCH
    broken_file: Path | None = None
    observed_at: int | None = None
    beside_bytes: int | None = BESIDE_BYTES
    epoch: int | None = None


def refuse_missing(paths: Sequence[Path | str]) -> None:
    """NoSuchInput when a path is not there: to be called before a ledger is made for the import."""
    missing = find(paths)[1]
    if missing:
        raise NoSuchInput(f"{', '.join(map(str, missing))}: no such file or folder; nothing was imported")


def refuse_impossible(cluster: str, options: ImportOptions, now: int) -> None:
    """VcledgerError for a cluster's name or options that no import can have; `now` in microseconds since 1970."""
    if not cluster or not cluster.isprintable() or len(cluster) > 253:
        raise VcledgerError(f"{cluster[:80]!r} is no name for a cluster: 1 to 253 characters that can be printed")
    if options.max_line_bytes < LIMIT_MIN:
        raise VcledgerError(f"--max-line-size must be at least {LIMIT_MIN} bytes")
    if options.observed_at is not None and options.observed_at > now:
        raise VcledgerError("--observed-at lies in the future: nothing can have been observed then")
    if options.epoch is not None and options.epoch > now:
        raise VcledgerError("--epoch lies in the future: no trace can have begun then")
