"""The predicates plugin: which families of checks a node has to pass.

Owns that choice. Must not know the actions. Called by the registry beside it (`plugins`), then at its extension points.

The checks themselves are `vcledger.scheduler.session.feasible`'s; this says which of them are on. Without the plugin
only room counts, as in Volcano, whose actions look at resources themselves.

Source: Volcano's pkg/scheduler/plugins/predicates/predicates.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session

ALWAYS_ON = ("unschedulable", "pod-count")
"""Families (of `projections.diagnosis` Reason.family) that no argument turns off."""

BY_ARGUMENT = {
    "predicate.NodeAffinityEnable": "node-affinity",
    "predicate.NodePortsEnable": "ports",
    "predicate.TaintTolerationEnable": "taints",
    "predicate.PodAffinityEnable": "pod-affinity",
    "predicate.NodeVolumeLimitsEnable": "volume-limits",
    "predicate.VolumeZoneEnable": "volume-zone",
    "predicate.PodTopologySpreadEnable": "spread",
    "predicate.VolumeBindingEnable": "volumes",
}
"""Families that an argument turns off; all are on unless it says false."""

FAMILIES = (*ALWAYS_ON, *BY_ARGUMENT.values())

_DEVICES = "GPUs are counted as any other resource"
_CLAIMS = "resource claims are not recorded"
_RESERVED = "no cpu or memory is kept beside devices"


class Predicates:
    """Arguments: the switches of BY_ARGUMENT; predicate.CacheEnable (either value: it only saves Volcano work);
    volumebinding.bindTimeoutSeconds (for whoever binds the volumes; no decision rests on it)."""

    name = "predicates"
    ARGUMENTS = (
        *(Argument(name, bool) for name in BY_ARGUMENT),
        Argument("predicate.CacheEnable", bool),
        Argument("volumebinding.bindTimeoutSeconds", int, least=0),
        Argument("predicate.GPUSharingEnable", bool, only=(False,), why=_DEVICES),
        Argument("predicate.GPUNumberEnable", bool, only=(False,), why=_DEVICES),
        Argument("predicate.DynamicResourceAllocationEnable", bool, only=(False,), why=_CLAIMS),
        Argument("predicate.ProportionalEnable", bool, only=(False,), why=_RESERVED),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        off = {family for name, family in BY_ARGUMENT.items() if not arguments.get(name, True)}
        self.families = frozenset(family for family in FAMILIES if family not in off)

    def on_open(self, ssn: Session) -> None:
        conf = next((one for one in ssn.conf.plugins() if one.name == self.name), None)
        if conf is None or conf.is_on("enablePredicate"):
            ssn.checks = self.families

    def on_close(self, ssn: Session) -> None:
        """Nothing is kept."""


__all__ = ["ALWAYS_ON", "BY_ARGUMENT", "FAMILIES", "Predicates"]
