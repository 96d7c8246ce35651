"""An import gives the same log on SQLite and on PostgreSQL.

Owns that comparison. Must not test the log itself (tests/contract does).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data import recording
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths


@pytest.mark.postgres
@pytest.mark.slow
def test_a_recording_on_both_databases(tmp_path: Path, postgres_url: str) -> None:
    logs = []
    for db in (str(tmp_path / "x.db"), postgres_url):
        with Ledger.open(db, create=True) as ledger:
            report = import_paths(ledger, [recording("07")], options=ImportOptions(snapshots=True))
            again = import_paths(ledger, [recording("07")])
            assert again.stored == 0
            events = [one._replace(appended_at=0) for one in ledger.store.read()]
            logs.append((report.stored, report.already, report.late, report.gaps, events))
    assert logs[0] == logs[1]
