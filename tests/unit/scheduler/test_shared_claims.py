"""A claim that two pods use, both in flight: one has it bound, the other waits for that, and takes nothing of it."""

from __future__ import annotations

import pytest

from tests.unit.scheduler.build import (
    Bind,
    Update,
    World,
    claim,
    group,
    node,
    pod,
    said,
    status,
    storage_class,
    volume,
)
from vcledger.scheduler.inputs import Allocate, AssumeTask, BindTask
from vcledger.scheduler.transitions import Phase
from volcano.events.binding import BindRequested
from volcano.events.scheduling import TaskUnschedulable
from volcano.events.volume import (
    PVCUpdateRequested,
    PVUpdateRequested,
    VolumeBindingFailed,
    VolumesAssumed,
    VolumesBound,
    VolumesReverted,
)

BOUND = claim("c1", 80, selected="n1", volume="pv9", completed=True)


def two(world: World) -> None:
    """pa and pb use c1, for which a volume is to be made; pa comes first."""
    world.see(storage_class("wait"), claim("c1"), node("n1"), node("n2"))
    world.see(pod("pa", claims=["c1"]), pod("pb", 101, claims=["c1"]))


def both_out(world: World) -> None:
    """Both are handed to the binder; pa's update is out."""
    two(world)
    world.do(AssumeTask("d/pa", "n1"), AssumeTask("d/pb", "n1"), BindTask("d/pa", "n1"), BindTask("d/pb", "n1"))
    world.tick(0.02)


def phase(world: World, name: str) -> Phase | None:
    task = world.flow.task(f"d/{name}")
    return task.phase if task is not None else None


def test_the_second_sees_what_the_first_assumed(world: World) -> None:
    two(world)
    world.do(AssumeTask("d/pa", "n1"), AssumeTask("d/pb", "n2"))
    [refused] = world.recorded(TaskUnschedulable)
    assert refused.subject.name == "pb"
    world.do(AssumeTask("d/pb", "n1"))
    assumed = {one.subject.name: one.event for one in world.recorded(VolumesAssumed)}
    assert [one.claim for one in assumed["pa"].provisions] == ["d/c1"]
    assert [one.claim for one in assumed["pb"].shared] == ["d/c1"]
    assert (assumed["pb"].bindings, assumed["pb"].provisions, assumed["pb"].all_bound) == ((), (), False)
    assert world.flow.claims.assumed["d/c1"].uid == "pa-u"
    world.settled()


def test_it_waits_for_the_firsts_binding_and_writes_nothing(world: World) -> None:
    both_out(world)
    assert world.asked(Update) == ["c1"]
    assert (phase(world, "pa"), phase(world, "pb")) == (Phase.UPDATING, Phase.WAITING)
    world.answer(Update, said(claim("c1", 70, selected="n1")))
    world.tick(3)
    assert world.asked(Bind) == []
    world.see(BOUND)
    assert sorted(world.asked(Bind)) == ["pa", "pb"]
    assert len(world.events(PVCUpdateRequested)) == 1
    assert sorted(one.subject.name for one in world.recorded(VolumesBound)) == ["pa", "pb"]
    world.settled()


def test_a_claim_that_is_bound_by_then_needs_no_wait(world: World) -> None:
    two(world)
    world.do(AssumeTask("d/pa", "n1"), AssumeTask("d/pb", "n1"), BindTask("d/pa", "n1"))
    world.tick(0.02)
    world.answer(Update, said(claim("c1", 70, selected="n1")))
    world.see(BOUND)
    world.do(BindTask("d/pb", "n1"))
    world.tick(0.02)
    assert world.asked(Bind) == ["pa", "pb"]
    world.settled()


def test_when_the_first_is_refused_the_second_has_nothing_to_wait_for(world: World) -> None:
    both_out(world)
    world.answer(Update, status(409, "edited", "Conflict"))
    assert world.flow.claims.assumed == {}
    assert phase(world, "pb") is Phase.WAITING
    world.tick(1.1)
    failed = {one.subject.name: one.event for one in world.recorded(VolumeBindingFailed)}
    assert failed["pa"].reason == "UpdateFailed"
    assert failed["pb"].message == 'PVC "c1" is not on its way to be bound any more'
    assert world.flow.queue("errTasks") == ["d/pa", "d/pb"]
    assert [one.subject.name for one in world.recorded(VolumesReverted)] == ["pa"]
    assert world.asked(Bind) == []
    world.settled()


@pytest.mark.parametrize("written", [False, True])
def test_when_the_firsts_pod_goes(world: World, written: bool) -> None:
    """What the API server has been told goes on, and is waited for; what it has not, never comes."""
    both_out(world)
    if written:
        world.answer(Update, said(claim("c1", 70, selected="n1")))
        world.see(claim("c1", 70, selected="n1"))
    world.see(pod("pa", 120), change="DELETED")
    assert world.flow.claims.assumed == {}
    world.tick(1.1)
    assert (phase(world, "pb") is Phase.WAITING) is written
    if written:
        world.see(BOUND)
        assert world.asked(Bind) == ["pb"]
    world.settled()


@pytest.mark.parametrize("deleted", [False, True])
def test_the_second_takes_nothing_of_the_first_when_it_ends(world: World, deleted: bool) -> None:
    both_out(world)
    world.answer(Update, said(claim("c1", 70, selected="n1")))
    if deleted:
        world.see(pod("pb", 120), change="DELETED")
    else:
        world.see(node("n1", 11), pod("pb", 121, phase="Failed"))
    assert phase(world, "pb") is None
    assert world.flow.claims.assumed["d/c1"].uid == "pa-u"
    assert world.recorded(VolumesReverted) == []
    world.see(BOUND)
    assert world.asked(Bind) == ["pa"]
    world.settled()


def test_a_time_out_of_the_second_is_its_own(world: World) -> None:
    two(world)
    world.do(AssumeTask("d/pa", "n1"), AssumeTask("d/pb", "n1"), BindTask("d/pb", "n1"))
    world.tick(0.02)
    world.tick(11)
    [failed] = world.recorded(VolumeBindingFailed)
    assert (failed.subject.name, failed.event.timed_out) == ("pb", True)
    assert world.flow.claims.assumed["d/c1"].uid == "pa-u"
    assert phase(world, "pa") is Phase.ASSUMED


def test_a_crash_while_both_are_on_their_way(world: World) -> None:
    both_out(world)
    world.answer(Update, said(claim("c1", 70, selected="n1")))
    world.crash()
    assert (phase(world, "pa"), phase(world, "pb")) == (Phase.WAITING, Phase.WAITING)
    world.see(BOUND)
    assert sorted(world.asked(Bind)) == ["pa", "pb"]
    assert len(world.events(BindRequested)) == 2
    world.settled()


def test_a_gang_that_shares_a_volume_is_placed_whole(world: World) -> None:
    """One volume, seen from both nodes; each node has room for one member only."""
    local = storage_class("local", "kubernetes.io/no-provisioner")
    world.see(local, claim("c1", cls="local"), volume("pv1"), node("n1", cpu="1"), node("n2", cpu="1"), group("g", 2))
    world.see(*(pod(f"g-{index}", 100 + index, group="g", claims=["c1"]) for index in range(2)))
    world.do(Allocate())
    assert sorted(task.node for task in world.flow.tasks.values()) == ["n1", "n2"]
    world.tick(0.02)
    assert world.asked(Update) == ["pv1"]
    world.answer(Update, said(volume("pv1", 70, ref="c1")))
    world.see(volume("pv1", 70, ref="c1", phase="Bound"), claim("c1", 71, cls="local", volume="pv1", completed=True))
    assert sorted(world.asked(Bind)) == ["g-0", "g-1"]
    assert len(world.events(PVUpdateRequested)) == 1
    world.settled()


def test_a_gang_that_shares_a_claim_still_to_be_made_goes_to_one_node(world: World) -> None:
    world.see(storage_class("wait"), claim("c1"), node("n1", cpu="3"), node("n2", cpu="1"), group("g", 3))
    world.see(*(pod(f"g-{index}", 100 + index, group="g", claims=["c1"]) for index in range(3)))
    world.do(Allocate())
    assert [task.node for task in world.flow.tasks.values()] == ["n1", "n1", "n1"]
    assert [len(task.provisions) for task in world.flow.tasks.values()] == [1, 0, 0]


def test_a_new_claim_of_the_name_is_not_the_one_that_was_shared(world: World) -> None:
    both_out(world)
    world.answer(Update, said(claim("c1", 70, selected="n1")))
    other = claim("c1", 90, selected="n1", volume="pv9", completed=True)
    other["metadata"]["uid"] = "another"
    world.see(other)
    assert "pb" not in world.asked(Bind)
