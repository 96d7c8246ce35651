"""The node table is looked at by kind: what it says of each node is what that node says when asked alone."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from projections.diagnosis.amounts import covers, exceeding
from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.views import NodeView
from tests.unit.diagnosis.build import cluster, node, pod, task

GPU = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]


def every_kind() -> list[NodeView]:
    """Two nodes of each mixture of what a pod may be refused for."""
    choices = product(("4", "8"), ({}, {"cpu": 3500.0}), (None, GPU), (False, True), ("a100", ""), ("True", "False"))
    shapes: list[dict[str, Any]] = [
        {
            "cpu": cpu,
            "used": used,
            "taints": taints,
            "unschedulable": closed,
            "labels": {"accel": accel},
            "ready": ready,
        }
        for cpu, used, taints, closed, accel, ready in choices
    ]
    shapes += [{"releasing": {"cpu": 9000.0}}, {"assumed": 1}, {"pods": 110}, {"schedulable": False}]
    shapes += [{"resources": {"nvidia.com/gpu": "2"}}, {"cpu": "1", "pipelined": {"memory": 2.0**35}}]
    return [node(f"n{number}-{twin}", **dict(shape)) for number, shape in enumerate(shapes) for twin in "ab"]


@pytest.mark.parametrize("request_of", [{"cpu": "5"}, {"cpu": "1", "nvidia.com/gpu": "1"}, {"memory": "40Gi"}, {}])
@pytest.mark.parametrize("spec", [{}, {"nodeSelector": {"accel": "a100"}}, {"tolerations": [{"operator": "Exists"}]}])
def test_a_node_of_the_table_says_what_it_says_alone(request_of: dict[str, str], spec: dict[str, Any]) -> None:
    nodes = every_kind()
    asking = pod(**spec)
    taken = {"n0-b": {"cpu": 1000.0}}
    evaluation = Evaluation(task(asking, request_of), asking, cluster(nodes), taken=taken)
    assert evaluation.table() == {one.name: evaluation.on(one) for one in nodes}


def test_nodes_alike_share_their_refusals() -> None:
    asking = pod()
    table = Evaluation(task(asking, {"cpu": "9"}), asking, cluster([node("a"), node("b"), node("c", cpu="4")])).table()
    assert table["a"] is table["b"]
    assert table["c"] != table["a"]


AMOUNTS: tuple[dict[str, float], ...] = (
    {},
    {"cpu": 0.0},
    {"cpu": 1000.0},
    {"cpu": 1000.05, "memory": 5.0},
    {"cpu": -1.0},
    {"memory": -0.05},
    {"x": 3.0},
)


@pytest.mark.parametrize(("asked", "available"), list(product(AMOUNTS, AMOUNTS)))
def test_what_covers_is_what_nothing_exceeds(asked: dict[str, float], available: dict[str, float]) -> None:
    assert covers(asked, available) is (exceeding(asked, available) == [])
