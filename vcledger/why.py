"""Why a pod was pending at a moment of the past: gathers what the log has about it, and asks the diagnosis.

Owns what is asked in which order. Must not know how a verdict is reached. Called by `cli.why` and users' code:

    why(ledger, "default", "train-0", position=ledger.position("-2h"))
"""

from __future__ import annotations

from typing import Unpack

from projections.cache import stores
from projections.diagnosis.case import Case
from projections.diagnosis.coverage import kinds_needed
from projections.diagnosis.explain import explain
from projections.diagnosis.model import Explanation
from vcledger import gaps
from vcledger.folding import collector_paused
from vcledger.ledger import Ledger
from vcledger.why_asked import AskedInFull, Question, ask, micros
from vcledger.why_cases import job_case, pod_case
from vcledger.why_heard import stream_of
from vcledger.why_names import NoSuchPod, near_names, near_of, not_found
from vcledger.why_story import pod_story


@collector_paused()
def why(ledger: Ledger, namespace: str, pod: str, **asked: Unpack[AskedInFull]) -> Explanation:
    """The answer about a pod, or, when no pod ever had that name up to the position, about the Volcano Job or PodGroup
    of that name. Of several pods that had the name, the last one counts. `asked`: when and how, see AskedInFull.
    NoSuchPod when there is none of them."""
    question = ask(ledger, namespace, pod, asked)
    found = stream_of(question)
    case = pod_case(question, found) if found is not None else job_case(question)
    if case is None:
        raise NoSuchPod(not_found(question))
    return explain(_covered(question, case))


@collector_paused()
def why_job(ledger: Ledger, namespace: str, name: str, **asked: Unpack[AskedInFull]) -> Explanation:
    """The same about a Volcano Job or a PodGroup, by its name: the member that breaks the gang stands for it."""
    question = ask(ledger, namespace, name, asked)
    case = job_case(question)
    if case is None:
        raise NoSuchPod(not_found(question))
    return explain(_covered(question, case))


def _covered(question: Question, case: Case) -> Case:
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


def _gaps(question: Question, case: Case, time: int) -> list[gaps.Gap]:
    """The gaps inside which the moment lies, and those before it in the subject's life."""
    born = micros(case.created)
    died = micros(case.gone_at) or time
    found = []
    for gap in gaps.gaps_between(question.ledger, question.cluster, born, time):
        if gaps.covers(gap, time):
            found.append(gaps.inside(gap))
        elif gap.from_micros is None or gap.from_micros < died:
            found.append(gap)
    return found


__all__ = ["NoSuchPod", "near_names", "near_of", "pod_story", "why", "why_job"]
