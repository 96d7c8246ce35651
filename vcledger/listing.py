"""Lists that need the log beside the cache: jobs with what is known of those without PodGroup, everything that waits
with its verdict, and what is in the record: markers, gaps, clusters.

Owns what is told of each. Must not know how it is printed. Called by `cli.get` and users' code.

Rows are plain objects as in `vcledger.views`; times are RFC 3339 texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from projections.cache import Cache, CacheConfig
from vcledger import codec, gaps, views
from vcledger.at import format_time
from vcledger.ledger import DEFAULT_CONFIG, DEFAULT_MODEL, Ledger, label_of
from vcledger.views import Row
from volcano.objects import kinds
from volcano.objects.scheduling import PodGroup, VolcanoJob

if TYPE_CHECKING:
    from projections.diagnosis.model import Explanation

WAITING_PHASES = frozenset(("", "Pending", "Inqueue"))
"""Phases of a PodGroup or Volcano Job without pods that still waits for something."""

NOT_WAITING = frozenset(("finished", "deleted", "running", "scheduled"))
"""Verdicts of what a list of the waiting leaves out."""


class State(NamedTuple):
    """The cache of a cluster at a position, and the ledger that it is of."""

    ledger: Ledger
    cache: Cache
    cluster: str
    position: int


# --- jobs ---------------------------------------------------------------------------------------------------------


def jobs(state: State) -> list[Row]:
    """Every job as `views.jobs` tells it, and of those without PodGroup more: `pod_group_gone` (there was one), `phase`
    (the last that it had), `job_phase` (that of the Volcano Job as it is now, '' when there is none)."""
    rows = [{**row, "pod_group_gone": False, "job_phase": ""} for row in views.jobs(state.cache)]
    lacking = [row for row in rows if not row["pod_group"]]
    owners = volcano_jobs(state, [f"{row['namespace']}/{row['job']}" for row in lacking if row["job"]])
    for row in lacking:
        last = _last_group(state, row["namespace"], row["name"])
        if last is not None:
            row |= {"pod_group_gone": True, "phase": last.status.phase}
        owner = owners.get(f"{row['namespace']}/{row['job']}")
        row["job_phase"] = _phase(owner) if owner is not None else ""
    return rows


def groupless_jobs(state: State) -> list[Row]:
    """The Volcano Jobs of which the cache has neither PodGroup nor pods, in the shape of `jobs`."""
    grouped = {(row["namespace"], row["job"]) for row in views.jobs(state.cache) if row["job"]}
    keys = [key for kind, key in state.cache.positions if kind == "VolcanoJob"]
    alone = [key for key in sorted(keys) if tuple(key.split("/", 1)) not in grouped]
    return [_groupless(state, key, job) for key, job in volcano_jobs(state, alone).items()]


def volcano_jobs(state: State, keys: Iterable[str]) -> dict[str, VolcanoJob]:
    """The Volcano Jobs of some 'namespace/name's as last observed, read together."""
    places = {key: state.cache.position_of("VolcanoJob", key) for key in dict.fromkeys(keys)}
    found = state.ledger.objects(place for place in places.values() if place)
    return {key: found[place] for key, place in places.items() if isinstance(found.get(place), VolcanoJob)}


def _groupless(state: State, key: str, job: VolcanoJob) -> Row:
    namespace, _, name = key.partition("/")
    return {
        "kind": "job",
        "namespace": namespace,
        "name": name,
        "job": name,
        "owners": [],
        "pod_group": False,
        "phase": "",
        "queue": job.spec.queue,
        "min_available": job.spec.min_available,
        "ready": 0,
        "tasks": {},
        "priority": 0,
        "allocated": {},
        "requested": {},
        "position": state.cache.position_of("VolcanoJob", key),
        "pod_group_gone": False,
        "job_phase": _phase(job),
    }


def _phase(job: VolcanoJob) -> str:
    return job.status.state.phase if job.status.state is not None else ""


def _last_group(state: State, namespace: str, name: str) -> PodGroup | None:
    """The PodGroup of that name as it was last seen before it went; None when there was none."""
    last = next(
        state.ledger.store.read(
            to=state.position,
            cluster=state.cluster,
            kinds="PodGroup",
            namespace=namespace,
            name=name,
            types=codec.OBJECT_TYPES,
            late=False,
            reverse=True,
            limit=1,
        ),
        None,
    )
    try:
        found = kinds.decode("PodGroup", last.payload) if last is not None else None
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, PodGroup) else None


# --- what waits ---------------------------------------------------------------------------------------------------


def pending(
    ledger: Ledger,
    *,
    namespace: str | None = None,
    names: Collection[str] = (),
    position: int | None = None,
    cluster: str | None = None,
    model: str = DEFAULT_MODEL,
    config: CacheConfig = DEFAULT_CONFIG,
    asked_at: int | None = None,
) -> Iterator[Row]:
    """Everything that waits after `position`, by namespace and name, each with the verdict of `vcledger.why`: pods that
    are Pending without a node, whoever schedules them, and PodGroups and Volcano Jobs that wait without having pods.
    `names`: only these. What all of them look at (nodes, queues, groups, tables of pods that are alike) is looked at
    once; the rows come one at a time."""
    from vcledger.why import NoSuchPod, why, why_job  # the other lists do without the diagnosis
    from vcledger.why_views import Views

    chosen = ledger.cluster(cluster)
    at = ledger.position(position, chosen)
    cache = ledger.cache(at, cluster=chosen, model=model, config=config)
    state, views = State(ledger, cache, chosen, at), Views(ledger, cache)
    for kind, space, name in sorted(_waiting(state), key=lambda found: (*found[1:], found[0])):
        if (namespace is not None and space != namespace) or (names and name not in names):
            continue
        ask = why if kind == "pod" else why_job
        try:
            answer = ask(
                ledger,
                space,
                name,
                position=at,
                cluster=chosen,
                model=model,
                config=config,
                asked_at=asked_at,
                views=views,
                changes=False,
            )
        except NoSuchPod:  # its observation was pruned, or cannot be read
            continue
        if answer.verdict not in NOT_WAITING:
            yield _waiting_row(kind, answer)


def _waiting(state: State) -> Iterator[tuple[str, str, str]]:
    """(pod or job, namespace, name) of what may be waiting."""
    for ref in state.cache.pods.values():
        if ref.phase == "Pending" and not ref.node_name:
            yield "pod", ref.namespace, ref.name
    for row in [*views.jobs(state.cache), *groupless_jobs(state)]:
        phase = row["phase"] if row["pod_group"] else row.get("job_phase", "")
        if not row["tasks"] and phase in WAITING_PHASES:
            yield "job", row["namespace"], row["job"] or row["name"]


def _waiting_row(kind: str, answer: Explanation) -> Row:
    return {
        "kind": kind,
        "namespace": answer.namespace,
        "name": answer.name,
        "since": answer.since or "",
        "verdict": answer.verdict,
        "summary": answer.summary,
        "message": answer.message,
        "queue": answer.queue,
        "group": answer.group,
        "position": answer.at,
    }


# --- the record ---------------------------------------------------------------------------------------------------


def markers(ledger: Ledger, cluster: str, position: int | None = None) -> list[Row]:
    """The markers of a cluster, those after `position` left out. `at` is what finds one as `marker:…`."""
    return [
        {
            "kind": "marker",
            "cluster": cluster,
            "name": marker.name,
            "at": marker.file or label_of(marker) or marker.name,
            "label": label_of(marker),
            "file": marker.file,
            "time": format_time(stored.observed_at),
            "position": stored.position,
        }
        for stored, marker in ledger.markers(cluster)
        if position is None or stored.position <= position
    ]


def recorded_gaps(ledger: Ledger, cluster: str, time: int | None = None) -> list[Row]:
    """The gaps in the record of a cluster, those that a moment (microseconds) lies in where one is given."""
    found = gaps.gaps_between(ledger, cluster) if time is None else gaps.gaps_at(ledger, cluster, time)
    return [
        {
            "kind": "gap",
            "cluster": cluster,
            "name": str(gap.position),
            "of": gap.kind,
            "from": gap.from_time,
            "to": gap.to_time,
            "added": gap.added,
            "modified": gap.modified,
            "deleted": gap.deleted,
            "reason": gap.reason,
            "position": gap.position,
        }
        for gap in found
    ]


def clusters(ledger: Ledger) -> list[Row]:
    """The clusters of the ledger with the first and the last moment of their record, late events left aside."""
    return [row for name in ledger.clusters() if (row := _cluster(ledger, name)) is not None]


def _cluster(ledger: Ledger, name: str) -> Row | None:
    ends = (next(ledger.store.read(cluster=name, late=False, limit=1, reverse=last), None) for last in (False, True))
    first, last = ends
    if first is None or last is None:
        return None
    return {
        "kind": "cluster",
        "name": name,
        "first": format_time(first.observed_at),
        "last": format_time(last.observed_at),
        "first_position": first.position,
        "last_position": last.position,
    }
