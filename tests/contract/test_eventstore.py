"""The shipped conformance suite on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore import open_store
from eventstore.testing import EventStoreConformance, Opener


class TestSQLite(EventStoreConformance):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Iterator[Opener]:
        with Opener(lambda: open_store(str(tmp_path / "ledger.db"), create=True)) as opener:
            yield opener


@pytest.mark.slow
@pytest.mark.postgres
class TestPostgreSQL(EventStoreConformance):
    @pytest.fixture
    def opener(self, postgres_url: str) -> Iterator[Opener]:
        with Opener(lambda: open_store(postgres_url, create=True)) as opener:
            yield opener
