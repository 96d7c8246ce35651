"""Why nodes refuse a task, in the scheduler's words and order, grouped.

Owns how the columns and the parts of the evaluation become reasons. Must not know gangs. Called by
`vcledger.scheduler.session.feasible`.

The words and their order are those of `projections.diagnosis.nodes.Evaluation` and `reasons.scheduler_reasons`: all up
to the first that is final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from projections.diagnosis import basic
from projections.diagnosis import reasons as texts
from projections.diagnosis.nodes import Evaluation
from projections.diagnosis.reasons import Reason, compose, scheduler_reasons
from projections.diagnosis.views import NodeView
from vcledger.scheduler.session.model import SessionTask
from vcledger.scheduler.session.nodes import Rows
from vcledger.scheduler.session.shape import Shape
from vcledger.scheduler.session.statics import AFFINITY, TAINTS, UNSCHEDULABLE
from volcano.objects.resource import EPSILON

if TYPE_CHECKING:
    from vcledger.scheduler.session.feasible import Feasible

Texts = tuple[str, ...]
Codes = NDArray[np.int16]

_STATIC = {UNSCHEDULABLE: texts.UNSCHEDULABLE, AFFINITY: texts.NODE_AFFINITY, TAINTS: texts.TAINTS}
_FULL, _SHORT = 4, 8
"""Codes of a node: what of its object refuses first, `_FULL` for too many pods beside it; from `_SHORT` on, in steps of
it, the resource that is short."""

PLUGIN = "node(s) were ruled out by a plugin's predicate"


class Refusals:
    """A task's fit errors: the nodes by what they say, in the order of their names. `everywhere`: it was refused before
    any node was looked at, and nothing else of its job is tried."""

    def __init__(
        self, names: Sequence[str], codes: Codes, words: Mapping[int, Texts], *, everywhere: bool = False
    ) -> None:
        self._names, self._codes, self._words = names, codes, words
        self.everywhere = everywhere

    @cached_property
    def message(self) -> str:
        """The scheduler's sentence, `0/3 nodes are unavailable: …`."""
        counts: dict[str, int] = {}
        numbers, nodes = np.bincount(self._codes, minlength=max(self._words, default=0) + 1).tolist(), 0
        for code, said in self._words.items():
            nodes += numbers[code]
            for text in said:
                counts[text] = counts.get(text, 0) + numbers[code]
        return compose(nodes, counts)

    def of_row(self, row: int) -> Texts:
        """What the node of a row says; () where it takes the task."""
        return self._words.get(int(self._codes[row]), ())

    @property
    def groups(self) -> list[tuple[Texts, list[str]]]:
        """Reasons with the nodes that gave them."""
        rows: dict[Texts, list[int]] = {}
        for code, said in self._words.items():
            rows.setdefault(said, []).extend(np.flatnonzero(self._codes == code).tolist())
        return [(said, [self._names[row] for row in sorted(found)]) for said, found in sorted(rows.items()) if found]


class Said:
    """A fit error without nodes: a sentence."""

    groups: tuple[tuple[Texts, Sequence[str]], ...] = ()
    everywhere = False

    def __init__(self, message: str) -> None:
        self.message = message


class Table(Mapping[str, Texts]):
    """Node name to its reasons, made when somebody looks."""

    def __init__(self, groups: Sequence[tuple[Texts, Sequence[str]]]) -> None:
        self._groups = groups
        self._made: dict[str, Texts] | None = None

    def _all(self) -> dict[str, Texts]:
        if self._made is None:
            self._made = dict(sorted((name, said) for said, names in self._groups for name in names))
        return self._made

    def __getitem__(self, name: str) -> Texts:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return sum(len(names) for _, names in self._groups)


def special_reasons(evaluation: Evaluation, node: NodeView, checks: frozenset[str]) -> list[Reason]:
    """The refusals of the parts that look at pods and volumes, in the scheduler's order."""
    found: list[Reason] = []
    if evaluation.ports and "ports" in checks:
        found += basic.ports(evaluation.ports, evaluation.by_node.get(node.name, ()))
    if not evaluation.affinity.idle and "pod-affinity" in checks:
        found += evaluation.affinity.check(node)
    if evaluation.access is not None and "volumes" in checks:
        found += evaluation.access.check()
    if evaluation.limits is not None and "volume-limits" in checks:
        found += evaluation.limits.check(node)
    if evaluation.volumes is not None and "volume-zone" in checks:
        found += evaluation.volumes.zone(node)
    if not evaluation.spread.idle and "spread" in checks:
        found += evaluation.spread.check(node)
    if evaluation.volumes is not None and "volumes" in checks:
        found += evaluation.volumes.check(node)
    return found


class AskedNodes:
    """`special_reasons` of one evaluation by row. Where they follow from some labels of the node alone, nodes with the
    same values of these share them."""

    def __init__(self, evaluation: Evaluation, views: Sequence[NodeView], checks: frozenset[str]) -> None:
        self.evaluation, self.views, self.checks = evaluation, views, checks
        self.labels = _labels_of(evaluation)
        self._known: dict[tuple[str | None, ...], list[Reason]] = {}

    def on(self, row: int) -> list[Reason]:
        """The refusals on a node."""
        node = self.views[row]
        if self.labels is None:
            return special_reasons(self.evaluation, node, self.checks)
        labels = node.labels
        key = tuple([labels.get(label) for label in self.labels])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = special_reasons(self.evaluation, node, self.checks)
        return found


def _labels_of(evaluation: Evaluation) -> tuple[str, ...] | None:
    """The labels of a node from which its refusals follow; None when more of it counts."""
    if evaluation.ports or evaluation.volumes is not None or evaluation.limits is not None:
        return None
    affinity = evaluation.affinity
    terms = [term.topology_key for term in (*affinity.affinity, *affinity.anti_affinity)]
    terms += [key for key, _ in affinity.existing]
    terms += [one.topology_key for one in evaluation.spread.constraints]
    return tuple(dict.fromkeys(terms))


def refuses_nowhere(evaluation: Evaluation) -> bool:
    """Whether `special_reasons` have nothing to say of any node: then none need be asked."""
    if evaluation.ports or not evaluation.affinity.idle or not evaluation.spread.idle:
        return False
    if evaluation.access is not None and evaluation.access.check():
        return False
    if evaluation.limits is not None and evaluation.cluster.csi_nodes:
        return False
    return evaluation.volumes is None or evaluation.volumes.anywhere


def problem_of(evaluation: Evaluation, checks: frozenset[str]) -> str:
    """What refuses the task before any node is looked at; '' when nothing does."""
    problem = evaluation.problem
    return problem.text if problem is not None and "volumes" in checks else ""


def refusals_of(
    feasible: Feasible, task: SessionTask, remembered: Mapping[int, Texts] = MappingProxyType({})
) -> Refusals:
    """Every node's refusal of a task, as things are now. A node that takes it is left out. `remembered`: what nodes
    have said before, by row, and say still."""
    shape: Shape = task.like
    table = feasible.table
    columns, static = feasible.columns(shape), feasible.statics.of(shape, feasible.checks)
    evaluation = feasible.evaluation(task) if feasible.special(task) else None
    if evaluation is not None and (problem := problem_of(evaluation, feasible.checks)):
        everywhere = np.ones(len(table), dtype=np.int16)
        return Refusals(table.names, everywhere, {1: (problem,)} if len(table) else {}, everywhere=True)
    short = _first_short(feasible, shape)
    of_room = np.where(short >= 0, (short + 1) * _SHORT, static.codes + np.where(columns.counts, 0, _FULL))
    codes: Codes = of_room.astype(np.int16)
    words = {code: _words(code, table.resources.names) for code in np.flatnonzero(np.bincount(codes)).tolist()}
    _ask_more(feasible, task, evaluation, codes, words)
    _repeat(remembered, codes, words)
    return Refusals(table.names, codes, {code: said for code, said in words.items() if said})


def _words(code: int, names: Sequence[str]) -> Texts:
    """What a code of the columns stands for."""
    if code >= _SHORT:
        return (f"Insufficient {names[code // _SHORT - 1]}",)
    full = (texts.POD_NUMBER,) if code & _FULL else ()
    return (*full, _STATIC[code & 3]) if code & 3 else full


def _ask_more(
    feasible: Feasible, task: SessionTask, evaluation: Evaluation | None, codes: Codes, words: dict[int, Texts]
) -> None:
    """Gives the nodes that the columns let through (or have too many pods, where more is looked at) a code of their
    own, if something else refuses."""
    asked = AskedNodes(evaluation, feasible.views(), feasible.checks) if evaluation is not None else None
    ruled, away = feasible.ruled(task), feasible.kept_away(task)
    if asked is None and ruled is None and away is None:
        return
    known: dict[Texts, int] = {}
    for row in np.flatnonzero((codes < _SHORT) & (codes & 3 == 0)).tolist():
        more = tuple(scheduler_reasons(asked.on(row))) if asked is not None else ()
        if away is not None and away[row]:
            more = (texts.EXISTING_ANTI_AFFINITY,)
        if not more and ruled is not None and not ruled[row]:
            more = (PLUGIN,)
        if more:
            said = words[int(codes[row])] + more
            codes[row] = known.setdefault(said, (len(feasible.table.resources.names) + 2) * _SHORT + len(known))
    words.update({code: said for said, code in known.items()})


def _repeat(remembered: Mapping[int, Texts], codes: Codes, words: dict[int, Texts]) -> None:
    """Gives nodes that have refused before the code of what they said then."""
    following = max(words, default=0) + 1
    known: dict[Texts, int] = {}
    for row, said in remembered.items():
        codes[row] = known.setdefault(said, following + len(known))
    words.update({code: said for said, code in known.items()})


def _first_short(feasible: Feasible, shape: Shape) -> Rows:
    """For each row the column of the first resource that is short, in the scheduler's order; -1 for none."""
    table = feasible.table
    first = np.full(len(table), -1)
    if shape.best_effort:
        return first
    future = table.future_idle()
    for column in feasible.kept.compared(shape)[::-1]:
        first[shape.request[column] - future[:, column] >= EPSILON] = column
    return first


__all__ = [
    "PLUGIN",
    "AskedNodes",
    "Refusals",
    "Said",
    "Table",
    "problem_of",
    "refusals_of",
    "refuses_nowhere",
    "special_reasons",
]
