"""Resources: reading, arithmetic with its nil map, comparing; and the statuses of tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.objects.quantity import QuantityInvalid
from volcano.objects.resource import Resource, ResourceInsufficient, is_scalar_name, new_resource
from volcano.objects.status import STATUS_BY_WORD, TaskStatus, task_status


def test_reading_keeps_what_the_scheduler_counts() -> None:
    """Vector 011."""
    resource = new_resource(
        {
            "cpu": "1500m",
            "memory": "1Ki",
            "pods": "10",
            "ephemeral-storage": "1Gi",
            "nvidia.com/gpu": "2",
            "hugepages-2Mi": "64Mi",
            "attachable-volumes-csi-own": "20",
            "kubernetes.io/thing": "5",
            "requests.cpu": "1",
            "requests.nvidia.com/gpu": "2",
            "count/pods": "7",
            "gpu": "1",
        }
    )
    assert resource.amounts() == {
        "cpu": 1500.0,
        "memory": 1024.0,
        "attachable-volumes-csi-own": 20_000.0,
        "ephemeral-storage": 2.0**30 * 1000,
        "hugepages-2Mi": 64 * 2.0**20 * 1000,
        "kubernetes.io/thing": 5000.0,
        "nvidia.com/gpu": 2000.0,
        "pods": 10.0,
    }
    assert resource.max_task_num == 10


def test_reading_refuses_what_is_no_quantity() -> None:
    with pytest.raises(QuantityInvalid):
        new_resource({"cpu": "one"})


def test_the_exact_reading_is_in_ints() -> None:
    resource = new_resource({"memory": "9007199254740993", "ephemeral-storage": "9007199254740993"}, exact=True)
    assert resource.memory == 2**53 + 1
    assert resource.get("ephemeral-storage") == (2**53 + 1) * 1000


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("nvidia.com/gpu", True),
        ("gpu", False),
        ("cpu", False),
        ("hugepages-1Gi", True),
        ("a/b/c", False),
        ("UPPER.com/x", False),
        ("own.io/" + "x" * 63, True),
        ("own.io/" + "x" * 64, False),
        ("own.io/-x", False),
        ("requests.own.io/x", False),
    ],
)
def test_scalar_names(name: str, scalar: bool) -> None:
    assert is_scalar_name(name) is scalar


def test_subtracting_from_no_scalars_is_lost() -> None:
    """Vector 013: Go's nil map."""
    idle = Resource(8000.0, 100.0)
    pod = Resource(1000.0, 0.0, {"pods": 1.0})
    idle.subtract_unchecked(pod)
    assert idle.scalars is None
    idle.add(pod)
    assert (idle.milli_cpu, idle.scalars) == (8000.0, {"pods": 1.0})


def test_the_assertion_of_subtract() -> None:
    """Vector 015."""
    used = Resource(1000.0, 0.0, {"ephemeral-storage": 992.0})
    with pytest.raises(ResourceInsufficient, match="resource is not sufficient to do operation"):
        used.subtract(Resource(1000.0, 0.0, {"ephemeral-storage": 1000.0}))
    assert used == Resource(1000.0, 0.0, {"ephemeral-storage": 992.0})
    used.subtract(Resource(1000.05, 0.0, {"ephemeral-storage": 992.0}))
    assert used.milli_cpu == pytest.approx(-0.05)


def test_an_exact_fit_passes_and_one_milli_over_fails() -> None:
    """Vector 091 and fact 4."""
    idle = Resource(2000.0, 10.0, {"pods": 1.0})
    assert Resource(2000.0, 10.0, {"pods": 1.0}).less_equal(idle)
    assert Resource(2000.09, 10.0).less_equal(idle)
    assert not Resource(2000.2, 10.0).less_equal(idle)
    assert Resource(2001.0, 11.0, {"x.io/y": 1.0, "pods": 2.0}).exceeding(idle) == ["cpu", "memory", "pods", "x.io/y"]
    assert Resource(0.0, 0.0, {"x.io/y": 0.0}).less_equal(idle)


def test_set_max_and_empty() -> None:
    resource = Resource(1.0, 5.0)
    resource.set_max(Resource(2.0, 3.0, {"a.io/b": 1.0}))
    assert resource.amounts() == {"cpu": 2.0, "memory": 5.0, "a.io/b": 1.0}
    resource.set_max(Resource(0.0, 0.0, {"a.io/b": 3.0, "a.io/c": -1.0}))
    assert resource.scalars == {"a.io/b": 3.0, "a.io/c": -1.0}
    assert Resource(0.0, 0.0, {"pods": 1.0}).is_empty()
    assert not Resource(0.0, 0.0, {"a.io/b": 1.0}).is_empty()
    assert not Resource(0.1).is_empty()


amounts = st.builds(
    Resource,
    st.integers(0, 2**40).map(float),
    st.integers(0, 2**50).map(float),
    st.none() | st.dictionaries(st.sampled_from(("pods", "a.io/b")), st.integers(0, 99).map(float)),
)


@given(amounts, amounts)
def test_adding_then_subtracting_gives_back_the_same_amounts(one: Resource, other: Resource) -> None:
    total = one.clone()
    total.add(other)
    assert other.less_equal(total)
    total.subtract(other)
    left = {name: amount for name, amount in total.amounts().items() if amount}
    assert left == {name: amount for name, amount in one.amounts().items() if amount}


@pytest.mark.parametrize(
    ("phase", "deleting", "node", "status"),
    [
        ("Pending", False, "", "Pending"),
        ("Pending", False, "n1", "Bound"),
        ("Pending", True, "n1", "Releasing"),
        ("Running", False, "n1", "Running"),
        ("Running", True, "n1", "Releasing"),
        ("Succeeded", True, "n1", "Succeeded"),
        ("Failed", True, "n1", "Failed"),
        ("Unknown", True, "n1", "Unknown"),
        ("", True, "n1", "Unknown"),
    ],
)
def test_status_of_a_pod(phase: str, deleting: bool, node: str, status: str) -> None:
    """Vectors 016, 017, 020."""
    assert task_status(phase, deleting, node) == STATUS_BY_WORD[status]
    assert task_status(phase, deleting, node).word == status


def test_statuses_are_the_bits_of_the_dumps() -> None:
    assert [status.value for status in TaskStatus] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
