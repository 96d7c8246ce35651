"""A simulated world that is driven step by step: each request waits until a step answers it, in whatever way.

Owns the vocabulary of steps, and what each does. Must not know who chooses them. Called by the state machines of
`vcledger.testing.machines_flow`, which draw them, and by the runner of scenarios, which reads them from a file.

Steps name what they are about by numbers and words alone, so the same steps on the same seed drive the same world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from eventstore import EventStore
from vcledger.scheduler.inputs import Answered, Effect
from vcledger.scheduler.requests import Answer, Patch
from vcledger.scheduler.state import FlowConfig
from vcledger.sim import plan as plans
from vcledger.sim import status
from vcledger.sim.clock import SECOND
from vcledger.sim.faults import FAULTS, Fault
from vcledger.sim.kubelet import RUNS_SECONDS
from vcledger.sim.memory import MemoryLog
from vcledger.sim.mvcc import Object
from vcledger.sim.simulate import come_to_rest
from vcledger.sim.world import KINDS, Session, Simulation

NAMESPACE = "default"

DONE, DONE_UNHEARD, NEVER_DONE, DONE_LATER = (
    "done",
    "done, answer lost",
    "lost on the way",
    "done after it was given up",
)
REFUSED, THROTTLED = "refused", "throttled"
ANSWERS = (DONE, DONE_UNHEARD, NEVER_DONE, DONE_LATER, REFUSED, THROTTLED)
"""What can become of a request."""

WORTH: dict[str, int] = {"low": 1, "high": 100}
"""Priority classes and their values."""

TIMEOUT = 30
"""So many seconds a client waits for an answer; then it is lost, and the request may still arrive."""

RUNS = 20
"""So many seconds the pods of a gang of some priority run."""

EDITED = ("Pod", "PersistentVolumeClaim", "PersistentVolume", "Node")
LOCALS_MAX = 6
"""So many local disks each node has (`vcledger.sim.plan`)."""

Allowed: TypeAlias = type[int] | type[bool] | tuple[str, ...] | list[tuple[str, ...]]
"""What a value may be: a whole number from 0 on, true or false, one of some words, a list of such."""

STEPS: dict[str, dict[str, Allowed]] = {
    "gang": {"size": int, "milli": int, "classes": [("local", "wait")], "shared": bool},
    "worthy-gang": {"size": int, "milli": int, "least": int, "worth": tuple(WORTH)},
    "delete-pod": {"index": int},
    "edit": {"index": int, "kind": EDITED},
    "volume-again": {"index": int},
    "answer": {"index": int, "how": ANSWERS},
    "arrive": {"index": int},
    "wait": {"milliseconds": int},
    "answer-all": {},
    "die": {},
    "fault": {"fault": tuple(FAULTS), "kind": ("", *KINDS), "seconds": int, "pick": int},
}
"""Each step with what it must say."""


class HeldSimulation(Simulation):
    """A simulated world whose requests wait for `answer`. `held` are those that nobody has answered, `late` those that
    the scheduler has given up and that still may arrive, each with the time until when; `sent` are all."""

    def __init__(
        self,
        seed: int,
        session: Session | None = None,
        store: EventStore | None = None,
        config: FlowConfig | None = None,
    ) -> None:
        roomy = plans.draw(seed, 0, (), tight=False)
        plan = msgspec.structs.replace(roomy, safety=0)
        log = store if store is not None else cast(EventStore, MemoryLog())
        super().__init__(plan, log, config=config, session=session)
        self.held: list[Effect] = []
        self._since: list[int] = []
        self.late: list[tuple[Effect, int]] = []
        self.free = False
        self.heard: Callable[[Effect], None] | None = None

    def _send(self, effect: Effect) -> None:
        if self.heard is not None:
            self.heard(effect)
        if self.free:
            super()._send(effect)
        else:
            self.held.append(effect)
            self._since.append(self.timeline.now)

    def crash(self) -> None:
        """The process dies; what it had sent may still arrive."""
        self.late += [(effect, self._until()) for effect in self.held]
        self.held.clear()
        self._since.clear()
        super().crash()

    def _until(self) -> int:
        return self.timeline.now + int(self.config.settle_seconds * SECOND) - 1

    def answer(self, index: int, how: str) -> None:
        """Answers a request that waits."""
        index %= len(self.held)
        effect, _ = self.held.pop(index), self._since.pop(index)
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
        """Time passes; nobody waits longer for an answer than a client does, and what was under way for too long is
        lost for good."""
        until = self.timeline.now + micros
        while self.timeline.now < until and not self.broken:
            self.run_for(min(until - self.timeline.now, SECOND))
            while self._since and self._since[0] <= self.timeline.now - TIMEOUT * SECOND:
                self.answer(0, DONE_LATER)
        self.late = [(effect, until) for effect, until in self.late if self.timeline.now <= until]

    def release(self) -> None:
        """From now on requests are answered as they come."""
        self.free = True
        held, self.held = self.held, []
        self._since.clear()
        for effect in held:
            super()._send(effect)
        self.late.clear()


def _failed(body: Object) -> Answer:
    return Answer(int(body["code"]), msgspec.json.encode(body))


class Driven:
    """A world and the steps that it was driven by. A step about something that is not there does nothing."""

    def __init__(
        self,
        seed: int,
        session: Session | None = None,
        store: EventStore | None = None,
        config: FlowConfig | None = None,
    ) -> None:
        self.seed, self.steps = seed, list[dict[str, Any]]()
        self.world = HeldSimulation(seed, session, store, config)
        self.made = self.locals = 0

    def begin(self) -> None:
        """The cluster is there, and the process has listed it."""
        self.world.run()
        self.world.pass_time(2 * SECOND)

    def do(self, step: str, **said: Any) -> None:
        """One step of `STEPS`."""
        self.steps.append({"do": step, **said})
        _DO[step](self, **said)
        if not self.world.broken:
            self.world.broken += self._assumed_for_nobody()

    def _assumed_for_nobody(self) -> list[str]:
        """Whatever is assumed is assumed for a pod that the flow has to do with."""
        loop = self.world.loop
        if loop is None or loop.down is not None:
            return []
        flow = loop.flow
        held = [(key, one.uid) for key, one in flow.volumes.assumed.items()]
        held += [(key, one.uid) for key, one in flow.claims.assumed.items()]
        return [f"{key} is assumed for a pod that is not in the flow" for key, uid in held if uid not in flow.tasks]

    def finish(self) -> list[str]:
        """The faults are over and requests are answered as they come, until all is at rest; what did not hold."""
        self.world.release()
        if not self.world.broken:
            come_to_rest(self.world)
        return self.world.broken

    # --- users ----------------------------------------------------------------------------------------------------

    def _name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}-{self.made}"

    def _gang(self, size: int, milli: int, classes: list[str], shared: bool) -> None:
        """A PodGroup and its pods, each with claims of its own, or all with the same."""
        group = self._name("group")
        self.world.api.create(
            "PodGroup",
            {
                "metadata": {"name": group, "namespace": NAMESPACE},
                "spec": {"minMember": size, "queue": "default"},
                "status": {"phase": "Inqueue"},
            },
        )
        common = [self._claim(one) for one in classes] if shared else []
        for _ in range(size):
            self._pod(group, milli, common if shared else [self._claim(one) for one in classes])

    def _pod(self, group: str, milli: int, claims: Iterable[str], *, runs_seconds: int = 0) -> None:
        name = self._name("pod")
        spec: Object = {
            "schedulerName": "volcano",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": f"{milli}m", "memory": "64Mi"}}}],
        }
        volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
        if volumes:
            spec["volumes"] = volumes
        meta: Object = {"name": name, "namespace": NAMESPACE, "annotations": {plans.GROUP: group}}
        if runs_seconds:
            meta["annotations"][RUNS_SECONDS] = str(runs_seconds)
        self.world.owner.want(f"{NAMESPACE}/{name}", {"metadata": meta, "spec": spec})

    def _worthy_gang(self, size: int, milli: int, least: int, worth: str) -> None:
        """A gang of some priority, whose pods end after some seconds, so that all get their turn."""
        for name, value in WORTH.items():
            if self.world.api.object("PriorityClass", "", name) is None:
                self.world.api.create("PriorityClass", {"metadata": {"name": name}, "value": value})
        group = self._name("group")
        spec = {"minMember": min(max(least, 1), size), "queue": "default", "priorityClassName": worth}
        meta = {"name": group, "namespace": NAMESPACE}
        self.world.api.create("PodGroup", {"metadata": meta, "spec": spec, "status": {"phase": "Inqueue"}})
        for _ in range(size):
            self._pod(group, milli, (), runs_seconds=RUNS)

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

    def _pick(self, objects: Sequence[Object], index: int) -> Object | None:
        return objects[index % len(objects)] if objects else None

    def _delete_pod(self, index: int) -> None:
        """Its owner makes it again."""
        pod = self._pick(self.world.api.objects("Pod"), index)
        if pod is not None:
            self.world.world.delete("Pod", pod)

    def _edit(self, index: int, kind: str) -> None:
        """A label, which changes the version only."""
        found = self._pick(self.world.api.objects(kind), index)
        if found is not None:
            meta = found["metadata"]
            body = msgspec.json.encode({"metadata": {"labels": {"touched": str(self.world.api.version)}}})
            self.world.api.do(Patch(kind, meta.get("namespace", ""), meta["name"], body))

    def _volume_again(self, index: int) -> None:
        """A volume that nobody has is deleted, and another one made of the same."""
        volumes = self.world.api.objects("PersistentVolume")
        found = self._pick([one for one in volumes if not one["spec"].get("claimRef")], index)
        if found is not None:
            self.world.world.delete("PersistentVolume", found)
            again = {"metadata": {"name": self._name("volume")}, "spec": found["spec"]}
            self.world.api.create("PersistentVolume", again)

    # --- requests, time, faults -----------------------------------------------------------------------------------

    def _answer(self, index: int, how: str) -> None:
        if self.world.held:
            self.world.answer(index, how)

    def _arrive(self, index: int) -> None:
        if self.world.late:
            self.world.arrive(index)

    def _wait(self, milliseconds: int) -> None:
        self.world.pass_time(milliseconds * 1_000)

    def _answer_all(self) -> None:
        """The world as it should be, for a while."""
        for _ in range(50):
            while self.world.held:
                self.world.answer(0, DONE)
            self.world.pass_time(100_000)

    def _die(self) -> None:
        self.world.crash()

    def _fault(self, fault: str, kind: str, seconds: int, pick: int) -> None:
        self.world.strike(Fault(0, fault, "", kind, seconds, pick=pick))


_DO: dict[str, Callable[..., None]] = {
    "gang": Driven._gang,
    "worthy-gang": Driven._worthy_gang,
    "delete-pod": Driven._delete_pod,
    "edit": Driven._edit,
    "volume-again": Driven._volume_again,
    "answer": Driven._answer,
    "arrive": Driven._arrive,
    "wait": Driven._wait,
    "answer-all": Driven._answer_all,
    "die": Driven._die,
    "fault": Driven._fault,
}


def problem(step: dict[str, Any]) -> str:
    """What is wrong with a step, '' when nothing is."""
    wanted = STEPS.get(step["do"]) if isinstance(step["do"], str) else None
    if wanted is None:
        return f"there is no step {step['do']!r}; there are {', '.join(STEPS)}"
    said = [key for key in step if key not in ("op", "do")]
    unknown = next((key for key in said if key not in wanted), None)
    if unknown is not None:
        return f"unknown key {unknown!r} of the step {step['do']}; known are {', '.join(wanted) or 'none'}"
    missing = next((key for key in wanted if key not in said), None)
    if missing is not None:
        return f"the key {missing!r} of the step {step['do']} is missing"
    wrong = next((key for key in said if not _fits(step[key], wanted[key])), None)
    return f"`{wrong}` is {_words(wanted[wrong])}" if wrong is not None else ""


def _fits(value: Any, allowed: Allowed) -> bool:
    if isinstance(allowed, list):
        return isinstance(value, list) and all(_fits(one, allowed[0]) for one in value)
    if isinstance(allowed, tuple):
        return isinstance(value, str) and value in allowed
    return type(value) is allowed and value >= 0


def _words(allowed: Allowed) -> str:
    if isinstance(allowed, list):
        return f"a list, each {_words(allowed[0])}"
    if isinstance(allowed, tuple):
        return f"one of {', '.join(map(repr, allowed))}"
    return "true or false" if allowed is bool else "a whole number, not below 0"


__all__ = ["ANSWERS", "STEPS", "Driven", "HeldSimulation", "problem"]
