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
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

from eventstore import EventStore
from eventstore.types import INFERRED, EventStoreError, NewEvent
from projections.cache import stores
from vcledger import codec
from vcledger.scheduler.decide import UnreadableObject, decide
from vcledger.scheduler.decision import Draft
from vcledger.scheduler.fold import evolve
from vcledger.scheduler.inputs import Answered, Effect, Input, Restarted, Ticked
from vcledger.scheduler.state import Flow, FlowConfig
from volcano.events.base import Recorded, Subject

SENT_BACK = frozenset({"PersistentVolume", "PersistentVolumeClaim"})
"""Kinds whose objects are kept whole, as they are sent back when they are updated."""

EffectKey = tuple[int, str, str]


class AnotherWriter(EventStoreError):
    """Somebody else appended to this cluster's ledger while the loop did."""


class Loop:
    """The scheduler of one cluster on one ledger. Not for several threads at once, but for `put`.

    flow         the state; after a step it is what the log says
    outstanding  effects handed out whose answer has not been put, by `key_of`
    clock        what tells the time to `recover` when it is not given
    down         why the log refused, None while all is well
    refused      how many inputs were no observations that could be kept
    """

    def __init__(
        self,
        store: EventStore,
        cluster: str,
        *,
        carry_out: Callable[[Effect], None],
        config: FlowConfig | None = None,
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        self.store, self.cluster, self.carry_out, self.clock = store, cluster, carry_out, clock
        self.config = config or FlowConfig()
        self.flow = Flow(self.config)
        self.outstanding: dict[EffectKey, Effect] = {}
        self.down: Exception | None = None
        self.refused = 0
        self._inputs: deque[Input] = deque()
        self._now = 0
        self._ticked: int | None = None
        self._versions: dict[Subject, int] = {}
        self._gone: dict[Subject, bool] = {}

    # --- from outside ---------------------------------------------------------------------------------------------

    def put(self, given: Input) -> None:
        """An input for the next step. Any thread may call it."""
        self._inputs.append(given)

    @property
    def waiting(self) -> bool:
        """Inputs wait for a step."""
        return bool(self._inputs)

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
        except Exception as error:
            # What has been decided so far is half of something: the log's state is the one to go on from.
            self._lose(error)
            raise
        self._ticked = self._now
        if not self._commit(group):
            self._inputs.extendleft(reversed(taken))
            return 0
        return len(group.events)

    def _commit(self, group: Group) -> bool:
        """One transaction, then the effects. False: the log refused, and nothing is left of the group."""
        if group.events:
            try:
                result = self.store.append(group.events)
                if result.positions != list(range(group.first, group.first + len(group.events))):
                    raise AnotherWriter(
                        f"another writer appended to the ledger of {self.cluster}: one scheduler and one recorder each"
                    )
            except EventStoreError as error:
                self._lose(error)
                return False
        for effect in group.effects:
            self.outstanding[self.key_of(effect)] = effect
        for effect in group.effects:
            self.carry_out(effect)
        return True

    def _lose(self, error: Exception) -> None:
        """Keep nothing that the log may not have."""
        self.down = error
        self.flow = Flow(self.config)
        self._versions, self._gone = {}, {}
        self.outstanding.clear()

    # --- recovery -------------------------------------------------------------------------------------------------

    def recover(self, now: int | None = None) -> bool:
        """Builds the state from the log, and starts to settle what it says is in flight. For a process that begins on
        a ledger, and after the log refused. False: it refuses still. On an empty ledger there is nothing to do."""
        try:
            self.flow = self.rebuild()
        except EventStoreError as error:
            self._lose(error)
            return False
        self.down = None
        self.outstanding.clear()
        if not self.flow.position:
            return True
        self._now = self._ticked = max(self.clock() if now is None else now, self.flow.now)
        group = Group(self, self._now)
        group.take(Restarted())
        return self._commit(group)

    def rebuild(self) -> Flow:
        """The state that the log gives, from its beginning."""
        flow = Flow(self.config)
        self._versions, self._gone = {}, {}
        for stored in self.store.read(cluster=self.cluster):
            subject = Subject(stored.kind, stored.namespace, stored.name, stored.uid)
            number = -1 if stored.resource_version is None else stored.resource_version
            if stored.late:
                self._versions[subject] = max(self._versions.get(subject, -1), number)
            else:
                if stored.family == "observation":
                    self._note(subject, number, stored.gone, stored.known)
                raw = stored.payload if stored.kind in SENT_BACK else None
                evolve(flow, codec.recorded(stored), raw)
                flow.notices.clear()
        flow.position = self.store.head()
        return flow

    # --- what the log has -----------------------------------------------------------------------------------------

    def standing(self, draft: Draft, pending: list[NewEvent]) -> Standing:
        """What an observation is to the log, which stores one of each (object, version, gone or not)."""
        subject, gone = draft.subject, draft.change == "DELETED"
        number = codec.resource_version_key(draft.resource_version)
        highest, inferred = self._versions.get(subject, -1), self._gone.get(subject)
        stored = number is not None and number <= highest and self._stored(subject, number, gone, pending)
        deleted = inferred is False
        if not gone and number is not None and 0 <= number < highest + deleted:
            return Standing.KNOWN if stored else Standing.LATE
        if gone and self._another_has_the_name(subject):
            return Standing.KNOWN if stored else Standing.LATE
        if stored and gone == (inferred is not None):
            return Standing.KNOWN
        self._note(subject, -1 if number is None else number, gone, draft.known)
        return Standing.AGAIN if stored else Standing.NEW

    def _another_has_the_name(self, subject: Subject) -> bool:
        """Whether the cache holds an object of that name with another UID: it came from an answer, before the watch had
        told of the old one's end."""
        key = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
        if subject.kind == "Pod":
            ref = self.flow.cache.pods.get(key)
            return ref is not None and ref.uid != subject.uid
        held = stores.held(self.flow.cache, subject.kind, key)
        return held is not None and held.metadata.uid != subject.uid

    def _note(self, subject: Subject, number: int, gone: bool, known: int) -> None:
        self._versions[subject] = max(self._versions.get(subject, -1), number)
        if gone:
            self._gone[subject] = known == INFERRED
        else:
            self._gone.pop(subject, None)

    def _stored(self, subject: Subject, number: int, gone: bool, pending: list[NewEvent]) -> bool:
        for event in pending:
            if event.resource_version == number and event.gone == gone and event.stream[1:] == tuple(subject):
                return True
        found = self.store.read(
            cluster=self.cluster,
            kinds=subject.kind,
            namespace=subject.namespace,
            name=subject.name,
            uid=subject.uid,
            reverse=True,
        )
        return any(one.resource_version == number and one.gone == gone for one in found)


class Standing(Enum):
    """NEW: as it is. KNOWN: the log has it, and nothing is new about it. AGAIN: the log has it, but an object came back
    that a relist had missed, or is gone again: stored under no version. LATE: older than what the log has of the object
    (a stale list, a line that comes twice) or of its name, so kept, and passed over by the folds."""

    NEW = 0
    KNOWN = 1
    AGAIN = 2
    LATE = 3


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
                standing = loop.standing(draft, self.events)
                if standing is Standing.KNOWN and len(drafts) == 1:
                    return
                # Where others of the decision name positions after this one, it is stored once more, under no version.
                if standing in (Standing.KNOWN, Standing.AGAIN):
                    version = None
                late = standing is Standing.LATE
            event = self._event(draft, version)._replace(late=late)
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
