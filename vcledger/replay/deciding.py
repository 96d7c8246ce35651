"""Who decides in a replay: Volcano's session over a mirror of the cache, behind the few calls that a replay makes.

Owns that seam, at which tests put a decider of their own. Must not know modes. Called by `vcledger.replay.free` and
`vcledger.replay.shadow`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from projections.cache import Cache
from projections.cache.state import PodRef
from vcledger.scheduler.session.conf import SessionConf
from vcledger.scheduler.session.outcome import Outcome
from volcano.events.base import DomainEvent, Subject
from volcano.objects.core import Pod

if TYPE_CHECKING:
    from vcledger.scheduler.session.framework import PluginFactory
    from vcledger.scheduler.session.model import SessionTask
    from vcledger.scheduler.session.sampling import Sampling


class Decider(Protocol):
    """What decides. It holds the cache it was made for, and is told of every object that an event touched."""

    def touch(self, kind: str, namespace: str, name: str) -> None:
        """An event about the object has been folded."""
        ...

    def decide(self, now: int, cycle: int, only: Collection[str] | None = None) -> Outcome:
        """One cycle, limited to some jobs where `only` names them. Changes nothing."""
        ...

    def events(self, outcome: Outcome) -> list[tuple[Subject, DomainEvent]]:
        """A cycle as events of the log."""
        ...

    def waiting(self) -> list[str]:
        """The jobs with a task that waits, by uid, in the order of the uids."""
        ...

    def refused(self, ref: PodRef, node: str) -> tuple[str, ...]:
        """Why the node would not take the pod as things are; () when it would, also once pods that go are gone."""
        ...


NODE_KINDS = frozenset({"Node", "CSINode", "Numatopology"})
POD_COUNT = "pod-count"

PodOf = Callable[[PodRef], Pod | None]
MakeDecider = Callable[[Cache, PodOf], Decider]


class SessionDecider:
    """The session of `vcledger.scheduler.session`."""

    def __init__(
        self, cache: Cache, pod_of: PodOf, conf: SessionConf, seed: int, plugins: Mapping[str, PluginFactory]
    ) -> None:
        from vcledger.scheduler.session.mirror import Mirror

        self.mirror = Mirror(cache, pod_of)
        self.conf, self.seed, self.plugins = conf, seed, plugins
        self._touched: dict[str, None] = {}

    def touch(self, kind: str, namespace: str, name: str) -> None:
        if kind in NODE_KINDS:
            self._touched[name] = None
        self.mirror.touch(kind, namespace, name)

    def decide(self, now: int, cycle: int, only: Collection[str] | None = None) -> Outcome:
        from vcledger.scheduler.session.run import run

        self._touched.clear()
        return run(self.mirror, self.conf, seed=self.seed, cycle=cycle, now=now, plugins=self.plugins, only=only)

    def events(self, outcome: Outcome) -> list[tuple[Subject, DomainEvent]]:
        from vcledger.scheduler.session.events import events_of

        return events_of(outcome)

    def waiting(self) -> list[str]:
        self._catch_up()
        return sorted(self.mirror.waiting)

    def refused(self, ref: PodRef, node: str) -> tuple[str, ...]:
        """Amounts are looked at in the cache itself: to bring the session's columns up to date for each decision would
        cost more than all questions. What no recent event has touched comes from the columns."""
        mirror = self.mirror
        if node in self._touched or ref.claims or self._task(ref) is None:
            self._catch_up()
        task, row, info = self._task(ref), mirror.nodes.row.get(node), mirror.cache.nodes.get(node)
        if row is None or info is None:
            return (f"there is no node {node} that is ready",)
        if task is None:
            return ("its job is none of the session's: no PodGroup, or an unknown queue",)
        feasible = mirror.feasible
        if not ref.claims:
            short = [] if task.best_effort else ref.request.exceeding(info.future_idle())
            if short:
                return tuple(f"Insufficient {name}" for name in short)
            most = info.allocatable.max_task_num
            full = POD_COUNT in feasible.checks and 0 < most <= info.task_count
            if not full and not feasible.special(task) and feasible.statics.of(task.like, feasible.checks).ok[row]:
                return ()
        self._catch_up()
        columns = feasible.columns(task.like)
        if (columns.now[row] or columns.later[row]) and feasible.fits_now(task, row):
            return ()
        return next((reasons for reasons, names in feasible.refusals(task).groups if node in names), ())

    def _task(self, ref: PodRef) -> SessionTask | None:
        job = self.mirror.groups.get(ref.job)
        return job.tasks.get(ref.uid) if job is not None else None

    def _catch_up(self) -> None:
        self.mirror.refresh()
        self._touched.clear()


def session_decider(conf_text: str, seed: int, sampling: Sampling | None = None) -> MakeDecider:
    """A maker of deciders from a configuration file's text, '' for Volcano's default, and the options that say at how
    many nodes a session looks. Raises as `read_conf` does."""
    from vcledger.plugins import all_plugins
    from vcledger.scheduler.session.conf import DEFAULT_CONF, read_conf

    plugins = all_plugins()
    conf = read_conf(conf_text or DEFAULT_CONF, plugins)
    if sampling is not None:
        conf = replace(conf, sampling=sampling)
    return lambda cache, pod_of: SessionDecider(cache, pod_of, conf, seed, plugins)
