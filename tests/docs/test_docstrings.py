"""Module docstrings say what the module owns, what it must not know and who calls it, and name what is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("eventstore", "volcano", "projections", "vcledger", "cli", "bench")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in (*PACKAGES, "migrations", "tests")
    for path in sorted((ROOT / package).rglob("*.py"))
}
OURS = [name for name, path in MODULES.items() if name.split(".")[0] in PACKAGES and path.stat().st_size]
NAMED = re.compile(r"`((?:eventstore|volcano|projections|vcledger|cli|bench|tests)(?:\.\w+)+)`")
LIMIT = re.compile(r"[Mm]ust (?:not|never|import nothing)|[Pp]ure|[Kk]nows (?:no|nothing)|[Nn]eeds hypothesis")
CALLERS = re.compile(
    r"(?:[Cc]alled|[Ii]mported|[Ll]oaded|[Ss]ubclassed|[Uu]sed|[Rr]un|[Rr]ead|[Mm]ade) [^.`]{0,40}?(?:by|through) [^.]"
)


@cache
def text(name: str) -> str:
    return MODULES[name].read_text()


@cache
def docstring(name: str) -> str:
    return " ".join((ast.get_docstring(ast.parse(text(name))) or "").split())


@cache
def imports(name: str) -> frozenset[str]:
    """The modules that a module imports, also those whose functions it imports."""
    found = set()
    for node in ast.walk(ast.parse(text(name))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or one followed by what its text defines."""
    parts = name.split(".")
    longest = next((cut for cut in range(len(parts), 0, -1) if ".".join(parts[:cut]) in MODULES), 0)
    module = ".".join(parts[:longest])
    return bool(longest) and all(re.search(rf"\b{part}\b", text(module)) for part in parts[longest:])


def callers(name: str) -> list[str]:
    """The modules named in the sentence that says who calls a module."""
    said = docstring(name)
    sentence = re.search(r"(?<!be )[Cc]alled by (.*?)(?:\.(?= [A-Z])|:|;|\.\Z|\Z)", said)
    return NAMED.findall(sentence[1]) if sentence else []


def calls(caller: str, name: str) -> bool:
    """Whether a module, or one of its package or family (`why` of `why_views`), imports a module, or something of a
    package. Commands are loaded by their names, of which `cli.main` has the list."""
    inside = [one for one in MODULES if one == caller or one.startswith((f"{caller}.", f"{caller}_"))]
    below = f"{name}." if MODULES[name].name == "__init__.py" else name
    if caller == "cli.main":
        return f'"{name.removeprefix("cli.")}"' in text(caller)
    return any(one == name or one.startswith(below) for caller in inside for one in imports(caller))


def test_each_says_what_it_owns_what_it_must_not_know_and_who_calls_it() -> None:
    asked = {"owns": re.compile("Owns"), "must not": LIMIT, "called by": CALLERS}
    assert len(OURS) > 300
    assert [(name, what) for name in OURS for what, found in asked.items() if not found.search(docstring(name))] == []


def test_what_they_name_is_there() -> None:
    assert [(name, one) for name in OURS for one in NAMED.findall(text(name)) if not is_there(one)] == []


def test_who_is_said_to_call_one_does() -> None:
    said = [(name, caller) for name in OURS for caller in callers(name)]
    assert len(said) > 200
    assert [pair for pair in said if not calls(pair[1], pair[0])] == []


def test_a_caller_that_is_none_and_a_name_that_is_gone_are_noticed() -> None:
    assert callers("vcledger.sources.lists") == ["vcledger.sources.sink", "vcledger.sources.listwatch"]
    assert calls("vcledger.sources.sink", "vcledger.sources.lists")
    assert not calls("vcledger.sources.redact", "vcledger.sources.lists")
    assert is_there("vcledger.sources.lists.Relist")
    assert not is_there("vcledger.sources.lists.NoSuchThing")
    assert not is_there("vcledger.no_such_module")
