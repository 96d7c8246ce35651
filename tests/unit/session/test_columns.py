"""What is kept by row and by shape: what counts as a change, and that a few rows are judged as many are.

Owns these. Called by pytest.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.session.world import World, group, node, pod, queue
from vcledger.scheduler.session import columns as kept
from vcledger.scheduler.session.columns import KeptColumns
from vcledger.scheduler.session.feasible import ALL_CHECKS
from vcledger.scheduler.session.statics import Statics


def test_a_pod_that_starts_on_its_node_changes_no_row_and_one_that_ends_changes_its_own() -> None:
    world = World(queue(), node("a"), node("b"), group("g"), pod("x", "g", on="a", phase="Pending"))
    world.mirror.refresh()
    table = world.mirror.nodes
    before = table.changes
    world.see(pod("x", "g", on="a", phase="Running"))
    world.mirror.refresh()
    assert table.changes == before
    world.see(pod("x", "g", on="a", phase="Succeeded"))
    world.mirror.refresh()
    assert table.changed_since(before).tolist() == [table.row["a"]]
    assert table.idle[table.row["a"], 0] == 4000


def test_another_pod_that_asks_for_as_much_is_a_change_and_a_new_label_is_one_of_the_object() -> None:
    world = World(queue(), node("a"), group("g"), pod("x", "g", on="a"))
    world.mirror.refresh()
    table = world.mirror.nodes
    before, objects = table.changes, table.object_changes
    world.lose(pod("x", "g", on="a"))
    world.see(pod("y", "g", on="a"))
    world.mirror.refresh()
    assert table.changed_since(before).tolist() == [0]
    assert table.object_changes == objects
    world.see(node("a", labels={"zone": "z"}))
    world.mirror.refresh()
    assert table.objects_changed_since(objects).tolist() == [0]


@pytest.mark.parametrize("few", (0, 1_000))
def test_rows_judged_number_by_number_are_those_judged_column_by_column(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "FEW", few)
    nodes = [
        node("fits"), node("full", cpu="1"), node("crowded", pods="1"), node("cordoned", unschedulable=True),
        node("leaving", cpu="2"),
    ]  # fmt: skip
    world = World(queue(), *nodes, group("g"), pod("waits", "g", cpu="2"))
    world.mirror.refresh()
    (task,) = world.mirror.jobs["d/g"].pending()
    columns = KeptColumns(world.mirror, Statics(world.mirror))
    assert columns.of(task.like, ALL_CHECKS).now.all() == np.False_
    world.see(pod("there", "g", cpu="0", on="crowded"), pod("going", "g", cpu="2", on="leaving", deleting=True))
    world.see(pod("small", "g", on="full"), pod("other", "g", on="fits"))
    world.mirror.refresh()
    found, table = columns.of(task.like, ALL_CHECKS), world.mirror.nodes
    assert [name for name in table.names if found.now[table.row[name]]] == ["fits"]
    assert [name for name in table.names if found.later[table.row[name]]] == ["leaving"]
    assert [name for name in table.names if not found.counts[table.row[name]]] == ["crowded"]


def test_images_tell_pods_apart_once_a_node_says_which_it_has() -> None:
    one, other = pod("one", "g"), pod("other", "g")
    one["spec"]["containers"][0]["image"], other["spec"]["containers"][0]["image"] = "a:1", "b:1"
    world = World(queue(), node("n"), group("g"), one, other)
    world.mirror.refresh()
    first, second = world.mirror.jobs["d/g"].pending()
    assert first.like is second.like
    having = node("n")
    having["status"]["images"] = [{"names": ["a:1"], "sizeBytes": 1 << 29}]
    world.see(having)
    world.mirror.refresh()
    first, second = world.mirror.jobs["d/g"].pending()
    assert first.like is not second.like
