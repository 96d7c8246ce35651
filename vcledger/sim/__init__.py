"""A simulated world from one seed: an API server, its controllers, faults, and the scheduler's loop, on simulated time.

Must not know the test kit nor the commands. Called by `vcledger.testing`, the tests and `vcledger simulate`.
"""
