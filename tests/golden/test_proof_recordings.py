"""The proof against the real Volcano, over every recording: no bind of its is refused by our predicates, and the
sentences that it wrote come out of the record again. docs/proof.md has the tables, which are what is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.data import recordings
from vcledger.ledger import Ledger
from vcledger.proof import TABLES, Proof, proof
from vcledger.sources import import_paths

PAGE = Path(__file__).parent.parent.parent / "docs" / "proof.md"
NAMES = [folder.name for folder in recordings()]
FAST = ("03-", "07-")


class _Proofs(dict[str, Proof]):
    """The proof of each recording, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Proof:
        source = next(folder for folder in recordings() if folder.name == name)
        with Ledger.open(str(self.folder / f"{name}.db"), create=True) as ledger:
            import_paths(ledger, [source / "watch.jsonl.zst", source / "audit.jsonl.zst"], cluster="recorded")
            self[name] = proof(ledger)
        return self[name]


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Proof]]:
    yield _Proofs(tmp_path_factory.mktemp("proof"))


def each(*names: str) -> list[object]:
    """A parameter for each recording; the larger ones are slow."""
    return [pytest.param(name, marks=[] if name.startswith(FAST) else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("name", each(*NAMES))
def test_no_bind_of_the_real_volcano_is_refused(proofs: Mapping[str, Proof], name: str) -> None:
    found = proofs[name]
    assert [(one.placement.position, one.placement.key, one.reasons) for one in found.refused] == []
    assert len(found.binds) > 10
    assert found.bind_counts.get("unseen", 0) <= len(found.binds) // 10


def page_tables() -> dict[str, list[str]]:
    """The tables of the page, each by the name in the comment above it."""
    text = PAGE.read_text(encoding="utf-8")
    parts = re.findall(r"<!-- table: (\w+) -->\n\n((?:\|.*\n)+)", text)
    return {name: body.splitlines() for name, body in parts}


@pytest.mark.slow
def test_the_page_has_what_is_computed(proofs: Mapping[str, Proof]) -> None:
    found = {name.partition("-")[0]: proofs[name] for name in NAMES}
    assert page_tables() == {name: make(found) for name, make in TABLES.items()}
