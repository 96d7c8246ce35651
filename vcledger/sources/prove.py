"""What each format cannot prove, in words for the report: whole sentences, and a few words for a terminal.

Owns these words. Must not know how a format is read. Called by `vcledger.sources.pipeline`.
"""

from __future__ import annotations

from vcledger.sources.detect import Format

CANNOT: dict[Format, tuple[str, ...]] = {
    Format.recording: (
        "a watch shows what the API server stored, not what a scheduler assumed: tasks being bound and volumes being "
        "assumed are not in it, and a bind that failed is not either (an audit log has those)",
    ),
    Format.watch: (
        "raw watch lines have no time of receipt: the newest time inside each object stands in for it, whole seconds "
        "mostly, so the order across kinds within a second is a guess",
        "a watch shows what the API server stored, not what a scheduler assumed, nor binds that failed",
    ),
    Format.objects: (
        "objects and lists by themselves say how things were at a moment, not what happened between, and not that what "
        "is missing was deleted: a list may have been of one namespace or one label",
    ),
    Format.yaml: (
        "objects and lists by themselves say how things were at a moment, not what happened between, and not that what "
        "is missing was deleted: a list may have been of one namespace or one label",
    ),
    Format.audit: (
        "an audit log shows what was written and answered, at the level that its policy logs: no changes without a "
        "body (Metadata level), none by the API server itself, and not when a watcher learned of it",
    ),
    Format.dump: (
        "a cache dump is one scheduler's memory at one moment: no reasons, no queues, volumes or priority classes, no "
        "nodes that are not Ready and no jobs without PodGroup or queue; conditions in it may be the scheduler's own, "
        "not yet written ones",
    ),
    Format.openb_nodes: (
        "a list of nodes of the openb traces has no times: all of them are there, Ready, from before the first pod to "
        "the end, with no taints, labels or limit on pods of their own (110 stands for that)",
    ),
    Format.openb_pods: (
        "the openb traces do not say which node a pod went to, nor why one waited: a scheduled pod is Running without "
        "a node, so no node's use can be shown, and no bind or eviction",
        "they have no queues, gangs, priorities or nodes that come and go: each pod is a PodGroup of one in the queue "
        "of its qos, and when a pod succeeded or failed is only known to be before its deletion",
        "shared GPUs are counted as volcano.sh/gpu-memory, 1,000 a GPU, over the whole node: that the share of a pod "
        "has to lie on one GPU is not held; what still ran at the trace's end is deleted then",
    ),
    Format.simkube: (
        "a SimKube trace has no nodes, binds or status, only owners of pods and when their pods ran: a pod that ran is "
        "there from its start on, without the time it waited or its node, and whether it succeeded is not told",
        "of owners without lifecycles it has no pods either: they are made from the number of replicas, and whether "
        "and when they ran is not told; names, uids and PodGroups of all pods are made by the import",
    ),
    Format.simulator: (
        "a record of kube-scheduler-simulator's recorder shows what informers saw of pods, nodes, volumes and the "
        "like: no PodGroups, queues, Events or CSINodes unless asked for, no gaps of its watches, changes in "
        "between merged",
        "of a deletion it has the name only: the state before stands in for the last one",
    ),
    Format.snapshot: (
        "a snapshot of kube-scheduler-simulator is the state at one moment, without PodGroups, queues and Events",
    ),
    Format.exported: (
        "the event exporter has Events only, of those what its routes let through and what was not too old for it; "
        "none is seen deleted, the objects themselves are not shown, and of an object that it could not look up the "
        "Event does not say what it is about",
    ),
    Format.cluster_info: (
        "a cluster-info dump has nodes, and pods and Events of some namespaces, as they were at a moment: no "
        "volumes or classes, no PodGroups, queues or Volcano Jobs, no history, and not that what is missing was "
        "deleted",
    ),
}


IN_SHORT: dict[Format, str] = {
    Format.recording: "what the scheduler assumed, and binds that failed",
    Format.watch: "when a line was received, what the scheduler assumed, and binds that failed",
    Format.objects: "what happened between lists, and that what is missing was deleted",
    Format.yaml: "what happened between lists, and that what is missing was deleted",
    Format.audit: "changes logged without a body, and when a watcher learned of any",
    Format.dump: "queues, volumes, priority classes, nodes that are not Ready, and reasons",
    Format.openb_nodes: "when nodes came and went, their taints and other labels",
    Format.simulator: "PodGroups, queues and Events, gaps of its watches, and last states of what was deleted",
    Format.snapshot: "PodGroups, queues, Events, and what happened before",
    Format.exported: "Events that were filtered out, and the objects that they are about",
    Format.cluster_info: "volumes, PodGroups, queues, what happened before, and that what is missing was deleted",
    Format.simkube: "nodes, binds, how long pods waited, whether they succeeded; pods are made from their owners",
    Format.openb_pods: "which node a pod went to and why it waited, queues, gangs, which GPU a share lies on",
}
"""The gist of the sentences, for a report that people read each time; docs/importing.md has them too."""


def in_short(formats: list[str]) -> list[str]:
    """`format: what it cannot prove` in a few words, for the names of formats, each once, in a fixed order."""
    return [f"{format_}: {words}" for format_, words in IN_SHORT.items() if format_ in formats]


def cannot_prove(formats: list[Format]) -> list[str]:
    """The sentences for the formats of a call, each once, in a fixed order."""
    found: dict[str, None] = {}
    for format_ in Format:
        if format_ in formats:
            for sentence in CANNOT.get(format_, ()):
                found.setdefault(f"{format_}: {sentence}")
    return list(found)
