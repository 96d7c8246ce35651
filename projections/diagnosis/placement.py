"""Where the pod alone could go: no node fits, its volumes rule the nodes out, or it could be placed.

Owns these verdicts. Must not know bind attempts. Called by `projections.diagnosis.explain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from projections.diagnosis.agreement import ASSIGNABLE
from projections.diagnosis.amounts import exceeding, show, show_bytes
from projections.diagnosis.case import Case, Ending
from projections.diagnosis.claims import class_name, pod_claims
from projections.diagnosis.evidence import absence, folded
from projections.diagnosis.model import Evidence, Finding, NodeRow
from projections.diagnosis.nodes import fits_but_for_volumes, refuses
from projections.diagnosis.reasons import (
    VOLUME_AFFINITY,
    VOLUME_LIMIT,
    VOLUME_ZONE,
    Reason,
    scheduler_reasons,
)
from projections.diagnosis.views import ClusterView, NodeView, TaskView, claim_names
from projections.diagnosis.volumes import VolumeBinding, search, storage_asked
from projections.diagnosis.words import (
    NAMES_SHOWN,
    by_first_reason,
    counted,
    nearest,
    some,
    table_causes,
    table_message,
)
from volcano.objects.core import Pod


def fitting_nodes(case: Case) -> list[str]:
    """The nodes that would take the pod alone, now or once the pods that are ending there are gone, in the order of
    their names."""
    return case.fitting


def short_now(case: Case, node: NodeView) -> list[str]:
    """The resources of which the node has too little idle as long as the pods that are ending there are not gone."""
    if case.task is None or case.task.best_effort or not node.releasing:
        return []
    return exceeding(case.task.request, node.idle)


def fits_now(case: Case) -> list[str]:
    """The nodes that would take the pod alone at once."""
    nodes = case.cluster.by_name()
    return [name for name in fitting_nodes(case) if not short_now(case, nodes[name])]


def node_row(case: Case, node: NodeView, found: Sequence[Reason], predicates: dict[str, bool]) -> NodeRow:
    """A node's row of the table: what refuses the pod, or what is missing until pods are gone; the predicates'
    verdicts."""
    reasons, after = [reason.line for reason in found], not refuses(found)
    short = short_now(case, node) if after and case.task is not None else []
    for name in short:
        asked, idle = case.task.request.get(name, 0.0) if case.task is not None else 0.0, node.idle.get(name, 0.0)
        released = node.releasing.get(name, 0.0)
        reasons.append(
            f"Insufficient {name}: asks {show(name, asked)}, idle {show(name, idle)} now; {show(name, released)} is "
            "being released"
        )
    return NodeRow(
        node=node.name, fits=after and not short, reasons=reasons, fits_after_release=after, predicates=predicates
    )


def release_node(case: Case) -> str:
    """The node whose ending pods the pod waits for: the one that the scheduler nominated, else the first that fits
    once they are gone; '' when it does not wait for that."""
    fits = fitting_nodes(case)
    if not case.pending or not fits or fits_now(case):
        return ""
    chosen = nominated(case)
    return chosen if chosen in fits else fits[0]


def nominated(case: Case) -> str:
    """The node that the scheduler has named for the pod: nominatedNodeName, else in its own words; '' for none."""
    if case.pod is not None and case.pod.status.nominated_node_name:
        return case.pod.status.nominated_node_name
    condition = case.scheduled_condition
    named = ASSIGNABLE.match(condition.message) if condition is not None else None
    return named.group(1) if named is not None else ""


def claim_stories(task: TaskView, pod: Pod, cluster: ClusterView) -> list[str]:
    """What the cluster has for each claim of a pod that waits for a volume."""
    claims = pod_claims(pod, cluster)
    binding = VolumeBinding(claims, cluster)
    stories = [binding.story(state, cluster.schedulable_nodes()) for state in binding.waiting]
    return [problem.detail for problem in claims.problems] + stories


def claim_evidence(case: Case, pod: Pod | None = None) -> list[Evidence]:
    """The last observation of each claim of the pod (the case's own unless another is given), of its class and of its
    volume; of one that is not there, that the log has none up to the position."""
    pod = pod if pod is not None else case.pod
    if pod is None:
        return []
    found: list[Evidence] = []
    for name, _ in claim_names(pod):
        key = f"{pod.metadata.namespace}/{name}"
        claim = case.cluster.claims.get(key)
        if claim is None:
            found.append(absence(case, "PersistentVolumeClaim", key))
            continue
        found += _seen(case, "PersistentVolumeClaim", key, claim.status.phase or "unbound")
        if claim.spec.volume_name:
            there = claim.spec.volume_name in case.cluster.volumes
            found += _seen(case, "PersistentVolume", claim.spec.volume_name, "its node affinity", there)
        else:
            there = class_name(claim) in case.cluster.classes
            found += _seen(case, "StorageClass", class_name(claim), "its provisioner and binding mode", there)
    return found


def _seen(case: Case, kind: str, key: str, proves: str, there: bool = True) -> list[Evidence]:
    """An object's last observation, or its absence."""
    if not key:
        return []
    if not there:
        return [absence(case, kind, key)]
    position = case.cluster.positions.get((kind, key), 0)
    return [Evidence(position=position, what=f"{kind} {key} as last seen", proves=proves)] if position else []


def telling_nodes(table: Mapping[str, Sequence[Reason]], task: TaskView, cluster: ClusterView) -> list[str]:
    """The nodes that matter for a refusal everywhere: of each reason the one that comes nearest to taking the task
    (the most idle of what is short), the most frequent reason first."""
    nodes = cluster.by_name()
    found = []
    for text, names in by_first_reason(table, cluster):
        there = [name for name in names if name in nodes]
        found += [(-len(there), text, nearest(text, there, task, nodes))] if there else []
    return [name for _, _, name in sorted(found)]


def node_evidence(case: Case, names: Sequence[str]) -> list[Evidence]:
    """The last observation of some nodes, and that the rest is our own evaluation."""
    by_name = case.cluster.by_name()
    found = [
        Evidence(
            position=by_name[name].position, what=f"Node {name} as last seen", proves="its labels, taints and size"
        )
        for name in names
        if name in by_name and by_name[name].position
    ]
    return [
        *found,
        folded(case, "what is idle on each node"),
    ]


def volume_problem(case: Case) -> Finding | None:
    """Volumes are what keeps the pod from running. When other predicates alone rule out every node, that comes
    first."""
    if not case.pending or case.evaluation is None or fitting_nodes(case):
        return None
    evaluation, table = case.evaluation, case.table
    problem = evaluation.problem
    nodes = case.cluster.schedulable_nodes()
    if nodes and not fits_but_for_volumes(table):
        return None
    if problem is None and not (nodes and evaluation.claims.states):
        return None
    message = table_message(table, case.cluster)
    if problem is not None:
        others = evaluation.claims.problems[1:]
        return Finding(
            verdict=problem.verdict,
            causes=[
                problem.detail,
                *_supply(case, problem.claim),
                *(one.detail for one in others),
                "so the scheduler refuses it on every node",
            ],
            summary=problem.detail,
            message=message,
            since=case.claim_since.get(problem.claim, case.since),
            evidence=claim_evidence(case),
        )
    texts = {text for found in table.values() for text in scheduler_reasons(found)}
    return _of_nodes(case, texts, message)


def _supply(case: Case, key: str) -> list[str]:
    """What volumes there are for an unbound claim, and why none of them serves."""
    claim = case.cluster.claims.get(key)
    if claim is None or claim.spec.volume_name:
        return []
    found = search(claim, [volume for _, volume in sorted(case.cluster.volumes.items())])
    asked = (
        f"claim {claim.metadata.name} asks {show_bytes(storage_asked(claim))} of class {class_name(claim) or '(none)'}"
    )
    if found.candidates:
        return [
            f"{asked}: {some([one.volume.metadata.name for one in found.candidates])} would do, yet is not bound to it"
        ]
    rejected = [f"{name} {why}" for name, why in found.rejected]
    return [f"{asked}: {'; '.join(rejected[:5]) or 'there is no volume of that class'}"]


def _of_nodes(case: Case, texts: set[str], message: str) -> Finding | None:
    if case.task is None or case.pod is None:
        return None
    lines = table_causes(case.table, case.task, case.cluster)
    stories = claim_stories(case.task, case.pod, case.cluster)
    if VOLUME_LIMIT in texts:
        verdict, root = "volume-limit", []
    elif VOLUME_ZONE in texts or any(VOLUME_AFFINITY in text for text in texts):
        verdict, root = "volume-node-conflict", _conflicts(case)
    else:
        verdict, root = "no-matching-volume", stories
    nodes = f"so it fits on no node: {'; '.join(lines)}"
    causes = [*root, nodes] if root else [nodes.removeprefix("so "), *stories]
    return Finding(
        verdict=verdict,
        causes=causes,
        summary=causes[0],
        message=message,
        since=case.since,
        evidence=claim_evidence(case) + node_evidence(case, telling_nodes(case.table, case.task, case.cluster)),
    )


def _conflicts(case: Case) -> list[str]:
    """What the bound volumes ask, beside what the pod asks of a node."""
    details = dict.fromkeys(
        reason.detail
        for _, found in sorted(case.table.items())
        for reason in found
        if VOLUME_AFFINITY in reason.text or reason.text == VOLUME_ZONE
    )
    asked = dict.fromkeys(
        reason.detail for _, found in sorted(case.table.items()) for reason in found if reason.family == "node-affinity"
    )
    beside = f", but the pod {'; '.join(asked)}" if asked else ""
    return [f"{'; '.join(details)}{beside}"]


def no_node_fits(case: Case) -> Finding | None:
    """Every node refuses the pod, alone as it is."""
    if not case.pending or case.task is None or case.evaluation is None or fitting_nodes(case):
        return None
    if not case.cluster.schedulable_nodes():
        return Finding(
            verdict="no-node-fits",
            causes=["the cluster has no node that the scheduler could use"],
            message=table_message(case.table, case.cluster),
            since=case.since,
        )
    lines = table_causes(case.table, case.task, case.cluster)
    causes = [f"it fits on no node: {'; '.join(lines)}", *_too_large(case)]
    return Finding(
        verdict="no-node-fits",
        causes=causes,
        summary=causes[0],
        message=table_message(case.table, case.cluster),
        since=case.since,
        evidence=node_evidence(case, telling_nodes(case.table, case.task, case.cluster)),
    )


def _too_large(case: Case) -> list[str]:
    """Resources of which no node has enough even when empty."""
    assert case.task is not None
    if case.task.best_effort:
        return []
    sizes = {id(node.allocatable): node.allocatable for node in case.cluster.schedulable_nodes()}
    short = [name for name in exceeding(case.task.request, {}) if case.task.request.get(name, 0.0) > 0]
    never = [
        name
        for name in short
        if all(name in exceeding({name: case.task.request[name]}, size) for size in sizes.values())
    ]
    return [f"no node has that much {name} even when empty" for name in never]


def waiting_for_release(case: Case) -> Finding | None:
    """It fits only on what pods that are ending will leave."""
    node = release_node(case)
    if not node or case.task is None:
        return None
    view = next(one for one in case.cluster.nodes if one.name == node)
    short = short_now(case, view)
    lacks = ", ".join(
        f"{name}: asks {show(name, case.task.request.get(name, 0.0))}, idle {show(name, view.idle.get(name, 0.0))} now"
        for name in short
    )
    who = f"{node}, the node that the scheduler named for it," if nominated(case) == node else node
    pods = some([f"{one.key} ({_why_ending(one)})" for one in case.ending]) or "the pods that are ending there"
    causes = [f"on {who} it lacks room until {pods} {'is' if len(case.ending) == 1 else 'are'} gone ({lacks})"]
    others = [name for name in fitting_nodes(case) if name != node]
    if others:
        causes.append(f"{counted(len(others), 'more node')} would do once pods that are ending there are gone")
    count = f"{counted(len(case.ending), 'pod')} to end on {node}" if case.ending else f"pods to end on {node}"
    return Finding(
        verdict="waiting-for-release",
        causes=causes,
        summary=f"it waits for {count}",
        message=f"Pod {case.pod_key} can possibly be assigned to {node}, once resource is released and minAvailable is "
        "satisfied",
        since=case.since,
        evidence=_release_evidence(case, node),
    )


def _why_ending(one: Ending) -> str:
    if one.evicted:
        _, _, why = one.evicted.rpartition("because of ")
        return f"evicted: {why}"
    return f"deleted, to be gone by {one.until}" if one.until else "being deleted"


def _release_evidence(case: Case, node: str) -> list[Evidence]:
    """The pods that are ending, what ends them, and the node."""
    found = []
    for one in case.ending[:NAMES_SHOWN]:
        proves = f"it is being deleted ({_why_ending(one)})"
        found.append(Evidence(position=one.position, what=f"Pod {one.key} as last seen", proves=proves))
        if one.evicted_position and one.evicted_position != one.position:
            what = f"event of Pod {one.key}"
            found.append(Evidence(position=one.evicted_position, what=what, proves=f"why it ends: {one.evicted}"))
    return found + node_evidence(case, [node])


def schedulable(case: Case) -> Finding | None:
    """Nothing is found that holds it back."""
    fits = fits_now(case)
    if not case.pending or not fits:
        return None
    rest = why = "the scheduler has yet to bind it"
    if case.group_name and "PodGroup" in case.unwatched:
        rest, why = "its PodGroup is not in the record", "whether its gang is whole is not known without its PodGroup"
    return Finding(
        verdict="schedulable",
        causes=[f"it would fit on {counted(len(fits), 'node')} at this position ({some(fits)}); {why}"],
        summary=f"it fits on {some(fits)}; {rest}",
        since=case.since,
        evidence=node_evidence(case, fits[:1]),
    )
