"""The deciders, pure: bind flow, volume binder, work queues, recovery, the minimal allocate pass.

Owns what is decided. Must not know time, random, threads, sockets, files or databases: time arrives as data, and what
is decided leaves as events and effects. Called by `vcledger.runtime`.
"""
