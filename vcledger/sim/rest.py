"""What has to hold once the faults are over and everything has come to rest.

Owns these checks, on what the server holds and what the flow holds. Must not know how the world is run. Called by
`vcledger.sim.simulate`; the invariants that hold at any moment are the test kit's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from projections.cache import CACHE_KINDS, Cache, Delivery, observe, state_json
from vcledger.scheduler.state import FLOW_MODEL, Flow
from vcledger.scheduler.transitions import Phase
from vcledger.scheduler.written import REFUSED
from vcledger.sim.actors import annotation
from vcledger.sim.kubelet import RUNS_SECONDS, finished
from vcledger.sim.mvcc import Object
from vcledger.sim.plan import GROUP
from vcledger.sim.server import SimulatedApi
from vcledger.sim.volumes import HOSTNAME, claim_key, claims_of, ended, on_host
from volcano.objects import kinds
from volcano.objects.quantity import milli_value

ABOUT_AT_MOST = 5
"""Findings of one check that are told."""

CYCLES = 2_000_000
"""Microseconds in which a cycle comes for sure."""


def unbound(api: SimulatedApi, wanted: Sequence[str], *, faults: bool = True) -> list[str]:
    """The pods that there should be and that have no node, or are not there. They all could have one, as a plan leaves
    room for everything, but those whose PodGroup is gone or wants more members than there are to be. After `faults`
    also those may be left whose claims got volumes on different nodes: what was written of a set of claims is taken
    back by nobody (kubernetes/kubernetes#125338), so no scheduler could place them."""
    members: dict[str, list[str]] = {}
    found = []
    for key in sorted(wanted):
        pod = _at(api, "Pod", key)
        if pod is None:
            found.append(f"pod {key} is not there")
        else:
            members.setdefault(f"{pod['metadata']['namespace']}/{annotation(pod, GROUP)}", []).append(key)
    for group_key, pods in members.items():
        group = _at(api, "PodGroup", group_key)
        if faults:
            pods = [key for key in pods if not _torn(api, _at(api, "Pod", key))]
        if group is None or len(pods) < group["spec"]["minMember"]:
            continue
        for key in pods:
            pod = _at(api, "Pod", key)
            if pod is not None and not pod["spec"].get("nodeName") and not finished(pod):
                found.append(f"pod {key} is not bound: {_why(pod)}")
    return found


def ending(api: SimulatedApi) -> list[str]:
    """The pods that will end by themselves and have not yet, after which there is nothing to come."""
    pods = [pod for pod in api.objects("Pod") if annotation(pod, RUNS_SECONDS) and not finished(pod)]
    return [f"pod {pod['metadata']['name']} is still to end" for pod in pods if pod["spec"].get("nodeName")]


def _torn(api: SimulatedApi, pod: Object | None) -> bool:
    """Whether the pod's claims are bound to volumes that no node can use together."""
    hosts = [node["metadata"].get("labels", {}).get(HOSTNAME) for node in api.objects("Node")]
    for key in claims_of(pod) if pod is not None else ():
        claim = _at(api, "PersistentVolumeClaim", key)
        name = claim["spec"].get("volumeName") if claim is not None else ""
        volume = api.object("PersistentVolume", "", name) if name else None
        if volume is not None and "nodeAffinity" in volume["spec"]:
            hosts = [host for host in hosts if volume["spec"]["nodeAffinity"] == on_host(host)]
    return not hosts and bool(api.objects("Node"))


def _at(api: SimulatedApi, kind: str, key: str) -> Object | None:
    namespace, _, name = key.partition("/")
    return api.object(kind, namespace, name)


def _why(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    said: Object = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
    return f"{said.get('reason', 'no reason')}: {said.get('message', 'nothing was said')}"


def not_idle(flow: Flow) -> list[str]:
    """What the flow still holds. The clean-up of a job that has tasks and no PodGroup is tried for ever (fact 18)."""
    found = [f"{name} holds {', '.join(keys)}" for name in QUEUES if (keys := flow.queue(name))]
    if jobs := [key for key in flow.queue("deletedJobs") if not _has_tasks(flow, key)]:
        found.append(f"deletedJobs holds {', '.join(jobs)}")
    found += [f"intent {position} is out: {intent.kind} {intent.key}" for position, intent in flow.intents.items()]
    found += [f"{one.key} was told to go, and is {one.phase}" for one in flow.evictions.values()]
    found += [f"in doubt: {doubt.event_type} {doubt.key}" for doubt in flow.doubts.values()]
    for volumes in (flow.volumes, flow.claims):
        found += [f"{key} is still assumed for {held.uid}" for key, held in volumes.assumed.items()]
    found += [f"task {task.key} is {task.phase}" for task in flow.tasks.values() if task.phase not in AT_REST]
    return found[:ABOUT_AT_MOST]


def to_be_said(flow: Flow, now: int) -> list[str]:
    """The statuses that were refused, and that a cycle will send again once their time is over. `now` in
    microseconds."""
    waits = [(key, one.until) for key, one in flow.written.items() if one.state == REFUSED]
    waits += [(f"queue {name}", one.until) for name, one in flow.making.items() if one.state == REFUSED]
    waits += [(f"condition of {uid}", one.until) for uid, one in flow.conditions.items() if one.code is not None]
    return [f"{key} was refused, and is to be written again" for key, until in waits if now < until + CYCLES][
        :ABOUT_AT_MOST
    ]


def _has_tasks(flow: Flow, key: str) -> bool:
    job = flow.cache.jobs.get(key.rpartition("/")[0])
    return job is not None and bool(job.tasks)


AT_REST = (Phase.BOUND,)
QUEUES = ("bindFlow", "errTasks", "nodeQueue")


def cache_of(api: SimulatedApi, flow: Flow) -> Cache:
    """A cache that has seen what the server holds now, and nothing else."""
    cache = Cache(FLOW_MODEL, flow.config.cache)
    for kind in CACHE_KINDS:
        for _, stored in api.store.items(kind):
            observe(cache, Delivery(kind, kinds.decode(kind, stored.body)), stored.version)
    return cache


def differs(api: SimulatedApi, flow: Flow) -> list[str]:
    """Where the flow's cache is not what the server holds."""
    return [f"cache: {line}" for line in difference(state_json(cache_of(api, flow)), state_json(flow.cache))]


def difference(wanted: Any, found: Any, path: str = "") -> list[str]:
    """The first places at which two JSON values differ. Amounts that came and went leave a 0, as in Volcano's
    resources, which is the same as none."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        lines: list[str] = []
        if path.endswith("/scalars"):
            wanted, found = {**dict.fromkeys(found, 0), **wanted}, {**dict.fromkeys(wanted, 0), **found}
        elif "milli_cpu" in wanted:
            wanted, found = {"scalars": {}, **wanted}, {"scalars": {}, **found}
        for key in sorted({**wanted, **found}):
            where = f"{path}/{key}"
            if key not in found:
                lines.append(f"{where} is missing, the server has it")
            elif key not in wanted:
                lines.append(f"{where} is there, the server has it not")
            else:
                lines += difference(wanted[key], found[key], where)
        return lines[:ABOUT_AT_MOST]
    if isinstance(wanted, list) and isinstance(found, list) and path.endswith("node_list"):
        wanted, found = sorted(wanted), sorted(found)
    return [] if wanted == found else [f"{path} is {found!r}, by the server {wanted!r}"]


def oversold(api: SimulatedApi, node_name: str) -> list[str]:
    """What the pods on a node ask for beyond what it has."""
    node = api.object("Node", "", node_name)
    if node is None:
        return []
    pods = [pod for pod in api.objects("Pod") if pod["spec"].get("nodeName") == node_name and not ended(pod)]
    found = []
    for name, amount in (node["status"].get("allocatable") or {}).items():
        wanted = len(pods) * 1000 if name == "pods" else sum(_request(pod, name) for pod in pods)
        if wanted > milli_value(amount):
            found.append(f"node {node_name} has {amount} {name}, and its pods ask for {wanted / 1000:g}")
    return found


def _request(pod: Object, name: str) -> int:
    """What a pod's containers ask for, in thousandths."""
    containers = pod["spec"].get("containers") or ()
    amounts = [(one.get("resources") or {}).get("requests") or {} for one in containers]
    return sum(milli_value(amount.get(name, 0)) for amount in amounts)


def volumes_at_odds(api: SimulatedApi) -> list[str]:
    """Claims with two volumes, and volumes and claims that do not name each other."""
    found = []
    holders: dict[str, str] = {}
    for volume in api.objects("PersistentVolume"):
        name, key = volume["metadata"]["name"], claim_key(volume)
        uid = (volume["spec"].get("claimRef") or {}).get("uid")
        namespace, _, claim_name = key.partition("/")
        claim = api.object("PersistentVolumeClaim", namespace, claim_name) if key else None
        if claim is None or claim["metadata"]["uid"] != uid:
            continue
        if key in holders:
            found.append(f"claim {key} has volumes {holders[key]} and {name}")
        holders[key] = name
        bound = claim["spec"].get("volumeName")
        if bound and bound != name:
            found.append(f"volume {name} is given to claim {key}, which is bound to {bound}")
    return found
