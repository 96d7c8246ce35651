"""The plugins that a configuration may name, each with its documented semantics.

Owns the list. Must not know the session's parts. Called by `conf` (which arguments each has) and `run`.
"""

from __future__ import annotations

from vcledger.scheduler.session.framework import PluginFactory
from vcledger.scheduler.session.plugins.binpack import Binpack
from vcledger.scheduler.session.plugins.capacity import Capacity
from vcledger.scheduler.session.plugins.conformance import Conformance
from vcledger.scheduler.session.plugins.drf import Drf
from vcledger.scheduler.session.plugins.gang import Gang
from vcledger.scheduler.session.plugins.nodeorder import NodeOrder
from vcledger.scheduler.session.plugins.overcommit import Overcommit
from vcledger.scheduler.session.plugins.predicates import Predicates
from vcledger.scheduler.session.plugins.priority import Priority
from vcledger.scheduler.session.plugins.proportion import Proportion
from vcledger.scheduler.session.plugins.resourcequota import ResourceQuotas

BUILTIN: dict[str, PluginFactory] = {
    Priority.name: Priority,
    Gang.name: Gang,
    Conformance.name: Conformance,
    Overcommit.name: Overcommit,
    Drf.name: Drf,
    Predicates.name: Predicates,
    Proportion.name: Proportion,
    Capacity.name: Capacity,
    NodeOrder.name: NodeOrder,
    Binpack.name: Binpack,
    ResourceQuotas.name: ResourceQuotas,
}

__all__ = ["BUILTIN"]
