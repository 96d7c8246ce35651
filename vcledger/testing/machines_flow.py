"""State machines of the bind flow, with crashes, and of the volume binder, against the simulated API server.

Owns what a run may do at any moment: make and delete objects, answer a request in every way there is, let time pass,
drop watches, kill the process, refuse appends. Needs hypothesis. Called by our tests; hypothesis shrinks what fails to
the fewest steps.

The model is the API server: it decides by its own rules and never reads the scheduler. Requests go nowhere by
themselves: each waits until a step answers it, so every order of answers comes up. At the end of a run the faults stop,
all must come to rest (`vcledger.sim.simulate.come_to_rest`), and the invariants must hold over the whole log.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventstore import EventStore
from vcledger.scheduler.inputs import Answered, Effect
from vcledger.scheduler.requests import Answer, Patch
from vcledger.sim import plan as plans
from vcledger.sim import status
from vcledger.sim.clock import SECOND
from vcledger.sim.faults import Fault
from vcledger.sim.memory import MemoryLog
from vcledger.sim.simulate import come_to_rest
from vcledger.sim.world import CLUSTER, KINDS, Session, Simulation
from vcledger.testing.invariants import broken_rules
from vcledger.testing.strategies import GROUP_ANNOTATION, NAMESPACE, Object

DONE, DONE_UNHEARD, NEVER_DONE, DONE_LATER = (
    "done",
    "done, answer lost",
    "lost on the way",
    "done after it was given up",
)
REFUSED, THROTTLED = "refused", "throttled"
LOCALS_MAX = 6
"""So many local disks each node has (`vcledger.sim.plan`)."""

ANSWERS = (DONE, DONE, DONE, DONE_UNHEARD, NEVER_DONE, DONE_LATER, REFUSED, THROTTLED)
"""What becomes of a request, what is usual more often than the rest."""


class HeldSimulation(Simulation):
    """A simulated world whose requests wait for `answer`. `held` are those that nobody has answered, `late` those that
    the scheduler has given up and that still may arrive, each with the time until when."""

    def __init__(self, seed: int, session: Session | None = None) -> None:
        roomy = plans.draw(seed, 0, (), tight=False)
        plan = msgspec.structs.replace(roomy, safety=0)
        super().__init__(plan, cast(EventStore, MemoryLog()), session=session)
        self.held: list[Effect] = []
        self.late: list[tuple[Effect, int]] = []
        self.free = False

    def _send(self, effect: Effect) -> None:
        if self.free:
            super()._send(effect)
        else:
            self.held.append(effect)

    def crash(self) -> None:
        """The process dies; what it had sent may still arrive."""
        self.late += [(effect, self._until()) for effect in self.held]
        self.held.clear()
        super().crash()

    def _until(self) -> int:
        return self.timeline.now + int(self.config.settle_seconds * SECOND) - 1

    def answer(self, index: int, how: str) -> None:
        """Answers a request that waits."""
        effect = self.held.pop(index % len(self.held))
        if how == DONE:
            self.put(Answered(effect, self.port.do(effect.request)))
            return
        if how == DONE_UNHEARD:
            self.port.do(effect.request)
        elif how == DONE_LATER:
            self.late.append((effect, self._until()))
        if how == REFUSED:
            answer = _failed(status.internal("etcdserver: leader changed"))
        elif how == THROTTLED:
            answer = _failed(status.throttled(1))
        else:
            answer = Answer(None)
        self.put(Answered(effect, answer))

    def arrive(self, index: int) -> None:
        """A request that was given up gets there after all."""
        effect, until = self.late.pop(index % len(self.late))
        if self.timeline.now <= until:
            self.port.do(effect.request)

    def pass_time(self, micros: int) -> None:
        """Time passes; what was under way for too long is lost for good."""
        self.run_for(micros)
        self.late = [(effect, until) for effect, until in self.late if self.timeline.now <= until]

    def release(self) -> None:
        """From now on requests are answered as they come."""
        self.free = True
        held, self.held = self.held, []
        for effect in held:
            super()._send(effect)
        self.late.clear()


def _failed(body: Object) -> Answer:
    return Answer(int(body["code"]), msgspec.json.encode(body))


class FlowMachine(RuleBasedStateMachine):
    """The bind flow: pods alone and in gangs, every answer in every order, nodes that go, processes that die."""

    claims = False
    """Whether pods use volumes."""

    def session(self) -> Session | None:
        """What decides, instead of our allocate pass; to be overridden by whoever tests a session of their own. At the
        end every pod must have got a node by it."""
        return None

    pods_max = 8

    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed: int) -> None:
        self.world = HeldSimulation(seed, self.session())
        self.made = self.locals = 0
        self.world.run()
        self.world.pass_time(2 * SECOND)

    def teardown(self) -> None:
        world = getattr(self, "world", None)
        if world is None:
            return
        world.release()
        if not world.broken:
            come_to_rest(world)
        broken = world.broken or broken_rules(world.log, CLUSTER)
        assert not broken, broken

    # --- users ----------------------------------------------------------------------------------------------------

    def _name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}-{self.made}"

    def _pod(self, group: str, milli: int, claims: list[str]) -> None:
        name = self._name("pod")
        spec: Object = {
            "schedulerName": "volcano",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": f"{milli}m", "memory": "64Mi"}}}],
        }
        if claims:
            spec["volumes"] = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
        meta: Object = {"name": name, "namespace": NAMESPACE, "annotations": {GROUP_ANNOTATION: group}}
        self.world.owner.want(f"{NAMESPACE}/{name}", {"metadata": meta, "spec": spec})

    def _claim(self, storage_class: str) -> str:
        """A claim; a local one only while all of them would find a disk on one node, as a pod may be tied to one."""
        name = self._name("claim")
        if storage_class == "local":
            self.locals += 1
            storage_class = "local" if self.locals <= LOCALS_MAX else "wait"
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        claim = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        self.world.api.create("PersistentVolumeClaim", claim)
        return name

    @precondition(lambda self: len(self.world.owner.wanted) < self.pods_max)
    @rule(
        size=st.integers(1, 3),
        milli=st.sampled_from((100, 500, 1000)),
        classes=st.lists(st.sampled_from(("local", "wait")), max_size=2),
    )
    def a_gang_is_made(self, size: int, milli: int, classes: list[str]) -> None:
        group = self._name("group")
        self.world.api.create(
            "PodGroup",
            {
                "metadata": {"name": group, "namespace": NAMESPACE},
                "spec": {"minMember": size, "queue": "default"},
                "status": {"phase": "Inqueue"},
            },
        )
        for _ in range(size):
            self._pod(group, milli, [self._claim(one) for one in classes] if self.claims else [])

    def _pick(self, kind: str, index: int) -> Object | None:
        objects = self.world.api.objects(kind)
        return objects[index % len(objects)] if objects else None

    @rule(index=st.integers(0, 20))
    def a_pod_is_deleted(self, index: int) -> None:
        """Its owner makes it again."""
        pod = self._pick("Pod", index)
        if pod is not None:
            self.world.world.delete("Pod", pod)

    @rule(index=st.integers(0, 20), kind=st.sampled_from(("Pod", "PersistentVolumeClaim", "PersistentVolume", "Node")))
    def somebody_edits(self, index: int, kind: str) -> None:
        """A label, which changes the version only."""
        found = self._pick(kind, index)
        if found is not None:
            meta = found["metadata"]
            body = msgspec.json.encode({"metadata": {"labels": {"touched": str(self.world.api.version)}}})
            self.world.api.do(Patch(kind, meta.get("namespace", ""), meta["name"], body))

    @precondition(lambda self: len(self.world.api.objects("Node")) > 1)
    @rule(pick=st.integers(0, 3))
    def a_node_goes_and_comes_back(self, pick: int) -> None:
        self._strike("node-deleted", seconds=5, pick=pick)

    # --- requests, time, faults -----------------------------------------------------------------------------------

    @precondition(lambda self: self.world.held)
    @rule(index=st.integers(0, 20), how=st.sampled_from(ANSWERS))
    def a_request_is_answered(self, index: int, how: str) -> None:
        self.world.answer(index, how)

    @precondition(lambda self: self.world.late)
    @rule(index=st.integers(0, 20))
    def a_request_arrives_late(self, index: int) -> None:
        self.world.arrive(index)

    @rule(milliseconds=st.sampled_from((1, 50, 1_000, 5_000, 20_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.world.pass_time(milliseconds * 1_000)

    @rule()
    def everything_is_answered(self) -> None:
        """The world as it should be, for a while."""
        for _ in range(50):
            while self.world.held:
                self.world.answer(0, DONE)
            self.world.pass_time(100_000)

    @rule()
    def the_process_dies(self) -> None:
        self.world.crash()

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
        self.world._strike(Fault(0, fault, "", kind, seconds, pick=pick))

    # --- what holds at any moment ---------------------------------------------------------------------------------

    @invariant()
    def nothing_is_broken(self) -> None:
        world = getattr(self, "world", None)
        if world is not None:
            assert not world.broken, world.broken

    @invariant()
    def assumptions_have_a_task(self) -> None:
        """Whatever is assumed is assumed for a pod that the flow has to do with."""
        loop = self.world.loop if hasattr(self, "world") else None
        if loop is not None and loop.down is None:
            for cache in (loop.flow.volumes, loop.flow.claims):
                for key, held in cast(Any, cache).assumed.items():
                    assert held.uid in loop.flow.tasks, key


class VolumeBinderMachine(FlowMachine):
    """The same with volumes: claims on local disks and from a provisioner, controllers that are slow, fail or undo."""

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
        free = [one for one in self.world.api.objects("PersistentVolume") if not one["spec"].get("claimRef")]
        if free:
            found = free[index % len(free)]
            self.world.world.delete("PersistentVolume", found)
            again = {"metadata": {"name": self._name("volume")}, "spec": found["spec"]}
            self.world.api.create("PersistentVolume", again)


__all__ = ["FlowMachine", "HeldSimulation", "VolumeBinderMachine"]
