"""The given scenarios under other names, namespaces, versions and amounts, and two at once.

What holds of one holds of all of its kind, as nothing in the runner nor in the flow knows a name or a number."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data import GOLDEN
from vcledger.conformance_files import PASSED, check
from vcledger.testing.scenario_format import EXPECTATIONS_SUFFIX

REPORTS = GOLDEN / "reports"
FLOWING = [path for path in sorted(REPORTS.glob("*.jsonl")) if not path.stem.startswith("E")]
NAMED = ("Node", "Pod", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "PodGroup")
VERSION_KEYS = (
    "resourceVersion",
    "from_resource_version",
    "to_resource_version",
    "watch_resource_version",
    "last_seen_resource_version",
)


def parts(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines of a script and its expectations."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return lines, json.loads(path.with_name(path.stem + EXPECTATIONS_SUFFIX).read_text())


def put(folder: Path, name: str, lines: list[dict[str, Any]], expect: dict[str, Any]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / f"{name}{EXPECTATIONS_SUFFIX}").write_text(json.dumps({**expect, "input": path.name}))
    return path


def texts(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """The value with each text changed, keys of objects too; `change` is given the key under which the text stands."""
    if isinstance(value, dict):
        return {change(name, "") if "/" in name else name: texts(one, change, name) for name, one in value.items()}
    if isinstance(value, list):
        return [texts(one, change, key) for one in value]
    return change(value, key) if isinstance(value, str) else value


# --- other names, namespaces, versions, amounts -------------------------------------------------------------------


def objects(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if isinstance(line["object"].get("metadata"), dict):
            yield line["object"]
            yield from line["object"].get("items") or ()


def names(lines: list[dict[str, Any]]) -> list[str]:
    """The names of what is scheduled and where, the longest first."""
    found = {
        one["metadata"]["name"] for one in objects(lines) if one.get("kind") in NAMED and one["metadata"].get("name")
    }
    return sorted(found, key=lambda name: (-len(name), name))


def renamed(lines: list[dict[str, Any]], expect: dict[str, Any], mark: str) -> tuple[Any, Any]:
    """Every name with a mark behind it, wherever it stands as a word: in paths, messages, keys and facts."""
    pattern = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, names(lines)))})(?![\w]|-\w|\.\w)")

    def change(text: str, key: str) -> str:
        if key in ("uid", "phase", "type", "reason", "input", "id", "resourceVersion", "action", "op"):
            return text
        return pattern.sub(lambda found: f"{found[1]}{mark}", text)

    def keyed(value: Any) -> Any:
        """Facts by node name: per_node."""
        if isinstance(value, dict):
            return {
                name: {change(node, ""): text for node, text in one.items()} if name == "per_node" else keyed(one)
                for name, one in value.items()
            }
        return [keyed(one) for one in value] if isinstance(value, list) else value

    return texts(lines, change), keyed(texts(expect, change))


def moved(lines: list[dict[str, Any]], expect: dict[str, Any], mark: str) -> tuple[Any, Any]:
    """In another namespace."""

    def change(text: str, key: str) -> str:
        if key == "namespace":
            return "team-a" if text == "default" else text
        return re.sub(r"(?<![\w-])default/", "team-a/", text.replace("namespaces/default/", "namespaces/team-a/"))

    return texts(lines, change), texts(expect, change)


def later(lines: list[dict[str, Any]], expect: dict[str, Any], mark: str) -> tuple[Any, Any]:
    """In a cluster that has seen more."""

    def change(text: str, key: str) -> str:
        wanted = key in VERSION_KEYS and text.isdigit() and text != "0"
        return str(int(text) + 7_654_321) if wanted else text

    return texts(lines, change), texts(expect, change)


def other_units(lines: list[dict[str, Any]], expect: dict[str, Any], mark: str) -> tuple[Any, Any]:
    """The same amounts, written otherwise."""

    def change(text: str, key: str) -> str:
        if key == "cpu" and text.isdigit():
            return f"{text}000m"
        if key in ("memory", "storage") and text.endswith("Gi"):
            return f"{int(text[:-2]) * 1024}Mi"
        return text

    return texts(lines, change), expect


CHANGES = {"renamed": renamed, "moved": moved, "later": later, "other units": other_units}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", FLOWING, ids=lambda path: path.stem)
def test_the_same_under_other_names_and_numbers(path: Path, change: str, tmp_path: Path) -> None:
    lines, expect = CHANGES[change](*parts(path), "-of-2")
    given, _ = parts(path)
    assert lines != given or (change, path.stem[0]) in (("other units", "R"), ("moved", "C"))
    outcome = check(put(tmp_path, path.stem, lines, expect))
    assert (outcome.verdict, outcome.lines) == (PASSED, ())


# --- two at once --------------------------------------------------------------------------------------------------


def apart(path: Path, number: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A scenario under names and UIDs of its own."""
    lines, expect = renamed(*parts(path), f"-{number}")
    uids = {one["metadata"]["uid"] for one in objects(lines) if one["metadata"].get("uid")}

    def change(text: str, key: str) -> str:
        if text in uids:
            return f"{text}-{number}"
        for uid in uids if key == "key" else ():
            text = re.sub(rf"/{re.escape(uid)}$", f"/{uid}-{number}", text)
        return text

    return texts(lines, change), texts(expect, change)


def alone(fact: dict[str, Any]) -> bool:
    """Whether a fact is about one scenario's own objects, whatever else is there."""
    return not {"queue", "nodes", "pods", "gap", "resume"} & fact.keys() and "fits_on" not in fact


TOGETHER = ("B1 C3", "B2 V1", "B3 C2", "C1 V2", "B1 V3", "B2 B3")
PAIRS = [
    pair
    for pair in itertools.combinations([path for path in FLOWING if path.stem[0] in "BCV"], 2)
    if " ".join(path.stem for path in pair) in TOGETHER
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: " and ".join(path.stem for path in pair))
def test_two_at_once(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Their lines in turns, so that each goes on while the other waits; time passes for both."""
    first, second = (apart(path, number) for number, path in enumerate(pair, start=1))
    turns = itertools.zip_longest(first[0], second[0])
    lines = [line for turn in turns for line in turn if line is not None]
    facts = [fact for _, expect in (first, second) for fact in expect["facts"] if alone(fact) and "why" not in fact]
    outcome = check(put(tmp_path, "both", lines, {"facts": facts}))
    assert (outcome.verdict, outcome.lines) == (PASSED, ())
