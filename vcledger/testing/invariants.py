"""The twelve invariants of the design, as named checks over a stream of events or a whole ledger.

Owns their names and what a check reports. Must not know the terminal. Called by `cli.check`, the state machines, the
simulation and users' tests:

    broken = [verdict for verdict in check_ledger(ledger) if verdict.broken]

1 to 8 and 12 are rules over the events and the fold's state (`vcledger.testing.invariant_*`); 9 and 10 are what
`vcledger.verify` checks, with a state dumped halfway and folded on; 11 holds when every recovery settles what was in
doubt and none of the others is broken from the first one on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from eventstore import EventStore
from eventstore.types import EventStoreError
from projections.cache import CacheConfig, CacheProjection
from projections.cache.state import Cache, Touched
from vcledger import codec
from vcledger.errors import HistoryPruned, UndecodableEvent
from vcledger.ledger import DEFAULT_CONFIG, Ledger, cache_projection
from vcledger.replay.result import origin_of
from vcledger.scheduler.fold import evolve
from vcledger.scheduler.snapshot import FlowProjection
from vcledger.scheduler.state import Flow, FlowConfig
from vcledger.scheduler.transitions import IllegalTransition
from vcledger.testing.invariant_binding import AfterFailure, BoundOnce, Recovered, WorthWriting
from vcledger.testing.invariant_rules import AgreesWithLists, Break, JobsGoLast, NodeBooks, Rule, WholeGangs
from vcledger.testing.invariant_volumes import Assumptions, OneClaim
from vcledger.verify import Verification, verify
from volcano.events.base import Recorded

MODEL = "exact"
"""The model whose books the rules are about: Volcano's own are wrong on purpose (see `projections.cache.models`)."""

HELD, BROKEN, NOT_APPLICABLE = "held", "broken", "not applicable"


class Invariant(NamedTuple):
    """One of the twelve: its number in the design, a name, and what it says."""

    number: int
    name: str
    says: str


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(1, "node-books", "a node's used is the sum of its tasks that count; idle and used make allocatable"),
    Invariant(2, "assumptions", "an assumed PV or PVC is confirmed or reverted, never both, and none outlives its pod"),
    Invariant(3, "one-claim", "no PV is claimed by two claims, and no claim has two PVs"),
    Invariant(4, "bound-once", "a pod UID is bound at most once, and never to a node that was removed"),
    Invariant(5, "after-failure", "after a failed bind: reverted, queued for resync, the condition patched once"),
    Invariant(6, "agrees-with-lists", "where the API server listed a kind, the cache equals what it said"),
    Invariant(7, "jobs-go-last", "a job is deleted only without PodGroup and tasks"),
    Invariant(8, "whole-gangs", "an allocation commits at least minMember tasks of a gang, or none"),
    Invariant(9, "same-state", "the state from any snapshot and the tail equals the state from the whole log"),
    Invariant(10, "log-order", "stream versions have no holes, positions are in commit order, each is stored once"),
    Invariant(11, "recovery", "after a crash every doubt is settled, and 1 to 10 hold"),
    Invariant(12, "worth-writing", "no status update is sent that changes nothing, and each write has an outcome"),
)

RULES: dict[int, Callable[[], Rule]] = {
    1: NodeBooks,
    2: Assumptions,
    3: OneClaim,
    4: BoundOnce,
    5: AfterFailure,
    6: AgreesWithLists,
    7: JobsGoLast,
    8: WholeGangs,
    11: Recovered,
    12: WorthWriting,
}


class Verdict(NamedTuple):
    """What came of one invariant: HELD, BROKEN (first at `position`) or NOT_APPLICABLE, and `text`: how it was broken,
    or why it does not apply. `seen` counts the moments at which it was looked at."""

    invariant: Invariant
    outcome: str
    position: int = 0
    text: str = ""
    seen: int = 0

    @property
    def broken(self) -> bool:
        return self.outcome == BROKEN


class Watcher:
    """Folds events and shows each to the rules. Feed it with `see`, in the order of the log; `verdicts` may be asked
    for at any time. `flow`: fold what our own scheduler did as well, not only what was observed. `begin`: the state at
    position `after` to begin with (None: before everything); a Flow means `flow`."""

    def __init__(
        self,
        config: CacheConfig = DEFAULT_CONFIG,
        *,
        flow: bool = False,
        begin: Cache | Flow | None = None,
        after: int = 0,
    ) -> None:
        self.projection: CacheProjection = cache_projection(MODEL, config)
        self.flow = begin if isinstance(begin, Flow) else Flow(FlowConfig(cache=config)) if flow else None
        self._cache = begin if isinstance(begin, Cache) else self.projection.initial()
        self.rules = {number: make() for number, make in RULES.items()}
        self.impossible: Break | None = None
        self.events = 0
        if begin is not None:
            for rule in self.rules.values():
                rule.begin(self.cache, after, whole=self.flow is not None)

    @property
    def cache(self) -> Cache:
        """The state after the last event: nodes, jobs and what they hold."""
        return self.flow.cache if self.flow is not None else self._cache

    def see(self, recorded: Recorded, raw: bytes | None = None) -> None:
        """One event; `raw` the JSON of an observed object, needed with a flow. Late ones are passed over, as the folds
        do."""
        if recorded.late:
            return
        self.events += 1
        for rule in self.rules.values():
            rule.clock(recorded)
            rule.before(recorded, self.cache)
        self.cache.touched = Touched()
        self._fold(recorded, raw)
        for rule in self.rules.values():
            rule.after(recorded, self.cache)

    def _fold(self, recorded: Recorded, raw: bytes | None) -> None:
        if self.flow is None:
            self._cache = self.projection.evolve(self._cache, recorded)
            return
        try:
            evolve(self.flow, recorded, raw)
        except (IllegalTransition, KeyError, ValueError) as error:
            text = f"{type(recorded.event).__name__} of {recorded.kind} {recorded.name} cannot be here: {error}"
            self.impossible = self.impossible or Break(recorded.position, text)
        self.flow.notices.clear()

    def verdicts(self) -> list[Verdict]:
        """What the rules say so far; 9 and 10, which are about the log itself, are not among them."""
        return [self._verdict(one) for one in INVARIANTS if one.number in self.rules]

    def _verdict(self, invariant: Invariant) -> Verdict:
        rule = self.rules[invariant.number]
        breach = rule.broken
        if breach is None and isinstance(rule, Recovered) and rule.first is not None:
            breach = self._after_recovery(rule.first)
        if breach is not None:
            return Verdict(invariant, BROKEN, breach.position, breach.text, rule.seen)
        if not rule.seen:
            return Verdict(invariant, NOT_APPLICABLE, text=rule.absent)
        return Verdict(invariant, HELD, seen=rule.seen)

    def _after_recovery(self, first: int) -> Break | None:
        """The first of the others' breaches that stands after the first recovery began."""
        others = [
            Break(rule.broken.position, f"{INVARIANTS[number - 1].name}: {rule.broken.text}")
            for number, rule in self.rules.items()
            if number <= 10 and rule.broken is not None and rule.broken.position > first
        ]
        return min(others, default=None)


def check_events(events: Iterable[Recorded], *, config: CacheConfig = DEFAULT_CONFIG) -> list[Verdict]:
    """The invariants over the observations of one cluster, from the first on; without 9 and 10, which need a log."""
    watcher = Watcher(config)
    for recorded in events:
        watcher.see(recorded)
    return watcher.verdicts()


def limits(ledger: Ledger, cluster: str) -> list[str]:
    """What a check of the ledger cannot look at, each a sentence; empty when it looks at everything."""
    start = ledger.store.first() - 1
    if start <= 0:
        return []
    said = f"the record was pruned up to position {start}: checked from the state there on"
    if isinstance(_beginning(ledger, cluster, start, DEFAULT_CONFIG), Cache) and _has_flow(ledger, cluster):
        said += "; of what the scheduler itself had on its way there nothing is known, so it is not judged"
    return [said]


def check_ledger(
    ledger: Ledger, *, position: int | None = None, cluster: str | None = None, config: CacheConfig | None = None
) -> list[Verdict]:
    """All twelve over a ledger, up to a position (None: the head). `config`: None takes what the ledger says of its
    scheduler. After a prune they begin at its cut. Raises the
    ledger's and the log's errors; where the log was changed so that it cannot be read on, 10 is broken, and what is not
    broken before is not applicable."""
    name = ledger.cluster(cluster)
    config = config or ledger.ways(name)[1]
    end = ledger.position(position, name)
    start = ledger.store.first() - 1
    checked = verify(ledger)
    watcher, half, unread = _watched(ledger, name, start, end, config, damaged=not checked.log.ok)
    found = {verdict.invariant.number: verdict for verdict in watcher.verdicts()}
    found[9] = _same_state(checked, end, name, half or watcher.impossible)
    found[10] = _log_order(checked, end)
    recovered = watcher.rules[11]
    if isinstance(recovered, Recovered) and recovered.first is not None:
        worse = [one for one in (found[9], found[10], found[11]) if one.broken]
        if worse:
            first = min(worse, key=lambda one: one.position)
            found[11] = Verdict(INVARIANTS[10], BROKEN, first.position, first.text, recovered.seen)
    verdicts = [found[one.number] for one in INVARIANTS]
    if unread:
        unknown = f"the ledger cannot be read on: {unread}"
        verdicts = [one if one.broken else Verdict(one.invariant, NOT_APPLICABLE, text=unknown) for one in verdicts]
    return verdicts


def _watched(
    ledger: Ledger, cluster: str, start: int, end: int, config: CacheConfig, *, damaged: bool
) -> tuple[Watcher, Break | None, str]:
    """The watcher after all events, how a state dumped halfway was wrong, and, of a damaged log, why it cannot be read
    to its end."""
    watcher = Watcher(
        config,
        flow=not start and _has_flow(ledger, cluster),
        begin=_beginning(ledger, cluster, start, config) if start else None,
        after=start,
    )
    gangs = watcher.rules[8]
    if watcher.flow is None and isinstance(gangs, WholeGangs):
        gangs.overlook()
    half = None
    try:
        if watcher.flow is not None:
            for stored in ledger.store.read(after=start, to=end, cluster=cluster, late=False):
                watcher.see(codec.recorded(stored), stored.payload)
        else:
            half = _watch_cache(watcher, ledger, cluster, start, end)
    except (EventStoreError, UndecodableEvent) as error:
        if not damaged:
            raise
        return watcher, None, str(error)
    return watcher, half, ""


OWN_FAMILIES = ("scheduling", "volume", "resync", "node-sync", "cleanup", "recovery")
"""Families of which only a scheduler that keeps its own log writes events."""


def _beginning(ledger: Ledger, cluster: str, start: int, config: CacheConfig) -> Cache | Flow:
    """The state at the cut of a pruned ledger: the scheduler's own, where it had left one, else the cache."""
    flow = FlowProjection(FlowConfig(cache=config))
    if ledger.folder.chain(flow, cluster, start):
        with suppress(HistoryPruned):
            return ledger.folder.at(flow, cluster, start)
    return ledger.folder.at(cache_projection(MODEL, config), cluster, start)


def _has_flow(ledger: Ledger, cluster: str) -> bool:
    """Whether the scheduler itself wrote here. A shadow replay's result has a session's words beside the record of
    another scheduler."""
    origin = origin_of(ledger)
    if origin is not None and origin.mode == "shadow":
        return False
    return next(ledger.store.read(cluster=cluster, families=OWN_FAMILIES, limit=1), None) is not None


def _watch_cache(watcher: Watcher, ledger: Ledger, cluster: str, start: int, end: int) -> Break | None:
    """The ledger of a recorder; and how a state dumped halfway and folded on differs from the one folded throughout."""
    projection = watcher.projection
    middle, dumped, where = (start + end) // 2, b"", start
    for recorded in codec.fold_stream(ledger.store, cluster, start, end):
        if not dumped and recorded.position > middle:
            dumped, where = projection.dump(watcher.cache), recorded.position - 1
        watcher.see(recorded)
    if not dumped:
        return None
    state = projection.load([dumped])
    for recorded in codec.fold_stream(ledger.store, cluster, where, end):
        state = projection.evolve(state, recorded)
    if projection.digest(state) == projection.digest(watcher.cache):
        return None
    return Break(where, "a state dumped here and folded on differs from the one folded throughout")


def _same_state(checked: Verification, end: int, cluster: str, half: Break | None) -> Verdict:
    checks = [one for one in checked.checks if one.position <= end and one.cluster == cluster]
    wrong = [Break(one.position, f"{one.projection}: {one.problem}") for one in checks if not one.ok]
    if half is not None:
        wrong.append(half)
    if wrong:
        first = min(wrong)
        return Verdict(INVARIANTS[8], BROKEN, first.position, first.text, len(checks) + 1)
    return Verdict(INVARIANTS[8], HELD, seen=len(checks) + 1)


def _log_order(checked: Verification, end: int) -> Verdict:
    wrong = [one for one in checked.log.findings if one.position <= end]
    if wrong:
        first = min(wrong, key=lambda one: one.position)
        return Verdict(INVARIANTS[9], BROKEN, first.position, f"{first.rule}: {first.message}", checked.log.events)
    return Verdict(INVARIANTS[9], HELD, seen=checked.log.events)


def broken_lines(store: EventStore, cluster: str) -> list[str]:
    """What of the twelve is broken in a ledger, each a sentence with its number, name and position; a check for
    `vcledger.sim.simulate`."""
    return [_said(one) for one in check_ledger(Ledger(store), cluster=cluster) if one.broken]


def broken_rules(store: EventStore, cluster: str) -> list[str]:
    """The same of a scheduler's log, also of one in memory: without 9 and 10, which look at a ledger on a disk."""
    watcher = Watcher(flow=True)
    for stored in store.read(cluster=cluster):
        watcher.see(codec.recorded(stored), stored.payload)
    broken = [_said(one) for one in watcher.verdicts() if one.broken]
    if watcher.impossible is not None:
        broken.append(_said(Verdict(INVARIANTS[8], BROKEN, *watcher.impossible)))
    return broken


def _said(verdict: Verdict) -> str:
    return (
        f"invariant {verdict.invariant.number}, {verdict.invariant.name}, broken at {verdict.position}: {verdict.text}"
    )


def first_broken(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The breach that stands first in the log."""
    return min((one for one in verdicts if one.broken), key=lambda one: one.position, default=None)


__all__ = [
    "BROKEN",
    "HELD",
    "INVARIANTS",
    "NOT_APPLICABLE",
    "Invariant",
    "Verdict",
    "Watcher",
    "broken_lines",
    "broken_rules",
    "check_events",
    "check_ledger",
    "first_broken",
    "limits",
]
