"""The help: whole lines in a terminal of 80 columns, a word for each value, every command in the list."""

from __future__ import annotations

import pytest

from cli.main import COMMANDS, SUMMARIES
from tests.unit.cli.conftest import Call


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_each_command_has_a_line_that_is_not_cut_off(call: Call) -> None:
    lines = call("--help").stdout.partition("Commands:\n")[2].splitlines()
    said = [" ".join(line.split()) for line in lines]
    assert said == [f"{module.removesuffix('_')} {text}" for module, text in SUMMARIES.items()]
    assert all(len(line) < 80 for line in lines)
    parts = call("db", "--help").stdout.partition("Commands:\n")[2].splitlines()
    assert len(parts) == 3
    assert not [line for line in parts if "..." in line]


@pytest.mark.parametrize("module", COMMANDS)
def test_each_option_that_takes_a_value_has_a_word_for_it(call: Call, module: str) -> None:
    text = call(module.removesuffix("_"), "--help").stdout
    options = text.partition("Options:")[2]
    assert "--help" in options
    assert not [line for line in options.splitlines() if "<int" in line or "<str" in line or "<path" in line]
    assert max(len(line) for line in text.splitlines()) <= 80
