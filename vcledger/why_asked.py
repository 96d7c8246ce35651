"""What is asked, of which state, and how: the arguments that every kind of `why` takes.

Owns their shape, and the loading of the state that is asked about. Must not know cases nor verdicts. Called by
`vcledger.why`, `vcledger.why_node` and `vcledger.why_queue`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypedDict

from projections.cache.state import Cache, CacheConfig
from projections.diagnosis.views import Rules
from projections.diagnosis.world import World
from vcledger.at import format_time, parse_time
from vcledger.errors import BadTime
from vcledger.ledger import DEFAULT_CONFIG, DEFAULT_MODEL, Ledger
from vcledger.why_views import Views

EVENTS_READ_MAX, EVENTS_READ_AT_ONCE = 1_000, 200
"""How many of the last events of a name are read, and how many at once."""


class Asked(TypedDict, total=False):
    """When and how: the keyword arguments of every `why`.

    position   the log position that the answer is for; None: the newest
    cluster    None: the only one of the ledger
    model      the cache's model, volcano-1.11 unless told otherwise
    config     the cache's configuration
    asked_at   the time (microseconds) that was asked about, where a time was (`vcledger.gaps.moment`)
    rules      the scheduler's configuration (`vcledger.why_conf.rules_of`), where it is known
    views      of the state at that position under that model, for who asks several questions about it
    """

    position: int | None
    cluster: str | None
    model: str
    config: CacheConfig
    asked_at: int | None
    rules: Rules | None
    views: Views | None


class AskedInFull(Asked, total=False):
    """What `why` of a pod or job takes besides.

    changes    False: the smallest changes are not looked for, which takes the longest
    sessions   True: each change is proven by a scheduling session too, under `conf`; None: the smallest ones, where the
               state is small enough for that to cost little; False, unless told otherwise: none is
    conf       the text of the scheduler's configuration; None: Volcano's default
    """

    changes: bool
    sessions: bool | None
    conf: str | None


class Looked(NamedTuple):
    """Where an answer looks: the cluster, the position, the newest time observed up to it, and the state there."""

    cluster: str
    position: int
    observed_at: int | None
    views: Views

    @property
    def time(self) -> str | None:
        return format_time(self.observed_at) if self.observed_at is not None else None

    def asked(self, asked_at: int | None) -> str | None:
        """The time that was asked about, where it is another."""
        return format_time(asked_at) if asked_at is not None and asked_at != self.observed_at else None


def look(ledger: Ledger, asked: Asked) -> Looked:
    """The state that is asked about."""
    chosen = ledger.cluster(asked.get("cluster"))
    at = ledger.position(asked.get("position"), chosen)
    views = asked.get("views")
    if views is None:
        model, config = asked.get("model", DEFAULT_MODEL), asked.get("config", DEFAULT_CONFIG)
        views = Views(ledger, ledger.cache(at, cluster=chosen, model=model, config=config), rules=asked.get("rules"))
    return Looked(chosen, at, ledger.observed_at(at, chosen), views)


class Question(NamedTuple):
    """What is asked, of which state."""

    ledger: Ledger
    looked: Looked
    asked_at: int | None
    namespace: str
    name: str
    searches: bool
    again: Callable[[World, World], bool | None] | None

    @property
    def views(self) -> Views:
        return self.looked.views

    @property
    def cache(self) -> Cache:
        return self.views.cache

    @property
    def cluster(self) -> str:
        return self.looked.cluster

    @property
    def position(self) -> int:
        return self.looked.position

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def now(self) -> str | None:
        return self.looked.time

    @property
    def time(self) -> int | None:
        """The time that the answer is for: the one asked about, else the newest observed up to the position."""
        return self.asked_at if self.asked_at is not None else self.looked.observed_at


def ask(ledger: Ledger, namespace: str, name: str, asked: AskedInFull) -> Question:
    """The question about a pod or job."""
    looked = look(ledger, asked)
    sessions = asked.get("sessions", False)
    again = None if sessions is False else _Again(ledger, looked.views.cache, asked.get("conf"), sessions is None)
    return Question(ledger, looked, asked.get("asked_at"), namespace, name, asked.get("changes", True), again)


class _Again:
    """The sessions that prove changes, made once there is a change to prove: they need numpy, which most answers do
    without."""

    def __init__(self, ledger: Ledger, cache: Cache, conf: str | None, small: bool) -> None:
        self.ledger, self.cache, self.conf, self.small = ledger, cache, conf, small

    @cached_property
    def proof(self) -> Callable[[World, World], bool | None]:
        from vcledger.why_session import SessionProof

        return SessionProof(self.ledger, self.cache, self.conf, small=self.small)

    def __call__(self, world: World, before: World) -> bool | None:
        return self.proof(world, before)


def micros(time: str | None) -> int | None:
    """A text of an object as microseconds; None when it is no time."""
    try:
        return parse_time(time) if time else None
    except BadTime:
        return None


__all__ = ["Asked", "AskedInFull", "Looked", "Question", "ask", "look", "micros"]
