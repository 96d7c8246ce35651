"""What a shadow replay finds out, one note after the other, and the sums of it.

Owns the notes, which say what was asked, judged and seen, and the tally that takes them in. Must not know a cache nor a
session. Notes are made by `vcledger.replay.shadow`; `vcledger.replay.shadowing` tallies them at once, or, where pieces
of a record are replayed side by side, in the order of the pieces.

The tally depends on nothing but the notes and their order, so it comes out the same however the record was cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from vcledger.replay.figures import Meter
from vcledger.replay.report import Counts, Divergence, Side


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the session would do with a pod: a node, '' for none, and why."""

    node: str
    reason: str
    time: int


class Open(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pod that the session would place, or evict, while the record leaves it as it is. `position` is where it would
    differ from the record: the pod's last observation, or of an eviction the question."""

    answer: Answer
    position: int
    key: str


class Note(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thing that came up. `into` takes it into a tally."""

    def into(self, tally: Tally) -> None:
        raise NotImplementedError


class Arrived(Note, frozen=True, tag=0):
    """A pod of the scheduler that nobody has seen before, at `time` when it waits for a node."""

    uid: str
    time: int | None

    def into(self, tally: Tally) -> None:
        tally.pods += 1
        if self.time is not None:
            tally.created[self.uid] = self.time


class Judged(Note, frozen=True, tag=1):
    """A recorded decision, in a queue, compared with the session's: `kind` is a name of `Counts`."""

    uid: str
    queue: str
    time: int
    kind: str
    differs: Divergence | None

    def into(self, tally: Tally) -> None:
        tally.decisions += 1
        tally.counts[self.kind] += 1
        tally.open.pop(self.uid, None)
        created = tally.created.pop(self.uid, None)
        if created is not None:
            tally.waited.append((self.queue, self.time - created))
        if self.differs is not None:
            tally.differs(self.differs)


class WouldPlace(Note, frozen=True, tag=2):
    """The session would place a pod that the record leaves pending as yet."""

    uid: str
    found: Open

    def into(self, tally: Tally) -> None:
        tally.open.setdefault(self.uid, self.found)


class WouldEvict(Note, frozen=True, tag=3):
    """The session would evict a pod that the record leaves running as yet."""

    uid: str
    found: Open

    def into(self, tally: Tally) -> None:
        tally.evicted.setdefault(self.uid, self.found)


class Gone(Note, frozen=True, tag=4):
    """A pod is gone: what is open about it is settled."""

    uid: str
    time: int

    def into(self, tally: Tally) -> None:
        tally.evicted_only_here(self.uid, self.time, "left running to its end")
        tally.created.pop(self.uid, None)
        tally.only_here(self.uid)


class RanSomewhere(Note, frozen=True, tag=5):
    """A pod of the scheduler runs, the record does not say where."""

    uid: str

    def into(self, tally: Tally) -> None:
        tally.counts["unknown_node"] += 1
        tally.only_here(self.uid)


class EvictionSeen(Note, frozen=True, tag=6):
    """The record evicts a pod, of a gang that `breaks` by it."""

    breaks: bool

    def into(self, tally: Tally) -> None:
        tally.evictions_recorded += 1
        tally.gangs_broken += self.breaks


class EvictionJudged(Note, frozen=True, tag=7):
    """A recorded eviction compared with the session's."""

    uid: str
    differs: Divergence | None

    def into(self, tally: Tally) -> None:
        if self.differs is None:
            tally.evicted.pop(self.uid, None)
            tally.counts["evicted_same"] += 1
            return
        time, what = self.differs.recorded.time, "left running until it was evicted by another cycle"
        tally.evicted_only_here(self.uid, time, what)
        tally.counts["evicted_only_there"] += 1
        tally.differs(self.differs)


class GangBroke(Note, frozen=True, tag=8):
    """A gang lost a member that it needed, with its node."""

    def into(self, tally: Tally) -> None:
        tally.gangs_broken += 1


class Asked(Note, frozen=True, tag=9):
    """A question to the session."""

    def into(self, tally: Tally) -> None:
        tally.asked += 1


class Sample(Note, frozen=True, tag=10):
    """What is in use and what there is at a moment. One more than was wanted does no harm: it is passed over."""

    time: int
    used: dict[str, float]
    room: dict[str, float]

    def into(self, tally: Tally) -> None:
        if self.time < tally.due:
            return
        tally.due = tally.start + ((self.time - tally.start) // tally.every + 1) * tally.every
        meter = tally.meter
        meter.give_back(self.time, tally.held)
        meter.take(self.time, self.used)
        meter.node(self.time, "all", self.room)
        tally.held = self.used


class Said(Note, frozen=True, tag=11):
    """What the session said in a question, before the event at `position`: of each event kind, namespace, name and uid
    of what it is about, its type, family, schema and payload. `number` counts the questions from where the notes
    begin. For the result ledger: the tally has no use for it."""

    position: int
    number: int
    events: list[tuple[str, str, str, str, str, str, int, bytes]]

    def into(self, tally: Tally) -> None:
        return


AnyNote: TypeAlias = (
    Arrived | Judged | WouldPlace | WouldEvict | Gone | RanSomewhere | EvictionSeen | EvictionJudged | GangBroke
    | Asked | Sample | Said
)  # fmt: skip

Tell: TypeAlias = Callable[[AnyNote], None]


class Tally:
    """The sums of some notes. Utilization is looked at each `every` microseconds from `start` on.

    pods, decisions, asked, evictions_recorded, gangs_broken, counts, divergences: how many
    first          the first divergence by its position, of those at one position the one that came first
    waited         (queue, microseconds) of each pod that got its node
    created        when pods came that still wait
    open, evicted  what is open about pods, by uid"""

    def __init__(self, start: int, every: int) -> None:
        self.start, self.every, self.due = start, every, start
        self.pods = self.decisions = self.asked = self.evictions_recorded = self.gangs_broken = self.divergences = 0
        self.counts = dict.fromkeys(Counts.__struct_fields__, 0)
        self.first: Divergence | None = None
        self.waited: list[tuple[str, int]] = []
        self.created: dict[str, int] = {}
        self.open: dict[str, Open] = {}
        self.evicted: dict[str, Open] = {}
        self.held: dict[str, float] = {}
        self.meter = Meter()

    def take(self, note: AnyNote) -> None:
        """One more note."""
        note.into(self)

    def differs(self, divergence: Divergence) -> None:
        """A pod for which the session differs from the record."""
        self.divergences += 1
        if self.first is None or divergence.position < self.first.position:
            self.first = divergence

    def only_here(self, uid: str) -> None:
        """The record has left a pod pending to its end, that the session would have placed, if it would."""
        found = self.open.pop(uid, None)
        if found is None:
            return
        self.counts["only_here"] += 1
        here = Side(found.answer.node, found.answer.time, found.answer.reason)
        self.differs(Divergence(found.position, found.key, "only_here", Side("", None, "left pending"), here))

    def evicted_only_here(self, uid: str, time: int | None, what: str) -> None:
        """The record has not evicted a pod that the session would have evicted, if it would."""
        found = self.evicted.pop(uid, None)
        if found is None:
            return
        self.counts["evicted_only_here"] += 1
        there = Side(found.answer.node, time, what)
        here = Side(found.answer.node, found.answer.time, found.answer.reason)
        self.differs(Divergence(found.position, found.key, "evicted_only_here", there, here))

    def close(self) -> None:
        """The end of the record: whoever is pending, or runs, there stays so."""
        for uid in list(self.open):
            self.only_here(uid)
        for uid in list(self.evicted):
            self.evicted_only_here(uid, None, "left as it was")

    # --- kept for later ---------------------------------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """All of it as plain values."""
        fields = {name: value for name, value in vars(self).items() if name != "meter"}
        fields |= {"used": self.meter.used, "room": self.meter.room, "nodes": self.meter.nodes}
        kept: dict[str, Any] = msgspec.to_builtins(fields)
        return kept

    def put_back(self, kept: dict[str, Any]) -> None:
        """Makes it what was kept."""
        for name, value in kept.items():
            found = msgspec.convert(value, _TYPES[name]) if name in _TYPES else value
            setattr(self.meter if name in _METERED else self, name, found)


_METERED = ("used", "room", "nodes")
_TYPES: dict[str, Any] = {
    "first": Divergence | None,
    "waited": list[tuple[str, int]],
    "open": dict[str, Open],
    "evicted": dict[str, Open],
    "used": list[tuple[int, str, float]],
    "room": list[tuple[int, str, float]],
}

__all__ = [
    "Answer",
    "AnyNote",
    "Arrived",
    "Asked",
    "EvictionJudged",
    "EvictionSeen",
    "GangBroke",
    "Gone",
    "Judged",
    "Open",
    "RanSomewhere",
    "Said",
    "Sample",
    "Tally",
    "Tell",
    "WouldEvict",
    "WouldPlace",
]
