"""What a reader hands to the pipeline: events that are ready, and what the pipeline has to work out with the ledger.

Owns these shapes. Must not know formats nor the log. Made by the readers, taken by `vcledger.sources.pipeline`.

Every item, like NewEvent itself, has `observed_at` in microseconds, by which files are merged.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from eventstore.runs import Run
from eventstore.types import NewEvent


class ListBegun(NamedTuple):
    """A list or relist of a whole kind begins: `length` items of it follow. What is said of it is stored once under
    `key`."""

    observed_at: int
    kind: str
    resource: str
    version: str
    length: int
    relist: bool
    key: int


class ListItem(NamedTuple):
    """An item of the list that has begun for its kind."""

    observed_at: int
    event: NewEvent


class Sighting(NamedTuple):
    """An object as it was at a moment; the source does not say whether it was new or changed."""

    observed_at: int
    event: NewEvent


class Broke(NamedTuple):
    """A watch ended in a way after which changes may be missed: of one kind, or of all (''). The event that says so
    comes after this."""

    observed_at: int
    kind: str
    reason: str


class Vanished(NamedTuple):
    """An object is gone, and nothing was said of its last state: an audited delete that answered with a Status. Without
    a uid it is the one that had the name last."""

    observed_at: int
    kind: str
    namespace: str
    name: str
    uid: str


Item: TypeAlias = NewEvent | ListBegun | ListItem | Sighting | Broke | Vanished

Taken: TypeAlias = Item | Run
"""What the sink takes: runs come from a second process in place of observations one by one."""
