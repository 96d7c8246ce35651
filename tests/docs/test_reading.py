"""The page on reading a ledger has the keys that the commands print, and the pages have each option of each command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.data import recording
from tests.docs.test_names import PAGES, commands
from vcledger.ledger import Ledger
from vcledger.sources import import_paths

PAGE = (Path(__file__).parents[2] / "docs" / "reading.md").read_text(encoding="utf-8")
DUMP = recording("03-volumes") / "volcano-cache-dump-2-binding-in-flight.json.zst"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings: one has volumes, drift and tasks in flight, the other has gaps."""
    path = tmp_path_factory.mktemp("reading") / "ledger.db"
    with Ledger.open(str(path), create=True) as ledger:
        for cluster, name in (("volumes", "03-volumes"), ("gaps", "07-recorder-gap-apiserver-restart")):
            import_paths(ledger, [recording(name) / "watch.jsonl.zst"], cluster=cluster)
    return path


def documented(command: str) -> set[str]:
    """The keys that the page's table names for a command; what it says in brackets is no key."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {command} |"))
    cell = re.sub(r"\([^()]*(?:\([^()]*\))?[^()]*\)", "", row.split("|")[2]).partition(";")[0]
    words = re.sub(r"\band\b|\bor\b|\[[^\]]*\]", ",", cell).replace("`", "").split(",")
    return {word.strip() for word in words if word.strip()}


def printed(*words: str, db: Path | None = None) -> Any:
    result = CliRunner().invoke(app, [*words, "-o", "json", *(["--db", str(db)] if db is not None else [])])
    assert result.exit_code in {0, 1}, result.output
    lines = result.stdout.splitlines()
    return [json.loads(line) for line in lines] if words[0] == "log" else json.loads(result.stdout)


def keys(value: Any) -> set[str]:
    """The keys of a value, or of all the rows of a list."""
    return {key for row in (value if isinstance(value, list) else [value]) for key in row}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        *(("get", kind, "-A", "--cluster", "volumes") for kind in ("nodes", "jobs", "tasks", "queues", "volumes")),
        ("get", "pending", "-A", "--cluster", "volumes"),
        *(("get", kind) for kind in ("markers", "gaps", "clusters")),
        ("log", "--cluster", "volumes"),
        ("diff", "--cluster", "volumes", "--from", "marker:bound-and-pending"),
        ("drift", "--cluster", "volumes"),
        ("compare", str(DUMP), "--cluster", "volumes"),
        ("check", "--cluster", "gaps"),
        ("verify",),
        ("stats",),
        ("state", "--cluster", "gaps"),
    ],
    ids=lambda words: " ".join(words[: 2 if words[0] == "get" else 1]),
)
def test_the_keys_are_those_that_are_printed(db: Path, words: tuple[str, ...]) -> None:
    command = " ".join(words[:2]) if words[0] == "get" else words[0]
    found = printed(*words, db=db)
    assert found, "there is something to look at"
    assert keys(found) == documented(command)


def test_the_keys_of_what_makes_a_ledger_or_a_world(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}
    path.write_text(json.dumps(node))
    assert keys(printed("import", str(path), db=tmp_path / "new.db")) == documented("import")
    assert keys(printed("simulate", "--steps", "1", "--once", "--faults", "none")) == documented("simulate")


HIDDEN = {"--help", "--strict"}
"""--strict is what `import` does anyway, taken for those who still say it."""


def test_each_option_is_on_a_page_that_speaks_of_its_command() -> None:
    texts = [page.read_text() for page in PAGES if page.name != "CHANGELOG.md" and "adr" not in page.parts]
    missing = [
        f"{command} {option}"
        for command, options in commands().items()
        for option in sorted(options - HIDDEN)
        if option.startswith("--")
        and not any(re.search(rf"{option}(?![\w-])", text) and re.search(rf"\b{command}\b", text) for text in texts)
    ]
    assert missing == []
