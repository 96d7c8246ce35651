"""Whole worlds: users, controllers and faults against the loop, then without faults until all is at rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventstore import open_store
from vcledger.scheduler.inputs import Effect
from vcledger.sim import plan as plans
from vcledger.sim import simulate as sim
from vcledger.sim.clock import SECOND
from vcledger.sim.faults import FAULTS, Fault, named
from vcledger.sim.memory import MemoryLog
from vcledger.sim.plan import Doing, Plan
from vcledger.sim.world import Simulation

GROUPS = ("none", "request", "watch", "controllers", "cluster", "process")


@pytest.mark.parametrize("seed", range(1, 9))
def test_all_faults_and_then_rest(seed: int) -> None:
    result = sim.simulate(seed)
    assert result.broken == ()
    assert result.events > 100 and result.pods > 0 and result.hits


@pytest.mark.parametrize("group", GROUPS)
def test_each_kind_of_faults(group: str) -> None:
    result = sim.simulate(100, 30, named(group))
    assert result.broken == ()
    assert all(fault in named(group) for fault in result.hits)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_many_worlds(seed: int) -> None:
    assert sim.simulate(seed, 20 + seed % 5 * 20).broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lot_of_each_fault(fault: str) -> None:
    assert sim.simulate(1, 40, (fault,), twice=False).broken == ()


@pytest.mark.slow
def test_the_log_on_a_disk_is_the_one_in_memory(tmp_path: Path) -> None:
    plan = plans.draw(5, 20)
    on_disk, in_memory = sim.once(plan, tmp_path / "ledger.db"), sim.once(plan, None)
    assert on_disk == in_memory and on_disk.ok


@pytest.mark.slow
@pytest.mark.postgres
def test_the_log_on_postgresql_is_the_same(postgres_url: str) -> None:
    plan = plans.draw(5, 20)
    assert sim.once(plan, postgres_url) == sim.once(plan, None)


@pytest.mark.slow
def test_a_few_worlds_meet_every_fault() -> None:
    """Each kind is drawn, and meets a request, a watch, a controller, an object or a process."""
    missing = dict.fromkeys(FAULTS)
    for seed in range(1, 21):
        result = sim.simulate(seed, twice=False)
        assert result.broken == ()
        for fault in result.hits:
            missing.pop(fault, None)
        if not missing:
            return
    assert list(missing) == []


def test_other_seeds_other_logs() -> None:
    assert sim.simulate(1, 10, twice=False).digest != sim.simulate(2, 10, twice=False).digest


class TestFailures:
    """That a world can fail: what is broken is found, kept, and made small."""

    def broken(self, world: Simulation) -> list[str]:
        return ["a pod was bound"] if any(p["spec"].get("nodeName") for p in world.api.objects("Pod")) else []

    def test_a_failure_leaves_its_plan_a_smaller_one_and_its_ledger(self, tmp_path: Path) -> None:
        result = sim.simulate(3, 8, watch=self.broken, twice=False, keep=tmp_path)
        assert result.broken == ("a pod was bound",)
        folder = tmp_path / "seed-3"
        assert sorted(path.name for path in folder.iterdir()) == [
            "ledger.db",
            "plan-small.json",
            "plan.json",
            "result.json",
            "seed-3.expect.json",
            "seed-3.jsonl",
        ]
        whole, small = (plans.decode((folder / name).read_bytes()) for name in ("plan.json", "plan-small.json"))
        assert whole == plans.draw(3, 8)
        assert not small.faults and len(small.doings) < len(whole.doings) // 2
        assert sim.run_plan(small, watch=self.broken, twice=False).broken == ("a pod was bound",)
        with open_store(str(folder / "ledger.db"), read_only=True) as store:
            assert sim.digest_of(store) == (result.digest, result.events)

    @pytest.mark.slow
    def test_what_never_rests_is_told(self) -> None:
        """A pod that fits nowhere waits for ever, which no plan draws."""
        plan = plans.draw(1, 10, ())
        pod = next(doing for doing in plan.doings if doing.do == "run")
        assert pod.object is not None
        spec = {**pod.object["spec"], "nodeSelector": {"disk": "none"}}
        never = Doing(pod.at, "run", "Pod", "default", pod.name, {**pod.object, "spec": spec})
        doings = tuple(never if doing is pod else doing for doing in plan.doings)
        result = sim.run_plan(Plan(plan.seed, plan.steps, plan.tight, plan.safety, doings, ()), twice=False)
        assert any(f"pod default/{pod.name} is not bound" in line for line in result.broken)

    def test_an_exception_in_the_loop_ends_the_world(self) -> None:
        def bad(world: Simulation) -> list[str]:
            raise ValueError("no good")

        result = sim.simulate(1, 10, watch=bad, twice=False)
        (said,) = result.broken
        assert said.startswith("ValueError: no good (test_world.py:")


class TestCrashes:
    """A crash at each single step of a small world: recovery brings everything to rest, and nothing is done twice."""

    def plan(self, seed: int, faults: tuple[Fault, ...] = ()) -> Plan:
        drawn = plans.draw(seed, 8, ())
        return Plan(seed, 8, drawn.tight, 70 * SECOND, drawn.doings, faults)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [1, 2])
    @pytest.mark.parametrize("before_effects", [False, True])
    def test_at_every_step(self, seed: int, before_effects: bool) -> None:
        plan = self.plan(seed)
        whole = Simulation(plan, MemoryLog())  # type: ignore[arg-type]
        whole.run()
        assert whole.steps > 20
        for step in range(1, whole.steps, 9):
            world = Simulation(plan, MemoryLog(), watch=self.killer(step, before_effects))  # type: ignore[arg-type]
            world.run()
            sim.come_to_rest(world)
            assert (step, world.broken) == (step, [])
            assert world.crashes == 1

    def killer(self, step: int, before_effects: bool):  # type: ignore[no-untyped-def]
        """Kills the process at a step: before the effects of its group have left, or after."""

        def watch(world: Simulation) -> list[str]:
            if world.steps == step and not world.crashes:
                if before_effects:
                    world.crash()
                else:
                    world.timeline.after(1, world.crash)
            return []

        return watch


def test_while_the_log_refuses_no_effect_leaves() -> None:
    sent: list[Effect] = []

    def watch(world: Simulation) -> list[str]:
        sent.extend(world.loop.outstanding.values() if world.loop and world.store.refusing else ())
        return []

    faults = tuple(Fault(at * SECOND, "log-refuses", seconds=4) for at in range(2, 60, 9))
    drawn = plans.draw(2, 20, ())
    plan = Plan(2, 20, drawn.tight, drawn.safety, drawn.doings, faults)
    result = sim.run_plan(plan, watch=watch)
    assert result.broken == () and result.hits == {"log-refuses": 7}
    assert sent == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6])
def test_no_hash_order_gets_into_the_log(seed: int) -> None:
    """Other processes, whose strings hash differently, write the same log."""
    script = f"from vcledger.sim import simulate as s; print(s.simulate({seed}, 20, twice=False).digest)"
    digests = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert digests[0] == digests[1] == sim.simulate(seed, 20, twice=False).digest
