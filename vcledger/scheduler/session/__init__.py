"""Volcano's scheduling session: a snapshot, a configuration and a seed go in, decisions come out.

Owns what a cycle decides. Pure, as all of `vcledger.scheduler`. Called by its `cycle`, the replays, `why` and the
proof. The modules: `conf` (Volcano's configuration file), `model` (jobs, tasks and queues as the session looks at
them), `nodes` (node state in columns), `mirror` (keeps both up with a cache, event by event), `framework` (extension
points and tiers), `statement` (what is done to a gang together, or not at all), `feasible` (the predicates over the
columns), `actions`, `plugins`, `run` (one cycle), `outcome` (what it decided, as values and events).
"""
