"""`vcledger log`: the events, one a line, or as JSON lines.

Owns the options and the columns. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli import complete, render
from cli.common import (
    AllNamespacesOption,
    ClusterOption,
    DbOption,
    LinesOutput,
    ScopeOption,
    did_you_mean,
    fail,
    note,
    opened,
    refuse_backwards,
)
from cli.naming import SecondWord, joined
from eventstore.types import KNOWN_NAMES, StoredEvent
from vcledger import logview
from vcledger.errors import BadTime

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

SHORT_TYPES = {name: change for change, name in logview.WATCH_TYPES.items()}


TargetArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="KIND/NAME",
        help="pod/NAME, node/NAME, pg/NAME ...; a pod alone may be NS/NAME",
        autocompletion=complete.log_target,
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="WHEN",
        help="Begin here: position, time, offset or marker:NAME",
        autocompletion=complete.moment,
    ),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="WHEN", help="End here, likewise", autocompletion=complete.moment)
]
TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Only events of this type; may be repeated",
        autocompletion=complete.event_type,
    ),
]
KindOption = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only events about this kind")]
TailOption = Annotated[int | None, typer.Option("--tail", min=1, metavar="N", help="Only the last N")]
FollowOption = Annotated[bool, typer.Option("-f", "--follow", help="Go on with what is appended, until Ctrl-C")]
FormOption = Annotated[LinesOutput, typer.Option("-o", "--output", help="table, or json: one JSON object a line")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("log")(log)


def log(
    target: TargetArgument = None,
    second: SecondWord = None,
    namespace: ScopeOption = None,
    all_namespaces: AllNamespacesOption = False,
    from_: FromOption = None,
    to: ToOption = None,
    type_: TypesOption = None,
    kind: KindOption = None,
    tail: TailOption = None,
    follow: FollowOption = False,
    output: FormOption = LinesOutput.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """The events of the log, one a line: position, time, type, what it is about, how it is known, what changed.

    With KIND/NAME also the Events that speak of the object. Without a name, -n leaves the other namespaces out.
    """
    if follow and to is not None:
        fail("--follow goes on without end: leave --to out")
    target = target and joined(target, second)
    word, found_namespace, name = named(target)
    if word is not None and kind is not None:
        fail("the kind stands in the name already: leave --kind out")
    with opened(db) as ledger:
        where = ledger.cluster(cluster)
        spoken_of = word or kind
        after, until = span(ledger, from_, to, where)
        selection = logview.select(
            ledger,
            cluster=where,
            after=after,
            to=until,
            kind=logview.kind_named(spoken_of) if spoken_of else None,
            namespace=None if all_namespaces else found_namespace or namespace,
            name=name,
            types=tuple(logview.type_named(given) for given in type_ or ()),
        )
        printer = Printer(output)
        printer.all_of(ledger, selection, tail, follow=follow)
        if name is not None and not printer.lines:
            refuse_unknown(ledger, selection, target, name)
        if not printer.lines:
            render.nothing_found("No events found.")


def refuse_unknown(ledger: Ledger, selection: logview.Selection, target: str | None, name: str) -> None:
    """Ends the command when the ledger has never had what is asked about."""
    if not logview.known(ledger, selection):
        heads = ledger.store.live(selection.filters["cluster"], selection.filters["kinds"])
        fail(f"the ledger has no {target}{did_you_mean(name, (head.stream.name for head in heads))}")


def span(ledger: Ledger, from_: str | None, to: str | None, cluster: str) -> tuple[int, int | None]:
    """The position after which --from begins and the one at which --to ends (None: the end). A --from outside the
    record means its beginning or its end; notes on stderr say that the record does not reach that far."""
    from vcledger import gaps

    after = logview.after_of(ledger, from_, cluster)
    end = gaps.moment(ledger, to, cluster) if to is not None else None
    told: list[str] = []
    if from_ is not None:
        try:
            start = gaps.moment(ledger, from_, cluster)
        except BadTime as outside:
            told.append(str(outside))
        else:
            if end is not None:
                refuse_backwards(ledger, start, end, cluster)
            told += gaps.record_notes(ledger, start, cluster) if start.position else []
    if end is not None:
        told += gaps.record_notes(ledger, end, cluster)
    note(*dict.fromkeys(told))
    return after, end.position if end is not None else None


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

    def __init__(self, output: LinesOutput) -> None:
        self.output = output
        self.describer = logview.Describer()
        self.lines = 0

    def all_of(self, ledger: Ledger, selection: logview.Selection, tail: int | None, *, follow: bool) -> None:
        """The events that are there, only the last `tail` of them if it is given; to `follow` those that come, too."""
        head = ledger.store.head()
        for stored in logview.read(ledger, selection, tail):
            self.line(stored)
        if follow:
            filters = {key: value for key, value in selection.filters.items() if key not in ("after", "to")}
            for batch in ledger.store.follow(head, stop=lambda: False, **filters):
                for stored in batch:
                    self.line(stored)

    def line(self, stored: StoredEvent) -> None:
        """One event."""
        self.lines += 1
        if self.output is LinesOutput.json:
            render.json_line(logview.as_json(stored))
            return
        name = f"{stored.namespace}/{stored.name}" if stored.namespace else stored.name
        about = f"{stored.kind} {name}".rstrip()
        known = KNOWN_NAMES[stored.known] + (" late" if stored.late else "")
        kind = SHORT_TYPES.get(stored.type, stored.type)
        head = f"{stored.position:>8}  {render.moment(stored.observed_at)}  {kind:<14}  {about:<40}  {known:<8}"
        typer.echo(render.printable(f"{head}  {self.describer.text(stored)}".rstrip()))
