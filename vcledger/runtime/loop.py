"""The loop: one owner of the state, through one queue of inputs; what is decided is appended, then carried out.

Owns group commit, the positions of events before they are stored, and what happens when the log refuses. Must not know
what is decided, threads, clocks nor who carries effects out: the same code runs under real and under simulated time.
Called by `vcledger.runtime.live`, the simulation, the runner of scenarios.

    loop = Loop(store, "prod", carry_out=workers.carry_out)
    loop.recover(now)
    loop.put(Observed("Pod", "ADDED", body))
    loop.step(now)

A step takes all inputs that wait, decides on each and folds what was decided into a working state, and appends all of
it in one transaction. Only then are effects handed out. When the append fails the working state is thrown away, no
effect leaves, and nothing is decided until the log can be read and written again; then the state is built from it anew
and whatever it says is in flight is settled by asking the API server.

Each `snapshot_every` events the state is saved, so that a recovery has the rest of the log to read only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from eventstore import EventStore
from eventstore.types import EventStoreError, Lease, LedgerCorrupt, NewEvent, Snapshot
from vcledger import codec
from vcledger.folding import Folder
from vcledger.runtime.standing import Standing, Standings, came_back
from vcledger.scheduler.decide import UnreadableObject, decide
from vcledger.scheduler.decision import Draft
from vcledger.scheduler.fold import SENT_BACK, evolve
from vcledger.scheduler.inputs import Answered, Effect, Input, Restarted, Ticked
from vcledger.scheduler.snapshot import FlowProjection
from vcledger.scheduler.state import Flow, FlowConfig
from volcano.events.base import Recorded

SNAPSHOT_EVERY = 20_000
"""Events between two snapshots: with 10,000 pods one takes about as long as folding 4,000 events."""

EffectKey = tuple[int, str, str]


class AnotherWriter(EventStoreError):
    """Somebody else appended to this cluster's record, which the loop alone may do; other clusters of the ledger have
    writers of their own."""


class Loop:
    """The scheduler of one cluster on one ledger. Not for several threads at once, but for `put`.

    flow         the state; after a step it is what the log says
    outstanding  effects handed out whose answer has not been put, by `key_of`
    clock        what tells the time to `recover` when it is not given
    down         why the log refused, None while all is well
    refused      how many inputs were no observations that could be kept
    lease        the scheduler's role on the cluster, named with each append when it is given (`vcledger.roles`)
    unsaved      how often a snapshot could not be saved; the log itself is not concerned
    recovered_from  where the snapshot stands that the last recovery went on from; None: it read the whole log
    """

    def __init__(
        self,
        store: EventStore,
        cluster: str,
        *,
        carry_out: Callable[[Effect], None],
        config: FlowConfig | None = None,
        clock: Callable[[], int] = lambda: 0,
        snapshot_every: int = SNAPSHOT_EVERY,
        lease: Callable[[], Lease | None] = lambda: None,
    ) -> None:
        self.store, self.cluster, self.carry_out, self.clock = store, cluster, carry_out, clock
        self.config = config or FlowConfig()
        self.snapshot_every, self.lease = snapshot_every, lease
        self.projection = FlowProjection(self.config)
        self.standings = Standings(store, cluster)
        self.flow = Flow(self.config)
        self.outstanding: dict[EffectKey, Effect] = {}
        self.down: Exception | None = None
        self.refused = self.unsaved = 0
        self.recovered_from: int | None = None
        self._inputs: deque[Input] = deque()
        self._now = 0
        self._ticked: int | None = None
        self._since_snapshot = 0

    # --- from outside ---------------------------------------------------------------------------------------------

    def put(self, given: Input) -> None:
        """An input for the next step. Any thread may call it."""
        self._inputs.append(given)

    @property
    def waiting(self) -> bool:
        """Inputs wait for a step."""
        return bool(self._inputs)

    @property
    def queued(self) -> int:
        """So many inputs wait for a step."""
        return len(self._inputs)

    def next_due(self) -> int | None:
        """When the next timer runs out, in microseconds; None when only an input can bring anything about."""
        return None if self.down is not None else self.flow.next_due(self._now)

    @property
    def idle(self) -> bool:
        """Nothing is on its way, queued or out."""
        return not self._inputs and self.down is None and self.flow.idle

    @staticmethod
    def key_of(effect: Effect) -> EffectKey:
        """What tells effects apart."""
        return effect.intent, effect.request.verb, effect.request.path

    # --- the step -------------------------------------------------------------------------------------------------

    def step(self, now: int) -> int:
        """One group: the number of events appended. While the log refuses it is tried again, with the inputs kept."""
        if self.down is not None and not self.recover(now):
            return 0
        if not self._keep_up():
            return 0
        self._now = max(now, self._now, self.flow.now)
        taken = [self._inputs.popleft() for _ in range(len(self._inputs))]
        for given in taken:
            if isinstance(given, Answered):
                self.outstanding.pop(self.key_of(given.effect), None)
        group = Group(self, self._now)
        try:
            for given in taken:
                group.take(given)
            group.take(Ticked(self._now if self._ticked is None else self._ticked))
        except EventStoreError as error:
            # The log was asked what it has of an object, and could not be read.
            self._lose(error)
            self._inputs.extendleft(taken[::-1])
            return 0
        except Exception as error:
            # What has been decided so far is half of something: the log's state is the one to go on from.
            self._lose(error)
            raise
        self._ticked = self._now
        if not self._commit(group):
            self._inputs.extendleft(reversed(taken))
            return 0
        return len(group.events)

    def _keep_up(self) -> bool:
        """What others have appended to the ledger since the last step is of other clusters, or late: it only takes
        positions. False: it is this cluster's, or the log can't be read."""
        try:
            head = self.store.head()
            if head != self.flow.position:
                mine = self.store.read(cluster=self.cluster, after=self.flow.position)
                if any(not one.late for one in mine):
                    raise AnotherWriter(f"another writer appended to the record of {self.cluster}")
        except EventStoreError as error:
            self._lose(error)
            return False
        self.flow.position = head
        return True

    def _commit(self, group: Group) -> bool:
        """One transaction, then the effects. False: the log refused, and nothing is left of the group."""
        if group.events:
            try:
                result = self.store.append(group.events, first=group.first, **self._named())
                if result.positions != list(range(group.first, group.first + len(group.events))):
                    raise AnotherWriter(
                        f"the ledger had observations of {self.cluster} already that the loop did not know of"
                    )
            except EventStoreError as error:
                self._lose(error)
                return False
        for effect in group.effects:
            self.outstanding[self.key_of(effect)] = effect
        for effect in group.effects:
            self.carry_out(effect)
        self._since_snapshot += len(group.events)
        if self.snapshot_every and self._since_snapshot >= self.snapshot_every:
            self.save()
        return True

    def _named(self) -> dict[str, Any]:
        lease = self.lease()
        return {} if lease is None else {"lease": lease}

    def _lose(self, error: Exception) -> None:
        """Keep nothing that the log may not have."""
        self.down = error
        self.flow = Flow(self.config)
        self.outstanding.clear()

    def save(self) -> bool:
        """Saves a snapshot of the state, which must be what the log says (between two steps it is). False: the log
        would not take it; it is tried again when as many events have come as before."""
        name, version = self.projection.name, self.projection.version
        self._since_snapshot = 0
        payload = self.projection.dump(self.flow)
        try:
            self.store.save_snapshot(Snapshot(name, version, self.cluster, self.flow.position, None, payload))
        except EventStoreError:
            self.unsaved += 1
            return False
        return True

    # --- recovery -------------------------------------------------------------------------------------------------

    def recover(self, now: int | None = None) -> bool:
        """Builds the state from the log, and starts to settle what it says is in flight. For a process that begins on
        a ledger, and after the log refused. False: it refuses still. On an empty ledger there is nothing to do."""
        lost = self.down is not None
        try:
            start, self.flow = self._rebuilt(snapshots=True)
            self.standings.begin(self.flow.versions, sure=not lost)
        except EventStoreError as error:
            self._lose(error)
            return False
        self.down = None
        self.recovered_from, self._since_snapshot = start or None, self.flow.position - start
        self.outstanding.clear()
        if not start:
            self._since_snapshot = (
                self.snapshot_every
            )  # the first is made at once, so that there is one at a prune's cut
        if not self.flow.position:
            return True
        self._now = self._ticked = max(self.clock() if now is None else now, self.flow.now)
        group = Group(self, self._now)
        group.take(Restarted(self.recovered_from))
        return self._commit(group)

    def rebuild(self, *, snapshots: bool = True) -> Flow:
        """The state that the log gives: from the newest snapshot on, or without `snapshots` from the log's beginning
        (of a pruned one, from the snapshot at its cut). Nothing of the loop changes."""
        return self._rebuilt(snapshots)[1]

    def _rebuilt(self, snapshots: bool) -> tuple[int, Flow]:
        """(position of the snapshot gone on from or 0, state). One that was damaged is as good as not there."""
        folder, head = Folder(self.store), self.store.head()
        try:
            start, flow = folder.nearest(self.projection, self.cluster, head if snapshots else self.store.first() - 1)
        except LedgerCorrupt:
            if not snapshots:
                raise
            return self._rebuilt(snapshots=False)
        flow = folder.advance(self.projection, flow, self.cluster, start, head)
        flow.position = head
        return start, flow


class Group:
    """What one step has decided so far. The loop's state is worked on in place: if the append fails, it goes."""

    def __init__(self, loop: Loop, now: int) -> None:
        self.loop, self.now = loop, now
        self.first = loop.flow.position + 1
        self.events: list[NewEvent] = []
        self.effects: list[Effect] = []

    def take(self, given: Input) -> None:
        """Decides on an input and on all that follows from it at once."""
        flow = self.loop.flow
        ahead: deque[Input] = deque([given])
        while ahead:
            try:
                decision = decide(flow, ahead.popleft(), self.now)
            except UnreadableObject:
                self.loop.refused += 1
                continue
            self._add(decision.events)
            self.effects += decision.effects
            ahead.extendleft(reversed([*flow.notices, *decision.then]))
            flow.notices.clear()

    def _add(self, drafts: list[Draft]) -> None:
        loop = self.loop
        for draft in drafts:
            version: str | None = draft.resource_version
            late = False
            if draft.change:
                standing = loop.standings.of(draft, self.events, loop.flow.cache)
                if standing is Standing.KNOWN and len(drafts) == 1:
                    return
                # Where others of the decision name positions after this one, it is stored once more, under no version.
                if standing in (Standing.KNOWN, Standing.AGAIN):
                    version = None
                if standing is Standing.AGAIN and draft.change != "DELETED":
                    version = came_back(draft.resource_version, loop.flow.position + 1)
                late = standing is Standing.LATE
            event = self._event(draft, version)
            if late:
                event = event._replace(late=True)
            self.events.append(event)
            recorded = Recorded(
                loop.flow.position + 1,
                loop.cluster,
                *draft.subject,
                self.now,
                draft.known,
                late,
                event.resource_version,
                draft.causation,
                draft.cycle,
                draft.event,
            )
            evolve(loop.flow, recorded, draft.payload if draft.subject.kind in SENT_BACK else None)

    def _event(self, draft: Draft, version: str | None) -> NewEvent:
        if not draft.change:
            return codec.domain(
                self.loop.cluster,
                draft.subject,
                draft.event,
                self.now,
                known=draft.known,
                causation=draft.causation,
                cycle=draft.cycle,
            )
        kind, namespace, name, uid = draft.subject
        return codec.observation(
            cluster=self.loop.cluster,
            kind=kind,
            change=draft.change,
            payload=draft.payload,
            observed_at=self.now,
            known=draft.known,
            namespace=namespace,
            name=name,
            uid=uid,
            resource_version=version,
            about=draft.about,
        )


__all__ = ["AnotherWriter", "Loop"]
