"""Since when a pod or a group waits without a break, and which pods are ending on a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from projections.diagnosis.views import GroupView, TaskView
from tests.unit.vcledger import build
from vcledger.at import MICROS, format_time
from vcledger.codec import recorded
from vcledger.ledger import Ledger
from vcledger.why_waits import ending_on, group_waits_since, pod_waits_since
from volcano.events.base import Recorded


def time_of(second: float) -> str:
    return format_time(build.START + int(second * MICROS))


def made(version: int, **parts: Any) -> dict[str, Any]:
    """Pod p at a version; `gates`, `refused` (since when) and `node_name` shape it."""
    thing = build.pod("p", version, node_name=parts.get("node_name", ""))
    thing["metadata"]["creationTimestamp"] = time_of(1)
    if parts.get("gates"):
        thing["spec"]["schedulingGates"] = [{"name": "wait"}]
    if parts.get("refused"):
        condition = {"type": "PodScheduled", "status": "False", "lastTransitionTime": parts["refused"]}
        thing["status"]["conditions"] = [condition]
    return thing


def history(tmp_path: Path, *things: dict[str, Any]) -> list[Recorded]:
    """The observations, one a second, newest first."""
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as ledger:
        for second, thing in enumerate(things, start=1):
            ledger.store.append([build.seen("ADDED" if second == 1 else "MODIFIED", thing, second)])
        return [recorded(one) for one in ledger.store.read(reverse=True)]


def test_a_pod_waits_since_it_was_refused_else_since_it_is_there(tmp_path: Path) -> None:
    assert pod_waits_since(history(tmp_path, made(1))) == time_of(1)
    (tmp_path / "b").mkdir()
    assert pod_waits_since(history(tmp_path / "b", made(1), made(2, refused=time_of(2)))) == time_of(2)


def test_a_pod_that_was_gated_waits_since_its_gates_were_taken_off(tmp_path: Path) -> None:
    refused = made(3, refused=time_of(1))
    assert pod_waits_since(history(tmp_path, made(1, gates=True), made(2), refused)) == time_of(2)
    (tmp_path / "b").mkdir()
    assert pod_waits_since(history(tmp_path / "b", made(1, gates=True))) is None
    (tmp_path / "c").mkdir()
    assert pod_waits_since(history(tmp_path / "c", made(1), made(2, node_name="n1"))) is None


def test_a_group_waits_since_its_oldest_member_that_still_waits() -> None:
    def member(name: str, status: str, created: str) -> TaskView:
        return TaskView("default", name, name, status, {}, created=created)

    tasks = [member("a", "Running", "t1"), member("b", "Pending", "t5"), member("c", "Pending", "t4")]
    assert group_waits_since(GroupView("default", "g", None, tasks)) == "t4"
    assert group_waits_since(GroupView("default", "g", None, tasks[:1])) is None
    assert group_waits_since(None) is None


def test_pods_that_are_ending_are_told_with_their_eviction(tmp_path: Path) -> None:
    def ending(name: str, version: int, **status: Any) -> dict[str, Any]:
        thing = build.pod(name, version, node_name="n1", phase="Running")
        thing["metadata"]["deletionTimestamp"] = time_of(40)
        thing["status"] |= status
        return thing

    evict = {"type": "Ready", "status": "False", "reason": "Evict", "message": "Pod is evicted, because of preempt"}
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as ledger:
        ledger.store.append(build.life())
        ledger.store.append([build.seen("ADDED", ending("x", 20, conditions=[evict]), 20)])
        ledger.store.append([build.seen("ADDED", ending("y", 21), 21)])
        cache = ledger.cache(cluster="c")
        found = ending_on(ledger, cache, "c", "n1", ledger.store.head(), None)
        assert [(one.key, one.position, one.evicted, one.until) for one in found] == [
            ("default/x", 10, "Pod is evicted, because of preempt", time_of(40)),
            ("default/y", 11, "", time_of(40)),
        ]
        assert ending_on(ledger, cache, "c", "no-such-node", ledger.store.head(), None) == []
