"""The cache of the scheduler as a fold over observations: nodes, jobs, tasks, queues, volumes.

Owns the state, its three models, and its way to JSON and to snapshots. Must not know the log. Called by `vcledger`.
"""

from projections.cache.fold import CACHE_KINDS, Delivery, evolve, observe
from projections.cache.json import state_json
from projections.cache.models import DEFAULT_MODEL, MODELS, Model, UnknownModel, model_named
from projections.cache.projection import CacheProjection, digest
from projections.cache.snapshot import SnapshotInvalid
from projections.cache.state import Cache, CacheConfig, JobInfo, NodeInfo, PodRef, TaskInfo

__all__ = [
    "CACHE_KINDS",
    "DEFAULT_MODEL",
    "MODELS",
    "Cache",
    "CacheConfig",
    "CacheProjection",
    "Delivery",
    "JobInfo",
    "Model",
    "NodeInfo",
    "PodRef",
    "SnapshotInvalid",
    "TaskInfo",
    "UnknownModel",
    "digest",
    "evolve",
    "model_named",
    "observe",
    "state_json",
]
