"""What the scheduler is configured with: Volcano's file, its default, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.common import Failure
from cli.main import app
from eventstore import open_store
from vcledger.schedule.scheduler import Options
from vcledger.scheduled import Run, newest_run, started
from vcledger.scheduler.session.conf import DEFAULT_CONF, ConfInvalid, read_conf
from vcledger.scheduler.session.sampling import Sampling

CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: binpack
    arguments:
      binpack.weight: 10
"""


def test_without_a_file_volcanos_own_configuration_decides() -> None:
    config = Options(seed=9).flow()
    assert config.session == read_conf(DEFAULT_CONF)
    assert config.session is not None and config.session.actions == ("enqueue", "allocate", "backfill")
    assert config.seed == 9


def test_a_file_says_actions_and_plugins() -> None:
    conf = read_conf(CONF)
    assert conf.actions == ("enqueue", "allocate")
    assert [one.name for one in conf.plugins()] == ["gang", "binpack"]
    assert Options(session=conf).flow().session is conf


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_what_evicts_is_taken_too(action: str) -> None:
    conf = read_conf(CONF.replace("allocate", f"allocate, {action}"))
    assert action in conf.actions
    assert Options(session=conf).flow().session is conf


def test_a_mistake_in_the_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfInvalid, match="unknown action 'alocate'"):
        read_conf(CONF.replace("allocate", "alocate"))
    told = CliRunner().invoke(
        app, ["schedule", "--config", str(tmp_path / "none.yaml"), "--db", str(tmp_path / "l.db")]
    )
    assert isinstance(told.exception, Failure | SystemExit)
    assert not (tmp_path / "l.db").exists()


def test_nodes_of_a_label_alone_and_the_ledger_says_which(tmp_path: Path) -> None:
    """Whoever reads the ledger later rebuilds the same cache."""
    selectors = ("volcano.sh/role:train", "volcano.sh/role:serving")
    cache = Options(node_selectors=selectors).flow().cache
    assert cache.node_selectors == selectors
    with open_store(str(tmp_path / "l.db"), create=True) as store:
        store.append([started("c", Run(["vcledger"], node_selectors=list(selectors)), 1)])
        found = newest_run(store, "c")
    assert found is not None and found.config == cache


@pytest.mark.parametrize("selector", ["train", ":train", ""])
def test_a_selector_that_is_none_is_refused_at_once(selector: str, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["schedule", "--node-selector", selector, "--db", str(tmp_path / "l.db")])
    assert isinstance(told.exception, Failure | SystemExit) and "LABEL:VALUE" in str(told.exception) + told.output
    assert not (tmp_path / "l.db").exists()


def test_how_many_nodes_a_session_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Volcano's three options, with its defaults."""
    seen: list[Options] = []

    def scheduler(db: object, name: object, port: object, options: Options, **_: object) -> None:
        seen.append(options)
        raise SystemExit(7)

    class Port:
        cluster_name = server = "here"

        def __init__(self, *_: object, **__: object) -> None:
            """No server is asked."""

    monkeypatch.setattr("vcledger.runtime.access.find_access", lambda *_: None)
    monkeypatch.setattr("vcledger.runtime.wire.WirePort", Port)
    monkeypatch.setattr("vcledger.schedule.scheduler.Scheduler", scheduler)
    given = ["--minimum-feasible-nodes", "50", "--minimum-percentage-nodes-to-find", "7"]
    for more in ([], [*given, "--percentage-nodes-to-find", "30"]):
        assert CliRunner().invoke(app, ["schedule", "--db", "some.db", *more]).exit_code == 7
    assert [one.flow().session.sampling for one in seen] == [Sampling(), Sampling(50, 7, 30)]
