"""Ledgers of every revision that has landed open, verify, and say what they said when they were made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from eventstore import open_store, schema
from eventstore.testing import START, observation
from eventstore.types import LedgerOutdated
from tests.data import GOLDEN
from tests.golden.ledgers.make import batches, contents

LEDGERS = GOLDEN / "ledgers"


def test_every_revision_has_one() -> None:
    assert tuple(sorted(path.stem for path in LEDGERS.glob("*.db"))) == schema.REVISIONS


@pytest.mark.parametrize("revision", sorted(schema.READABLE))
def test_one_that_can_be_read_as_it_is_needs_no_upgrade(revision: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(LEDGERS / f"{revision}.db", path)
    before = path.read_bytes()
    with open_store(str(path), read_only=True, upgrade=True) as store:
        wanted = json.loads((LEDGERS / f"{revision}.json").read_text())
        assert json.loads(json.dumps(contents(store))) == wanted
        assert store.leases() == []
        assert store.stats().head == wanted["head"]
    assert path.read_bytes() == before
    if revision != schema.REVISION:
        with pytest.raises(LedgerOutdated):
            open_store(str(path))


@pytest.mark.parametrize("revision", schema.REVISIONS)
def test_it_says_what_it_said(revision: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(LEDGERS / f"{revision}.db", path)
    wanted = json.loads((LEDGERS / f"{revision}.json").read_text())
    with open_store(str(path), upgrade=True) as store:
        assert json.loads(json.dumps(contents(store))) == wanted
        assert store.verify().ok
        last = batches()[-1]
        assert store.append(last, token="batch-4").stored == len(last)
        assert store.head() == wanted["head"]
        assert store.append([observation("new", 1, cluster="east", at=START * 2)]).positions == [wanted["head"] + 1]
        assert store.verify().ok
