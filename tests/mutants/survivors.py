"""Generated mutants that survived, and why nothing can notice them.

Owns these explanations. Must not know how they were found. Called by `tests.mutants.more`.
"""

from __future__ import annotations

EXPLAINED: dict[tuple[str, str, str], str] = {
    (
        "eventstore/accept.py",
        "if revision <= head.highest:",
        "if revision is not head.highest:",
    ): "the run is taken one event at a time then, to the same end",
    (
        "vcledger/scheduler/binder.py",
        "if len(batch) < size and not whole:",
        "if len(batch) is not size and not whole:",
    ): "a batch is never longer than its size",
    (
        "vcledger/scheduler/volume_binder.py",
        "if task is not None and task.written + 1 < len(task.bindings) + len(task.provisions):",
        "if task is not None and task.written + 1 is not len(task.bindings) + len(task.provisions):",
    ): "the number written is never beyond that of what is to be written, and small numbers are one object each",
    (
        "vcledger/scheduler/volume_binder.py",
        "held = flow.tasks.get(intent.uid) if task is None else task",
        "held = flow.tasks.get(intent.uid) if task is not None else task",
    ): "a task whose update is out leaves that phase by its end only, and it is out of the flow before the answer is "
    "looked at",
    (
        "vcledger/scheduler/fold_volumes.py",
        "return task if task is not None and task.phase is Phase.UPDATING else None",
        "return task if task is not None and task.phase >= Phase.UPDATING else None",
    ): "the one phase behind it in the alphabet is that of a task all of whose updates are answered",
    (
        "vcledger/scheduler/fold.py",
        'elif kind == "PersistentVolumeClaim":',
        'elif kind >= "PersistentVolumeClaim":',
    ): "of another kind nothing is kept under a claim's key, and what is held for a claim's pods comes out the same",
    (
        "vcledger/scheduler/decide.py",
        'elif intent.kind == "resync":',
        'elif intent.kind >= "resync":',
    ): "no other kind of intent comes behind it in the alphabet",
    (
        "vcledger/scheduler/fold.py",
        "if number is not None and number > flow.versions.get(recorded.kind, -1):",
        "if number is not None and number >= flow.versions.get(recorded.kind, -1):",
    ): "the number that is there already is put there",
    (
        "projections/cache/pods.py",
        "if node is None or copy is None or copy.uid != fresh.uid or copy.status != task.status "
        "or copy.job != fresh.job:",
        "if node is None or copy is None or copy.uid <= fresh.uid or copy.status != task.status "
        "or copy.job != fresh.job:",
    ): "the task is taken off its node and put on again then, to the same end, which is a law of its own",
    (
        "vcledger/scheduler/fold.py",
        'elif kind == "PersistentVolume":',
        'elif kind <= "PersistentVolume":',
    ): "of another kind nothing is kept under such a name",
    (
        "projections/cache/pods.py",
        "if not number <= scalars.get(name, 0) < _FLOAT_EXACT:",
        "if not number > scalars.get(name, 0) < _FLOAT_EXACT:",
    ): "the pod itself is one of the numbers and never above their sum, so the long way is taken, to the same end",
    (
        "vcledger/scheduler/fold_volumes.py",
        "return task if task is not None and task.phase is Phase.UPDATING else None",
        "return task if task is not None and task.phase <= Phase.UPDATING else None",
    ): "as long as an update of a task is not answered, the task is in that phase or out of the flow",
    (
        "vcledger/scheduler/fold_resync.py",
        "if not event.requeued:",
        "if  event.requeued:",
    ): "every failed read is asked again, and the event that queues it follows at once",
    (
        "vcledger/scheduler/decide.py",
        'binder.flush(hand, whole=given.key == "whole")',
        'binder.flush(hand, whole=given.key >= "whole")',
    ): "the other key is empty",
    (
        "eventstore/append.py",
        "heads, _, _, revisions, _, _, _, _, _, _, sizes, shorts, payloads = zip(*accepted, strict=True)",
        "heads, _, _, revisions, _, _, _, _, _, _, sizes, shorts, payloads = zip(*accepted, strict=False)",
    ): "all that are accepted are equally long",
}
"""(file, line before, line after) to why."""
