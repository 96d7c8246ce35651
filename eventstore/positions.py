"""Where in the log something stands: its head, what retention has dropped, and how far it had got at a time.

Owns these searches. Must not know either database nor what a payload means. Called by `eventstore.read`, and by the
modules of retention, verification and statistics, inside a transaction of theirs.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from eventstore import schema


def head_position(connection: Connection) -> int:
    """The position of the newest event; 0 in an empty ledger."""
    b = schema.batches.c
    row = connection.execute(select(b.first_position, b.events).order_by(b.id.desc()).limit(1)).one_or_none()
    return 0 if row is None else row.first_position + row.events - 1


def pruned_to(connection: Connection) -> int:
    """The last position that retention has dropped; 0 when it has dropped none."""
    return connection.execute(select(func.max(schema.prunes.c.cut))).scalar() or 0


def batch_times(connection: Connection, low: int, high: int) -> tuple[list[int], list[int]]:
    """First positions of the batches that reach into a range, and when each was appended. Both in order."""
    b = schema.batches.c
    first = select(func.max(b.first_position)).where(b.first_position <= low, b.events > 0).scalar_subquery()
    rows = connection.execute(
        select(b.first_position, b.appended_at)
        .where(b.events > 0, b.first_position >= func.coalesce(first, 0), b.first_position <= high)
        .order_by(b.first_position)
    ).all()
    return [row.first_position for row in rows], [row.appended_at for row in rows]


def position_within(connection: Connection, cluster: str, observed_at: int) -> int:
    """Binary search over the cluster's marks, one a batch, then a look into the one batch that spans the time."""
    c, m = schema.clusters.c, schema.batch_marks.c
    id_ = connection.execute(select(c.id).where(c.name == cluster)).scalar_one_or_none()
    if id_ is None:
        return 0
    low, high = connection.execute(select(func.min(m.batch_id), func.max(m.batch_id)).where(m.cluster_id == id_)).one()
    if low is None:
        return 0
    before = 0
    while low <= high:
        middle = (low + high) // 2
        row = connection.execute(
            select(m.batch_id, m.high_water, m.position)
            .where(m.cluster_id == id_, m.batch_id >= middle)
            .order_by(m.batch_id)
            .limit(1)
        ).one_or_none()
        if row is None or row.batch_id > high:
            high = middle - 1
        elif row.high_water <= observed_at:
            before, low = row.position, row.batch_id + 1
        else:
            high = middle - 1
    return _within(connection, id_, low, before, observed_at)


def _within(connection: Connection, cluster_id: int, batch_id: int, before: int, observed_at: int) -> int:
    """The cluster's last event in time within the batch whose mark is the first beyond the time; `before` when all
    of it is later."""
    m, e, s, b = schema.batch_marks.c, schema.events.c, schema.streams.c, schema.batches.c
    mark = connection.execute(
        select(m.batch_id).where(m.cluster_id == cluster_id, m.batch_id >= batch_id).order_by(m.batch_id).limit(1)
    ).scalar_one_or_none()
    if mark is None:
        return before
    first, count = connection.execute(select(b.first_position, b.events).where(b.id == mark)).one()
    found = connection.execute(
        select(func.max(e.position))
        .join(schema.streams, s.id == e.stream_id)
        .where(
            e.position >= first,
            e.position < first + count,
            e.observed_at <= observed_at,
            e.flags < schema.LATE,
            s.cluster_id == cluster_id,
        )
    ).scalar()
    return before if found is None else found
