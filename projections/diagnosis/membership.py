"""The group that a pod belongs to: missing, short of pods, held back by its queue, short of members that fit.

Owns these verdicts. Must not know bind attempts. Called by `projections.diagnosis.explain`.
Sources: Volcano's gang plugin (JobValid), the enqueue action, and the allocate action's trial in `gang`.
"""

from __future__ import annotations

from collections.abc import Sequence

from projections.diagnosis import quotas
from projections.diagnosis.amounts import add
from projections.diagnosis.case import Case
from projections.diagnosis.evidence import (
    absence,
    folded,
    group_evidence,
    queue_evidence,
    quota_evidence,
    said_evidence,
)
from projections.diagnosis.gang import VALID, Trial
from projections.diagnosis.lifecycle import finished, job_evidence, own_evidence
from projections.diagnosis.model import Evidence, Finding, Said
from projections.diagnosis.queues import Gate, enqueue_gates, ghost_gate, queue_gate, share_gate
from projections.diagnosis.reasons import scheduler_reasons
from projections.diagnosis.views import GROUP_ANNOTATIONS, Amounts, TaskView
from projections.diagnosis.words import (
    counted,
    group_message,
    histogram,
    some,
    status_counts,
    table_causes,
    task_message,
)

TRIED_REASONS = ("Unschedulable", "Schedulable", "SchedulerError")
"""Reasons of a PodScheduled condition that only a scheduler gives after a try."""

PROVISIONING_REASONS = ("Provisioning", "ExternalProvisioning", "ProvisioningFailed")
"""Events about a claim that waits for its first consumer; they come only once a node was chosen for it."""


def podgroup_missing(case: Case) -> Finding | None:
    """No annotation names a group, or the group it names does not exist. A record without any list or watch of
    PodGroups does not show that, nor that the scheduler needs one."""
    if not case.is_job and (not case.pending or "PodGroup" in case.unwatched):
        return None
    if case.is_job:
        return _job_without_group(case)
    if not case.group_name and was_tried(case):
        return None
    if not case.group_name:
        return Finding(
            verdict="podgroup-missing",
            causes=[
                f"it names no PodGroup (annotation {GROUP_ANNOTATIONS[0]}): Volcano schedules pods of a PodGroup "
                "only, and the podgroup controller (vc-controller-manager), which makes one for a bare pod, has not"
            ],
            summary="the pod has no PodGroup",
            since=case.created,
            evidence=own_evidence(case, "it has no group annotation"),
        )
    if case.group is None or case.group.pod_group is None:
        name = f"{case.namespace}/{case.group_name}"
        return Finding(
            verdict="podgroup-missing",
            causes=[
                f"PodGroup {name} does not exist: its job has no queue and no minimum, so the scheduler leaves it out"
            ],
            summary=f"PodGroup {name} does not exist",
            since=case.created,
            evidence=[*own_evidence(case, f"it names PodGroup {name}"), absence(case, "PodGroup", name)],
        )
    return None


def was_tried(case: Case) -> bool:
    """Whether a scheduler has evidently tried the pod: it wrote about it, attempted to bind it, or chose a node for one
    of its claims. A pod without a group is then no obstacle to whoever schedules it."""
    own = f"Pod {case.pod_key}"
    spoke = any(one.about == own and one.reason in {"FailedScheduling", *TRIED_REASONS} for one in case.said)
    states = case.evaluation.claims.states if case.evaluation is not None else []
    chosen = any(state.selected_node for state in states)
    asked = {f"PersistentVolumeClaim {state.key}" for state in states if state.provisioner}
    provisioned = any(one.about in asked and one.reason in PROVISIONING_REASONS for one in case.said)
    return spoke or chosen or provisioned or bool(case.attempts)


def _job_without_group(case: Case) -> Finding | None:
    if case.group is not None and case.group.pod_group is not None:
        return None
    if finished(case) is not None:
        return None
    queue = case.job.spec.queue if case.job is not None else ""
    gate = queue_gate(queue, case.cluster) if queue else None
    if gate is not None:
        return _gate_finding(case, gate, ["so the job controller has made no PodGroup, and no pods"])
    if case.job is None and case.group is not None:
        counts = histogram(status_counts(case.group.tasks)) or "none"
        return Finding(
            verdict="podgroup-missing",
            causes=[f"PodGroup {case.key} does not exist at this position; the pods that name it: {counts}"],
            summary="the PodGroup does not exist at this position",
            evidence=[absence(case, "PodGroup", case.key)],
        )
    return Finding(
        verdict="podgroup-missing",
        causes=[f"job {case.key} has no PodGroup yet: the job controller (vc-controller-manager) makes it"],
        summary="no PodGroup has been made for the job",
        since=case.created,
        evidence=[*job_evidence(case, "the job is there"), absence(case, "PodGroup", f"of Job {case.key}")],
    )


def members_missing(case: Case) -> Finding | None:
    """Fewer live members than minMember. A Volcano Job's pods come only once its PodGroup is in the queue, so before
    that their absence is no cause."""
    group = case.group
    if group is None or group.pod_group is None or not (case.pending or case.is_job):
        return None
    valid = sum(1 for task in group.tasks if task.status in VALID)
    short = _roles_short(case)
    if valid >= group.min_member and not short:
        return None
    if group.pod_group.status.phase in {"", "Pending"} and group.owner.startswith("Job "):
        return None
    owner = group.owner or "whoever makes its pods"
    cause = f"PodGroup {group.key} asks for {group.min_member} members and has {valid}: {owner} has yet to make them"
    if short:
        cause += f" ({'; '.join(short)})"
    refusing = quotas.refusing(group, case.planned, max(1, group.min_member - valid), case.cluster)
    return Finding(
        verdict="members-missing",
        causes=[*(quotas.told(key, over) for key, over in refusing.items()), cause],
        summary=f"{valid} of the {group.min_member} members that the gang needs exist",
        message=f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {group.min_member}",
        since=case.created,
        evidence=group_evidence(case, f"minMember is {group.min_member}") + quota_evidence(case, list(refusing)),
    )


def _roles_short(case: Case) -> list[str]:
    """Roles with fewer valid members than their own minimum (CheckTaskValid)."""
    group = case.group
    minimums = (
        group.pod_group.spec.min_task_member if group is not None and group.pod_group is not None else None
    ) or {}
    if group is None or group.min_member < sum(minimums.values()):
        return []
    found = {role: sum(1 for t in group.tasks if t.role == role and t.status in VALID) for role in minimums}
    return [
        f"role {role} has {found[role]} of {least}" for role, least in sorted(minimums.items()) if found[role] < least
    ]


def queue_gates(case: Case) -> list[Finding]:
    """The PodGroup is not taken into its queue, or its queue takes nothing more."""
    group = case.group
    if group is None or group.pod_group is None or not (case.pending or case.is_job):
        return []
    gate = queue_gate(group.pod_group.spec.queue, case.cluster)
    findings = [_gate_finding(case, gate, [])] if gate is not None else []
    if group.pod_group.status.phase in {"", "Pending"} and (gate is None or gate.verdict != "queue-missing"):
        findings += _enqueue_findings(case)
    return findings


def _enqueue_findings(case: Case) -> list[Finding]:
    assert case.group is not None
    then = _not_enqueued(case)
    gates = enqueue_gates(case.group, dict(case.asked_min), case.cluster)
    refused = case.said_of("event", "Unschedulable")
    named = [gate for gate in gates if any(one.message == gate.said for one in refused)]
    findings = [_gate_finding(case, gate, [then]) for gate in sorted(gates, key=lambda gate: gate not in named)]
    if findings:
        return findings
    if not case.is_job and was_tried(case):
        return []
    last = [
        one for one in refused if one.message.startswith(("resource in cluster", "queue resource quota", quotas.SAID))
    ]
    causes = [f"PodGroup {case.group.key} is still Pending: the scheduler has not taken it into queue {_queue(case)}"]
    if last:
        causes.append(
            f"the scheduler wrote {last[-1].message!r}, which our evaluation at this position does not bear out"
        )
    verdict = "podgroup-pending"
    return [
        Finding(
            verdict=verdict,
            causes=causes,
            summary=f"the PodGroup is not yet in queue {_queue(case)}",
            message=last[-1].message if last else "",
            since=case.created,
            evidence=group_evidence(case, "phase Pending") + said_evidence(last[-1:], "what the scheduler said"),
        )
    ]


def _queue(case: Case) -> str:
    return case.group.pod_group.spec.queue if case.group is not None and case.group.pod_group is not None else ""


def _not_enqueued(case: Case) -> str:
    assert case.group is not None
    tail = "" if case.group.tasks else ", so its job has made no pods yet"
    return f"so PodGroup {case.group.key} stays Pending, outside queue {_queue(case)}{tail}"


def _gate_finding(case: Case, gate: Gate, then: list[str]) -> Finding:
    said = [one for one in case.said_of("event", "Unschedulable") if one.message == gate.said] if gate.said else []
    causes = [gate.text, *then]
    return Finding(
        verdict=gate.verdict,
        causes=causes,
        summary=gate.text,
        message=gate.said or gate.text,
        since=_refused_since(case, said),
        evidence=_gate_evidence(case, gate) + said_evidence(said[-1:], "the refusal"),
    )


def _refused_since(case: Case, said: Sequence[Said]) -> str | None:
    """Since the first refusal that was said, unless a later break is known."""
    first = said[0].first if said else None
    return max(first, case.since or "") if first else case.since


def _gate_evidence(case: Case, gate: Gate) -> list[Evidence]:
    """Who names the queue, the queue, and what there is and is taken where the gate is about amounts."""
    found = group_evidence(case, "its phase, queue and minResources")
    queue = _queue(case)
    if not found and case.job is not None:
        found, queue = job_evidence(case, "the queue that it names"), case.job.spec.queue
    if gate.verdict not in {"cluster-overused", "quota-exceeded"}:
        found += queue_evidence(case, queue)
    if gate.verdict == "quota-exceeded":
        found += quota_evidence(case, [key for key, _ in quotas.of_namespace(case.namespace, case.cluster)])
    if gate.verdict not in {"queue-missing", "queue-closed"}:
        found.append(folded(case, "what the queue's jobs hold and ask, and what the nodes have"))
    return found


def queue_share(case: Case) -> Finding | None:
    """The queue has its share, so its pending tasks are passed over. Where the scheduler names nodes for this pod, it
    did try it, so the queue was no obstacle."""
    group, task = case.group, case.task
    if group is None or group.pod_group is None or task is None or not case.pending:
        return None
    condition = case.scheduled_condition
    if condition is not None and "nodes are unavailable" in condition.message:
        return None
    if group.pod_group.status.phase in {"", "Pending"}:
        return None
    asking = _held_to_the_share(case, task)
    if asking is None:
        return None
    queue = group.pod_group.spec.queue
    gate = share_gate(queue, _asked(case, asking), case.cluster)
    if gate is None and passed_over(case):
        gate = ghost_gate(queue, case.cluster)
    if gate is None:
        return None
    finding = _gate_finding(case, gate, ["so the scheduler passes its pending pods over until the queue holds less"])
    trial = case.trial
    return Finding(
        verdict=finding.verdict,
        causes=finding.causes,
        summary=finding.summary,
        since=finding.since,
        message=group_message(group, None, case.cluster) if trial is None else _passed_over(case),
        evidence=finding.evidence,
    )


def _held_to_the_share(case: Case, task: TaskView) -> TaskView | None:
    """Whose request the queue's share is compared with. What asks for nothing is placed by backfill, which asks no
    queue: it waits for the share only with the mates that its gang lacks."""
    if not task.best_effort:
        return task
    trial = case.trial
    return next(iter(trial.order), None) if trial is not None and trial.ready < trial.needed else None


def _asked(case: Case, task: TaskView) -> Amounts:
    """What the proportion plugin compares. Attachments that no CSINode reports count only where the scheduler has
    passed the group over without naming a node, as only then it can have asked for them (the default-queue trap)."""
    return add(task.request, task.unreported) if passed_over(case) else task.request


def passed_over(case: Case) -> bool:
    """Whether the scheduler has written that the group waits, without naming any node: it has not tried its tasks."""
    refusals = case.said_of("condition", "Unschedulable", "NotEnoughResources")
    return any(
        "pod group is" in one.message and "Origin reason" not in one.message and "Pipelined" not in one.message
        for one in refusals
    )


def _passed_over(case: Case) -> str:
    """The pod's sentence when no task was tried but by backfill: every pending one counts as unschedulable."""
    assert case.group is not None and case.trial is not None and case.task is not None
    return task_message(case.task, case.group, case.trial.untried_all(), case.cluster)


def gang_short(case: Case) -> Finding | None:
    """Fewer members can be placed together than the gang needs: the first that fits nowhere is what breaks it."""
    group, trial = case.group, case.trial
    if group is None or trial is None or trial.short == 0 or group.min_member <= 1 or not trial.order:
        return None
    if not (case.pending or case.is_job):
        return None
    breaker = trial.breaker
    needed = f"the gang needs {group.min_member} members at once: {trial.ready} hold a place already, "
    needed += f"{len(trial.placed)} more could have one, so it is short by {trial.short} and none of its pending pods "
    needed += "is bound"
    root = _breaker_causes(case, trial, breaker) if breaker is not None else _gated_causes(case)
    summary = f"the gang is short by {trial.short} of {group.min_member}"
    if breaker is not None:
        summary += f": {'this pod' if breaker.uid == case.uid else breaker.name} fits on no node"
    return Finding(
        verdict="gang-short",
        causes=[*root, needed],
        summary=summary,
        since=case.since,
        message=group_message(group, trial, case.cluster),
        evidence=_gang_evidence(case, trial, breaker),
    )


def _gang_evidence(case: Case, trial: Trial, breaker: TaskView | None) -> list[Evidence]:
    """The PodGroup, the member that breaks the gang, and the nodes that come nearest to taking it."""
    from projections.diagnosis.placement import claim_evidence, node_evidence, telling_nodes

    assert case.group is not None
    found = group_evidence(case, f"minMember is {case.group.min_member}")
    if breaker is None or breaker.pod is None:
        return found
    if breaker.position:
        what = f"Pod {breaker.key} as last seen"
        found.append(Evidence(position=breaker.position, what=what, proves="what it asks for, and that it has no node"))
    table = trial.failed[breaker.uid]
    if any("volumes" in text for reasons in table.values() for text in scheduler_reasons(reasons)):
        found += claim_evidence(case, breaker.pod)
    return found + node_evidence(case, telling_nodes(table, breaker, case.cluster))


def _breaker_causes(case: Case, trial: Trial, breaker: TaskView) -> list[str]:
    table = trial.failed[breaker.uid]
    lines = table_causes(table, breaker, case.cluster)
    placed = len(trial.placed)
    first = (
        f"after {counted(placed, 'other member')} took {'its' if placed == 1 else 'their'} place, " if placed else ""
    )
    who = "this pod" if breaker.uid == case.uid else "task"
    head = f"{who} {breaker.name} breaks the gang: {first}it fits on no node: {'; '.join(lines)}"
    return [head, *_volume_stories(case, breaker, table)]


def _volume_stories(case: Case, breaker: TaskView, table: dict[str, list]) -> list[str]:  # type: ignore[type-arg]
    """What there is for the breaker's claims, when volumes are what it lacks."""
    from projections.diagnosis.placement import claim_stories

    if breaker.pod is None or not any(
        "volumes" in text for found in table.values() for text in scheduler_reasons(found)
    ):
        return []
    return claim_stories(breaker, breaker.pod, case.cluster)


def _gated_causes(case: Case) -> list[str]:
    assert case.group is not None
    gated = [task.name for task in case.group.tasks if task.gated and task.status == "Pending"]
    if gated:
        return [f"{counted(len(gated), 'member')} with scheduling gates: {some(gated)}"]
    return [f"members of {case.group.key} are neither placed nor waiting"]
