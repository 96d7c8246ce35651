"""Every format, every way of packing it, and that it is found out by content.

Owns the proof that the same facts come in by whatever form. Must not test what lists prove (test_lists) nor redaction.
"""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard

from eventstore.types import INFERRED, RECORDED
from tests.data import recording
from tests.unit.sources.given import (
    events,
    imported,
    marker,
    objects_in,
    plain,
    pod,
    recorded,
    watch_line,
    watch_of,
    written,
)
from vcledger.sources import NothingToImport
from vcledger.sources.detect import Format, detect


def three_versions() -> list[dict[str, Any]]:
    """A pod's life: added, bound, deleted, one minute apart by managedFields."""
    return [
        {"type": change, "object": pod("p1", version, managedFields=[{"manager": "m", "time": time}])}
        for change, version, time in (
            ("ADDED", 100, "2026-03-01T08:00:00Z"),
            ("MODIFIED", 105, "2026-03-01T08:01:00Z"),
            ("DELETED", 110, "2026-03-01T08:02:00Z"),
        )
    ]


def as_raw_lines(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(watch_line(line["type"], line["object"]) for line in lines)


def as_kubectl(lines: list[dict[str, Any]]) -> bytes:
    """kubectl get -w -o json --output-watch-events: pretty-printed and concatenated."""
    return b"".join(json.dumps(line, indent=4).encode() + b"\n" for line in lines)


def as_kubectl_yaml(lines: list[dict[str, Any]]) -> bytes:
    """kubectl get -w -o yaml --output-watch-events: a document each, separated, keys in order."""
    return b"---\n".join(yaml.safe_dump({"object": line["object"], "type": line["type"]}).encode() for line in lines)


PACKINGS = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "gzip members": lambda data: b"".join(gzip.compress(part) for part in halves(data)),
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "zstd frames": lambda data: b"".join(zstandard.ZstdCompressor().compress(part) for part in halves(data)),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "utf-16": lambda data: data.decode().encode("utf-16"),
    "no newline at the end": lambda data: data.rstrip(b"\n"),
    "windows lines": lambda data: data.replace(b"\n", b"\r\n"),
    "blank lines": lambda data: data.replace(b"\n", b"\n\n"),
}


def halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


@pytest.mark.parametrize(
    "form", [as_raw_lines, as_kubectl, as_kubectl_yaml], ids=["raw lines", "kubectl", "kubectl yaml"]
)
@pytest.mark.parametrize("packing", PACKINGS)
def test_watch_lines_in_every_packing(tmp_path: Path, form: Any, packing: str) -> None:
    path = written(tmp_path, "data", PACKINGS[packing](form(three_versions())))
    report = imported(tmp_path, path)
    assert (report.read, report.stored, report.broken) == (3, 3, [])
    found = events(tmp_path)
    assert [(one.type, one.resource_version, one.gone, one.known) for one in found] == [
        ("ObjectAdded", 100, False, RECORDED),
        ("ObjectModified", 105, False, RECORDED),
        ("ObjectDeleted", 110, True, RECORDED),
    ]
    # The newest time in each object stands in for the time of receipt.
    assert [one.observed_at - found[0].observed_at for one in found] == [0, 60_000_000, 120_000_000]
    assert json.loads(found[0].payload)["metadata"]["name"] == "p1"
    assert b"\n" not in found[0].payload and b"managedFields" not in found[0].payload


@pytest.mark.slow
@pytest.mark.parametrize("form", [as_kubectl, as_kubectl_yaml], ids=["json", "yaml"])
def test_the_kinds_of_a_real_recording_in_kubectls_form(tmp_path: Path, form: Any) -> None:
    lines = [line for group in objects_in(watch_of("03")).values() for line in group]
    path = written(tmp_path, "kubectl.out", form(lines))
    report = imported(tmp_path, path)
    assert (report.read, report.broken_count) == (len(lines), 0)
    # An object is in the log once for each of its versions.
    versions = {
        (line["object"]["metadata"]["uid"], line["object"]["metadata"]["resourceVersion"], line["type"] == "DELETED")
        for line in lines
    }
    assert report.stored == len(versions)
    kinds = Counter(one.kind for one in events(tmp_path))
    assert kinds["PersistentVolumeClaim"] and kinds["StorageClass"] and kinds["VolcanoJob"] and kinds["Event"]


@pytest.mark.parametrize("form", ["kind after the items", "kind after the items, yaml"])
def test_a_list_that_ends_before_it_names_its_kind_is_broken(tmp_path: Path, form: str) -> None:
    whole = LISTS[form]([pod("p1", 1), pod("p2", 2)])
    path = written(tmp_path, "list", whole[: whole.index(b"PodList") - 9])
    with pytest.raises(NothingToImport, match=r"it has no kind|the data end inside a JSON value"):
        imported(tmp_path, path)


def test_a_yaml_watch_may_be_cut_off_and_broken(tmp_path: Path) -> None:
    first, second, third = (as_kubectl_yaml([line]) for line in three_versions())
    broken = second.replace(b"object:", b"object: [", 1)
    path = written(tmp_path, "watch.yaml", b"---\n".join([first, broken, third[: len(third) // 2]]))
    report = imported(tmp_path, path)
    assert (report.stored, report.broken_count) == (1, 2)
    assert [one.line for one in report.broken] == [1 + first.count(b"\n") + 1, 1 + (first + broken).count(b"\n") + 2]


LISTS = {
    "kubectl json": lambda items: json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=4).encode(),
    "one line": lambda items: json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}).encode(),
    "api server": lambda items: json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [bare(i) for i in items]}
    ).encode(),
    "kubectl yaml": lambda items: yaml.safe_dump({"apiVersion": "v1", "items": items, "kind": "List"}).encode(),
    "kind after the items": lambda items: json.dumps(
        {"apiVersion": "v1", "items": [bare(i) for i in items], "kind": "PodList"}, indent=1
    ).encode(),
    "kind after the items, one line": lambda items: json.dumps(
        {"apiVersion": "v1", "items": [bare(i) for i in items], "kind": "PodList"}
    ).encode(),
    "kind after the items, yaml": lambda items: yaml.safe_dump(
        {"apiVersion": "v1", "items": [bare(i) for i in items], "kind": "PodList", "metadata": {}}
    ).encode(),
    "indented yaml": lambda items: (
        b"kind: List\napiVersion: v1\nitems:\n"
        + b"\n".join(b"  " + line for line in yaml.safe_dump(items).encode().splitlines())
    ),
    "yaml documents": lambda items: yaml.safe_dump_all(items, explicit_start=True).encode(),
    "api server yaml": lambda items: (
        b"apiVersion: v1\nkind: PodList\n" + yaml.safe_dump({"items": [bare(item) for item in items]}).encode()
    ),
    "json array": lambda items: json.dumps(items).encode(),
    "json objects": lambda items: b"".join(json.dumps(item, indent=2).encode() for item in items),
    "json lines": lambda items: b"".join(json.dumps(item).encode() + b"\n" for item in items),
}


def bare(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


@pytest.mark.parametrize("form", LISTS)
def test_lists_and_objects(tmp_path: Path, form: str) -> None:
    items = [pod("a", 7), pod("b", 8, labels={"when": "2026-01-01T00:00:00Z", "yes": "no"}), pod("c", 9)]
    report = imported(tmp_path, written(tmp_path, "data", LISTS[form](items)))
    assert (report.read, report.stored, report.broken_count) == (3, 3, 0)
    found = [json.loads(one.payload) for one in events(tmp_path)]
    assert found == [{"kind": "Pod", "apiVersion": "v1"} | item for item in items]
    assert [one.type for one in events(tmp_path)] == ["ObjectAdded"] * 3
    # A list in a file does not say what it was a list of, so a shorter one deletes nothing.
    assert imported(tmp_path, written(tmp_path, "shorter", LISTS[form](items[:1]))).stored == 0


def test_kubectl_watch_without_events_knows_new_from_changed(tmp_path: Path) -> None:
    objects = [pod("a", 7), pod("b", 8), pod("a", 9)]
    path = written(tmp_path, "w", b"".join(json.dumps(one, indent=4).encode() + b"\n" for one in objects))
    imported(tmp_path, path)
    assert [one.type for one in events(tmp_path)] == ["ObjectAdded", "ObjectAdded", "ObjectModified"]


def test_a_dump_alone_gives_objects_as_inferred(tmp_path: Path) -> None:
    path = recording("03") / "volcano-cache-dump-2-binding-in-flight.json.zst"
    report = imported(tmp_path, path)
    kinds = Counter(one.kind for one in events(tmp_path) if one.type != "Marker")
    assert kinds == {"Node": 6, "PodGroup": 16, "Pod": 22} and report.broken_count == 0
    assert {one.known for one in events(tmp_path, kinds=["Pod", "Node"])} == {INFERRED}
    assert any("reasons" in sentence for sentence in report.cannot_prove)
    # Two tasks were Binding: the API server did not have them on a node yet.
    bodies = {one.name: json.loads(one.payload) for one in events(tmp_path, kinds=["Pod"])}
    assert "nodeName" not in bodies["gang-never-vol-0"]["spec"] and "nodeName" not in bodies["never-prov"]["spec"]
    assert sum("nodeName" in body["spec"] for body in bodies.values()) >= 10


def test_a_dump_takes_its_time_from_its_name(tmp_path: Path) -> None:
    data = plain(recording("02") / "volcano-cache-dump-1-many-pending.json.zst")
    imported(tmp_path, written(tmp_path, "snapshot-1795960700.json", data))
    assert {one.observed_at for one in events(tmp_path)} == {1_795_960_700_000_000}


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(as_raw_lines(three_versions()))

    class Stdin:
        buffer = io.BytesIO(data)

    monkeypatch.setattr("sys.stdin", Stdin)
    report = imported(tmp_path, "-")
    assert (report.stored, report.files[0].file) == (3, "stdin")


def test_a_file_given_by_several_names_is_read_once(tmp_path: Path) -> None:
    path = written(tmp_path, "w", as_raw_lines(three_versions()))
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "hard").hardlink_to(path)
    report = imported(tmp_path, path, tmp_path / "x" / ".." / "w", tmp_path / "link", tmp_path / "hard", path)
    assert (report.read, report.stored, [one.file for one in report.files]) == (3, 3, [str(path)])


def test_folders_are_searched_in_a_fixed_order_and_unknown_files_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "b" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    written(folder / "b" / "deep", "z", as_raw_lines(three_versions()))
    written(folder, "a", watch_line("ADDED", pod("q", 300)))
    written(folder, "notes.md", b"# a page\n\nkind of\n")
    written(folder, "binary", bytes(range(256)) * 40)
    written(folder, "nothing", b"")
    written(folder / ".git", "config", watch_line("ADDED", pod("hidden", 1)))
    report = imported(tmp_path, folder)
    assert [Path(file.file).name for file in report.files if file.read] == ["a", "z"]
    assert sorted(Path(name).name for name in report.unknown_files) == ["binary", "notes.md"]
    assert report.stored == 4 and report.broken_count == 0


def test_a_recording_is_stored_line_by_line(tmp_path: Path) -> None:
    report = imported(tmp_path, recording("02") / "watch.jsonl.zst")
    assert (report.broken_count, report.read) == (0, 1646)
    found = Counter(one.type for one in events(tmp_path))
    assert found["Marker"] == 3 and found["ListCompleted"] == 11 and found["WatchStarted"] == 11
    assert found["Bookmark"] == 10 and found["ObjectDeleted"] == 12
    times = [one.observed_at for one in events(tmp_path)]
    assert times == sorted(times)


def test_the_bytes_of_an_object_are_those_that_were_sent(tmp_path: Path) -> None:
    odd = (
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"d","uid":"u","resourceVersion":"5",'
        b'"annotations":{"a":"\\u00e9\\/ \\u0000 \\ud83d\\ude00 \xc3\xa9","n":""},"generation":1},'
        b'"spec":{"x":1.0,"y":1e3,"z":-0,"big":123456789012345678901234567890,"t":"2026-01-01T00:00:00+05:30"},'
        b'"status":{"phase":"Pending","a":[ ],"b":{}}}'
    )
    path = written(tmp_path, "w", b'{"type":"ADDED","object":' + odd + b"}\n")
    assert imported(tmp_path, path).stored == 1
    assert events(tmp_path)[0].payload == odd


def test_markers_keep_their_file_and_label(tmp_path: Path) -> None:
    lines = marker("volcano-cache-dump", 5, file="dump-1.json", label="full", status="ok")
    imported(tmp_path, written(tmp_path, "w", recorded("ADDED", pod(), 1), lines))
    from tests.unit.sources.given import ledger

    with ledger(tmp_path) as opened:
        (stored, event) = next(iter(opened.markers("default")))
        assert (event.name, event.file, event.label, json.loads(event.detail)) == (
            "volcano-cache-dump",
            "dump-1.json",
            "full",
            {"status": "ok"},
        )
        assert opened.position("marker:dump-1", "default") == stored.position == 2


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", Format.empty),
        (b" \n\n", Format.empty),
        (b"hello\n", Format.unknown),
        (b"\0\1\2", Format.unknown),
        (b"{}", Format.unknown),
        (b'{"a":1}\n', Format.unknown),
        (b'{"recordedAt":"x","marker":"m"}\n', Format.recording),
        (b'{"recordedAt":"x","resou', Format.recording),
        (b'{"type":"ADDED","object":{}}\n', Format.watch),
        (b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}\n', Format.audit),
        (b'{\n "kind": "List"', Format.objects),
        (b"apiVersion: v1\nkind: Pod\n", Format.yaml),
        (b"# comment\n---\napiVersion: v1\n", Format.yaml),
        (b'{"n1":{"Name":"n1","Node":{}}}\n', Format.dump),
    ],
)
def test_detection(head: bytes, expected: Format) -> None:
    assert detect(head) is expected


def test_nothing_that_is_known(tmp_path: Path) -> None:
    with pytest.raises(NothingToImport, match="not a form that import knows"):
        imported(tmp_path, written(tmp_path, "x", b"hello"))
    with pytest.raises(NothingToImport, match="nothing in it"):
        imported(tmp_path, written(tmp_path, "y", b""))
