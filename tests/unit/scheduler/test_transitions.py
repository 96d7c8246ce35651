"""The table of transitions: every pair of phase and step, and the diagram in the docs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from vcledger.scheduler.transitions import BEFORE_BINDING, TRANSITIONS, IllegalTransition, Phase, Step, after, diagram

PAGE = Path(__file__).parents[3] / "docs" / "bind-flow.md"


@pytest.mark.parametrize(("phase", "step"), list(product(Phase, Step)))
def test_every_step_from_every_phase_is_in_the_table_or_refused(phase: Phase, step: Step) -> None:
    wanted = TRANSITIONS.get((phase, step))
    if wanted is None:
        with pytest.raises(IllegalTransition, match=phase.value):
            after(phase, step)
    else:
        assert after(phase, step) is wanted


def test_every_phase_can_be_reached_and_left() -> None:
    reached, waiting = {Phase.OUT}, [Phase.OUT]
    while waiting:
        here = waiting.pop()
        for (before, _), then in TRANSITIONS.items():
            if before is here and then not in reached:
                reached.add(then)
                waiting.append(then)
    assert reached == set(Phase)
    for phase in Phase:
        assert any(before is phase and then is not phase for (before, _), then in TRANSITIONS.items()), phase


def test_a_binding_is_asked_for_only_with_volumes_done_and_never_while_one_is_out() -> None:
    before = {phase for (phase, step) in TRANSITIONS if step is Step.BIND_REQUESTED}
    assert before == {Phase.QUEUED, Phase.READY, Phase.DOUBT}


def test_a_lost_answer_never_frees_the_task() -> None:
    assert TRANSITIONS[Phase.BINDING, Step.ANSWER_LOST] is Phase.DOUBT
    assert {then for (phase, _), then in TRANSITIONS.items() if phase is Phase.DOUBT} == {
        Phase.DOUBT,
        Phase.BINDING,
        Phase.BOUND,
        Phase.FAILED,
        Phase.SEEN,
    }


def test_whatever_has_not_asked_the_api_server_yet_stops_when_its_pod_is_over() -> None:
    for phase in BEFORE_BINDING:
        assert after(phase, Step.ENDED) is Phase.ENDED
        assert after(phase, Step.SEEN_ELSEWHERE) is Phase.ENDED


def test_the_diagram_in_the_docs_is_the_table() -> None:
    assert diagram() in PAGE.read_text(), "print(vcledger.scheduler.transitions.diagram()) into docs/bind-flow.md"
