"""The verdict: the first check that holds, the others under it, and everything that proves it.

Owns the order (design, section 9) and the putting together. Must not know how a single check works, nor the log. Called
by `vcledger.why`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from projections.diagnosis import coverage, lifecycle, membership, outcomes, placement
from projections.diagnosis.agreement import disagreement, phrased
from projections.diagnosis.case import Case
from projections.diagnosis.changes import smallest_changes
from projections.diagnosis.evidence import said_evidence
from projections.diagnosis.model import VERDICTS, Evidence, Explanation, Finding, NodeRow, Other, Said
from projections.diagnosis.numbers import Verdicts, members, queue_numbers
from projections.diagnosis.overflow import overflow_notes
from projections.diagnosis.preemption import preemption
from projections.diagnosis.quotas import SAID
from projections.diagnosis.reasons import Reason
from projections.diagnosis.words import counted, histogram, refusals, scheduler_table, status_counts, task_message

CHECKS: tuple[Callable[[Case], Finding | list[Finding] | None], ...] = (
    lifecycle.not_this_scheduler,
    lifecycle.gated,
    lifecycle.finished,
    lifecycle.deleted,
    lifecycle.scheduled,
    membership.podgroup_missing,
    membership.members_missing,
    membership.queue_gates,
    membership.queue_share,
    membership.gang_short,
    placement.volume_problem,
    placement.no_node_fits,
    outcomes.provisioning_failed,
    outcomes.volume_attempts,
    outcomes.provisioning,
    outcomes.bind_failed,
    outcomes.condition_failed,
    outcomes.evicted,
)
"""The checks in the order of their verdicts. Volumes come before the nodes only where they alone rule the nodes out."""

LAST: tuple[Callable[[Case], Finding | None], ...] = (placement.waiting_for_release, placement.schedulable)
"""Checks that count only when nothing else holds."""

BLOCKED_BY_NODES = ("no-node-fits", "gang-short", "no-matching-volume", "volume-node-conflict", "volume-limit")


def explain(case: Case) -> Explanation:
    """The answer to a case. Pure: equal cases have equal answers."""
    _heed_quotas(case)
    findings = _findings(case)
    first, others = findings[0], findings[1:]
    fits = case.fitting
    ours, table = _message(case, first)
    said = _latest(case)
    judged = scheduler_table(table, case.cluster)
    theirs = said.message if said is not None else ""
    differing = disagreement(ours, theirs, judged, fits) if case.pending else ""
    differing_facts = ([differing] if differing else []) + list(case.late_facts)
    group, shown = case.group, _shows_nodes(case, first)
    return Explanation(
        subject=f"{case.kind} {case.key}",
        namespace=case.namespace,
        name=case.name,
        uid=case.uid,
        at=case.at,
        time=case.now,
        verdict=first.verdict,
        summary=first.text,
        message=phrased(ours, theirs, judged, fits),
        since=first.since,
        causes=[*first.causes, *_group_note(case, first)],
        also=[Other(verdict=one.verdict, text=one.text) for one in others],
        nodes=_rows(case) if shown else [],
        fits_on=placement.fits_now(case) if shown else [],
        refused=refusals(case.table, case.task, case.cluster) if shown and case.task is not None else [],
        said=list(case.said),
        evidence=_evidence(case, [first, *others]),
        disagreements=differing_facts,
        gaps=list(case.gaps),
        notes=[*case.notes, *coverage.unwatched_notes(case), *overflow_notes(case.task)],
        asked=case.asked,
        group=group.key if group is not None else "",
        queue=group.pod_group.spec.queue if group is not None and group.pod_group is not None else "",
        phase=case.pod.status.phase if case.pod is not None else "",
        changes=smallest_changes(case, first.verdict) if _searches(case, first) else [],
        numbers=queue_numbers(case) if _waits(case) else None,
        members=members(case) if case.searches else [],
        preemption=preemption(case) if _searches(case, first) else None,
    )


def _heed_quotas(case: Case) -> None:
    """A scheduler that wrote of a quota asks for them, whatever is known of its configuration."""
    rules = case.cluster.rules
    if not rules.quota and any(one.message.startswith(SAID) for one in case.said_of("event", "Unschedulable")):
        case.cluster = replace(case.cluster, rules=replace(rules, quota=True))


def _waits(case: Case) -> bool:
    return case.searches and (case.pending or case.is_job)


def _searches(case: Case, first: Finding) -> bool:
    """Whether changes are looked for: the subject waits, and they were asked for."""
    settled = {"finished", "scheduled", "deleted", "terminating", "running", "schedulable", "waiting-for-release"}
    return first.verdict not in settled and _waits(case)


def _findings(case: Case) -> list[Finding]:
    found: list[Finding] = []
    for check in CHECKS:
        result = check(case)
        if isinstance(result, list):
            found += result
        elif result is not None:
            found.append(result)
    blocking = [one for one in found if one.verdict not in {"evicted"}]
    if not blocking:
        found = [one for check in LAST if (one := check(case)) is not None] + found
    if not found:
        found = [_nothing(case)]
    return found


def _nothing(case: Case) -> Finding:
    """A job whose pods all have their place, or a pod about which nothing can be said."""
    if case.is_job and case.group is not None:
        counts = histogram(status_counts(case.group.tasks)) or "no pods"
        phase = case.group.pod_group.status.phase if case.group.pod_group is not None else ""
        return Finding(
            verdict="running",
            causes=[f"no pod of {case.group.key} waits for a node: {counts}; PodGroup phase {phase or 'unknown'}"],
            summary=f"no pod waits for a node: {counts}",
        )
    phase = case.pod.status.phase if case.pod is not None else "unknown"
    return Finding(verdict="schedulable", causes=[f"phase {phase}, and nothing is found that holds it back"])


def _shows_nodes(case: Case, first: Finding) -> bool:
    """The node table belongs to a pod that waits for one."""
    return case.pending and first.verdict not in {"not-this-scheduler", "deleted", "finished"}


def _rows(case: Case) -> list[NodeRow]:
    """A row for each node; the words of refusals that nodes share are made once."""
    nodes, verdicts = case.cluster.by_name(), Verdicts(case)
    known: dict[int, NodeRow] = {}
    rows = []
    for name, found in sorted(case.table.items()):
        like = known.get(id(found))
        if like is None:
            like = placement.node_row(case, nodes[name], found, verdicts.of(found))
            if not like.fits_after_release:
                known[id(found)] = like
            rows.append(like)
        else:
            rows.append(NodeRow(node=name, fits=False, reasons=like.reasons, predicates=like.predicates))
    return rows


def _message(case: Case, first: Finding) -> tuple[str, Mapping[str, Sequence[Reason]]]:
    """The scheduler's sentence for this pod, and the table that it sums up."""
    trial, task = case.trial, case.task
    if not case.pending or task is None or trial is None or case.group is None:
        return first.message or first.text, case.table
    table = trial.failed.get(task.uid, case.table)
    if first.verdict in BLOCKED_BY_NODES or first.verdict.startswith(("pvc-", "storageclass-")):
        return task_message(task, case.group, trial, case.cluster), table
    return first.message or first.text, table


def _latest(case: Case) -> Said | None:
    """The pod's condition, else its latest FailedScheduling event."""
    condition = case.scheduled_condition
    if condition is not None:
        return condition
    events = case.said_of("event", "FailedScheduling")
    return max(events, key=lambda one: (one.last or "", one.position)) if events else None


def _group_note(case: Case, first: Finding) -> list[str]:
    """That the PodGroup runs without this pod."""
    group = case.group
    if not case.pending or group is None or group.pod_group is None or first.verdict in {"gang-short", "gated"}:
        return []
    if group.pod_group.status.phase != "Running":
        return []
    return [
        f"PodGroup {group.key} is Running all the same: its minimum of {counted(group.min_member, 'member')} is met "
        f"({histogram(status_counts(group.tasks))})"
    ]


def _evidence(case: Case, findings: Sequence[Finding]) -> list[Evidence]:
    """The verdict's proofs, then the pod itself and what the scheduler last said, then those of the other findings;
    each position once for the same thing."""
    unique: dict[tuple[int, str], Evidence] = {}
    proofs = list(findings[0].evidence)
    if case.pod is not None and not case.gone_at:
        phase = case.pod.status.phase or "Pending"
        proofs += lifecycle.own_evidence(case, f"phase {phase}, node {case.pod.spec.node_name or 'none'}")
    condition = case.scheduled_condition
    if condition is not None:
        proofs += said_evidence([condition], "what the scheduler said")
    proofs += [one for finding in findings[1:] for one in finding.evidence]
    for one in proofs:
        unique.setdefault((one.position, one.what), one)
    return list(unique.values())


def rank(verdict: str) -> int:
    """A verdict's place in the table."""
    return list(VERDICTS).index(verdict)
