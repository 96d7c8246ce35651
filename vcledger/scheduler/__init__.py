"""The deciders, pure: bind flow, volume binder, work queues, recovery, and a session in each cycle.

Owns what is decided. Must not know time, random, threads, sockets, files or databases: time arrives as data, and what
is decided leaves as events and effects. Called by the loop (`vcledger.runtime.loop`).
"""
