"""`why` in full over the recordings: changes that are proven, ten lines, history, queues, nodes, the configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from projections.diagnosis.history import STATES
from projections.diagnosis.holders import NODE_VERDICTS, QUEUE_VERDICTS, node_lines, queue_lines
from projections.diagnosis.model import Explanation
from projections.diagnosis.text import LINES_MAX, lines, plain
from tests.data import recording
from tests.golden.test_why_recordings import AFTER, BOUND_AND_PENDING, CLUSTER, CONTENDED, FIRST, IN_FLIGHT, VOLUMES_END
from vcledger.ledger import Ledger
from vcledger.sources import import_paths
from vcledger.why import why, why_job
from vcledger.why_conf import rules_of
from vcledger.why_history import history
from vcledger.why_node import why_node
from vcledger.why_queue import why_queue
from vcledger.why_views import Views

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """`paths("02")`: that recording as a ledger."""
    made: dict[str, str] = {}

    def path(name: str) -> str:
        if name not in made:
            folder = recording(name)
            made[name] = str(tmp_path_factory.mktemp("why-full") / f"{name}.db")
            with Ledger.open(made[name], create=True) as ledger:
                import_paths(ledger, [folder / "watch.jsonl.zst", folder / "audit.jsonl.zst"], cluster=CLUSTER)
        return made[name]

    return path


@pytest.fixture
def call(paths: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """`call("default/p")`: the result of `vcledger why default/p` on recording 02, at the first dump."""
    monkeypatch.setenv("VCLEDGER_DB", paths("02"))

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["why", *words, "--at", FIRST])

    yield run


def waiting(ledger: Ledger, at: str) -> Iterator[Explanation]:
    """The answers about every pod and every Volcano Job at a moment."""
    position = ledger.position(at, CLUSTER)
    cache = ledger.cache(position, cluster=CLUSTER)
    views = Views(ledger, cache)
    for ref in list(cache.pods.values()):
        if not ref.node_name and ref.phase == "Pending":
            yield why(ledger, ref.namespace, ref.name, position=position, views=views)
    for kind, key in list(cache.positions):
        if kind == "VolcanoJob":
            namespace, _, name = key.partition("/")
            yield why_job(ledger, namespace, name, position=position, views=views)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        pytest.param("02", FIRST, marks=pytest.mark.slow),
        pytest.param("02", AFTER, marks=pytest.mark.slow),
        pytest.param("03", BOUND_AND_PENDING, marks=pytest.mark.slow),
        pytest.param("03", IN_FLIGHT, marks=pytest.mark.slow),
        ("03", VOLUMES_END),
        pytest.param("05", "marker:volcano-cache-dump-2-bind-always-fails.json", marks=pytest.mark.slow),
        pytest.param("07", "marker:volcano-cache-dump-4-after-scheduler-restart.json", marks=pytest.mark.slow),
        pytest.param("06", CONTENDED, marks=pytest.mark.slow),
    ],
)
def test_the_text_has_ten_lines_at_most(paths: Callable[[str], str], name: str, at: str) -> None:
    asked = 0
    with Ledger.open(paths(name), read_only=True) as ledger:
        for answer in waiting(ledger, at):
            text = plain(lines(answer))
            assert 3 <= len(text.splitlines()) <= LINES_MAX, text
            assert answer.verdict in text.splitlines()[1]
            assert not answer.changes or "Smallest change: " in text
            asked += 1
    assert asked > 0


CHANGES = [
    ("02", FIRST, "partial-2of6-w-1", "cpu-0: 1 more cpu"),
    ("02", FIRST, "partial-2of6-w-1", "evict 1 pod: default/blocker-w-6 on cpu-0 (priority 0)"),
    ("02", FIRST, "no-toleration-w-0", "no-toleration-w-0: tolerate taint gpu=true:NoSchedule"),
    ("02", FIRST, "bad-selector-w-0", "bad-selector-w-0: drop nodeSelector accel=h100"),
    ("02", FIRST, "gang-12x6-w-1", "6 more nodes like cpu-0"),
    ("02", FIRST, "gang-12x6-w-1", "gang-12x6-w-0: tolerate taint gpu=true:NoSchedule (and 5 more like it)"),
    ("02", FIRST, "gang-12x6-w-1", "cpu-1, cpu-3, cpu-4 and 3 more, each: 3 more cpu"),
    ("02", FIRST, "anti-affinity-w-0", "1 more node like cpu-0"),
    ("02", FIRST, "job/anti-affinity", "minMember 8 instead of 9"),
    ("02", FIRST, "job/queue-cap", "queue small: capability cpu 6 instead of 4"),
    ("02", FIRST, "job/queue-cap-1c8a630b-99c1-46b2-bf4d-040f1e426d28", "queue small: capability cpu 6 instead of 4"),
    ("02", FIRST, "job/queue-missing", ""),
    ("02", FIRST, "job/gpu-too-many", "2 more nodes like gpu-0"),
    ("02", FIRST, "job/huge-one", "1 new node with cpu 64"),
    ("02", FIRST, "gated", "gated: take off scheduling gate example.com/wait"),
    ("02", FIRST, "other-sched", "other-sched: schedulerName volcano"),
    ("02", FIRST, "bare-pending", "cpu-1: 37 more cpu"),
    ("02", FIRST, "mem-hog-w-0", "ask for 128Gi memory instead of 200Gi"),
    (
        "03",
        BOUND_AND_PENDING,
        "gang-one-bad-ty-0",
        "claim gbad-y: a volume of 500Gi of class local-wffc",
    ),
    ("03", IN_FLIGHT, "never-prov", "claim never-c: a volume of 5Gi of class never bound to it"),
    ("03", VOLUMES_END, "immediate-unbound", "claim now-nopv: a volume of 500Gi of class local-now bound to it"),
    ("03", VOLUMES_END, "pvc-missing", "create claim no-such-claim with a volume bound to it"),
    ("03", VOLUMES_END, "bound-elsewhere", "bound-elsewhere: drop nodeSelector kubernetes.io/hostname=node-5"),
]


OFTEN = ("partial-2of6-w-1", "gang-12x6-w-1", "job/gpu-too-many", "job/queue-missing", "never-prov", "bound-elsewhere")
"""Of these every run asks; of the others the slow one."""


@pytest.mark.parametrize(
    ("name", "at", "target", "text"),
    [
        pytest.param(*one, id=f"{one[0]}-{one[2]}-{one[3][:24]}", marks=[] if one[2] in OFTEN else [pytest.mark.slow])
        for one in CHANGES
    ],
)
def test_the_changes_that_would_have_let_it_run(
    paths: Callable[[str], str], name: str, at: str, target: str, text: str
) -> None:
    with Ledger.open(paths(name), read_only=True) as ledger:
        position = ledger.position(at, CLUSTER)
        ask = why_job if target.startswith("job/") else why
        answer = ask(ledger, "default", target.removeprefix("job/"), position=position)
    told = [one.text for one in answer.changes]
    assert any(text in one for one in told) if text else told == ["queue does-not-exist: create it"], told
    assert [one.size for one in answer.changes] == sorted(one.size for one in answer.changes)


def test_time_in_each_state_and_what_changed_between_tries(paths: Callable[[str], str]) -> None:
    with Ledger.open(paths("02"), read_only=True) as ledger:
        answer = why(ledger, "default", "gang-12x6-w-0", position=ledger.position(AFTER, CLUSTER))
        past = history(ledger, answer, evaluate=True)
    assert list(past.time_in_state_seconds) == ["first-try", "nodes", "starting", "running"]
    assert 40 < past.time_in_state_seconds["nodes"] < 50
    assert [one.state for one in past.tries] == ["nodes", "nodes", "nodes"]
    assert [one.verdict for one in past.tries] == ["gang-short", "waiting-for-release", "schedulable"]
    assert past.tries[0].message.startswith("0/10 nodes are unavailable")
    assert "nodes added: gpu-2, gpu-3" in past.tries[1].changed
    assert "8 pods ended or gone" in past.tries[2].changed
    assert past.tries[2].message == "bound to cpu-1"


@pytest.mark.parametrize(
    ("name", "at", "target", "states"),
    [
        ("03", IN_FLIGHT, "never-prov", ["podgroup", "queue", "first-try", "volumes"]),
        pytest.param(
            "05",
            "marker:volcano-cache-dump-4-end.json",
            "fforever-w-0",
            ["first-try", "bind", "starting", "running"],
            marks=pytest.mark.slow,
        ),
        ("02", FIRST, "anti-affinity-w-0", ["first-try", "gang"]),
        ("02", FIRST, "gated", ["gated"]),
        ("02", FIRST, "job/anti-affinity", ["queue", "first-try", "gang"]),
        ("02", FIRST, "job/queue-cap", ["queue"]),
    ],
)
def test_the_states_of_a_life(paths: Callable[[str], str], name: str, at: str, target: str, states: list[str]) -> None:
    with Ledger.open(paths(name), read_only=True) as ledger:
        ask = why_job if target.startswith("job/") else why
        answer = ask(ledger, "default", target.removeprefix("job/"), position=ledger.position(at, CLUSTER))
        past = history(ledger, answer)
    found = list(past.time_in_state_seconds)
    assert [one for one in found if one in states] == states
    assert set(found) <= set(STATES)
    assert past.spans[0].seconds >= 0
    total = sum(past.time_in_state_seconds.values())
    assert total == pytest.approx(sum(one.seconds for one in past.spans), abs=0.01)


def test_a_queue_says_who_holds_it_and_what_holds_its_jobs_back(paths: Callable[[str], str]) -> None:
    with Ledger.open(paths("02"), read_only=True) as ledger:
        position = ledger.position(FIRST, CLUSTER)
        small = why_queue(ledger, "small", position=position)
        default = why_queue(ledger, "default", position=position)
    assert (small.verdict, small.waiting_total, small.holders) == ("queue-over-capability", 1, [])
    cpu = small.resources[0]
    assert (cpu.resource, cpu.asked, cpu.capability, cpu.allocated) == ("cpu", "6", "4", "0")
    assert default.verdict == "held-back"
    assert {one.verdict: one.count for one in default.held_back} == {
        "gang-short": 4, "no-node-fits": 3, "cluster-overused": 2,
    }  # fmt: skip
    assert default.holders[0].amounts == {"cpu": "40", "memory": "64Gi"}
    for answer in (small, default):
        assert answer.verdict in QUEUE_VERDICTS
        assert len(plain(queue_lines(answer)).splitlines()) <= LINES_MAX


@pytest.mark.parametrize(
    ("node", "verdict", "fits"), [("cpu-0", "would-take", {"gang-short": 9}), ("gpu-0", "refuses", {})]
)
def test_a_node_says_why_nothing_goes_there(
    paths: Callable[[str], str], node: str, verdict: str, fits: dict[str, int]
) -> None:
    with Ledger.open(paths("02"), read_only=True) as ledger:
        answer = why_node(ledger, node, position=ledger.position(FIRST, CLUSTER))
    assert answer.verdict == verdict in NODE_VERDICTS
    assert {one.verdict: one.count for one in answer.would_fit} == fits
    assert sum(one.count for one in [*answer.refused, *answer.would_fit]) == answer.waiting_total == answer.asked_about
    if node == "cpu-0":
        cpu = next(one for one in answer.refused if one.verdict == "Insufficient cpu")
        assert cpu.summary.startswith("asks 6, idle 1 (of 8) (6x); asks 2, idle 1 (of 8) (5x)")
    assert len(plain(node_lines(answer)).splitlines()) <= LINES_MAX


@pytest.mark.slow
def test_a_full_node_and_a_queue_at_its_share(paths: Callable[[str], str]) -> None:
    with Ledger.open(paths("06"), read_only=True) as ledger:
        position = ledger.position(CONTENDED, CLUSTER)
        node, queue = why_node(ledger, "n000", position=position), why_queue(ledger, "q-b", position=position)
    assert node.verdict == "full"
    assert queue.verdict == "queue-overused"
    assert "deserves 1216, has 1216, asks 2" in queue.summary


def test_the_configuration_says_which_actions_run_and_which_plugins_judge(call: Call) -> None:
    conf = str(recording("02") / "scheduler-conf.yaml")
    told = json.loads(call("default/partial-2of6-w-1", "--config", conf, "-o", "json").stdout)["preemption"]
    assert told["actions"] == ["enqueue", "allocate", "backfill"]
    assert told["note"].startswith("neither preempt nor reclaim is among the configured actions")
    unknown = json.loads(call("default/partial-2of6-w-1", "-o", "json").stdout)["preemption"]
    assert unknown["actions"] is None and "--config" in unknown["note"]
    [spared] = unknown["nodes"][0]["spared"][:1]
    assert spared["pod"].startswith("default/") and spared["why"]


def test_rules_of_a_configuration() -> None:
    churn = rules_of((recording("06") / "scheduler-conf.yaml").read_text())
    assert churn.actions == ("enqueue", "allocate", "preempt", "reclaim", "backfill")
    assert (churn.overcommit, churn.share) == (None, "proportion")
    assert churn.keepers == ("priority", "conformance"), "gang has enablePreemptable: false"
    assert churn.reclaim_keepers == ("gang", "conformance", "proportion")
    assert rules_of((recording("02") / "scheduler-conf.yaml").read_text()).overcommit == 1.2


def test_a_configuration_that_cannot_be_read_is_one_line(call: Call, tmp_path: Path) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text('actions: "enqueue, conquer"\ntiers: []\n')
    result = call("default/bare-pending", "--config", str(conf))
    assert result.exit_code == 2
    assert "conquer" in result.stderr and len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "at", "target"),
    [
        ("02", FIRST, "gang-12x6-w-1"),
        ("02", FIRST, "partial-2of6-w-1"),
        ("02", FIRST, "job/gpu-too-many"),
        ("02", FIRST, "job/queue-missing"),
        ("03", VOLUMES_END, "bound-elsewhere"),
        pytest.param("02", FIRST, "job/queue-cap", marks=pytest.mark.slow),
        pytest.param("02", FIRST, "gated", marks=pytest.mark.slow),
        pytest.param("03", VOLUMES_END, "pvc-missing", marks=pytest.mark.slow),
        pytest.param("03", IN_FLIGHT, "never-prov", marks=pytest.mark.slow),
        pytest.param("03", BOUND_AND_PENDING, "pv-too-small", marks=pytest.mark.slow),
        pytest.param("02", FIRST, "anti-affinity-w-0", marks=pytest.mark.slow),
        pytest.param("02", AFTER, "bare-pending", marks=pytest.mark.slow),
        pytest.param("02", AFTER, "no-toleration-w-0", marks=pytest.mark.slow),
        pytest.param("06", CONTENDED, "b-low-15-w-13", marks=pytest.mark.slow),
    ],
)
def test_a_scheduling_session_with_the_change_places_it(
    paths: Callable[[str], str], name: str, at: str, target: str
) -> None:
    """The changes that the rules prove are those that a session under the recording's own configuration proves."""
    conf = (recording(name) / "scheduler-conf.yaml").read_text()
    with Ledger.open(paths(name), read_only=True) as ledger:
        position = ledger.position(at, CLUSTER)
        ask = why_job if target.startswith("job/") else why
        short = target.removeprefix("job/")
        plain_answer = ask(ledger, "default", short, position=position, rules=rules_of(conf))
        answer = ask(ledger, "default", short, position=position, rules=rules_of(conf), conf=conf, sessions=True)
    assert [one.text for one in answer.changes] == [one.text for one in plain_answer.changes]
    assert answer.changes != []
    for one in answer.changes:
        asks_less = any(step.action == "ask-less" for step in one.steps)
        assert asks_less or one.proof.startswith("a scheduling session with it places it"), one


def test_what_a_session_refuses_is_not_given(paths: Callable[[str], str]) -> None:
    """Under a configuration without allocate nothing is ever placed."""
    conf = "actions: enqueue\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
    with Ledger.open(paths("02"), read_only=True) as ledger:
        position = ledger.position(FIRST, CLUSTER)
        answer = why(ledger, "default", "partial-2of6-w-1", position=position, conf=conf, sessions=True)
    assert answer.changes == []


def test_json_has_the_numbers_the_members_and_the_history(call: Call) -> None:
    data = json.loads(call("default/anti-affinity-w-0", "-o", "json").stdout)
    assert data["numbers"]["queue"] == "default" and data["numbers"]["enqueued"] is True
    cpu = data["numbers"]["resources"][0]
    assert set(cpu) >= {"resource", "asked", "allocated", "deserved", "capability", "cluster"}
    assert len(data["members"]) == 9
    assert [one["trial"] for one in data["members"]].count("fits on no node at its turn") == 1
    assert set(data["time_in_state_seconds"]) == {"first-try", "gang"}
    assert data["history"]["tries"][0]["message"]
    assert data["changes"][0]["steps"][0]["action"]
    assert data["changes"][0]["proof"].startswith("a scheduling session with it places it"), "the state is small"


def test_full_shows_every_part(call: Call) -> None:
    text = call("default/gang-12x6-w-1", "--full").stdout
    for part in ("Change  ", "Queue  ", "Members  ", "Preemption  ", "In state  ", "Tries  ", "Story  ", "REFUSED BY"):
        assert part in text
    assert "6 members: 1 fits on no node at its turn, 5 not tried any more" in text


@pytest.mark.parametrize(
    "words", [("queue/small",), ("q/small",), ("q/does-not-exist",), ("node/cpu-0",), ("node/cpu-0", "--full")]
)
def test_queues_and_nodes_on_the_command_line(call: Call, words: tuple[str, ...]) -> None:
    result = call(*words)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[1].startswith("Verdict ")
    data = json.loads(call(*words, "-o", "json").stdout)
    assert data["verdict"] in {*QUEUE_VERDICTS, *NODE_VERDICTS}
    assert data["evidence"][-1]["known"] == "recomputed"


def test_a_queue_that_does_not_exist_is_told_with_the_jobs_that_name_it(call: Call) -> None:
    data = json.loads(call("queue/does-not-exist", "-o", "json").stdout)
    assert (data["verdict"], data["waiting_total"]) == ("queue-missing", 1)
    assert [one["names"] for one in data["held_back"]] == [["default/queue-missing"]]
    result = call("queue/nobody-names-it")
    assert result.exit_code == 2
    assert "no queue nobody-names-it" in result.stderr


def test_the_page_has_every_key_and_every_state() -> None:
    page = (Path(__file__).parents[2] / "docs" / "why.md").read_text(encoding="utf-8")
    told = {word.strip() for row in page.splitlines() if row.startswith("| ") for word in row.split("|")[1].split(",")}
    keys = {field for field in Explanation.__struct_fields__ if field not in {"namespace", "name", "also"}}
    assert keys | {"history", "time_in_state_seconds"} <= told
    rows = dict(row.strip("| ").split(" | ", 1) for row in page.splitlines() if row.count(" | ") == 1)
    assert {state: rows.get(state) for state in STATES} == STATES
    for verdict in (*QUEUE_VERDICTS, *NODE_VERDICTS):
        assert f"`{verdict}`" in page
