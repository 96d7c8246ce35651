"""kube-scheduler-simulator's records and snapshots, and the event exporter's lines.

Owns the proof that these forms are told, read and refused line by line.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard

from eventstore.types import INFERRED, RECORDED
from tests.unit.sources.given import compact, events, imported, ledger, moment, pod, written
from vcledger.sources import NothingToImport
from vcledger.sources.detect import Format, detect
from vcledger.sources.items import Vanished
from vcledger.sources.simulator import Records


def record(event: str, obj: Any, second: float, **more: Any) -> bytes:
    """A line of the recorder's."""
    return compact({"time": moment(second), "event": event, "resource": obj} | more) + b"\n"


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """What the recorder keeps of an object that was deleted."""
    meta = {name: obj["metadata"].get(name, "") for name in ("name", "namespace")}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta}


def node(version: int = 5) -> dict[str, Any]:
    meta = {"name": "n1", "uid": "uid-n1", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": {"cpu": "4"}}}


def life() -> list[bytes]:
    bound = pod("p1", 12, spec={"nodeName": "n1", "containers": [{"name": "main"}]})
    return [
        record("Add", node(), 1),
        record("Add", pod("p1", 10), 2),
        record("Update", bound, 3.5),
        record("Delete", bare(bound), 9),
    ]


def told(tmp_path: Path, **filters: Any) -> list[tuple[str, str, int]]:
    return [(one.type, one.stream.name, one.known) for one in events(tmp_path, **filters)]


def test_a_record_is_what_informers_saw(tmp_path: Path) -> None:
    path = written(tmp_path, "record.jsonl", *life())
    report = imported(tmp_path, path)
    assert report.files[0].format == "simulator record"
    assert (report.read, report.broken_count) == (4, 0)
    assert told(tmp_path) == [
        ("ObjectAdded", "n1", RECORDED),
        ("ObjectAdded", "p1", RECORDED),
        ("ObjectModified", "p1", RECORDED),
        ("ObjectDeleted", "p1", INFERRED),
    ]
    last, gone = events(tmp_path, name="p1")[-2:]
    assert last.payload == gone.payload
    assert (gone.observed_at - last.observed_at) / 1e6 == 5.5
    assert json.loads(last.payload)["spec"]["nodeName"] == "n1"
    assert imported(tmp_path, path).stored == 0
    with ledger(tmp_path) as opened:
        assert set(opened.cache(model="exact").nodes) == {"n1"}
        assert not opened.cache(model="exact").pods


def test_a_line_of_a_record_that_goes_back_in_time_is_told(tmp_path: Path) -> None:
    lines = life()
    back = record("Update", pod("p1", 11), 3).replace(b"2026-03-01T", b"2025-03-01T")
    path = written(tmp_path, "r", *lines[:3], back, lines[3])
    report = imported(tmp_path, path)
    assert report.notes == [f"{path}: line 4 goes back in time, by 365 d: the time of what is before it stands"]
    before, odd = events(tmp_path, name="p1")[1:3]
    assert odd.observed_at == before.observed_at
    assert imported(tmp_path, written(tmp_path, "s", *lines), db="other.db").notes == []


@pytest.mark.slow
def test_a_record_that_has_grown_goes_on(tmp_path: Path) -> None:
    lines = life()
    imported(tmp_path, written(tmp_path, "a", *lines[:3]))
    report = imported(tmp_path, written(tmp_path, "b", *lines, record("Add", pod("p2", 20), 10)))
    assert (report.stored, report.late) == (2, 0)
    assert told(tmp_path)[3:] == [("ObjectDeleted", "p1", INFERRED), ("ObjectAdded", "p2", RECORDED)]


@pytest.mark.slow
def test_a_deletion_finds_the_object_in_another_file_or_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*life()[:3], record("Add", pod("p2", 20), 4)]
    first = written(tmp_path, "1", *lines)
    second = written(tmp_path, "2", life()[3], record("Delete", bare(pod("p2")), 10))
    imported(tmp_path, first, second, db="together.db")
    imported(tmp_path, first, db="one.db")
    imported(tmp_path, second, db="one.db")
    monkeypatch.setattr("vcledger.sources.simulator.KEPT_BYTES", 10)
    imported(tmp_path, written(tmp_path, "3", first.read_bytes(), second.read_bytes()), db="whole.db")
    for db in ("together.db", "one.db", "whole.db"):
        found = [(one.type, one.stream.name, one.known) for one in events(tmp_path, db)]
        assert found[-2:] == [("ObjectDeleted", "p1", INFERRED), ("ObjectDeleted", "p2", INFERRED)], db
        assert imported(tmp_path, first, second, db=db).stored == 0


def test_a_state_that_takes_the_place_of_another_takes_no_more_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last states of both pods are kept for their deletions, however often one of them has changed."""
    monkeypatch.setattr("vcledger.sources.simulator.KEPT_BYTES", 3 * len(compact(pod("p1"))))
    monkeypatch.setattr(Records, "_deleted", _of_kept(found := []))
    changes = [record("Update", pod("p2", 20 + number), 3 + number / 10) for number in range(20)]
    lines = [record("Add", pod("p1", 10), 1), record("Add", pod("p2", 20), 2), *changes]
    imported(tmp_path, written(tmp_path, "record.jsonl", *lines, record("Delete", bare(pod("p1")), 9)))
    assert found == [True]


def _of_kept(found: list[bool]) -> Any:
    """Tells whether the last state of what was deleted had been kept, and goes on."""
    deleted = Records._deleted

    def told(self: Records, kind: str, about: Any, time: int) -> Any:
        item = deleted(self, kind, about, time)
        found.append(not isinstance(item, Vanished))
        return item

    return told


def test_broken_lines_of_a_record_are_named_and_their_neighbours_are_stored(tmp_path: Path) -> None:
    lines = life()
    wrong = [
        record("Add", pod("x", 1) | {"metadata": None}, 3),
        compact({"time": "noon", "event": "Add", "resource": pod("x", 1)}) + b"\n",
        record("Add", {"metadata": {"name": "x"}}, 3),
        b'{"time":"2026-03-01T09:00:00Z","event":"Add","resource":{"kind":"Pod"\n',
        record("Explode", pod("x", 1), 3),
    ]
    unwanted = [
        record("Delete", bare(pod("never-seen")), 3),
        record("Add", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ns", "uid": "u"}}, 3),
    ]
    mixed = [line for pair in zip(lines, wrong, strict=False) for line in pair]
    report = imported(tmp_path, written(tmp_path, "r", *mixed, wrong[4], *unwanted))
    assert [one.line for one in report.broken] == [2, 4, 6, 8, 9]
    assert sum(report.ignored.values()) == 2
    assert report.ignored["deletion, by name only, of what is not in the ledger, or gone from it already"] == 1
    assert len(told(tmp_path)) == 4


@pytest.mark.parametrize("form", ["array", "pretty", "zstd", "first line broken"])
@pytest.mark.slow
def test_a_record_in_other_wrappings(tmp_path: Path, form: str) -> None:
    lines = [json.loads(line) for line in life()]
    data = {
        "array": json.dumps(lines).encode(),
        "pretty": b"\n".join(json.dumps(line, indent=2).encode() for line in lines),
        "zstd": zstandard.compress(b"".join(life())),
        "first line broken": b'{"time":"2026\n' + b"".join(life()),
    }[form]
    report = imported(tmp_path, written(tmp_path, "r", data))
    assert len(told(tmp_path)) == 4
    assert report.files[0].format == "simulator record"


def snapshot() -> dict[str, Any]:
    typeless = {name: value for name, value in pod("p1").items() if name not in ("kind", "apiVersion")}
    names = ("pvs", "pvcs", "storageClasses", "priorityClasses", "namespaces")
    config = {"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1"}
    lists: dict[str, Any] = {name: [] for name in names}
    return {"pods": [typeless, {"metadata": 5}], "nodes": [node()]} | lists | {"pvs": None, "schedulerConfig": config}


@pytest.mark.parametrize("form", ["line", "pretty", "yaml"])
def test_a_snapshot_is_a_state(tmp_path: Path, form: str) -> None:
    data = {
        "line": compact(snapshot()),
        "pretty": json.dumps(snapshot(), indent=2).encode(),
        "yaml": yaml.safe_dump(snapshot()).encode(),
    }[form]
    report = imported(tmp_path, written(tmp_path, "snap", data))
    assert sorted(told(tmp_path)) == [("ObjectAdded", "n1", RECORDED), ("ObjectAdded", "p1", RECORDED)]
    assert report.files[0].format == "simulator snapshot"
    assert report.broken_count == 1
    assert json.loads(events(tmp_path, kinds="Pod")[0].payload)["kind"] == "Pod"


# --- the event exporter -------------------------------------------------------------------------------------------


def exported(name: str = "p1.17", version: int = 30, minute: int = 1, **more: Any) -> dict[str, Any]:
    """An Event as the exporter writes it."""
    about = {"kind": "Pod", "namespace": "default", "name": "p1", "uid": "uid-of-p1", "apiVersion": "v1"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-03-01T08:00:00Z",
        },
        "reason": "FailedScheduling",
        "message": "0/1 nodes are unavailable",
        "source": {"component": "volcano"},
        "firstTimestamp": "2026-03-01T08:00:00Z",
        "lastTimestamp": f"2026-03-01T08:{minute:02d}:00Z",
        "count": minute,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
        "clusterName": "prod",
        "involvedObject": about | {"labels": {"app": "web"}, "annotations": {"a": "b"}},
    } | more


def test_exported_events_are_events(tmp_path: Path) -> None:
    lines = [exported(), exported(version=40, minute=5), exported("q.1", 50, 6, involvedObject={})]
    path = written(tmp_path, "events.jsonl", *(compact(line) + b"\n" for line in lines))
    report = imported(tmp_path, path)
    assert report.files[0].format == "exported events"
    assert (report.read, report.stored, report.broken_count) == (3, 3, 0)
    first, again, other = events(tmp_path)
    assert [one.type for one in (first, again, other)] == ["ObjectAdded", "ObjectModified", "ObjectAdded"]
    assert (again.observed_at - first.observed_at) // 60_000_000 == 4
    assert json.loads(first.payload) == {"kind": "Event", "apiVersion": "v1"} | lines[0]
    assert first.about == "uid-of-p1"
    assert other.about == ""
    assert imported(tmp_path, path).stored == 0
    assert any("not say what it is about" in sentence for sentence in report.cannot_prove)


@pytest.mark.parametrize("as_text", [True, False])
def test_a_layout_with_the_whole_event_is_read(tmp_path: Path, as_text: bool) -> None:
    told = [exported(), exported("q.1", 50, 6)]
    lines = [compact({"region": "eu", "event": json.dumps(one) if as_text else one}) for one in told]
    report = imported(tmp_path, written(tmp_path, "laid-out.jsonl", b"\n".join(lines)))
    assert report.files[0].format == "exported events"
    assert (report.read, report.stored, report.broken_count) == (2, 2, 0)
    assert [json.loads(one.payload)["message"] for one in events(tmp_path)] == [one["message"] for one in told]


@pytest.mark.parametrize("nested", [True, False])
def test_a_layout_without_the_event_is_refused_with_what_to_do(tmp_path: Path, nested: bool) -> None:
    fields = {"reason": "Scheduled", "message": "assigned", "kind": "Pod", "name": "a", "type": "Normal"}
    line = compact({"eventType": "Normal", "details": fields} if nested else fields)
    with pytest.raises(NothingToImport, match=r"a layout of somebody's own.*toJson"):
        imported(tmp_path, written(tmp_path, "laid-out.jsonl", line))


def test_other_json_lines_are_no_events_in_a_layout() -> None:
    for line in (b'{"level":"info","message":"x","reason":"y"}', b'{"message":1}', b'{"a":[1]}'):
        assert detect(line) is Format.unknown


def test_exported_events_stand_beside_the_exporters_own_log_and_broken_lines(tmp_path: Path) -> None:
    log = compact({"level": "info", "time": "2026-03-01T08:00:00Z", "message": "sending payload"})
    lines = [
        compact(exported()),
        log,
        b"08:00AM INF sending payload",
        compact(exported(count="x")),
        compact(exported("q")),
    ]
    report = imported(tmp_path, written(tmp_path, "e", b"\n".join(lines)))
    assert [one.line for one in report.broken] == [3, 4]
    assert report.ignored == {"a line of the event exporter's own log": 1}
    assert [one.name for one in events(tmp_path)] == ["p1.17", "q"]


def test_a_list_of_events_is_no_export(tmp_path: Path) -> None:
    items = {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [exported()]}
    report = imported(tmp_path, written(tmp_path, "e", json.dumps(items, indent=1).encode()))
    assert report.files[0].format == "JSON objects"
    assert len(events(tmp_path)) == 1


@pytest.mark.parametrize(
    ("data", "format_"),
    [
        (life()[0], Format.simulator),
        (b"{\n" + life()[0], Format.simulator),
        (compact(exported()), Format.exported),
        (json.dumps(exported(), indent=2).encode(), Format.exported),
        (b'{"metadata\n' + compact(exported()), Format.exported),
        (compact(snapshot()), Format.snapshot),
        (json.dumps(snapshot(), indent=2).encode(), Format.snapshot),
        (compact({"event": "Add", "resource": "pods"}), Format.unknown),
        (compact(pod() | {"event": "Add", "resource": {}}), Format.objects),
    ],
)
def test_told_by_content(data: bytes, format_: Format) -> None:
    assert detect(data) is format_


@pytest.mark.parametrize("begins", [b"{x", b'{"metadata":'])
def test_blank_lines_without_end_are_looked_through_once(begins: bytes) -> None:
    """For each line the rest of them once more would take minutes."""
    assert detect(begins + b"\n" * (1 << 18)) is Format.unknown


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_whatever_is_done_to_a_line_no_good_one_is_lost(tmp_path: Path, seed: int) -> None:
    """Bytes are changed in half of the lines; the others come in, and every line is accounted for."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    lines, good = [], set()
    for number in range(40):
        name = f"good-{number}" if number % 2 == 0 else f"p-{number}"
        whole = record("Add", pod(name, number), number) if number % 4 < 2 else compact(exported(name, number)) + b"\n"
        line = bytearray(whole[:-1])
        if number % 2:
            for _ in range(chance.randint(1, 3)):
                line[chance.randrange(len(line))] = chance.choice(b'\0"{}[],:x\xff 9')
        else:
            good.add(name)
        lines.append(bytes(line))
    report = imported(tmp_path, written(tmp_path, "mixed", b"\n".join(lines)))
    assert good <= {one.name for one in events(tmp_path)}
    assert report.read == 40
    assert report.stored + report.already + report.broken_count + sum(report.ignored.values()) == 40
