"""The proof finds what a scheduler did and wrote, judges it in the right state, and notices what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eventstore.types import NewEvent
from tests.unit.vcledger import build
from vcledger import codec
from vcledger.ledger import DEFAULT_CONFIG, Ledger
from vcledger.proof import Proof, main, proof, word_table
from vcledger.proof_binds import AT_ONCE, IN_ITS_CYCLE, REFUSED, UNSEEN
from vcledger.proof_choices import NOT_SEEN, WAITS
from vcledger.proof_dice import BEST, LOWER
from vcledger.proof_dice import REFUSED as FULL
from vcledger.proof_log import cycles
from vcledger.proof_moments import search
from vcledger.proof_pending import Waiting, waiting_pods, waiting_table
from vcledger.proof_words import ANSWER, COUNTS, IN_FLIGHT, NODE, OTHER, REASON, THROWN, WORD_FOR_WORD, kind_of
from vcledger.scheduler.session.conf import read_conf
from volcano.events.base import Subject
from volcano.events.binding import BindFailed

HOST = "kubernetes.io/hostname"


@contextmanager
def ledger_of(path: Path, *events: NewEvent) -> Iterator[Ledger]:
    path.mkdir(exist_ok=True)
    with Ledger.open(str(path / "ledger.db"), create=True) as ledger:
        ledger.store.append(list(events))
        yield ledger


def queue() -> dict[str, Any]:
    return {
        "kind": "Queue",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {"name": "default", "uid": "q-u", "resourceVersion": "1"},
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }


def node(name: str, version: int = 1, cpu: str = "8", **spec: Any) -> dict[str, Any]:
    thing = build.node(name, version, cpu=cpu)
    thing["metadata"]["labels"] = {HOST: name}
    thing["spec"] = spec
    return thing


def pod(name: str, version: int, said: str = "", reason: str = "Unschedulable", **more: Any) -> dict[str, Any]:
    spec = more.pop("spec", {})
    thing = build.pod(name, version, **more)
    thing["metadata"]["labels"] = {"app": name}
    thing["spec"].update(spec)
    if said:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": said}
        thing["status"]["conditions"] = [condition]
    return thing


def added(*things: dict[str, Any]) -> list[NewEvent]:
    """The objects, seen at second 0."""
    return [build.seen("ADDED", thing, 0) for thing in things]


def changed(second: float, thing: dict[str, Any]) -> NewEvent:
    return build.seen("MODIFIED", thing, second)


def follows(name: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": HOST}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def hows(found: Proof) -> list[str]:
    return [one.how for one in found.binds]


def words(found: Proof) -> list[str]:
    return [one.how for one in found.sentences]


BASE = [node("n1"), queue(), build.pod_group("g", 2, min_member=1)]
TWO = [*BASE, node("n2")]
"""With two nodes of 8 cpu a pod may ask 12 and be within its queue's share, and yet fit on no node."""


def test_a_bind_that_fits_is_let_through_and_one_that_does_not_is_refused(tmp_path: Path) -> None:
    events = [
        *added(*BASE, pod("a", 3, cpu="6"), pod("b", 4, cpu="6")),
        changed(1, pod("a", 5, cpu="6", node_name="n1")),
        changed(1.1, pod("b", 6, cpu="6", node_name="n1")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        found = proof(ledger)
    assert hows(found) == [AT_ONCE, REFUSED]
    [refused] = found.refused
    assert refused.placement.key == "default/b"
    assert refused.reasons == ("Insufficient cpu: asks 6, idle 2 (of 8)",)


CLAIMING = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]


@pytest.mark.parametrize(
    ("rests_on", "asks", "how"),
    [("a node", "1", UNSEEN), ("a claim", "1", UNSEEN), ("nothing", "9", REFUSED), ("a claim", "9", REFUSED)],
)
def test_what_the_record_never_has_is_nothing_to_judge_by(tmp_path: Path, rests_on: str, asks: str, how: str) -> None:
    """A record without nodes, or without claims, refuses no bind for that; what it has is judged as ever, beside it
    too."""
    named = "n7" if rests_on == "a node" else "n1"
    spec = {"volumes": CLAIMING if rests_on == "a claim" else []}
    events = [
        *added(*BASE, pod("a", 3, cpu=asks, spec=spec)),
        changed(1, pod("a", 4, cpu=asks, node_name=named, spec=spec)),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        found = proof(ledger, conf=read_conf(CONF))
    assert hows(found) == [how]
    assert [one.how for one in found.choices] == [WAITS if how == REFUSED else NOT_SEEN]
    assert how == UNSEEN or any("Insufficient cpu" in reason for reason in found.refused[0].reasons)


@pytest.mark.parametrize(("cordoned_at", "how"), [(1.9, UNSEEN), (0.5, REFUSED)])
def test_beside_a_claim_that_is_nowhere_a_state_of_the_cycle_must_let_the_bind_through(
    tmp_path: Path, cordoned_at: float, how: str
) -> None:
    events = [
        *added(*BASE, pod("a", 3, spec={"volumes": CLAIMING})),
        changed(cordoned_at, node("n1", 4, unschedulable=True)),
        changed(2, pod("a", 5, node_name="n1", spec={"volumes": CLAIMING})),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert hows(proof(ledger)) == [how]


@pytest.mark.parametrize("claiming", [False, True])
def test_a_claim_that_is_nowhere_hides_no_room_that_is_only_being_released(tmp_path: Path, claiming: bool) -> None:
    ending = pod("a", 5, cpu="6", node_name="n1", phase="Running")
    ending["metadata"]["deletionTimestamp"] = "2026-03-01T03:00:30Z"
    spec = {"volumes": CLAIMING if claiming else []}
    events = [
        *added(*BASE, pod("a", 3, cpu="6", node_name="n1", phase="Running"), pod("b", 4, cpu="6", spec=spec)),
        changed(1, ending),
        changed(2, pod("b", 6, cpu="6", node_name="n1", spec=spec)),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        found = proof(ledger)
    assert hows(found) == [UNSEEN, REFUSED]
    assert found.refused[0].reasons[-1] == "Insufficient cpu now, though not once pods are gone"


def test_a_node_that_is_gone_is_refused(tmp_path: Path) -> None:
    gone = build.seen("DELETED", node("n1", 4), 0.2)
    events = [*added(*TWO, pod("a", 3, cpu="1")), gone, changed(5, pod("a", 5, cpu="1", node_name="n1"))]
    with ledger_of(tmp_path, *events) as ledger:
        assert hows(proof(ledger)) == [REFUSED]


def test_binds_of_one_cycle_are_observed_in_any_order(tmp_path: Path) -> None:
    """The pod that follows another is observed first; its own charge does not stand in its way later."""
    first, second = pod("lead", 3, cpu="4"), pod("after", 4, cpu="4", spec=follows("lead"))
    events = [
        *added(*BASE, first, second),
        changed(1, pod("after", 5, cpu="4", node_name="n1", spec=follows("lead"))),
        changed(1.2, pod("lead", 6, cpu="4", node_name="n1")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert hows(proof(ledger)) == [IN_ITS_CYCLE, AT_ONCE]


def test_what_comes_in_another_cycle_does_not_excuse_a_bind(tmp_path: Path) -> None:
    events = [
        *added(*BASE, pod("lead", 3), pod("after", 4, spec=follows("lead"))),
        changed(1, pod("after", 5, node_name="n1", spec=follows("lead"))),
        changed(3, pod("lead", 6, node_name="n1")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert hows(proof(ledger)) == [REFUSED, AT_ONCE]


def test_a_node_may_be_observed_just_after_the_bind_to_it(tmp_path: Path) -> None:
    """Nodes and pods come by different watches."""
    events = [
        *added(*BASE, pod("a", 3, spec={"nodeSelector": {HOST: "n2"}})),
        changed(1, pod("a", 4, node_name="n2", spec={"nodeSelector": {HOST: "n2"}})),
        build.seen("ADDED", node("n2", 5), 1.1),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert hows(proof(ledger)) == [IN_ITS_CYCLE]


@pytest.mark.parametrize(("cordoned_at", "how"), [(1.9, IN_ITS_CYCLE), (0.5, REFUSED)])
def test_a_change_just_before_a_bind_may_not_have_been_known(tmp_path: Path, cordoned_at: float, how: str) -> None:
    events = [
        *added(*BASE, pod("a", 3)),
        changed(cordoned_at, node("n1", 4, unschedulable=True)),
        changed(2, pod("a", 5, node_name="n1")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert hows(proof(ledger)) == [how]


def test_cycles_are_parted_where_nothing_is_written_for_half_a_period(tmp_path: Path) -> None:
    events = added(*BASE, *(pod(f"p{at}", at + 3) for at in range(4)))
    times = (1.0, 1.4, 1.8, 2.4)
    events += [changed(when, pod(f"p{at}", at + 9, node_name="n1")) for at, when in enumerate(times)]
    with ledger_of(tmp_path, *events) as ledger:
        parts = cycles(ledger, "c", DEFAULT_CONFIG)
        assert [[one.name for one in part.placements] for part in parts] == [["p0", "p1", "p2"], ["p3"]]
        assert [(part.start, part.end) for part in parts] == [(7, 10), (10, 11)]
        assert len(cycles(ledger, "c", DEFAULT_CONFIG, 100_000)) == 4


def test_another_schedulers_pods_do_not_count(tmp_path: Path) -> None:
    other = {"schedulerName": "default-scheduler"}
    with ledger_of(
        tmp_path, *added(*BASE, pod("a", 3, spec=other)), changed(1, pod("a", 4, node_name="n1", spec=other))
    ) as ledger:
        assert hows(proof(ledger)) == []


NO_ROOM = "0/2 nodes are unavailable: 2 Insufficient cpu."


@pytest.mark.parametrize(
    ("said", "how"),
    [
        (NO_ROOM, WORD_FOR_WORD),
        ("0/3 nodes are unavailable: 3 Insufficient cpu.", COUNTS),
        ("0/2 nodes are unavailable: 1 Insufficient cpu, 1 Insufficient memory.", REASON),
        ("0/2 nodes are unavailable: 2 node(s) were unschedulable.", OTHER),
        ("all is well", OTHER),
    ],
)
def test_sentences_are_compared(tmp_path: Path, said: str, how: str) -> None:
    """The pod lacks cpu and memory: Volcano names the first, and ours does."""
    large = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "12", "memory": "20Gi"}}}]}
    events = [*added(*TWO, pod("w", 3, spec=large)), changed(1, pod("w", 4, said, spec=large))]
    with ledger_of(tmp_path, *events) as ledger:
        assert words(proof(ledger)) == [how]


def test_a_sentence_counts_once_and_again_when_it_changes(tmp_path: Path) -> None:
    events = [
        *added(*TWO, pod("w", 3, cpu="12")),
        changed(1, pod("w", 4, NO_ROOM, cpu="12")),
        changed(2, pod("w", 5, NO_ROOM, cpu="12")),
        build.seen("ADDED", node("n3", 6), 3),
        changed(3.2, pod("w", 7, "0/3 nodes are unavailable: 3 Insufficient cpu.", cpu="12")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        found = proof(ledger)
    assert words(found) == [WORD_FOR_WORD, WORD_FOR_WORD]
    assert (found.made, found.equal) == (2, 2)


def test_a_sentence_that_an_object_comes_with_was_written_before_the_record(tmp_path: Path) -> None:
    with ledger_of(tmp_path, *added(*TWO, pod("w", 3, NO_ROOM, cpu="12"))) as ledger:
        assert words(proof(ledger)) == []


def test_what_the_scheduler_wrote_is_not_looked_at(tmp_path: Path) -> None:
    """The state before the write may hold the very words, from a cycle before: they do not come out again."""
    lie = "0/2 nodes are unavailable: 2 node(s) were unschedulable."
    events = [
        *added(*TWO, pod("w", 3, cpu="12")),
        changed(1, pod("w", 4, lie, cpu="12")),
        changed(3, pod("w", 5, NO_ROOM, cpu="12")),
        changed(5, pod("w", 6, lie, cpu="12")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert words(proof(ledger)) == [OTHER, WORD_FOR_WORD, OTHER]


def gang(named: str) -> list[NewEvent]:
    """Two pods of a gang of three that would fit, and what is said of the first."""
    said = f"Pod default/a can possibly be assigned to {named}, once minAvailable is satisfied"
    things = [node("n1"), node("n2"), node("n3", 1, "1"), queue(), build.pod_group("g", 2, min_member=3)]
    pods = [pod("a", 3, cpu="6"), pod("b", 4, cpu="6"), pod("c", 5, cpu="9")]
    return [*added(*things, *pods), changed(1, pod("a", 6, said, "Schedulable", cpu="6"))]


@pytest.mark.parametrize(("named", "how"), [("n1", WORD_FOR_WORD), ("n2", NODE), ("n3", OTHER), ("n9", OTHER)])
def test_a_node_that_is_named_must_be_one_that_fits(tmp_path: Path, named: str, how: str) -> None:
    with ledger_of(tmp_path, *gang(named)) as ledger:
        found = proof(ledger)
    assert words(found) == [how]
    assert found.nodeless == []


def test_what_a_failed_bind_held_is_put_in_where_its_node_is_named(tmp_path: Path) -> None:
    """f was on its way to n2 when w was tried: n2 has room for 4 cpu in the record, and had none for the scheduler."""
    said = "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
    failed = "failed to bind to node n2: Internal error occurred: injected"
    group = build.pod_group("h", 3)
    asks = {"nodeSelector": {HOST: "n2"}}
    waits = [pod("w", 4, cpu="4", spec=asks), pod("f", 5, cpu="6")]
    waits[1]["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "h"
    answered = pod("f", 7, failed, "SchedulerError", cpu="6")
    events = [*added(*TWO, group, *waits), changed(1, pod("w", 6, said, cpu="4", spec=asks)), changed(9, answered)]
    with ledger_of(tmp_path, *events) as ledger:
        assert words(proof(ledger)) == [IN_FLIGHT, ANSWER]
    with ledger_of(tmp_path / "without", *events[:-1]) as ledger:
        assert words(proof(ledger)) == [OTHER]


def test_an_answer_that_the_record_lacks_is_counted_apart(tmp_path: Path) -> None:
    said = "failed to bind to node n1: Internal error occurred: injected"
    events = [*added(*BASE, pod("a", 3)), changed(1, pod("a", 4, said, "SchedulerError"))]
    with ledger_of(tmp_path, *events) as ledger:
        found = proof(ledger)
    assert words(found) == [ANSWER]
    assert (found.made, found.equal) == (0, 0)
    assert word_table({"x": found})[-1].endswith("| 1 |  | 0.0 |  |")


@pytest.mark.parametrize(
    ("code", "message", "how"), [(409, "no", WORD_FOR_WORD), (500, "another", OTHER), (0, "no", ANSWER)]
)
def test_an_answer_that_an_audit_line_has_makes_the_sentence(tmp_path: Path, code: int, message: str, how: str) -> None:
    said = pod("a", 4, "failed to bind to node n1: no", "SchedulerError")
    answer = BindFailed(node="n1", code=code, message=message, answer_lost=code == 0)
    subject = Subject("Pod", "default", "a", "a-u")
    events = [*added(*BASE, pod("a", 3)), codec.domain("c", subject, answer, build.START + 900_000), changed(1, said)]
    with ledger_of(tmp_path, *events) as ledger:
        assert words(proof(ledger)) == [how]


def test_a_groups_sentence_says_how_many_it_lacks(tmp_path: Path) -> None:
    said = (
        "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. "
        f"Origin reason is w: {NO_ROOM}"
    )
    group = build.pod_group("g", 5, min_member=2)
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": said}
    group["status"]["conditions"] = [condition]
    pods = [pod("w", 3, cpu="12"), pod("x", 4, cpu="12")]
    nodes = [node(f"n{at}") for at in (1, 2)]
    events = [*added(*nodes, queue(), build.pod_group("g", 2, min_member=2), *pods), changed(1, group)]
    with ledger_of(tmp_path, *events) as ledger:
        assert words(proof(ledger)) == [WORD_FOR_WORD]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (NO_ROOM, "no node"),
        ("pod group is ready, 1 Running", "pod of a group that waits"),
        (f"1/1 tasks in gang unschedulable: {NO_ROOM}", "group that waits"),
        ("Task a with role spec w has already predicated failed, skip", "role has failed"),
        ("Pod a/b can possibly be assigned to n, once minAvailable is satisfied", "may be assigned"),
        ("execute preBind for pod a/b failed: x", "failed bind"),
        ("something else", "other"),
    ],
)
def test_kinds_of_sentences(message: str, kind: str) -> None:
    assert kind_of(message) == kind


CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def test_with_a_configuration_a_whole_session_speaks(tmp_path: Path) -> None:
    """Job g takes the only room, so the pod of h finds none: a trial of h alone would place it."""
    pods = [pod("a", 3, cpu="6"), pod("b", 4, cpu="6"), pod("w", 5, cpu="4")]
    pods[2]["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "h"
    first, later = build.pod_group("g", 1, min_member=2), build.pod_group("h", 2)
    first["metadata"]["creationTimestamp"] = "2026-03-01T02:00:00Z"
    later["metadata"]["creationTimestamp"] = "2026-03-01T02:30:00Z"
    said = pod("w", 6, NO_ROOM, cpu="4")
    said["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "h"
    with ledger_of(tmp_path, *added(node("n1"), node("n2"), queue(), first, later, *pods), changed(1, said)) as ledger:
        assert words(proof(ledger)) == [OTHER]
        assert words(proof(ledger, conf=read_conf(CONF))) == [WORD_FOR_WORD]


@pytest.mark.parametrize(("named", "how"), [("n1", THROWN), ("n2", THROWN), ("n3", OTHER)])
def test_a_session_throws_the_recorded_dice(tmp_path: Path, named: str, how: str) -> None:
    """n1 and n2 are alike, so the record may name either; n3 has no room."""
    with ledger_of(tmp_path, *gang(named)) as ledger:
        assert words(proof(ledger, conf=read_conf(CONF))) == [how]


def test_dice_are_thrown_between_equals_only(tmp_path: Path) -> None:
    """With something on it n2 is the worse one of the two, so nobody could have named it."""
    there = pod("there", 2, cpu="1", node_name="n2")
    there["metadata"]["annotations"] = {}
    with ledger_of(tmp_path, *added(there), *gang("n2")) as ledger:
        assert words(proof(ledger, conf=read_conf(CONF))) == [NODE]


@pytest.mark.parametrize(
    ("on", "second", "hows"),
    [("n1", "n2", [BEST, BEST]), ("n1", "n1", [BEST, LOWER]), ("n3", "n3", [FULL, FULL])],
)
def test_nodes_of_binds_are_judged_by_the_sessions_scores(
    tmp_path: Path, on: str, second: str, hows: list[str]
) -> None:
    """n1 and n2 are alike, until the first pod is on one of them: then the other is better. n3 is full."""
    things = [node("n1"), node("n2"), node("n3", 1, "1"), queue(), build.pod_group("g", 2, min_member=2)]
    events = [
        *added(*things, pod("a", 3, cpu="2"), pod("b", 4, cpu="2")),
        changed(1, pod("a", 5, cpu="2", node_name=on)),
        changed(1.1, pod("b", 6, cpu="2", node_name=second)),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        found = proof(ledger, conf=read_conf(CONF))
    assert [one.how for one in found.choices] == hows
    assert found.could == hows.count(BEST)


def test_binds_of_a_session_without_a_choice(tmp_path: Path) -> None:
    """x has one node; y is another queue's that there is not; z comes with its node."""
    group = build.pod_group("h", 2)
    group["spec"]["queue"] = "nowhere"
    lost = pod("y", 4, cpu="1")
    lost["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "h"
    bound = pod("y", 7, cpu="1", node_name="n1")
    bound["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "h"
    events = [
        *added(*BASE, group, pod("x", 3, cpu="1"), lost, pod("z", 5, cpu="1", node_name="n1")),
        changed(1, pod("x", 6, cpu="1", node_name="n1")),
        changed(1.1, bound),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        found = proof(ledger, conf=read_conf(CONF))
    assert {one.placement.name: one.how for one in found.choices} == {"x": BEST, "y": WAITS, "z": NOT_SEEN}


def test_a_condition_that_stays_as_it_was_tells_what_a_later_cycle_threw(tmp_path: Path) -> None:
    """a is named n1 at 1, and no more is said of it; at 3 the sentence of b still rests on a being there."""
    events = [*gang("n1"), changed(3, pod("b", 7, NO_ROOM, cpu="6"))]
    with ledger_of(tmp_path, *events) as ledger:
        first, second = cycles(ledger, "c", DEFAULT_CONFIG)
    assert first.thrown == second.thrown == {"a-u": "n1"}


def test_a_cycle_begins_after_its_pods_have_come(tmp_path: Path) -> None:
    """The period says 2.0 at the earliest, but the pod that it wrote about came at 2.3."""
    events = [
        *added(*TWO, pod("w", 3, cpu="12")),
        changed(1, pod("w", 4, NO_ROOM, cpu="12")),
        build.seen("ADDED", node("n3", 5, "2"), 2.2),
        build.seen("ADDED", pod("v", 6, cpu="12"), 2.3),
        build.seen("ADDED", node("n4", 7, "2"), 2.4),
        changed(2.5, pod("v", 8, "0/3 nodes are unavailable: 3 Insufficient cpu.", cpu="12")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert [(part.began, part.start) for part in cycles(ledger, "c", DEFAULT_CONFIG)] == [(5, 5), (8, 9)]
        assert words(proof(ledger)) == [WORD_FOR_WORD, WORD_FOR_WORD]


def test_the_search_for_a_state_narrows_down_and_asks_nothing_twice() -> None:
    asked: list[int] = []

    def near(positions: Sequence[int]) -> list[int]:
        asked.extend(positions)
        return [-abs(one - 137) for one in positions]

    search(range(100, 200), near, lambda: 137 in asked)
    assert len(asked) == len(set(asked)) <= 17
    assert min(abs(one - 137) for one in asked) <= 3
    search([], near, lambda: False)
    search([5], near, lambda: False)
    assert asked[-1] == 5


@pytest.mark.slow
def test_the_tables_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ledger_of(tmp_path, *gang("n2")):
        pass
    path, conf = str(tmp_path / "ledger.db"), tmp_path / "conf.yaml"
    conf.write_text(CONF, encoding="utf-8")
    assert main([path]) == 0
    text, hint = capsys.readouterr()
    assert hint.startswith("made without --conf and --scheduler-args: ")
    assert "| may be assigned | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    assert "## Choices" not in text
    assert "ours: Pod default/a can possibly be assigned to n1, once minAvailable is satisfied" in text
    assert main([path, "--conf", str(conf)]) == 0
    text, hint = capsys.readouterr()
    assert hint == "", "all sentences come out"
    assert "| may be assigned | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "## Choices" in text
    assert "ours:" not in text


@pytest.mark.slow
def test_a_record_of_nothing_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ledger_of(tmp_path, *added(*BASE)):
        pass
    assert main([str(tmp_path / "ledger.db"), "--period", "5s"]) == 0
    assert "nothing to prove" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "ledger.db"), "--period", "0"])


@pytest.mark.slow
def test_what_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ledger_of(tmp_path, *gang("n2")):
        pass
    conf = tmp_path / "conf.yaml"
    conf.write_text("actions: 'dance'", encoding="utf-8")
    assert main([str(tmp_path / "none.db")]) == 2
    assert main([str(tmp_path / "ledger.db"), "--conf", str(conf)]) == 2
    assert main([str(tmp_path / "ledger.db"), "--conf", str(tmp_path / "none.yaml")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.slow
def test_a_refused_bind_is_named_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ledger_of(tmp_path, *added(*BASE, pod("a", 3, cpu="9")), changed(1, pod("a", 4, cpu="9", node_name="n1"))):
        pass
    assert main([str(tmp_path / "ledger.db")]) == 1
    assert "default/a on n1: Insufficient cpu: asks 9, idle 8 (of 8)" in capsys.readouterr().out


@pytest.mark.slow
def test_pods_that_wait_are_compared_by_name_and_by_kind(tmp_path: Path) -> None:
    """In the record x waits, in the other ledger y, which is like it; z waits in both."""

    def life(waits: str, runs: str) -> list[NewEvent]:
        return [
            *added(*BASE, pod(waits, 3, cpu="6"), pod(runs, 4, cpu="6", node_name="n1"), pod("z", 5, cpu="1")),
            build.marked("volcano-cache-dump", 1, file="volcano-cache-dump-1-end.json"),
        ]

    with (
        ledger_of(tmp_path / "record", *life("x", "y")) as record,
        ledger_of(tmp_path / "replay", *life("y", "x")) as replay,
    ):
        rows = waiting_pods(record, replay)
    assert rows == [Waiting("volcano-cache-dump-1-end.json", 3, 2, 2, 1, 2)]
    assert waiting_table({"r": rows})[-1] == "| r | 1-end | 3 | 2 | 2 | 1 | 2 |"


def test_cycles_begin_a_whole_number_of_periods_after_the_last_one_ended(tmp_path: Path) -> None:
    """Writes at 1.0 and at 4.3: cycles without writes began at 2 and 3, so the next took its snapshot at 4."""
    events = [
        *added(*TWO, pod("w", 3, cpu="12"), pod("v", 4, cpu="12")),
        changed(1, pod("w", 5, NO_ROOM, cpu="12")),
        build.seen("ADDED", node("n3", 6, "2"), 3.9),
        build.seen("ADDED", node("n4", 7, "2"), 4.2),
        changed(4.3, pod("w", 8, "0/3 nodes are unavailable: 3 Insufficient cpu.", cpu="12")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert [(part.began, part.start) for part in cycles(ledger, "c", DEFAULT_CONFIG)] == [(6, 6), (8, 9)]
        assert words(proof(ledger)) == [WORD_FOR_WORD, WORD_FOR_WORD]


@pytest.mark.parametrize(("said", "how"), [("0/3", WORD_FOR_WORD), ("0/5", COUNTS)])
def test_a_snapshot_may_have_been_taken_between(tmp_path: Path, said: str, how: str) -> None:
    """The cycle began at 4 at the earliest, when there were two nodes; before its first write there were four."""
    count = said[-1]
    events = [
        *added(*TWO, pod("w", 3, cpu="12"), pod("v", 4, cpu="12")),
        changed(1, pod("w", 5, NO_ROOM, cpu="12")),
        build.seen("ADDED", node("n3", 6, "2"), 4.1),
        build.seen("ADDED", node("n4", 7, "2"), 4.2),
        changed(4.3, pod("v", 8, f"{said} nodes are unavailable: {count} Insufficient cpu.", cpu="12")),
    ]
    with ledger_of(tmp_path, *events) as ledger:
        assert words(proof(ledger)) == [WORD_FOR_WORD, how]
