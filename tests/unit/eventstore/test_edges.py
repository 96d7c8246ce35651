"""What only a bug on purpose showed to be untested: see docs/mutants.md."""

from __future__ import annotations

from pathlib import Path

from eventstore import open_store
from eventstore.testing.build import SECOND, START, observation


def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    """synchronous=FULL: a commit waits for the disk, also under write-ahead logging."""
    with open_store(str(tmp_path / "ledger.db"), create=True) as store, store.backend.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"


def test_a_moment_at_which_several_batches_end_is_after_all_of_them(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "ledger.db"), create=True) as store:
        for revision in (1, 2, 3):
            store.append([observation(revision=revision, at=START)])
        store.append([observation(revision=4, at=START + SECOND)])
        assert store.position_at(START, "one") == 3
        assert store.position_at(START - 1, "one") == 0
        assert store.position_at(START + SECOND, "one") == 4
