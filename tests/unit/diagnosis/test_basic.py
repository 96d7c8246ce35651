"""Predicates on one node alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.diagnosis import basic
from projections.diagnosis import reasons as texts
from projections.diagnosis.amounts import exceeding, less_equal, show
from projections.diagnosis.reasons import NODE_AFFINITY, NOT_READY, POD_NUMBER, PORTS, TAINTS, UNSCHEDULABLE
from projections.diagnosis.views import HostPort
from tests.unit.diagnosis.build import GI, node, placed, pod, task


def test_an_exact_fit_passes_and_one_milli_over_fails() -> None:
    request = task(pod(), {"cpu": "8"}).request
    assert basic.resources(request, False, node(cpu="8")) == []
    over = basic.resources(task(pod(), {"cpu": "8001m"}).request, False, node(cpu="8"))
    assert [reason.text for reason in over] == ["Insufficient cpu"]


def test_each_short_resource_has_its_numbers_and_the_scheduler_names_the_first() -> None:
    asked = task(pod(), {"cpu": "6", "memory": "64Gi", "nvidia.com/gpu": "2"})
    found = basic.resources(asked.request, False, node(cpu="8", used={"cpu": 6000.0}))
    assert [reason.text for reason in found] == [
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient nvidia.com/gpu",
    ]
    assert [reason.scheduler for reason in found] == [True, False, False]
    assert found[0].detail == "asks 6, idle 2 (of 8)"
    assert found[1].detail == "asks 64Gi, idle 32Gi (of 32Gi)"
    assert found[2].detail == "asks 2, idle 0 (of 0)"


def test_what_is_being_released_counts() -> None:
    tight = node(cpu="8", used={"cpu": 7000.0})
    freeing = node(cpu="8", used={"cpu": 7000.0}, releasing={"cpu": 4000.0})
    promised = node(cpu="8", used={"cpu": 7000.0}, releasing={"cpu": 4000.0}, pipelined={"cpu": 4000.0})
    request = task(pod(), {"cpu": "4"}).request
    assert basic.resources(request, False, tight)
    assert basic.resources(request, False, freeing) == []
    assert basic.resources(request, False, promised)


def test_a_node_in_debt_of_a_resource_that_is_not_asked() -> None:
    """gpu in debt keeps no cpu pod away; cpu in debt keeps everybody away, as the scheduler compares it always."""
    gpu_debt = node(resources={"nvidia.com/gpu": "6"}, used={"nvidia.com/gpu": 8000.0})
    assert basic.resources(task(pod(), {"cpu": "1"}).request, False, gpu_debt) == []
    cpu_debt = node(cpu="4", used={"cpu": 5000.0})
    assert [r.text for r in basic.resources(task(pod(), {"memory": "1Gi"}).request, False, cpu_debt)] == [
        "Insufficient cpu"
    ]


def test_a_best_effort_pod_asks_for_nothing() -> None:
    assert basic.resources(task(pod()).request, True, node(cpu="4", used={"cpu": 5000.0})) == []


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_less_equal_is_less_or_nearly_equal(left: int, right: int) -> None:
    assert less_equal(float(left), float(right)) is (left <= right)
    assert less_equal(left + 0.05, float(left))
    assert not less_equal(left + 0.2, float(left))


@given(st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "a/b", "c/d"]), st.integers(0, 50).map(float)))
def test_what_exceeds_is_what_does_not_fit(asked: dict[str, float]) -> None:
    have = {"cpu": 20.0, "memory": 20.0, "a/b": 20.0}
    named = exceeding(asked, have)
    assert set(named) == {name for name, amount in asked.items() if amount > have.get(name, 0.0)}
    assert named == sorted(named, key=lambda name: (name not in {"cpu"}, name not in {"cpu", "memory"}, name))


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 6000.0, "6"),
        ("cpu", 500.0, "0.5"),
        ("cpu", 250.0, "250m"),
        ("cpu", 152_880.0, "152.88"),
        ("memory", 200 * GI, "200Gi"),
        ("memory", 1.5 * GI, "1.5Gi"),
        ("memory", 512.0, "512"),
        ("nvidia.com/gpu", -2000.0, "-2"),
        ("pods", 110.0, "110"),
        ("attachable-volumes-csi-x", 3.0, "3"),
        ("ephemeral-storage", 2 * GI * 1000, "2Gi"),
    ],
)
def test_amounts_read_as_people_write_them(name: str, amount: float, text: str) -> None:
    assert show(name, amount) == text


def test_pod_count() -> None:
    full = node(pods=110)
    assert [reason.text for reason in basic.pod_count(full)] == [POD_NUMBER]
    assert basic.pod_count(node(pods=109)) == []
    assert basic.pod_count(node(pods=109), extra=1)


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    cordoned = node(unschedulable=True)
    assert [reason.text for reason in basic.unschedulable(pod(), cordoned)] == [UNSCHEDULABLE]
    tolerant = pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert basic.unschedulable(tolerant, cordoned) == []


def test_node_affinity_and_taints() -> None:
    picky = pod(nodeSelector={"accel": "h100"})
    [reason] = basic.node_affinity(picky, node())
    assert (reason.text, reason.detail) == (NODE_AFFINITY, "asks nodeSelector accel=h100")
    assert basic.node_affinity(picky, node(labels={"accel": "h100"})) == []
    tainted = node(taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}])
    [reason] = basic.taints(pod(), tainted)
    assert (reason.text, reason.detail) == (TAINTS, "gpu=true:NoSchedule")
    assert basic.taints(pod(tolerations=[{"operator": "Exists"}]), tainted) == []


def test_readiness_as_the_model_goes_by_it() -> None:
    away = node(schedulable=False, phase_reason="UnInitialized")
    [reason] = basic.readiness(away, True)
    assert reason.text == NOT_READY
    assert reason.scheduler
    [shown] = basic.readiness(node(ready="Unknown"), True)
    assert not shown.scheduler
    [counted] = basic.readiness(node(ready="False"), False)
    assert counted.scheduler
    assert basic.readiness(node(), True) == []


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        (HostPort("", "TCP", 80), HostPort("", "TCP", 80), True),
        (HostPort("", "TCP", 80), HostPort("", "UDP", 80), False),
        (HostPort("", "TCP", 80), HostPort("", "TCP", 81), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("0.0.0.0", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
    ],
)
def test_host_ports(wanted: HostPort, used: HostPort, conflict: bool) -> None:
    assert basic.ports_conflict(wanted, used) is conflict
    assert basic.ports_conflict(used, wanted) is conflict


def test_a_taken_host_port_names_its_holder() -> None:
    holder = pod("holder", containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}])
    [reason] = basic.ports((HostPort("", "TCP", 8080),), [placed(holder, "n1")])
    assert reason.text == PORTS
    assert "default/holder" in reason.detail


def test_host_ports_of_sidecars_count_and_those_of_other_init_containers_do_not() -> None:
    def container(port: int, **more: str) -> dict[str, object]:
        return {"name": "c", "ports": [{"containerPort": 80, "hostPort": port}], **more}

    holder = pod(
        "holder", initContainers=[container(1, restartPolicy="Always"), container(2)], containers=[container(3)]
    )
    assert [port.port for port in placed(holder, "n1").host_ports] == [3, 1]


def test_the_reasons_read_as_the_schedulers_print_them() -> None:
    """ErrReason constants of kube-scheduler's plugins, and Volcano's api.NodePodNumberExceeded."""
    assert {name: text for name, text in vars(texts).items() if name.isupper() and isinstance(text, str)} == {
        "POD_NUMBER": "node(s) pod number exceeded",
        "UNSCHEDULABLE": "node(s) were unschedulable",
        "NODE_AFFINITY": "node(s) didn't match Pod's node affinity/selector",
        "TAINTS": "node(s) had untolerated taint(s)",
        "PORTS": "node(s) didn't have free ports for the requested pod ports",
        "POD_AFFINITY": "node(s) didn't match pod affinity rules",
        "POD_ANTI_AFFINITY": "node(s) didn't match pod anti-affinity rules",
        "EXISTING_ANTI_AFFINITY": "node(s) didn't satisfy existing pods anti-affinity rules",
        "VOLUME_LIMIT": "node(s) exceed max volume count",
        "ACCESS_MODE": "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
        "in-use by another pod",
        "VOLUME_ZONE": "node(s) had no available volume zone",
        "SPREAD": "node(s) didn't match pod topology spread constraints",
        "SPREAD_LABEL": "node(s) didn't match pod topology spread constraints (missing required label)",
        "VOLUME_BIND": "node(s) didn't find available persistent volumes to bind",
        "VOLUME_AFFINITY": "node(s) didn't match PersistentVolume's node affinity",
        "VOLUME_SPACE": "node(s) did not have enough free storage",
        "VOLUME_GONE": "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        "NOT_READY": "node(s) were not ready",
        "NOT_IN_SNAPSHOT": "node(s) were not in the scheduler's snapshot",
    }
