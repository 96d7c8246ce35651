"""The scheduler's sentence: how it is put together, and when another one says the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.diagnosis.agreement import disagreement, explains, parse_fit_message, phrased
from projections.diagnosis.reasons import Reason, compose, fit_message, scheduler_reasons

CPU = Reason("resources", "Insufficient cpu")
TAINT = Reason("taints", "node(s) had untolerated taint(s)")
AFFINITY = Reason("node-affinity", "node(s) didn't match Pod's node affinity/selector")
COUNT = Reason("pod-count", "node(s) pod number exceeded", final=False)
SHOWN = Reason("readiness", "node(s) were not ready", scheduler=False)


def test_reasons_are_counted_and_sorted_as_text() -> None:
    table = {**{f"c{i}": [CPU] for i in range(12)}, "g1": [TAINT], "g2": [TAINT]}
    assert fit_message(table) == (
        "0/14 nodes are unavailable: 12 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    )
    many = {f"t{i}": [TAINT] for i in range(9)}
    assert fit_message({**many, "a": [AFFINITY]}).startswith("0/10 nodes are unavailable: 1 node(s) didn't match")


def test_without_nodes_the_sentence_ends_early() -> None:
    assert fit_message({}) == "0/0 nodes are unavailable"


def test_the_scheduler_stops_at_the_first_final_reason() -> None:
    assert scheduler_reasons([COUNT, AFFINITY, TAINT]) == [COUNT.text, AFFINITY.text]
    assert scheduler_reasons([CPU, AFFINITY]) == [CPU.text]
    assert scheduler_reasons([SHOWN, TAINT]) == [TAINT.text]
    assert scheduler_reasons([]) == []


def test_a_message_is_read_back() -> None:
    message = "0/3 nodes are unavailable: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    assert parse_fit_message(message) == (3, {CPU.text: 1, TAINT.text: 2})
    assert parse_fit_message(f"pod group is not ready. Origin reason is x: {message}") == (
        3,
        {CPU.text: 1, TAINT.text: 2},
    )
    assert parse_fit_message("all nodes are unavailable") is None


@given(st.dictionaries(st.sampled_from([CPU.text, TAINT.text, AFFINITY.text]), st.integers(1, 20), min_size=1))
def test_reading_back_is_the_opposite_of_putting_together(counts: dict[str, int]) -> None:
    assert parse_fit_message(compose(sum(counts.values()), counts)) == (sum(counts.values()), counts)


def test_another_order_of_filters_is_no_disagreement() -> None:
    table = {"a": [AFFINITY, TAINT], "b": [AFFINITY, TAINT], "c": [AFFINITY]}
    ours = fit_message(table)
    theirs = (
        "0/3 nodes are unavailable: 1 node(s) had untolerated taint(s), "
        "2 node(s) didn't match Pod's node affinity/selector."
    )
    assert explains({TAINT.text: 1, AFFINITY.text: 2}, table)
    assert disagreement(ours, theirs, table, []) == ""
    assert phrased(ours, theirs, table, []) == theirs


def test_what_no_order_explains_is_one() -> None:
    table = {"a": [AFFINITY], "b": [TAINT]}
    theirs = "0/2 nodes are unavailable: 2 Insufficient cpu."
    ours = fit_message(table)
    assert not explains({CPU.text: 2}, table)
    assert "the scheduler wrote" in disagreement(ours, theirs, table, [])
    assert phrased(ours, theirs, table, []) == ours
    assert disagreement(ours, "0/9 nodes are unavailable: 9 Insufficient cpu.", table, [])


def test_a_node_named_as_possible_must_fit() -> None:
    ours = "Pod default/p can possibly be assigned to n1, once minAvailable is satisfied"
    theirs = "Pod default/p can possibly be assigned to n2, once minAvailable is satisfied"
    assert disagreement(ours, theirs, {}, ["n1", "n2"]) == ""
    assert phrased(ours, theirs, {}, ["n1", "n2"]) == theirs
    assert "names n2" in disagreement(ours, theirs, {}, ["n1"])
    assert phrased(ours, theirs, {}, ["n1"]) == ours
