"""The three models of the cache: a small set of named policies on one fold.

Owns the table of what each model does. Must not know how the fold does it. Called by `projections.cache.state`.

volcano-1.10 and volcano-1.11 mirror the real SchedulerCache, its bugs included; `exact` is the same cache without
them: what the API server holds, plus what is assumed and in flight. For each policy: the vector that pins Volcano's
side, what Volcano does, and what `exact` does instead.

freezes_not_ready (035-038)
    1.10 ignores updates of a node while its Ready condition isn't True; 1.11 and exact ignore the condition.
float64 (015)
    Sums are float64: they round past 2^53, and a subtraction that then falls short panics. Exact: ints, no overflow.
nil_scalars (013)
    Subtracting from a node without scalars is lost, giving back isn't: idle pods 1. Exact: what is missing is zero.
forgets_tasks (043)
    A node that is removed and added again starts empty. Exact: its pods stay with it and count at once.
keeps_placeholders (034)
    A node made by a pod stays for ever. Exact: it goes with its last pod, and a finished pod makes none.
blanks_node_name (033)
    Tasks of a placeholder have node_name '' once the node comes, until a snapshot. Exact: they keep it.
keeps_roles (060)
    task_min_available keeps roles that the PodGroup has dropped. Exact: the PodGroup's roles only.
keeps_group_fields (055)
    A job whose PodGroup is gone keeps its name, queue, minimum and roles. Exact: it is a job of pods alone.
keeps_oversubscription (047)
    Values stick when the annotation goes. Exact: they follow the node.
resets_default_priority (067)
    Deleting or changing any globalDefault class resets the default to 0. Exact: the lowest that is left, as
    Kubernetes' own admission picks it.
leaks_duplicate_adds (070-072)
    The second AddPod of a pod adds its request again. Exact: it replaces the first.
defers_claims (052, 115)
    A claim that is missing at AddPod drops all of the pod's volumes until a resync, and for ever if the pod has no
    group. Exact: the known ones count, the others when they come.
counts_unprovisioned (recordings 03 and 05, where an option turns it off)
    A claim whose class has the provisioner kubernetes.io/no-provisioner counts as an attachable volume, which no node
    offers. Exact: such a volume is not attached by a driver.
retries_unknown_node (046)
    Deleting a node that was never cached is tried again on each sync. Exact: there is nothing to do.
priority_by_snapshot (066)
    A job's priority is written by a snapshot only. Exact: always up to date.
defers_cleanup (055-063)
    A job without PodGroup and tasks goes later, with retries. Exact: at once.
applies_stale (074)
    An older resourceVersion of the same object is applied. Exact: a watch's MODIFIED below the held one is ignored.
ignores_unbound (030, 117)
    An update without nodeName is ignored while the task is allocated, even one that ends or deletes the pod. Exact:
    that one is applied, and so is any while the task has no node to lose.

Bugs of the bind flow (a bind error handler that is never called, Binding tasks dropped by a snapshot in map order,
messages read as formats, an eviction that reports an error) are no state of this fold.
"""

from __future__ import annotations

from typing import NamedTuple


class Model(NamedTuple):
    """The policies of one model; each is explained in the module's table."""

    name: str
    freezes_not_ready: bool
    float64: bool
    nil_scalars: bool
    forgets_tasks: bool
    keeps_placeholders: bool
    blanks_node_name: bool
    keeps_roles: bool
    keeps_group_fields: bool
    keeps_oversubscription: bool
    resets_default_priority: bool
    leaks_duplicate_adds: bool
    defers_claims: bool
    counts_unprovisioned: bool
    retries_unknown_node: bool
    priority_by_snapshot: bool
    defers_cleanup: bool
    applies_stale: bool
    ignores_unbound: bool


VOLCANO_1_10 = Model("volcano-1.10", *([True] * 18))
VOLCANO_1_11 = VOLCANO_1_10._replace(name="volcano-1.11", freezes_not_ready=False)
EXACT = Model("exact", *([False] * 18))

MODELS: dict[str, Model] = {model.name: model for model in (VOLCANO_1_10, VOLCANO_1_11, EXACT)}

DEFAULT_MODEL = VOLCANO_1_11.name


class UnknownModel(ValueError):
    """A model's name that isn't one of MODELS."""


def model_named(name: str) -> Model:
    """The model; raises UnknownModel.

    Vectors say their Volcano version, such as v1.10.2: that is no model's name, see `vcledger.conformance`.
    """
    try:
        return MODELS[name]
    except KeyError:
        raise UnknownModel(f"no model {name!r}; there are {', '.join(MODELS)}") from None


__all__ = ["DEFAULT_MODEL", "EXACT", "MODELS", "VOLCANO_1_10", "VOLCANO_1_11", "Model", "UnknownModel", "model_named"]
