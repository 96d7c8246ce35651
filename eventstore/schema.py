"""The ledger's tables as SQLAlchemy knows them, and the revisions that this version can open.

Owns table and column names of the newest revision. Must not know how rows are written or what a payload means. Called
by every module of `eventstore` that speaks SQL; the migrations have their own frozen copy.

Rows of `events` are narrow on purpose: words that repeat (cluster, kind, type, stream, about) stand once in tables of
their own, and what belongs to a batch (time of append, hash) stands with the batch. `events_view` puts it all together
again for people who query with SQL.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Integer, LargeBinary, MetaData, SmallInteger, Table, Text

REVISIONS: tuple[str, ...] = ("0001", "0002", "0003")
"""Every revision that has landed, oldest first. The last is the one that this version writes."""

REVISION = REVISIONS[-1]

READABLE: frozenset[str] = frozenset({"0001", "0002", "0003"})
"""Revisions that can be read as they are: what later ones added is used by writers, or by people with SQL."""

APPLICATION_ID = 0x76636C67
"""SQLite's application_id of a ledger: 'vclg'."""

LATE = 4
"""Bit of `events.flags`; the two bits below it are `known`."""

Big = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

clusters = Table(
    "clusters",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("high_water", Big),
)

kinds = Table(
    "kinds",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
)

types = Table(
    "types",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("schema", Integer, nullable=False),
)

subjects = Table(
    "subjects",
    metadata,
    Column("id", Big, primary_key=True, autoincrement=False),
    Column("uid", Text, nullable=False, unique=True),
)

streams = Table(
    "streams",
    metadata,
    Column("id", Big, primary_key=True, autoincrement=False),
    Column("key", Big, nullable=False, index=True),
    Column("cluster_id", Integer, nullable=False),
    Column("kind_id", Integer, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False, index=True),
    Column("uid", Text, nullable=False),
)

stream_heads = Table(
    "stream_heads",
    metadata,
    Column("stream_id", Big, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("position", Big, nullable=False),
    Column("resource_version", Big),
    Column("resource_version_max", Big),
    Column("gone", Boolean(create_constraint=False), nullable=False),
    Column("pruned_version", Integer, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("position", Big, primary_key=True, autoincrement=False),
    Column("stream_id", Big, nullable=False),
    Column("observed_at", Big, nullable=False),
    Column("resource_version", Big),
    Column("causation", Big),
    Column("cycle", Big),
    Column("about_id", Big),
    Column("version", Integer, nullable=False),
    Column("dictionary_id", Integer),
    Column("type_id", SmallInteger, nullable=False),
    Column("flags", SmallInteger, nullable=False),
    Column("gone", Boolean(create_constraint=False), nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("id", Big, primary_key=True, autoincrement=False),
    Column("first_position", Big, nullable=False, index=True),
    Column("events", Integer, nullable=False),
    Column("appended_at", Big, nullable=False),
    Column("payload_size", Big, nullable=False),
    Column("payload_stored", Big, nullable=False),
    Column("dictionary_id", Integer),
    Column("hash", LargeBinary, nullable=False),
)

batch_marks = Table(
    "batch_marks",
    metadata,
    Column("cluster_id", Integer, primary_key=True, autoincrement=False),
    Column("batch_id", Big, primary_key=True, autoincrement=False),
    Column("high_water", Big, nullable=False),
    Column("position", Big, nullable=False),
    sqlite_with_rowid=False,
)

tokens = Table(
    "tokens",
    metadata,
    Column("token", Text, primary_key=True),
    Column("batch_id", Big),
    Column("result", LargeBinary, nullable=False),
)

dictionaries = Table(
    "dictionaries",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("trained_at", Big, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("projection", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("cluster", Text, primary_key=True),
    Column("position", Big, primary_key=True, autoincrement=False),
    Column("base", Big),
    Column("created_at", Big, nullable=False),
    Column("size", Big, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

prunes = Table(
    "prunes",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("batch_id", Big, nullable=False),
    Column("cut", Big, nullable=False),
    Column("dropped", Big, nullable=False),
    Column("kept", Big, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("term", Big, nullable=False),
    Column("acquired_at", Big, nullable=False),
    Column("renewed_at", Big, nullable=False),
    Column("expires_at", Big, nullable=False),
)
