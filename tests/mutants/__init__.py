"""Bugs on purpose: one-line mutants of the scheduler, the projections and the log, each killed by the suites.

`python -m tests.mutants` applies one at a time in a copy of the tree and runs the tests that should notice.
"""
