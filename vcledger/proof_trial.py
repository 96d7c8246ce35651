"""The scheduler's sentences as `why` makes them: each group tried alone on the state as it stands.

Owns putting that trial and the sentences together, without a look at anything that the scheduler wrote. Must not know
what it is compared with. Called by `vcledger.proof`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from projections.cache.state import Cache
from projections.diagnosis.gang import Trial, try_gang
from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.queues import share_gate
from projections.diagnosis.reasons import Reason
from projections.diagnosis.views import ClusterView, GroupView, TaskView
from projections.diagnosis.words import group_message, scheduler_table, task_message
from vcledger.why_views import Views

if TYPE_CHECKING:
    from vcledger.ledger import Ledger


class _Tried(NamedTuple):
    group: GroupView
    cluster: ClusterView
    trial: Trial


class TrialSpeaker:
    """Speaks for one state; see `vcledger.proof_words.Speaks`. It throws no dice: of several nodes it names one."""

    throws_dice = False

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        free: frozenset[str],
        in_flight: Mapping[str, str],
        thrown: Mapping[str, str],
    ) -> None:
        del thrown
        self.cache, self.views = cache, Views(ledger, cache, free, in_flight)
        self._tried: dict[str, _Tried | None] = {}

    def of_pod(self, key: str, uid: str) -> str | None:
        """See `vcledger.proof_words.Speaker`."""
        task, tried = self._find(key)
        if task is None or tried is None or task.uid != uid or task.gated:
            return None
        return task_message(task, tried.group, tried.trial, tried.cluster)

    def of_group(self, key: str) -> str | None:
        """See `vcledger.proof_words.Speaker`."""
        tried = self._of_job(key)
        if tried is None:
            return None
        words = group_message(tried.group, tried.trial, tried.cluster)
        return f"{tried.trial.short}/{len(tried.group.tasks)} tasks in gang unschedulable: {words}"

    def lets_through(self, key: str, node: str) -> bool:
        """See `vcledger.proof_words.Speaker`."""
        task, tried = self._find(key)
        if task is None or task.pod is None or tried is None:
            return False
        view = next((one for one in tried.cluster.nodes if one.name == node), None)
        return view is not None and not refuses(Evaluation(task, task.pod, tried.cluster).on(view))

    def table(self, key: str) -> Mapping[str, Sequence[Reason]]:
        """See `vcledger.proof_words.Speaker`."""
        task, tried = self._find(key)
        tried = tried or self._of_job(key)
        if tried is None:
            return {}
        refused = {**tried.trial.failed, **tried.trial.unfilled}
        chosen = task if task is not None and task.uid in refused else tried.trial.breaker
        return scheduler_table(refused[chosen.uid], tried.cluster) if chosen is not None else {}

    def _find(self, key: str) -> tuple[TaskView | None, _Tried | None]:
        """The pod as its group's task."""
        ref = self.cache.pods.get(key)
        tried = self._of_job(ref.job) if ref is not None and ref.job else None
        if ref is None or tried is None:
            return None, None
        return next((task for task in tried.group.tasks if task.uid == ref.uid), None), tried

    def _of_job(self, uid: str) -> _Tried | None:
        if uid not in self._tried:
            self._tried[uid] = self._try(uid)
        return self._tried[uid]

    def _try(self, uid: str) -> _Tried | None:
        job = self.cache.jobs.get(uid)
        group = self.views.group(job) if job is not None else None
        if group is None or group.pod_group is None:
            return None
        cluster = self.views.cluster([task.pod for task in group.tasks if task.pod is not None])
        trial = try_gang(group, cluster)
        first = next(iter(trial.order), None)
        if first is not None and share_gate(group.pod_group.spec.queue, first.request, cluster) is not None:
            trial = trial.untried_all()
        return _Tried(group, cluster, trial)


__all__ = ["TrialSpeaker"]
