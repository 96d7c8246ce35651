"""The writer's role on a cluster: a second recorder, or a second scheduler, of one cluster on one ledger is refused.

Owns the names of the roles, how long one lasts, when it is renewed, and who may take over whose. Must not know what its
holder does. Called by whoever writes to a ledger for as long as it runs: the recorder and the scheduler. An import
needs no role: what it stores twice is stored once.

    with Role.take(store, cluster, RECORDER) as role:
        while running:
            store.append(events, lease=role.lease)
            role.keep()

`Role.wait_for` is for a process that may follow one that died: it waits until it knows. `keep_until` is a thread's life
beside a writer that has no time to call `keep`.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from types import TracebackType

from eventstore import EventStore, open_store
from eventstore.types import EventStoreError, Lease, LeaseHeld, LeaseLost
from vcledger.errors import VcledgerError

RECORDER, SCHEDULER = "recorder", "scheduler"

SECONDS = 20.0
"""How long a role lasts unless it is renewed: so long a holder that died keeps others out."""

RENEWALS = 4
"""Into so many parts its time is cut: it is renewed when the first has passed, so that three attempts may fail."""

LOOK_SECONDS = 1.0
"""Between two looks whether it is time to renew it, or whether another has."""

_taken_here: set[tuple[str, str, int]] = set()
"""Roles that this process has taken, so that it does not take one of its own for a dead process's."""


class RoleHeld(VcledgerError):
    """Another process does this work for the cluster on this ledger."""


class AlreadyRecorded(RoleHeld):
    """Another recorder of the cluster writes into this ledger."""


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
        _taken_here.add((cluster, role, lease.term))
        return cls(store, lease, seconds)

    @classmethod
    def wait_for(
        cls,
        store: EventStore,
        cluster: str,
        role: str,
        stop: threading.Event,
        told: Callable[[str], None],
        *,
        take_over: bool = False,
        over: Callable[[str], bool] | None = None,
    ) -> Role:
        """Takes the role, also from a holder that has died: at once when `over` says so of its owner, such as of a
        process of this machine, else when its time has ended. RoleHeld when the holder renews it, so it lives, unless
        `take_over` says to take it all the same: the former holder can then store nothing more."""
        seen: Lease | None = None
        while True:
            try:
                return cls.take(store, cluster, role, take_over=take_over)
            except LeaseHeld as held:
                found = next((one for one in store.leases(cluster) if one.role == role), None)
                if found is None:
                    continue
                if (cluster, role, found.term) not in _taken_here and (over or is_dead)(found.owner):
                    take_over = True
                    continue
                alive = seen is not None and (found.term, found.renewed_at) != (seen.term, seen.renewed_at)
                if alive or stop.is_set():
                    error = AlreadyRecorded if role == RECORDER else RoleHeld
                    raise error(f"{held}: one {role} of a cluster at a time on a ledger") from held
                if seen is None:
                    told(f"{found.owner} had this role; waiting up to {SECONDS:g} s to see whether it lives")
                seen = found
                stop.wait(LOOK_SECONDS)

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

    def keep_until(self, db: str, stop: threading.Event, lost: Callable[[str], None]) -> None:
        """Keeps it until `stop`, on a connection of its own; `lost` when another has taken it. A thread's
        life. While the ledger is in trouble, of which the writer tells, it goes on: a lease can be renewed late."""
        with open_store(db) as store:
            mine = Role(store, self.lease, self._seconds)
            while not stop.wait(LOOK_SECONDS):
                try:
                    mine.keep()
                except LeaseLost as error:
                    lost(str(error))
                    return
                except EventStoreError:
                    continue

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


def is_dead(owner: str) -> bool:
    """Whether the owner is a process of this machine that is not there any more, or was one with our own number."""
    host, _, pid = owner.rpartition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    if int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
