"""The openb traces: rows to lives of pods, in order of time, and what is wrong with a row.

Owns the proof of the mapping and of the refusals. Must not test the replay of such a trace.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from eventstore.types import INFERRED
from tests.data import shared
from tests.unit.sources.given import events, imported, ledger, written
from vcledger.at import format_time
from vcledger.errors import VcledgerError
from vcledger.sources import ImportOptions, NothingToImport
from vcledger.sources.alibaba import columns_of
from vcledger.sources.alibaba_objects import EPOCH
from vcledger.sources.detect import Format, detect

NODE_HEADER = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
NODES = NODE_HEADER + "node-a,32000,262144,0,\nnode-b,96000,393216,8,V100M32\n"
PODS = POD_HEADER + (
    "whole,12000,16384,2,1000,V100M16|V100M32,LS,Running,10,70,12\n"
    "share,4000,8192,1,460,,BE,Succeeded,20,90,20\n"
    "never,4000,8192,0,0,,BE,Pending,30,60,\n"
    "stays,1000,1024,0,0,,,Running,40,,45\n"
)


def table(tmp_path: Path, text: str, name: str = "pods.csv") -> Path:
    return written(tmp_path, name, text.encode())


def story(tmp_path: Path, kind: str = "Pod") -> list[tuple[str, str, int]]:
    """Type, name and second of a kind's events."""
    found = events(tmp_path, kinds=kind)
    return [(one.type.removeprefix("Object"), one.stream.name, (one.observed_at - EPOCH) // 1_000_000) for one in found]


def objects(tmp_path: Path, kind: str, name: str) -> list[dict[str, Any]]:
    return [json.loads(one.payload) for one in events(tmp_path, kinds=kind, name=name)]


def test_a_row_is_a_life_and_rows_mix_in_order_of_time(tmp_path: Path) -> None:
    report = imported(tmp_path, table(tmp_path, PODS), table(tmp_path, NODES, "nodes.csv"))
    assert (report.read, report.broken_count, report.late) == (6, 0, 0)
    assert story(tmp_path) == [
        ("Added", "whole", 10),
        ("Modified", "whole", 12),
        ("Added", "share", 20),
        ("Modified", "share", 20),
        ("Added", "never", 30),
        ("Added", "stays", 40),
        ("Modified", "stays", 45),
        ("Deleted", "never", 60),
        ("Deleted", "whole", 70),
        ("Modified", "share", 90),
        ("Deleted", "share", 90),
    ]
    assert story(tmp_path, "Node") == [("Added", "node-a", -1), ("Added", "node-b", -1)]
    assert story(tmp_path, "Queue") == [("Added", name, -1) for name in ("default", "be", "ls")]
    assert {one.known for one in events(tmp_path)} == {INFERRED}


def test_a_scheduled_pod_runs_without_a_node(tmp_path: Path) -> None:
    imported(tmp_path, table(tmp_path, PODS))
    new, running = objects(tmp_path, "Pod", "whole")[:2]
    assert new["status"] == {"phase": "Pending"}
    assert running["status"]["phase"] == "Running"
    assert running["status"]["startTime"] == format_time(EPOCH + 12_000_000)
    assert running["status"]["conditions"][0] | {"lastTransitionTime": ""} == {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "",
    }
    assert "nodeName" not in running["spec"]
    assert [one["status"]["phase"] for one in objects(tmp_path, "Pod", "share")] == [
        "Pending",
        "Running",
        "Succeeded",
        "Succeeded",
    ]
    groups = objects(tmp_path, "PodGroup", "whole")
    assert [one["status"]["phase"] for one in groups] == ["Pending", "Running", "Running"]
    assert groups[0]["spec"] | {"minResources": {}} == {"minMember": 1, "queue": "ls", "minResources": {}}
    assert objects(tmp_path, "PodGroup", "stays")[0]["spec"]["queue"] == "default"


def test_whole_gpus_and_shares_draw_on_the_same(tmp_path: Path) -> None:
    imported(tmp_path, table(tmp_path, PODS), table(tmp_path, NODES, "nodes.csv"))
    node = objects(tmp_path, "Node", "node-b")[0]
    assert node["status"]["allocatable"] == {
        "cpu": "96000m",
        "memory": "393216Mi",
        "pods": "110",
        "nvidia.com/gpu": "8",
        "volcano.sh/gpu-memory": "8000",
    }
    assert node["metadata"]["labels"]["alibabacloud.com/gpu-card-model"] == "V100M32"
    whole, share = (objects(tmp_path, "Pod", name)[0]["spec"] for name in ("whole", "share"))
    asked = [spec["containers"][0]["resources"]["requests"] for spec in (whole, share)]
    assert asked[0] == {"cpu": "12000m", "memory": "16384Mi", "volcano.sh/gpu-memory": "2000", "nvidia.com/gpu": "2"}
    assert asked[1] == {"cpu": "4000m", "memory": "8192Mi", "volcano.sh/gpu-memory": "460"}
    terms = whole["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [
        {
            "matchExpressions": [
                {"key": "alibabacloud.com/gpu-card-model", "operator": "In", "values": ["V100M16", "V100M32"]}
            ]
        }
    ]
    assert "affinity" not in share


def test_the_caches_hold_it(tmp_path: Path) -> None:
    imported(tmp_path, table(tmp_path, PODS), table(tmp_path, NODES, "nodes.csv"))
    with ledger(tmp_path) as opened:
        for model in ("exact", "volcano-1.11"):
            cache = opened.cache(opened.position(format_time(EPOCH + 50_000_000)), model=model)
            assert sorted(cache.nodes) == ["node-a", "node-b"]
            ready = {job.name: job.ready_task_num for job in cache.jobs.values()}
            assert ready == {"whole": 1, "share": 1, "never": 0, "stays": 1}


BROKEN = {
    "scheduled before it was created": ("x,1,1,0,0,,LS,Running,10,30,9", "scheduled_time 9 is before creation_time 10"),
    "a negative duration": ("x,1,1,0,0,,LS,Running,10,30,40", "deletion_time 30 is before scheduled_time 40: a neg"),
    "deleted before it was created": ("x,1,1,0,0,,LS,Pending,10,3,", "deletion_time 3 is before creation_time 10"),
    "a negative time": ("x,1,1,0,0,,LS,Pending,-10,3,", "creation_time -10 is before the beginning"),
    "no time of creation": ("x,1,1,0,0,,LS,Pending,,3,", "no creation_time"),
    "a time that is none": ("x,1,1,0,0,,LS,Pending,soon,3,", "creation_time soon is no number"),
    "an endless time": ("x,1,1,0,0,,LS,Pending,99999999999,,", "more than a hundred years"),
    "running, but never scheduled": ("x,1,1,0,0,,LS,Running,10,30,", "pod_phase Running, but no scheduled_time"),
    "an unknown phase": ("x,1,1,0,0,,LS,Gone,10,30,", "pod_phase Gone is none of"),
    "a name that is there already": ("good,1,1,0,0,,LS,Pending,10,30,", "good stands in an earlier row"),
    "no name": (",1,1,0,0,,LS,Pending,10,30,", "no name"),
    "a name that is none": ("A b,1,1,0,0,,LS,Pending,10,30,", "name A b is no name"),
    "no cpu": ("x,,1,0,0,,LS,Pending,10,30,", "no cpu_milli"),
    "more memory than there can be": ("x,1,9999999999,0,0,,LS,Pending,10,30,", "memory_mib 9999999999 is more than"),
    "negative cpu": ("x,-5,1,0,0,,LS,Pending,10,30,", "cpu_milli -5 is negative"),
    "negative memory": ("x,1,-2.0,0,0,,LS,Pending,10,30,", "memory_mib -2.0 is negative"),
    "negative GPUs": ("x,1,1,-1,0,,LS,Pending,10,30,", "num_gpu -1 is negative"),
    "half a mebibyte": ("x,1,0.5,0,0,,LS,Pending,10,30,", "memory_mib 0.5 is no whole number"),
    "more than a whole GPU of each": ("x,1,1,1,1500,,LS,Pending,10,30,", "num_gpu 1 with gpu_milli 1500"),
    "a GPU of which nothing is asked": ("x,1,1,1,0,,LS,Pending,10,30,", "num_gpu 1 with gpu_milli 0"),
    "a model that no label can hold": ("x,1,1,1,10,a b,LS,Pending,10,30,", "gpu_spec a b"),
    "a qos that no queue can be called": ("x,1,1,1,10,,L S,Pending,10,30,", "qos L S cannot name a queue"),
    "too few columns": ("x,1,1", "3 columns, where the header has 11"),
    "an open quote": ('"x,1,1,0,0,,LS,Pending,10,30,', "unexpected end of data"),
}


def test_broken_rows_are_named_and_their_neighbours_are_stored(tmp_path: Path) -> None:
    good = [
        f"{name},1,1,0,0,,LS,Pending,10,30," for name in ("good", *(f"also-{number}" for number in range(len(BROKEN))))
    ]
    rows = [good[0], *(row for pair in zip((row for row, _ in BROKEN.values()), good[1:], strict=True) for row in pair)]
    aside = tmp_path / "aside.jsonl"
    options = ImportOptions(snapshots=False, broken_file=aside)
    report = imported(tmp_path, table(tmp_path, POD_HEADER + "\n".join(rows)), options=options)
    assert {name for what, name, _ in story(tmp_path) if what == "Added"} == {row.partition(",")[0] for row in good}
    assert (report.read, report.broken_count) == (len(rows), len(BROKEN))
    for number, (broken, (row, reason)) in enumerate(zip(report.broken, BROKEN.values(), strict=True)):
        assert broken.line == 3 + 2 * number
        assert reason in broken.reason, row
    assert [json.loads(line)["text"] for line in aside.read_bytes().splitlines()] == [row for row, _ in BROKEN.values()]


def test_a_broken_node_is_named_and_its_neighbours_are_stored(tmp_path: Path) -> None:
    rows = "a,1,1,0,\nb,one,1,0,\na,1,1,0,\nc,1,1,1,G 1\n\xff,1,1,1,\nd,1,1,0,nan\n"
    report = imported(tmp_path, written(tmp_path, "n.csv", NODE_HEADER.encode(), rows.encode("latin-1")))
    assert [name for _, name, _ in story(tmp_path, "Node")] == ["a", "d"]
    assert [one.line for one in report.broken] == [3, 4, 5, 6]


@pytest.mark.slow
def test_rows_that_go_back_in_time_are_put_in_order_and_told(tmp_path: Path) -> None:
    rows = PODS.splitlines(keepends=True)
    shuffled = rows[0] + "".join([rows[3], rows[1], rows[4], rows[2]])
    report = imported(tmp_path, table(tmp_path, shuffled))
    assert any("2 rows go back in time" in note for note in report.notes)
    assert imported(tmp_path, table(tmp_path, PODS), db="other.db").notes != report.notes
    assert story(tmp_path) == [
        (one.type.removeprefix("Object"), one.stream.name, (one.observed_at - EPOCH) // 1_000_000)
        for one in events(tmp_path, "other.db", kinds="Pod")
    ]


@pytest.mark.slow
def test_importing_again_or_longer_adds_what_is_new(tmp_path: Path) -> None:
    first = imported(tmp_path, table(tmp_path, PODS), table(tmp_path, NODES, "nodes.csv"))
    again = imported(tmp_path, table(tmp_path, PODS), table(tmp_path, NODES, "nodes.csv"))
    assert (again.stored, again.already) == (0, first.stored)
    packed = written(tmp_path, "pods.gz", gzip.compress(PODS.replace("\n", "\r\n").encode("utf-8-sig")))
    assert imported(tmp_path, packed).stored == 0
    longer = imported(tmp_path, table(tmp_path, PODS + "new,1,1,0,0,,LS,Pending,95,99,\n"))
    assert (longer.stored, longer.late) == (4, 0)


def test_columns_in_another_order_more_of_them_and_numbers_as_pandas_writes_them(tmp_path: Path) -> None:
    text = (
        ",deletion_time,scheduled_time,creation_time,name,cpu_milli,memory_mib,num_gpu,gpu_milli,pod_phase,ip\n"
        '0,30.0,12.5,10.0,"one",1000,1024,1,nan,Running,x\n'
    )
    assert imported(tmp_path, table(tmp_path, text)).broken_count == 0
    assert [one.observed_at - EPOCH for one in events(tmp_path, kinds="Pod")] == [10_000_000, 12_500_000, 30_000_000]
    asked = objects(tmp_path, "Pod", "one")[0]["spec"]["containers"][0]["resources"]["requests"]
    assert asked["nvidia.com/gpu"] == "1"


def test_a_sampled_list_has_no_times(tmp_path: Path) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1000,1024,1,460\na,1000,1024,0,0\n"
    report = imported(tmp_path, table(tmp_path, text))
    assert story(tmp_path) == [("Added", "b", 0), ("Added", "a", 0)]
    assert any("has no times" in note for note in report.notes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name,cpu_milli,memory_mib,num_gpu\nx,1,1,0\n", "an openb pod list without the column gpu_milli"),
        ("name,cpu_milli,memory_mib\nx,1,1\n", "an openb pod list without the columns gpu_milli, num_gpu"),
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,deletion_time\n",
            "an openb pod list without the columns creation_time, scheduled_time",
        ),
        (POD_HEADER.replace("name,", ""), "an openb pod list without the column name"),
        (NODE_HEADER.replace(",gpu,", ","), "an openb node list without the column gpu"),
        ("sn,cpu_milli,memory_mib\n", "an openb node list without the columns gpu, model"),
    ],
)
def test_a_list_without_its_columns_is_refused_by_their_names(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(NothingToImport, match=f"list.csv: {reason}$"):
        imported(tmp_path, table(tmp_path, text, "list.csv"))


def test_beside_a_list_without_its_columns_the_others_are_read(tmp_path: Path) -> None:
    lacking = table(tmp_path, "name,cpu_milli,memory_mib\nx,1,1\n")
    report = imported(tmp_path, table(tmp_path, NODES, "nodes.csv"), lacking)
    assert [str(one) for one in report.broken] == [
        f"{lacking}: an openb pod list without the columns gpu_milli, num_gpu"
    ]
    assert [name for _, name, _ in story(tmp_path, "Node")] == ["node-a", "node-b"]
    assert report.notes == ["the openb pod list has no row that can be used: nothing arrives"]


@pytest.mark.slow
def test_a_list_alone_says_what_is_missing(tmp_path: Path) -> None:
    pods = imported(tmp_path, table(tmp_path, PODS), db="pods.db")
    nodes = imported(tmp_path, table(tmp_path, NODES, "nodes.csv"), db="nodes.db")
    both = imported(tmp_path, table(tmp_path, PODS), table(tmp_path, NODES, "nodes.csv"), db="both.db")
    assert any("without its node list" in note for note in pods.notes)
    assert any("without a pod list" in note for note in nodes.notes)
    assert both.notes == []
    assert any("which node a pod went to" in sentence for sentence in pods.cannot_prove)


def test_the_beginning_can_be_named(tmp_path: Path) -> None:
    begins = EPOCH + 86_400_000_000
    imported(tmp_path, table(tmp_path, PODS), options=ImportOptions(snapshots=False, epoch=begins))
    assert events(tmp_path, kinds="Pod")[0].observed_at == begins + 10_000_000
    with pytest.raises(VcledgerError, match="--epoch lies in the future"):
        imported(tmp_path, table(tmp_path, PODS), options=ImportOptions(epoch=2**61))


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (NODES, Format.openb_nodes),
        (PODS, Format.openb_pods),
        ("\ufeff" + NODES, Format.openb_nodes),
        ("a,b,c\n1,2,3\n", Format.unknown),
        ("name,cpu_milli,seconds\n", Format.unknown),
        ("name,gpu_milli,num_gpu\n", Format.unknown),
        ("name;cpu_milli;memory_mib\n", Format.unknown),
    ],
)
def test_told_by_its_columns(text: str, format_: Format) -> None:
    assert detect(text.encode()) is format_


def test_what_is_no_header_has_no_columns() -> None:
    for head in (b"", b"\xff,\xfe", b'"a,b', b"a,b" * 5_000, b"\0,\0\n"):
        assert not columns_of(head) >= {"a"}


def test_a_list_without_a_good_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToImport, match=r"pods\.csv:2: no creation_time"):
        imported(tmp_path, table(tmp_path, POD_HEADER + "x,1,1,0,0,,LS,Pending,,3,\n"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_whatever_is_done_to_a_file_no_good_row_is_lost(tmp_path: Path, seed: int) -> None:
    """Bytes are changed in half of the rows; the others come in, and every row is accounted for."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    good, lines = set(), []
    for number in range(60):
        row = bytearray(f"pod-{number},1000,1024,1,500,G2|T4,LS,Running,{number},{number + 9},{number + 1}".encode())
        if number % 2:
            for _ in range(chance.randint(1, 4)):
                row[chance.randrange(len(row))] = chance.choice(b'\0"|,-.nx\xff\x80 \t9')
        else:
            good.add(f"pod-{number}")
        lines.append(bytes(row))
    path = written(tmp_path, "pods.csv", POD_HEADER.encode(), b"\n".join(lines))
    report = imported(tmp_path, path)
    added = {name for what, name, _ in story(tmp_path) if what == "Added"}
    assert good <= added
    assert report.read == 60
    assert len(added) + report.broken_count == 60


@pytest.mark.slow
def test_the_published_trace(tmp_path: Path) -> None:
    folder = shared("alibaba")
    report = imported(tmp_path, folder)
    assert (report.read, report.stored, report.broken_count) == (1523 + 8152, 50_708, 0)
    assert report.notes == []
    assert imported(tmp_path, folder).stored == 0
    pods = events(tmp_path, kinds="Pod")
    assert sum(one.type == "ObjectAdded" for one in pods) == sum(one.type == "ObjectDeleted" for one in pods) == 8152
    with ledger(tmp_path) as opened:
        assert len(opened.cache().nodes) == 1523
        assert not opened.cache().pods
