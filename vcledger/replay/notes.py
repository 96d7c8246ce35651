"""Lines for people about what a replay could not do or say.

Owns their words. Must not know modes. Called by `vcledger.replay.freely` and `vcledger.replay.shadowing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from projections.cache import Cache
from vcledger.replay import templates
from vcledger.replay.inputs import Reading
from vcledger.replay.record import Record
from vcledger.replay.world import World

NAMED_MAX = 3


def notes_of(reading: Reading, world: World) -> list[str]:
    """What is to be said after a free replay."""
    return [
        *passed_over(reading.late, reading.unread),
        *without_nodes(world.cache),
        *impossible(world.cache),
        *unknown_nodes(world.record),
        *never_seen(world),
    ]


def passed_over(late: int, unread: int = 0) -> list[str]:
    """Observations that were left out."""
    found = []
    if late:
        what = "1 observation goes" if late == 1 else f"{late} observations go"
        found.append(f"{what} back in time (the record had got past it): left out")
    if unread:
        what = "1 object" if unread == 1 else f"{unread} objects"
        found.append(f"{what} cannot be read as what they claim to be: left out")
    return found


def without_nodes(cache: Cache) -> list[str]:
    """A cluster without nodes, in the record or once some were removed."""
    return [] if cache.node_objects else ["there is no node: nothing can be placed"]


def impossible(cache: Cache) -> list[str]:
    """Pods that ask for a resource that no node has."""
    had = {name for info in cache.nodes.values() for name, amount in info.allocatable.amounts().items() if amount > 0}
    asking: dict[str, list[str]] = {}
    for key, ref in sorted(cache.pods.items()):
        if ref.node_name or not cache.node_objects:
            continue
        for name, amount in ref.request.amounts().items():
            if amount > 0 and name not in had and name != "pods":
                asking.setdefault(name, []).append(key)
    return [f"no node has any {name}: {listed(keys)} cannot be placed" for name, keys in sorted(asking.items())]


def unknown_nodes(record: Record) -> list[str]:
    """Pods that ran, the record doesn't say where."""
    lives = [life for life in record.lives.values() if life.started is not None]
    unknown = sum(not life.node for life in lives)
    if not unknown:
        return []
    return [f"of {unknown} pods that ran the record does not say on which node: only that they ran is compared"]


def never_seen(world: World) -> list[str]:
    """Pods made from a Job's templates, as the record never had them."""
    made = [course for course in world.courses.values() if not course.lives]
    if not made:
        return []
    keys = listed(course.key for course in made)
    line = (
        f"{len(made)} pods were made from their Jobs' templates, as the recorded scheduler never let them in ({keys})"
    )
    if any(course.uid in world.placings and world.placings[course.uid].placed is not None for course in made):
        line += (
            ": how long they would run is unknown, so those that got a place run until their Job goes, or to the end"
        )
    owners = [world.jobs[uid] for uid in dict.fromkeys(course.owner for course in made) if uid in world.jobs]
    cut = [(job["metadata"], templates.asked(job)) for job in owners if templates.asked(job) > templates.PODS_MAX]
    return [line, *(_cut_short(meta, asked) for meta, asked in cut)]


def _cut_short(meta: Mapping[str, Any], asked: int) -> str:
    name = f"{meta.get('namespace') or 'default'}/{meta['name']}"
    return f"Job {name} asks for {asked:,} pods: the first {templates.PODS_MAX:,} of them were made"


def listed(keys: Iterable[str]) -> str:
    """A few names, and how many more."""
    every = list(keys)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return ", ".join(every[:NAMED_MAX]) + more


__all__ = ["impossible", "listed", "notes_of", "passed_over", "unknown_nodes", "without_nodes"]
