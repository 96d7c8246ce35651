"""State machines of the bind flow, with crashes, and of the volume binder, against the simulated API server.

Owns what a run may do at any moment: make and delete objects, answer a request in every way there is, let time pass,
drop watches, kill the process, refuse appends. Needs hypothesis. Called by our tests; hypothesis shrinks what fails to
the fewest steps.

The model is the API server: it decides by its own rules and never reads the scheduler. Requests go nowhere by
themselves: each waits until a step answers it, so every order of answers comes up. At the end of a run the faults stop,
all must come to rest (`vcledger.sim.simulate.come_to_rest`), and the invariants must hold over the whole log.

A run that fails leaves its steps as a scenario in the folder `simulated` (or VCLEDGER_SIMULATED), which
`vcledger conformance` runs. Hypothesis ends with the fewest steps that it found, so those are what is left there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vcledger.scheduler.requests import Delete, Patch
from vcledger.scheduler.state import FlowConfig
from vcledger.sim import script
from vcledger.sim.crowded import CONFIGURATIONS
from vcledger.sim.held import ANSWERS, EDITED, Driven, HeldSimulation
from vcledger.sim.world import CLUSTER, DEFAULT_CONFIG, KINDS, Session, config_of
from vcledger.testing.invariants import broken_rules

FOLDER_VARIABLE = "VCLEDGER_SIMULATED"
OFTEN = ("done", "done", *ANSWERS)
"""What becomes of a request, what is usual more often than the rest."""

SILENCE = 15_000
"""So many milliseconds no request whose answer was lost is still on its way."""

CYCLES = 2_500
"""So many milliseconds take the two cycles in which a gang is admitted and then preempts."""


class FlowMachine(RuleBasedStateMachine):
    """The bind flow: pods alone and in gangs, every answer in every order, nodes that go, processes that die."""

    claims = False
    """Whether pods use volumes."""

    def session(self) -> Session | None:
        """What decides, instead of our allocate pass; to be overridden by whoever tests a session of their own. At the
        end every pod must have got a node by it."""
        return None

    pods_max = 8

    def config(self) -> FlowConfig:
        """The scheduler's options; to be overridden by whoever tests others."""
        return DEFAULT_CONFIG

    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed: int) -> None:
        self.driven = Driven(seed, self.session(), config=self.config())
        self.failed = False
        self._guarded(self.driven.begin)
        self.prepare(seed)

    def prepare(self, seed: int) -> None:
        """Steps before the first that is drawn; to be overridden."""

    @property
    def world(self) -> HeldSimulation:
        """The world that the steps drive."""
        return self.driven.world

    def teardown(self) -> None:
        if not hasattr(self, "driven") or self.failed:
            return
        self._guarded(self.driven.finish)
        broken = self.world.broken or broken_rules(self.world.log, CLUSTER)
        if broken:
            self.leave(broken)
        assert not broken, broken

    def do(self, step: str, **said: Any) -> None:
        """A step of `vcledger.sim.held.STEPS`."""
        self._guarded(lambda: self.driven.do(step, **said))

    def _guarded(self, act: Callable[[], object]) -> None:
        """A run that ends in an exception leaves its scenario too."""
        try:
            act()
        except Exception as error:
            self.failed = True
            self.leave([f"{type(error).__name__}: {error}"])
            raise

    def leave(self, broken: list[str]) -> Path:
        """Writes what was done so far as a scenario; its path."""
        folder = Path(os.environ.get(FOLDER_VARIABLE) or "simulated")
        folder.mkdir(parents=True, exist_ok=True)
        name = type(self).__name__
        session = self.driven.world.config.session
        lines = script.driven_lines(self.driven.seed, self.driven.steps, session.text)
        return script.write_lines(folder, name, lines, broken, f"the state machine {name}")

    # --- users ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.owner.wanted) < self.pods_max)
    @rule(
        size=st.integers(1, 3),
        milli=st.sampled_from((100, 500, 1000)),
        classes=st.lists(st.sampled_from(("local", "wait")), max_size=2),
        shared=st.booleans(),
    )
    def a_gang_is_made(self, size: int, milli: int, classes: list[str], shared: bool) -> None:
        """Its pods have claims of their own, or share them."""
        self.do("gang", size=size, milli=milli, classes=classes if self.claims else [], shared=shared)

    @rule(index=st.integers(0, 20))
    def a_pod_is_deleted(self, index: int) -> None:
        """Its owner makes it again."""
        self.do("delete-pod", index=index)

    @rule(index=st.integers(0, 20), kind=st.sampled_from(EDITED))
    def somebody_edits(self, index: int, kind: str) -> None:
        """A label, which changes the version only."""
        self.do("edit", index=index, kind=kind)

    @precondition(lambda self: len(self.world.api.objects("Node")) > 1)
    @rule(pick=st.integers(0, 3))
    def a_node_goes_and_comes_back(self, pick: int) -> None:
        self._strike("node-deleted", seconds=5, pick=pick)

    # --- requests, time, faults -----------------------------------------------------------------------------------

    @precondition(lambda self: self.world.held)
    @rule(index=st.integers(0, 20), how=st.sampled_from(OFTEN))
    def a_request_is_answered(self, index: int, how: str) -> None:
        self.do("answer", index=index, how=how)

    @precondition(lambda self: self.world.late)
    @rule(index=st.integers(0, 20))
    def a_request_arrives_late(self, index: int) -> None:
        self.do("arrive", index=index)

    @rule(milliseconds=st.sampled_from((1, 50, 1_000, 5_000, 20_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.do("wait", milliseconds=milliseconds)

    @rule()
    def everything_is_answered(self) -> None:
        """The world as it should be, for a while."""
        self.do("answer-all")

    @rule()
    def the_process_dies(self) -> None:
        self.do("die")

    @rule(
        fault=st.sampled_from(("watch-dropped", "watch-expired", "watch-delayed", "watch-duplicated", "list-fails")),
        kind=st.sampled_from(KINDS),
    )
    def a_watch_fails(self, fault: str, kind: str) -> None:
        self._strike(fault, kind=kind, seconds=2)

    @rule(seconds=st.integers(1, 5))
    def the_log_refuses(self, seconds: int) -> None:
        self._strike("log-refuses", seconds=seconds)

    def _strike(self, fault: str, *, kind: str = "", seconds: int = 0, pick: int = 0) -> None:
        self.do("fault", fault=fault, kind=kind, seconds=seconds, pick=pick)

    # --- what holds at any moment ---------------------------------------------------------------------------------

    @invariant()
    def nothing_is_broken(self) -> None:
        if hasattr(self, "driven"):
            broken = self.world.broken
            if broken:
                self.leave(broken)
            assert not broken, broken


class VolumeBinderMachine(FlowMachine):
    """The same with volumes: claims on local disks and from a provisioner, alone and shared, controllers that are slow,
    fail or undo."""

    claims = True
    pods_max = 5

    @rule(
        fault=st.sampled_from(("volumes-slow", "volumes-undone", "provisioner-fails", "provisioner-stuck")),
        seconds=st.integers(1, 20),
        pick=st.integers(0, 1),
    )
    def a_controller_fails(self, fault: str, seconds: int, pick: int) -> None:
        self._strike(fault, seconds=seconds, pick=pick)

    @rule(index=st.integers(0, 20))
    def a_free_volume_is_deleted_and_made_again(self, index: int) -> None:
        self.do("volume-again", index=index)


class EvictionMachine(FlowMachine):
    """The same with preempt: pods of low priority fill the nodes, a gang of high priority has chosen whom to evict when
    the first step is drawn, and more gangs of both come; with every answer to the conditions and the deletions of those
    that have to go. All are in one queue, so nothing is reclaimed here; that is for crowded worlds.

    `evicted`: so many pods were told to go in the run, once it is over; hypothesis' statistics say in how many runs
    there were any."""

    pods_max = 12
    evicted = 0

    def config(self) -> FlowConfig:
        return config_of(CONFIGURATIONS[0])

    def prepare(self, seed: int) -> None:
        """Two pods fill each node, and all but one may be evicted. Who comes then is admitted in one cycle, and tells
        others to go in the next. What becomes of the conditions and the deletion of the first is the seed's: steps that
        are drawn hardly ever pick them out, and a lost answer at once followed by a long silence is rarer still."""
        nodes = len(self.world.api.objects("Node"))
        self.do("worthy-gang", size=2 * nodes, milli=16_000, least=1, worth="low")
        self.do("answer-all")
        self.do("worthy-gang", size=1 + seed % 3, milli=16_000, least=1, worth="high")
        self.do("wait", milliseconds=CYCLES)
        for fate in (seed // 3, seed // 3 // len(OFTEN)):
            if found := self.of_evictions():
                self.do("answer", index=found[0], how=OFTEN[fate % len(OFTEN)])
                self.do("wait", milliseconds=SILENCE if fate % 2 else 50)

    @precondition(lambda self: len(self.world.owner.wanted) < self.pods_max)
    @rule(
        size=st.integers(1, 3),
        milli=st.sampled_from((11_000, 16_000)),
        least=st.integers(1, 2),
        worth=st.sampled_from(("high", "high", "low")),
        waits=st.booleans(),
    )
    def a_gang_of_some_priority_is_made(self, size: int, milli: int, least: int, worth: str, waits: bool) -> None:
        """Its pods end after a while; those that it needs fit beside pods that run for ever. With `waits` it has chosen
        whom to evict before any other step."""
        self.do("worthy-gang", size=size, milli=milli, least=least, worth=worth)
        if waits:
            self.do("wait", milliseconds=CYCLES)

    @precondition(lambda self: self.of_evictions())
    @rule(index=st.integers(0, 3), how=st.sampled_from(OFTEN))
    def a_request_of_an_eviction_is_answered(self, index: int, how: str) -> None:
        """There are many requests, and few of these."""
        found = self.of_evictions()
        self.do("answer", index=found[index % len(found)], how=how)

    def of_evictions(self) -> list[int]:
        """Which of the requests that wait mark a pod that is to go, or delete one."""
        loop = self.world.loop
        going = loop.flow.evictions if loop is not None else {}
        keys = [("Pod", one.namespace, one.name) for one in going.values()]
        asked = [effect.request for effect in self.world.held]
        return [
            at
            for at, one in enumerate(asked)
            if isinstance(one, Patch | Delete) and (one.kind, one.namespace, one.name) in keys
        ]

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "driven"):
            self.evicted = sum(one.type == "TaskEvicted" for one in self.world.log.read(cluster=CLUSTER))
            event("evictions" if self.evicted else "no eviction")


__all__ = ["EvictionMachine", "FlowMachine", "HeldSimulation", "VolumeBinderMachine"]
