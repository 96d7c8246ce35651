"""Why a node refuses a pod: the reason's shape, the scheduler's wording, and how the scheduler sums the reasons up.

Owns the texts and the grouping. Must not know how a reason is found. Called by the predicates and by the verdict.
Sources: Volcano api.FitErrors.Error and allocate's predicate; the ErrReason constants of kube-scheduler's plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

POD_NUMBER = "node(s) pod number exceeded"
UNSCHEDULABLE = "node(s) were unschedulable"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTS = "node(s) had untolerated taint(s)"
PORTS = "node(s) didn't have free ports for the requested pod ports"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
VOLUME_LIMIT = "node(s) exceed max volume count"
ACCESS_MODE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
VOLUME_ZONE = "node(s) had no available volume zone"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
VOLUME_BIND = "node(s) didn't find available persistent volumes to bind"
VOLUME_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_SPACE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOT_READY = "node(s) were not ready"
NOT_IN_SNAPSHOT = "node(s) were not in the scheduler's snapshot"

VOLUME_FAMILIES = ("claims", "volumes", "volume-zone", "volume-limits", "access-modes")
"""Families that speak of volumes: a pod that only they keep from a node has a volume problem."""


class Reason(NamedTuple):
    """One predicate's refusal.

    family     the predicate
    text       what the scheduler prints, counted over nodes
    detail     ours, with numbers and names
    final      the scheduler looks at no further predicate on that node
    scheduler  False: the scheduler itself does not go by it (shown, but the node still counts as fitting)
    """

    family: str
    text: str
    detail: str = ""
    final: bool = True
    scheduler: bool = True

    @property
    def line(self) -> str:
        """Text and detail for people."""
        return f"{self.text}: {self.detail}" if self.detail else self.text


def scheduler_reasons(reasons: Sequence[Reason]) -> list[str]:
    """What the scheduler names for a node: the reasons in order up to the first final one."""
    if len(reasons) == 1:
        return [reasons[0].text] if reasons[0].scheduler else []
    named: list[str] = []
    for reason in reasons:
        if not reason.scheduler:
            continue
        named.append(reason.text)
        if reason.final:
            break
    return named


def each_named(by_node: Mapping[str, Sequence[Reason]]) -> list[tuple[str, list[str]]]:
    """Each node's name with what the scheduler names there; made once for nodes that share their refusals."""
    known: dict[int, list[str]] = {}
    pairs = []
    for node, reasons in by_node.items():
        named = known.get(id(reasons))
        if named is None:
            named = known[id(reasons)] = scheduler_reasons(reasons)
        pairs.append((node, named))
    return pairs


def fit_message(by_node: Mapping[str, Sequence[Reason]]) -> str:
    """The scheduler's message for nodes that all refuse: `0/10 nodes are unavailable: 2 node(s) had …, 8 Insufficient
    cpu.`, the counted reasons sorted as text."""
    counts: dict[str, int] = {}
    for _, named in each_named(by_node):
        for text in named:
            counts[text] = counts.get(text, 0) + 1
    return compose(len(by_node), counts)


def compose(nodes: int, counts: Mapping[str, int]) -> str:
    """The message from counts. Without a node the scheduler's sentence ends early."""
    head = f"0/{nodes} nodes are unavailable"
    if not nodes:
        return head
    return f"{head}: {', '.join(sorted(f'{count} {text}' for text, count in counts.items()))}."


def grouped(lines: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """(text, node) pairs as (text, nodes), the largest group first, then by text."""
    groups: dict[str, list[str]] = {}
    for text, node in lines:
        groups.setdefault(text, []).append(node)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
