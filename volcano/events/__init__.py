"""The vocabulary: every event as a frozen struct, one module a family, and the catalog with codec and upcasters.

Owns names and shapes of events. Must not know the log nor the cache. Called by `projections` and `vcledger`.
"""
