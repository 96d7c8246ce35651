"""`kubectl cluster-info dump`: the folder, the single stream, and the logs in it that are no objects.

Owns the proof that the lists come in and the logs stay out. Must not test lists themselves (test_formats).
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.sources.given import compact, events, imported, pod, written
from vcledger.sources import NothingToImport
from vcledger.sources.cluster_info import folders, without_logs

KINDS = {
    "replication-controllers": "ReplicationController",
    "services": "Service",
    "daemonsets": "DaemonSet",
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
}


def listed(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    """A list as kubectl prints a typed one: items without kind and apiVersion."""
    bare = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in items]
    return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {"resourceVersion": "900"}, "items": bare}


def node() -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "uid": "uid-n1", "resourceVersion": "3"},
        "status": {"allocatable": {"cpu": "4"}},
    }


def event() -> dict[str, Any]:
    meta = {"name": "p1.1", "namespace": "default", "uid": "uid-e", "resourceVersion": "7"}
    return {
        "metadata": meta,
        "involvedObject": {"kind": "Pod", "name": "p1"},
        "reason": "Pulled",
        "lastTimestamp": None,
    }


def namespace() -> dict[str, dict[str, Any]]:
    """The lists of a namespace by their files, in kubectl's order."""
    rest = {name: listed(kind) for name, kind in KINDS.items()}
    rest["services"] = listed("Service", {"metadata": {"name": "web", "uid": "u", "resourceVersion": "1"}})
    return {"events": listed("Event", event())} | rest | {"pods": listed("Pod", pod("p1", 20), pod("p2", 21))}


def log(name: str = "p1", text: str = 'starting {\n{"kind":"Pod"}\nno end of line') -> str:
    about = f"container main of pod default/{name}"
    return f"==== START logs for {about} ====\n{text}==== END logs for {about} ====\n"


def as_json(value: Any) -> str:
    return json.dumps(value, indent=4) + "\n"


def as_yaml(value: Any) -> str:
    return "---\n" + yaml.safe_dump(value)


def dumped(folder: Path, write: Callable[[Any], str] = as_json, suffix: str = ".json") -> Path:
    """A folder as --output-directory leaves it."""
    root = folder / "state"
    (root / "default" / "p1").mkdir(parents=True)
    (root / f"nodes{suffix}").write_text(write(listed("Node", node())))
    for name, whole in namespace().items():
        (root / "default" / f"{name}{suffix}").write_text(write(whole))
    (root / "default" / "p1" / "logs.txt").write_text(log() + log("p1b", '{"kind":"Pod","apiVersion":"v1"}\n'))
    return root


def stream(write: Callable[[Any], str] = as_json) -> str:
    """The same on standard output."""
    lists = "".join(write(whole) for whole in (listed("Node", node()), *namespace().values()))
    return lists + log() + log("p2", "") + write(listed("Event")) + write(listed("Pod", pod("late", 40)))


def names(tmp_path: Path) -> list[str]:
    return sorted(one.name for one in events(tmp_path))


@pytest.mark.parametrize(("write", "suffix"), [(as_json, ".json"), (as_yaml, ".yaml")])
def test_a_folder_is_one_source_and_its_logs_are_passed_over(
    tmp_path: Path, write: Callable[[Any], str], suffix: str
) -> None:
    root = dumped(tmp_path, write, suffix)
    report = imported(tmp_path, root)
    assert names(tmp_path) == ["n1", "p1", "p1.1", "p2"]
    assert (report.broken_count, report.unknown_files) == (0, [])
    assert {file.format for file in report.files if file.read} == {"cluster-info dump"}
    assert report.ignored == {"kind Service of v1": 1}
    assert [note for note in report.notes if "logs" in note] == [
        "passed over: the containers' logs of a cluster-info dump, 1 file"
    ]
    assert report.cannot_prove[0].startswith("cluster-info dump: ")
    assert len(report.cannot_prove) == 1
    assert imported(tmp_path, root).stored == 0


@pytest.mark.parametrize("write", [as_json, as_yaml])
def test_the_stream_form(tmp_path: Path, write: Callable[[Any], str]) -> None:
    report = imported(tmp_path, written(tmp_path, "dump.txt.gz", gzip.compress(stream(write).encode())))
    assert names(tmp_path) == ["late", "n1", "p1", "p1.1", "p2"]
    assert report.broken_count == 0
    assert report.files[0].format == "cluster-info dump"
    assert report.ignored == {"kind Service of v1": 1, "the log of a container": 2}


def test_lines_keep_their_numbers_behind_a_log(tmp_path: Path) -> None:
    text = stream().replace('"name": "late"', '"name": 5')
    report = imported(tmp_path, written(tmp_path, "dump", text.encode()))
    (broken,) = report.broken
    lines = text.splitlines()
    assert '"name": 5' in "\n".join(lines[broken.line - 1 : broken.line + 4])


@pytest.mark.slow
def test_a_log_that_is_cut_off_is_no_object(tmp_path: Path) -> None:
    text = as_json(listed("Node", node())) + log().partition("====\n")[0] + '====\n{"kind":"Pod","apiVersion":"v1"}\n'
    report = imported(tmp_path, written(tmp_path, "dump", text.encode()))
    assert names(tmp_path) == ["n1"]
    assert report.broken_count == 0


@pytest.mark.slow
def test_other_folders_of_lists_are_no_dump(tmp_path: Path) -> None:
    root = dumped(tmp_path)
    (root / "default" / "replication-controllers.json").unlink()
    assert {file.format for file in imported(tmp_path, root).files if file.read} == {"JSON objects"}
    paths = [root / "nodes.json", *(root / "default" / f"{name}.json" for name in ("events", "pods"))]
    assert folders(paths) == set()
    assert folders([*paths, root / "default" / "replication-controllers.json"]) == {root}


def test_logs_alone_are_nothing_to_import(tmp_path: Path) -> None:
    with pytest.raises(NothingToImport, match="nothing in it"):
        imported(tmp_path, written(tmp_path, "logs.txt", log().encode()))


@pytest.mark.parametrize("seed", range(3))
def test_however_a_stream_is_cut_into_chunks_only_logs_go(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    tricky = compact({"text": "==== START logs for container x of pod a/b ===="}).decode() + "\n"
    text = log("a") + tricky + log("b", tricky + "==== END logs for container other ====\n") + "{}\n" + log("c")
    want = tricky + "{}\n"
    for _ in range(200):
        chunks, rest = [], text.encode()
        while rest:
            size = chance.choice((1, 3, 20, 70, 400))
            chunks.append(rest[:size])
            rest = rest[size:]
        met: list[int] = []
        left = b"".join(without_logs(chunks, lambda met=met: met.append(1))).decode()  # type: ignore[misc]
        assert "".join(line + "\n" for line in left.split("\n") if line) == want
        assert left.count("\n") == text.count("\n")
        assert len(met) == 3
