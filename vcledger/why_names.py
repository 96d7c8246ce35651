"""What a name that is asked about may mean: names like it, and what the log says of one that is not there.

Owns that. Must not know cases nor verdicts. Called by `vcledger.why`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from projections.cache.state import Cache
from projections.diagnosis.gaps import outages, tell
from vcledger import codec, gaps
from vcledger.at import format_time
from vcledger.errors import VcledgerError
from vcledger.why_asked import EVENTS_READ_AT_ONCE, Question

NEAR_NAMES = 3


class NoSuchPod(VcledgerError):
    """The log has no pod, job or PodGroup of that name at that position; the text names near ones."""


def not_found(question: Question) -> str:
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


__all__ = ["NoSuchPod", "near_names", "near_of", "not_found"]
