"""The volume binder: what a task's claims would take on a node, the updates one after the other, the wait, the end.

Owns the decisions of bindAPIUpdate and BindPodVolumes. Must not know how a claim is matched
(`vcledger.scheduler.place`) nor checked (`vcledger.scheduler.checks`). Called by `vcledger.scheduler.binder` and
`.decide`.

Source: the seed's BindPodVolumes and bindAPIUpdate; kube-scheduler's volumeBinder.
"""

from __future__ import annotations

import msgspec

from vcledger.scheduler import binder
from vcledger.scheduler.checks import Outcome, check_bindings
from vcledger.scheduler.decision import RECORDED, Failure, Hand, failure_of, pod_subject, ref_of
from vcledger.scheduler.fold_tasks import assumed_of
from vcledger.scheduler.fold_volumes import updating
from vcledger.scheduler.inputs import Noticed
from vcledger.scheduler.queues import backoff_microseconds
from vcledger.scheduler.requests import Answer, Get, Update
from vcledger.scheduler.state import SECOND, Doubt, Flow, FlowTask, Intent
from vcledger.scheduler.transitions import Phase
from volcano.events.base import Subject, TaskRef
from volcano.events.recovery import InDoubtAsked, InDoubtQueued, InDoubtResolved, Verdict
from volcano.events.volume import (
    BindingChecked,
    PVCUpdateFailed,
    PVCUpdateRequested,
    PVCUpdateSucceeded,
    PVUpdateFailed,
    PVUpdateRequested,
    PVUpdateSucceeded,
    VolumeBindingFailed,
    VolumesBound,
    VolumesReverted,
)
from volcano.objects import kinds
from volcano.objects.core import PersistentVolume, PersistentVolumeClaim

KIND_OF = {"pv": "PersistentVolume", "pvc": "PersistentVolumeClaim"}


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Meta | None = None


_object = msgspec.json.Decoder(_Object)


def version_in(body: bytes) -> str:
    """The resourceVersion of an answered object, '' when there is none."""
    try:
        found = _object.decode(body) if body else _Object()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return found.metadata.resource_version if found.metadata is not None else ""


def written_names(flow: Flow, volumes: list[str], claims: list[str]) -> tuple[str, ...]:
    """Those of the assumptions, `kind/name`, that the API server has taken already."""
    names = [f"PersistentVolume/{name}" for name in volumes if flow.volumes.assumed[name].written]
    return (*names, *(f"PersistentVolumeClaim/{name}" for name in claims if flow.claims.assumed[name].written))


def claims_with(task: FlowTask, volumes: list[str], claims: list[str]) -> tuple[str, ...]:
    """The claims that are no longer as if bound: those of the volumes, then those for which one was to be made."""
    return (*(one.claim for one in task.bindings if one.volume in volumes), *claims)


# --- the updates --------------------------------------------------------------------------------------------------


def _subject(flow: Flow, kind: str, key: str) -> Subject:
    namespace, _, name = key.rpartition("/")
    held = flow.volumes.assumed.get(key) if kind == "pv" else flow.claims.assumed.get(key)
    api = flow.volumes.api.get(key) if kind == "pv" else flow.claims.api.get(key)
    uid = held.object.metadata.uid if held is not None else api.metadata.uid if api is not None else ""
    return Subject(KIND_OF[kind], namespace, name, uid)


def request_next(hand: Hand, task: FlowTask, cause: int | None = None, index: int | None = None) -> None:
    """PUT of the volume, or then of the claim, that comes next in order."""
    flow = hand.flow
    index = task.written if index is None else index
    cause = task.cause if cause is None else cause
    if index < len(task.bindings):
        one = task.bindings[index]
        held = flow.volumes.assumed[one.volume]
        event: PVUpdateRequested | PVCUpdateRequested = PVUpdateRequested(
            pod=ref_of(task),
            claim=one.claim,
            claim_uid=one.claim_uid,
            sent_resource_version=held.based_on,
            attempt=task.attempt,
        )
        position = hand.add(_subject(flow, "pv", one.volume), event, cause=cause)
        hand.effect(position, Update("PersistentVolume", "", one.volume, held.body))
        return
    claim = task.provisions[index - len(task.bindings)].claim
    wanted = flow.claims.assumed[claim]
    event = PVCUpdateRequested(
        pod=ref_of(task), node=task.node, sent_resource_version=wanted.based_on, attempt=task.attempt
    )
    position = hand.add(_subject(flow, "pvc", claim), event, cause=cause)
    namespace, _, name = claim.partition("/")
    hand.effect(position, Update("PersistentVolumeClaim", namespace, name, wanted.body))


def answered(hand: Hand, position: int, intent: Intent, answer: Answer) -> None:
    """The answer to an update. A task that has left meanwhile asks for nothing more."""
    flow = hand.flow
    subject = _subject(flow, intent.kind, intent.key)
    task = updating(flow, intent.uid)
    ref, node, claim = _named(flow, intent, task)
    failure = failure_of(answer.code, answer.body) if not answer.ok else Failure(0)
    if intent.kind == "pv":
        event: PVUpdateSucceeded | PVUpdateFailed | PVCUpdateSucceeded | PVCUpdateFailed = (
            PVUpdateSucceeded(pod=ref, claim=claim, new_resource_version=version_in(answer.body), intent=position)
            if answer.ok
            else PVUpdateFailed(
                pod=ref,
                claim=claim,
                code=failure.code,
                reason=failure.reason,
                message=failure.message,
                answer_lost=answer.code is None,
                intent=position,
            )
        )
    elif answer.ok:
        event = PVCUpdateSucceeded(pod=ref, node=node, new_resource_version=version_in(answer.body), intent=position)
    else:
        event = PVCUpdateFailed(
            pod=ref,
            node=node,
            code=failure.code,
            reason=failure.reason,
            message=failure.message,
            answer_lost=answer.code is None,
            intent=position,
        )
    cause = hand.add(subject, event, cause=position, known=RECORDED)
    if answer.ok:
        _go_on(hand, task, cause)
    elif answer.code is None:
        queue_doubt(hand, subject, position, type_of(intent.kind), 1, cause)
    elif task is not None:
        fail(hand, task, "UpdateFailed", failure, subject, cause, done=task.written)


def type_of(kind: str) -> str:
    """The name of the intent's event."""
    return "PVUpdateRequested" if kind == "pv" else "PVCUpdateRequested"


def _named(flow: Flow, intent: Intent, task: FlowTask | None) -> tuple[TaskRef, str, str]:
    """(the task, its node, the claim) as the outcome names them."""
    held = flow.tasks.get(intent.uid) if task is None else task
    if held is None:
        return TaskRef(namespace="", name="", uid=intent.uid), "", ""
    claim = next((one.claim for one in held.bindings if one.volume == intent.key), intent.key)
    return ref_of(held), held.node, claim


def _go_on(hand: Hand, task: FlowTask | None, cause: int) -> None:
    """The next update, if there is one; after the last the wait begins by itself."""
    if task is not None and task.written + 1 < len(task.bindings) + len(task.provisions):
        request_next(hand, task, cause, task.written + 1)


def fail(
    hand: Hand, task: FlowTask, reason: str, failure: Failure, about: Subject, cause: int, *, done: int | None = None,
    timed_out: bool = False,
) -> None:  # fmt: skip
    """The attempt is over. What was not written is reverted first, as bindAPIUpdate does it, then the failure is told,
    the rest is reverted and the task read again. `done`: how many updates the API server has taken; None: all."""
    flow = hand.flow
    if done is not None:
        cause = _revert_unwritten(hand, task, failure.message, cause, done)
    waited = (hand.now - task.since) / SECOND if task.phase is Phase.WAITING else 0.0
    name = f"{about.namespace}/{about.name}" if about.namespace else about.name
    event = VolumeBindingFailed(
        node=task.node,
        reason=reason,
        message=failure.message,
        timed_out=timed_out,
        kind=about.kind,
        name=name,
        code=failure.code,
        attempt=task.attempt,
        waited_seconds=waited,
    )
    cause = hand.add(pod_subject(task), event, cause=cause, known=RECORDED if done is not None else 2)
    volumes, claims = assumed_of(flow, task)
    if done is not None:
        volumes, claims = _parted(task, volumes, claims, done)[0]
    if volumes or claims:
        rest = VolumesReverted(
            reason="VolumeBindingFailed",
            message=failure.message,
            node=task.node,
            volumes=tuple(volumes),
            claims=claims_with(task, volumes, claims),
            written=written_names(flow, volumes, claims),
        )
        cause = hand.add(pod_subject(task), rest, cause=cause)
    binder.queue_resync(hand, task, "VolumeBindingFailed", cause)


Names = tuple[list[str], list[str]]


def _parted(task: FlowTask, volumes: list[str], claims: list[str], done: int) -> tuple[Names, Names]:
    """(what the API server has taken, what it has not), each (volumes, claims)."""
    pvs = [one.volume for one in task.bindings]
    taken_pvs = pvs[:done]
    taken_claims = [one.claim for one in task.provisions][: max(0, done - len(pvs))]
    taken = [one for one in volumes if one in taken_pvs], [one for one in claims if one in taken_claims]
    return taken, ([one for one in volumes if one not in taken_pvs], [one for one in claims if one not in taken_claims])


def _revert_unwritten(hand: Hand, task: FlowTask, message: str, cause: int, done: int) -> int:
    volumes, claims = _parted(task, *assumed_of(hand.flow, task), done)[1]
    if not volumes and not claims:
        return cause
    event = VolumesReverted(
        reason="NotWritten",
        message=message,
        node=task.node,
        volumes=tuple(volumes),
        claims=claims_with(task, volumes, claims),
    )
    return hand.add(pod_subject(task), event, cause=cause)


# --- the wait -----------------------------------------------------------------------------------------------------


def wait(hand: Hand, task: FlowTask) -> None:
    """Nothing is to be written for the task: it begins to wait for claims that another task's binding is to bind, and
    they are looked at at once."""
    found = check_bindings(hand.flow, task)
    event = BindingChecked(
        node=task.node,
        waiting=True,
        waits=found.waits if found.outcome is Outcome.WAIT else (),
        check=0,
        timeout_seconds=hand.flow.config.bind_timeout_seconds,
    )
    position = hand.add(pod_subject(task), event, cause=task.cause)
    hand.then.append(Noticed("changed", task.uid, position))


def check(hand: Hand, task: FlowTask, *, timed: bool) -> None:
    """One look at the volumes. It is written when what is waited for has changed. `timed`: the look of the second, at
    which the time-out is told too."""
    found = check_bindings(hand.flow, task)
    if found.outcome is Outcome.DONE:
        _bound(hand, task)
        return
    if found.outcome is Outcome.FAILED:
        failure = Failure(0, "", found.message)
        fail(hand, task, "BindingCheckFailed", failure, Subject(found.kind, *_split(found.name)), task.cause)
        return
    waited = (hand.now - task.since) / SECOND
    timeout = hand.flow.config.bind_timeout_seconds
    if timed and waited >= timeout:
        text = f"timed out waiting for the condition after {timeout:g} s: {found.message}"
        about = Subject(found.kind, *_split(found.name))
        fail(hand, task, "Timeout", Failure(0, "", text), about, task.cause, timed_out=True)
    elif task.waits != found.waits:
        event = BindingChecked(
            node=task.node,
            waiting=True,
            waits=found.waits,
            check=task.checks + 1,
            waited_seconds=waited,
            timeout_seconds=timeout,
        )
        hand.add(pod_subject(task), event, cause=task.cause)


def _split(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name


def _bound(hand: Hand, task: FlowTask) -> None:
    event = VolumesBound(
        node=task.node,
        bindings=task.bindings,
        provisions=task.provisions,
        checks=task.checks + 1,
        waited_seconds=(hand.now - task.since) / SECOND,
    )
    cause = hand.add(pod_subject(task), event, cause=task.cause)
    binder.request(hand, task, cause)


# --- what is in doubt ---------------------------------------------------------------------------------------------


def queue_doubt(hand: Hand, subject: Subject, intent: int, name: str, attempt: int, cause: int) -> None:
    """Ask the API server what became of an update; later, when it did not say."""
    delay = backoff_microseconds(attempt - 1, hand.flow.config.resync_base_microseconds)
    event = InDoubtQueued(intent=intent, intent_type=name, attempt=attempt, delay_seconds=delay / SECOND)
    hand.add(subject, event, cause=cause)


def ask(hand: Hand, key: str) -> None:
    """The GET, now that it is due."""
    flow = hand.flow
    doubt = flow.doubts[key]
    kind = _kind(doubt)
    subject = _subject(flow, kind, doubt.key)
    attempt = flow.doubt_queue.items[key].attempt
    event = InDoubtAsked(intent=doubt.intent, intent_type=doubt.event_type, attempt=attempt)
    position = hand.add(subject, event, cause=doubt.intent)
    hand.effect(position, Get(KIND_OF[kind], subject.namespace, subject.name))


def _kind(doubt: Doubt) -> str:
    return "pv" if doubt.event_type == "PVUpdateRequested" else "pvc"


def doubt_answered(hand: Hand, position: int, intent: Intent, answer: Answer) -> None:
    """The object shows whether the update happened. No answer, or an error, settles nothing: asked again."""
    flow = hand.flow
    doubt = flow.doubts.get(intent.key)
    if doubt is None:
        return
    kind = _kind(doubt)
    subject = _subject(flow, kind, doubt.key)
    if not answer.ok and answer.code != 404:
        attempt = flow.doubt_queue.items[intent.key].attempt + 1
        queue_doubt(hand, subject, doubt.intent, doubt.event_type, attempt, position)
        return
    task = updating(flow, doubt.uid)
    verdict: Verdict = "object-gone"
    said, version = "not found", ""
    if answer.ok:
        happened = _shows(flow, kind, doubt, answer.body)
        verdict, version = ("happened" if happened else "not-happened"), version_in(answer.body)
        said = f"it {'has' if happened else 'has not'} what was asked for"
    event = InDoubtResolved(
        intent=doubt.intent,
        intent_type=doubt.event_type,
        verdict=verdict,
        code=answer.code or 0,
        said=said,
        node=task.node if task is not None else "",
        resource_version=version,
    )
    cause = hand.add(subject, event, cause=position, known=RECORDED)
    if task is None:
        return
    if verdict == "happened":
        _go_on(hand, task, cause)
    else:
        failure = Failure(answer.code or 0, verdict, f"no answer came, and the API server says: {said}")
        fail(hand, task, "UpdateFailed", failure, subject, cause, done=task.written)


def _shows(flow: Flow, kind: str, doubt: Doubt, body: bytes) -> bool:
    """Whether the object as answered has what the update would have put there."""
    try:
        obj = kinds.decode(KIND_OF[kind], body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    if isinstance(obj, PersistentVolume):
        held = flow.volumes.assumed.get(doubt.key)
        wanted = held.object.spec.claim_ref if held is not None else None
        found = obj.spec.claim_ref
        return wanted is not None and found is not None and found.uid == wanted.uid
    if isinstance(obj, PersistentVolumeClaim):
        claim = flow.claims.assumed.get(doubt.key)
        annotations = obj.metadata.annotations or {}
        return claim is not None and annotations.get("volume.kubernetes.io/selected-node") == claim.node
    return False
