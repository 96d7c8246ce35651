"""What a run loads: short commands must not pay for the modules of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import COMMANDS, MODULES, commands_of

HEAVY = ("sqlalchemy", "yaml", "rich", "hypothesis", "kubernetes", "alembic", "psycopg", "vcledger.logview")


def loaded(*words: str) -> set[str]:
    """The modules that are there after a run of the command."""
    program = (
        "import sys\nfrom cli.main import app\n"
        f"code = app({list(words)!r}, prog_name='vcledger', standalone_mode=False)\n"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_version_is_told_without_the_databases_libraries() -> None:
    found = loaded("--version")
    assert "cli.main" in found
    assert not found.intersection((*HEAVY, *(f"cli.{name}" for name in COMMANDS)))


def test_a_list_of_nodes_loads_neither_the_diagnosis_nor_another_command(unschedulable: Path) -> None:
    found = loaded("get", "nodes", "--db", str(unschedulable))
    assert {"cli.get", "sqlalchemy"} <= found
    heavy = [*HEAVY[1:], "cli.why", "vcledger.why", "projections.diagnosis.explain", "vcledger.sources.pipeline"]
    assert not found.intersection(heavy)


@pytest.mark.parametrize("name", MODULES)
def test_each_command_is_in_the_module_that_its_name_leads_to(name: str) -> None:
    assert name in commands_of(MODULES[name])


def test_the_package_is_the_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vcledger", "get", "--nope"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.endswith("see `vcledger get --help`\n")
    assert done.stderr.count("\n") == 1
