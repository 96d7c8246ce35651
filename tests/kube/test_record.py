"""The recorder's guarantees on a real API server: ordered, unique, reliable, resumable, bookmarkable; and what its
troubles leave in the log: an expired version, a restart, a hung server, a kind that is not installed, no rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventstore import open_store
from eventstore.types import INFERRED
from tests.kube.control_plane import CRDS, ControlPlane
from tests.unit.record.runs import CLUSTER, Running, about, events, fast, live, types
from tests.unit.record.simulated import eventually
from vcledger import roles
from vcledger.ledger import Ledger
from vcledger.record.scope import Scope, scopes
from vcledger.runtime.wire import WirePort
from vcledger.testing.invariants import broken_lines

pytestmark = pytest.mark.slow

LONG = 300.0


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    fast(monkeypatch)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def port(control_plane: ControlPlane) -> Iterator[WirePort]:
    port = control_plane.connect(request_seconds=60.0)
    yield port
    port.close()


class Pods:
    """Pods of a namespace of the real server. `written`: the version of each write, in order."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.scope = Scope("Pod", namespace)
        self.written: list[int] = []

    def create(self, name: str) -> None:
        container = {"name": "main", "image": "img:1", "env": [{"name": "TOKEN", "value": "hidden"}]}
        body = {"metadata": {"name": name}, "spec": {"schedulerName": "volcano", "containers": [container]}}
        self._wrote(self.plane.request("POST", self.path, body, code=201))

    def touch(self, name: str, value: str) -> None:
        patch = {"metadata": {"labels": {"touched": value}}}
        self._wrote(self.plane.request("PATCH", f"{self.path}/{name}", patch, type_="application/merge-patch+json"))

    def delete(self, name: str) -> None:
        self.plane.request("DELETE", f"{self.path}/{name}", {"gracePeriodSeconds": 0})

    def _wrote(self, item: Any) -> None:
        self.written.append(int(item["metadata"]["resourceVersion"]))

    @property
    def now(self) -> dict[str, str]:
        """UID to version of what there is."""
        items = json.loads(self.plane.port.list("Pod", namespace=self.namespace).body)["items"]
        return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}

    def same(self, db: Path) -> None:
        eventually(lambda: live(db, "Pod") == self.now, "the ledger has what the server has", LONG)


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def versions(db: Path) -> list[int]:
    found = events(db, kinds="Pod", types=["ObjectAdded", "ObjectModified"])
    return [event.resource_version or 0 for event in found]


def kind_events(db: Path, pods: Pods) -> list[str]:
    return [type_ for type_, _ in about(db, "Pod", pods.namespace) if type_ != "Bookmark"]


def test_ordered_unique_and_reliable(db: Path, port: WirePort, pods: Pods) -> None:
    pods.create("before")
    with Running(db, port, scopes=[pods.scope]) as run:
        run.watching()
        for i in range(20):
            pods.create(f"p{i}")
            for change in range(3):
                pods.touch(f"p{i}", str(change))
        for i in range(0, 20, 2):
            pods.delete(f"p{i}")
        pods.same(db)
    found = versions(db)
    assert found == sorted(set(found)) and set(pods.written) <= set(found)
    assert len(found) == len(pods.written) + 10  # a deletion is asked for, and then done
    gone = [event for event in events(db, kinds="Pod") if event.gone]
    assert [event.name for event in gone] == [f"p{i}" for i in range(0, 20, 2)]
    assert b"hidden" not in gone[0].payload and b"managedFields" not in gone[0].payload
    with Ledger.open(str(db)) as ledger:
        assert ledger.store.verify().ok and broken_lines(ledger.store, CLUSTER) == []


def test_resumable_after_an_end_and_after_being_killed(db: Path, port: WirePort, pods: Pods) -> None:
    pods.create("p")
    for value in ("first", "second"):
        with Running(db, port, scopes=[pods.scope]) as run:
            run.watching()
            pods.touch("p", value)
            pods.same(db)
        pods.touch("p", f"away-{value}")
    with Running(db, port, scopes=[pods.scope]):
        pods.same(db)
    assert versions(db) == pods.written
    assert kind_events(db, pods) == ["ListStarted", "ListCompleted", *["WatchStarted"] * 3]


def test_bookmarkable(db: Path, port: WirePort, pods: Pods) -> None:
    """The server sends a bookmark two seconds before a watch ends, else each minute, when it has seen something newer
    of the kind; a watch without a bookmark is asked for no longer than silence is allowed."""
    pods.create("p")
    with Running(db, port, scopes=[pods.scope], idle_seconds=20.0) as run:
        run.watching()
        Pods(pods.plane, pods.plane.namespace()).create("elsewhere")
        eventually(lambda: "Bookmark" in [type_ for type_, _ in about(db, "Pod", pods.namespace)], "a bookmark", LONG)
    bookmark = [fields for type_, fields in about(db, "Pod", pods.namespace) if type_ == "Bookmark"][-1]
    assert int(bookmark["resource_version"]) >= pods.written[-1]
    with Running(db, port, scopes=[pods.scope]) as run:
        run.watching()
        eventually(lambda: kind_events(db, pods)[-1] == "WatchStarted", "the watch", LONG)
    started = [fields for type_, fields in about(db, "Pod", pods.namespace) if type_ == "WatchStarted"][-1]
    assert int(started["resource_version"]) >= int(bookmark["resource_version"])
    assert kind_events(db, pods).count("ListStarted") == 1


def test_a_version_that_etcd_has_forgotten_is_a_gap_whose_changes_a_list_finds(
    db: Path, port: WirePort, pods: Pods
) -> None:
    for name in ("stays", "changes", "goes"):
        pods.create(name)
    with Running(db, port, scopes=[pods.scope]) as run:
        run.watching()
        pods.same(db)
    pods.touch("changes", "x")
    pods.delete("goes")
    pods.create("comes")
    pods.plane.compact()
    pods.plane.restart_api()
    with Running(db, port, scopes=[pods.scope]):
        pods.same(db)
        eventually(lambda: kind_events(db, pods)[-1] == "WatchStarted", "the watch", LONG)
    assert "WatchExpired" in kind_events(db, pods)
    (gap,) = [fields for type_, fields in about(db, "Pod", pods.namespace) if type_ == "GapRecorded"]
    assert (gap["added"], gap["modified"], gap["deleted"]) == (1, 1, 1)
    (gone,) = events(db, kinds="Pod", name="goes", types="ObjectDeleted")
    assert gone.known == INFERRED


def test_reliable_while_the_api_server_restarts(db: Path, port: WirePort, pods: Pods) -> None:
    pods.create("p")
    with Running(db, port, scopes=[pods.scope]) as run:
        run.watching()
        pods.plane.stop_api(kill=True)
        eventually(lambda: "Connection refused" in str(about(db, "Pod", pods.namespace)), "the failures", LONG)
        pods.plane.start_api()
        pods.touch("p", "after")
        pods.same(db)
    assert "WatchFailed" in kind_events(db, pods)


def test_a_hung_api_server_is_noticed_and_what_it_held_back_is_there(db: Path, port: WirePort, pods: Pods) -> None:
    pods.create("p")
    with Running(db, port, scopes=[pods.scope], idle_seconds=1.5) as run:
        run.watching()
        with pods.plane.hanging():
            eventually(lambda: "WatchFailed" in kind_events(db, pods), "the silence", LONG)
        pods.touch("p", "after")
        pods.same(db)
    messages = [fields["message"] for type_, fields in about(db, "Pod", pods.namespace) if type_ == "WatchFailed"]
    assert messages[0] == "nothing was heard for 1.5 s"


def test_a_kind_whose_definition_comes_later_starts_when_it_does(
    db: Path, port: WirePort, control_plane: ControlPlane
) -> None:
    name = "numatopologies.nodeinfo.volcano.sh"
    control_plane.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    eventually(lambda: control_plane.port.list("Numatopology").code == 404, "the definition is gone", LONG)
    try:
        with Running(db, port, scopes=[Scope("Numatopology")], absent_seconds=0.3) as run:
            eventually(lambda: bool(run.recorder.standing().problems), "the problem")
            control_plane.apply(sorted(CRDS.glob("*.yaml")))
            eventually(lambda: run.recorder.standing().watching == 1, "the watch", LONG)
    finally:
        control_plane.apply(sorted(CRDS.glob("*.yaml")))
        eventually(lambda: control_plane.port.list("Numatopology").code == 200, "the definition is back", LONG)
    failures = [fields for type_, fields in about(db, "Numatopology") if type_ == "WatchFailed"]
    assert failures[0]["code"] == 404
    assert types(db, "Numatopology")[-1] == "WatchStarted"


def test_who_may_not_read_is_told_so(db: Path, control_plane: ControlPlane, pods: Pods) -> None:
    nobody = control_plane.connect("nobody")
    try:
        with Running(db, nobody, scopes=[pods.scope], absent_seconds=0.3) as run:
            eventually(lambda: bool(run.recorder.standing().problems), "the problem")
            eventually(lambda: "WatchFailed" in kind_events(db, pods) if db.exists() else False, "the event", LONG)
    finally:
        nobody.close()
    failure = next(fields for type_, fields in about(db, "Pod", pods.namespace) if type_ == "WatchFailed")
    assert failure["code"] == 403 and "cannot list resource" in failure["message"]


def test_all_kinds_and_labels_and_a_second_recorder(
    db: Path, port: WirePort, pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods.create("chosen")
    pods.create("other")
    pods.touch("chosen", "yes")
    wanted = scopes([], [pods.namespace], ["pods:touched=yes"])
    monkeypatch.setattr(roles, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(roles, "RENEWALS", 100)
    with Running(db, port, scopes=wanted) as run:
        run.watching()
        second = Running(db, port, scopes=wanted)
        with pytest.raises(roles.AlreadyRecorded), second:
            eventually(lambda: second.error is not None, "the refusal")
        pods.touch("chosen", "no")
        pods.touch("other", "yes")
        eventually(lambda: {e.name for e in events(db, kinds="Pod") if e.name} == {"chosen", "other"}, "both", LONG)
    with open_store(str(db), read_only=True) as store:
        there = [head.stream.name for head in store.live(CLUSTER, "Pod") if head.stream.name]
        assert there == ["other"] and store.verify().ok
    assert run.recorder.standing().scopes == 14
