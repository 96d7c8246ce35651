"""The table of what each event of the flow's own families does to the state.

Owns the table. Must not know observations nor decisions. Called by `vcledger.scheduler.fold`.

A function takes the state, the event with its envelope, and the event; each family's are in a module of their own. A
task moves only by the table of `vcledger.scheduler.transitions`; where a task has left the flow already, its last
answers only close their intents.
"""

from __future__ import annotations

from vcledger.scheduler import (
    fold_binding,
    fold_cycle,
    fold_evictions,
    fold_recovery,
    fold_resync,
    fold_status,
    fold_upkeep,
    fold_volumes,
)
from vcledger.scheduler.fold_tasks import Apply
from volcano.events.base import DomainEvent

APPLY: dict[type[DomainEvent], Apply] = {
    **fold_cycle.APPLY,
    **fold_volumes.APPLY,
    **fold_binding.APPLY,
    **fold_evictions.APPLY,
    **fold_resync.APPLY,
    **fold_upkeep.APPLY,
    **fold_recovery.APPLY,
    **fold_status.APPLY,
}
"""Event to what it does. An event that is not here changes nothing of the flow."""


__all__ = ["APPLY"]
