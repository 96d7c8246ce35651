"""The reader of Volcano's cache dumps: every layout, every packing, and what is no dump."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.data import recording
from vcledger.sources import volcano_dump
from vcledger.sources.volcano_dump import NotADump

EMPTY = {"MilliCPU": 0, "Memory": 0, "ScalarResources": None, "MaxTaskNum": 0}


def amount(cpu: float, memory: float, **scalars: float) -> dict[str, Any]:
    return {"MilliCPU": cpu, "Memory": memory, "ScalarResources": scalars or None, "MaxTaskNum": 0}


def task(uid: str, status: int, node: str) -> dict[str, Any]:
    return {
        "UID": uid,
        "Job": "team/g",
        "Name": f"p-{uid}",
        "Namespace": "team",
        "Resreq": amount(500, 1024, pods=1),
        "NodeName": node,
        "Status": status,
        "Priority": 1,
        "Preemptable": True,
        "BestEffort": False,
        "Pod": {"metadata": {"name": f"p-{uid}"}},
    }


NODES = {
    "n1": {
        "Name": "n1",
        "Node": {"metadata": {"name": "n1", "uid": "u-n1"}},
        "State": {"Phase": 1, "Reason": ""},
        "Releasing": EMPTY,
        "Pipelined": EMPTY,
        "Idle": amount(1500, 3072),
        "Used": amount(500, 1024, pods=1),
        "Allocatable": amount(2000, 4096),
        "Capacity": amount(2000, 4096),
        "Tasks": {"team/p-a": task("a", 32, "n1")},
    }
}
JOBS = {
    "team/g": {
        "UID": "team/g",
        "PgUID": "u-g",
        "Name": "g",
        "Namespace": "team",
        "Queue": "default",
        "Priority": 7,
        "MinAvailable": 1,
        "Tasks": {"a": task("a", 32, "n1"), "b": task("b", 1, "")},
        "TaskMinAvailable": {"w": 2},
        "Allocated": amount(500, 1024, pods=1),
        "TotalRequest": amount(1000, 2048, pods=2),
        "PodGroup": {"metadata": {"name": "g"}, "Version": "v1beta1"},
    }
}


def written(*values: object) -> bytes:
    """A series of JSON values as Go's encoder writes it."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


LAYOUTS = {
    1: written(NODES),
    4: written(NODES, {"1": {"s0": {}}}, {"s0": {"n1": {}}}, JOBS),
    5: written(NODES, {"1": {"s0": {}}}, {"s0": {"n1": {}}}, None, JOBS),
    6: written(NODES, {}, {}, {}, None, JOBS),
}


@pytest.mark.parametrize("count", LAYOUTS)
def test_every_layout_gives_its_nodes_and_jobs(count: int) -> None:
    dump = volcano_dump.parse(LAYOUTS[count], "dump.json")
    assert dump.documents == count
    node = dump.nodes["n1"]
    assert (node.idle.milli_cpu, node.idle.memory, node.idle.scalars) == (1500, 3072, None)
    assert json.loads(bytes(node.node))["metadata"]["uid"] == "u-n1"
    if count == 1:
        assert dump.jobs is None
        assert list(dump.tasks()) == ["a"]
        return
    assert dump.jobs is not None
    job = dump.jobs["team/g"]
    assert (job.priority, job.min_available, job.task_min_available) == (7, 1, {"w": 2})
    assert {uid: found.status for uid, found in dump.tasks().items()} == {"a": "Running", "b": "Pending"}
    assert json.loads(bytes(job.pod_group))["metadata"]["name"] == "g"


def test_a_pretty_printed_dump_is_the_same_dump() -> None:
    pretty = "\n".join(json.dumps(value, indent=2) for value in (NODES, {}, {}, {}, None, JOBS)).encode()
    plain, printed = volcano_dump.parse(LAYOUTS[6], "x"), volcano_dump.parse(pretty, "x")
    assert printed.documents == plain.documents
    assert printed.tasks().keys() == plain.tasks().keys()
    assert printed.nodes["n1"].used == plain.nodes["n1"].used


def test_braces_quotes_and_backslashes_in_text_do_not_end_a_value() -> None:
    odd = json.loads(json.dumps(NODES))
    odd["n1"]["State"]["Reason"] = 'a "}{" and a \\ and ]['
    pretty = "\n".join(json.dumps(value, indent=1) for value in (odd, {}, {}, JOBS)).encode()
    dump = volcano_dump.parse(pretty, "x")
    assert dump.documents == 4
    assert dump.nodes["n1"].state is not None
    assert dump.nodes["n1"].state.reason == 'a "}{" and a \\ and ]['


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_plain_gzip_and_zstd_files_are_read(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "snapshot-1.json"
    path.write_bytes(pack(LAYOUTS[6]))
    assert volcano_dump.read(path).documents == 6


def test_a_slimmed_dump_has_the_names_of_its_tasks_from_the_jobs() -> None:
    """Recording 06 keeps of a node's tasks only uid, job, status and request."""
    dump = volcano_dump.read(recording("06") / "volcano-cache-dump-2-C-contended.json.zst")
    assert (len(dump.nodes), len(dump.jobs or {}), len(dump.tasks())) == (300, 64, 832)
    assert all(found.name and found.namespace == "default" for found in dump.tasks().values())


def truncations() -> list[bytes]:
    """Layout 6 cut at many places, after each of its values too. Cut after the first it is a whole dump of layout 1."""
    data = LAYOUTS[6]
    ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    cuts = [*range(1, len(data) - 1, 37), *ends[1:-1]]
    return [data[:cut] for cut in sorted(set(cuts)) if cut not in (ends[0] - 1, ends[0])]


@pytest.mark.parametrize("data", truncations(), ids=len)
def test_a_dump_that_is_cut_off_is_refused(data: bytes) -> None:
    with pytest.raises(NotADump):
        volcano_dump.parse(data, "dump.json")


BAD = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "text": (b"hello world", "not a JSON object"),
    "a string": (b'"{}"', "not a JSON object"),
    "an array": (b"[1]", "its nodes"),
    "null": (b"null", "its nodes"),
    "no nodes": (b'{"a": 1}', "its nodes"),
    "wrong UTF-8": (b'{"a\xff": {}}', "not a cache dump"),
    "unbalanced": (b"}{", "not a JSON object"),
    "two values": (written(NODES, JOBS), "2 JSON values"),
    "seven values": (written(NODES, {}, {}, {}, {}, {}, JOBS), "7 JSON values"),
    "something after it": (LAYOUTS[6] + b"x", "not a JSON object"),
    "hyper nodes at the end": (written(NODES, {}, {}, {"s0": {"n1": {}}}), "last value is not the jobs"),
    "an unknown status": (written({"n1": {**NODES["n1"], "Tasks": {"t/p": task("a", 3, "n1")}}}), "status 3"),
    "an unknown phase": (written({"n1": {**NODES["n1"], "State": {"Phase": 9}}}), "unknown phase 9"),
    "half a gzip": (gzip.compress(LAYOUTS[6])[:-20], "cut off"),
    "half a zstd": (zstandard.compress(LAYOUTS[6] * 50)[:30], "cut off"),
    "no zstd at all": (b"\x28\xb5\x2f\xfdrubbish", "cut off"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_dump_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    data, said = BAD[name]
    path = tmp_path / "dump.json"
    path.write_bytes(data)
    with pytest.raises(NotADump) as refused:
        volcano_dump.read(path)
    assert said in str(refused.value)
    assert str(refused.value).startswith("dump.json")
    assert "\n" not in str(refused.value)


def test_sniff_tells_a_dump_from_other_json() -> None:
    assert volcano_dump.sniff(LAYOUTS[1])
    assert volcano_dump.sniff(b'{\n  "n1": {\n    "Name": "n1"')
    assert volcano_dump.sniff(written({}, {}, {}, JOBS))
    for other in (b'{"type":"ADDED","object":{}}', b'{"kind":"List","items":[]}', b"", b"[]", b"{}"):
        assert not volcano_dump.sniff(other)
