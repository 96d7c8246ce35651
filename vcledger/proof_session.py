"""The scheduler's sentences as the session makes them: a whole cycle run on the state under the scheduler's own
configuration.

Owns putting the state, what is in flight, the dice and the cycle together. Must not know what it is compared with.
Called by `vcledger.proof` and `proof_choices`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from projections.cache.state import Cache
from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.reasons import Reason
from projections.diagnosis.words import scheduler_table
from vcledger.proof_dice import Dice, Throws
from vcledger.scheduler.session.conf import SessionConf
from vcledger.scheduler.session.framework import PluginFactory
from vcledger.scheduler.session.mirror import Mirror
from vcledger.scheduler.session.outcome import Outcome
from vcledger.scheduler.session.plugins import BUILTIN
from vcledger.scheduler.session.run import run
from vcledger.why_views import Views, assumed_on, lone_task, task_view
from volcano.objects.core import Pod
from volcano.objects.status import TaskStatus

if TYPE_CHECKING:
    from vcledger.ledger import Ledger
    from vcledger.proof_words import Speaks

_BINDING = int(TaskStatus.BINDING)


class SessionSpeaker:
    """Speaks for one state; see `vcledger.proof_words.Speaks`."""

    throws_dice = True

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        free: frozenset[str],
        in_flight: Mapping[str, str],
        thrown: Mapping[str, str],
        *,
        conf: SessionConf,
        seed: int = 0,
    ) -> None:
        self.ledger, self.cache, self.free, self.in_flight = ledger, cache, free, in_flight
        self.conf, self.seed, self.dice = conf, seed, Dice(thrown, sampling=conf.sampling)

    def of_pod(self, key: str, uid: str) -> str | None:
        """See `vcledger.proof_words.Speaker`."""
        found = self.outcome.unfit.get(uid)
        return found.message if found is not None and found.task.key == key else None

    def of_group(self, key: str) -> str | None:
        """See `vcledger.proof_words.Speaker`."""
        found = self.outcome.jobs.get(key)
        return (found.sentence or found.message) if found is not None else None

    def lets_through(self, key: str, node: str) -> bool:
        """See `vcledger.proof_words.Speaker`."""
        evaluation = self._evaluation(key, node)
        view = next((one for one in evaluation.cluster.nodes if one.name == node), None) if evaluation else None
        return evaluation is not None and view is not None and not refuses(evaluation.on(view))

    def table(self, key: str) -> Mapping[str, Sequence[Reason]]:
        """See `vcledger.proof_words.Speaker`. Each pod alone: what the cycle gave to others is not looked at."""
        failed = (one.task.key for one in self.outcome.unfit.values() if one.task.job == key and one.error is not None)
        evaluation = self._evaluation(next(failed, key))
        return scheduler_table(evaluation.table(), evaluation.cluster) if evaluation is not None else {}

    def _evaluation(self, key: str, only: str = "") -> Evaluation | None:
        """The pod of that name against the state as it stands; None when there is none."""
        ref = self.cache.pods.get(key)
        pod = self.ledger.objects([ref.position]).get(ref.position) if ref is not None else None
        if ref is None or not isinstance(pod, Pod):
            return None
        job = self.cache.jobs.get(ref.job)
        held = job.tasks.get(ref.uid) if job is not None else None
        views = self.views
        task = task_view(held, pod, ref.position, views.reported) if held is not None else lone_task(ref, pod)
        return Evaluation(task, pod, views.cluster([pod], only=only))

    @cached_property
    def views(self) -> Views:
        """The state as the single pod's evaluation looks at it."""
        return Views(self.ledger, self.cache, self.free, self.in_flight)

    @cached_property
    def outcome(self) -> Outcome:
        """The cycle; run when first asked for."""
        return decide(self.ledger, self.cache, self.free, self.in_flight, self.dice, conf=self.conf, seed=self.seed)


def decide(
    ledger: Ledger,
    cache: Cache,
    free: frozenset[str],
    in_flight: Mapping[str, str],
    dice: Throws,
    *,
    conf: SessionConf,
    seed: int = 0,
    plugins: Mapping[str, PluginFactory] = BUILTIN,
) -> Outcome:
    """A cycle on a state. `free` and `in_flight` as for a speaker; `dice` decides on nodes."""
    ledger.objects([ref.position for ref in cache.pods.values() if not ref.node_name])
    mirror = Mirror(cache, lambda ref: ledger.objects([ref.position]).get(ref.position))
    mirror.refresh()
    held = {uid: node for uid, (_, node) in assumed_on(cache, free).items()}
    held.update(in_flight)
    for job in mirror.jobs.values():
        for uid in sorted(held.keys() & job.tasks.keys()):
            task, row = job.tasks[uid], mirror.nodes.row.get(held[uid])
            if task.node or row is None:
                continue
            job.set_status(task, _BINDING)
            task.node = held[uid]
            mirror.nodes.take(row, task)
    return run(mirror, conf, seed=seed, plugins=plugins, chooser=partial(dice.choose, mirror.nodes))


def session_speaker(conf: SessionConf, seed: int = 0) -> Speaks:
    """What `proof` asks for the sentences of a scheduler with that configuration. `seed` decides between equals."""
    return partial(SessionSpeaker, conf=conf, seed=seed)


__all__ = ["SessionSpeaker", "decide", "session_speaker"]
