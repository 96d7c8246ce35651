"""Why a pod was pending at a moment of the past: gathers what the log has about it, and asks the diagnosis.

Owns the gathering and the finding of what a name means. Must not know how a verdict is reached. Called by `cli.why` and
users' code:

    why(ledger, "default", "train-0", position=ledger.position("-2h"))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from eventstore.types import KNOWN_NAMES
from projections.cache import stores
from projections.cache.state import Cache, CacheConfig, JobInfo
from projections.diagnosis.case import Attempt, Case, Earlier
from projections.diagnosis.claims import pod_claims, selected_node
from projections.diagnosis.coverage import kinds_needed
from projections.diagnosis.explain import explain
from projections.diagnosis.gaps import outages, tell
from projections.diagnosis.model import Explanation, Said
from projections.diagnosis.placement import release_node
from projections.diagnosis.views import ClusterView, GroupView, Rules, TaskView, group_name
from projections.diagnosis.world import World
from projections.timeline import StoryLine, story
from vcledger import codec, gaps
from vcledger.at import format_time, parse_time
from vcledger.errors import BadTime, VcledgerError
from vcledger.folding import collector_paused
from vcledger.ledger import DEFAULT_CONFIG, DEFAULT_MODEL, Ledger
from vcledger.why_late import contradictions, later_than
from vcledger.why_planned import planned
from vcledger.why_said import OBSERVATIONS, events_about, group_conditions, pod_conditions
from vcledger.why_views import Views, lone_task, min_resources
from vcledger.why_waits import ending_on, group_waits_since, pod_waits_since
from volcano.events.base import Recorded
from volcano.events.binding import BindFailed, BindSucceeded, PodConditionPatchFailed
from volcano.events.observation import ObjectDeleted
from volcano.events.volume import VolumeBindingFailed, VolumesBound
from volcano.objects.core import PersistentVolumeClaim, Pod
from volcano.objects.meta import ObjectMeta
from volcano.objects.scheduling import PodGroup, VolcanoJob

ATTEMPT_TYPES = ("BindSucceeded", "BindFailed", "VolumesBound", "VolumeBindingFailed", "PodConditionPatchFailed")
NEAR_NAMES = 3
EVENTS_READ_MAX, EVENTS_READ_AT_ONCE = 1_000, 200
"""How many of the last events of a pod's name are read, and how many at once."""

EARLIER_SHOWN = 3


class NoSuchPod(VcledgerError):
    """The log has no pod, job or PodGroup of that name at that position; the text names near ones."""


class Looked(NamedTuple):
    """Where an answer looks: the cluster, the position, the newest time observed up to it, and the state there."""

    cluster: str
    position: int
    observed_at: int | None
    views: Views

    @property
    def time(self) -> str | None:
        return format_time(self.observed_at) if self.observed_at is not None else None

    def asked(self, asked_at: int | None) -> str | None:
        """The time that was asked about, where it is another."""
        return format_time(asked_at) if asked_at is not None and asked_at != self.observed_at else None


def look(
    ledger: Ledger,
    position: int | None,
    cluster: str | None,
    model: str,
    config: CacheConfig,
    rules: Rules | None,
    views: Views | None = None,
) -> Looked:
    """The state that is asked about; `views` where somebody has it already."""
    chosen = ledger.cluster(cluster)
    at = ledger.position(position, chosen)
    if views is None:
        views = Views(ledger, ledger.cache(at, cluster=chosen, model=model, config=config), rules=rules)
    return Looked(chosen, at, ledger.observed_at(at, chosen), views)


class _Question(NamedTuple):
    """What is asked, of which state."""

    ledger: Ledger
    looked: Looked
    asked_at: int | None
    namespace: str
    name: str
    searches: bool
    again: Callable[[World, World], bool | None] | None

    @property
    def views(self) -> Views:
        return self.looked.views

    @property
    def cache(self) -> Cache:
        return self.views.cache

    @property
    def cluster(self) -> str:
        return self.looked.cluster

    @property
    def position(self) -> int:
        return self.looked.position

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def now(self) -> str | None:
        return self.looked.time

    @property
    def time(self) -> int | None:
        """The time that the answer is for: the one asked about, else the newest observed up to the position."""
        return self.asked_at if self.asked_at is not None else self.looked.observed_at


@collector_paused()
def why(
    ledger: Ledger,
    namespace: str,
    pod: str,
    *,
    position: int | None = None,
    cluster: str | None = None,
    model: str = DEFAULT_MODEL,
    config: CacheConfig = DEFAULT_CONFIG,
    asked_at: int | None = None,
    views: Views | None = None,
    changes: bool = True,
    rules: Rules | None = None,
    conf: str | None = None,
    sessions: bool = False,
) -> Explanation:
    """The answer about a pod, or, when no pod ever had that name up to the position, about the Volcano Job or PodGroup
    of that name. Of several pods that had the name, the last one counts. `asked_at`: the time (microseconds) that was
    asked about, where a time was (`vcledger.gaps.moment`); gaps are looked for around it. `views`: of the state at that
    position under that model, for who asks several questions about it. `changes` False: the smallest changes are not
    looked for, which takes the longest; `rules`: the scheduler's configuration (`vcledger.why_conf.rules_of`), where it
    is known; `sessions`: each change is proven by a scheduling session too, under `conf` (the configuration's text,
    None: Volcano's default). NoSuchPod when there is none of them."""
    question = _ask(
        ledger, namespace, pod, position, cluster, model, config, asked_at, views, changes, rules, conf, sessions
    )
    stream = _stream(question)
    if stream is not None:
        return explain(_covered(question, _pod_case(question, stream)))
    case = _job_case(question)
    if case is None:
        raise NoSuchPod(_not_found(question))
    return explain(_covered(question, case))


@collector_paused()
def why_job(
    ledger: Ledger,
    namespace: str,
    name: str,
    *,
    position: int | None = None,
    cluster: str | None = None,
    model: str = DEFAULT_MODEL,
    config: CacheConfig = DEFAULT_CONFIG,
    asked_at: int | None = None,
    views: Views | None = None,
    changes: bool = True,
    rules: Rules | None = None,
    conf: str | None = None,
    sessions: bool = False,
) -> Explanation:
    """The same about a Volcano Job or a PodGroup, by its name: the member that breaks the gang stands for it."""
    question = _ask(
        ledger, namespace, name, position, cluster, model, config, asked_at, views, changes, rules, conf, sessions
    )
    case = _job_case(question)
    if case is None:
        raise NoSuchPod(_not_found(question))
    return explain(_covered(question, case))


def _ask(
    ledger: Ledger,
    namespace: str,
    name: str,
    position: int | None,
    cluster: str | None,
    model: str,
    config: CacheConfig,
    asked_at: int | None,
    views: Views | None,
    searches: bool,
    rules: Rules | None,
    conf: str | None,
    sessions: bool,
) -> _Question:
    looked = look(ledger, position, cluster, model, config, rules, views)
    again = None
    if sessions:
        from vcledger.why_session import SessionProof  # numpy, which most answers do without

        again = SessionProof(ledger, looked.views.cache, conf)
    return _Question(ledger, looked, asked_at, namespace, name, searches, again)


def _covered(question: _Question, case: Case) -> Case:
    """The case with what the record does not cover: gaps around the moment and in the subject's life, kinds that were
    never looked at, a time after the record's end."""
    ledger, cluster, time = question.ledger, question.cluster, question.time
    case.asked = question.looked.asked(question.asked_at)
    case.notes = gaps.record_notes(ledger, gaps.Moment(question.position, time, question.asked_at), cluster)
    needed = kinds_needed(case)
    seen = [kind for kind in needed if stores.any_held(question.cache, kind)]
    case.unwatched = gaps.unwatched(ledger, cluster, needed, question.position, seen)
    if time is not None:
        case.gaps = _gaps(question, case, time)
    return case


def _gaps(question: _Question, case: Case, time: int) -> list[gaps.Gap]:
    """The gaps inside which the moment lies, and those before it in the subject's life."""
    born = _micros(case.created)
    died = _micros(case.gone_at) or time
    found = []
    for gap in gaps.gaps_between(question.ledger, question.cluster, born, time):
        if gaps.covers(gap, time):
            found.append(gaps.inside(gap))
        elif gap.from_micros is None or gap.from_micros < died:
            found.append(gap)
    return found


def _micros(time: str | None) -> int | None:
    """A text of an object as microseconds; None when it is no time."""
    try:
        return parse_time(time) if time else None
    except BadTime:
        return None


# --- a pod --------------------------------------------------------------------------------------------------------


class _Stream(NamedTuple):
    """What the log has of the pods of one name up to the position: the observations of the last of them, newest first,
    the attempts on it, oldest first, the deletions of those before it, the last first, and what was observed of it by
    then and came into the log late, newest first."""

    history: list[Recorded]
    attempts: list[Attempt]
    earlier: list[Recorded]
    late: list[Recorded]

    @property
    def told(self) -> list[Recorded]:
        """All observations of the pod, what came into the log late among them, newest first."""
        return [*(one for one in self.late if one.uid == self.last.uid), *self.history]

    @property
    def last(self) -> Recorded:
        return self.history[0]

    @property
    def gone(self) -> bool:
        return isinstance(self.last.event, ObjectDeleted)


def _stream(question: _Question, kind: str = "Pod") -> _Stream | None:
    """The streams of that name, read once; None when no such object was observed. Late attempts count when they were
    observed by then."""
    where: dict[str, Any] = {
        "cluster": question.cluster,
        "kinds": kind,
        "namespace": question.namespace,
        "name": question.name,
    }
    told = list(
        question.ledger.recorded(
            **where,
            to=question.position,
            types=(*codec.OBJECT_TYPES, *ATTEMPT_TYPES),
            reverse=True,
            limit=EVENTS_READ_MAX,
            batch=EVENTS_READ_AT_ONCE,
        )
    )
    observed = [one for one in told if isinstance(one.event, OBSERVATIONS) and not one.late]
    if not observed:
        return None
    uid = observed[0].uid
    late = question.ledger.recorded(**where, after=question.position, types=ATTEMPT_TYPES, late=True)
    until = question.time or 0
    tried = [one for one in (*told, *(one for one in late if one.observed_at <= until)) if one.uid in {uid, ""}]
    attempts = [attempt for attempt in map(_attempt, tried) if attempt is not None]
    return _Stream(
        history=[one for one in observed if one.uid == uid],
        attempts=sorted(attempts, key=lambda one: (one.time, one.position)),
        earlier=[one for one in observed if one.uid != uid and isinstance(one.event, ObjectDeleted)][:EARLIER_SHOWN],
        late=later_than(observed[0], question.ledger, question.cluster, question.time),
    )


def _pod_case(question: _Question, stream: _Stream) -> Case:
    """Everything about the pod."""
    cache, last = question.cache, stream.last
    pod = _pod_of(last)
    name = group_name(pod)
    job = cache.jobs.get(f"{question.namespace}/{name}") if name else None
    group = question.views.group(job) if job is not None else None
    loaded = [one.pod for one in (group.tasks if group is not None else ()) if one.pod is not None]
    cluster = question.views.cluster([pod, *loaded])
    heard = _heard(question, stream, pod, group, cluster)
    case = Case(
        namespace=question.namespace,
        name=question.name,
        uid=last.uid,
        at=question.position,
        now=question.now,
        cluster=cluster,
        scheduler_names=cache.config.scheduler_names,
        pod=pod,
        position=last.position,
        gone_at=format_time(last.observed_at) if stream.gone else "",
        gone_position=last.position if stream.gone else 0,
        gone_known=KNOWN_NAMES[last.known],
        created=pod.metadata.creation_timestamp,
        task=None if stream.gone else _task(cache, group, pod, last.uid),
        group=group,
        group_name=name,
        said=heard.said,
        attempts=stream.attempts,
        earlier=heard.earlier,
        claim_since=_claim_since(question, pod, cluster),
        late_facts=_late_facts(question, stream, group),
        asked_min=min_resources(job) if job is not None else {},
        waiting_since=pod_waits_since(stream.told),
        searches=question.searches,
        again=question.again,
    )
    _find_ending(question, case)
    return case


def _find_ending(question: _Question, case: Case) -> None:
    """Gives a case the pods that are ending on the node for which its pod waits."""
    node = release_node(case)
    if node:
        case.ending = ending_on(
            question.ledger, question.cache, question.cluster, node, question.position, question.time
        )


def _pod_of(recorded: Recorded) -> Pod:
    """The pod of an observation; an empty one where its payload could not be read."""
    event = recorded.event
    return event.object if isinstance(event, OBSERVATIONS) and isinstance(event.object, Pod) else Pod()


def _task(cache: Cache, group: GroupView | None, pod: Pod, uid: str) -> TaskView | None:
    """The pod as its job's task; as a task alone when its job doesn't hold it."""
    for task in group.tasks if group is not None else ():
        if task.uid == uid:
            return task if task.pod is not None else None
    ref = cache.pods.get(f"{pod.metadata.namespace}/{pod.metadata.name}")
    return lone_task(ref, pod) if ref is not None and ref.uid == uid else None


class _Heard(NamedTuple):
    """What was said about the subject, and about the pods that had its name before."""

    said: list[Said]
    earlier: list[Earlier]


def _heard(
    question: _Question,
    stream: _Stream | None,
    pod: Pod | None,
    group: GroupView | None,
    cluster: ClusterView,
    job: str = "",
) -> _Heard:
    """Conditions first, then Events about the pod, its PodGroup, its claims and its Volcano Job (`job`: the uid)."""
    said = pod_conditions(stream.told) if stream is not None else []
    uids = [pod.metadata.uid] if pod is not None else []
    if group is not None and group.pod_group is not None:
        said += group_conditions(*_latest_group(question, group.pod_group, group.position))
        uids.append(group.pod_group.metadata.uid)
    if pod is not None:
        uids += [state.claim.metadata.uid for state in pod_claims(pod, cluster).states]
        uids += _problem_claims(pod, cluster)
    uids.append(job)
    before = [one.uid for one in stream.earlier] if stream is not None else []
    events = events_about(question.ledger, question.cluster, question.position, [*uids, *before], question.time)
    told = dict.fromkeys(uid for uid in uids if uid)
    said += [one for uid in told for one in events.get(uid, ())]
    earlier = [_earlier(one, events.get(one.uid, ())) for one in (stream.earlier if stream is not None else ())]
    return _Heard(said, earlier)


def _late_group(question: _Question, position: int) -> tuple[list[Recorded], Recorded | None]:
    """What came into the log late of the PodGroup that was observed at a position, newest first, and that one."""
    key, known = (position, question.time), question.views.late_groups
    if key not in known:
        found = question.ledger.store.get([position]) if position else []
        last = codec.recorded(found[0]) if found else None
        late = later_than(last, question.ledger, question.cluster, question.time) if last is not None else []
        known[key] = late, last
    return known[key]


def _latest_group(question: _Question, pod_group: PodGroup, position: int) -> tuple[PodGroup, int]:
    """The PodGroup as last observed by then, late or not, and where the log has it."""
    for late in _late_group(question, position)[0]:
        if isinstance(late.event, OBSERVATIONS) and isinstance(late.event.object, PodGroup):
            return late.event.object, late.position
    return pod_group, position


def _late_facts(question: _Question, stream: _Stream | None, group: GroupView | None) -> list[str]:
    """Where what came into the log late says otherwise than the cache: of the pod, of its PodGroup."""
    found = contradictions(stream.late, stream.last) if stream is not None else []
    if group is not None:
        late, last = _late_group(question, group.position)
        if last is not None:
            found += contradictions(late, last)
    return found


def _earlier(gone: Recorded, said: Sequence[Said]) -> Earlier:
    """An earlier pod of the name, with the eviction that an Event tells of."""
    evictions = [one.message for one in said if one.reason in {"Evict", "Evicted", "Preempted"}]
    return Earlier(
        uid=gone.uid,
        gone_at=format_time(gone.observed_at),
        position=gone.position,
        evicted=evictions[-1] if evictions else "",
        known=KNOWN_NAMES[gone.known],
    )


def _problem_claims(pod: Pod, cluster: ClusterView) -> list[str]:
    keys = [problem.claim for problem in pod_claims(pod, cluster).problems]
    return [cluster.claims[key].metadata.uid for key in keys if key in cluster.claims]


def _attempt(recorded: Recorded) -> Attempt | None:
    event = recorded.event
    time, position, known = format_time(recorded.observed_at), recorded.position, KNOWN_NAMES[recorded.known]
    if isinstance(event, BindSucceeded):
        return Attempt("bind", True, time, position, event.node, event.code, known=known)
    if isinstance(event, BindFailed):
        return Attempt("bind", False, time, position, event.node, event.code, event.reason, event.message, known=known)
    if isinstance(event, VolumesBound):
        return Attempt("volumes", True, time, position, event.node, known=known)
    if isinstance(event, VolumeBindingFailed):
        thing = f"{event.kind} {event.name}".strip()
        return Attempt(
            "volumes",
            False,
            time,
            position,
            event.node,
            event.code,
            event.reason,
            event.message,
            thing,
            event.timed_out,
            known,
        )
    if isinstance(event, PodConditionPatchFailed):
        return Attempt("condition", False, time, position, "", event.code, event.reason, event.error, known=known)
    return None


def _claim_since(question: _Question, pod: Pod, cluster: ClusterView) -> dict[str, str]:
    """For each claim that is being provisioned, since when it has its selected node."""
    since: dict[str, str] = {}
    for state in pod_claims(pod, cluster).states:
        if not state.selected_node:
            continue
        for recorded in question.ledger.recorded(
            to=question.position,
            cluster=question.cluster,
            kinds="PersistentVolumeClaim",
            namespace=state.claim.metadata.namespace,
            name=state.name,
            types=codec.OBJECT_TYPES,
            late=False,
            reverse=True,
            limit=EVENTS_READ_MAX,
            batch=EVENTS_READ_AT_ONCE,
        ):
            event = recorded.event
            claim = event.object if isinstance(event, OBSERVATIONS) else None
            if not isinstance(claim, PersistentVolumeClaim) or selected_node(claim) != state.selected_node:
                break
            since[state.key] = format_time(recorded.observed_at)
    return since


# --- a job --------------------------------------------------------------------------------------------------------


def _job_case(question: _Question) -> Case | None:
    """Everything about a Volcano Job or PodGroup; None when there is neither."""
    cache = question.cache
    volcano_job = _volcano_job(question)
    job = _group_of(cache, question, volcano_job)
    if volcano_job is None and job is None:
        return None
    group = question.views.group(job) if job is not None else None
    loaded = [one.pod for one in (group.tasks if group is not None else ()) if one.pod is not None]
    cluster = question.views.cluster(loaded)
    meta = volcano_job.metadata if volcano_job is not None else _pod_group_meta(group)
    case = Case(
        namespace=question.namespace,
        name=question.name,
        uid=meta.uid if meta is not None else "",
        at=question.position,
        now=question.now,
        cluster=cluster,
        scheduler_names=cache.config.scheduler_names,
        kind="Job" if volcano_job is not None else "PodGroup",
        created=meta.creation_timestamp if meta is not None else None,
        group=group,
        group_name=group.name if group is not None else "",
        job=volcano_job,
        job_position=cache.position_of("VolcanoJob", question.key),
        asked_min=min_resources(job) if job is not None else {},
        planned=_planned(cache, volcano_job, group),
        searches=question.searches,
        again=question.again,
    )
    _stand_in(question, case)
    return case


def _planned(cache: Cache, job: VolcanoJob | None, group: GroupView | None) -> list[TaskView]:
    """The pods that a job would make that has none."""
    if job is None or (group is not None and group.tasks):
        return []
    return planned(cache, job, group.name if group is not None else job.metadata.name)


def _volcano_job(question: _Question) -> VolcanoJob | None:
    """The Volcano Job of that name as last seen; the cache keeps only where that was."""
    position = question.cache.position_of("VolcanoJob", question.key)
    found = question.ledger.objects([position]).get(position) if position else None
    return found if isinstance(found, VolcanoJob) else None


def _pod_group_meta(group: GroupView | None) -> ObjectMeta | None:
    return group.pod_group.metadata if group is not None and group.pod_group is not None else None


def _group_of(cache: Cache, question: _Question, volcano_job: VolcanoJob | None) -> JobInfo | None:
    """The cache's job of that name: a PodGroup so called, or the one that the Volcano Job owns (its name is the job's,
    or the job's with its uid)."""
    found = cache.jobs.get(question.key)
    if found is not None or volcano_job is None:
        return found
    uid = volcano_job.metadata.uid
    named = cache.jobs.get(f"{question.key}-{uid}")
    if named is not None:
        return named
    for job in cache.jobs.values():
        owners = (job.pod_group.metadata.owner_references if job.pod_group is not None else None) or ()
        if job.namespace == question.namespace and any(owner.uid == uid for owner in owners):
            return job
    return None


def _stand_in(question: _Question, case: Case) -> None:
    """Gives a job's case the member that stands for it (the one that breaks the gang, else the first that waits), and
    what was said."""
    group = case.group
    trial = case.trial
    breaker = trial.breaker if trial is not None else None
    waiting = [task for task in (trial.order if trial is not None else ()) if task.pod is not None]
    chosen = breaker or (waiting[0] if waiting else None)
    stream = None
    if chosen is not None and chosen.pod is not None:
        case.task, case.pod, case.position = chosen, chosen.pod, chosen.position
        stream = _stream(question._replace(name=chosen.name))
        case.attempts = stream.attempts if stream is not None else []
        case.claim_since = _claim_since(question, chosen.pod, case.cluster)
    job = case.job.metadata.uid if case.job is not None else ""
    case.said = _heard(question, stream, case.pod, group, case.cluster, job).said
    case.late_facts = _late_facts(question, stream, group)
    case.waiting_since = group_waits_since(group)
    _find_ending(question, case)


# --- the story ----------------------------------------------------------------------------------------------------


def pod_story(ledger: Ledger, answer: Explanation, *, cluster: str | None = None) -> list[StoryLine]:
    """What happened to the subject of an answer up to its position: the pod (or job), its PodGroup, and the Events
    about both and about its claims, by observed time."""
    chosen = ledger.cluster(cluster)
    wanted: list[tuple[str, str, str]] = [(answer.subject.partition(" ")[0], answer.namespace, answer.name)]
    wanted = [("VolcanoJob" if kind == "Job" else kind, namespace, name) for kind, namespace, name in wanted]
    if answer.group:
        namespace, _, name = answer.group.partition("/")
        wanted.append(("PodGroup", namespace, name))
    found: dict[int, Recorded] = {}
    for kind, namespace, name in wanted:
        for recorded in ledger.recorded(cluster=chosen, kinds=kind, namespace=namespace, name=name):
            found[recorded.position] = recorded
    positions = [one.position for one in answer.said if one.source == "event"]
    uids = dict.fromkeys(recorded.uid for recorded in found.values() if recorded.uid)
    if uids:
        for recorded in ledger.recorded(cluster=chosen, kinds="Event", about=list(uids), types=codec.OBJECT_TYPES):
            found[recorded.position] = recorded
    for recorded in map(codec.recorded, ledger.store.get([p for p in positions if p not in found])):
        found[recorded.position] = recorded
    until = _micros(answer.asked or answer.time)
    told = [
        recorded
        for recorded in found.values()
        if recorded.position <= answer.at or (recorded.late and until is not None and recorded.observed_at <= until)
    ]
    return story(sorted(told, key=lambda one: (one.observed_at, one.position)))


# --- names --------------------------------------------------------------------------------------------------------


def _not_found(question: _Question) -> str:
    """That there is none, when one came later, and what near names there are."""
    text = f"no pod, job or PodGroup {question.key} up to position {question.position}"
    later = next(
        question.ledger.store.read(
            after=question.position,
            cluster=question.cluster,
            kinds=("Pod", "VolcanoJob", "PodGroup"),
            namespace=question.namespace,
            name=question.name,
            limit=1,
        ),
        None,
    )
    if later is not None:
        when = format_time(later.observed_at)
        late = ", and came into the log late" if later.late else ""
        return f"{text}: {later.kind} {question.key} is first seen at position {later.position} ({when}{late})"
    before = next(
        question.ledger.store.read(
            to=question.position,
            cluster=question.cluster,
            kinds=("VolcanoJob", "PodGroup"),
            namespace=question.namespace,
            name=question.name,
            types=codec.OBJECT_TYPES,
            reverse=True,
            limit=1,
            batch=EVENTS_READ_AT_ONCE,
        ),
        None,
    )
    if before is not None and before.gone:
        when = format_time(before.observed_at)
        return f"{text}: {before.kind} {question.key} was deleted at position {before.position} ({when})"
    for outage in outages(gaps.gaps_at(question.ledger, question.cluster, question.time)):
        text += f"; gap in the record: {tell(outage, question.now)}"
    near = near_names(question.cache, question.namespace, question.name)
    return f"{text}: did you mean {', '.join(near)}?" if near else text


def near_names(cache: Cache, namespace: str, name: str) -> list[str]:
    """Names of pods and jobs like the one asked for: the same in another namespace first, then the most alike."""
    jobs = [key for kind, key in cache.positions if kind == "VolcanoJob"]
    keys = list(dict.fromkeys([*cache.pods, *jobs, *cache.jobs]))
    same = [key for key in keys if key.partition("/")[2] == name]
    begins = sorted(key for key in keys if key.startswith(f"{namespace}/{name}"))
    alike = (
        difflib.get_close_matches(f"{namespace}/{name}", keys, n=NEAR_NAMES, cutoff=0.75) if len(keys) < 20_000 else []
    )
    return list(dict.fromkeys([*same, *begins, *alike]))[:NEAR_NAMES]


def near_of(names: Sequence[str], name: str) -> str:
    """`: did you mean a, b?` of the names most alike; '' when none is."""
    near = difflib.get_close_matches(name, names, n=NEAR_NAMES, cutoff=0.6)
    return f": did you mean {', '.join(near)}?" if near else ""


__all__ = ["NoSuchPod", "near_names", "near_of", "pod_story", "why", "why_job"]
