"""What is told of a replay, while it runs and at its end.

Owns these shapes: plain values that go through JSON and back. Must not know how they come about. Made by
`vcledger.replay.engine` and its modes, read by commands, tables and workers.
"""

from __future__ import annotations

import msgspec


class Progress(msgspec.Struct, frozen=True):
    """How far a replay has come: the source's position between `first` and `last`, the trace's time in microseconds."""

    position: int
    first: int
    last: int
    now: int
    cycles: int = 0
    placed: int = 0
    pending: int = 0


class Wait(msgspec.Struct, frozen=True):
    """Seconds from a pod's creation to its place, of the pods that got one."""

    count: int = 0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class Usage(msgspec.Struct, frozen=True):
    """The share of what all nodes have that is in use: the mean over the replayed time, the most, and the mean of each
    of some equal stretches of time."""

    mean: float = 0.0
    peak: float = 0.0
    series: list[float] = []


class Side(msgspec.Struct, frozen=True):
    """What one side decided about a pod, and why: `node` '' when it left the pod pending, `time` in microseconds."""

    node: str = ""
    time: int | None = None
    reason: str = ""


class Divergence(msgspec.Struct, frozen=True):
    """A pod for which the record and the replay differ. `position` is the recorded decision's in the source (that of
    the pod's last observation where the record left it pending)."""

    position: int
    pod: str
    kind: str
    recorded: Side
    replayed: Side


class Counts(msgspec.Struct, frozen=True):
    """Pods, by how the record's decision and ours compare. `unknown_node`: the record says that the pod ran, but not
    where. `infeasible`: placed there on a node that our predicates refuse. The last three, in shadow: pods that were
    evicted in both, only there, only here."""

    same_node: int = 0
    other_node: int = 0
    infeasible: int = 0
    only_here: int = 0
    only_there: int = 0
    unknown_node: int = 0
    neither: int = 0
    evicted_same: int = 0
    evicted_only_there: int = 0
    evicted_only_here: int = 0


class ReplayResult(msgspec.Struct, frozen=True):
    """What came of a replay; all values are plain, so that it goes through JSON and back. Times in microseconds.

    `pods` is all pods of the scheduler that there were; one that was made again after an eviction counts again.
    `placed` and `pending` are ours in free mode, and in shadow what the session would have placed. `never_made` are
    pods of the record that did not come here, as their PodGroup was not let in. `waits` by queue, '' for all. `usage`
    by resource. `notes` are lines for people about what the record cannot say or what was passed over."""

    mode: str
    name: str
    cluster: str
    first: int
    last: int
    seed: int
    finished: bool = True
    stopped_at: int = 0
    ledger: str = ""
    started: int = 0
    ended: int = 0
    events: int = 0
    cycles: int = 0
    pods: int = 0
    placed: int = 0
    pending: int = 0
    pending_recorded: int = 0
    placed_recorded: int = 0
    counts: Counts = Counts()
    waits: dict[str, Wait] = {}
    waits_recorded: dict[str, Wait] = {}
    usage: dict[str, Usage] = {}
    usage_recorded: dict[str, Usage] = {}
    gangs_broken: int = 0
    gangs_broken_recorded: int = 0
    evictions: int = 0
    evictions_recorded: int = 0
    never_made: int = 0
    makespan_seconds: float = 0.0
    makespan_recorded_seconds: float = 0.0
    divergence: Divergence | None = None
    divergences: int = 0
    notes: list[str] = []

    @property
    def compared(self) -> int:
        """Pods of which the record and the replay could be compared by their nodes."""
        counts = self.counts
        return counts.same_node + counts.other_node + counts.infeasible + counts.only_here + counts.only_there


__all__ = ["Counts", "Divergence", "Progress", "ReplayResult", "Side", "Usage", "Wait"]
