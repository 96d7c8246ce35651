"""Running a plan, twice, and what came of it.

Owns the order: safety phase, liveness phase, checks; and the comparison of the two runs. Must not know the commands.
Called by `vcledger simulate`, by tests, and by whoever looks for the smallest plan that still fails.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import msgspec

from eventstore import EventStore, open_store
from vcledger.sim import crowded, rest, script
from vcledger.sim import plan as plans
from vcledger.sim.clock import SECOND, START
from vcledger.sim.faults import FAULTS
from vcledger.sim.memory import MemoryLog
from vcledger.sim.plan import Plan
from vcledger.sim.shrink import smallest
from vcledger.sim.world import CLUSTER, Simulation

Check = Callable[[EventStore, str], Sequence[str]]
"""Looks at a whole ledger's cluster and says what is broken."""

LIVENESS_SECONDS_MAX = 1800
SHRINK_RUNS_MAX = 150
SETTLED_SECONDS = 5
"""How long it must have been at rest before the last look: every line has arrived by then."""


class SimResult(msgspec.Struct, frozen=True):
    """What came of a plan. `digest` is over the whole log; `broken` empty: all held. `seconds` of simulated time, the
    `rest` part of them until all was at rest after the faults. `binds` and `events` are counts, `hits` the faults that
    met a request, a watch, a controller, an object or a process."""

    seed: int
    digest: str
    broken: tuple[str, ...]
    events: int = 0
    binds: int = 0
    pods: int = 0
    crashes: int = 0
    seconds: float = 0.0
    rest: float = 0.0
    hits: dict[str, int] = {}

    @property
    def ok(self) -> bool:
        return not self.broken


def simulate(
    seed: int,
    steps: int = 40,
    faults: Sequence[str] = tuple(FAULTS),
    *,
    check: Check | None = None,
    quick: Check | None = None,
    watch: Callable[[Simulation], Sequence[str]] | None = None,
    twice: bool = True,
    keep: Path | None = None,
    shrink: bool = True,
    crowd: bool = False,
) -> SimResult:
    """Draws a world from a seed, a crowded one with `crowd`, and runs it; `twice` compares the digests of two runs, of
    which the second is in memory, as is the first unless somebody looks at its ledger. `check` looks at the ledger at
    the end, `watch` at the world after each group; `quick` is a check that also a log in memory can have, for the many
    runs of a search. A failure leaves in `keep`/seed-N its plan, its ledger, the smallest plan that still fails so
    (`shrink`), and that one as a scenario, seed-N.jsonl, which `vcledger conformance` runs."""
    plan = (crowded if crowd else plans).draw(seed, steps, faults)
    return run_plan(plan, check=check, quick=quick, watch=watch, twice=twice, keep=keep, shrink=shrink)


def run_plan(
    plan: Plan,
    *,
    check: Check | None = None,
    quick: Check | None = None,
    watch: Callable[[Simulation], Sequence[str]] | None = None,
    twice: bool = True,
    keep: Path | None = None,
    shrink: bool = True,
) -> SimResult:
    """Runs a plan, as `simulate` does."""
    watched = check is not None or keep is not None
    with tempfile.TemporaryDirectory(prefix="vcledger-sim-") as folder:
        first = Path(folder) / "first.db" if watched else None
        result = once(plan, first, check=check, watch=watch)
        if twice:
            again = once(plan, None)
            if again.digest != result.digest:
                said = f"two runs of one plan differ: {result.digest} and {again.digest}"
                result = msgspec.structs.replace(result, broken=(*result.broken, said))
        if result.broken and keep is not None and first is not None:
            small = _shrunk(plan, result, Path(folder), check, quick, watch) if shrink else plan
            _leave(plan, small, result, first, keep / f"seed-{plan.seed}")
    return result


def _shrunk(
    plan: Plan,
    result: SimResult,
    folder: Path,
    check: Check | None,
    quick: Check | None,
    watch: Callable[[Simulation], Sequence[str]] | None,
) -> Plan:
    """The smallest plan found in which the same kind of thing is broken: a rule, if one was, else what came first."""
    wanted = next((_shape(text) for text in result.broken if text.startswith("invariant ")), _shape(result.broken[0]))
    runs = 0

    def fails_by(used: Check | None, tried: Plan) -> bool:
        nonlocal runs
        runs += 1
        on_disk = used is not None and used is not quick
        found = once(tried, folder / f"shrink-{runs}.db" if on_disk else None, check=used, watch=watch)
        return any(_shape(text) == wanted for text in found.broken)

    used = quick if fails_by(quick, plan) else check
    if used is check and not fails_by(check, plan):
        return plan  # it takes more than one run to see it
    return smallest(plan, lambda tried: fails_by(used, tried), runs_max=SHRINK_RUNS_MAX)


def _shape(said: str) -> str:
    """A finding without its names and numbers."""
    return re.sub(r"[\w./-]*\d[\w./-]*", "#", said)


def once(
    plan: Plan,
    path: Path | str | None,
    *,
    check: Check | None = None,
    watch: Callable[[Simulation], Sequence[str]] | None = None,
) -> SimResult:
    """One run on a new ledger at `path` (a file, or a URL), or in memory, where only a quick `check` can look."""
    if path is None:
        return _run(plan, cast(EventStore, MemoryLog()), check, watch)
    with open_store(str(path), create=True) as store:
        return _run(plan, store, check, watch)


def _run(
    plan: Plan,
    store: EventStore,
    check: Check | None,
    watch: Callable[[Simulation], Sequence[str]] | None,
) -> SimResult:
    world = Simulation(plan, store, watch=watch)
    waited = live(world)
    if check is not None:
        world.broken += check(store, CLUSTER)
    digest, events = digest_of(store)
    return SimResult(
        plan.seed,
        digest,
        tuple(world.broken),
        events=events,
        binds=sum(1 for pod in world.api.objects("Pod") if pod["spec"].get("nodeName")),
        pods=len(world.api.objects("Pod")),
        crashes=world.crashes,
        seconds=(world.timeline.now - START) / SECOND,
        rest=waited,
        hits=dict(sorted({**world.hits, **world.port.hits}.items())),
    )


def live(world: Simulation) -> float:
    """Both phases of a world. The seconds that the second took; what did not hold is in `broken`."""
    try:
        world.run()
        return 0.0 if world.broken else come_to_rest(world)
    except Exception as error:  # a bug of the scheduler ends this world, and is what a simulation is for
        where = traceback.extract_tb(error.__traceback__)[-1]
        world.broken.append(f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
        return 0.0


def come_to_rest(world: Simulation) -> float:
    """The liveness phase: seconds until everything was at rest. What is not by then, and what does not hold, is added
    to `broken`."""
    world.heal()
    begun = world.timeline.now
    quiet = 0
    while quiet < SETTLED_SECONDS and not world.broken:
        if world.timeline.now - begun > LIVENESS_SECONDS_MAX * SECOND:
            world.broken += restless(world) or ["it did not come to rest"]
            return LIVENESS_SECONDS_MAX
        before = world.log.head()
        world.run_for(SECOND)
        # What was written meanwhile may not have been seen yet, such as a status at the end of a pod.
        quiet = 0 if restless(world) or world.log.head() != before else quiet + 1
    if world.broken or world.loop is None:
        return (world.timeline.now - begun) / SECOND
    flow = world.loop.flow
    world.broken += rest.differs(world.api, flow)
    world.broken += rest.volumes_at_odds(world.api)
    world.broken += [line for feed in world.feeds.values() for line in feed.refused]
    for snapshots in (False, True):
        live, rebuilt = flow.digest(), world.loop.rebuild(snapshots=snapshots).digest()
        if rebuilt != live:
            way = "the last snapshot and the rest of the log" if snapshots else "the log"
            world.broken.append(f"the state rebuilt from {way} is not the live one: {rebuilt} and {live}")
    return (world.timeline.now - begun) / SECOND - SETTLED_SECONDS


def restless(world: Simulation) -> list[str]:
    """What is not at rest yet."""
    if world.loop is None:
        return ["the scheduler is down"]
    faults = bool(world.hits or world.port.hits)
    to_come = rest.ending(world.api) if world.plan.session else []
    flow, wanted = world.loop.flow, list(world.owner.wanted)
    to_come += rest.to_be_said(flow, world.timeline.now)
    return rest.unbound(world.api, wanted, faults=faults) + rest.not_idle(flow) + to_come


def digest_of(store: EventStore) -> tuple[str, int]:
    """SHA-256 over all events of a log with their envelopes, less when they were appended; and how many there are."""
    hasher = hashlib.sha256()
    count = 0
    for event in store.read():
        count += 1
        envelope = [
            event.position,
            event.type,
            event.schema,
            *(event.cluster, event.kind, event.namespace, event.name, event.uid),
            event.observed_at,
            event.known,
            event.late,
            event.resource_version,
            event.causation,
            event.cycle,
        ]
        hasher.update(msgspec.json.encode(envelope))
        hasher.update(event.payload)
    return hasher.hexdigest(), count


def _leave(plan: Plan, small: Plan, result: SimResult, ledger: Path, folder: Path) -> None:
    """What somebody needs who looks into a failure: the plans, the result and the ledger."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_bytes(plans.encode(plan))
    (folder / "plan-small.json").write_bytes(plans.encode(small))
    script.write(folder, f"seed-{plan.seed}", small, result.broken)
    (folder / "result.json").write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
    with open_store(str(ledger)) as store:
        store.stats()
    (folder / "ledger.db").write_bytes(ledger.read_bytes())
