"""Replay: a recorded or published trace again, offline, under the recorded or another configuration.

Owns how a record becomes inputs, what a replay does with them, and what is told of it. Must not know API servers nor
the commands. Called by `cli` and by users' programs.
"""
