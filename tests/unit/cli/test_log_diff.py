"""`log`, `diff`, `drift`, `stats`, `verify`, `db`: what a ledger tells of itself."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from cli import render
from tests.data import recording
from tests.processes import hearing_interrupts
from tests.unit.cli.conftest import Call
from tests.unit.vcledger import build
from vcledger import codec
from vcledger.ledger import Ledger

PENDING, LATER = "marker:many-pending", "marker:after-capacity"


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_log_is_one_line_an_event(call: Call, unschedulable: Path) -> None:
    lines = call("log", db=unschedulable).stdout.splitlines()
    assert len(lines) == json.loads(call("stats", "-o", "json", db=unschedulable).stdout)["events"]
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))


def test_log_of_a_pod_has_its_events_too(call: Call, unschedulable: Path) -> None:
    found = events(call("log", "pod/anti-affinity-w-0", "-o", "json", db=unschedulable).stdout)
    assert {event["kind"] for event in found} == {"Pod", "Event"}
    assert {event["name"] for event in found if event["kind"] == "Pod"} == {"anti-affinity-w-0"}
    pod = next(event for event in found if event["kind"] == "Pod")
    spoken = [event["object"]["involvedObject"]["uid"] for event in found if event["kind"] == "Event"]
    assert spoken
    assert set(spoken) == {pod["uid"]}
    assert [event["position"] for event in found] == sorted(event["position"] for event in found)
    assert call("log", "default/anti-affinity-w-0", "-o", "json", db=unschedulable).stdout.count("\n") == len(found)


def test_log_tells_what_changed(call: Call, unschedulable: Path) -> None:
    text = call("log", "pod/anti-affinity-w-0", db=unschedulable).stdout
    assert "+conditions[PodScheduled] False Schedulable" in text
    assert "conditions[PodScheduled].message …cpu-" in text
    assert "FailedScheduling" in text


def test_log_filters_by_kind_type_and_place(call: Call, unschedulable: Path) -> None:
    found = events(call("log", "--kind", "node", "--type", "added", "-o", "json", db=unschedulable).stdout)
    assert {(event["kind"], event["type"]) for event in found} == {("Node", "ObjectAdded")}
    assert len(found) == 12
    some = events(call("log", "--from", "10", "--to", "19", "-o", "json", db=unschedulable).stdout)
    assert [event["position"] for event in some] == list(range(10, 20))
    moment = some[4]["observed_at"]
    later = events(call("log", "--from", moment, "--to", "19", "-o", "json", db=unschedulable).stdout)
    assert later[0]["observed_at"] == moment, "the event of exactly that moment is in it"
    marked = events(call("log", "--from", PENDING, "--to", PENDING, "-o", "json", db=unschedulable).stdout)
    assert [event["type"] for event in marked] == ["Marker"]


def test_log_tail_is_the_end_in_order(call: Call, unschedulable: Path) -> None:
    every = call("log", db=unschedulable).stdout.splitlines()
    tail = call("log", "--tail", "5", db=unschedulable).stdout.splitlines()
    assert [line.split()[0] for line in tail] == [line.split()[0] for line in every[-5:]]
    of_pod = call("log", "pod/anti-affinity-w-0", "-o", "json", db=unschedulable).stdout.splitlines()
    tail = call("log", "pod/anti-affinity-w-0", "--tail", "4", "-o", "json", db=unschedulable).stdout.splitlines()
    assert tail == of_pod[-4:]


def test_log_before_the_record_begins_at_its_beginning(call: Call, unschedulable: Path) -> None:
    lines = call("log", "--from", "2001-01-01T00:00:00Z", "--to", "3", db=unschedulable).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]


def test_diff_tells_each_quantity_once(call: Call, unschedulable: Path) -> None:
    result = call("diff", "--from", PENDING, "--to", LATER, "-o", "json", db=unschedulable)
    changes = json.loads(result.stdout)
    states = [json.loads(call("state", "--at", at, db=unschedulable).stdout) for at in (PENDING, LATER)]
    idle = [state["nodes"]["cpu-0"]["idle"]["milli_cpu"] for state in states]
    found = [change for change in changes if (change["name"], change["quantity"]) == ("cpu-0", "idle.cpu")]
    assert [(change["before"], change["after"]) for change in found] == [tuple(idle)]
    added = {change["name"] for change in changes if change["quantity"] == "present" and change["after"]}
    assert {"gpu-2", "gpu-3"} <= added
    assert len({(change["kind"], change["name"], change.get("uid"), change["quantity"]) for change in changes}) == len(
        changes
    )


def test_diff_of_one_kind_and_of_the_same_moment(call: Call, unschedulable: Path) -> None:
    changes = json.loads(call("diff", "nodes", "--from", PENDING, "--to", LATER, "-o", "json", db=unschedulable).stdout)
    assert {change["kind"] for change in changes} == {"node"}
    same = call("diff", "--from", PENDING, "--to", PENDING, db=unschedulable)
    assert same.exit_code == 0
    assert same.stdout.endswith("0 changes\n")


def test_diff_of_one_name(call: Call, unschedulable: Path) -> None:
    def changed(*words: str) -> list[dict[str, Any]]:
        answer = call("diff", *words, "--from", PENDING, "--to", LATER, "-o", "json", db=unschedulable)
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)  # type: ignore[no-any-return]

    every = changed()
    assert changed("node/cpu-0") == [one for one in every if (one["kind"], one["name"]) == ("node", "cpu-0")] != []
    group = next(
        one["name"] for one in every if one["kind"] == "job" and one["name"].startswith("default/gpu-too-many")
    )
    assert changed("job/gpu-too-many") == [one for one in every if one["name"] == group], "by the Volcano Job's name"
    pod = next(one["name"] for one in every if one["kind"] == "task")
    same = [changed(pod), changed(f"pod/{pod}"), changed(f"pod/{pod.partition('/')[2]}", "-n", "default")]
    assert same == [[one for one in every if (one["kind"], one["name"]) == ("task", pod)]] * 3
    assert changed("node/gpu-0") == [], "it is there and did not change"


def test_log_of_what_is_there_and_says_nothing_then(call: Call, unschedulable: Path) -> None:
    nothing = call("log", "node/cpu-0", "--type", "ObjectDeleted", db=unschedulable)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "No events found.\n")


def test_stats_count_by_kind_and_type(call: Call, unschedulable: Path) -> None:
    found = json.loads(call("stats", "-o", "json", db=unschedulable).stdout)
    assert found["events"] == sum(found["kinds"].values()) == sum(found["types"].values())
    assert found["clusters"][0]["cluster"] == "lab"
    assert found["clusters"][0]["first"] < found["clusters"][0]["last"]
    assert found["compression"] > 5
    text = call("stats", db=unschedulable).stdout
    assert f"{found['bytes_per_event']:.0f} bytes an event" in text


def test_verify_passes_and_names_the_head(call: Call, unschedulable: Path) -> None:
    result = call("verify", db=unschedulable)
    assert result.exit_code == 0
    head, snapshots, last = result.stdout.splitlines()
    assert re.fullmatch(r"\d+ events in \d+ batches, \d+ streams: head hash [0-9a-f]{64}", head)
    assert re.fullmatch(r"\d+ snapshots? compared with a rebuild.*", snapshots)
    assert last == "verified"
    assert json.loads(call("verify", "-o", "json", db=unschedulable).stdout)["head_hash"] in result.stdout


def test_what_takes_long_says_so_on_a_terminal(
    call: Call, unschedulable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("verify", db=unschedulable).stderr == "", "nothing where nobody watches"
    monkeypatch.setattr(render, "on_terminal", lambda: True)
    head = json.loads(call("stats", "-o", "json", db=unschedulable).stdout)["events"]
    for command, said in (("verify", f"events: {head:,} of {head:,}"), ("check", f"checking {head:,} events")):
        result = call(command, db=unschedulable)
        assert (result.exit_code, said in result.stderr) == (0, True)
        assert result.stderr.endswith("\r"), "and takes it away again"


def test_verify_of_changed_bytes_is_a_failed_check(call: Call, unschedulable: Path, tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "changed.db"
    shutil.copy(unschedulable, path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE events SET observed_at = observed_at + 1 WHERE position = 700")
    connection.commit()
    connection.close()
    result = call("verify", db=path)
    assert result.exit_code == 1
    assert "NOT verified" in result.stdout


def test_prune_takes_the_cluster_whose_marker_is_meant(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "two.db"
    with Ledger.open(str(path), create=True) as ledger:
        for cluster in ("a", "b"):
            build.append(ledger.store, build.life(cluster), batch=1)
    refused = call("db", "prune", "--before", "marker:busy", db=path)
    assert (refused.exit_code, "(--cluster NAME)" in refused.stderr) == (2, True)
    result = call("db", "prune", "--before", "marker:busy", "--cluster", "b", db=path)
    assert result.exit_code == 0, result.stderr
    assert "up to position 14" in result.stdout


@pytest.mark.slow
def test_prune_keeps_later_states(call: Call, tmp_path: Path) -> None:
    """The recording as two imports, as the log drops whole batches."""
    path = tmp_path / "pruned.db"
    lines = zstandard.decompress((recording("02-unschedulable") / "watch.jsonl.zst").read_bytes()).splitlines(True)
    for name, part in (("a", lines[:600]), ("b", lines[600:])):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(part))
        assert call("import", str(tmp_path / f"{name}.jsonl"), db=path).exit_code == 0
    before = {at: call("state", "--at", at, db=path).stdout for at in (LATER, "-1s")}
    result = call("db", "prune", "--before", LATER, db=path)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("dropped ")
    assert before == {at: call("state", "--at", at, db=path).stdout for at in before}
    verified = call("verify", db=path)
    assert verified.exit_code == 0
    assert re.search(r"^pruned up to position [1-9]\d*, where \d+ events were kept$", verified.stdout, re.MULTILINE)


def test_prune_says_what_keeps_it_from_dropping_what_is_older(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "whole.db"
    with Ledger.open(str(path), create=True) as ledger:
        ledger.store.append(build.life("a"))
    result = call("db", "prune", "--before", "-1s", db=path)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("nothing to drop: positions 1 to ")
    assert "stored in one batch" in result.stdout
    assert call("db", "prune", "--before", "1", db=path).stdout == "nothing to drop\n"


def test_upgrade_of_a_ledger_of_today_changes_nothing(call: Call, unschedulable: Path, tmp_path: Path) -> None:
    path = tmp_path / "same.db"
    shutil.copy(unschedulable, path)
    result = call("db", "upgrade", db=path)
    assert result.exit_code == 0
    assert result.stdout.startswith("up to date")


@pytest.mark.parametrize("output", ["yaml", "wide", "name"])
def test_log_has_no_other_forms(call: Call, unschedulable: Path, output: str) -> None:
    assert call("log", "-o", output, db=unschedulable).exit_code == 2


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, killed at the end should it still run: a test that fails must not wait for it."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_log_follows_what_is_appended_until_it_is_interrupted(unschedulable: Path, tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    shutil.copy(unschedulable, path)
    words = ["log", "--kind", "node", "--tail", "1", "--follow", "-o", "json", "--db", str(path)]
    command = [sys.executable, "-m", "cli.main", *words]
    with hearing_interrupts():
        started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with ending(started) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["kind"] == "Node"
        with Ledger.open(str(path)) as ledger:
            last = ledger.store.high_water("lab")
            assert last is not None
            node = {"metadata": {"name": "new", "uid": "u-new", "resourceVersion": "999999"}}
            ledger.store.append(
                [
                    codec.observation_of(
                        cluster="lab",
                        kind="Node",
                        change="ADDED",
                        payload=json.dumps(node).encode(),
                        observed_at=last + 1,
                    )
                ]
            )
        assert json.loads(running.stdout.readline())["name"] == "new"
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=120) == 130
        assert running.stderr.read() == ""


@pytest.mark.parametrize(
    ("words", "slashed"),
    [
        (("why", "pod", "gang-12x6-w-0"), ("why", "pod/gang-12x6-w-0")),
        (("why", "job", "default/gang-12x6"), ("why", "job/default/gang-12x6")),
        (("why", "node", "cpu-1"), ("why", "node/cpu-1")),
        (("log", "node", "cpu-1"), ("log", "node/cpu-1")),
        (("diff", "node", "cpu-1", "--from", PENDING), ("diff", "node/cpu-1", "--from", PENDING)),
    ],
)
def test_kind_and_name_are_two_words_as_well(
    call: Call, unschedulable: Path, words: tuple[str, ...], slashed: tuple[str, ...]
) -> None:
    apart, together = call(*words, db=unschedulable), call(*slashed, db=unschedulable)
    assert apart.exit_code == together.exit_code == 0, apart.stderr
    assert apart.stdout == together.stdout != ""


def test_a_name_and_another_are_too_many(call: Call, unschedulable: Path) -> None:
    result = call("why", "pod/gang-12x6-w-0", "gang-12x6-w-1", db=unschedulable)
    assert result.exit_code == 2
    assert result.stderr == "error: pod/gang-12x6-w-0 names one already: leave gang-12x6-w-1 out, or ask twice\n"
