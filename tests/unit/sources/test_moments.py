"""When things were observed in formats that do not say it, and that nothing is missing from the present for that.

Owns the rule of docs/adr/0009. Must not test framing nor what the caches do with an object.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventstore.types import NewEvent
from tests.unit.sources.given import (
    NO_SNAPSHOTS,
    compact,
    events,
    imported,
    ledger,
    listed,
    moment,
    pod,
    recorded,
    watch_line,
    written,
)
from vcledger.at import parse_time
from vcledger.errors import VcledgerError
from vcledger.sources import ImportOptions, ImportReport
from vcledger.sources import moments as moments_module
from vcledger.sources.moments import Moments, Unsure, settled
from vcledger.sources.shape import Clock

TODAY = parse_time("2026-05-20T12:00:00Z")
HOUR = 3_600 * 1_000_000


def node(name: str = "n1", version: int = 50, transition: str = "2026-01-03T00:00:00Z", **spec: Any) -> dict[str, Any]:
    """A node as kubectl shows it, without managedFields: its newest times are months old."""
    meta = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(version)}
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": transition}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": meta | {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    }


def bound(name: str = "pp", version: int = 100, at: str = "2026-05-20T09:00:00Z") -> dict[str, Any]:
    """A running pod on n1."""
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    spec = {
        "schedulerName": "volcano",
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
    }
    return pod(name, version, spec=spec, status={"phase": "Running", "conditions": [condition]})


def a_list(*objects: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=4).encode()


def made(folder: Path, name: str, data: bytes, modified: int = TODAY) -> Path:
    """A file that was written last at a moment, in microseconds."""
    path = written(folder, name, data)
    os.utime(path, ns=(modified * 1_000, modified * 1_000))
    return path


def taken(folder: Path, *paths: Path | str, now: int = TODAY + HOUR, **extra: Any) -> ImportReport:
    return imported(folder, *paths, clock=lambda: now, **extra)


def times(folder: Path, **filters: Any) -> list[int]:
    return [one.observed_at for one in events(folder, **filters)]


def node_of(folder: Path, name: str = "n1") -> Any:
    with ledger(folder) as opened:
        return opened.cache().nodes[name]


# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_list_is_the_state_when_its_file_was_written(tmp_path: Path) -> None:
    report = taken(tmp_path, made(tmp_path, "l", a_list(bound(), node(), pod("q", 7))))
    assert times(tmp_path) == [TODAY] * 3 and report.late == 0 and report.notes == []


@pytest.mark.parametrize("days", [1, -1], ids=["written a day before", "written a day after"])
def test_nodes_in_a_second_call_whose_times_are_older_are_in_the_present(tmp_path: Path, days: int) -> None:
    taken(tmp_path, made(tmp_path, "pods.json", a_list(bound())))
    before = events(tmp_path)
    report = taken(tmp_path, made(tmp_path, "nodes.json", a_list(node()), TODAY - days * 24 * HOUR), now=TODAY * 2)
    assert report.late == 0 and events(tmp_path)[: len(before)] == before
    found = node_of(tmp_path)
    assert found.node is not None and (found.idle.milli_cpu, found.used.milli_cpu) == (6_000, 2_000)
    told = [note for note in report.notes if "1 Node" in note]
    assert len(told) == (days > 0)
    assert times(tmp_path, kinds="Node") == [TODAY if days > 0 else TODAY + 24 * HOUR]


def test_what_the_ledger_knows_better_stays_late(tmp_path: Path) -> None:
    watch = watch_line("ADDED", bound("gone", 10)) + watch_line("DELETED", bound("gone", 20))
    taken(tmp_path, made(tmp_path, "w", watch + watch_line("ADDED", bound("newer", 30))))
    old = a_list(bound("gone", 15), bound("newer", 25), bound("newer", 30), bound("unseen", 5))
    report = taken(tmp_path, made(tmp_path, "l", old, TODAY - 24 * HOUR))
    assert {(one.name, one.resource_version) for one in events(tmp_path, late=True)} == {("gone", 15), ("newer", 25)}
    assert report.late == 2 and any(note.startswith("1 Pod: older") for note in report.notes)
    with ledger(tmp_path) as opened:
        assert set(opened.cache().pods) == {"default/newer", "default/unseen"}


def test_a_watch_from_before_a_deletion_brings_nothing_back(tmp_path: Path) -> None:
    taken(tmp_path, made(tmp_path, "w", watch_line("ADDED", bound("p", 10)) + watch_line("DELETED", bound("p", 20))))
    early = watch_line("ADDED", bound("p", 12)) + watch_line("MODIFIED", bound("p", 15))
    report = taken(tmp_path, made(tmp_path, "v", early, TODAY - 99 * HOUR))
    assert report.late == 2
    with ledger(tmp_path) as opened:
        assert not opened.cache().pods


def test_a_kind_that_was_watched_keeps_its_word(tmp_path: Path) -> None:
    """A recording listed all pods and watched them: an older list cannot bring one back that it did not show."""
    base = parse_time(moment(0))
    data = listed([pod("a", 1)], 0) + recorded("ADDED", pod("b", 1001), 600)
    taken(tmp_path, written(tmp_path, "rec", data))
    report = taken(tmp_path, made(tmp_path, "l", a_list(pod("ghost", 3), node()), base + 300 * 1_000_000))
    assert [one.name for one in events(tmp_path, late=True)] == ["ghost"]
    assert any(note.startswith("1 Pod: not in the present") for note in report.notes)
    assert any(note.startswith("1 Node: older") for note in report.notes)


def test_a_condition_of_2099_does_not_take_the_rest_along(tmp_path: Path) -> None:
    lines = [bound("a", 1), node(transition="2099-01-01T00:00:00Z"), bound("c", 3)]
    watch = b"".join(watch_line("ADDED", one) for one in lines)
    report = taken(tmp_path, made(tmp_path, "w", watch))
    assert max(times(tmp_path)) == TODAY
    assert any("1 objects carry times after 2026-05-20T12:00:00Z" in note for note in report.notes)
    later = taken(tmp_path, made(tmp_path, "l", a_list(bound("d", 4)), TODAY + HOUR), now=TODAY + 2 * HOUR)
    assert later.late == 0 and times(tmp_path, name="d") == [TODAY + HOUR]


def test_a_date_that_an_archive_lost_does_not_go_before_what_the_server_wrote(tmp_path: Path) -> None:
    fields = [{"manager": "kubelet", "time": "2026-05-20T10:00:00Z"}]
    taken(tmp_path, made(tmp_path, "l", a_list(pod("a", 1, managedFields=fields)), 0))
    assert times(tmp_path) == [parse_time("2026-05-20T10:00:00Z")]


def test_a_date_in_the_future_is_no_later_than_now(tmp_path: Path) -> None:
    taken(tmp_path, made(tmp_path, "l", a_list(pod("a", 1)), TODAY + 100 * HOUR), now=TODAY)
    assert times(tmp_path) == [TODAY]


# --- watches ---------------------------------------------------------------------------------------------------------


def test_a_cordon_is_dated_when_the_watch_was_written_not_months_back(tmp_path: Path) -> None:
    lines = [("ADDED", node()), ("MODIFIED", node(version=60, unschedulable=True))]
    taken(tmp_path, made(tmp_path, "w", b"".join(watch_line(*line) for line in lines)))
    assert times(tmp_path) == [parse_time("2026-01-03T00:00:00Z"), TODAY]
    assert node_of(tmp_path).node.spec.unschedulable


def test_heartbeats_date_the_lines_between_them(tmp_path: Path) -> None:
    def beat(version: int, at: str, **spec: Any) -> dict[str, Any]:
        one = node(version=version, **spec)
        one["status"]["conditions"][0]["lastHeartbeatTime"] = at
        return one

    lines = [
        watch_line("ADDED", beat(50, "2026-05-20T08:00:00Z")),
        watch_line("MODIFIED", beat(51, "2026-05-20T08:00:00Z", unschedulable=True)),
        watch_line("MODIFIED", beat(52, "2026-05-20T08:05:00Z", unschedulable=True)),
    ]
    taken(tmp_path, made(tmp_path, "w", b"".join(lines)))
    eight = parse_time("2026-05-20T08:00:00Z")
    assert times(tmp_path) == [eight, eight, eight + 300 * 1_000_000]


def test_a_watch_goes_on_in_a_second_call(tmp_path: Path) -> None:
    """Today's node watch into a ledger whose last moment is this morning's pods: nothing of it is missing."""
    taken(tmp_path, made(tmp_path, "pods", a_list(bound(), node(version=40)), TODAY - HOUR))
    watch = watch_line("ADDED", node(version=50)) + watch_line("MODIFIED", node(version=60, unschedulable=True))
    report = taken(tmp_path, made(tmp_path, "w", watch))
    assert report.late == 0 and times(tmp_path, kinds="Node") == [TODAY - HOUR, TODAY - HOUR, TODAY]
    assert node_of(tmp_path).node.spec.unschedulable


def test_kubectl_watch_without_events_ends_when_it_was_written(tmp_path: Path) -> None:
    objects = [bound("a", 1, "2026-05-20T08:00:00Z"), bound("a", 2, "2026-05-20T09:00:00Z"), node()]
    taken(tmp_path, made(tmp_path, "w", b"".join(json.dumps(one, indent=4).encode() + b"\n" for one in objects)))
    assert times(tmp_path) == [parse_time("2026-05-20T08:00:00Z"), TODAY, TODAY]


def several() -> dict[str, list[bytes]]:
    """kubectl get -w of one kind each: the nodes' and queues' newest times are months older than the pods'."""
    group = {
        "kind": "PodGroup",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": pod("pg", 70)["metadata"],
        "spec": {"minMember": 1, "queue": "research"},
        "status": {"phase": "Running"},
    }
    queue = {
        "kind": "Queue",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {"name": "research", "uid": "uid-q", "creationTimestamp": "2025-12-01T00:00:00Z"},
        "spec": {"weight": 3},
        "status": {"state": "Open"},
    }

    def at(one: dict[str, Any], version: int, **spec: Any) -> dict[str, Any]:
        meta = one["metadata"] | {"resourceVersion": str(version)}
        return one | {"metadata": meta, "spec": one["spec"] | spec}

    member = bound("pp", 100)
    member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "pg"}
    pending = bound("pp", 90)
    del pending["spec"]["nodeName"]
    return {
        "pods.json": [watch_line("ADDED", pending), watch_line("MODIFIED", member)],
        "nodes.json": [watch_line("ADDED", node()), watch_line("MODIFIED", node(version=95, unschedulable=True))],
        "podgroups.json": [watch_line("ADDED", at(group, 70)), watch_line("MODIFIED", at(group, 80, minMember=2))],
        "queues.json": [watch_line("ADDED", at(queue, 5)), watch_line("MODIFIED", at(queue, 99, weight=7))],
    }


@pytest.mark.parametrize("order", ["together", "one by one", "one by one, the other way round"])
@pytest.mark.parametrize("pretty", [False, True], ids=["lines", "pretty"])
def test_watches_of_one_kind_each(tmp_path: Path, order: str, pretty: bool) -> None:
    paths = []
    for name, lines in several().items():
        data = b"".join(json.dumps(json.loads(one), indent=4).encode() + b"\n" if pretty else one for one in lines)
        paths.append(made(tmp_path, name, data))
    if order == "together":
        reports = [taken(tmp_path, *paths)]
    else:
        reports = [taken(tmp_path, one) for one in (paths if order == "one by one" else paths[::-1])]
    assert sum(one.stored for one in reports) == 8 and sum(one.late for one in reports) == 0
    with ledger(tmp_path) as opened:
        cache = opened.cache()
        found = cache.nodes["n1"]
        assert found.node is not None and found.node.spec.unschedulable
        assert (found.idle.milli_cpu, found.used.milli_cpu) == (6_000, 2_000)
        job = cache.jobs["default/pg"]
        assert (job.queue, job.min_available, len(job.tasks)) == ("research", 2, 1)
        assert cache.queues["research"].spec.weight == 7
    everything = times(tmp_path)
    assert everything == sorted(everything)
    again = taken(tmp_path, *paths)
    assert (again.stored, again.already) == (0, 8)


# --- importing again, and moments that are given ----------------------------------------------------------------------


def odd_watch() -> bytes:
    """A watch with lines that carry no object, twice the same one among them, and a time in the future."""
    expired = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9", "creationTimestamp": None}}
    lines = [
        watch_line("ADDED", bound("a", 1, "2099-01-01T00:00:00Z")),
        watch_line("BOOKMARK", bookmark),
        watch_line("ERROR", expired),
        watch_line("ERROR", expired),
        watch_line("MODIFIED", bound("a", 12, "2026-05-01T00:00:00Z")),
        watch_line("ERROR", expired),
    ]
    return b"".join(lines)


def odd_list() -> bytes:
    """A whole list, and a pod after it that a list before cannot delete when it is read again."""
    items = [{key: value for key, value in bound("a", 1).items() if key not in ("kind", "apiVersion")}]
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items}
    return compact({"type": "LIST", "object": body}) + b"\n" + watch_line("ADDED", bound("b", 8))


@pytest.mark.parametrize(
    "data", [odd_watch(), odd_list(), a_list(bound(), node())], ids=["watch", "whole list", "List"]
)
@pytest.mark.parametrize("again", ["touched", "copied", "piped", "given a moment"])
def test_importing_again_adds_nothing_whatever_the_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, again: str
) -> None:
    path = made(tmp_path, "w", data)
    first = taken(tmp_path, path)
    assert first.stored == len(events(tmp_path)) and first.broken_count == 0
    with ledger(tmp_path) as opened:
        pods = set(opened.cache().pods)
    options, now = NO_SNAPSHOTS, TODAY + 9 * HOUR
    if again == "touched":
        made(tmp_path, "w", data, TODAY + 5 * HOUR)
    elif again == "copied":
        path = made(tmp_path, "other", data, TODAY - 900 * HOUR)
    elif again == "piped":
        monkeypatch.setattr("sys.stdin", piped(data))
        path = "-"  # type: ignore[assignment]
    else:
        options = ImportOptions(snapshots=False, observed_at=now)
    report = taken(tmp_path, path, options=options, now=now)
    # Whether a whole list is known is found out before its end is appended.
    assert report.stored == 0 and report.already == first.stored - (data == odd_list())
    with ledger(tmp_path) as opened:
        assert set(opened.cache().pods) == pods


def piped(data: bytes) -> Any:
    class Buffer:
        def __init__(self) -> None:
            self.rest = data

        def read(self, size: int) -> bytes:
            out, self.rest = self.rest[:size], self.rest[size:]
            return out

    return type("Stdin", (), {"buffer": Buffer()})


def test_standard_input_is_observed_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", piped(b"".join(watch_line("ADDED", one) for one in (bound("a", 1), node()))))
    ticks: Iterator[int] = iter(range(TODAY, TODAY + 1_000))
    imported(tmp_path, "-", clock=lambda: next(ticks))
    first, second = times(tmp_path)
    assert TODAY <= first < second < TODAY + 1_000


def test_a_file_as_standard_input_has_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(made(tmp_path, "l", a_list(bound(), node()))) as file:
        monkeypatch.setattr("sys.stdin", file)
        taken(tmp_path, "-", now=TODAY + 7 * HOUR)
    assert times(tmp_path) == [TODAY] * 2


def test_a_moment_that_is_given_holds_for_everything(tmp_path: Path) -> None:
    path = made(tmp_path, "w", odd_watch())
    taken(tmp_path, path, options=ImportOptions(snapshots=False, observed_at=TODAY - 7))
    assert set(times(tmp_path)) == {TODAY - 7}
    with pytest.raises(VcledgerError, match="lies in the future"):
        taken(tmp_path, path, options=ImportOptions(snapshots=False, observed_at=TODAY + 5 * HOUR))


def test_recordings_keep_their_own_times(tmp_path: Path) -> None:
    path = made(tmp_path, "w", recorded("ADDED", pod("a", 1), 5), 0)
    imported(tmp_path, path, options=ImportOptions(snapshots=False, observed_at=3), clock=lambda: 4)
    assert times(tmp_path) == [parse_time(moment(5))]


def test_few_items_wait_for_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments_module, "HELD_MAX", 3)
    pulled: list[int] = []

    def source() -> Iterator[Unsure]:
        for number in range(10):
            pulled.append(number)
            yield Unsure(5, event(number))

    moments = Moments(Clock(), lambda: 100, 50)
    found = settled(iter(source()), moments)
    assert next(found).observed_at == 5 and pulled == [0, 1, 2, 3]
    assert [one.observed_at for one in found] == [5] * 8 + [50]


def event(number: int) -> NewEvent:
    from eventstore.types import StreamId

    return NewEvent(StreamId("c", "Pod", "", "p", "u"), "ObjectModified", "observation", 5, b"{}", 1, 0, number, False)
