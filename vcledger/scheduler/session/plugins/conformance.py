"""The conformance plugin: what the cluster itself runs on is never evicted.

Owns whom it protects. Must not know the actions. Called by the registry beside it (`plugins`), then at its extension
points.

Source: Volcano's pkg/scheduler/plugins/conformance/conformance.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionTask
from volcano.objects.core import Pod

CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")
SYSTEM_NAMESPACE = "kube-system"


class Conformance:
    """Pods of kube-system and of the two critical priority classes stay."""

    name = "conformance"
    ARGUMENTS: tuple[Argument, ...] = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """It has no arguments."""

    def on_open(self, ssn: Session) -> None:
        def evictable(preemptor: SessionTask, candidates: Sequence[SessionTask]) -> list[SessionTask]:
            return [task for task in candidates if not _is_critical(ssn, task)]

        ssn.add("preemptable", self.name, evictable)
        ssn.add("reclaimable", self.name, evictable)

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""


def _is_critical(ssn: Session, task: SessionTask) -> bool:
    if task.namespace == SYSTEM_NAMESPACE:
        return True
    pod = ssn.pod_of(task)
    return pod is not None and is_critical(pod)


def is_critical(pod: Pod) -> bool:
    """Whether the pod is of one of the two critical priority classes."""
    return pod.spec.priority_class_name in CRITICAL_CLASSES


__all__ = ["Conformance", "is_critical"]
