"""The resourcequota plugin: no job is let into its queue that a ResourceQuota of its namespace has no room for.

Owns what is let in. Must not know the actions. Called by the registry beside it (`plugins`), then at its extension
points.

What a PodGroup asks at least is compared, name by name, with what each quota of the namespace says that it allows and
that is used, with what the same session has let in already. As in Volcano, scopes are not looked at, and what another
plugin then keeps out counts as let in.

Source: Volcano's pkg/scheduler/plugins/resourcequota/resourcequota.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projections.diagnosis.quotas import told
from vcledger.scheduler.session.framework import PERMIT, REJECT, Session
from vcledger.scheduler.session.model import SessionJob
from volcano.objects.quotas import exceeded, thousandths


class ResourceQuotas:
    """No arguments."""

    name = "resourcequota"
    ARGUMENTS = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.admitted: dict[str, dict[str, int]] = {}

    def on_open(self, ssn: Session) -> None:
        self.ssn = ssn
        ssn.add("job_enqueueable", self.name, self.enqueueable)

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""

    def enqueueable(self, job: SessionJob) -> int:
        """PERMIT or REJECT; why not stands in the session's `blocked`."""
        stated = job.pod_group.spec.min_resources
        if stated is None:
            return PERMIT
        asked, admitted = thousandths(stated), self.admitted.setdefault(job.namespace, {})
        for key, quota in sorted(self.ssn.quotas.items()):
            if quota.metadata.namespace != job.namespace:
                continue
            over = exceeded(asked, quota, admitted)
            if over:
                self.ssn.blocked[job.uid] = told(key, over)
                return REJECT
        for name, amount in asked.items():
            admitted[name] = admitted.get(name, 0) + amount
        return PERMIT


__all__ = ["ResourceQuotas"]
