"""The writer's role on a cluster: a second recorder, or a second scheduler, of one cluster on one ledger is refused.

Owns the names of the roles, how long one lasts, and when it is renewed. Must not know what its holder does. Called by
whoever writes to a ledger for as long as it runs: the recorder and the scheduler. An import needs no role: what it
stores twice is stored once.

    with Role.take(store, cluster, RECORDER) as role:
        while running:
            store.append(events, lease=role.lease)
            role.keep()
"""

from __future__ import annotations

import os
import socket
from types import TracebackType

from eventstore import EventStore
from eventstore.types import EventStoreError, Lease, LeaseLost

RECORDER, SCHEDULER = "recorder", "scheduler"

SECONDS = 30.0
"""How long a role lasts unless it is renewed: so long a holder that died keeps others out."""

RENEWALS = 3
"""Into so many parts its time is cut: it is renewed when the first has passed, so that two attempts may fail."""


class Role:
    """A role that is held. `lease` is what the holder's appends name."""

    def __init__(self, store: EventStore, lease: Lease, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self.lease = lease

    @classmethod
    def take(
        cls,
        store: EventStore,
        cluster: str,
        role: str,
        *,
        owner: str | None = None,
        seconds: float = SECONDS,
        take_over: bool = False,
    ) -> Role:
        """Takes the role, or raises LeaseHeld, which says who has it. `owner`: this host and process unless given."""
        lease = store.acquire(cluster, role, owner or this_process(), seconds=seconds, take_over=take_over)
        return cls(store, lease, seconds)

    @property
    def renewal_due_at(self) -> int:
        """When it is to be renewed, in microseconds by the ledger's clock."""
        return self.lease.renewed_at + int(self._seconds / RENEWALS * 1_000_000)

    def keep(self) -> bool:
        """Renews it when it is time, else does nothing: call it often, also when there is nothing to append. LeaseLost
        when another has taken it: stop then. Other errors (the ledger is busy, or cannot be reached) are put up with
        until its time has ended, for which the answer is False."""
        if self._store.now() < self.renewal_due_at:
            return True
        try:
            self.lease = self._store.renew(self.lease, seconds=self._seconds)
        except LeaseLost:
            raise
        except EventStoreError:
            if self._store.now() >= self.lease.expires_at:
                raise
            return False
        return True

    def release(self) -> None:
        """Gives it up, so that another need not wait."""
        self._store.release(self.lease)

    def __enter__(self) -> Role:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except EventStoreError:
            if error is None:
                raise  # else the first error matters; the role ends by itself


def this_process() -> str:
    """A name for people: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"
