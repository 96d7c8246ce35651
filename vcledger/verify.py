"""Whether a ledger holds what it promises: the log's own checks, then every snapshot against a rebuild.

Owns the comparison of snapshots with the log. Must not know how the log checks its chain, nor how a report is printed.
Called by `cli.verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from eventstore.types import SnapshotInfo, VerifyReport
from projections.base import Projection
from projections.registry import find
from vcledger.errors import UndecodableEvent
from vcledger.ledger import Ledger


class SnapshotCheck(NamedTuple):
    """One snapshot against the rebuild at its position: digests in hex. `digest` is '' when it could not be read, and
    `problem` says why; '' when all is well."""

    projection: str
    version: int
    cluster: str
    position: int
    whole: bool
    digest: str
    rebuilt: str
    problem: str

    @property
    def ok(self) -> bool:
        return not self.problem


class Verification(NamedTuple):
    """What was checked. `log` is the store's own report; `passed_over` snapshots were not compared, `void` ones belong
    to a projection or a version that this program does not have."""

    log: VerifyReport
    checks: list[SnapshotCheck]
    passed_over: int
    void: int

    @property
    def ok(self) -> bool:
        return self.log.ok and all(check.ok for check in self.checks)


def verify(
    ledger: Ledger,
    *,
    every_snapshot: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Verification:
    """Walks the chain and the streams' versions, then rebuilds each cluster once per projection that has snapshots.

    Compared are all whole snapshots and the last changes of each chain, which rest on all before them;
    `every_snapshot` compares each one, which takes longer. `progress` is told (what, done, of)."""
    log = ledger.store.verify(partial(progress, "events") if progress is not None else None)
    groups: dict[tuple[str, int, str], list[SnapshotInfo]] = {}
    for info in ledger.store.snapshots():
        groups.setdefault((info.projection, info.version, info.cluster), []).append(info)
    checks: list[SnapshotCheck] = []
    passed_over = void = 0
    for (name, version, cluster), infos in sorted(groups.items()):
        projection = find(name, version) or _flow(ledger, name, version, cluster)
        if projection is None:
            void += len(infos)
            continue
        chosen = sorted(infos if every_snapshot else _worth_checking(infos), key=lambda info: info.position)
        passed_over += len(infos) - len(chosen)
        checks += _against_rebuild(ledger, projection, cluster, chosen, progress)
    return Verification(log, checks, passed_over, void)


def _flow(ledger: Ledger, name: str, version: int, cluster: str) -> Projection[Any] | None:
    """The projection of a scheduler's state, whose options are in its snapshots; None for any other name."""
    if not name.startswith("flow"):
        return None
    from vcledger.scheduler.snapshot import VERSION, FlowProjection, projection_of

    if version != VERSION:
        return None
    try:
        chain = ledger.store.load_snapshots(name, version, cluster, ledger.store.head())
        return projection_of(chain[-1].payload) if chain else FlowProjection()
    except ValueError:
        return FlowProjection()


def _worth_checking(infos: Sequence[SnapshotInfo]) -> list[SnapshotInfo]:
    """The whole ones and the last of each chain."""
    ordered = sorted(infos, key=lambda info: info.position)
    return [
        info
        for info, after in zip(ordered, [*ordered[1:], None], strict=True)
        if info.base is None or after is None or after.base is None
    ]


def _against_rebuild(
    ledger: Ledger,
    projection: Projection[Any],
    cluster: str,
    infos: Sequence[SnapshotInfo],
    progress: Callable[[str, int, int], None] | None,
) -> list[SnapshotCheck]:
    """Folds once from the beginning and stops at each snapshot. After a prune the beginning is the snapshot at its cut,
    which stands for what was dropped; those before it cannot be checked any more. An event that cannot
    be read ends it: nothing after it can be rebuilt."""
    checks: list[SnapshotCheck] = []
    folder, first = ledger.folder, ledger.store.first()
    start = 0 if first == 1 else min((info.position for info in infos if info.position >= first - 1), default=0)
    at, state = folder.nearest(projection, cluster, start)
    for done, info in enumerate((info for info in infos if info.position >= start), start=1):
        problem = digest = rebuilt = ""
        unreadable = False
        try:
            state = folder.advance(projection, state, cluster, at, info.position)
            at, rebuilt = info.position, projection.digest(state)
            digest = projection.digest(folder.load(projection, folder.chain(projection, cluster, info.position)))
            problem = "" if digest == rebuilt else "the snapshot is not what the events give"
        except ValueError as error:
            problem = str(error)
        except UndecodableEvent as error:
            problem, unreadable = str(error), True
        checks.append(
            SnapshotCheck(
                projection.name, projection.version, cluster, info.position, info.base is None, digest, rebuilt, problem
            )
        )
        if progress is not None:
            progress(f"{projection.name} of {cluster}", done, len(infos))
        if unreadable:
            break
    return checks
