"""The test kit that ships with vcledger: for whoever tests a scheduler, a cache or an event store with it.

Owns the names that other projects import; must not know them. Called by users' tests; docs/testing.md shows them at
work. Nothing is loaded before it is asked for: the strategies, the state machines and the profiles need hypothesis, the
contract suites pytest, neither of which vcledger itself needs (`pip install vcledger[test]` brings both).

    from vcledger.testing import FlowMachine, SimCluster, check_ledger
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventstore.testing.machine import LogMachine
    from vcledger.conformance_files import check as check_file
    from vcledger.sim.simulate import SimResult, run_plan, simulate
    from vcledger.testing import profiles, strategies
    from vcledger.testing.cluster import SchedulerDown, SimCluster
    from vcledger.testing.invariants import INVARIANTS, Verdict, Watcher, check_events, check_ledger
    from vcledger.testing.machines import CacheMachine, ClusterModel, System
    from vcledger.testing.machines_flow import FlowMachine, VolumeBinderMachine
    from vcledger.testing.port_contract import ApiPortContract
    from vcledger.testing.scenario import run_scenario
    from vcledger.testing.scenario_format import read_script

_WHERE: dict[str, str] = {
    "ApiPortContract": "vcledger.testing.port_contract",
    "CacheMachine": "vcledger.testing.machines",
    "ClusterModel": "vcledger.testing.machines",
    "FlowMachine": "vcledger.testing.machines_flow",
    "INVARIANTS": "vcledger.testing.invariants",
    "LogMachine": "eventstore.testing.machine",
    "SchedulerDown": "vcledger.testing.cluster",
    "SimCluster": "vcledger.testing.cluster",
    "SimResult": "vcledger.sim.simulate",
    "System": "vcledger.testing.machines",
    "Verdict": "vcledger.testing.invariants",
    "VolumeBinderMachine": "vcledger.testing.machines_flow",
    "Watcher": "vcledger.testing.invariants",
    "check_events": "vcledger.testing.invariants",
    "check_file": "vcledger.conformance_files",
    "check_ledger": "vcledger.testing.invariants",
    "profiles": "vcledger.testing",
    "read_script": "vcledger.testing.scenario_format",
    "run_plan": "vcledger.sim.simulate",
    "run_scenario": "vcledger.testing.scenario",
    "simulate": "vcledger.sim.simulate",
    "strategies": "vcledger.testing",
}
"""Each name to the module that has it."""

_OTHERWISE = {"check_file": "check"}


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if where == __name__:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(where), _OTHERWISE.get(name, name))


def __dir__() -> list[str]:
    """The names, though none of them is loaded: a shell or an editor that completes asks for them."""
    return sorted({*globals(), *_WHERE})


__all__ = [
    "INVARIANTS",
    "ApiPortContract",
    "CacheMachine",
    "ClusterModel",
    "FlowMachine",
    "LogMachine",
    "SchedulerDown",
    "SimCluster",
    "SimResult",
    "System",
    "Verdict",
    "VolumeBinderMachine",
    "Watcher",
    "check_events",
    "check_file",
    "check_ledger",
    "profiles",
    "read_script",
    "run_plan",
    "run_scenario",
    "simulate",
    "strategies",
]
