"""The page on the models names every policy, and each model's difference."""

from __future__ import annotations

from pathlib import Path

from projections.cache.models import EXACT, VOLCANO_1_10, VOLCANO_1_11, Model

PAGE = (Path(__file__).parent.parent.parent / "docs" / "models.md").read_text(encoding="utf-8")


def test_every_policy_has_its_row_in_the_order_of_the_table() -> None:
    rows = [line.split("|")[1].strip().strip("`") for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [field for field in Model._fields if field != "name"]


def test_what_the_page_says_of_the_models_is_so() -> None:
    differing = [field for field in Model._fields if getattr(VOLCANO_1_10, field) != getattr(VOLCANO_1_11, field)]
    assert differing == ["name", "freezes_not_ready"]
    assert not any(getattr(EXACT, field) for field in Model._fields if field != "name")
    assert "`freezes_not_ready` is the one policy in which 1.10 and 1.11 differ" in PAGE
