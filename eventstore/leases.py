"""Writers' roles: of those who would do the same work on the same cluster, one at a time.

Owns who holds a role, since when and until when. Must not know what the roles are for. Called by `eventstore.store`
and, for the holder's own appends, by `eventstore.append`.

A lease is a row. It ends at a time, by the holders' clocks, unless it is renewed: a holder that died keeps others out
until then. Clocks only decide how soon another may take the role. What keeps two from writing is the term, a number
that rises with each new holder: an append that names its lease is refused once the role has another term, in the very
transaction that would store it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, insert, inspect, select, update

from eventstore import schema
from eventstore.backend import Backend, translated
from eventstore.types import Lease, LeaseHeld, LeaseLost
from eventstore.words import check_text

MICROS = 1_000_000


class Leases:
    """The roles of a ledger. `clock` gives microseconds since 1970."""

    def __init__(self, backend: Backend, clock: Callable[[], int]) -> None:
        self._backend = backend
        self._clock = clock

    def acquire(self, cluster: str, role: str, owner: str, seconds: float, take_over: bool) -> Lease:
        """See `EventStore.acquire`."""
        for text, what in ((cluster, "cluster"), (role, "role"), (owner, "owner")):
            check_text(text, what)
        with translated(self._backend), self._backend.writing() as connection:
            now = self._clock()
            found = row(connection, cluster, role)
            if found is not None and found.owner and found.expires_at > now and not take_over:
                raise LeaseHeld(
                    f"{found.owner} is the {role} of cluster {cluster} since {moment(found.acquired_at)}, and holds "
                    f"the role until {moment(found.expires_at)} if it does not renew it"
                )
            term = 1 if found is None else found.term + 1
            lease = Lease(cluster, role, owner, term, now, now, now + int(seconds * MICROS))
            if found is None:
                connection.execute(insert(schema.leases).values(**lease._asdict()))
            else:
                put(connection, lease)
            return lease

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `EventStore.renew`."""
        with translated(self._backend), self._backend.writing() as connection:
            check_lease(connection, lease)
            now = self._clock()
            renewed = lease._replace(renewed_at=now, expires_at=now + int(seconds * MICROS))
            put(connection, renewed)
            return renewed

    def release(self, lease: Lease) -> None:
        """See `EventStore.release`."""
        with translated(self._backend), self._backend.writing() as connection:
            found = row(connection, lease.cluster, lease.role)
            if found is not None and found.term == lease.term:
                put(connection, found._replace(owner="", expires_at=self._clock()))

    def held(self, cluster: str | None) -> list[Lease]:
        """See `EventStore.leases`."""
        t = schema.leases.c
        statement = select(schema.leases).where(t.owner != "", t.expires_at > self._clock())
        if cluster is not None:
            statement = statement.where(t.cluster == cluster)
        with translated(self._backend), self._backend.reading() as connection:
            if not inspect(connection).has_table(schema.leases.name):
                return []  # a ledger of an older revision, opened for reading
            rows = connection.execute(statement.order_by(t.cluster, t.role)).all()
        return [Lease(*found) for found in rows]


def row(connection: Connection, cluster: str, role: str) -> Lease | None:
    """The role as the ledger has it, held or not; None when nobody ever held it."""
    t = schema.leases.c
    found = connection.execute(select(schema.leases).where(t.cluster == cluster, t.role == role)).one_or_none()
    return None if found is None else Lease(*found)


def put(connection: Connection, lease: Lease) -> None:
    """Writes a role that is there already."""
    t = schema.leases.c
    connection.execute(
        update(schema.leases).where(t.cluster == lease.cluster, t.role == lease.role).values(**lease._asdict())
    )


def check_lease(connection: Connection, lease: Lease) -> None:
    """LeaseLost unless the lease's holder is still the last one who took the role."""
    found = row(connection, lease.cluster, lease.role)
    if found is not None and found.term == lease.term and found.owner:
        return
    now = f"{found.owner} has taken it" if found is not None and found.owner else "it was given up"
    raise LeaseLost(
        f"{lease.owner} is no longer the {lease.role} of cluster {lease.cluster}: {now}; nothing was stored"
    )


def moment(micros: int) -> str:
    """A time for people, in UTC, to the second."""
    return datetime.fromtimestamp(micros // MICROS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
