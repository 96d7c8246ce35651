"""`get pending` lets its questions share what they look at; each answer is that of a question asked alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data import recording
from vcledger import listing
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths
from vcledger.why import why, why_job

SHARES = (0.25, 0.5, 1.0)
"""The moments, as shares of the log."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["02", "03"])
def test_each_row_says_what_a_question_alone_is_answered(name: str, tmp_path: Path) -> None:
    db = str(tmp_path / "ledger.db")
    with Ledger.open(db, create=True) as ledger:
        import_paths(ledger, [Path(recording(name))], options=ImportOptions(snapshots=False))
        head, rows = ledger.store.head(), 0
        for position in (int(head * share) for share in SHARES):
            for row in listing.pending(ledger, position=position):
                rows += 1
                with Ledger.open(db, read_only=True) as alone:
                    ask = why if row["kind"] == "pod" else why_job
                    answer = ask(alone, row["namespace"], row["name"], position=position)
                expected = (answer.verdict, answer.summary, answer.message, answer.since or "")
                assert (row["verdict"], row["summary"], row["message"], row["since"]) == expected, (position, row)
    assert rows, "something waits in each of these recordings"
