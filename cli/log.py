"""`vcledger log`: the events, one a line, or as JSON lines.

Owns the options and the columns. Called by `cli.main`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cli import render
from cli.common import (
    AllNamespacesOption,
    ClusterOption,
    DbOption,
    NamespaceOption,
    Output,
    fail,
    opened,
)
from eventstore.types import KNOWN_NAMES, StoredEvent
from vcledger import logview

SHORT_TYPES = {name: change for change, name in logview.WATCH_TYPES.items()}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("log")(log)


def log(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[KIND/NAME]", help="pod/NAME, node/NAME, pg/NAME ...; a pod alone may be NS/NAME"),
    ] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="WHEN", help="Begin here: position, time, offset or marker:NAME")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="WHEN", help="End here, likewise")] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only events of this type; may be repeated")
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only events about this kind")] = None,
    tail: Annotated[int | None, typer.Option("--tail", min=1, metavar="N", help="Only the last N")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what is appended, until Ctrl-C")] = False,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="table, or json: one JSON object a line")
    ] = Output.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """The events of the log, one a line: position, time, type, what it is about, how it is known, what changed.

    With KIND/NAME also the Events that speak of the object. Without a name, -n leaves the other namespaces out.
    """
    if output not in (Output.table, Output.json):
        fail(f"`vcledger log` prints table or json, not {output.value}")
    if follow and to is not None:
        fail("--follow goes on without end: leave --to out")
    word, found_namespace, name = named(target)
    if word is not None and kind is not None:
        fail("the kind stands in the name already: leave --kind out")
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        spoken_of = word or kind
        selection = logview.select(
            ledger,
            cluster=where,
            after=logview.after_of(ledger, from_, where),
            to=None if to is None else ledger.position(to, where),
            kind=logview.kind_named(spoken_of) if spoken_of else None,
            namespace=None if all_namespaces else found_namespace or namespace,
            name=name,
            types=tuple(logview.type_named(given) for given in type_ or ()),
        )
        printer = Printer(output)
        head = ledger.store.head()
        for stored in logview.read(ledger, selection, tail):
            printer.line(stored)
        if follow:
            filters = {key: value for key, value in selection.filters.items() if key not in ("after", "to")}
            for batch in ledger.store.follow(head, stop=lambda: False, **filters):
                for stored in batch:
                    printer.line(stored)
        if not printer.lines:
            render.nothing_found("No events found.")


def named(target: str | None) -> tuple[str | None, str | None, str | None]:
    """The kind's word, the namespace and the name of a target; None for what it does not say."""
    if target is None:
        return None, None, None
    parts = target.split("/")
    if not all(parts) or len(parts) > 3:
        fail(f"{target!r} is neither KIND/NAME nor NS/NAME")
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    if len(parts) == 1:
        fail(f"{target!r}: of what kind? write pod/{target}, node/{target}, pg/{target} ...")
    try:
        logview.kind_named(parts[0])
    except logview.UnknownKindName:
        return "Pod", parts[0], parts[1]
    return parts[0], None, parts[1]


class Printer:
    """Prints each event as it comes, so that a long log needs no memory and a followed one no wait."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.describer = logview.Describer()
        self.lines = 0

    def line(self, stored: StoredEvent) -> None:
        """One event."""
        self.lines += 1
        if self.output is Output.json:
            render.json_line(logview.as_json(stored))
            return
        name = f"{stored.namespace}/{stored.name}" if stored.namespace else stored.name
        about = f"{stored.kind} {name}".rstrip()
        known = KNOWN_NAMES[stored.known] + (" late" if stored.late else "")
        kind = SHORT_TYPES.get(stored.type, stored.type)
        head = f"{stored.position:>8}  {render.moment(stored.observed_at)}  {kind:<14}  {about:<40}  {known:<8}"
        typer.echo(render.printable(f"{head}  {self.describer.text(stored)}".rstrip()))
