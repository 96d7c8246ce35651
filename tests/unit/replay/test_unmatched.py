"""Changes that find nothing in the trace are told, with what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.vcledger.build import life
from vcledger.ledger import Ledger
from vcledger.replay.unmatched import idle_everywhere, unmatched
from vcledger.replay.variants import Trace
from vcledger.replay.whatif import WhatIf
from vcledger.replay.whatif_text import read_changes


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path_factory.mktemp("unmatched") / "ledger.db"), create=True) as opened:
        opened.store.append(life())
        yield opened


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"remove": ["n1"]}, []),
        ({"remove": ["n*"]}, []),
        ({"remove": ["n3"]}, ["--remove-node n3 changes nothing: the trace has no node n3; it has n1, n2"]),
        ({"set_": ["job/default/g.minMember=2"]}, []),
        (
            {"set_": ["job/other/g.minMember=2"]},
            ["--set job/other/g.minMember=2 changes nothing: the trace has no job other/g"],
        ),
        (
            {"set_": ["pg/default/gg.minMember=2"]},
            ["--set pg/default/gg.minMember=2 changes nothing: the trace has no PodGroup default/gg; it has default/g"],
        ),
        (
            {"set_": ["queue/q.weight=2"]},
            ["--set queue/q.weight=2 changes nothing: the trace has no queue q"],
        ),
        (
            {"set_": ["pg/default/g.queue=small"]},
            ["--set pg/default/g.queue=small: the trace has no queue small"],
        ),
        ({"scale": ["0.5"]}, []),
        ({"scale": ["cpu=0.5"]}, []),
        (
            {"scale": ["nvidia.com/gpu=2"]},
            [
                "--scale-requests nvidia.com/gpu=2 changes nothing of nvidia.com/gpu: no pod of the trace asks for it; "
                "they ask for cpu, memory"
            ],
        ),
        ({"add": ["2:cpu=1,memory=1Gi"]}, []),
        (
            {"add": ["2:cpu=1"]},
            ["--add-nodes 2:cpu=1: the nodes have no memory, so no pod that asks for it fits there"],
        ),
    ],
)
def test_what_a_change_does_not_find(ledger: Ledger, given: dict[str, list[str]], lines: list[str]) -> None:
    changes = read_changes(**given)  # type: ignore[arg-type]
    assert [one.line for one in unmatched(ledger, Trace("", "c"), changes)] == lines


def lines_of(ledger: Ledger, changes: tuple[WhatIf, ...]) -> list[str]:
    return [one.line for one in unmatched(ledger, Trace("", "c"), changes)]


@pytest.mark.parametrize(
    ("given", "idle"),
    [
        ({"remove": ["n3"]}, True),
        ({"set_": ["queue/q.weight=2"]}, True),
        ({"scale": ["nvidia.com/gpu=2"]}, True),
        ({"scale": ["cpu=0.5,nvidia.com/gpu=2"]}, False),
        ({"set_": ["pg/default/g.queue=small"]}, False),
        ({"add": ["2:cpu=1"]}, False),
    ],
)
def test_a_change_that_finds_nothing_at_all_is_idle(ledger: Ledger, given: dict[str, list[str]], idle: bool) -> None:
    found = unmatched(ledger, Trace("", "c"), read_changes(**given))  # type: ignore[arg-type]
    assert [one.idle for one in found] == [idle]


def test_what_one_of_several_traces_has_is_not_idle(ledger: Ledger) -> None:
    changes = read_changes(remove=["n2", "n3"])
    whole, part = (unmatched(ledger, Trace("", "c", 0, to), changes) for to in (None, 1))
    assert [len(whole), len(part)] == [1, 2]
    assert [one.change for one in idle_everywhere([part, whole])] == [one.change for one in whole]
    assert idle_everywhere([part, []]) == []


def test_a_node_of_that_name_is_there(tmp_path: Path) -> None:
    from tests.unit.vcledger.build import node, seen

    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as ledger:
        ledger.store.append([seen("ADDED", node("whatif-1", 1), 1)])
        found = lines_of(ledger, read_changes(add=["2:cpu=1,memory=1Gi"]))
    assert found == [
        "--add-nodes 2:cpu=1,memory=1Gi: the trace has a node whatif-1 itself; give others with name=PREFIX"
    ]


def test_a_job_without_podgroup(tmp_path: Path) -> None:
    from tests.unit.vcledger.build import seen

    job = {"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1", "spec": {"queue": "gone"}}
    meta = {"name": "train", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as ledger:
        ledger.store.append([seen("ADDED", {**job, "kind": "VolcanoJob", "metadata": meta}, 1)])
        found = lines_of(ledger, read_changes(set_=["job/default/train.minMember=2"]))
    assert found == [
        "--set job/default/train.minMember=2 changes nothing: the trace has no PodGroup of job default/train"
    ]


def test_only_what_the_replayed_part_has_counts(ledger: Ledger) -> None:
    assert [one.line for one in unmatched(ledger, Trace("", "c", 0, 1), read_changes(remove=["n2"]))] == [
        "--remove-node n2 changes nothing: the trace has no node n2; it has n1"
    ]
