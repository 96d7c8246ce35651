"""docs/whatif.md: its examples are read by the parsers, and it names every field, every part and every option."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.cli.conftest import Call, call
from vcledger.replay.variants import read_seeds, read_variant
from vcledger.replay.whatif_text import GROUP_FIELDS, QUEUE_FIELDS, add_nodes, scale_requests, set_field

__all__ = ["call"]

TEXT = (Path(__file__).parent.parent.parent / "docs" / "whatif.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", TEXT)


def test_its_examples_are_read() -> None:
    fields = [text for text in CODE if re.match(r"(queue|job|podgroup)/\S+=[a-z0-9]+$", text)]
    assert len(fields) >= 3
    for text in fields:
        set_field(text)
    (nodes,) = [text for text in CODE if re.match(r"\d+:cpu=", text)]
    assert add_nodes(nodes).node_names()[0] == "big-0"
    scales = [text.split(" ")[1] for text in CODE if re.match(r"--scale-requests \S*\d$", text)]
    assert len(scales) == 2
    for text in scales:
        scale_requests(text)
    variants = re.findall(r"--variant '([^']+)'", TEXT)
    assert len(variants) >= 2
    for text in variants:
        if "OPTIONS" not in text:
            read_variant(text, str)
    assert read_seeds("1..5") == (1, 2, 3, 4, 5)


def test_it_names_every_field() -> None:
    named = {text.removesuffix(".RESOURCE") for text in CODE}
    assert set(QUEUE_FIELDS) | set(GROUP_FIELDS) <= named


def test_the_options_that_it_names_are_there(call: Call) -> None:
    help_text = call("replay", "--help").stdout
    named = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)))
    assert len(named) > 5
    for option in named:
        assert option in help_text, option
