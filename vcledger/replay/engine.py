"""A replay: the plan, the result, and the one function that runs it.

Owns their shapes. Must not know how a mode works inside (`shadow`, `free`) nor what a change is. Called by
`cli.replay`, `vcledger.replay.variants` and users' code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from vcledger.ledger import Ledger
from vcledger.replay.inputs import Change

Mode = Literal["shadow", "free"]


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to replay. Frozen and picklable.

    mode            shadow: at each recorded decision the session is asked, and the recorded one is applied; free: the
                    session's decisions take effect
    cluster         the cluster in the source, None: the only one
    from_position   the state there is where the replay begins; 0: nothing
    to_position     the last position that counts, None: the head
    conf            Volcano's configuration file as text; '' for Volcano's own default
    seed            decides between equals
    changes         what differs from the record, applied in this order
    name            a word for people (a variant's)
    model           the cache's model, None: what the ledger is read with (`Ledger.ways`)
    period_seconds  time between two cycles (Volcano's --schedule-period)
    """

    mode: Mode = "shadow"
    cluster: str | None = None
    from_position: int = 0
    to_position: int | None = None
    conf: str = ""
    seed: int = 0
    changes: tuple[Change, ...] = ()
    name: str = ""
    model: str | None = None
    period_seconds: float = 1.0


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
    where. `infeasible`: placed there on a node that our predicates refuse."""

    same_node: int = 0
    other_node: int = 0
    infeasible: int = 0
    only_here: int = 0
    only_there: int = 0
    unknown_node: int = 0
    neither: int = 0


class ReplayResult(msgspec.Struct, frozen=True):
    """What came of a replay; all values are plain, so that it goes through JSON and back. Times in microseconds.

    `pods` is all pods of the scheduler that there were; `placed` and `pending` are ours in free mode, and in shadow
    what the session would have placed. `waits` by queue, '' for all. `usage` by resource. `notes` are lines for people
    about what the record cannot say or what was passed over."""

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
    placed_recorded: int = 0
    counts: Counts = Counts()
    waits: dict[str, Wait] = {}
    waits_recorded: dict[str, Wait] = {}
    usage: dict[str, Usage] = {}
    usage_recorded: dict[str, Usage] = {}
    gangs_broken: int = 0
    evictions: int = 0
    evictions_recorded: int = 0
    makespan_seconds: float = 0.0
    divergence: Divergence | None = None
    divergences: int = 0
    notes: list[str] = []


def run_replay(
    source: Ledger,
    plan: ReplayPlan,
    *,
    out: str | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> ReplayResult:
    """Runs the plan on the source, which is only read.

    out       the result ledger's path or URL, which must not hold anything yet; None: in free mode a temporary one that
              is gone at the end, in shadow none
    resume    goes on with the result ledger at `out`, which an interrupted run of the same plan left
    progress  told now and then
    stop      asked now and then; once it says True the replay ends cleanly, with `finished` False
    """
    raise NotImplementedError
