"""A simulated world from one seed: an API server, its controllers, faults, and the scheduler's loop, on simulated time.

Owns the world and how it comes to rest. Must not know the test kit nor the commands. Called by `vcledger.testing`, the
tests and `vcledger simulate`.
"""
