"""Each ground truth of the recordings' notes, as a question to `why`: the verdict, the cause, the nodes, and the
scheduler's own sentence, recomputed.

`watch.jsonl` and `audit.jsonl` of a recording of a real control plane go in; notes.md says what the truth is for each
pending pod, before and after capacity came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from projections.diagnosis.model import VERDICTS, Explanation
from projections.diagnosis.text import LINES_MAX, lines, plain
from tests.data import recording
from vcledger import gaps
from vcledger.ledger import Ledger
from vcledger.sources import import_paths
from vcledger.why import NoSuchPod, pod_story, why, why_job
from volcano.objects.core import Pod

CLUSTER = "recorded"
FIRST, AFTER = "marker:volcano-cache-dump-1-many-pending.json", "marker:volcano-cache-dump-2-after-capacity.json"
BOUND_AND_PENDING = "marker:volcano-cache-dump-1-bound-and-pending.json"
IN_FLIGHT = "marker:volcano-cache-dump-2-binding-in-flight.json"
VOLUMES_END = "marker:volcano-cache-dump-3-end.json"
CONTENDED = "marker:volcano-cache-dump-2-C-contended.json"

CPU_NODES = [f"cpu-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ledger]]:
    """Ledgers of the recordings, made when first asked for."""
    opened = _Ledgers(tmp_path_factory)
    yield opened
    for ledger in opened.values():
        ledger.close()


class _Ledgers(dict[str, Ledger]):
    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self.factory = factory

    def __missing__(self, name: str) -> Ledger:
        folder = recording(name)
        ledger = Ledger.open(str(self.factory.mktemp("why") / f"{name}.db"), create=True)
        import_paths(ledger, [folder / "watch.jsonl.zst", folder / "audit.jsonl.zst"], cluster=CLUSTER)
        self[name] = ledger
        return ledger


class Truth(NamedTuple):
    """One ground truth: who, when, the verdict, words of the first cause, words of the chain, the nodes that fit."""

    recording: str
    at: str | None
    target: str
    verdict: str
    root: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    fits_on: tuple[str, ...] | None = None
    message: str | None = None


def ask(ledger: Ledger, target: str, at: str | None) -> Explanation:
    """The answer about `NAME` or `job/NAME` in namespace default."""
    position = ledger.position(at, CLUSTER)
    if target.startswith("job/"):
        return why_job(ledger, "default", target.removeprefix("job/"), position=position)
    return why(ledger, "default", target, position=position)


ANTI_AFFINITY_BEFORE = (
    "0/10 nodes are unavailable: 2 node(s) had untolerated taint(s), 8 node(s) didn't match pod anti-affinity rules."
)
ANTI_AFFINITY_AFTER = (
    "0/12 nodes are unavailable: 1 Insufficient cpu, 4 node(s) had untolerated taint(s), "
    "7 node(s) didn't match pod anti-affinity rules."
)

TRUTHS = [
    # 02-unschedulable, before capacity came
    Truth(
        "02",
        FIRST,
        "gpu-too-many",
        "cluster-overused",
        ("nvidia.com/gpu", "asks 16", "cluster 8"),
        ("stays Pending", "has made no pods yet"),
        message="resource in cluster is overused: overused nvidia.com/gpu",
    ),
    Truth(
        "02",
        FIRST,
        "gang-12x6-w-0",
        "gang-short",
        ("breaks the gang", "8 Insufficient cpu: asks 6, at most 3 idle", "gpu=true:NoSchedule"),
        ("needs 6 members", "short by 6"),
        (),
        "0/10 nodes are unavailable: 2 node(s) had untolerated taint(s), 8 Insufficient cpu.",
    ),
    Truth(
        "02",
        FIRST,
        "gang-12x6-w-1",
        "gang-short",
        ("gang-12x6-w-0 breaks the gang", "Insufficient cpu"),
        ("short by 6",),
        (),
        "pod group is not ready, 6 Pending, 6 minAvailable; Pending: 6 Unschedulable. Origin reason is gang-12x6-w-0: "
        "0/10 nodes are unavailable: 2 node(s) had untolerated taint(s), 8 Insufficient cpu.",
    ),
    Truth("02", FIRST, "huge-one", "cluster-overused", ("cpu: asks 64",), ("has made no pods yet",)),
    Truth(
        "02",
        FIRST,
        "mem-hog-w-0",
        "gang-short",
        ("10 Insufficient memory: asks 200Gi", "at most 128Gi idle"),
        (),
        (),
        "0/10 nodes are unavailable: 10 Insufficient memory.",
    ),
    Truth("02", FIRST, "mem-hog-w-1", "gang-short", ("mem-hog-w-0 breaks the gang",), (), ()),
    Truth(
        "02",
        FIRST,
        "bad-selector-w-0",
        "gang-short",
        ("nodeSelector accel=h100", "10 node(s) didn't match"),
        (),
        (),
        "0/10 nodes are unavailable: 10 node(s) didn't match Pod's node affinity/selector.",
    ),
    Truth(
        "02",
        FIRST,
        "no-toleration-w-0",
        "no-node-fits",
        ("2 node(s) had untolerated taint(s): gpu=true:NoSchedule", "nodeSelector accel=a100"),
        (),
        (),
        "0/10 nodes are unavailable: 2 node(s) had untolerated taint(s), 8 node(s) didn't match Pod's node "
        "affinity/selector.",
    ),
    Truth("02", FIRST, "partial-2of6-w-0", "scheduled", ("on node cpu-0",)),
    Truth(
        "02",
        FIRST,
        "partial-2of6-w-1",
        "no-node-fits",
        ("kubernetes.io/hostname=cpu-0", "1 Insufficient cpu: asks 2, 1 idle"),
        ("Running all the same", "minimum of 1 member is met"),
        (),
        "0/10 nodes are unavailable: 1 Insufficient cpu, 9 node(s) didn't match Pod's node affinity/selector.",
    ),
    Truth(
        "02",
        FIRST,
        "anti-affinity-w-0",
        "gang-short",
        ("anti-affinity-w-8 breaks the gang", "after 8 other members", "didn't match pod anti-affinity rules"),
        ("needs 9 members", "short by 1"),
        tuple(CPU_NODES),
        "Pod default/anti-affinity-w-0 can possibly be assigned to cpu-2, once minAvailable is satisfied",
    ),
    Truth(
        "02",
        FIRST,
        "anti-affinity-w-8",
        "gang-short",
        ("this pod anti-affinity-w-8 breaks the gang",),
        ("short by 1",),
        tuple(CPU_NODES),
        ANTI_AFFINITY_BEFORE,
    ),
    Truth("02", FIRST, "job/anti-affinity", "gang-short", ("anti-affinity-w-8",), ("short by 1",)),
    Truth(
        "02",
        FIRST,
        "queue-cap",
        "queue-over-capability",
        ("queue small", "cpu: asks 6", "capability 4"),
        ("stays Pending",),
        message="queue resource quota insufficient: insufficient cpu",
    ),
    Truth("02", FIRST, "queue-missing", "queue-missing", ("queue does-not-exist does not exist",), ("no PodGroup",)),
    Truth("02", FIRST, "job/queue-missing", "queue-missing", ("does-not-exist",)),
    Truth(
        "02",
        FIRST,
        "bare-pending",
        "no-node-fits",
        ("10 Insufficient cpu: asks 40",),
        ("no node has that much cpu even when empty",),
        (),
        "0/10 nodes are unavailable: 10 Insufficient cpu.",
    ),
    Truth(
        "02",
        FIRST,
        "gated",
        "gated",
        ("example.com/wait", "schedulingGates"),
        (),
        tuple(CPU_NODES),
        "Scheduling is blocked due to non-empty scheduling gates",
    ),
    Truth("02", FIRST, "other-sched", "not-this-scheduler", ("some-other-scheduler", "volcano never looks at it")),
    # 02, after capacity came
    Truth("02", AFTER, "gpu-too-many-w-0", "finished", ("succeeded on gpu-3",)),
    Truth("02", AFTER, "gang-12x6-w-0", "finished", ("succeeded on cpu-1",)),
    Truth(
        "02",
        AFTER,
        "huge-one-w-0",
        "no-node-fits",
        ("12 Insufficient cpu: asks 64",),
        ("even when empty",),
        (),
        "0/12 nodes are unavailable: 12 Insufficient cpu.",
    ),
    Truth(
        "02",
        AFTER,
        "mem-hog-w-0",
        "gang-short",
        ("11 Insufficient memory: asks 200Gi, at most 128Gi idle",),
        (),
        (),
        "0/12 nodes are unavailable: 1 Insufficient cpu, 11 Insufficient memory.",
    ),
    Truth(
        "02",
        AFTER,
        "bad-selector-w-0",
        "gang-short",
        ("accel=h100",),
        (),
        (),
        "0/12 nodes are unavailable: 1 Insufficient cpu, 11 node(s) didn't match Pod's node affinity/selector.",
    ),
    Truth(
        "02",
        AFTER,
        "no-toleration-w-0",
        "no-node-fits",
        ("4 node(s) had untolerated taint(s): gpu=true:NoSchedule",),
        (),
        (),
        "0/12 nodes are unavailable: 1 Insufficient cpu, 4 node(s) had untolerated taint(s), 7 node(s) didn't match "
        "Pod's node affinity/selector.",
    ),
    Truth("02", AFTER, "partial-2of6-w-1", "scheduled", ("on node cpu-0",)),
    Truth("02", AFTER, "partial-2of6-w-5", "no-node-fits", ("cpu-0", "asks 2, 0 idle"), (), ()),
    Truth("02", AFTER, "anti-affinity-w-0", "gang-short", ("anti-affinity-w-7 breaks the gang",), ("short by 2",)),
    Truth("02", AFTER, "anti-affinity-w-7", "gang-short", ("this pod",), (), tuple(CPU_NODES[1:]), ANTI_AFFINITY_AFTER),
    Truth(
        "02",
        AFTER,
        "anti-affinity-w-8",
        "gang-short",
        ("anti-affinity-w-7 breaks the gang",),
        message="pod group is not ready, 9 Pending, 9 minAvailable; Pending: 2 Unschedulable, 7 Schedulable. "
        f"Origin reason is anti-affinity-w-7: {ANTI_AFFINITY_AFTER}",
    ),
    Truth("02", AFTER, "queue-cap", "queue-over-capability", ("capability 4",)),
    Truth("02", AFTER, "queue-missing", "queue-missing", ("does-not-exist",)),
    Truth(
        "02",
        AFTER,
        "bare-pending",
        "no-node-fits",
        ("asks 40",),
        (),
        (),
        "0/12 nodes are unavailable: 12 Insufficient cpu.",
    ),
    Truth("02", AFTER, "gated", "scheduled", ("on node cpu-6",)),
    Truth("02", AFTER, "other-sched", "not-this-scheduler", ("some-other-scheduler",)),
    # 03-volumes
    Truth(
        "03",
        BOUND_AND_PENDING,
        "pv-too-small",
        "no-matching-volume",
        ("claim too-big (class local-small, 5Gi)", "small-0 1Gi is less than the 5Gi asked"),
        (),
        (),
        "0/6 nodes are unavailable: 6 node(s) didn't find available persistent volumes to bind.",
    ),
    Truth(
        "03",
        BOUND_AND_PENDING,
        "pv-wrong-node",
        "no-matching-volume",
        ("class local-wrong", "wrong-0 is only for", "gone-node", "no such node"),
        (),
        (),
        "0/6 nodes are unavailable: 6 node(s) didn't find available persistent volumes to bind.",
    ),
    Truth(
        "03",
        BOUND_AND_PENDING,
        "immediate-unbound",
        "pvc-unbound",
        ("claim now-nopv", "Immediate", "is Pending"),
        ("asks 500Gi",),
        (),
        "0/6 nodes are unavailable: 6 plugin VolumeZone pre-predicates failed PersistentVolume had no name.",
    ),
    Truth(
        "03",
        BOUND_AND_PENDING,
        "pvc-missing",
        "pvc-missing",
        ("no-such-claim does not exist",),
        (),
        (),
        "0/6 nodes are unavailable: 6 plugin VolumeZone pre-predicates failed persistentvolumeclaim "
        '"no-such-claim" not found.',
    ),
    Truth(
        "03",
        BOUND_AND_PENDING,
        "bound-elsewhere",
        "volume-node-conflict",
        ("volume now-0 of claim now-c", "node-2", "nodeSelector kubernetes.io/hostname=node-5"),
        (),
        (),
        "0/6 nodes are unavailable: 1 node(s) didn't match PersistentVolume's node affinity, 5 node(s) didn't match "
        "Pod's node affinity/selector.",
    ),
    Truth(
        "03",
        BOUND_AND_PENDING,
        "gang-one-bad-tx-0",
        "gang-short",
        ("gang-one-bad-ty-0 breaks the gang", "didn't find available persistent volumes to bind"),
        ("claim gbad-y (class local-wffc, 500Gi)", "needs 2 members"),
        ("node-5",),
        "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is "
        "gang-one-bad-ty-0: 0/6 nodes are unavailable: 6 node(s) didn't find available persistent volumes to bind.",
    ),
    Truth("03", BOUND_AND_PENDING, "gang-one-bad-ty-0", "gang-short", ("this pod gang-one-bad-ty-0",), ("500Gi",), ()),
    Truth(
        "03",
        IN_FLIGHT,
        "never-prov",
        "provisioning",
        ("claim never-c (class never)", "never.csi.example.com", "node-2"),
        ("assumed node node-2",),
        ("node-2",),
    ),
    Truth("03", IN_FLIGHT, "gang-never-vol-0", "provisioning", ("claim never-g", "node-4"), (), ("node-4",)),
    Truth(
        "03",
        "2026-11-29T13:43:07.040105Z",
        "never-prov",
        "volume-bind-timeout",
        ("never.csi.example.com",),
        ("context deadline exceeded",),
        ("node-2",),
        "execute preBind for pod default/never-prov failed: binding volumes: context deadline exceeded, "
        "resync the task",
    ),
    Truth(
        "03",
        "2026-11-29T13:43:07.040105Z",
        "gang-never-vol-0",
        "volume-bind-timeout",
        ("claim never-g", "never.csi.example.com"),
        ("context deadline exceeded",),
    ),
    Truth("03", "2026-11-29T13:43:07.040105Z", "gang-never-plain-0", "scheduled", ("on node node-2",)),
    Truth("03", VOLUMES_END, "pv-too-small", "scheduled", ("on node node-1",)),
    Truth("03", VOLUMES_END, "pv-wrong-node", "scheduled", ("on node gone-node",)),
    Truth("03", VOLUMES_END, "immediate-unbound", "pvc-unbound", ("claim now-nopv", "Immediate"), ("500Gi",), ()),
    Truth("03", VOLUMES_END, "pvc-missing", "pvc-missing", ("no-such-claim",), (), ()),
    Truth("03", VOLUMES_END, "bound-elsewhere", "volume-node-conflict", ("now-c", "node-2", "node-5"), (), ()),
    Truth("03", VOLUMES_END, "gang-one-bad-tx-0", "gang-short", ("gang-one-bad-ty-0",), ("500Gi",)),
    # 05-bind-faults
    Truth(
        "05",
        "marker:volcano-cache-dump-1-recovered.json",
        "fps",
        "cluster-overused",
        ("cpu: asks 200",),
        ("has made no pods yet",),
        message="resource in cluster is overused: overused cpu",
    ),
    Truth(
        "05",
        "marker:volcano-cache-dump-2-bind-always-fails.json",
        "fforever-w-0",
        "bind-failed",
        ("Internal error occurred: injected", "node-4"),
        (),
        None,
        "failed to bind to node node-4: Internal error occurred: injected",
    ),
    Truth("05", "marker:volcano-cache-dump-2-bind-always-fails.json", "fforever-w-1", "scheduled", ("on node node-3",)),
    Truth(
        "05",
        "marker:volcano-cache-dump-4-end.json",
        "fforever-w-0",
        "scheduled",
        ("on node node-4",),
        ("before that", "injected"),
    ),
    # 06-churn
    Truth(
        "06",
        CONTENDED,
        "b-low-00-w-1",
        "queue-overused",
        ("queue q-b is at its share beside q-a", "weight 1", "cpu"),
        ("Running all the same",),
        (),
        "pod group is ready, 11 Running, 4 minAvailable, 5 Pending; Pending: 5 Unschedulable",
    ),
    Truth("06", CONTENDED, "b-low-00-w-0", "scheduled", ("on node n281",)),
    Truth("06", CONTENDED, "b-low-20-w-0", "scheduled", ("on node n294",)),
    Truth("06", CONTENDED, "b-low-41-w-0", "scheduled", ("on node n157",)),
    Truth("06", CONTENDED, "b-high-07-w-0", "scheduled", ("on node n248",)),
    Truth("06", CONTENDED, "a-mid-13-w-0", "scheduled", ("on node n002",)),
    # 07-recorder-gap-apiserver-restart
    Truth(
        "07",
        "marker:volcano-cache-dump-4-after-scheduler-restart.json",
        "too-big-w-0",
        "no-node-fits",
        ("8 Insufficient cpu: asks 9, at most 8 idle",),
        ("no node has that much cpu even when empty",),
        (),
        "0/8 nodes are unavailable: 8 Insufficient cpu.",
    ),
]

SLOW = {"06"}


def named(truth: Truth) -> str:
    """A test's name: recording, moment, pod."""
    return f"{truth.recording}-{(truth.at or 'end').removeprefix('marker:volcano-cache-dump-')[:16]}-{truth.target}"


@pytest.mark.parametrize(
    "truth",
    [
        pytest.param(truth, id=named(truth), marks=[pytest.mark.slow] if truth.recording in SLOW else [])
        for truth in TRUTHS
    ],
)
def test_ground_truth(ledgers: dict[str, Ledger], truth: Truth) -> None:
    ledger = ledgers[truth.recording]
    answer = ask(ledger, truth.target, truth.at)
    assert answer.verdict == truth.verdict, answer.causes
    for words in truth.root:
        assert words in answer.causes[0]
    chain = "\n".join(answer.causes)
    for words in truth.chain:
        assert words in chain
    if truth.fits_on is not None:
        assert answer.fits_on == list(truth.fits_on)
    if truth.message is not None:
        assert answer.message == truth.message
    assert answer.disagreements == []
    check_shape(ledger, answer)


def check_shape(ledger: Ledger, answer: Explanation) -> None:
    """What holds of every answer: a verdict of the table, consistent nodes, and proofs that the log has."""
    assert answer.verdict in VERDICTS
    assert answer.fits_on == [row.node for row in answer.nodes if row.fits]
    assert all(row.fits or row.reasons for row in answer.nodes)
    positions = [one.position for one in answer.evidence]
    assert all(0 < position <= ledger.store.head() for position in positions)
    assert len(ledger.store.get(sorted(set(positions)))) == len(set(positions))
    text = plain(lines(answer))
    assert answer.verdict in text
    assert len(text.splitlines()) <= LINES_MAX


@pytest.mark.parametrize(
    ("name", "moment", "least"),
    [
        ("02", FIRST, 23),
        ("02", AFTER, 17),
        ("03", BOUND_AND_PENDING, 7),
        ("03", IN_FLIGHT, 7),
        ("03", VOLUMES_END, 5),
        ("05", "marker:volcano-cache-dump-2-bind-always-fails.json", 2),
        pytest.param("06", CONTENDED, 100, marks=pytest.mark.slow),
        ("07", "marker:volcano-cache-dump-1-before.json", 0),
        ("07", "marker:volcano-cache-dump-3-after-gap.json", 1),
    ],
)
def test_the_message_is_the_schedulers_own(ledgers: dict[str, Ledger], name: str, moment: str, least: int) -> None:
    """For every pending pod whose condition the real scheduler wrote, the recomputed sentence is the same, word for
    word."""
    ledger = ledgers[name]
    position = ledger.position(moment, CLUSTER)
    cache = ledger.cache(position, cluster=CLUSTER)
    compared = 0
    for ref in list(cache.pods.values()):
        if ref.node_name or ref.phase != "Pending":
            continue
        answer = why(ledger, ref.namespace, ref.name, position=position, changes=False)
        written = [
            one.message
            for one in answer.said
            if one.source == "condition" and one.about.startswith("Pod ") and one.status == "False"
        ]
        if written and written[0]:
            assert answer.message == written[0]
            compared += 1
    assert compared >= least


@pytest.mark.slow
def test_the_sentences_at_each_change_are_recomputed(ledgers: dict[str, Ledger]) -> None:
    """At nearly every moment at which the scheduler wrote a new PodScheduled=False, the same sentence comes out of the
    state just before it, or with it. The rest are cycles that began before other pods' changes were seen."""
    compared, equal, differing = 0, 0, []
    for name, step in (("02", 5), ("03", 1), ("05", 1)):
        ledger = ledgers[name]
        for position, pod, message in list(_written(ledger))[::step]:
            compared += 1
            answers = (
                why(ledger, "default", pod, position=moment, changes=False) for moment in (position - 1, position)
            )
            if any(answer.message == message for answer in answers):
                equal += 1
            else:
                differing.append((name, position, pod, message))
    assert compared > 150
    assert equal / compared >= 0.95, differing


def _written(ledger: Ledger) -> Iterator[tuple[int, str, str]]:
    """(position, pod, message) of each new PodScheduled=False that a scheduler wrote on a pod without a node."""
    last: dict[str, tuple[str, str]] = {}
    for recorded in ledger.recorded(cluster=CLUSTER, kinds="Pod", types=["ObjectAdded", "ObjectModified"], late=False):
        pod = getattr(recorded.event, "object", None)
        assert isinstance(pod, Pod)
        for condition in pod.status.conditions or ():
            if condition.type != "PodScheduled" or condition.status != "False" or pod.spec.node_name:
                continue
            words = (condition.reason, condition.message)
            if last.get(recorded.uid) != words and condition.reason != "SchedulingGated":
                yield recorded.position, recorded.name, condition.message
            last[recorded.uid] = words


def test_the_longest_gang_message_names_the_same_origin(ledgers: dict[str, Ledger]) -> None:
    """What the scheduler wrote on the PodGroup ends with the sentence that `why` recomputes for a member."""
    answer = ask(ledgers["02"], "gang-12x6-w-1", FIRST)
    written = [one.message for one in answer.said if one.about.startswith("PodGroup ") and one.source == "condition"]
    assert any(message.endswith(answer.message) for message in written)


@pytest.mark.parametrize("model", ["volcano-1.10", "volcano-1.11", "exact"])
def test_the_models_agree_where_no_bug_of_volcano_is_in_play(ledgers: dict[str, Ledger], model: str) -> None:
    ledger = ledgers["02"]
    answer = why(ledger, "default", "gang-12x6-w-0", position=ledger.position(FIRST, CLUSTER), model=model)
    assert answer.verdict == "gang-short"
    assert answer.message == "0/10 nodes are unavailable: 2 node(s) had untolerated taint(s), 8 Insufficient cpu."


def test_equal_questions_have_equal_answers(ledgers: dict[str, Ledger]) -> None:
    ledger = ledgers["03"]
    position = ledger.position(BOUND_AND_PENDING, CLUSTER)
    first = why(ledger, "default", "gang-one-bad-tx-0", position=position)
    assert why(ledger, "default", "gang-one-bad-tx-0", position=position) == first
    assert first.message.startswith("pod group is not ready")


def test_counts_first_and_last_time_of_what_was_said(ledgers: dict[str, Ledger]) -> None:
    answer = ask(ledgers["02"], "queue-cap", FIRST)
    refusals = [one for one in answer.said if one.message == "queue resource quota insufficient: insufficient cpu"]
    assert [one.count for one in refusals] == [25]
    assert (refusals[0].first or "") < (refusals[0].last or "")


@pytest.mark.slow
def test_without_an_audit_log_the_answer_is_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The watch alone tells why; an audit log only adds proofs."""
    folder = recording("02")
    with Ledger.open(str(tmp_path_factory.mktemp("watch") / "only.db"), create=True) as ledger:
        import_paths(ledger, [folder / "watch.jsonl.zst"], cluster=CLUSTER)
        for truth in TRUTHS:
            if truth.recording == "02":
                assert ask(ledger, truth.target, truth.at).verdict == truth.verdict


def test_an_audit_imported_later_still_counts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Binds of an audit log that comes after the watch are late, and told all the same."""
    folder = recording("05")
    with Ledger.open(str(tmp_path_factory.mktemp("late") / "late.db"), create=True) as ledger:
        import_paths(ledger, [folder / "watch.jsonl.zst"], cluster=CLUSTER)
        position = ledger.position("marker:volcano-cache-dump-4-end.json", CLUSTER)
        before = pod_story(ledger, why(ledger, "default", "fok-w-0", position=position))
        import_paths(ledger, [folder / "audit.jsonl.zst"], cluster=CLUSTER)
        after = pod_story(ledger, why(ledger, "default", "fok-w-0", position=position))
    assert not [line for line in before if line.text.startswith("bound to")]
    bound = [line for line in after if line.text.startswith("bound to")]
    assert len(bound) == 1
    assert bound[0].late
    assert bound[0].known == "inferred"


def test_a_story_runs_from_creation_to_its_node(ledgers: dict[str, Ledger]) -> None:
    answer = ask(ledgers["02"], "gang-12x6-w-0", AFTER)
    story = pod_story(ledgers["02"], answer)
    own = [line.text for line in story if line.about == "Pod default/gang-12x6-w-0"]
    assert own[0].startswith("created")
    assert any("0/10 nodes are unavailable" in text for text in own)
    assert "on node cpu-1" in own
    assert [line.time for line in story] == sorted(line.time for line in story)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["a-mid-13-w-0", "job/a-mid-13"])
def test_whom_a_pod_waits_for_and_why_they_end(ledgers: dict[str, Ledger], target: str) -> None:
    """The scheduler nominated n002; reclaim evicted the pod that ends there."""
    answer = ask(ledgers["06"], target, "2026-11-29T14:02:07Z")
    assert answer.verdict == "waiting-for-release"
    assert "on n002, the node that the scheduler named for it" in answer.causes[0]
    assert "default/b-low-40-w-8 (evicted: reclaim)" in answer.causes[0]
    assert (answer.fits_on, sum(row.fits_after_release for row in answer.nodes)) == ([], 64)
    assert answer.also == []
    assert [one.what for one in answer.evidence if one.what.startswith("Pod default/a-mid-13 ")] == []
    assert any(one.what == "Pod default/a-mid-13-w-0 as last seen" for one in answer.evidence)


@pytest.mark.slow
def test_since_when_a_job_waits_leaves_out_the_time_in_which_it_ran_in_full(ledgers: dict[str, Ledger]) -> None:
    """b-low-00 was created at 14:01:51, ran in full, and lost pods to reclaim from 14:02:05 on."""
    answer = ask(ledgers["06"], "job/b-low-00", CONTENDED)
    assert answer.verdict == "queue-overused"
    assert (answer.since or "") >= "2026-11-29T14:02:05Z"
    assert [one.what for one in answer.evidence[:2]][1] == "Queue q-b as last seen"
    assert not any(one.what.startswith("Node ") for one in answer.evidence[:4])


def test_the_claim_that_is_there_is_the_proof(ledgers: dict[str, Ledger]) -> None:
    answer = ask(ledgers["03"], "immediate-unbound", BOUND_AND_PENDING)
    assert answer.evidence[0].what == "PersistentVolumeClaim default/now-nopv as last seen"
    assert not [one for one in answer.evidence if one.what.startswith("no ")]


@pytest.mark.slow
def test_a_pod_made_again_under_its_name_is_the_later_one(ledgers: dict[str, Ledger]) -> None:
    answer = ask(ledgers["06"], "b-low-00-w-1", CONTENDED)
    evicted = [other.text for other in answer.also if other.verdict == "evicted"]
    assert evicted
    assert answer.uid not in evicted[0]
    assert re.search(r"because of (preempt|reclaim)", evicted[0])


def test_a_pod_deleted_in_a_gap_is_known_by_inference(ledgers: dict[str, Ledger]) -> None:
    answer = ask(ledgers["07"], "j1-w-0", "marker:volcano-cache-dump-4-after-scheduler-restart.json")
    assert answer.verdict == "deleted"
    assert "inferred: no watch saw it go" in answer.causes[0]


@pytest.mark.parametrize(("pod", "asked"), [("j5-w-0", "13:51:52Z"), ("too-big-w-0", "13:51:50Z")])
def test_a_moment_inside_a_gap_is_marked(ledgers: dict[str, Ledger], pod: str, asked: str) -> None:
    """The recorder was off from 13:51:45 to 13:51:59 (notes.md); the last that it saw of pods was at 13:51:39."""
    ledger = ledgers["07"]
    moment = gaps.moment(ledger, f"2026-11-29T{asked}", CLUSTER)
    answer = why(ledger, "default", pod, position=moment.position, asked_at=moment.asked)
    around = {gap.kind for gap in answer.gaps if gap.inside}
    assert around >= {"Pod", "Node", "PodGroup", "Queue", "Event"}
    text = plain(lines(answer))
    assert "Gap           Pod, Node, PodGroup and 8 more: not recorded 13:51:39 to 13:51:59; this moment" in text
    assert f"(asked for 2026-11-29T{asked})" in text.splitlines()[0]
    with pytest.raises(NoSuchPod, match="gap in the record: Pod, Node"):
        why(ledger, "default", "j8-w-0", position=moment.position, asked_at=moment.asked)


def test_what_only_the_audit_log_has_of_a_gap_is_said_to_contradict_the_cache(ledgers: dict[str, Ledger]) -> None:
    """j5-w-0 was deleted and made again while the recorder was off (notes.md); the audit log shows both."""
    ledger = ledgers["07"]
    answer = why(ledger, "default", "j5-w-0", position=ledger.position("2026-11-29T13:51:52Z", CLUSTER))
    assert answer.verdict == "scheduled"
    gone, again = (text for text in answer.disagreements if "Pod default/" in text)
    assert gone.startswith("Pod default/j5-w-0 was gone by 2026-11-29T13:51:46")
    assert again.startswith("another Pod default/j5-w-0 (uid 1e790e12")


def test_a_gap_in_the_life_of_a_pod_is_told_with_what_it_left(ledgers: dict[str, Ledger]) -> None:
    answer = ask(ledgers["07"], "too-big-w-0", None)
    assert not any(gap.inside for gap in answer.gaps)
    missed = next(gap for gap in answer.gaps if gap.kind == "Pod" and gap.reason == "the recorder was stopped")
    assert (missed.added, missed.modified, missed.deleted) == (2, 1, 9)
    assert "not recorded 13:51:39 to 13:51:59; then 18 new, 9 changed, 16 gone" in plain(lines(answer))
    assert ask(ledgers["02"], "gang-12x6-w-1", FIRST).gaps == []


def test_unknown_names_suggest_near_ones(ledgers: dict[str, Ledger]) -> None:
    with pytest.raises(NoSuchPod, match=r"did you mean default/mem-hog-w-[01]"):
        ask(ledgers["02"], "mem-hog-w-9", AFTER)
    with pytest.raises(NoSuchPod, match="first seen at position"):
        ask(ledgers["02"], "mem-hog-w-1", "60")
