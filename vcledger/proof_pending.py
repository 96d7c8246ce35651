"""Which pods wait in a free replay, and which waited in the record, at each of the record's markers.

Owns the comparison. Must not know how a replay is run. Called by the tests of docs/proof.md and by users' code.

Which of several pods that are alike is placed, or evicted for another, follows from the nodes that the scheduler chose,
and of equal nodes Volcano throws dice. So beside the pods that are the same ones, those are counted that are alike: of
the same queue and priority, asking for the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

from projections.cache.state import Cache, PodRef
from vcledger.ledger import DEFAULT_CONFIG, DEFAULT_MODEL, Ledger


class Waiting(NamedTuple):
    """The pods without a node at a marker: in the record and in the replay, the same ones among them, and how many of
    the record's have their like in the replay, each counted once."""

    marker: str
    pods: int
    there: int
    here: int
    same: int
    alike: int


def waiting_pods(
    record: Ledger, replay: Ledger, *, cluster: str | None = None, model: str = DEFAULT_MODEL
) -> list[Waiting]:
    """One row for each marker with a file that both ledgers have, in the order of the record."""
    found = []
    both = {marker.file for _, marker in replay.markers()}
    for stored, marker in record.markers(cluster):
        if marker.file not in both or not marker.file:
            continue
        theirs = record.cache(stored.position, cluster=cluster, model=model, config=DEFAULT_CONFIG)
        ours = replay.cache(f"marker:{marker.file}", model=model, config=DEFAULT_CONFIG)
        there, here = _waiting(theirs), _waiting(ours)
        likes = Counter(there.values()) & Counter(here.values())
        found.append(
            Waiting(
                marker.file, len(theirs.pods), len(there), len(here), len(there.keys() & here.keys()), likes.total()
            )
        )
    return found


def _waiting(cache: Cache) -> dict[str, Hashable]:
    """The pods that wait, by name, each with what makes it alike to others."""
    waits = (ref for ref in cache.pods.values() if not ref.node_name and ref.phase in {"", "Pending"})
    return {f"{ref.namespace}/{ref.name}": _like(cache, ref) for ref in waits}


def _like(cache: Cache, ref: PodRef) -> Hashable:
    job = cache.jobs.get(ref.job)
    task = job.tasks.get(ref.uid) if job is not None else None
    asked = tuple(sorted(ref.request.amounts().items()))
    return (job.queue if job is not None else "", task.priority if task is not None else 0, asked)


def waiting_table(rows: dict[str, list[Waiting]]) -> list[str]:
    """The rows of some records as lines of Markdown."""
    lines = ["| record | marker | pods | wait there | wait here | the same | alike |", f"|---|---|{'---:|' * 5}"]
    for name, each in rows.items():
        for one in each:
            label = one.marker.removeprefix("volcano-cache-dump-").removesuffix(".json")
            lines.append(f"| {name} | {label} | {one.pods} | {one.there} | {one.here} | {one.same} | {one.alike} |")
    return lines


__all__ = ["Waiting", "waiting_pods", "waiting_table"]
