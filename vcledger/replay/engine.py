"""A replay: the plan, and the one function that runs it.

Owns the plan's shape. Must not know how a mode works inside (`shadow`, `free`) nor what a change is. Called by
`cli.replay`, `vcledger.replay.variants` and users' code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec.structs import replace

from projections.cache import CacheConfig
from vcledger.errors import BadTime, VcledgerError
from vcledger.ledger import Ledger
from vcledger.replay.deciding import MakeDecider, session_decider
from vcledger.replay.inputs import Change
from vcledger.replay.report import Counts, Divergence, Progress, ReplayResult, Side, Usage, Wait
from vcledger.scheduler.session.sampling import DEFAULT_SAMPLING, Sampling

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
    options         the scheduler's options that the cache depends on, None: as with the model
    sampling        its options that say at how many nodes a session looks
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
    options: CacheConfig | None = None
    period_seconds: float = 1.0
    sampling: Sampling = DEFAULT_SAMPLING


class ShadowHasNoChanges(VcledgerError):
    """Changes of objects were asked for in shadow mode."""


@dataclass(frozen=True, slots=True)
class Job:
    """A plan with all that its mode needs: the range of the source, who decides, whom to tell, when to stop."""

    source: Ledger
    plan: ReplayPlan
    cluster: str
    first: int
    last: int
    decider: MakeDecider
    progress: Callable[[Progress], None] | None
    stop: Callable[[], bool]

    def ways(self) -> tuple[str, CacheConfig]:
        """The cache's model and its configuration."""
        model, options = self.source.ways(self.cluster)
        return self.plan.model or model, self.plan.options or options

    def result(self, times: tuple[int, int], ledger: str, stopped_at: int | None) -> ReplayResult:
        """What a result says of its replay in every mode, without figures: `times` are those of the trace, `stopped_at`
        the source's position where it was told to stop, None: it came to its end."""
        return ReplayResult(
            mode=self.plan.mode,
            name=self.plan.name,
            cluster=self.cluster,
            first=self.first,
            last=self.last,
            seed=self.plan.seed,
            finished=stopped_at is None,
            stopped_at=stopped_at or 0,
            ledger=ledger,
            started=times[0],
            ended=times[1],
        )


def run_replay(
    source: Ledger,
    plan: ReplayPlan,
    *,
    out: str | None = None,
    resume: bool = False,
    keep: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    workers: int = 1,
    decider: MakeDecider | None = None,
) -> ReplayResult:
    """Runs the plan on the source, which is only read.

    out       the result ledger's path or URL, which must not hold anything yet; None: in free mode a temporary one that
              is gone at the end, in shadow none
    resume    goes on with the result ledger at `out`, which an interrupted run of the same plan left
    keep      where a shadow replay without `out` leaves a ledger with nothing but what it needs to go on when it was
              told to stop, or its result: it goes on with that as `out`, and `resume`
    progress  told now and then
    stop      asked now and then; once it says True the replay ends cleanly, with `finished` False
    workers   processes that share one shadow replay of a long record; what comes out is the same. Who asks for several
              must be a main module that can be imported (`if __name__ == "__main__":`)
    decider   who decides in place of the plan's session
    """
    cluster = source.cluster(plan.cluster)
    first, last = _range(source, plan)
    who = decider or decider_of(plan)
    job = Job(source, plan, cluster, first, last, who, progress, stop or (lambda: False))
    if plan.mode == "shadow":
        if plan.changes:
            raise ShadowHasNoChanges("a shadow replay looks at what was recorded: changes need --mode free")
        from vcledger.replay.shadowing import run_shadow

        return run_shadow(job, out, resume=resume, keep=keep, workers=workers if decider is None else 1)
    from vcledger.replay.freely import run_free

    if out is not None:
        return run_free(job, out, resume=resume)
    with TemporaryDirectory(prefix="vcledger-replay-") as folder:
        return replace(run_free(job, str(Path(folder) / "result.db"), resume=False), ledger="")


def decider_of(plan: ReplayPlan) -> MakeDecider:
    """Who decides in a replay of the plan."""
    return session_decider(plan.conf, plan.seed, plan.sampling)


def _range(source: Ledger, plan: ReplayPlan) -> tuple[int, int]:
    """The positions between which the replay runs. BadTime where the first is not before the last."""
    head = source.store.head()
    last = head if plan.to_position is None else min(plan.to_position, head)
    if plan.from_position >= last:
        raise BadTime(f"nothing lies between positions {plan.from_position} and {last}: there is nothing to replay")
    return plan.from_position, last


__all__ = [
    "Change",
    "Counts",
    "Divergence",
    "Job",
    "Progress",
    "ReplayPlan",
    "ReplayResult",
    "ShadowHasNoChanges",
    "Side",
    "Usage",
    "Wait",
    "run_replay",
]
