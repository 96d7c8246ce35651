"""The machine's typed errors.

Owns their classes. Must not know who raises or prints them. Called by every module of `vcledger`; `cli` prints one as a
single line and exits with its `exit_code`.
"""

from __future__ import annotations


class VcledgerError(Exception):
    """Base of all. Its text is one line and says what to do. `exit_code` is 2 for misuse and bad input, 1 for a check
    that failed."""

    exit_code = 2


class BadTime(VcledgerError):
    """What names a moment is neither a position, a time, an offset nor a marker that the ledger has."""


class UnknownCluster(VcledgerError):
    """The ledger has no cluster of that name, or none at all."""


class ClusterNotNamed(VcledgerError):
    """The ledger holds several clusters, so one must be named."""


class UnknownMarker(BadTime):
    """No marker of the ledger has that name or speaks of that file."""


class UnknownKind(VcledgerError):
    """No kind of object in the log has that name."""


class UnknownModel(VcledgerError):
    """There is no cache model of that name."""


class HistoryPruned(VcledgerError):
    """A state rests on events that retention has dropped, and no snapshot stands for them."""


class NoSuchEvent(VcledgerError):
    """The ledger has no event at that position, or not one of the kind that was asked for."""


class UndecodableEvent(VcledgerError):
    """A stored event that this version cannot read: its position, type, and why."""


class UnusableObject(VcledgerError):
    """Bytes that cannot be stored as an observation: no JSON object, or no metadata, name or uid."""
