"""Why nothing is placed on a node at a moment: its own state, what is idle, which of the waiting pods it would take.

Owns the gathering. Must not know how the answer is told (`projections.diagnosis.holders`). Called by `cli.why` and
users' code: `why_node(ledger, "node-7", position=...)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from projections.cache.state import Cache, PodRef
from projections.cache.tasks import OWN_CLAIM
from projections.diagnosis.claims import fully_bound, selected_node
from projections.diagnosis.edits import amounts_text
from projections.diagnosis.holders import HeldBack, NodeAnswer, by_verdict
from projections.diagnosis.model import RECOMPUTED, Evidence
from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.reasons import Reason, grouped, scheduler_reasons
from projections.diagnosis.views import NodeView, TaskView
from projections.diagnosis.words import counted
from vcledger.folding import collector_paused
from vcledger.ledger import Ledger
from vcledger.why import NoSuchPod, near_of, why
from vcledger.why_asked import Asked, look
from vcledger.why_views import Views, lone_task
from volcano.objects.core import Pod
from volcano.objects.selectors import NO_SCHEDULE_EFFECTS, describe_taint

PODS_MAX, ASKED_MAX = 2_000, 30
"""How many waiting pods are put to the node, and about how many that it would take `why` is asked."""

DETAILS_SHOWN = 3

ROOM = ("resources", "pod-count")


class NoSuchNode(NoSuchPod):
    """The log has no node of that name at that position; the text names near ones."""


@collector_paused()
def why_node(ledger: Ledger, name: str, **asked: Unpack[Asked]) -> NodeAnswer:
    """The answer about a node. NoSuchNode when there is none of that name."""
    looked = look(ledger, asked)
    asked_at = asked.get("asked_at")
    chosen, at, _, views = looked
    cache = views.cache
    if name not in cache.nodes:
        raise NoSuchNode(f"no node {name} up to position {at}{near_of(list(cache.nodes), name)}")
    waiting = [ref for _, ref in sorted(cache.pods.items()) if _waits(ref, cache)]
    node, judged = _judged(ledger, views, name, waiting[:PODS_MAX])
    fitting = [ref for ref, found in judged if not refuses(found)]
    refused = [(ref, found) for ref, found in judged if refuses(found)]
    state = node_state(node)
    verdict, summary = _verdict(node, waiting, fitting, refused)
    return NodeAnswer(
        subject=f"Node {name}",
        name=name,
        at=at,
        time=looked.time,
        asked=looked.asked(asked_at),
        verdict=verdict,
        summary=summary,
        state=state,
        allocatable=_amounts(node.allocatable),
        idle=_amounts(node.idle, node.allocatable),
        releasing=_amounts(node.releasing),
        pods=node.pods,
        pods_max=node.pods_max,
        refused=_refused(refused),
        would_fit=_held_back(ledger, views, fitting[:ASKED_MAX], at, chosen, asked_at),
        asked_about=len(judged),
        waiting_total=len(waiting),
        evidence=_evidence(node, at),
        notes=_notes(waiting, fitting),
    )


def _waits(ref: PodRef, cache: Cache) -> bool:
    """A pod of this scheduler without a node, for which no volume is being made on some node already."""
    if ref.node_name or ref.phase not in {"", "Pending"} or ref.deleting or ref.gated:
        return False
    if ref.scheduler_name not in cache.config.scheduler_names:
        return False
    claims = [cache.claims.get(f"{ref.namespace}/{name.removeprefix(OWN_CLAIM)}") for name in ref.claims]
    return not any(claim is not None and selected_node(claim) and not fully_bound(claim) for claim in claims)


def _judged(
    ledger: Ledger, views: Views, name: str, waiting: Sequence[PodRef]
) -> tuple[NodeView, list[tuple[PodRef, list[Reason]]]]:
    """The node, and every waiting pod's refusals there."""
    objects = ledger.objects([ref.position for ref in waiting])
    pods = [(ref, pod) for ref in waiting if isinstance(pod := objects.get(ref.position), Pod)]
    cluster = views.cluster([pod for _, pod in pods], only=name)
    node = next(one for one in cluster.nodes if one.name == name)
    found = [(ref, Evaluation(_task(views, ref, pod), pod, cluster).on(node)) for ref, pod in pods]
    return node, found


def _task(views: Views, ref: PodRef, pod: Pod) -> TaskView:
    """The pod as its job's task, whose request counts its volumes too; as a task alone without a job."""
    job = views.cache.jobs.get(ref.job) if ref.job else None
    tasks = views.group(job).tasks if job is not None else ()
    return next((task for task in tasks if task.uid == ref.uid and task.pod is not None), None) or lone_task(ref, pod)


def node_state(node: NodeView) -> list[str]:
    """What the node itself has that keeps pods away, in words."""
    found = []
    if not node.schedulable:
        found.append(f"the cache holds it as NotReady{f' ({node.phase_reason})' if node.phase_reason else ''}")
    body = node.node
    for condition in (body.status.conditions if body is not None else None) or ():
        if condition.type == "Ready" and condition.status != "True":
            why_not = f" ({condition.reason})" if condition.reason else ""
            found.append(f"condition Ready is {condition.status}{why_not}, which the scheduler does not go by")
    if body is not None and body.spec.unschedulable:
        found.append("cordoned (spec.unschedulable)")
    taints = [
        one for one in (body.spec.taints if body is not None else None) or () if one.effect in NO_SCHEDULE_EFFECTS
    ]
    if taints:
        found.append(f"taints: {', '.join(describe_taint(one) for one in taints)}")
    return found


def _verdict(
    node: NodeView,
    waiting: Sequence[PodRef],
    fitting: Sequence[PodRef],
    refused: Sequence[tuple[PodRef, Sequence[Reason]]],
) -> tuple[str, str]:
    """The first of NODE_VERDICTS that holds."""
    if not node.schedulable:
        return "not-ready", "the scheduler's snapshot leaves the node out"
    if node.node is not None and node.node.spec.unschedulable and not fitting:
        return "cordoned", "cordoned: only pods that tolerate that would go there"
    if not waiting:
        return "nothing-waits", "no pod waits for a node"
    if fitting:
        return (
            "would-take",
            f"{len(fitting)} of {counted(len(waiting), 'waiting pod')} would fit, and wait for something else",
        )
    if all(all(one.family in ROOM for one in found if one.scheduler) for _, found in refused):
        return "full", f"each of the {counted(len(waiting), 'waiting pod')} asks for more than is left"
    return "refuses", f"it refuses each of the {counted(len(waiting), 'waiting pod')}"


def _refused(refused: Sequence[tuple[PodRef, Sequence[Reason]]]) -> list[HeldBack]:
    """The pods by the first reason that the scheduler would name, the most first; with what it comes from, for how many
    of them where that differs."""
    details: dict[str, dict[str, int]] = {}
    pairs = []
    for ref, found in refused:
        text = scheduler_reasons(found)[0]
        detail = next(one.detail for one in found if one.text == text)
        counts = details.setdefault(text, {})
        counts[detail] = counts.get(detail, 0) + 1
        pairs.append((text, f"{ref.namespace}/{ref.name}"))
    return [
        HeldBack(verdict=text, count=len(names), summary=_numbered(details[text]), names=names)
        for text, names in grouped(pairs)
    ]


def _numbered(details: Mapping[str, int]) -> str:
    """The details, the most frequent first, with how often where there are several."""
    if len(details) == 1:
        return next(iter(details))
    ranked = sorted(details.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{detail} ({times}x)" for detail, times in ranked[:DETAILS_SHOWN]]
    rest = sum(times for _, times in ranked[DETAILS_SHOWN:])
    return "; ".join([*told, *([f"{rest} others"] if rest else [])])


def _held_back(
    ledger: Ledger, views: Views, fitting: Sequence[PodRef], at: int, cluster: str, asked_at: int | None
) -> list[HeldBack]:
    """What holds the pods back that would fit."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for ref in fitting:
        try:
            answer = why(
                ledger,
                ref.namespace,
                ref.name,
                position=at,
                cluster=cluster,
                asked_at=asked_at,
                views=views,
                changes=False,
            )
        except NoSuchPod:  # its observation was pruned, or cannot be read
            continue
        groups.setdefault(answer.verdict, []).append((f"{ref.namespace}/{ref.name}", answer.summary))
    return by_verdict(groups)


def _amounts(amounts: Mapping[str, float], named: Mapping[str, float] | None = None) -> dict[str, str]:
    """Amounts as people write them, without the count of pods; of the resources in `named` the zeros too."""
    shown = amounts_text(dict(amounts))
    names = [name for name in amounts_text(dict(named or amounts)) if name != "pods"]
    return {name: shown.get(name, "0") for name in names}


def _notes(waiting: Sequence[PodRef], fitting: Sequence[PodRef]) -> list[str]:
    notes = []
    if len(waiting) > PODS_MAX:
        notes.append(f"of {len(waiting)} waiting pods the first {PODS_MAX} were put to the node")
    if len(fitting) > ASKED_MAX:
        notes.append(f"of {len(fitting)} that would fit, {ASKED_MAX} were asked about")
    return notes


def _evidence(node: NodeView, at: int) -> list[Evidence]:
    found = []
    if node.position:
        proves = "its labels, taints, conditions and size"
        found.append(Evidence(position=node.position, what=f"Node {node.name} as last seen", proves=proves))
    proves = "what is idle there, and which pods wait"
    return [*found, Evidence(position=at, what="the cache folded up to here", proves=proves, known=RECOMPUTED)]


__all__ = ["NoSuchNode", "node_state", "why_node"]
