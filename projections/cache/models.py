"""The three models of the cache: a small set of named policies on one fold.

Owns the table of what each model does. Must not know how the fold does it. Called by `projections.cache.state`.

volcano-1.10 and volcano-1.11 mirror the real SchedulerCache, its bugs included; `exact` is the same cache without
them: what the API server holds, plus what is assumed and in flight. Each row names the policy, the vector that pins
Volcano's side, and what `exact` does instead.

| policy | vector | Volcano | exact |
|---|---|---|---|
| freezes_not_ready | 035-038 | 1.10 ignores updates of a node while Ready isn't True; 1.11 ignores the condition | as 1.11 |
| float64 | 015 | rounds past 2^53, and panics when a subtraction then falls short | ints, no assertion, no int64 overflow |
| nil_scalars | 013 | subtracting from a node without scalars is lost, giving back is not | missing is zero |
| forgets_tasks | 043 | a node removed and added again starts empty | its pods stay with it and count at once |
| keeps_placeholders | 034 | a node made by a pod stays for ever | goes with its last pod |
| blanks_node_name | 033 | tasks of a placeholder lose node_name when the node comes, until a snapshot | keep it |
| keeps_roles | 060 | task_min_available keeps roles that the PodGroup dropped | holds the PodGroup's roles only |
| keeps_oversubscription | 047 | values stick when the annotation goes | follow the node |
| resets_default_priority | 067 | deleting or changing any globalDefault class resets to 0 | the lowest default that is left, as Kubernetes' admission picks it |
| leaks_duplicate_adds | 070-072 | the second AddPod of a pod adds its request again | replaces the first |
| defers_claims | 052, 115 | a claim missing at AddPod drops all the pod's volumes until a resync, and for ever without a group | counts known ones, the others when they come |
| retries_unknown_node | 046 | deleting a node that was never cached is retried on each sync | nothing to do |
| priority_by_snapshot | 066 | a job's priority is written by a snapshot | always up to date |
| defers_cleanup | 055-063 | an empty job goes later, with retries | goes at once |
| applies_stale | 074 | an older resourceVersion of the same object is applied | a watch's MODIFIED below the held version is ignored |
| ignores_unbound | 030, 117 | an update without nodeName is ignored while the task is allocated, even when it ends or deletes the pod | applied when it ends or deletes the pod |

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
    keeps_oversubscription: bool
    resets_default_priority: bool
    leaks_duplicate_adds: bool
    defers_claims: bool
    retries_unknown_node: bool
    priority_by_snapshot: bool
    defers_cleanup: bool
    applies_stale: bool
    ignores_unbound: bool


VOLCANO_1_10 = Model("volcano-1.10", *([True] * 16))
VOLCANO_1_11 = VOLCANO_1_10._replace(name="volcano-1.11", freezes_not_ready=False)
EXACT = Model("exact", *([False] * 16))

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
