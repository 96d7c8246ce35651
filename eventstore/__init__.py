"""An event store on SQLite and PostgreSQL: streams with versions, a total order, a hash chain, snapshots, followers.

Owns the log. Must not know Kubernetes, Volcano, or any fold. Used by `vcledger`; usable on its own.

The databases' libraries take longer to import than most commands take to run, so the store itself comes on first use;
the values and errors of `eventstore.types` are there at once.
"""

from typing import TYPE_CHECKING, Any

from eventstore.types import *  # noqa: F403
from eventstore.types import RECORDED

if TYPE_CHECKING:
    from eventstore.store import EventStore, open_store

__all__ = ["RECORDED", "EventStore", "open_store"]


def __getattr__(name: str) -> Any:
    if name not in ("EventStore", "open_store"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from eventstore import store

    return getattr(store, name)
