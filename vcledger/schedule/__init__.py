"""The scheduler on a real API server: the loop of the bind flow, its informers, its leader lock.

Owns the process around the pure deciders. Must not decide where a pod goes. Called by `cli.schedule` and by programs
that run a scheduler of their own on the bind flow.
"""
