"""An event store on SQLite and PostgreSQL: streams with versions, a total order, a hash chain, snapshots, followers.

Owns the log. Must not know Kubernetes, Volcano, or any fold. Used by `vcledger`; usable on its own.
"""

from eventstore.store import EventStore, open_store
from eventstore.types import *  # noqa: F403
from eventstore.types import RECORDED

__all__ = ["RECORDED", "EventStore", "open_store"]
