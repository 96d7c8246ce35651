"""What became of the scheduler's attempts: volumes being made, refused, not bound in time; binds that failed;
evictions.

Owns these verdicts. Must not know nodes' predicates. Called by `projections.diagnosis.explain`.
An attempt is known from an audit line or our own bind flow; else from the scheduler's Events and the pod's condition,
whose wording (`failed to bind to node N: …`, `execute preBind for pod P failed: …`) is Volcano's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from projections.diagnosis.case import Attempt, Case
from projections.diagnosis.claims import ClaimState, class_name, pod_claims
from projections.diagnosis.lifecycle import every_try_recorded, times_recorded
from projections.diagnosis.model import Evidence, Finding, Said
from projections.diagnosis.placement import claim_evidence
from projections.diagnosis.words import counted

BIND_MESSAGE = re.compile(r"failed to bind to node (\S+): (.*)", re.DOTALL)
PREBIND_MESSAGE = re.compile(r"execute preBind for pod \S+ failed: (.*?)(?:, resync the task)?$", re.DOTALL)
TIMED_OUT = ("context deadline exceeded", "timed out", "DeadlineExceeded")
CONFLICTED = ("the object has been modified", "Conflict")


def _messages(case: Case, pattern: re.Pattern[str]) -> list[Said]:
    """Events and the condition of the pod whose message is of that form; the condition only where no Event says the
    same."""
    events = [one for one in case.said_of("event", "FailedScheduling") if pattern.match(one.message)]
    seen = {one.message for one in events}
    condition = case.scheduled_condition
    if condition is not None and pattern.match(condition.message) and condition.message not in seen:
        events.append(condition)
    return sorted(events, key=lambda one: (one.first or "", one.position))


def _latest_message(case: Case, said: Sequence[Said], pattern: re.Pattern[str]) -> str:
    """The scheduler's sentence: the condition's, where it is of that form, else the last Event's."""
    condition = case.scheduled_condition
    if condition is not None and pattern.match(condition.message):
        return condition.message
    return said[-1].message if said else ""


def _span(firsts: Sequence[str | None], lasts: Sequence[str | None]) -> tuple[str | None, str | None]:
    first = [one for one in firsts if one]
    last = [one for one in lasts if one]
    return (min(first) if first else None, max(last) if last else None)


def _between(first: str | None, last: str | None) -> str:
    if first is None:
        return ""
    return f" at {first}" if last in {None, first} else f" between {first} and {last}"


def bind_failed(case: Case) -> Finding | None:
    """Binds that the API server refused or did not answer, since the last that went through."""
    if not case.pending:
        return None
    tries = [one for one in case.attempts if one.kind == "bind" and not one.ok]
    said = _messages(case, BIND_MESSAGE)
    if not tries and not said:
        return None
    counts: dict[str, int] = {}
    if tries:
        for one in tries:
            code = str(one.code) if one.code else "no answer"
            key = f"{code} {one.message or one.reason} (node {one.node})"
            counts[key] = counts.get(key, 0) + 1
        first, last = _span([one.time for one in tries], [one.time for one in tries])
    else:
        for word in said:
            found = BIND_MESSAGE.match(word.message)
            key = f"{found.group(2)} (node {found.group(1)})" if found else word.message
            counts[key] = counts.get(key, 0) + word.count
        first, last = _span([one.first for one in said], [one.last for one in said])
    lines = "; ".join(f"{count} x {text}" if count > 1 else text for text, count in counts.items())
    told = sum(one.count for one in said)
    times = times_recorded(max(sum(counts.values()), told), every_try_recorded(len(tries), told))
    head = f"the bind failed {times}{_between(first, last)}: {lines}"
    return Finding(
        verdict="bind-failed",
        causes=[head, "the scheduler takes it back each time, reads it again and tries anew"],
        summary=head,
        message=_latest_message(case, said, BIND_MESSAGE),
        since=first,
        evidence=_evidence(tries, said, "a bind that failed"),
    )


def _evidence(tries: Sequence[Attempt], said: Sequence[Said], proves: str) -> list[Evidence]:
    found = [
        Evidence(position=one.position, what=f"{one.kind} attempt at {one.time}", proves=proves, known=one.known)
        for one in [*tries[:1], *tries[1:][-2:]]
    ]
    found += [
        Evidence(
            position=one.position, what=f"{one.source} {one.reason} of {one.about}", proves=proves, known=one.known
        )
        for one in said[-2:]
        if one.position
    ]
    return found


def volume_attempts(case: Case) -> Finding | None:
    """Attempts to bind the volumes that ended badly: out of time, in a conflict, or refused."""
    if not case.pending:
        return None
    tries = [one for one in case.attempts if one.kind == "volumes" and not one.ok]
    said = _messages(case, PREBIND_MESSAGE)
    if not tries and not said:
        return None
    texts = [_try_text(one) for one in tries]
    for word in said:
        found = PREBIND_MESSAGE.match(word.message)
        texts += [found.group(1) if found else word.message] * word.count
    first, last = _span(
        [*(t.time for t in tries), *(s.first for s in said)], [*(t.time for t in tries), *(s.last for s in said)]
    )
    if any(one.timed_out for one in tries) or any(mark in text for text in texts for mark in TIMED_OUT):
        verdict = "volume-bind-timeout"
    elif any(one.code == 409 for one in tries) or any(mark in text for text in texts for mark in CONFLICTED):
        verdict = "volume-conflict"
    else:
        verdict = "volume-bind-failed"
    distinct = list(dict.fromkeys(texts))
    told = sum(one.count for one in said)
    times = times_recorded(max(len(tries), told), every_try_recorded(len(tries), told))
    head = f"binding its volumes failed {times}{_between(first, last)}: {'; '.join(distinct[-3:])}"
    states = [state for state in _states(case) if state.delayed]
    roots = [_waits_for(case, state) for state in states] if verdict == "volume-bind-timeout" else []
    causes = [*roots, head, "each time the scheduler takes the pod back and tries anew"]
    return Finding(
        verdict=verdict,
        causes=causes,
        summary=causes[0] if roots else head,
        message=_latest_message(case, said, PREBIND_MESSAGE),
        since=first,
        evidence=_evidence(tries, said, "an attempt that failed") + claim_evidence(case),
    )


def _try_text(attempt: Attempt) -> str:
    parts = [attempt.object, str(attempt.code) if attempt.code else "", attempt.reason, attempt.message]
    return " ".join(part for part in parts if part)


def _states(case: Case) -> list[ClaimState]:
    return pod_claims(case.pod, case.cluster).states if case.pod is not None else []


def _about_claim(case: Case, state: ClaimState, *reasons: str) -> list[Said]:
    about = f"PersistentVolumeClaim {state.key}"
    return [one for one in case.said if one.source == "event" and one.about == about and one.reason in reasons]


def _waits_for(case: Case, state: ClaimState) -> str:
    """Who has yet to make the volume."""
    where = f" for node {state.selected_node}" if state.selected_node else ""
    waits = _about_claim(case, state, "ExternalProvisioning", "Provisioning")
    times = sum(one.count for one in waits)
    heard = f"; the controller has reminded {counted(times, 'time')} that it waits" if times else ""
    provisioner = state.provisioner or "nobody"
    return (
        f"claim {state.name} (class {class_name(state.claim)}) waits for provisioner {provisioner} to make its "
        f"volume{where}, and none has come{heard}: is {provisioner} running?"
    )


def provisioning_failed(case: Case) -> Finding | None:
    """The provisioner says that it could not make a volume."""
    if not case.pending:
        return None
    for state in _states(case):
        if state.bound:
            continue
        failures = _about_claim(case, state, "ProvisioningFailed")
        if not failures:
            continue
        count = sum(one.count for one in failures)
        first, last = _span([one.first for one in failures], [one.last for one in failures])
        texts = "; ".join(dict.fromkeys(one.message for one in failures))
        head = (
            f"provisioning a volume for claim {state.name} (class {class_name(state.claim)}) failed "
            f"{counted(count, 'time')}{_between(first, last)}: {texts}"
        )
        return Finding(
            verdict="provisioning-failed",
            causes=[head, "each time the claim loses its selected node, and the scheduler chooses one anew"],
            summary=head,
            message=failures[-1].message,
            since=first,
            evidence=_evidence([], failures, "the provisioner's refusal") + claim_evidence(case),
        )
    return None


def provisioning(case: Case) -> Finding | None:
    """A node was chosen and the volume is being made: the task is on its way, though the pod does not show it."""
    if not case.pending:
        return None
    waiting = [state for state in _states(case) if state.delayed and state.selected_node]
    if not waiting:
        return None
    node = waiting[0].selected_node
    causes = [_waits_for(case, state) for state in waiting]
    causes.append(f"the scheduler has assumed node {node} for the pod and binds it when the volume is there")
    since = [case.claim_since[state.key] for state in waiting if state.key in case.claim_since]
    return Finding(
        verdict="provisioning",
        causes=causes,
        summary=f"volume binding is in flight: claim {waiting[0].name} is being provisioned for node {node}",
        since=min(since) if since else case.since,
        evidence=claim_evidence(case),
    )


def condition_failed(case: Case) -> Finding | None:
    """The scheduler could not write the pod's condition."""
    tries = [one for one in case.attempts if one.kind == "condition" and not one.ok]
    if not case.pending or not tries:
        return None
    first, last = _span([one.time for one in tries], [one.time for one in tries])
    times = f"{counted(len(tries), 'time')}{_between(first, last)}"
    head = f"the pod's condition could not be written {times}: {_try_text(tries[-1])}"
    return Finding(
        verdict="condition-failed",
        causes=[head],
        since=first,
        evidence=_evidence(tries, [], "a status write that failed"),
    )


def evicted(case: Case) -> Finding | None:
    """The pod itself, or the earlier one of its name, was evicted."""
    own = case.said_of("event", "Evict", "Evicted", "Preempted")
    own = [one for one in own if one.about == f"Pod {case.pod_key}"]
    if own:
        return Finding(
            verdict="evicted",
            causes=[f"it was evicted: {own[-1].message} ({own[-1].last})"],
            since=own[-1].first,
            evidence=_evidence([], own, "the eviction"),
        )
    for earlier in case.earlier:
        if earlier.evicted:
            return Finding(
                verdict="evicted",
                causes=[
                    f"an earlier pod of this name (uid {earlier.uid}) was evicted and gone at {earlier.gone_at}: "
                    f"{earlier.evicted}"
                ],
                since=earlier.gone_at,
                evidence=[
                    Evidence(
                        position=earlier.position,
                        what=f"Pod {case.pod_key} (uid {earlier.uid}) deleted",
                        proves="the eviction that this pod takes the place of",
                        known=earlier.known,
                    )
                ],
            )
    return None
