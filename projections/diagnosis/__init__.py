"""Diagnosis: why a pod or a group waits, node by node, and the smallest change that would have let it run.

Owns verdicts, reasons and changes, worked out from views of the cache. Must not know the log, nor which API objects a
view was made of. Called by `vcledger` for `why`, and by the session (`vcledger.scheduler.session`) for its predicates.
"""
