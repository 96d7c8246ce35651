"""Views for people: readable times, objects as they stand, and on PostgreSQL the way from a time to a position.

Changes no table. `events_view` keeps its columns and gets two more; they are text in ISO 8601 on SQLite, timestamptz on
PostgreSQL. A column that a query does not ask for costs nothing.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

APPENDED = """(SELECT b.appended_at FROM batches b WHERE b.events > 0 AND b.first_position <= e.position
        ORDER BY b.first_position DESC LIMIT 1)"""

EVENTS = """
CREATE VIEW events_view AS
SELECT e.position, c.name AS cluster, k.name AS kind, s.namespace, s.name, s.uid, e.version,
       t.name AS type, t.family, t.schema, e.observed_at,
       {appended} AS appended_at,
       CASE e.flags & 3 WHEN 0 THEN 'recorded' WHEN 1 THEN 'inferred' ELSE 'recomputed' END AS known,
       (e.flags & 4) <> 0 AS late, e.gone, e.resource_version, a.uid AS about, e.causation, e.cycle,
       length(e.payload) AS stored_size,
       {observed_time} AS observed_time, {appended_time} AS appended_time
FROM events e
JOIN streams s ON s.id = e.stream_id
JOIN clusters c ON c.id = s.cluster_id
JOIN kinds k ON k.id = s.kind_id
JOIN types t ON t.id = e.type_id
LEFT JOIN subjects a ON a.id = e.about_id
"""

STREAMS = """
CREATE VIEW streams_view AS
SELECT c.name AS cluster, k.name AS kind, s.namespace, s.name, s.uid, h.version, h.position, h.resource_version,
       h.gone, e.observed_at, {observed_time} AS observed_time
FROM streams s
JOIN clusters c ON c.id = s.cluster_id
JOIN kinds k ON k.id = s.kind_id
JOIN stream_heads h ON h.stream_id = s.id
LEFT JOIN events e ON e.position = h.position
"""

POSITION_AT = """
CREATE FUNCTION position_at(wanted text, moment timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  wanted_id integer;
  wanted_at bigint := (extract(epoch FROM moment) * 1000000)::bigint;
  low bigint;
  high bigint;
  middle bigint;
  mark record;
  before bigint := 0;
  within bigint;
BEGIN
  SELECT id INTO wanted_id FROM clusters WHERE name = wanted;
  SELECT min(batch_id), max(batch_id) INTO low, high FROM batch_marks WHERE cluster_id = wanted_id;
  WHILE low <= high LOOP
    middle := (low + high) / 2;
    SELECT m.batch_id, m.high_water, m.position INTO mark FROM batch_marks m
      WHERE m.cluster_id = wanted_id AND m.batch_id >= middle ORDER BY m.batch_id LIMIT 1;
    IF NOT FOUND OR mark.batch_id > high THEN
      high := middle - 1;
    ELSIF mark.high_water <= wanted_at THEN
      before := mark.position;
      low := mark.batch_id + 1;
    ELSE
      high := middle - 1;
    END IF;
  END LOOP;
  SELECT max(e.position) INTO within
  FROM (SELECT m.batch_id FROM batch_marks m WHERE m.cluster_id = wanted_id AND m.batch_id >= low
        ORDER BY m.batch_id LIMIT 1) AS next
  JOIN batches b ON b.id = next.batch_id
  JOIN events e ON e.position >= b.first_position AND e.position < b.first_position + b.events
  JOIN streams s ON s.id = e.stream_id
  WHERE e.observed_at <= wanted_at AND e.flags < 4 AND s.cluster_id = wanted_id;
  RETURN coalesce(within, before);
END
$$
"""


def upgrade() -> None:
    op.execute(sa.text("DROP VIEW events_view"))
    if op.get_bind().dialect.name == "postgresql":
        make_views("(timestamptz 'epoch' + {} * interval '1 microsecond')")
        op.execute(sa.text(POSITION_AT.replace(":", "\\:")))
    else:
        make_views("strftime('%Y-%m-%dT%H:%M:%S', {0} / 1000000, 'unixepoch') || printf('.%06dZ', {0} % 1000000)")


def make_views(time: str) -> None:
    """`time`: SQL that makes microseconds readable."""
    observed, appended = time.format("e.observed_at"), time.format(APPENDED)
    for view in (EVENTS, STREAMS):
        statement = view.format(appended=APPENDED, observed_time=observed, appended_time=appended)
        op.execute(sa.text(statement.replace(":", "\\:")))


def downgrade() -> None:
    raise NotImplementedError("a ledger is only ever brought forward")
