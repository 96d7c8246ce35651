"""The loop that owns the state, and the port through which effects reach an API server.

Owns the port's values, the loop and the clock. Must not decide anything: the deciders are in `vcledger.scheduler`.
Called by the simulation, the recorder, the scheduler's process, the test kit, and users who embed the scheduler.
"""
