"""The node sync family: a node of the cluster taken into the cache, refused for now, or taken out.

Owns these events. Must not know the work queue. Called through `volcano.events.catalog`.

All stand in the node's stream. The steps are those of the seed's SyncNode and AddOrUpdateNode.
"""

from __future__ import annotations

import msgspec

from volcano.events.base import DomainEvent, TaskRef


class NodeSynced(DomainEvent, frozen=True):
    """The cache's node now is the object at `resource_version`. `added`: it had none before; `placeholder`: pods had
    already made an empty one. `csi_limits` are the attach limits taken from the CSINode, by resource name, in units;
    `images` counts image states; `numatopology`: one was found."""

    node_uid: str
    resource_version: str = ""
    added: bool = False
    placeholder: bool = False
    csi_limits: dict[str, int] = msgspec.field(default_factory=dict)
    images: int = 0
    numatopology: bool = False


class NodeSyncFailed(DomainEvent, frozen=True):
    """The sync is to be tried again after `delay_seconds`."""

    error: str
    attempt: int = 1
    delay_seconds: float = 0.0


class NodeRemoved(DomainEvent, frozen=True):
    """The node is out of the cache and of its node list; `tasks` were still on it."""

    node_uid: str
    reason: str = ""
    tasks: tuple[TaskRef, ...] = ()
