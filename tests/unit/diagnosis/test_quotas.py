"""ResourceQuotas: the scheduler's gate, pods that may not be made, and by how much a quota would have to be raised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projections.diagnosis.case import Case
from projections.diagnosis.explain import explain
from projections.diagnosis.views import GroupView, Rules
from tests.unit.diagnosis.build import cluster, node, obj, pod, task
from tests.unit.diagnosis.test_changes import queue, texts
from tests.unit.diagnosis.test_explain import GROUPED, case, said
from volcano.objects.quotas import exceeded, scoped, usage_of

GATING = Rules(quota=True)


def quota(hard: dict[str, str], used: dict[str, str] | None = None, name: str = "q", **spec: Any) -> Any:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    status = {"hard": hard, "used": used or {}}
    return obj("ResourceQuota", metadata=meta, spec={"hard": hard, **spec}, status=status)


def group(phase: str, minimum: int = 1, **least: str) -> Any:
    spec = {"minMember": minimum, "queue": "default", "minResources": least or None}
    return obj(
        "PodGroup", metadata={"name": "g", "namespace": "default", "uid": "pg"}, spec=spec, status={"phase": phase}
    )


def asking(*quotas: Any, rules: Rules = GATING, pod_group: Any = None, **more: Any) -> Case:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}}]
    world = cluster(
        [node("n1", cpu="16")],
        queues={"default": queue()},
        quotas={f"default/{one.metadata.name}": one for one in quotas},
        rules=rules,
        positions={("ResourceQuota", f"default/{one.metadata.name}"): 31 for one in quotas},
    )
    return case(pod(containers=containers, **GROUPED), {"cpu": "2"}, cluster=world, pod_group=pod_group, **more)


@pytest.fixture
def pending() -> Any:
    return group("Pending", cpu="2", **{"requests.cpu": "2", "pods": "1"})


def test_a_quota_without_room_keeps_the_group_out_of_its_queue(pending: Any) -> None:
    of = asking(quota({"requests.cpu": "10", "pods": "5"}, {"requests.cpu": "9", "pods": "2"}), pod_group=pending)
    answer = explain(of)
    assert answer.verdict == "quota-exceeded"
    assert answer.summary == (
        "ResourceQuota default/q has no room for it: requests.cpu: asks 2 on top of 9 used, the quota allows 10"
    )
    assert any(one.position == 31 and one.what.startswith("ResourceQuota default/q") for one in answer.evidence)
    assert answer.changes[0].text == "ResourceQuota default/q: requests.cpu 11 instead of 10"
    assert answer.changes[0].steps[0].action == "raise-quota"


def test_a_quota_that_is_just_large_enough_or_of_another_namespace_does_not(pending: Any) -> None:
    fits = quota({"requests.cpu": "10"}, {"requests.cpu": "8"})
    assert explain(asking(fits, pod_group=pending)).verdict != "quota-exceeded"
    other = obj("ResourceQuota", metadata={"name": "q", "namespace": "other"}, status={"hard": {"requests.cpu": "1"}})
    assert explain(asking(other, pod_group=pending)).verdict != "quota-exceeded"


def test_only_a_scheduler_with_the_plugin_asks_for_quotas(pending: Any) -> None:
    small = quota({"requests.cpu": "1"})
    assert explain(asking(small, rules=Rules(), pod_group=pending)).verdict != "quota-exceeded"
    spoke = said("Unschedulable", "resource quota insufficient, requested: map[...]", about="PodGroup default/g")
    answer = explain(asking(small, rules=Rules(), pod_group=pending, said=[spoke]))
    assert answer.verdict == "quota-exceeded", "it wrote of a quota, so it has it"


def test_two_quotas_are_both_raised_or_nothing_is_offered(pending: Any) -> None:
    quotas = [quota({"requests.cpu": "1"}, name="a"), quota({"pods": "0"}, name="b")]
    assert (
        "ResourceQuota default/a: requests.cpu 2 instead of 1; ResourceQuota default/b: pods 1 instead of 0"
        in texts(asking(*quotas, pod_group=pending))
    )


def test_members_that_a_quota_lets_nobody_make_are_told_and_offered_with_it() -> None:
    of = asking(
        quota({"limits.cpu": "10", "pods": "3"}, {"limits.cpu": "4", "pods": "1"}), pod_group=group("Inqueue", 3)
    )
    answer = explain(of)
    assert answer.verdict == "members-missing"
    assert answer.causes[0] == (
        "ResourceQuota default/q has no room for it: limits.cpu: asks 8 on top of 4 used, the quota allows 10"
    )
    assert "ResourceQuota default/q: limits.cpu 12 instead of 10; PodGroup default/g: 2 more members" in texts(of)
    of.cluster = replace(of.cluster, quotas={"default/q": quota({"limits.cpu": "10"}, scopes=["BestEffort"])})
    assert explain(of).causes[0].startswith("PodGroup default/g asks for 3 members")


def test_a_job_whose_pods_a_quota_refuses_gets_the_quota_raised() -> None:
    small = quota({"pods": "1"}, {"pods": "1"})
    of = asking(small, rules=Rules(), pod_group=group("Inqueue", 2))
    pods = [task(pod(f"w-{index}", uid=f"planned-w-{index}", **GROUPED), {"cpu": "2"}) for index in (0, 1)]
    alone = GroupView("default", "g", group("Inqueue", 2), [])
    of = replace(of, kind="Job", pod=None, task=None, group=alone, planned=pods)
    answer = explain(of)
    assert answer.verdict == "members-missing"
    assert answer.causes[0].endswith("pods: asks 2 on top of 1 used, the quota allows 1")
    assert [one.text for one in answer.changes] == ["ResourceQuota default/q: pods 3 instead of 1"]


def test_what_a_pod_takes_of_quotas() -> None:
    def asks(**amounts: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": amounts}}

    subject = pod(
        containers=[asks(cpu="1", memory="1Gi"), asks(cpu="500m", **{"nvidia.com/gpu": "1"})],
        initContainers=[{**asks(cpu="1"), "restartPolicy": "Always"}, asks(cpu="4")],
        overhead={"cpu": "250m"},
    )
    taken = usage_of(subject)
    assert (taken["cpu"], taken["requests.cpu"], taken["pods"], taken["count/pods"]) == (5250, 5250, 1000, 1000)
    assert taken["requests.nvidia.com/gpu"] == 1000
    assert "nvidia.com/gpu" not in taken
    assert usage_of(subject, 3)["requests.memory"] == 3 * 1000 << 30


def test_what_is_admitted_counts_as_used() -> None:
    one = quota({"cpu": "4", "memory": "1Gi"}, {"cpu": "1"})
    assert exceeded({"cpu": 3000}, one) == []
    assert [(over.name, over.used) for over in exceeded({"cpu": 3000}, one, {"cpu": 1})] == [("cpu", 1001)]
    assert exceeded({"pods": 9000}, one) == [], "the quota does not limit them"
    assert not scoped(one)
