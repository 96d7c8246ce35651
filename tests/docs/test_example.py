"""The example project under examples/: it passes, is short, and notices when its scheduler is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "my-scheduler" / "test_my_scheduler.py"


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=path.parent,
    )


@pytest.mark.slow
def test_it_passes_in_forty_lines(tmp_path: Path) -> None:
    copy = tmp_path / EXAMPLE.name
    copy.write_text(EXAMPLE.read_text())
    assert len(EXAMPLE.read_text().splitlines()) <= 40
    done = run(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_it_fails_when_its_logic_is_turned_round(tmp_path: Path) -> None:
    copy = tmp_path / EXAMPLE.name
    text = EXAMPLE.read_text()
    assert "-node.idle.milli_cpu" in text
    copy.write_text(text.replace("-node.idle.milli_cpu", "node.idle.milli_cpu"))
    done = run(copy)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
