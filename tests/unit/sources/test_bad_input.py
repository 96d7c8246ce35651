"""Bad input: a clear reason with file and line, an exit code, and what stands beside it is stored.

Owns the refusals. Must not test good input beyond that it survives its neighbours.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import zstandard

from tests.unit.sources.given import (
    clock,
    compact,
    events,
    imported,
    ledger,
    listed,
    marker,
    pod,
    recorded,
    watch_line,
    watch_of,
    written,
)
from vcledger.errors import VcledgerError
from vcledger.sources import ImportOptions, NoSuchInput, NothingToImport, StorageOptions, import_paths
from vcledger.sources.compress import open_source
from vcledger.sources.moments import Moments
from vcledger.sources.observe import Observer
from vcledger.sources.reader import Reader
from vcledger.sources.report import silent
from vcledger.sources.shape import Clock

GOOD = watch_line("ADDED", pod("good", 10))
ALSO = watch_line("ADDED", pod("also", 11))


def with_quantity(value: Any) -> dict[str, Any]:
    return pod("bad", 12, spec={"containers": [{"resources": {"requests": {"cpu": value}}}]})


BROKEN: dict[str, tuple[bytes, str]] = {
    "cut": (b'{"type":"ADDED","object":{"kind":"Pod"', "truncated"),
    "garbage": (b"what is this", "malformed"),
    "no utf-8": (GOOD.rstrip().replace(b"good", b"g\xffod"), "utf-8"),
    "no utf-8 in a field that nobody reads": (
        compact({"type": "ADDED", "object": pod("x", 1, selfLink="@")}).replace(b"@", b"\xff"),
        "utf-8",
    ),
    "lone surrogate in a label": (
        compact({"type": "ADDED", "object": pod("x", 1, labels={"a": "@"})}).replace(b"@", b"\\ud800"),
        "hex escape",
    ),
    "quantity": (watch_line("ADDED", with_quantity("many"))[:-1], "'many' is no quantity"),
    "quantity of a wrong type": (watch_line("ADDED", with_quantity({"a": 1}))[:-1], "Expected"),
    "metadata is null": (compact({"type": "ADDED", "object": pod() | {"metadata": None}}), "metadata"),
    "no metadata": (b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}', "metadata"),
    "spec of a wrong type": (compact({"type": "ADDED", "object": pod() | {"spec": 5}}), "spec"),
    "no kind": (compact({"type": "ADDED", "object": {"metadata": {}}}), "without kind"),
    "unknown type": (watch_line("EXPLODED", pod())[:-1], "EXPLODED"),
    "control character in the name": (watch_line("ADDED", pod("a\0b"))[:-1], "characters"),
    "endless name": (watch_line("ADDED", pod("a" * 300))[:-1], "longer"),
    "nested too deeply": (b'{"type":"ADDED","object":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, ""),
    "a number": (b"12", "Expected"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_line_is_named_and_its_neighbours_are_stored(tmp_path: Path, case: str) -> None:
    line, reason = BROKEN[case]
    report = imported(tmp_path, written(tmp_path, "w.jsonl", GOOD, line, b"\n", ALSO))
    assert [one.name for one in events(tmp_path)] == ["good", "also"]
    assert (report.read, report.stored, report.broken_count) == (3, 2, 1)
    broken = report.broken[0]
    assert broken.line == 2 and broken.file.endswith("w.jsonl") and reason.lower() in broken.reason.lower()
    assert "\n" not in str(broken) and len(str(broken)) < 400


UNWANTED: dict[str, tuple[dict[str, Any], str]] = {
    "no uid": (pod("x", 1) | {"metadata": {"name": "x", "resourceVersion": "1"}}, "metadata.uid"),
    "no name": (pod("x", 1) | {"metadata": {"uid": "x", "resourceVersion": "1"}}, "metadata.name"),
    "no version": (pod("x", 1) | {"metadata": {"name": "x", "uid": "u"}}, "metadata.resourceVersion"),
    "unknown kind": (pod() | {"kind": "ConfigMap"}, "kind ConfigMap of v1"),
    "batch job": (pod() | {"kind": "Job", "apiVersion": "batch/v1"}, "kind Job of batch/v1"),
}


@pytest.mark.parametrize("case", UNWANTED)
def test_what_is_whole_but_not_for_the_ledger_is_counted(tmp_path: Path, case: str) -> None:
    obj, reason = UNWANTED[case]
    report = imported(tmp_path, written(tmp_path, "w", GOOD, watch_line("ADDED", obj)))
    assert (report.stored, report.broken_count) == (1, 0)
    assert [count for text, count in report.ignored.items() if reason in text] == [1]


def test_an_opaque_version_is_kept_once(tmp_path: Path) -> None:
    data = b"".join(
        watch_line("ADDED", pod("x") | {"metadata": pod("x")["metadata"] | {"resourceVersion": v}})
        for v in ("abc", "007", "abc")
    )
    assert imported(tmp_path, written(tmp_path, "w", data)).stored == 2


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("packing", COMPRESSED)
def test_cut_off_compressed_files_give_what_came_before(tmp_path: Path, packing: str) -> None:
    data = watch_of("02")
    packed = COMPRESSED[packing](data)
    report = imported(tmp_path, written(tmp_path, "w", packed[: len(packed) * 2 // 3]))
    assert report.stored > 500
    assert any("cut off" in broken.reason for broken in report.broken)
    # At most the line in the middle of which it ends is broken besides.
    assert report.broken_count <= 2
    assert imported(tmp_path, written(tmp_path, "w", packed)).broken_count == 0


@pytest.mark.parametrize("packing", COMPRESSED)
def test_damaged_compressed_files(tmp_path: Path, packing: str) -> None:
    packed = bytearray(COMPRESSED[packing](watch_of("02")))
    packed[len(packed) // 2 :: 7] = b"\xa5" * len(packed[len(packed) // 2 :: 7])
    report = imported(tmp_path, written(tmp_path, "w", bytes(packed)))
    assert report.broken_count >= 1


def test_a_line_of_50_megabytes_is_left_out_with_its_number(tmp_path: Path) -> None:
    huge = b'{"type":"ADDED","object":{"x":"' + b"y" * (50 << 20) + b'"}}\n'
    path = written(tmp_path, "w", GOOD, huge, ALSO)
    tracemalloc.start()
    report = imported(tmp_path, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [one.name for one in events(tmp_path)] == ["good", "also"]
    assert report.broken[0].line == 2 and "--max-line-size" in report.broken[0].reason
    assert peak < 60 << 20


@pytest.mark.slow
def test_a_pretty_value_of_50_megabytes_is_left_out(tmp_path: Path) -> None:
    huge = json.dumps({"type": "ADDED", "object": {"items": ["y" * 1000] * 50_000}}, indent=1).encode() + b"\n"
    pretty = [json.dumps(json.loads(line), indent=4).encode() + b"\n" for line in (GOOD, ALSO)]
    report = imported(tmp_path, written(tmp_path, "w", pretty[0], huge, pretty[1]))
    assert [one.name for one in events(tmp_path)] == ["good", "also"]
    assert report.broken_count == 1 and "--max-line-size" in report.broken[0].reason


def test_an_object_of_5_megabytes_is_kept(tmp_path: Path) -> None:
    big = pod("big", 12, annotations={"a": "x" * (5 << 20)})
    path = written(tmp_path, "w", GOOD, watch_line("ADDED", big), ALSO)
    assert imported(tmp_path, path).stored == 3
    assert json.loads(events(tmp_path, name="big")[0].payload) == big
    options = ImportOptions(snapshots=False, max_line_bytes=1 << 20)
    assert imported(tmp_path, path, db="small.db", options=options).stored == 2


@pytest.mark.slow
def test_a_list_of_any_length_takes_little_memory() -> None:
    """Read item by item: 15 MB on one line, of which never more than a chunk and an item are held."""
    item = compact(pod("p", 1, annotations={"a": "x" * 5000}))

    def chunks() -> Iterator[bytes]:
        yield b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":['
        for _ in range(3000):
            yield item + b","
        yield item + b"]}"

    reader = Reader("list", Observer("c", StorageOptions()), silent("list"), 1 << 20, Moments(Clock(), clock))
    tracemalloc.start()
    found = sum(1 for _ in reader.items(reader.open(chunks())))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == 3001
    # The window in which objects are put in order, and the beginning that was looked at to tell the format.
    assert peak < 12 << 20


def test_truncated_pretty_json_loses_only_the_value_that_is_cut(tmp_path: Path) -> None:
    first, second, third = (
        json.dumps({"type": "ADDED", "object": pod(name, version)}, indent=4).encode() + b"\n"
        for name, version in (("a", 1), ("b", 2), ("c", 3))
    )
    report = imported(tmp_path, written(tmp_path, "w", first, second[:200], b"\n", third, first[:90]))
    assert [one.name for one in events(tmp_path)] == ["a", "c"]
    assert [broken.line for broken in report.broken] == [first.count(b"\n") + 1, report.broken[1].line]


def test_a_truncated_list_gives_its_whole_items(tmp_path: Path) -> None:
    whole = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [pod("a", 1), pod("b", 2), pod("c", 3)]}, indent=4
    ).encode()
    report = imported(tmp_path, written(tmp_path, "w", whole[: whole.index(b'"c"')]))
    assert [one.name for one in events(tmp_path)] == ["a", "b"]
    assert report.broken_count == 1


def test_broken_yaml_documents(tmp_path: Path) -> None:
    good = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u, resourceVersion: '5'}\n"
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 10)) for i in range(9)
    )
    path = written(
        tmp_path,
        "w",
        good,
        b"---\nkind: [\n",
        b"---\n",
        bomb,
        b"---\nkind: Pod\napiVersion: v1\nmetadata: {? [a] : b}\n",
        b"---\n",
        good.replace(b"name: a", b"name: b").replace(b"uid: u", b"uid: v"),
    )
    report = imported(tmp_path, path)
    assert [one.name for one in events(tmp_path)] == ["a", "b"]
    assert [broken.line for broken in report.broken] == [5, 7, 18]
    assert "aliases" in report.broken[1].reason


def test_a_dump_that_is_cut_off(tmp_path: Path) -> None:
    dump = b'{"n1":{"Name":"n1","Node":{"metadata":{"name":"n1"}}\n'
    report = imported(tmp_path, written(tmp_path, "a", GOOD), written(tmp_path, "dump.json", dump))
    assert report.stored == 1 and "dump" in report.broken[0].reason


def test_missing_and_unreadable_paths_before_anything_is_stored(tmp_path: Path) -> None:
    path = written(tmp_path, "w", GOOD)
    with pytest.raises(NoSuchInput, match=r"gone\.json: no such file"):
        imported(tmp_path, path, tmp_path / "gone.json")
    assert events(tmp_path) == []


def test_an_unreadable_file_in_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's refusal is played: whoever runs the tests as root may read everything."""
    folder = tmp_path / "in"
    folder.mkdir()
    written(folder, "a", GOOD)
    refused = written(folder, "b", ALSO)

    def refuse(path: Path | str) -> IO[bytes]:
        if path == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return open_source(path)

    monkeypatch.setattr("vcledger.sources.source.open_source", refuse)
    report = imported(tmp_path, folder)
    assert report.stored == 1 and str(report.broken[0]) == f"{refused}: cannot be read: Permission denied"
    with pytest.raises(NoSuchInput, match="Permission denied; nothing was imported"):
        imported(tmp_path, refused)


def test_an_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(NothingToImport, match="no files"):
        imported(tmp_path, folder)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "x" * 300])
def test_names_that_no_cluster_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(VcledgerError, match="no name for a cluster"):
        imported(tmp_path, written(tmp_path, "w", GOOD), cluster=name)


def test_a_recordings_odd_lines(tmp_path: Path) -> None:
    lines = (
        recorded("ADDED", pod("a", 1), 1),
        recorded("ADDED", pod("b", 2), 2).replace(b"T09:00:02", b"T09:00:99"),
        recorded("ADDED", pod("c", 3), 3).replace(b"2026-03-01T", b"yesterday "),
        b'{"recordedAt":"2026-03-01T09:00:04Z"}\n',
        b'{"recordedAt":"2026-03-01T09:00:04Z","resource":"pods","type":"ADDED"}\n',
        marker("list", 5, resource="widgets"),
        recorded("ADDED", pod("d", 4) | {"kind": "Widget"}, 6, resource="widgets"),
        recorded("ADDED", pod("e", 5), 7.000001).replace(b"Z", b"+00:00"),
    )
    report = imported(tmp_path, written(tmp_path, "w", *lines))
    assert [one.name for one in events(tmp_path)] == ["a", "e"]
    assert [broken.line for broken in report.broken] == [2, 3, 4, 5]
    assert sum(report.ignored.values()) == 2


def test_times_that_go_back_within_a_file_are_evened_out(tmp_path: Path) -> None:
    lines = (recorded("ADDED", pod("a", 1), 5), recorded("ADDED", pod("b", 2), 4), recorded("ADDED", pod("c", 3), 6))
    path = written(tmp_path, "w", *lines)
    report = imported(tmp_path, path)
    found = events(tmp_path)
    assert report.late == 0 and [one.observed_at - found[0].observed_at for one in found] == [0, 0, 1_000_000]
    assert report.notes == [f"{path}: line 2 goes back in time, by 1 s: the time of what is before it stands"]


def test_lines_that_go_back_are_counted_read_beside_or_not(tmp_path: Path) -> None:
    lines = [recorded("ADDED", pod(f"p{number}", number + 1), number) for number in range(40)]
    lines[20] = lines[20].replace(b"2026-03-01T", b"2025-02-28T")
    lines[30] = recorded("ADDED", pod("p30", 31), 28.5)
    lines[35:35] = [marker("watch-start", 10, resource="pods", resourceVersion="7")]
    path = written(tmp_path, "w", *lines)
    here = imported(tmp_path, path)
    beside = imported(tmp_path, path, db="beside.db", options=ImportOptions(snapshots=False, beside_bytes=0))
    assert here.notes == beside.notes
    assert here.notes == [
        f"{path}: 3 lines go back in time, by 365 d at most, the first at line 21: the time of what is before them "
        "stands"
    ]
    times, others = ([one.observed_at for one in events(tmp_path, db, kinds="Pod")] for db in ("test.db", "beside.db"))
    assert times == others == sorted(times) and len(times) == 41
    assert times[20] == times[19] and times[30] == times[29]


def test_files_of_one_call_are_merged_by_time_and_later_ones_are_late(tmp_path: Path) -> None:
    odd = written(tmp_path, "odd", *(recorded("ADDED", pod(f"p{n}", n), n) for n in (1, 3, 5)))
    even = written(tmp_path, "even", *(recorded("ADDED", pod(f"p{n}", n), n) for n in (2, 4, 6)))
    imported(tmp_path, odd, even)
    assert [one.name for one in events(tmp_path)] == ["p1", "p2", "p3", "p4", "p5", "p6"]
    early = written(tmp_path, "early", recorded("ADDED", pod("p0", 7), 3.5), recorded("ADDED", pod("p9", 9), 9))
    assert imported(tmp_path, early).late == 1
    assert [(one.name, one.late) for one in events(tmp_path)][-2:] == [("p0", True), ("p9", False)]


def test_broken_input_is_written_aside(tmp_path: Path) -> None:
    aside = tmp_path / "aside.jsonl"
    path = written(tmp_path, "w", GOOD, b"\xff nonsense\n", ALSO)
    with ledger(tmp_path) as opened:
        import_paths(opened, [path], options=ImportOptions(snapshots=False, broken_file=aside))
    (line,) = aside.read_text().splitlines()
    assert json.loads(line) | {"reason": ""} == {"file": str(path), "line": 2, "reason": "", "text": "\\xff nonsense"}


def test_a_list_item_that_is_no_object(tmp_path: Path) -> None:
    data = listed([pod("a", 1)], 0) + recorded("ADDED", pod("b", 2), 1).replace(b'"object":{', b'"object":[{').replace(
        b"}}\n", b"}]}\n"
    )
    report = imported(tmp_path, written(tmp_path, "w", data))
    assert [one.name for one in events(tmp_path) if one.name] == ["a"] and report.broken_count == 1


def test_a_folder_of_more_files_than_may_be_open(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(1200):
        written(folder, f"{number:04d}.json", watch_line("ADDED", pod(f"p{number}", number + 1)))
    assert imported(tmp_path, folder).stored == 1200


def test_late_lines_of_a_watch_are_pointed_out(tmp_path: Path) -> None:
    imported(tmp_path, written(tmp_path, "w", recorded("ADDED", pod("a", 1), 9)))
    report = imported(tmp_path, written(tmp_path, "v", recorded("ADDED", pod("b", 2), 5)))
    assert report.late == 1 and any("one import" in note for note in report.notes)


@pytest.mark.parametrize("part", ["name", "namespace", "uid"])
def test_a_name_is_as_long_as_the_api_allows_and_no_longer(tmp_path: Path, part: str) -> None:
    longest, beyond = pod("p", 12), pod("p", 13)
    longest["metadata"][part], beyond["metadata"][part] = "x" * 253, "x" * 254
    path = written(tmp_path, "watch.jsonl", watch_line("ADDED", longest), watch_line("ADDED", beyond))
    report = imported(tmp_path, path)
    assert (report.stored, report.broken_count) == (1, 1)
    assert "longer than the API allows (253)" in report.broken[0].reason
