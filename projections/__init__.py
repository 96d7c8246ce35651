"""The folds, pure: the cache with its three models, what is worked out from it, and the timeline.

Owns what a state is and how an event changes it. Must not know time, random, threads, files, databases nor the log.
Called by `vcledger`.
"""
