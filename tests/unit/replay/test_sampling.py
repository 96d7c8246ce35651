"""A replay looks at as many nodes as the recorded scheduler did, by its own options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.unit.session.test_sampling import large, places
from vcledger.replay.deciding import session_decider
from vcledger.replay.engine import ReplayPlan, decider_of
from vcledger.scheduler.session.sampling import EVERY_NODE, Sampling

CONF = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: nodeorder\n'


def test_the_plans_sampling_decides_which_nodes_are_seen() -> None:
    world = large(pods=40)
    plan = ReplayPlan(conf=CONF)
    for sampling, all_best in ((EVERY_NODE, True), (Sampling(), False), (Sampling(minimum=120), True)):
        decider = decider_of(replace(plan, sampling=sampling))(world.cache, world.pod_of)
        found = places(decider.decide(0, 0))
        assert len(found) == 40
        assert (set(found.values()) == {"best"}) is all_best
    unchanged = session_decider(CONF, 0)(world.cache, world.pod_of)
    assert set(places(unchanged.decide(0, 0)).values()) != {"best"}


def test_the_command_takes_it_from_the_schedulers_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ReplayPlan] = []

    def make_jobs(plan: ReplayPlan, *_: object, **__: object) -> list[object]:
        seen.append(plan)
        raise SystemExit(7)

    monkeypatch.setattr("cli.replay.traces_of", lambda *_: [])
    monkeypatch.setattr("vcledger.replay.variants.make_jobs", make_jobs)
    args = tmp_path / "scheduler-args.txt"
    args.write_text("vc-scheduler --percentage-nodes-to-find=30 --minimum-feasible-nodes 50\n")
    told = CliRunner().invoke(app, ["replay", "--db", "some.db", "--scheduler-args", str(args)])
    assert told.exit_code == 7
    assert CliRunner().invoke(app, ["replay", "--db", "some.db"]).exit_code == 7
    assert [plan.sampling for plan in seen] == [Sampling(minimum=50, percentage=30), Sampling()]
