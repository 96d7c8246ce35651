"""docs/replay.md says of every key of a result what it is."""

from __future__ import annotations

import re
from pathlib import Path

from vcledger.replay.report import Counts, ReplayResult

PAGE = Path(__file__).parent.parent.parent / "docs" / "replay.md"


def test_every_key_of_a_result_is_told() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| key | what |") : text.index("## Traces")]
    told = set(re.findall(r"\w+", table))
    keys = {*ReplayResult.__struct_fields__, *Counts.__struct_fields__}
    assert keys - told - {"name"} == set()
