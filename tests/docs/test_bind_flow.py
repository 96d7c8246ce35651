"""What docs/bind-flow.md says of us and Volcano names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "bind-flow.md").read_text(encoding="utf-8")


def test_each_difference_from_volcano_has_its_tests() -> None:
    table = PAGE.partition("## What differs from Volcano")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for _, ours, _, tests, _ in rows:
        named = re.findall(r"`(?:([\w/]+\.py))?(?:::(\w+))?`", tests)
        assert named, ours
        file = ""
        for path, name in named:
            assert name, f"{path}: of a difference the function is named"
            file = path or file
            text = (ROOT / "tests" / "unit" / file).read_text(encoding="utf-8")
            assert f"def {name}(" in text, (file, name)
