"""Audit logs and cache dumps: what they prove alone, and that beside a watch they never change what a cache knew.

Owns the rules of lateness and coverage. Must not test formats' framing.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eventstore.types import INFERRED, RECORDED
from projections.cache import state_json
from tests.data import recording
from tests.unit.sources.given import compact, events, imported, ledger, moment, pod, recorded, written
from vcledger.compare import compare
from vcledger.schedulerargs import config_of
from vcledger.sources import ImportOptions, StorageOptions, import_paths
from vcledger.sources.volcano_dump import read
from volcano.events.binding import BindFailed, BindRequested, BindSucceeded


def audit(
    verb: str,
    obj: dict[str, Any] | None,
    second: float,
    *,
    code: int = 200,
    resource: str = "pods",
    subresource: str = "",
    request: dict[str, Any] | None = None,
    took: float = 0.01,
    **extra: Any,
) -> bytes:
    """A line of an audit log, answered `second` seconds after nine."""
    name = (obj or request or {}).get("metadata", {}).get("name", "p1")
    reference = {"resource": resource, "namespace": "default", "name": name, "apiVersion": "v1"}
    line: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"audit-{second}-{verb}-{name}",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/default/{resource}",
        "verb": verb,
        "user": {"username": "volcano-scheduler"},
        "objectRef": reference | ({"subresource": subresource} if subresource else {}),
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": moment(second - took).replace("123Z", "Z"),
        "stageTimestamp": moment(second).replace("123Z", "Z"),
    }
    line |= {"responseObject": obj} if obj is not None else {}
    line |= {"requestObject": request} if request is not None else {}
    return compact(line | extra) + b"\n"


def binding(name: str, node: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    return {"kind": "Binding", "apiVersion": "v1", "metadata": meta, "target": {"kind": "Node", "name": node}}


def bind(name: str, node: str, second: float, code: int = 201, message: str = "", **extra: Any) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": code, "message": message}
    answer = {"code": code, "message": message, "reason": "Conflict" if code == 409 else ""}
    return audit(
        "create",
        status,
        second,
        code=code,
        subresource="binding",
        request=binding(name, node),
        responseStatus=answer,
        **extra,
    )


def test_writes_give_inferred_observations_at_the_time_of_the_answer(tmp_path: Path) -> None:
    lines = (
        audit("create", pod("p1", 10), 1, code=201),
        audit("update", pod("p1", 11), 2, subresource="status"),
        audit("patch", pod("p1", 12), 3),
        audit("delete", pod("p1", 13, deletionTimestamp=moment(34), deletionGracePeriodSeconds=30), 4),
        audit("delete", pod("p1", 14, deletionTimestamp=moment(5), deletionGracePeriodSeconds=0), 5),
    )
    report = imported(tmp_path, written(tmp_path, "audit.log", *lines))
    found = events(tmp_path)
    assert [(one.type, one.resource_version) for one in found] == [
        ("ObjectAdded", 10),
        ("ObjectModified", 11),
        ("ObjectModified", 12),
        ("ObjectModified", 13),
        ("ObjectDeleted", 14),
    ]
    assert {one.known for one in found} == {INFERRED}
    assert [one.observed_at - found[0].observed_at for one in found] == [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000]
    assert any("audit log" in sentence for sentence in report.cannot_prove)


NOTHING = {
    "failed": (audit("update", pod("p1", 11), 2, code=409), "failed (409)"),
    "no answer": (audit("update", pod("p1", 11), 2, responseStatus={}), "failed (no answer)"),
    "metadata": (audit("create", None, 2, code=201, level="Metadata"), "level Metadata"),
    "stage": (audit("create", pod(), 2, stage="RequestReceived"), "audit stage RequestReceived"),
    "dry run": (audit("create", pod(), 2, requestURI="/api/v1/pods?dryRun=All"), "dry run"),
    "read": (audit("get", pod(), 2), "not a write"),
    "unknown kind": (audit("create", pod() | {"kind": "ConfigMap"}, 2, resource="configmaps"), "kind ConfigMap"),
    "unknown pod deleted": (
        audit("delete", {"kind": "Status", "apiVersion": "v1", "details": {"uid": "who"}}, 2),
        "not in the ledger",
    ),
}


@pytest.mark.parametrize("case", NOTHING)
def test_lines_that_prove_nothing_are_counted_with_the_reason(tmp_path: Path, case: str) -> None:
    line, reason = NOTHING[case]
    report = imported(tmp_path, written(tmp_path, "audit.log", line))
    assert (report.stored, report.broken_count, report.read) == (0, 0, 1)
    assert [count for text, count in report.ignored.items() if reason in text] == [1]


def test_a_delete_that_answers_with_a_status_takes_the_last_state(tmp_path: Path) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": "uid-of-p1"}}
    lines = (
        audit("create", pod("p1", 10), 1, code=201),
        audit("delete", status, 2, request={"metadata": {"name": "p1"}}),
    )
    imported(tmp_path, written(tmp_path, "audit.log", *lines))
    last = events(tmp_path)[-1]
    assert (last.type, last.resource_version, json.loads(last.payload)) == ("ObjectDeleted", 10, pod("p1", 10))


def test_binds_and_their_outcomes_stand_on_the_pods_stream(tmp_path: Path) -> None:
    lines = (
        audit("create", pod("p1", 10), 1, code=201),
        bind("p1", "n1", 5, code=409, message="pod is being deleted"),
        bind("p1", "n2", 9, took=2),
        audit("create", None, 12, subresource="binding", request=binding("p1", "n3"), responseStatus=None),
    )
    imported(tmp_path, written(tmp_path, "audit.log", *lines))
    with ledger(tmp_path) as opened:
        found = list(opened.recorded(families="binding"))
    assert {(one.kind, one.name, one.uid, one.known) for one in found} == {("Pod", "p1", "uid-of-p1", INFERRED)}
    requested, failed, again, succeeded, lost, no_answer = (one.event for one in found)
    assert isinstance(requested, BindRequested) and requested.node == "n1" and requested.user == "volcano-scheduler"
    assert isinstance(failed, BindFailed) and (failed.code, failed.reason, failed.message) == (
        409,
        "Conflict",
        "pod is being deleted",
    )
    assert failed.audit_id == requested.audit_id
    assert isinstance(again, BindRequested) and isinstance(succeeded, BindSucceeded) and succeeded.node == "n2"
    assert found[3].observed_at - found[2].observed_at == 2_000_000
    assert isinstance(lost, BindRequested) and isinstance(no_answer, BindFailed) and no_answer.answer_lost


def test_an_event_list_of_audit_events(tmp_path: Path) -> None:
    items = [
        json.loads(audit("create", pod("p1", 10), 2, code=201)),
        json.loads(audit("create", pod("p0", 9), 1, code=201)),
    ]
    body = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}
    report = imported(tmp_path, written(tmp_path, "audit.json", json.dumps(body, indent=2).encode()))
    assert (report.read, report.stored) == (2, 2)
    assert [one.name for one in events(tmp_path)] == ["p0", "p1"]


def test_a_watch_wins_over_the_audit_line_of_the_same_version(tmp_path: Path) -> None:
    """The audit line is earlier, but the observation in the fold's path is the watch's, at the watch's time."""
    watch = recorded("ADDED", pod("p1", 10), 1.5) + recorded("MODIFIED", pod("p1", 12), 3.5)
    lines = (
        audit("create", pod("p1", 10), 1.49, code=201)
        + audit("patch", pod("p1", 11), 2)
        + audit("patch", pod("p1", 12), 3)
    )
    folder = tmp_path / "in"
    folder.mkdir()
    report = imported(tmp_path, written(folder, "watch.jsonl", watch), written(folder, "audit.log", lines))
    on_time = [(one.resource_version, one.known) for one in events(tmp_path, late=False)]
    # Version 10 was answered before the watch began, so the audit line came first; 12 is the watch's.
    assert on_time == [(10, INFERRED), (12, RECORDED)]
    assert [(one.resource_version, one.known) for one in events(tmp_path, late=True)] == [(11, INFERRED)]
    assert imported(tmp_path, folder).stored == 0
    assert report.broken_count == 0


def test_an_audit_log_after_the_watch_is_late(tmp_path: Path) -> None:
    imported(
        tmp_path,
        written(tmp_path, "w", recorded("ADDED", pod("p1", 10), 1.5), recorded("MODIFIED", pod("p1", 12), 3.5)),
    )
    report = imported(
        tmp_path,
        written(tmp_path, "a", audit("patch", pod("p1", 11), 2), bind("p1", "n1", 3), audit("patch", pod("p1", 13), 9)),
    )
    assert report.late == 3
    assert [one.resource_version for one in events(tmp_path, late=False)] == [10, 12, 13]


def test_what_an_audit_log_shows_just_after_the_watch_does_not_get_ahead_of_it(tmp_path: Path) -> None:
    """Both files grow; the watch's lines of the second import are older than the audit lines of the first."""
    first = recorded("ADDED", pod("p1", 10), 1)
    rest = recorded("ADDED", pod("p2", 20), 2) + recorded("MODIFIED", pod("p1", 30), 3)
    lines = audit("create", pod("p1", 10), 0.9, code=201) + audit("patch", pod("p1", 30), 2.9) + bind("p1", "n1", 2.8)
    log = written(tmp_path, "audit.log", lines)
    imported(tmp_path, written(tmp_path, "watch.jsonl", first), log)
    imported(tmp_path, written(tmp_path, "watch.jsonl", first + rest), log)
    assert ("p2", 20) in [(one.name, one.resource_version) for one in events(tmp_path, late=False)]


RECORDINGS = ("01", "02", "03", "05", "07")


@pytest.mark.slow
@pytest.mark.parametrize("number", RECORDINGS)
def test_a_whole_folder_gives_the_caches_of_its_dumps(tmp_path: Path, number: str) -> None:
    """Watch, audit log and dumps in one call: at each marker the cache is the dump's, and that of the watch alone."""
    folder = recording(number)
    config = config_of((folder / "scheduler-args.txt").read_text())
    imported(tmp_path, folder, db="all.db")
    imported(tmp_path, folder / "watch.jsonl.zst", db="watch.db")
    with ledger(tmp_path, "all.db") as both, ledger(tmp_path, "watch.db") as alone:
        dumps = sorted(folder.glob("volcano-cache-dump-*.json*"))
        assert dumps
        for dump in dumps:
            at = f"marker:{dump.name.removesuffix('.zst')}"
            states = [state_json(one.cache(one.position(at), config=config)) for one in (both, alone)]
            assert states[0] == states[1]
            assert not compare(read(dump), both.cache(both.position(at), config=config)).differences


def test_a_folders_binds_stand_in_the_order_of_time(tmp_path: Path) -> None:
    imported(tmp_path, recording("05"))
    found = events(tmp_path, families=["binding"])
    assert Counter(one.type for one in found) == {"BindRequested": 30, "BindSucceeded": 30}
    assert not any(one.late for one in found)
    on_time = [one.observed_at for one in events(tmp_path, late=False)]
    assert on_time == sorted(on_time)


def test_audit_lines_that_go_back_further_than_they_are_put_in_order_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when rotated logs were put together the wrong way round."""
    monkeypatch.setattr("vcledger.sources.audit.WINDOW", 3)
    late = [audit("create", pod(f"late-{number}", 10 + number), 600 + number, code=201) for number in range(6)]
    early = [audit("create", pod(f"early-{number}", number + 1), number, code=201) for number in range(5)]
    path = written(tmp_path, "audit.log", *late, *early)
    report = imported(tmp_path, path)
    assert report.notes == [
        f"{path}: 5 events go back in time, by 10 min at most: the time of what is before them stands"
    ]
    found = events(tmp_path)
    assert [one.observed_at for one in found] == sorted(one.observed_at for one in found)
    assert imported(tmp_path, written(tmp_path, "whole.log", *early, *late), db="whole.db").notes == []


@pytest.mark.slow
def test_an_audit_log_alone_is_folded(tmp_path: Path) -> None:
    imported(tmp_path, recording("02") / "audit.jsonl.zst")
    imported(tmp_path, recording("02") / "watch.jsonl.zst", db="watch.db")
    with ledger(tmp_path) as opened, ledger(tmp_path, "watch.db") as watched:
        audited, seen = opened.cache(model="exact"), watched.cache(model="exact")
        assert set(audited.pods) == set(seen.pods) and set(audited.jobs) == set(seen.jobs)
        used = [{name: node.used for name, node in cache.nodes.items()} for cache in (audited, seen)]
        assert used[0] == used[1] and len(used[0]) == 12
    assert imported(tmp_path, recording("02") / "audit.jsonl.zst").stored == 0


def test_a_dump_alone_marks_its_moment_and_is_stored_once(tmp_path: Path) -> None:
    path = recording("02") / "volcano-cache-dump-1-many-pending.json.zst"
    report = imported(tmp_path, path)
    with ledger(tmp_path) as opened:
        assert opened.position("marker:volcano-cache-dump-1-many-pending.json") == report.stored
    assert imported(tmp_path, path).stored == 0


def test_options_reach_the_second_pass(tmp_path: Path) -> None:
    kept = pod("p1", 11, managedFields=[{"manager": "m"}])
    options = ImportOptions(storage=StorageOptions(keep_managed_fields=True), snapshots=False)
    watch = recorded("ADDED", pod("p1", 10), 1) + recorded("MODIFIED", pod("p1", 12), 3)
    with ledger(tmp_path) as opened:
        paths = [written(tmp_path, "w", watch), written(tmp_path, "a", audit("patch", kept, 2))]
        import_paths(opened, paths, options=options)
    assert b"managedFields" in events(tmp_path, late=True)[0].payload


def attempts(folder: Path) -> list[tuple[str, str, int]]:
    """Pod, what, and attempt of each bind, in the order of the log."""
    found = []
    with ledger(folder) as opened:
        for one in opened.recorded(families="binding"):
            found.append((one.uid.removeprefix("uid-of-"), type(one.event).__name__, one.event.attempt))
    return found


def test_binds_of_a_pod_are_numbered(tmp_path: Path) -> None:
    lines = [
        bind("p1", "n1", 1, 409, "no"),
        bind("p2", "n1", 2),
        bind("p1", "n2", 3, 500, "no"),
        bind("p1", "n3", 4),
    ]
    imported(tmp_path, written(tmp_path, "a", *lines[:3]))
    first = [("p1", 1), ("p2", 1), ("p1", 2)]
    assert [(name, number) for name, what, number in attempts(tmp_path) if what == "BindRequested"] == first
    assert [(name, number) for name, what, number in attempts(tmp_path) if what != "BindRequested"] == first
    # The file grows: what it had is not counted again, and what comes goes on.
    report = imported(tmp_path, written(tmp_path, "a", *lines))
    assert report.stored == 2 and attempts(tmp_path)[-2:] == [("p1", "BindRequested", 3), ("p1", "BindSucceeded", 3)]
    assert imported(tmp_path, written(tmp_path, "b", *lines)).stored == 0


def test_binds_of_two_audit_logs_are_numbered_together(tmp_path: Path) -> None:
    one = written(tmp_path, "a", bind("p1", "n1", 1, 409, "no"), bind("p1", "n1", 3, 409, "no"))
    other = written(tmp_path, "b", bind("p1", "n1", 2, 409, "no"), bind("p1", "n1", 4))
    imported(tmp_path, one, other)
    assert [number for _, what, number in attempts(tmp_path) if what == "BindRequested"] == [1, 2, 3, 4]
