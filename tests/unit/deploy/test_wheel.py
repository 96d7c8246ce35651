"""The wheel has what an installed vcledger needs: each folder is found, and each file that is no module is named."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[3]
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOUND = TOOLS["packages"]["find"]
PATTERNS = ["*.py", *TOOLS["package-data"]["*"]]


def kept() -> list[Path]:
    """The files of the packages, without what Python and pip leave there."""
    folders = [folder for pattern in FOUND["include"] for folder in ROOT.glob(pattern) if folder.suffix != ".egg-info"]
    found = [path for folder in folders for path in folder.rglob("*")]
    return [path.relative_to(ROOT) for path in found if path.is_file() and "__pycache__" not in path.parts]


def test_every_file_of_the_packages_goes_into_the_wheel() -> None:
    files = kept()
    assert len(files) > 300
    assert any(file.suffix == ".zst" for file in files), "the demo's recordings"
    assert any(file.parts[:2] == ("migrations", "versions") for file in files), "the migrations"
    dotted = [".".join(file.parent.parts) for file in files]
    assert [name for name in dotted if not any(fnmatch(name, pattern) for pattern in FOUND["include"])] == []
    assert [file for file in files if any("." in part for part in file.parent.parts)] == [], "no name of a package"
    assert FOUND.get("namespaces", True), "folders of data are packages too"
    assert [file for file in files if not any(fnmatch(file.name, pattern) for pattern in PATTERNS)] == []
