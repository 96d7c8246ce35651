"""The newer forms by every way in: standard input, compressed, and in a second process.

Owns the proof that no way in gives another ledger. Must not test what the forms mean (each has a module).
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
import zstandard

from tests.unit.sources.given import compact, events, imported, pod, written
from tests.unit.sources.test_alibaba import NODES, PODS
from tests.unit.sources.test_beside import both
from tests.unit.sources.test_cluster_info import stream
from tests.unit.sources.test_second_hand import audit
from tests.unit.sources.test_simkube import at, deployment, finished, trace
from tests.unit.sources.test_simulator import bare, exported, life, record, snapshot
from vcledger.sources import NothingToImport

FORMS = {
    "nodes.csv": NODES.encode(),
    "pods.csv": (PODS + "bad,1\n").encode(),
    "sktrace": trace(at(0, deployment(), 5), at(3), lives={("apps/v1.Deployment", "ns/web"): [finished(1, 2)]}),
    "record": b"".join(life()) + b"{}\n",
    "snapshot": compact(snapshot()),
    "exported": compact(exported()) + b"\n" + compact(exported("q", 9)) + b"\nno\n",
    "cluster-info": stream().encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.slow
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    whole = imported(tmp_path, written(tmp_path, form, FORMS[form]), db="file.db")

    class Stdin:
        buffer = io.BytesIO(zstandard.compress(FORMS[form]))

    monkeypatch.setattr("sys.stdin", Stdin)
    piped = imported(tmp_path, "-", db="piped.db")
    assert (piped.read, piped.stored, piped.broken_count) == (whole.read, whole.stored, whole.broken_count)
    assert [one.payload for one in events(tmp_path, "piped.db")] == [one.payload for one in events(tmp_path, "file.db")]


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("form", FORMS)
def test_a_second_process(tmp_path: Path, form: str) -> None:
    both(tmp_path, written(tmp_path, form, gzip.compress(FORMS[form])))


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has."""
    monkeypatch.setattr("vcledger.sources.pipeline.cores", lambda: 2)


@pytest.mark.slow
def test_another_version_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(trace(version=4))

    monkeypatch.setattr("sys.stdin", Stdin)
    report = imported(tmp_path, "-")
    assert report.nothing_read
    assert "of version 4" in str(report.broken[0])
    with pytest.raises(NothingToImport, match="of version 4"):
        imported(tmp_path, written(tmp_path, "t", trace(version=4)))


@pytest.mark.slow
def test_an_audit_log_beside_a_record_does_not_change_what_informers_saw(tmp_path: Path) -> None:
    """The record is a watch: what it covers is late from the audit log, which saw it a little earlier."""
    one = pod("p1", 10)
    log = written(tmp_path, "audit.log", audit("create", one, 1, code=201), audit("update", pod("p1", 11), 4))
    lines = record("Add", one, 2), record("Update", pod("p1", 12), 5), record("Delete", bare(one), 6)
    imported(tmp_path, log, written(tmp_path, "record.jsonl", *lines))
    seen = [(event.type, event.resource_version) for event in events(tmp_path, late=False)]
    assert seen[-2:] == [("ObjectModified", 12), ("ObjectDeleted", 12)]
    assert [event.resource_version for event in events(tmp_path, late=True)] == [11]
