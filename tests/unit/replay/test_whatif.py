"""What-if changes: what is read, what is refused, and what becomes of objects."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcledger.replay.whatif import AddNodes, ChangeInvalid, ScaleRequests, made_uid, scaled
from vcledger.replay.whatif_text import add_nodes, read_changes, remove_node, scale_requests, set_field
from volcano.objects import kinds
from volcano.objects.quantity import exact_value

QUEUE = {"metadata": {"name": "small"}, "spec": {"weight": 1, "capability": {"cpu": "4", "memory": "8Gi"}}}
GROUP: dict[str, Any] = {
    "metadata": {
        "name": "train-0c9",
        "namespace": "default",
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "0c9"}],
    },
    "spec": {
        "minMember": 8,
        "queue": "default",
        "minResources": {"cpu": "40", "pods": "8", "requests.cpu": "40", "limits.cpu": "40", "memory": "64Gi"},
    },
}
JOB: dict[str, Any] = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "minAvailable": 8,
        "tasks": [{"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "5"}}}]}}}],
    },
}
POD: dict[str, Any] = {
    "metadata": {"name": "train-0", "namespace": "default", "ownerReferences": [{"kind": "Job", "name": "train"}]},
    "spec": {
        "nodeName": "gpu-1",
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}},
            {"name": "b"},
        ],
        "initContainers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    },
    "status": {"phase": "Running", "startTime": "2026-11-29T13:57:33Z", "qosClass": "Burstable"},
}


# --- nodes ---------------------------------------------------------------------------------------------------------


def test_added_nodes_are_ready_nodes_with_what_was_asked_for() -> None:
    change = add_nodes(
        "2:cpu=16,memory=64Gi,nvidia.com/gpu=8,label/topology.kubernetes.io/zone=a,taint/gpu=true:NoSchedule,"
        "taint/spare:NoExecute"
    )
    (kind, first), (_, second) = change.added()
    assert (kind, first["metadata"]["name"], second["metadata"]["name"]) == ("Node", "whatif-0", "whatif-1")
    node = kinds.decode("Node", msgspec.json.encode(first))
    assert node.status.allocatable == {"pods": "110", "cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8"}
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "a"
    assert node.metadata.labels["kubernetes.io/hostname"] == "whatif-0"
    assert [(taint.key, taint.value, taint.effect) for taint in node.spec.taints] == [
        ("gpu", "true", "NoSchedule"),
        ("spare", "", "NoExecute"),
    ]
    assert [(one.type, one.status) for one in node.status.conditions] == [("Ready", "True")]
    assert node.metadata.uid == made_uid("Node", "whatif-0") != made_uid("Node", "whatif-1")


def test_nodes_added_twice_are_numbered_on_per_name() -> None:
    changes = read_changes(add=["2:cpu=1", "1:cpu=2,name=big", "1:cpu=3,pods=20"])
    assert [change.node_names() for change in changes if isinstance(change, AddNodes)] == [
        ["whatif-0", "whatif-1"],
        ["big-0"],
        ["whatif-2"],
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpu=16", "begin with how many"),
        ("0:cpu=16", "begin with how many"),
        ("-1:cpu=16", "begin with how many"),
        ("1000000:cpu=16", "begin with how many"),
        ("2:", "an empty part"),
        ("2:cpu=16,,memory=1Gi", "an empty part"),
        ("2:cpu", "'cpu' is not NAME=VALUE"),
        ("2:cpu=lots", "cpu: 'lots' is no quantity"),
        ("2:cpu=-1", "cpu is negative"),
        ("2:cpu=1,cpu=2", "cpu is given twice"),
        ("2:pods=3", "a node needs cpu and memory"),
        ("2:cpu=1,name=Big", "'Big' is no name of a node"),
        ("2:cpu=1,taint/a=b", "a taint is taint/KEY=VALUE:EFFECT"),
        ("2:cpu=1,taint/a=b:Never", "a taint is taint/KEY=VALUE:EFFECT"),
        ("2:cpu=1,label/=b", "'' is no label"),
        ("2:cpu=1,label/a=b c", "'b c' is no value of a label"),
        ("2:cpu=1,nvidia.com/=8", "'nvidia.com/' is no resource"),
    ],
)
def test_nodes_that_cannot_be_added(text: str, says: str) -> None:
    with pytest.raises(ChangeInvalid) as error:
        add_nodes(text)
    assert says in str(error.value)
    assert str(error.value).startswith(f"--add-nodes {text}: ")


def test_a_removed_node_takes_its_own_pods_with_it_and_lets_the_others_wait() -> None:
    change = remove_node("gpu-*")
    assert change.rewrite("Node", {"metadata": {"name": "gpu-1"}}) is None
    assert change.rewrite("CSINode", {"metadata": {"name": "gpu-1"}}) is None
    kept = {"metadata": {"name": "cpu-1"}}
    assert change.rewrite("Node", kept) is kept
    pod = change.rewrite("Pod", POD)
    assert pod is not None
    assert "nodeName" not in pod["spec"]
    assert pod["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert POD["spec"]["nodeName"] == "gpu-1"
    daemon = {**POD, "metadata": {"name": "d", "ownerReferences": [{"kind": "DaemonSet", "name": "d"}]}}
    assert change.rewrite("Pod", daemon) is None
    elsewhere = {**POD, "spec": {"nodeName": "cpu-1"}}
    assert change.rewrite("Pod", elsewhere) is elsewhere
    ended = change.rewrite("Pod", {**POD, "status": {"phase": "Succeeded"}})
    assert ended is not None
    assert ended["status"] == {"phase": "Succeeded"}


def test_a_name_of_a_node_that_is_none() -> None:
    with pytest.raises(ChangeInvalid, match="give a node's name"):
        remove_node("a,b")


# --- fields --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("queue/small.weight=3", ("weight",), 3),
        ("queue/s*.reclaimable=false", ("reclaimable",), False),
        ("queue/small.capability.cpu=8", ("capability", "cpu"), "8"),
        ("queue/small.deserved.nvidia.com/gpu=8", ("deserved", "nvidia.com/gpu"), "8"),
        ("queue/small.guarantee.memory=1Gi", ("guarantee", "resource", "memory"), "1Gi"),
        ("queue/small.parent=root", ("parent",), "root"),
    ],
)
def test_a_field_of_a_queue(text: str, field: tuple[str, ...], value: object) -> None:
    changed: Any = set_field(text).rewrite("Queue", QUEUE)
    for key in ("spec", *field):
        changed = changed[key]
    assert changed == value
    assert QUEUE["spec"] == {"weight": 1, "capability": {"cpu": "4", "memory": "8Gi"}}


def test_only_the_named_queue_changes_and_none_takes_the_field_away() -> None:
    change = set_field("queue/small.capability.cpu=none")
    changed = change.rewrite("Queue", QUEUE)
    assert changed is not None
    assert changed["spec"] == {"weight": 1, "capability": {"memory": "8Gi"}}
    other = {"metadata": {"name": "default"}, "spec": {"weight": 1}}
    assert change.rewrite("Queue", other) is other
    assert change.rewrite("Node", QUEUE) is QUEUE


def test_names_with_dots() -> None:
    change = set_field("queue/a.weight.b.capability.example.com/x=2")
    assert (change.pattern, change.path) == ("a.weight.b", ("capability", "example.com/x"))
    assert set_field("queue/a.weight.weight=2").pattern == "a.weight"


def test_a_job_is_its_podgroup_and_min_resources_follow_its_members() -> None:
    change = set_field("job/default/train.minMember=2")
    group = change.rewrite("PodGroup", GROUP)
    assert group is not None
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"] == {
        "cpu": "10",
        "pods": "2",
        "requests.cpu": "10",
        "limits.cpu": "10",
        "memory": str(16 * 2**30),
    }
    job = change.rewrite("VolcanoJob", JOB)
    assert job is not None
    assert job["spec"]["minAvailable"] == 2
    assert "minMember" not in job["spec"]
    by_group = set_field("podgroup/default/train.minMember=2")
    assert by_group.rewrite("PodGroup", GROUP) is GROUP
    assert set_field("pg/*/train-*.queue=small").rewrite("PodGroup", GROUP) != GROUP
    assert set_field("job/other/train.queue=small").rewrite("PodGroup", GROUP) is GROUP


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("weight=3", "begin with queue/NAME"),
        ("node/a.weight=3", "begin with queue/NAME"),
        ("queue/a.weight", "say what the field is to be"),
        ("queue/a.weight=", "say what the field is to be"),
        ("queue/a.wieght=3", "the field is none of weight, priority, reclaimable, parent, capability.RESOURCE"),
        ("queue/a.capability=3", "the field is none of"),
        ("queue/a.weight=0", "weight is a whole number, 1 or more"),
        ("queue/a.weight=1.5", "weight is a whole number"),
        ("queue/a.reclaimable=maybe", "reclaimable is true or false"),
        ("queue/a.capability.cpu=x", "capability.cpu: 'x' is no quantity"),
        ("queue/a.capability.c pu=1", "'c pu' is no resource"),
        ("queue/.weight=1", "'' is neither a name nor a pattern"),
        ("job/train.minMember=2", "name the namespace: job/NS/NAME.FIELD=VALUE"),
        ("job/default/train.minMember=-2", "minMember is a whole number, 0 or more"),
        ("job/default/train.queue=A", "'A' is no name, as queue wants it"),
        ("job/default/train.weight=2", "the field is none of minMember, queue"),
    ],
)
def test_fields_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(ChangeInvalid) as error:
        set_field(text)
    assert says in str(error.value)


# --- requests ------------------------------------------------------------------------------------------------------


def test_requests_of_every_container_are_scaled() -> None:
    pod = scale_requests("0.5").rewrite("Pod", POD)
    assert pod is not None
    one, two = pod["spec"]["containers"]
    assert one["resources"] == {"requests": {"cpu": "750m", "memory": str(2**29)}, "limits": {"cpu": "2"}}
    assert two == {"name": "b"}
    assert pod["spec"]["initContainers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert POD["spec"]["initContainers"][0]["resources"]["requests"] == {"cpu": "1"}


def test_what_a_group_asks_at_least_is_scaled_but_not_its_members_nor_limits() -> None:
    group = scale_requests("cpu=0.5").rewrite("PodGroup", GROUP)
    assert group is not None
    assert group["spec"]["minResources"] == {
        "cpu": "20",
        "pods": "8",
        "requests.cpu": "20",
        "limits.cpu": "40",
        "memory": "64Gi",
    }
    job = scale_requests("cpu=0.5").rewrite("VolcanoJob", JOB)
    assert job is not None
    assert job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2500m"}


def test_what_asks_for_nothing_is_handed_back() -> None:
    bare = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "b"}]}}
    for kind in ("Pod", "PodGroup", "Node"):
        assert scale_requests("0.5").rewrite(kind, bare) is bare
    assert scale_requests("memory=0.5").rewrite("VolcanoJob", JOB) is JOB


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no factor"),
        ("0", "a factor is above 0"),
        ("-1", "no factor"),
        ("nan", "no factor"),
        ("1e9", "no factor"),
        ("5000", "at most 1000"),
        ("cpu=", "no factor"),
        ("cpu=0.5,0.8", "give a factor, or RESOURCE=FACTOR"),
        ("cpu=0.5,cpu=0.8", "cpu is given twice"),
    ],
)
def test_factors_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(ChangeInvalid) as error:
        scale_requests(text)
    assert says in str(error.value)


AMOUNTS = st.sampled_from(["1", "100m", "1500m", "3Gi", "0.3", "7", "1e3", "128974848", "129M", "0"])


@given(AMOUNTS, st.integers(1, 3000), st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]))
def test_a_scaled_amount_is_the_least_one_that_is_enough(amount: str, thousandths: int, resource: str) -> None:
    factor = Fraction(thousandths, 1000)
    unit = Fraction(1, 1000) if resource == "cpu" else Fraction(1)
    got = Fraction(exact_value(scaled(resource, amount, factor), -3), 1000)
    wanted = Fraction(exact_value(amount, -3), 1000) * factor
    assert wanted <= got < wanted + unit
    assert (got / unit).denominator == 1


# --- all of them ---------------------------------------------------------------------------------------------------


def test_changes_are_values_in_a_fixed_order() -> None:
    changes = read_changes(add=["1:cpu=1"], remove=["a"], set_=["queue/small.weight=2"], scale=["cpu=0.5", "memory=2"])
    assert [type(change).__name__ for change in changes] == [
        "ScaleRequests",
        "ScaleRequests",
        "SetField",
        "RemoveNodes",
        "AddNodes",
    ]
    assert pickle.loads(pickle.dumps(changes)) == changes
    assert isinstance(changes[0], ScaleRequests)


@pytest.mark.parametrize(
    "given_twice", [{"scale": ["0.5", "cpu=0.8"]}, {"scale": ["cpu=1", "cpu=2"]}, {"set_": ["queue/a.weight=1"] * 2}]
)
def test_two_changes_of_one_thing_are_refused(given_twice: dict[str, list[str]]) -> None:
    with pytest.raises(ChangeInvalid, match="is given twice"):
        read_changes(**given_twice)  # type: ignore[arg-type]
