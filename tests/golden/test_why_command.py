"""`vcledger why` as a person calls it: forms, targets, errors, and what a script gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import app
from projections.diagnosis.model import VERDICTS
from tests.data import recording
from vcledger.ledger import Ledger
from vcledger.sources import import_paths

AT = ("--at", "marker:volcano-cache-dump-1-many-pending.json")
KEYS = {"verdict", "message", "causes", "nodes", "fits_on", "said", "evidence"}

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recording 02 as a ledger."""
    path = tmp_path_factory.mktemp("why") / "ledger.db"
    with Ledger.open(str(path), create=True) as ledger:
        import_paths(ledger, [recording("02") / "watch.jsonl.zst"], cluster="lab")
    return path


@pytest.fixture
def call(db: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """`call("default/p")`: the result of `vcledger why default/p` on that ledger."""
    monkeypatch.setenv("VCLEDGER_DB", str(db))
    monkeypatch.delenv("VCLEDGER_DEBUG", raising=False)

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["why", *words])

    yield run


def test_the_text_is_short_and_names_the_cause(call: Call) -> None:
    result = call("default/gang-12x6-w-1", *AT)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert 7 <= len(lines) <= 10
    assert len(call("default/gang-12x6-w-1", *AT, "--full").stdout.splitlines()) > 12
    assert "gang-short" in lines[1]
    assert "gang-12x6-w-0 breaks the gang" in result.stdout
    assert "\x1b[" not in result.stdout


def test_a_pod_group_that_is_gone_is_not_one_that_has_yet_to_be_made(call: Call) -> None:
    result = call("pg/gang-12x6-0b502d83-47e8-43bd-9013-df1e6edb677d")
    assert "does not exist at this position; the pods that name it: 6 Succeeded" in result.stdout
    assert "has made" not in result.stdout and "yet" not in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("default/bare-pending",),
        ("bare-pending",),
        ("pod/bare-pending",),
        ("pod/bare-pending", "-n", "default"),
        ("bare-pending", "-n", "default"),
        ("pod/default/bare-pending",),
    ],
)
def test_a_pod_is_named_as_with_kubectl(call: Call, words: tuple[str, ...]) -> None:
    answer = json.loads(call(*words, *AT, "-o", "json").stdout)
    assert (answer["subject"], answer["verdict"]) == ("Pod default/bare-pending", "no-node-fits")


@pytest.mark.parametrize("words", [("job/queue-cap",), ("default/queue-cap",), ("job/default/queue-cap",)])
def test_a_job_without_pods_has_an_answer(call: Call, words: tuple[str, ...]) -> None:
    answer = json.loads(call(*words, *AT, "-o", "json").stdout)
    assert (answer["subject"], answer["verdict"]) == ("Job default/queue-cap", "queue-over-capability")


def test_json_and_yaml_say_the_same(call: Call) -> None:
    data = json.loads(call("default/gang-12x6-w-0", *AT, "-o", "json").stdout)
    assert data.keys() >= KEYS
    assert data["verdict"] in VERDICTS
    assert set(data["nodes"][0]) == {"node", "fits", "reasons", "fits_after_release", "predicates"}
    assert data["nodes"][0]["predicates"]["resources"] is False
    assert data == yaml.safe_load(call("default/gang-12x6-w-0", *AT, "-o", "yaml").stdout)
    assert call("default/gang-12x6-w-0", *AT, "-o", "name").stdout == "pod/gang-12x6-w-0\n"


def test_wide_lists_every_node(call: Call) -> None:
    result = call("default/gang-12x6-w-0", *AT, "-o", "wide")
    table = result.stdout[result.stdout.index("NODE ") :].splitlines()
    assert len(table) == 11
    assert any(line.startswith("gpu-0") and "untolerated taint(s): gpu=true:NoSchedule" in line for line in table)


def test_full_tells_the_story(call: Call) -> None:
    result = call("default/gang-12x6-w-0", "--full")
    assert "created for volcano" in result.stdout
    assert "on node cpu-1" in result.stdout
    told = json.loads(call("default/gang-12x6-w-0", "--full", "-o", "json").stdout)["story"]
    assert told[0].keys() >= {"time", "position", "known", "about", "text"}


def test_a_time_after_the_record_is_said_to_be(call: Call) -> None:
    result = call("default/bare-pending", "--at", "2027-01-01T00:00:00Z")
    assert "Record        the record of lab ends at 2026-11-29T13:59:21.298993Z" in result.stdout
    asked = json.loads(call("default/bare-pending", "--at", "2027-01-01T00:00:00Z", "-o", "json").stdout)
    assert (asked["asked"], asked["gaps"], len(asked["notes"])) == ("2027-01-01T00:00:00Z", [], 1)
    assert json.loads(call("default/bare-pending", *AT, "-o", "json").stdout)["notes"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("default/mem-hog-w-9",), "did you mean"),
        (("default/nothing-like-this",), "no pod, job or PodGroup default/nothing-like-this"),
        (("pv/local-0",), "why speaks of pods, jobs, queues and nodes"),
        (("node/cpu-77",), "no node cpu-77"),
        (("queue/smal",), "did you mean small?"),
        (("queue/small", "-n", "prod"), "are in no namespace"),
        (("queue/small", "--config", "/nowhere.conf"), "/nowhere.conf"),
        (("default/bare-pending", "-n", "prod"), "give one of them"),
        (("default/bare-pending", "--at", "tomorrow"), "tomorrow"),
        (("default/bare-pending", "--at", "999999999"), "position"),
        (("a/b/c/d",), "neither NAME"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(call: Call, words: tuple[str, ...], says: str) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_the_verdicts_are_documented() -> None:
    """docs/why.md has exactly the table of verdicts, in its order."""
    page = (Path(__file__).parents[2] / "docs" / "why.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    assert {row[1].strip().strip("`"): row[2].strip() for row in rows} == VERDICTS
    assert [row[1].strip().strip("`") for row in rows] == list(VERDICTS)
