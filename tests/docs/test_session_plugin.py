"""The plugin under examples/session-plugin: found by its entry point, named in a configuration, heard in a session."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.data import recording
from tests.unit.session.world import World, group, node, pod, queue
from vcledger.ledger import Ledger
from vcledger.plugins import GROUP, PluginUnusable, all_plugins
from vcledger.scheduler.session.conf import UnknownArgument, UnknownPlugin, read_conf
from vcledger.scheduler.session.outcome import Placed
from vcledger.scheduler.session.plugins import BUILTIN
from vcledger.scheduler.session.run import run
from vcledger.sources import import_paths

EXAMPLE = Path(__file__).parents[2] / "examples" / "session-plugin"

CONF = """\
actions: allocate
tiers:
- plugins:
  - name: evenly
    arguments: {evenly.weight: 20}
  - name: gang
  - name: binpack
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Puts modules and the entry points that a package declares where an installed package's are."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def do(name: str, points: dict[str, str], **modules: str) -> None:
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"[{GROUP}]", *(f"{key} = {value}" for key, value in points.items())]
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text)
            monkeypatch.delitem(sys.modules, module, raising=False)

    yield do
    sys.modules.pop("evenly", None)


@pytest.fixture
def example(install) -> None:  # type: ignore[no-untyped-def]
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(project["name"], project["entry-points"][GROUP], evenly=(EXAMPLE / "evenly.py").read_text())


def placed(conf: str, seed: int = 0) -> dict[str, str]:
    """Where three tasks of two jobs go on two nodes, one of which has a pod already, in the order of the decisions."""
    world = World(
        queue(),
        node("a", cpu="8"),
        node("b", cpu="8"),
        group("large", 2),
        group("small"),
        pod("there", cpu="1", on="a"),
        *(pod(name, of) for name, of in (("large-0", "large"), ("large-1", "large"), ("small-0", "small"))),
    )
    outcome = run(world.mirror, read_conf(conf, all_plugins()), plugins=all_plugins(), seed=seed)
    return {one.task.name: one.node for one in outcome.decisions if isinstance(one, Placed)}


def test_it_is_found_and_has_its_say(example: None) -> None:
    assert list(all_plugins()) == [*BUILTIN, "evenly"]
    found = placed(CONF)
    assert next(iter(found)) == "small-0"
    assert found["small-0"] == "b"
    assert sorted(found.values()) == ["a", "b", "b"]
    assert set(placed(CONF.replace("weight: 20", "weight: 0")).values()) == {"a"}, "binpack alone fills one node"


def test_why_judges_by_a_configuration_that_names_it(example: None, tmp_path: Path) -> None:
    db, conf = tmp_path / "ledger.db", tmp_path / "volcano-scheduler.conf"
    conf.write_text(CONF)
    with Ledger.open(str(db), create=True) as ledger:
        import_paths(ledger, [recording("02-unschedulable") / "watch.jsonl.zst"])
    words = ["why", "gang-12x6-w-1", "--at", "marker:many-pending", "--db", str(db), "--config", str(conf)]
    answer = CliRunner().invoke(app, [*words, "-o", "json"])
    assert answer.exit_code == 0, answer.output
    proven = [change["text"] for change in json.loads(answer.stdout)["changes"] if "session" in change["proof"]]
    assert proven, "a session that has the plugin was asked about the changes"


def test_its_arguments_are_held_to_what_it_says(example: None) -> None:
    with pytest.raises(
        UnknownArgument, match=r"plugin evenly: unknown argument evenly\.wait; known are evenly\.weight"
    ):
        read_conf(CONF.replace("evenly.weight", "evenly.wait"), all_plugins())


def test_without_the_package_its_name_is_unknown() -> None:
    with pytest.raises(UnknownPlugin, match="plugin evenly is unknown"):
        read_conf(CONF, all_plugins())


def test_a_package_that_cannot_be_loaded_is_named_and_harms_nobody_else(install) -> None:  # type: ignore[no-untyped-def]
    install("broken", {"broken": "broken_module:Broken", "number": "numbers_only:ONE"}, numbers_only="ONE = 1\n")
    plugins = all_plugins()
    assert read_conf(CONF.replace("evenly", "drf").replace("drf.weight: 20", ""), plugins).actions == ("allocate",)
    with pytest.raises(PluginUnusable, match="broken: session plugin broken: broken_module:Broken can't be loaded"):
        read_conf(CONF.replace("evenly", "broken"), plugins)
    with pytest.raises(PluginUnusable, match="session plugin number: numbers_only:ONE is no class"):
        read_conf(CONF.replace("name: evenly", "name: number"), plugins)


def test_a_name_that_is_taken_is_refused(install) -> None:  # type: ignore[no-untyped-def]
    install("taker", {"gang": "taker:Gang"})
    with pytest.raises(PluginUnusable, match="taker: session plugin gang: the name of one that is built in"):
        all_plugins()


def test_two_packages_with_one_name_are_refused(install) -> None:  # type: ignore[no-untyped-def]
    install("one", {"mine": "one:Mine"})
    install("two", {"mine": "two:Mine"})
    with pytest.raises(PluginUnusable, match="several packages have one: one:Mine, two:Mine"):
        read_conf(CONF.replace("evenly", "mine"), all_plugins())
