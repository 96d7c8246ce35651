"""docs/session.md says what is there: each plugin with its arguments and defaults, each action, the refusal's words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from vcledger.scheduler.session.actions import ACTIONS
from vcledger.scheduler.session.conf import DEFAULT_CONF, ConfInvalid, read_conf
from vcledger.scheduler.session.plugins import BUILTIN
from vcledger.scheduler.session.plugins.nodeorder import DEFAULT_WEIGHTS

PAGE = (Path(__file__).parents[2] / "docs" / "session.md").read_text(encoding="utf-8")


def rows(title: str) -> dict[str, list[str]]:
    """The rows of the first table under a title, by their first cell."""
    part = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in cells[2:]}


def test_the_actions_are_those_that_there_are() -> None:
    assert sorted(rows("Actions")) == sorted(ACTIONS)


def test_the_plugins_are_those_that_there_are_with_their_arguments() -> None:
    table = rows("Plugins")
    assert sorted(table) == sorted(BUILTIN)
    for name, factory in BUILTIN.items():
        stated = set(re.findall(r"`([^`]+)`", table[name][1]))
        known: Any = getattr(factory, "ARGUMENTS", ())
        assert stated == {argument.name for argument in known}, name


def test_the_weights_are_the_defaults() -> None:
    stated = re.findall(r"`([a-z]+\.weight)` (\d)", rows("Plugins")["nodeorder"][1])
    assert {name: int(weight) for name, weight in stated} == DEFAULT_WEIGHTS


def test_the_refusal_reads_so() -> None:
    shown = re.search(r"```\n(scheduler configuration, .*), …\n```", PAGE)
    assert shown is not None
    lines = DEFAULT_CONF.splitlines()
    lines[6:7] = ["  - name: binpack", "    arguments:", "      binpack.wait: 1", *lines[6:7]]
    with pytest.raises(ConfInvalid) as caught:
        read_conf("\n".join(lines))
    assert str(caught.value).startswith(shown.group(1))
