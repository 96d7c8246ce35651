"""`vcledger stats`: size, counts, bytes an event, compression.

Owns the lines. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cli import render
from cli.common import ClusterOption, DataOutput, DataOutputOption, DbOption, opened

if TYPE_CHECKING:
    from vcledger.statistics import Statistics


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("stats")(stats)


def stats(
    output: DataOutputOption = DataOutput.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """What the ledger holds: clusters and their times, events by kind and type, bytes an event, compression.

    With --cluster the events are that cluster's; sizes and counts of streams are always the whole ledger's.
    """
    from vcledger.statistics import statistics

    with opened(db) as ledger:
        found = statistics(ledger, cluster)
    if output is DataOutput.table:
        report(found)
    else:
        render.data(as_data(found), output)


def report(found: Statistics) -> None:
    """The figures for people."""
    store = found.store
    whole = f"{store.events} (positions {store.first} to {store.head})"
    of_cluster = found.cluster is not None
    lines = [
        ("backend", store.backend),
        (
            "events",
            f"{found.events} of {found.cluster}, {found.late} late" if of_cluster else f"{whole}, {found.late} late",
        ),
        ("known", ", ".join(f"{count} {word}" for word, count in found.known.items()) or "-"),
        *([("ledger", f"what follows is of all its clusters: {whole}")] if of_cluster else []),
        ("streams", str(store.streams)),
        ("batches", str(store.batches)),
        ("snapshots", f"{store.snapshots}, {render.size(store.snapshot_stored)}"),
        ("size", f"{render.size(store.size)}, {found.bytes_per_event:.0f} bytes an event"),
        (
            "payloads",
            f"{render.size(store.payload_size)} stored in {render.size(store.payload_stored)}, "
            f"1/{found.compression:.1f} with {render.plural(store.dictionaries, 'dictionary', 'dictionaries')}",
        ),
    ]
    for name, value in lines:
        typer.echo(f"{name + ':':<11}{value}")
    for headers, rows in (
        (
            ("CLUSTER", "EVENTS", "FIRST", "LAST"),
            [(row.cluster, row.events, render.moment(row.first), render.moment(row.last)) for row in found.clusters],
        ),
        (("KIND", "EVENTS"), list(found.kinds.items())),
        (("TYPE", "EVENTS"), list(found.types.items())),
    ):
        if rows:
            typer.echo()
            render.table(headers, rows)


def as_data(found: Statistics) -> dict[str, object]:
    """The figures as data; times are RFC 3339, sizes bytes. `events`, `late`, `known`, `kinds` and `types` are of
    `cluster` where one was named; everything else is the whole ledger's."""
    return {
        "cluster": found.cluster,
        **found.store._asdict(),
        "events": found.events,
        "ledger_events": found.store.events,
        "bytes_per_event": round(found.bytes_per_event, 1),
        "compression": round(found.compression, 2),
        "late": found.late,
        "known": found.known,
        "clusters": [
            {**row._asdict(), "first": render.moment(row.first), "last": render.moment(row.last)}
            for row in found.clusters
        ],
        "kinds": found.kinds,
        "types": found.types,
    }
