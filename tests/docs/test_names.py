"""What the pages name is there: files, modules, make targets, commands with their options, and links."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from cli.main import MODULES as MODULES_OF_COMMANDS
from cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *sorted(page for folder in ("docs", "deploy", "examples") for page in (ROOT / folder).rglob("*.md")),
]
FOLDERS = ("eventstore", "volcano", "projections", "vcledger", "cli", "bench", "migrations", "tests")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
}
OTHERS = {"--output-watch-events", "--from-literal", "--schedule-period"}
"""Options of kubectl and of Volcano's scheduler that the pages speak of."""

GROUPS = {"vcledger.session_plugins"}
"""Entry points, named like modules."""

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
LINK = re.compile(r"\]\((?!http)([^)#\s]*)(?:#([^)\s]+))?\)")
FILE = re.compile(rf"`((?:{'|'.join((*FOLDERS, 'docs', 'deploy', 'examples', 'kube'))})/[\w./*-]*)`")
MODULE = re.compile(rf"`((?:{'|'.join(FOLDERS)})(?:\.(?!py`)\w+)+)`")
CALL = re.compile(r"(?:^\$ |^    |`)(?:kubectl )?vcledger ([a-z][a-z-]*)([^`\n]*)", flags=re.MULTILINE)
TARGET = re.compile(r"(?:`|^ +)make ([a-z][a-z-]+)", flags=re.MULTILINE)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def commands() -> dict[str, set[str]]:
    """Each command with the options that it takes, with those of its own commands."""
    group: Any = get_command(app)
    context = typer.Context(group)
    found = {}
    for name in MODULES_OF_COMMANDS:
        command = group.get_command(context, name)
        inside = [command, *getattr(command, "commands", {}).values()]
        found[name] = {word for one in inside for given in one.params for word in (*given.opts, *given.secondary_opts)}
        found[name].add("--help")
    return found


@cache
def options() -> set[str]:
    """All options of the product: those of its commands, and those that modules with a `main` of their own take."""
    written = {word for path in MODULES.values() for word in re.findall(r"[\"'](--[a-z][\w-]+)", path.read_text())}
    return written.union(*commands().values())


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_and_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    assert [name for name in FILE.findall(text) if not list(ROOT.glob(name.rstrip("/")))] == []
    for file, anchor in LINK.findall(text):
        there = page.parent / file if file else page
        assert there.exists(), file
        if anchor:
            heads = re.findall(r"^#+ (.*)$", there.read_text(), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}, anchor


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_modules_and_what_they_have_are_there(page: Path) -> None:
    for name in set(MODULE.findall(page.read_text())) - GROUPS:
        parts = name.split(".")
        cut = next((size for size in range(len(parts), 0, -1) if ".".join(parts[:size]) in MODULES), 0)
        assert cut, name
        inside = MODULES[".".join(parts[:cut])].read_text()
        assert all(re.search(rf"\b{part}\b", inside) for part in parts[cut:]), name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_have_the_options_that_they_are_called_with(page: Path) -> None:
    text = page.read_text()
    assert set(OPTION.findall(text)) - OTHERS <= options()
    for command, rest in CALL.findall(text):
        assert command in commands(), command
        unknown = set(OPTION.findall(rest)) - commands()[command]
        assert not unknown, f"vcledger {command}: {unknown}"


def test_every_decision_stands_in_the_index_by_its_own_title() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    pages = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    titles = [page.read_text().splitlines()[0].removeprefix("# ") for page in pages]
    assert re.findall(r"^- \[(.*)\]\((.*)\)$", index, flags=re.MULTILINE) == [
        (title, page.name) for title, page in zip(titles, pages, strict=True)
    ]


def test_every_page_is_reached_from_the_readme_or_the_architecture() -> None:
    reached = {(ROOT / name).resolve() for name in ("README.md", "ARCHITECTURE.md")}
    todo = sorted(reached)
    while todo:
        page = todo.pop()
        for file, _ in LINK.findall(page.read_text()):
            there = (page.parent / file).resolve() if file else page
            there = there / "README.md" if there.is_dir() else there
            if there.suffix == ".md" and there.exists() and there not in reached:
                reached.add(there)
                todo.append(there)
    assert [named(page) for page in PAGES if page.resolve() not in reached] == []


def test_make_has_the_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    asked = {target for page in PAGES for target in TARGET.findall(page.read_text())}
    assert len(asked) > 5
    assert asked <= targets


def test_the_pages_name_enough_to_look_at() -> None:
    """Were one of the patterns to find nothing, the tests above would pass for ever."""
    text = "".join(page.read_text() for page in PAGES)
    assert min(len(pattern.findall(text)) for pattern in (OPTION, LINK, FILE, MODULE, CALL)) > 20
    assert len(commands()) > 15
