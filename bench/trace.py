"""A generated production-like trace: raw watch lines of pods in gangs over many nodes.

Owns the generator. Must not know how the lines are stored. Called by `bench.__main__` and by tests of the bench.

Every line has the shape of a real watch of a cluster under Volcano (managedFields, env, conditions, container
statuses), about 3 kB a pod event. The same seed gives the same bytes.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

START = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC)
IMAGES = ("registry.example.com/train/resnet:1.4", "registry.example.com/etl/spark:3.5", "registry.example.com/mpi:9")
QUEUES = ("research", "prod", "batch", "default")
SHAPES = (("2", "4Gi", ""), ("4", "16Gi", ""), ("8", "32Gi", "1"), ("16", "64Gi", "2"), ("1", "2Gi", ""))


class Trace(NamedTuple):
    """What was asked for: `events` pod events over `nodes` nodes, at most `live` pods at once, drawn from `seed`;
    `ending` False: every pod is added, bound, started and stays."""

    events: int
    nodes: int = 1500
    live: int = 10_000
    seed: int = 1
    ending: bool = True


def dumps(value: Any) -> str:
    """JSON without blanks, as an API server writes it."""
    return msgspec.json.encode(value).decode()


def stamp(seconds: float) -> str:
    """A whole-second API time."""
    return _stamp(int(seconds))


@lru_cache(maxsize=4096)
def _stamp(seconds: int) -> str:
    return f"{(START + timedelta(seconds=seconds)).isoformat()[:-6]}Z"


class Writer:
    """Numbers and times the lines: resourceVersions rise by one, receive times never fall."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.version = 1000
        self.now = 0.0

    def uid(self) -> str:
        bits = f"{self.rng.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"

    def line(self, resource: str, kind: str, body: str) -> bytes:
        """A recording's line; `@RV@` in the body becomes the next resourceVersion."""
        self.version += 1
        when = f"{(START + timedelta(seconds=self.now)).isoformat(timespec='microseconds')[:-6]}000Z"
        body = body.replace("@RV@", str(self.version), 1)
        return f'{{"recordedAt":"{when}","resource":"{resource}","type":"{kind}","object":{body}}}\n'.encode()


def node_body(writer: Writer, index: int) -> str:
    resources = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    if index % 2:
        resources["nvidia.com/gpu"] = "8"
    name = f"node-{index:05d}"
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"z{index % 3}",
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": stamp(0),
        "lastTransitionTime": stamp(0),
    }
    meta = {
        "name": name,
        "uid": writer.uid(),
        "resourceVersion": "@RV@",
        "creationTimestamp": stamp(0),
        "labels": labels,
    }
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    return dumps({"kind": "Node", "apiVersion": "v1", "metadata": meta, "spec": {}, "status": status})


def queue_body(writer: Writer, name: str) -> str:
    meta = {"name": name, "uid": writer.uid(), "resourceVersion": "@RV@", "creationTimestamp": stamp(0)}
    spec = {"weight": 1, "reclaimable": True}
    return dumps(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": meta,
            "spec": spec,
            "status": {"state": "Open"},
        }
    )


class Gang:
    """One Volcano Job's PodGroup, and what its pods share."""

    def __init__(self, writer: Writer, number: int) -> None:
        rng = writer.rng
        self.job = f"{rng.choice(('train', 'etl', 'mpi', 'sweep'))}-{number:06d}"
        self.namespace = f"team-{rng.randrange(12)}"
        self.job_uid = writer.uid()
        self.group = f"{self.job}-{self.job_uid}"
        self.queue = rng.choice(QUEUES)
        self.size = rng.choice((1, 2, 4, 8, 8, 16, 32))
        self.shape = rng.choice(SHAPES)
        self.image = rng.choice(IMAGES)
        self.group_uid = writer.uid()
        self.created = stamp(writer.now)
        self.left = self.size

    def podgroup(self, phase: str) -> str:
        meta = {
            "creationTimestamp": self.created,
            "generation": 1,
            "name": self.group,
            "namespace": self.namespace,
            "ownerReferences": [owner(self)],
            "resourceVersion": "@RV@",
            "uid": self.group_uid,
        }
        cpu, memory, _ = self.shape
        spec = {
            "minMember": self.size,
            "minResources": {"cpu": str(int(cpu) * self.size), "memory": f"{int(memory[:-2]) * self.size}Gi"},
            "queue": self.queue,
        }
        return dumps(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": meta,
                "spec": spec,
                "status": {"phase": phase},
            }
        )


def owner(gang: Gang) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": gang.job,
        "uid": gang.job_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


FIELDS_SPEC = (
    '{"f:metadata":{"f:annotations":{".":{},"f:scheduling.k8s.io/group-name":{},"f:volcano.sh/job-name":{},'
    '"f:volcano.sh/task-index":{},"f:volcano.sh/task-spec":{}},"f:labels":{".":{},"f:volcano.sh/job-name":{},'
    '"f:volcano.sh/queue-name":{}},"f:ownerReferences":{".":{},"k:{\\"uid\\":\\"@OWNER@\\"}":{}}},"f:spec":'
    '{"f:containers":{"k:{\\"name\\":\\"main\\"}":{".":{},"f:env":{".":{},"k:{\\"name\\":\\"VC_TASK_INDEX\\"}":'
    '{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:resources":{".":{},"f:requests":{".":{},"f:cpu":{},'
    '"f:memory":{}}}}},"f:restartPolicy":{},"f:schedulerName":{}}}'
)
FIELDS_STATUS = (
    '{"f:status":{"f:conditions":{"k:{\\"type\\":\\"Ready\\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},'
    '"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:startTime":{}}}'
)


class PodTemplate:
    """A pod's JSON in three parts, so that an event of it is a few joins: metadata, spec, and status by phase."""

    def __init__(self, writer: Writer, gang: Gang, index: int) -> None:
        self.gang, self.index, self.uid = gang, index, writer.uid()
        self.name = f"{gang.job}-w-{index}"
        self.created = stamp(writer.now)
        self.scheduled = self.started = self.node = self.ip = ""

    def metadata(self, deleted: bool) -> str:
        gang = self.gang
        labels = {
            "volcano.sh/job-name": gang.job,
            "volcano.sh/job-namespace": gang.namespace,
            "volcano.sh/queue-name": gang.queue,
            "volcano.sh/task-index": str(self.index),
            "volcano.sh/task-spec": "w",
        }
        annotations = {
            "scheduling.k8s.io/group-name": gang.group,
            "volcano.sh/job-name": gang.job,
            "volcano.sh/job-version": "0",
            "volcano.sh/queue-name": gang.queue,
            "volcano.sh/task-index": str(self.index),
            "volcano.sh/task-spec": "w",
            "volcano.sh/template-uid": f"{gang.job}-w",
        }
        gone = {"deletionTimestamp": self.started, "deletionGracePeriodSeconds": 0} if deleted else {}
        managed = [manager("vc-controller-manager", self.created, FIELDS_SPEC.replace("@OWNER@", gang.job_uid))]
        if self.started:
            managed.append(manager("kubelet", self.started, FIELDS_STATUS))
        head = {
            "name": self.name,
            "namespace": gang.namespace,
            "uid": self.uid,
            "resourceVersion": "@RV@",
            "generation": 1,
            "creationTimestamp": self.created,
            **gone,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner(gang)],
        }
        return dumps(head)[:-1] + ',"managedFields":[' + ",".join(managed) + "]}"

    def spec(self) -> str:
        cpu, memory, gpu = self.gang.shape
        requests = {"cpu": cpu, "memory": memory, **({"nvidia.com/gpu": gpu} if gpu else {})}
        env = [
            {"name": "VC_TASK_INDEX", "value": str(self.index)},
            {"name": "VK_TASK_INDEX", "value": str(self.index)},
            {"name": "OUTPUT", "value": f"s3://results/{self.gang.job}/{self.index}"},
        ]
        container = {
            "name": "main",
            "image": self.gang.image,
            "env": env,
            "resources": {"limits": requests, "requests": requests},
            "volumeMounts": [
                {
                    "name": "kube-api-access",
                    "readOnly": True,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                }
            ],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        tolerations = [
            {
                "key": f"node.kubernetes.io/{what}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for what in ("not-ready", "unreachable")
        ]
        where = {"nodeName": self.node} if self.node else {}
        return dumps(
            {
                "containers": [container],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "serviceAccountName": "default",
                **where,
                "securityContext": {},
                "schedulerName": "volcano",
                "tolerations": tolerations,
                "priority": 0,
                "enableServiceLinks": True,
                "preemptionPolicy": "PreemptLowerPriority",
            }
        )

    def status(self, phase: str) -> str:
        conditions = []
        if self.started:
            conditions = [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": self.started}
                for kind in ("Initialized", "Ready", "ContainersReady")
            ]
        if self.node:
            conditions.append(
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": self.scheduled,
                }
            )
        body: dict[str, Any] = {"phase": phase, "conditions": conditions}
        if self.started:
            state = (
                {"running": {"startedAt": self.started}}
                if phase == "Running"
                else {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": self.started}}
            )
            body |= {
                "hostIP": "10.0.0.7",
                "podIP": self.ip,
                "startTime": self.started,
                "containerStatuses": [
                    {
                        "name": "main",
                        "state": state,
                        "lastState": {},
                        "ready": phase == "Running",
                        "restartCount": 0,
                        "image": self.gang.image,
                        "imageID": "",
                        "started": phase == "Running",
                    }
                ],
            }
        return dumps({**body, "qosClass": "Guaranteed"})

    def body(self, phase: str, deleted: bool = False) -> str:
        return (
            f'{{"kind":"Pod","apiVersion":"v1","metadata":{self.metadata(deleted)},'
            f'"spec":{self.spec()},"status":{self.status(phase)}}}'
        )


def manager(name: str, when: str, fields: str) -> str:
    return (
        f'{{"manager":"{name}","operation":"Update","apiVersion":"v1","time":"{when}",'
        f'"fieldsType":"FieldsV1","fieldsV1":{fields}}}'
    )


STEPS = ("ADDED", "bind", "start", "finish", "DELETED")


def lines(trace: Trace) -> Iterator[bytes]:
    """Raw watch lines: the nodes and queues, then `trace.events` pod events with their PodGroups between them."""
    writer = Writer(random.Random(trace.seed))
    for index in range(trace.nodes):
        yield writer.line("nodes", "ADDED", node_body(writer, index))
    for name in QUEUES:
        yield writer.line("queues.scheduling.volcano.sh", "ADDED", queue_body(writer, name))
    yield from pod_lines(trace, writer)


def pod_lines(trace: Trace, writer: Writer) -> Iterator[bytes]:
    """The pods' part: each pod is added, bound, started, finished and deleted; gangs arrive as long as there is room
    below `trace.live`."""
    rng = writer.rng
    waiting: list[tuple[float, int, int, PodTemplate]] = []
    live = written = number = serial = 0
    while written < trace.events:
        while live < trace.live and (not waiting or waiting[0][0] > writer.now):
            gang = Gang(writer, number)
            number += 1
            yield writer.line("podgroups.scheduling.volcano.sh", "ADDED", gang.podgroup("Inqueue"))
            for index in range(gang.size):
                serial += 1
                heapq.heappush(
                    waiting, (writer.now + 0.01 + index * 0.001, serial, 0, PodTemplate(writer, gang, index))
                )
            live += gang.size
            writer.now += 0.05
        if not waiting:
            return
        when, order, step, pod = heapq.heappop(waiting)
        writer.now = max(writer.now, when)
        yield pod_line(writer, pod, STEPS[step], trace.nodes)
        written += 1
        if not trace.ending and STEPS[step] == "start":
            continue
        if step + 1 < len(STEPS):
            delay = (0.5, 1.5, 0, 1.0)[step] if step != 2 else rng.uniform(20, 900)
            heapq.heappush(waiting, (writer.now + delay + rng.random(), order, step + 1, pod))
        else:
            live -= 1
            pod.gang.left -= 1
            if not pod.gang.left:
                yield writer.line("podgroups.scheduling.volcano.sh", "DELETED", pod.gang.podgroup("Completed"))
        if written >= trace.events:
            return


def pod_line(writer: Writer, pod: PodTemplate, step: str, nodes: int) -> bytes:
    """The watch line of one step of a pod's life."""
    if step == "ADDED":
        return writer.line("pods", "ADDED", pod.body("Pending"))
    if step == "bind":
        pod.node, pod.scheduled = f"node-{writer.rng.randrange(nodes):05d}", stamp(writer.now)
        return writer.line("pods", "MODIFIED", pod.body("Pending"))
    if step == "start":
        pod.started, pod.ip = stamp(writer.now), f"10.{pod.index % 250}.{writer.rng.randrange(250)}.9"
        return writer.line("pods", "MODIFIED", pod.body("Running"))
    if step == "finish":
        return writer.line("pods", "MODIFIED", pod.body("Succeeded"))
    return writer.line("pods", "DELETED", pod.body("Succeeded", deleted=True))
