"""The first schema that landed.

On PostgreSQL `events` is partitioned by ranges of positions; the appender makes the partitions ahead. `events_view`
is the documented view for people: times are microseconds since 1970 in UTC, payloads are left out because they are
compressed (`vcledger log -o json` prints them).
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FLAG = sa.Boolean(create_constraint=False)

VIEW = """
CREATE VIEW events_view AS
SELECT e.position, c.name AS cluster, k.name AS kind, s.namespace, s.name, s.uid, e.version,
       t.name AS type, t.family, t.schema, e.observed_at,
       (SELECT b.appended_at FROM batches b WHERE b.events > 0 AND b.first_position <= e.position
        ORDER BY b.first_position DESC LIMIT 1) AS appended_at,
       CASE e.flags & 3 WHEN 0 THEN 'recorded' WHEN 1 THEN 'inferred' ELSE 'recomputed' END AS known,
       (e.flags & 4) <> 0 AS late, e.gone, e.resource_version, a.uid AS about, e.causation, e.cycle,
       length(e.payload) AS stored_size
FROM events e
JOIN streams s ON s.id = e.stream_id
JOIN clusters c ON c.id = s.cluster_id
JOIN kinds k ON k.id = s.kind_id
JOIN types t ON t.id = e.type_id
LEFT JOIN subjects a ON a.id = e.about_id
"""


def upgrade() -> None:
    words()
    stream_tables()
    event_tables()
    batch_tables()
    op.execute(sa.text(VIEW))


def key(name: str, type_: sa.types.TypeEngine = BIG) -> sa.Column:
    return sa.Column(name, type_, primary_key=True, autoincrement=False)


def need(name: str, type_: sa.types.TypeEngine, **more: object) -> sa.Column:
    return sa.Column(name, type_, nullable=False, **more)


def words() -> None:
    op.create_table(
        "clusters", key("id", sa.Integer()), need("name", sa.Text(), unique=True), sa.Column("high_water", BIG)
    )
    op.create_table("kinds", key("id", sa.Integer()), need("name", sa.Text(), unique=True))
    op.create_table(
        "types",
        key("id", sa.Integer()),
        need("name", sa.Text()),
        need("family", sa.Text()),
        need("schema", sa.Integer()),
        sa.UniqueConstraint("name", "family", "schema"),
    )
    op.create_table("subjects", key("id"), need("uid", sa.Text(), unique=True))


def stream_tables() -> None:
    op.create_table(
        "streams",
        key("id"),
        need("key", BIG),
        need("cluster_id", sa.Integer()),
        need("kind_id", sa.Integer()),
        need("namespace", sa.Text()),
        need("name", sa.Text()),
        need("uid", sa.Text()),
    )
    for column in ("key", "name"):
        op.create_index(f"streams_{column}", "streams", [column])
    op.create_table(
        "stream_heads",
        key("stream_id"),
        need("version", sa.Integer()),
        need("position", BIG),
        sa.Column("resource_version", BIG),
        sa.Column("resource_version_max", BIG),
        need("gone", FLAG),
        need("pruned_version", sa.Integer()),
    )
    if op.get_bind().dialect.name == "postgresql":
        # Each append changes its streams' heads: with room in the page the indexes stay as they are.
        op.execute(sa.text("ALTER TABLE stream_heads SET (fillfactor = 70)"))


def event_tables() -> None:
    op.create_table(
        "events",
        key("position"),
        need("stream_id", BIG),
        need("observed_at", BIG),
        sa.Column("resource_version", BIG),
        sa.Column("causation", BIG),
        sa.Column("cycle", BIG),
        sa.Column("about_id", BIG),
        need("version", sa.Integer()),
        sa.Column("dictionary_id", sa.Integer()),
        need("type_id", sa.SmallInteger()),
        need("flags", sa.SmallInteger()),
        need("gone", FLAG),
        need("payload", sa.LargeBinary()),
        postgresql_partition_by="RANGE (position)",
    )
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    # A partitioned table can only have unique indexes that hold the partition's key; there the writers' lock alone
    # keeps an observation from being stored twice.
    op.create_index("events_observation", "events", ["stream_id", "resource_version", "gone"], unique=on_sqlite)
    some = sa.text("about_id IS NOT NULL")
    op.create_index("events_about", "events", ["about_id"], sqlite_where=some, postgresql_where=some)
    if not on_sqlite:
        op.execute(sa.text("ALTER TABLE events ALTER COLUMN payload SET STORAGE EXTERNAL"))
    op.create_table(
        "dictionaries",
        key("id", sa.Integer()),
        need("trained_at", BIG),
        need("hash", sa.LargeBinary()),
        need("payload", sa.LargeBinary()),
    )


def batch_tables() -> None:
    op.create_table(
        "batches",
        key("id"),
        need("first_position", BIG),
        need("events", sa.Integer()),
        need("appended_at", BIG),
        need("payload_size", BIG),
        need("payload_stored", BIG),
        sa.Column("dictionary_id", sa.Integer()),
        need("hash", sa.LargeBinary()),
    )
    op.create_index("batches_first_position", "batches", ["first_position"])
    op.create_table(
        "batch_marks",
        key("cluster_id", sa.Integer()),
        key("batch_id"),
        need("high_water", BIG),
        need("position", BIG),
        sqlite_with_rowid=False,
    )
    op.create_table("tokens", key("token", sa.Text()), sa.Column("batch_id", BIG), need("result", sa.LargeBinary()))
    op.create_table(
        "snapshots",
        key("projection", sa.Text()),
        key("version", sa.Integer()),
        key("cluster", sa.Text()),
        key("position"),
        sa.Column("base", BIG),
        need("created_at", BIG),
        need("size", BIG),
        need("hash", sa.LargeBinary()),
        need("payload", sa.LargeBinary()),
    )
    op.create_table(
        "prunes",
        key("id", sa.Integer()),
        need("batch_id", BIG),
        need("cut", BIG),
        need("dropped", BIG),
        need("kept", BIG),
        need("hash", sa.LargeBinary()),
    )


def downgrade() -> None:
    raise NotImplementedError("a ledger is only ever brought forward")
