"""Where the tests' data lie.

Owns the paths. Must not know what is in the files. Called by the tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def vectors() -> list[Path]:
    """Every golden vector, both versions of Volcano, in a fixed order."""
    return sorted((GOLDEN / "vectors").glob("*.json")) + sorted((GOLDEN / "vectors-1.11").glob("*.json"))


def recording(name: str) -> Path:
    """The folder of a recording, by its number or a part of its name: '02' or 'unschedulable'."""
    found = [path for path in sorted((GOLDEN / "recordings").iterdir()) if name in path.name]
    assert len(found) == 1, f"{name}: {[path.name for path in found]}"
    return found[0]


def recordings() -> list[Path]:
    """The folders of all recordings."""
    return sorted(path for path in (GOLDEN / "recordings").iterdir() if path.is_dir())


def shared(*parts: str) -> Path:
    """Data that lie beside a checkout and are not part of it (other projects' traces). The test that asks for what is
    not there is skipped."""
    path = Path(__file__).resolve().parents[2].joinpath("shared", "data", *parts)
    if not path.exists():
        pytest.skip(f"no {'/'.join(parts)} beside this checkout")
    return path
