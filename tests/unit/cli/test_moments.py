"""Moments: the time beside a position is the cluster's own, and what lies outside the record or in a gap is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventstore.types import NewEvent
from tests.data import recording
from tests.unit.cli.conftest import Call
from tests.unit.vcledger import build
from vcledger import codec
from vcledger.at import MICROS, format_time, parse_time
from vcledger.ledger import Ledger
from volcano.events.base import Subject
from volcano.events.observation import GapRecorded

HOUR = 3_600


def time(second: float) -> str:
    return format_time(build.START + int(second * MICROS))


def gap(start: float, end: float) -> NewEvent:
    """Pods were not looked at between two seconds."""
    event = GapRecorded(
        resource="Pod",
        from_time=build.START + int(start * MICROS),
        to_time=build.START + int(end * MICROS),
        from_resource_version="8",
        to_resource_version="9",
        deleted=1,
        reason="the recorder was stopped",
    )
    return codec.domain("c", Subject(kind="Pod", namespace="", name="", uid=""), event, build.START + int(end * MICROS))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Cluster `c`, whose record ends at 40 s with a gap from 9 to 30, then `other`, an hour earlier, imported later."""
    path = tmp_path / "two.db"
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append([*build.life("c"), gap(9, 30), build.seen("ADDED", build.node("n3", 20), 40)])
        ledger.store.append([build.seen("ADDED", build.node("m1", 1), -HOUR, "other")])
        ledger.store.append([build.seen("ADDED", build.node(f"m{i}", i), i - HOUR, "other") for i in (2, 3)])
    return path


def test_headers_show_the_time_of_the_cluster_that_is_asked_about(call: Call, two: Path) -> None:
    said = call("diff", "nodes", "--cluster", "c", "--from", "9", db=two).stdout
    assert said.startswith(
        "from position 9 (2026-03-01T03:00:09.000Z) to position 14 (2026-03-01T03:00:40.000Z): 1 change"
    )
    other = call("diff", "nodes", "--cluster", "other", "--from", "12", db=two).stdout
    assert other.startswith("from position 12 (2026-03-01T02:00:00.000Z) to position 14 (2026-03-01T02:00:03.000Z)")
    drift = call("drift", "--cluster", "c", db=two).stdout
    assert "at position 14 (2026-03-01T03:00:40.000Z)" in drift


def test_from_after_to_is_misuse(call: Call, two: Path) -> None:
    for words in (["--from", "9", "--to", "4"], ["--from", time(8), "--to", time(5)]):
        for command in ("diff", "log"):
            done = call(command, "--cluster", "c", *words, db=two)
            assert done.exit_code == 2, command
            assert "--from is later than --to: position" in done.stderr


@pytest.mark.parametrize("words", [["get", "nodes"], ["state"], ["drift"]])
def test_after_the_end_of_the_record_is_said(call: Call, two: Path, words: list[str]) -> None:
    done = call(*words, "--cluster", "c", "--at", time(HOUR), db=two)
    assert done.exit_code == 0
    assert f"note: the record of c ends at {time(40)}, before {time(HOUR)}" in done.stderr
    assert call(*words, "--cluster", "c", "--at", "9", db=two).stderr.count("ends at") == 0


def test_the_ends_of_a_range_are_said_too(call: Call, two: Path) -> None:
    for command in ("diff", "log"):
        done = call(command, "--cluster", "c", "--from", "1", "--to", time(HOUR), db=two)
        assert done.exit_code == 0
        assert f"note: the record of c ends at {time(40)}, before {time(HOUR)}" in done.stderr, command


def test_before_the_beginning_is_an_error_or_said(call: Call, two: Path) -> None:
    early = call("get", "nodes", "--cluster", "c", "--at", time(-5), db=two)
    assert early.exit_code == 2
    assert f"the record begins at {time(1)}" in early.stderr
    position = call("get", "nodes", "--cluster", "other", "--at", "5", db=two)
    assert position.exit_code == 0
    assert "note: nothing of other is recorded up to position 5" in position.stderr
    log = call("log", "--cluster", "c", "--from", time(-5), "--to", "2", db=two)
    assert (log.exit_code, log.stdout.count("\n")) == (0, 2)
    assert "note: nothing was recorded at or before " in log.stderr and f"begins at {time(1)}" in log.stderr


def test_a_gap_around_the_moment_or_in_the_range_is_a_warning(call: Call, two: Path) -> None:
    inside = call("get", "tasks", "--cluster", "c", "--at", time(20), db=two)
    assert (
        "note: gap in the record: Pod: not recorded 03:00:09 to 03:00:30; this moment lies inside it" in inside.stderr
    )
    assert "gap" not in call("get", "tasks", "--cluster", "c", "--at", time(8), db=two).stderr
    between = call("diff", "--cluster", "c", "--from", "5", db=two)
    assert "note: gap in the record: Pod: not recorded 03:00:09 to 03:00:30; then 1 gone" in between.stderr


def test_get_says_which_moment_it_shows_beside_tables_only(call: Call, two: Path) -> None:
    words = ("get", "nodes", "--cluster", "other", "--at", time(1 - HOUR))
    table = call(*words, db=two)
    assert "at position 12 (2026-03-01T02:00:00.000Z)" in table.stderr
    assert table.stdout.startswith("NAME")
    for form in ("json", "yaml", "name"):
        assert call(*words, "-o", form, db=two).stderr == ""
    assert call("get", "nodes", "--cluster", "other", db=two).stderr == ""


def test_stats_of_a_cluster_count_its_events(call: Call, two: Path) -> None:
    of_c = json.loads(call("stats", "--cluster", "c", "-o", "json", db=two).stdout)
    assert (of_c["cluster"], of_c["events"], of_c["ledger_events"]) == ("c", 11, 14)
    assert of_c["events"] == sum(of_c["kinds"].values())
    text = call("stats", "--cluster", "c", db=two).stdout
    assert "events:    11 of c, 0 late" in text
    assert "ledger:    what follows is of all its clusters: 14 (positions 1 to 14)" in text
    whole = json.loads(call("stats", "-o", "json", db=two).stdout)
    assert (whole["cluster"], whole["events"], whole["ledger_events"]) == (None, 14, 14)


@pytest.mark.parametrize(
    ("command", "forms"),
    [
        ("log", "'table', 'json'"),
        ("state", "'json', 'yaml'"),
        ("diff", "'table', 'json', 'yaml'"),
        ("stats", "'table', 'json', 'yaml'"),
        ("verify", "'table', 'json', 'yaml'"),
        ("drift", "'table', 'json', 'yaml'"),
        ("compare", "'table', 'json', 'yaml'"),
    ],
)
def test_only_forms_that_work_are_offered(call: Call, two: Path, command: str, forms: str) -> None:
    refused = call(command, *(["dump.json"] if command == "compare" else []), "-o", "name", db=two)
    assert refused.exit_code == 2
    assert f"'name' is not one of {forms}" in refused.stderr


def test_log_tells_the_times_of_a_gap_as_times(call: Call, two: Path) -> None:
    line = call("log", "--cluster", "c", "--type", "GapRecorded", db=two).stdout
    assert f"from_time={time(9)}, to_time={time(30)}" in line
    assert str(build.START)[:6] not in line
    told = json.loads(call("log", "--cluster", "c", "--type", "GapRecorded", "-o", "json", db=two).stdout)
    assert told["event"]["from_time"] == build.START + 9 * MICROS


def test_headers_pass_over_what_came_late(call: Call, two: Path) -> None:
    with Ledger.open(str(two)) as ledger:
        ledger.store.append([build.seen("MODIFIED", build.node("n2", 90, cpu="6"), 5, "c")])
    assert call("log", "--cluster", "c", "--tail", "1", db=two).stdout.split()[0] == "15"
    said = call("diff", "--cluster", "c", "--from", "9", db=two).stdout
    assert "to position 15 (2026-03-01T03:00:40.000Z)" in said
    assert "at position 15 (2026-03-01T03:00:40.000Z)" in call("drift", "--cluster", "c", db=two).stdout


def test_a_dump_without_a_marker_has_the_moment_that_its_name_says(
    call: Call, unschedulable: Path, tmp_path: Path
) -> None:
    kept = recording("02-unschedulable") / "volcano-cache-dump-1-many-pending.json.zst"
    second = parse_time("2026-11-29T13:58:10Z")
    named, nameless = tmp_path / f"snapshot-{second // MICROS}.json.zst", tmp_path / "dump.json.zst"
    with Ledger.open(str(unschedulable), read_only=True) as ledger:
        then, end = ledger.store.position_at(second, "lab"), ledger.store.head()
    assert 0 < then < end
    for dump, position, words in ((named, then, "the second that its name says"), (nameless, end, "the end of the")):
        dump.write_bytes(kept.read_bytes())
        result = call("compare", str(dump), "-o", "json", db=unschedulable)
        assert json.loads(result.stdout)["position"] == position
        assert words in result.stderr
