"""Nodes and jobs: what is synced, what is refused and tried again, which clean-up deletes and which is over."""

from __future__ import annotations

from tests.unit.scheduler.build import World, group, node, pod
from vcledger.scheduler.inputs import CleanupFire
from volcano.events.cleanup import JobCleanupDropped, JobCleanupQueued, JobCleanupRetried, JobDeleted
from volcano.events.node_sync import NodeRemoved, NodeSynced, NodeSyncFailed


def test_a_node_is_synced_and_removed(world: World) -> None:
    world.see(pod("p1", node="n1", phase="Running"))
    world.see(node("n1"))
    world.see(node("n1", 11, cpu="8"))
    assert [(one.added, one.placeholder) for one in world.events(NodeSynced)] == [(False, True), (False, False)]
    world.see(node("n2", 12))
    assert world.events(NodeSynced)[-1].added
    world.see(node("n1", 13), change="DELETED")
    [removed] = world.events(NodeRemoved)
    assert (removed.node_uid, [one.name for one in removed.tasks]) == ("n1-u", ["p1"])


def test_a_node_that_cannot_be_read_is_tried_again(world: World) -> None:
    world.see(node("n1"))
    world.see(node("n1", 11, cpu="many"))
    [failed] = world.events(NodeSyncFailed)
    assert "many" in failed.error
    assert world.flow.queue("nodeQueue") == ["n1"]
    world.see(node("n1", 12, cpu="never"))
    assert [one.attempt for one in world.events(NodeSyncFailed)] == [1, 2]
    world.tick(1)
    failed = world.events(NodeSyncFailed)
    assert [one.delay_seconds for one in failed[:4]] == [0.005, 0.01, 0.02, 0.04]
    assert 7 < len(failed) < 10
    assert world.flow.queue("nodeQueue") == ["n1"]
    assert len(world.events(NodeSynced)) == 1
    world.crash()
    world.see(node("n1", 13, cpu="2"))
    assert world.flow.queue("nodeQueue") == []
    assert [one.resource_version for one in world.events(NodeSynced)] == ["10", "13"]
    world.tick(60)
    assert len(world.events(NodeSynced)) == 2
    world.settled()


def test_a_node_that_cannot_be_read_and_goes(world: World) -> None:
    world.see(node("n1", 11, cpu="many"))
    world.see(node("n1", 12, cpu="many"), change="DELETED")
    world.tick(1)
    assert world.flow.queue("nodeQueue") == []
    world.settled()


def test_a_job_goes_later_and_only_without_podgroup_and_tasks(world: World) -> None:
    world.see(group("g", 1), pod("p1", group="g"))
    world.see(group("g", 1, 21), change="DELETED")
    assert world.flow.queue("deletedJobs") == ["d/g/g-u"]
    world.tick(5)
    [retried] = world.events(JobCleanupRetried)
    assert (retried.tasks, retried.has_podgroup, retried.delay_seconds) == (1, False, 10)
    world.see(pod("p1", 101, group="g"), change="DELETED")
    assert "d/g" in world.flow.cache.jobs
    world.tick(10)
    assert len(world.events(JobDeleted)) == 1
    assert "d/g" not in world.flow.cache.jobs
    assert world.flow.queue("deletedJobs") == []
    assert len(world.events(JobCleanupQueued)) == 1
    world.settled()


def test_a_podgroup_made_again_keeps_its_job(world: World) -> None:
    world.see(group("g", 1))
    world.see(group("g", 1, 21), change="DELETED")
    world.see(group("g", 1, 22, uid="second"))
    world.do(CleanupFire("d/g/g-u"), CleanupFire("d/g/g-u"))
    [dropped] = world.events(JobCleanupDropped)
    assert (dropped.podgroup_uid, dropped.current_podgroup_uid) == ("g-u", "second")
    assert world.flow.cache.jobs["d/g"].pg_uid == "second"
    assert world.flow.queue("deletedJobs") == []
    world.see(group("g", 1, 23, uid="second"), change="DELETED")
    world.do(CleanupFire("d/g/g-u"))
    assert "d/g" in world.flow.cache.jobs
    world.do(CleanupFire("d/g/second"))
    assert "d/g" not in world.flow.cache.jobs


def test_a_podgroup_deleted_and_made_again_without_tasks_between_is_looked_at_by_uid(world: World) -> None:
    world.see(group("g", 1))
    world.see(group("g", 1, 21), change="DELETED")
    world.see(group("g", 1, 22, uid="second"))
    world.see(group("g", 1, 23, uid="second"), change="DELETED")
    assert world.flow.queue("deletedJobs") == ["d/g/g-u", "d/g/second"]
    world.do(CleanupFire("d/g/g-u"))
    assert "d/g" in world.flow.cache.jobs
    assert world.events(JobDeleted) == []
    world.tick(5)
    assert world.events(JobDeleted)[0].podgroup_uid == "second"


def test_a_key_that_is_not_queued_asks_for_nothing(world: World) -> None:
    world.see(group("g", 1))
    world.do(CleanupFire("d/g/g-u"))
    assert world.names("g") == []


def test_a_node_that_comes_back_has_its_tasks_at_once(world: World) -> None:
    """Those that run there, and those on their way; Volcano has it empty until each pod changes (vector 043)."""
    world.see(node("n1"), pod("p1"), pod("r1", 101, node="n1", phase="Running"))
    world.bind("p1")
    assert world.idle_cpu() == 2
    world.see(node("n1", 20), change="DELETED")
    again = node("n1", 30)
    again["metadata"]["uid"] = "n1-second"
    world.see(again, change="ADDED")
    assert sorted(world.flow.cache.nodes["n1"].tasks) == ["d/p1", "d/r1"]
    assert world.idle_cpu() == 2
    world.settled()
