"""ResourceQuotas in the way of a group: the scheduler's gate, and pods that may not be made.

Owns finding and telling them. Must not know verdicts. Called by `projections.diagnosis.queues`, `membership` and
`openings`, and by the session's resourcequota plugin for its words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from projections.diagnosis.amounts import show
from projections.diagnosis.views import ClusterView, GroupView, TaskView
from volcano.objects.core import ResourceQuota
from volcano.objects.quotas import Exceeded, exceeded, scoped, thousandths, usage_of

SAID = "resource quota insufficient"
"""How what Volcano's plugin writes on a PodGroup begins; only a scheduler that has it does."""


def amount_text(name: str, thousandth: int) -> str:
    """An amount as people write it."""
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if plain == "cpu":
        return show("cpu", float(thousandth))
    if plain in {"memory", "ephemeral-storage", "storage"} or plain.startswith("hugepages-"):
        return show("memory", thousandth / 1000)
    return show("pods", thousandth / 1000)


def told(key: str, over: Sequence[Exceeded]) -> str:
    """That a quota has not what is asked, with the numbers."""
    lines = [
        f"{one.name}: asks {amount_text(one.name, one.asked)} on top of {amount_text(one.name, one.used)} used, "
        f"the quota allows {amount_text(one.name, one.hard)}"
        for one in over
    ]
    return f"ResourceQuota {key} has no room for it: {'; '.join(lines)}"


def of_namespace(namespace: str, cluster: ClusterView) -> Iterator[tuple[str, ResourceQuota]]:
    """The namespace's quotas with their keys, by name."""
    for key, quota in sorted(cluster.quotas.items()):
        if quota.metadata.namespace == namespace:
            yield key, quota


def gate(group: GroupView, cluster: ClusterView) -> tuple[str, list[Exceeded]] | None:
    """The first quota that keeps the group out of its queue; None where there is none, or the scheduler does not ask.
    What else it lets in within the same cycle is not known, and does not count."""
    stated = group.pod_group.spec.min_resources if group.pod_group is not None else None
    if not cluster.rules.quota or stated is None:
        return None
    asked = thousandths(stated)
    for key, quota in of_namespace(group.namespace, cluster):
        over = exceeded(asked, quota)
        if over:
            return key, over
    return None


def refusing(
    group: GroupView, planned: Sequence[TaskView], count: int, cluster: ClusterView
) -> dict[str, list[Exceeded]]:
    """The quotas that the API server would refuse so many more pods of the group by: pods like one that it has, or
    would have. Quotas for some pods only are left out: which they are for is not judged."""
    like = next((task.pod for task in (*group.tasks, *planned) if task.pod is not None), None)
    if like is None or count <= 0:
        return {}
    asked = usage_of(like, count)
    found = {key: exceeded(asked, quota) for key, quota in of_namespace(group.namespace, cluster) if not scoped(quota)}
    return {key: over for key, over in found.items() if over}


def raised(over: Sequence[Exceeded]) -> Mapping[str, int]:
    """What the quota would have to allow."""
    return {one.name: one.used + one.asked for one in over}


__all__ = ["SAID", "amount_text", "gate", "raised", "refusing", "told"]
