"""Volcano's configuration file: actions, tiers of plugins, their switches and arguments.

Owns its shape. Must not know what a plugin does. Called by `vcledger.scheduler.session.run`, `vcledger.replay`.
Source: Volcano's pkg/scheduler/conf (SchedulerConfiguration, Tier, PluginOption, Configuration).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENABLE_SWITCHES = (
    "enableJobOrder", "enableSubJobOrder", "enableJobReady", "enableJobPipelined", "enableTaskOrder",
    "enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder", "enablePredicate",
    "enableBestNode", "enableNodeOrder", "enableTargetJob", "enableReservedNodes", "enableJobEnqueued",
    "enableVictim", "enableJobStarving", "enableOverused", "enableAllocatable", "enableHierarchy",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PluginConf:
    """One plugin of a tier. `enabled` has only the switches that the file states; one that it does not state is on."""

    name: str
    enabled: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def is_on(self, switch: str) -> bool:
        """Whether the plugin takes part where `switch` (such as enableJobOrder) says."""
        return self.enabled.get(switch, switch != "enableHierarchy")


@dataclass(frozen=True, slots=True)
class SessionConf:
    """The file. `configurations` are the arguments of actions, by their name. `text` is the file as it was read."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConf, ...], ...]
    configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    text: str = ""

    def plugins(self) -> list[PluginConf]:
        """All plugins in the order of their tiers."""
        return [plugin for tier in self.tiers for plugin in tier]
