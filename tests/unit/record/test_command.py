"""`vcledger record` as people run it: over HTTP, with a kubeconfig, ended by signals, watched by Prometheus."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from urllib.error import HTTPError

import pytest

from eventstore import open_store
from tests.unit.record.front import Front
from tests.unit.record.runs import CLUSTER, about, live, types
from tests.unit.record.simulated import Server, eventually
from vcledger.ledger import Ledger

pytestmark = pytest.mark.slow


@pytest.fixture
def front() -> Iterator[Front]:
    with Front(Server()) as front:
        yield front


class Command:
    """The process: `lines` so far, and `end` by a signal."""

    def __init__(self, folder: Path, front: Front, *options: str, token_file: Path | None = None) -> None:
        self.out = folder / "out.txt"
        self.err = folder / "err.txt"
        config = front.kubeconfig(folder, token_file)
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "record", "--kubeconfig", str(config), *options],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                stdout=out,
                stderr=err,
            )

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def lines(self) -> list[str]:
        return self.out.read_text().splitlines()

    def said(self, text: str) -> None:
        eventually(lambda: any(text in line for line in self.lines), f"{text!r} in {self.lines}")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_it_records_serves_its_numbers_and_ends_cleanly(tmp_path: Path, front: Front) -> None:
    front.server.node("n1")
    front.server.missing.add("Numatopology")
    with Command(tmp_path, front, "--listen", "127.0.0.1:0", "--seed", "7") as command:
        command.said("nodes: watching from version")
        command.said("numatopologies.nodeinfo.volcano.sh: failed (404)")
        (listening,) = [line for line in command.lines if line.startswith("listening on port")]
        port = int(listening.split()[3].rstrip(":"))
        wanted = "13 of 14 listed, 13 watched\nnumatopologies.nodeinfo"  # listed is ready, watched comes after
        eventually(lambda: get(port, "/readyz")[1].startswith(wanted), "ready")
        assert get(port, "/readyz")[0] == 200
        assert get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/other")[0] == 404
        front.server.touch("n1", "x")
        eventually(
            lambda: 'changes_total{namespace="",resource="nodes",type="MODIFIED"} 1.0' in get(port, "/metrics")[1],
            "the change counted",
        )
        metrics = get(port, "/metrics")[1]
        assert 'vcledger_record_watching{namespace="",resource="nodes"} 1.0' in metrics
        assert 'vcledger_record_api_requests_total{code="200",resource="nodes",verb="list"} 1.0' in metrics
        assert "vcledger_record_append_seconds_bucket" in metrics and "process_resident_memory_bytes" in metrics
        assert command.end() == 0
        assert command.lines[0].endswith("as cluster test: 14 lists (seed 7)")
        assert command.lines[-1].startswith("ended: ")
    assert live(tmp_path / "vcledger.db") == front.server.objects("Node")
    with Ledger.open(str(tmp_path / "vcledger.db")) as ledger:
        assert list(ledger.cache(cluster=CLUSTER).nodes) == ["n1"]
        assert ledger.store.verify().ok


def test_ctrl_c_is_130_and_a_killed_one_is_gone_on_from_at_once(tmp_path: Path, front: Front) -> None:
    front.server.node("n1")
    db = tmp_path / "vcledger.db"
    with Command(tmp_path, front, "-k", "nodes") as command:
        command.said("nodes: watching")
        front.server.touch("n1", "a")
        eventually(lambda: live(db) == front.server.objects("Node"), "the change")
        command.process.kill()
        command.process.wait()
    front.server.touch("n1", "b")
    front.requests.clear()
    with Command(tmp_path, front, "-k", "nodes") as command:
        command.said("nodes: watching")
        eventually(lambda: live(db) == front.server.objects("Node"), "the same")
        assert command.end(signal.SIGINT) == 130
    assert all("watch=true" in request for request in front.requests)
    with open_store(str(db)) as store:
        assert store.verify().ok and not store.leases()


def test_an_expired_token_is_read_again(tmp_path: Path, front: Front) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    front.tokens = {"old"}
    front.server.node("n1")
    with Command(tmp_path, front, "-k", "nodes", token_file=token) as command:
        command.said("nodes: watching")
        front.tokens = {"new"}
        front.server.streams[-1].break_off("reset")
        command.said("nodes: failed")
        token.write_text("new")
        front.server.touch("n1", "x")
        eventually(lambda: live(tmp_path / "vcledger.db") == front.server.objects("Node"), "the change")
        assert command.end() == 0
    codes = [fields["code"] for type_, fields in about(tmp_path / "vcledger.db") if type_ == "WatchFailed"]
    assert codes[0] == 0 and set(codes[1:]) <= {401}


def test_an_empty_200_leads_to_a_list(tmp_path: Path, front: Front) -> None:
    front.empty_watches = 2
    with Command(tmp_path, front, "-k", "nodes") as command:
        eventually(lambda: len(command.lines) > 1, "lines")
        eventually(lambda: types(tmp_path / "vcledger.db").count("ListCompleted") == 2, "two lists")
        assert command.end() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", "secrets"], "no kind 'secrets' is recorded"),
        (["-l", "team=a"], "name the kind"),
        (["--retain", "14"], "--retain 14: give a number"),
        (["--max-size", "big"], "--max-size big: give a size"),
        (["--listen", "nowhere"], "give HOST:PORT"),
        (["--context", "other"], "no context is named other"),
    ],
)
def test_misuse_is_one_line_and_2(tmp_path: Path, front: Front, options: list[str], message: str) -> None:
    with Command(tmp_path, front, *options) as command:
        assert command.process.wait(120) == 2
        (line,) = command.err.read_text().splitlines()
        assert line.startswith("error: ") and message in line
