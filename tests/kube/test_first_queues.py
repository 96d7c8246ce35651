"""On a real API server that has no queue the scheduler makes those that Volcano makes, while the wire fails; beside
another scheduler it makes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.kube import things
from tests.kube.control_plane import ControlPlane
from tests.kube.proxy import running_proxy
from tests.kube.schedulers import CLUSTER, QUICK, is_sound, nodes_of, running, settle, through, until
from vcledger.ledger import Ledger

pytestmark = pytest.mark.slow


def queues(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """What each queue is to be."""
    found = plane.request("GET", f"{things.VOLCANO}/queues")["items"]
    return {item["metadata"]["name"]: item["spec"] for item in found}


def test_the_first_queues_are_made(clean_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    plane, db = clean_plane, str(tmp_path / "ledger.db")
    things.node(plane, "node-1", cpu="4")
    things.gang(plane, namespace, "gang", 2)
    beside = msgspec.structs.replace(QUICK, beside=True)
    with running_proxy(plane, tmp_path / "kubeconfig") as proxy:
        with running(str(tmp_path / "beside.db"), through(proxy), beside) as one:
            until(lambda: all(nodes_of(plane, namespace).values()), "the gang is bound")
            assert one.end().problem == ""
        assert queues(plane) == {}, "they are the other scheduler's to make"
        for fault in ("409", "500", "drop-after", "drop-before"):
            proxy.fault("POST", r"/queues$", fault, 1)
        with running(db, through(proxy)) as one:
            until(lambda: len(queues(plane)) == 2, "both are made")
            until(lambda: one.state.out == 0, "nothing is out")
            settle(one, plane)
            assert one.end().problem == ""
    assert {name: (spec["weight"], spec["reclaimable"]) for name, spec in queues(plane).items()} == {
        "root": (1, False),
        "default": (1, True),
    }
    with Ledger.open(db, read_only=True) as ledger:
        asked = [one.event.queue for one in ledger.recorded(cluster=CLUSTER, types="QueueCreateRequested")]
        done = [one.event for one in ledger.recorded(cluster=CLUSTER, types="QueueCreateSucceeded")]
        failed = [one.event for one in ledger.recorded(cluster=CLUSTER, types="QueueCreateFailed")]
        assert set(ledger.cache(cluster=CLUSTER).queues) == {"root", "default"}
    assert set(asked) == {"root", "default"} and len(asked) == len(done) + len(failed)
    assert all(one.code in (409, 500) or one.answer_lost for one in failed) and len(failed) >= 2
    is_sound(db)
