"""The simulated kubelets, the collector of pods on nodes that are gone, and the owner of the pods.

Owns what they do. Must not know the scheduler. Called by `vcledger.sim.world` through the API server's writes.
"""

from __future__ import annotations

from vcledger.sim.actors import Actor, World, annotation, with_status
from vcledger.sim.clock import SECOND, rfc3339
from vcledger.sim.mvcc import Object, Revision
from vcledger.sim.volumes import ended

RUNS_SECONDS = "sim.vcledger.dev/runs-seconds"
"""A pod with this annotation succeeds so many seconds after it started; one without runs for ever."""

ORPHAN_SECONDS = 20
"""How long a pod may stand on a node that does not exist before it is collected (podgc)."""


class Kubelet(Actor):
    """All kubelets at once: a bound pod runs, ends when its time has come, and goes when it is deleted."""

    kinds = ("Pod", "Node")
    delay = (50, 1500)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._started: dict[str, int] = {}

    def changed(self, revision: Revision) -> None:
        if revision.kind == "Pod":
            self.soon("Pod", revision.key)
            return
        if revision.change != "MODIFIED":
            for pod in self.api.objects("Pod"):
                if pod["spec"].get("nodeName") == revision.key:
                    self.soon("Pod", f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")

    def look(self, kind: str, key: str) -> None:
        pod = self.object("Pod", key)
        if pod is None or not pod["spec"].get("nodeName"):
            return
        phase = pod["status"].get("phase")
        if self.api.object("Node", "", pod["spec"]["nodeName"]) is None:
            self._orphan(key, pod)
        elif pod["metadata"].get("deletionTimestamp"):
            self.world.delete("Pod", pod, grace_seconds=0)
        elif phase == "Pending":
            now = rfc3339(self.world.timeline.now)
            self._started[pod["metadata"]["uid"]] = self.world.timeline.now
            self.world.put("Pod", with_status(pod, phase="Running", startTime=now), "status")
        elif phase == "Running" and (seconds := annotation(pod, RUNS_SECONDS)):
            end = self._started.get(pod["metadata"]["uid"], self.world.timeline.now) + int(seconds) * SECOND
            if self.world.timeline.now >= end:
                self.world.put("Pod", with_status(pod, phase="Succeeded"), "status")
            else:
                self.later("Pod", key, end - self.world.timeline.now)

    def _orphan(self, key: str, pod: Object) -> None:
        """A pod on a node that is gone: collected when the node is still gone some time later."""
        uid = pod["metadata"]["uid"]

        def collect() -> None:
            found = self.object("Pod", key)
            if found is None or found["metadata"]["uid"] != uid:
                return
            if self.api.object("Node", "", found["spec"].get("nodeName", "")) is None:
                self.world.delete("Pod", found, grace_seconds=0)

        self.world.timeline.after(ORPHAN_SECONDS * SECOND, collect)


class Owner(Actor):
    """What a job's controller does for pods: one that is gone, or failed, is made again under its name.

    `wanted`: the pods that there should be, by key, as they are to be created."""

    kinds = ("Pod",)
    delay = (100, 2000)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.wanted: dict[str, Object] = {}

    def changed(self, revision: Revision) -> None:
        if revision.change == "DELETED" and revision.key in self.wanted:
            self.soon("Pod", revision.key)

    def want(self, key: str, pod: Object) -> None:
        """There is to be this pod from now on."""
        self.wanted[key] = pod
        self.soon("Pod", key)

    def look(self, kind: str, key: str) -> None:
        wanted = self.wanted.get(key)
        if wanted is not None and self.object("Pod", key) is None:
            self.api.create("Pod", wanted)


def finished(pod: Object) -> bool:
    """Whether the pod needs no node any more: it has ended, or is being deleted."""
    return ended(pod) or bool(pod["metadata"].get("deletionTimestamp"))
