"""The capacity plugin: what a queue deserves is stated, not divided by weight.

Owns what queues deserve and hold under it. Must not know the actions. Called by the registry beside it (`plugins`),
then at its extension points.

A queue may grow up to its capability as long as others leave room; what it holds above what it deserves may be taken
back. With enableHierarchy queues are parts of queues: jobs are in those that have no parts, and whatever is held or
asked there counts for all the queues above.

Source: Volcano's pkg/scheduler/plugins/capacity/capacity.go without resource claims and the admission by scheduling
gates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import REJECT, Session
from vcledger.scheduler.session.model import SessionJob, SessionQueue, SessionTask, Vector, fits
from vcledger.scheduler.session.plugins.common import counted, dominant_share, exceeding, is_empty, is_open, sign
from vcledger.scheduler.session.plugins.proportion import Attributes, admit, attributes
from vcledger.scheduler.session.plugins.queuetree import (
    ROOT,
    NoTree,
    above_at,
    below_common,
    common_level,
    queue_tree,
)
from vcledger.scheduler.session.victims import in_order
from volcano.objects.resource import EPSILON, PODS

_CLAIMS = "resource claims are not recorded"
_LEVEL = "ancestorReclaimLevel"


class Capacity:
    """Queues that have jobs; with enableHierarchy all. Arguments: ancestorReclaimLevel (0), how many queues above count
    when queues of queues reclaim; without effect otherwise."""

    name = "capacity"
    HIERARCHY = True
    ARGUMENTS = (
        Argument(_LEVEL, int, least=0),
        Argument("capacity.DynamicResourceAllocationEnable", bool, only=(False,), why=_CLAIMS),
        Argument("capacity.DRAConsumableCapacityEnable", bool, only=(False,), why=_CLAIMS),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.of: dict[str, Attributes] = {}
        self.levels: int = arguments.get(_LEVEL, 0)
        self.why_not = ""

    def on_open(self, ssn: Session) -> None:
        self.ssn = ssn
        conf = next((one for one in ssn.conf.plugins() if one.name == self.name), None)
        if conf is not None and conf.is_on("enableHierarchy"):
            self._open_tree(ssn)
        else:
            self._open_flat(ssn)
        ssn.add("allocatable", self.name, self.allocatable)
        ssn.add("preemptive", self.name, self.preemptive)
        ssn.add("reclaimable", self.name, self.reclaimable)
        ssn.add("job_enqueueable", self.name, self.enqueueable)
        ssn.on_change(lambda task: self._change(task, task.request), lambda task: self._change(task, -task.request))

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def _open_flat(self, ssn: Session) -> None:
        self.levels = 0
        self.of = {one.queue.name: one for one in attributes(ssn.queues.values(), ssn.total)}
        for one in self.of.values():
            one.deserved = np.maximum(np.minimum(one.queue.deserved, one.limit), one.queue.guarantee)
            self._update(one)
        ssn.add("queue_order", self.name, self.order)

    def _open_tree(self, ssn: Session) -> None:
        try:
            self.of = queue_tree(ssn.queues)
        except NoTree as error:
            self.why_not = str(error)
            return
        for one in self.of.values():
            self._update(one)
        ssn.add("queue_order", self.name, self.order)
        ssn.add("victim_queue_order", self.name, self.nearest_first)

    def order(self, left: SessionQueue, right: SessionQueue) -> int:
        """The higher priority, then the smaller share; of equals the one that deserves anything first. Of queues of
        queues the shares are those just below what both are part of."""
        mine, other = self.of.get(left.name), self.of.get(right.name)
        found = sign(right.priority, left.priority)
        if found or mine is None or other is None:
            return found
        if mine.is_leaf != other.is_leaf:
            return -1 if mine.is_leaf else 1
        if mine.is_leaf:
            level = common_level(mine, other)
            mine, other = below_common(mine, level), below_common(other, level)
        return sign(mine.share, other.share) or self._is_best_effort(mine) - self._is_best_effort(other)

    def nearest_first(self, left: SessionQueue, right: SessionQueue, own: SessionQueue) -> int:
        """Victims come first from the queues that are nearest to the reclaimer's."""
        mine = self.of[own.name]
        return sign(common_level(self.of[right.name], mine), common_level(self.of[left.name], mine))

    def allocatable(self, queue: SessionQueue, task: SessionTask) -> bool:
        """With the task it would still be within what it may reach, in what the task asks, and each queue above too."""
        one = self.of.get(queue.name)
        if one is None or not is_open(queue) or not one.is_leaf:
            return False
        return not any(exceeding(each.allocated + task.request, each.limit, task.request) for each in one.chain)

    def preemptive(self, queue: SessionQueue, task: SessionTask) -> bool:
        """With the task it would still be within what it deserves of at least one resource that the task asks, or one
        of so many queues above would."""
        one = self.of.get(queue.name)
        if one is None or not is_open(queue):
            return False
        if exceeding(one.allocated + task.request, one.limit, task.request):
            return False
        above = [each for depth in range(1, self.levels + 1) if (each := above_at(one, depth)) is not None]
        return any(_has_left(each, task) for each in (one, *above) if each is one or each.queue.name != ROOT)

    def enqueueable(self, job: SessionJob) -> int:
        """As `admit` says; nothing is let in while the queues don't hang together."""
        one = self.of.get(job.queue)
        if one is None or not one.is_leaf:
            self.ssn.blocked[job.uid] = f"queues of queues: {self.why_not or job.queue}"
            return REJECT
        return admit(self.ssn, one, job)

    # --- reclaim ----------------------------------------------------------------------------------------------------

    def reclaimable(self, reclaimer: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
        """Tasks that share a resource with the reclaimer, and whose queue keeps its guarantee without them and has more
        than it deserves of something that they have, or deserves nothing of it at all; the first to go first. Of queues
        of queues the same has to hold for so many queues above, up to those that the reclaimer's is part of too."""
        own = self.of.get(self.ssn.jobs[reclaimer.job].queue)
        if own is None:
            return []
        left: dict[str, Vector] = {}
        victims = []
        for task in in_order(self.ssn, candidates, reclaimer):
            one = self.of[self.ssn.jobs[task.job].queue]
            held = left.get(one.queue.name, one.allocated)
            if not self._shares_any(task.request, reclaimer.request) or not fits(
                one.queue.guarantee, held - task.request
            ):
                continue
            above = self._above_to_check(own, one)
            if self._is_taken_in_vain(own, one, reclaimer, task) or not all(
                _may_give(each, left.get(each.queue.name, each.allocated), task) for each in (one, *above)
            ):
                continue
            for each in (one, *above):
                left[each.queue.name] = left.get(each.queue.name, each.allocated) - task.request
            victims.append(task)
        return victims

    def _above_to_check(self, own: Attributes, one: Attributes) -> list[Attributes]:
        found = []
        for depth in range(1, self.levels + 1):
            each, mine = above_at(one, depth), above_at(own, depth)
            if each is None or each.queue.name == ROOT or (mine is not None and mine.queue.name == each.queue.name):
                continue
            found.append(each)
        return found

    def _is_taken_in_vain(self, own: Attributes, one: Attributes, reclaimer: SessionTask, task: SessionTask) -> bool:
        """Two queues that are part of the same one, neither of which deserves any of it, don't take from each other."""
        if not self.levels or _relevant(one, task).any() or _relevant(own, reclaimer).any():
            return False
        mine = {each.queue.name for depth in range(1, self.levels + 1) if (each := above_at(own, depth)) is not None}
        theirs = (above_at(one, depth) for depth in range(1, self.levels + 1))
        return any(each is not None and each.queue.name != ROOT and each.queue.name in mine for each in theirs)

    def _shares_any(self, left: Vector, right: Vector) -> bool:
        both = (left > 0) & (right > 0)
        pods = self.ssn.resources.column.get(PODS)
        if pods is not None and pods < len(both):
            both[pods] = False
        return bool(both.any())

    def _is_best_effort(self, one: Attributes) -> bool:
        return is_empty(one.deserved, self.ssn.resources)

    def _update(self, one: Attributes) -> None:
        """A queue that deserves nothing comes after all that have not got what they deserve."""
        one.share = (
            1.0 if self._is_best_effort(one) else dominant_share(one.allocated, one.deserved, counted(one.deserved))
        )

    def _change(self, task: SessionTask, amount: Vector) -> None:
        """The shares of the queues above stay as they were when the session began, as in Volcano."""
        job = self.ssn.jobs.get(task.job)
        one = self.of.get(job.queue) if job is not None else None
        if one is None:
            return
        for each in one.chain:
            each.allocated = each.allocated + amount
        self._update(one)


def _relevant(one: Attributes, task: SessionTask) -> NDArray[np.bool_]:
    """The resources that the task asks for and the queue deserves some of."""
    found: NDArray[np.bool_] = (task.request > 0) & (one.deserved > 0)
    return found


def _has_left(one: Attributes, task: SessionTask) -> bool:
    future = one.allocated + task.request
    return bool((_relevant(one, task) & (future < one.deserved + EPSILON)).any())


def _may_give(one: Attributes, held: Vector, task: SessionTask) -> bool:
    relevant = _relevant(one, task)
    return not relevant.any() or bool((relevant & (held >= one.deserved + EPSILON)).any())


__all__ = ["Capacity"]
