"""`vcledger get KIND`: the cache as tables or data, what waits with its verdict, and what is in the record.

Owns what was asked for: kinds, names, namespaces. Must not know the columns (`cli.columns`). Called by `cli.main`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cli import complete, render
from cli.columns import COLUMNS, Row
from cli.common import (
    ALIASES,
    AllNamespacesOption,
    AtOption,
    ClusterOption,
    DbOption,
    Model,
    ModelOption,
    NamespaceOption,
    Output,
    OutputOption,
    SchedulerArgsOption,
    did_you_mean,
    fail,
    moment_at,
    moment_text,
    namespace_filter,
    opened,
    ways,
)

if TYPE_CHECKING:
    from pathlib import Path

    from vcledger.gaps import Moment
    from vcledger.ledger import Ledger

OF_RECORD = {
    "marker": "markers",
    "markers": "markers",
    "gap": "gaps",
    "gaps": "gaps",
    "cluster": "clusters",
    "clusters": "clusters",
}
"""What is in the record rather than in the cache."""

PENDING = "pending"
NAMESPACED = ("jobs", "tasks", PENDING)
PV_WORDS = ("pv", "persistentvolume", "persistentvolumes")
TABLES = (Output.table, Output.wide)


class Wanted(NamedTuple):
    """A kind, the word that it was asked for with, and names; no names: all."""

    plural: str
    word: str
    names: tuple[str, ...]


class Question(NamedTuple):
    """The options of the command that choose rows."""

    ledger: Ledger
    cluster: str | None
    at: str | None
    model: Model | None
    scheduler_args: Path | None
    scope: str | None
    tables: bool


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("get")(get)


def get(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND[/NAME]|KIND,KIND",
            help="nodes, jobs (pg), tasks (pods), queues, volumes (pv, pvc), pending, markers, gaps or clusters",
            autocompletion=complete.kind_or_name,
        ),
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these; or KIND/NAME", autocompletion=complete.further_name),
    ] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    at: AtOption = None,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: OutputOption = Output.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """The cache at a moment: nodes with idle, used and allocatable, jobs, tasks, queues, volumes.

    `get pending` lists everything that waits, each with its verdict; `get markers`, `get gaps` and `get clusters` what
    is in the record.
    """
    wanted = asked_for(kind, names or [])
    scope = namespace_filter(namespace, all_namespaces)
    with opened(db) as ledger:
        question = Question(ledger, cluster, at, model, scheduler_args, scope, output in TABLES)
        found = [(each, *rows_of(question, each)) for each in wanted]
    if output not in TABLES:
        render_data([row for _, rows, _ in found for row in rows], output)
        return
    shown = 0
    for each, rows, where in found:
        if not rows:
            inside = f" in {scope} namespace" if scope is not None and each.plural in NAMESPACED else ""
            what = "Nothing pending" if each.plural == PENDING else f"No {each.plural} found"
            hint = " (-A: all namespaces)" if inside and namespace is None else ""
            render.nothing_found(f"{what}{inside}{where}{hint}.")
            continue
        if shown:
            typer.echo()
        shown += 1
        show(rows, each.plural, wide=output is Output.wide, namespaced=scope is None)


# --- what was asked for -------------------------------------------------------------------------------------------


def asked_for(kind: str, names: Sequence[str]) -> list[Wanted]:
    """The kinds and names of the arguments: `KIND NAME...`, `KIND/NAME...`, also of several kinds, as kubectl has it.
    A bare name is of the kind that stands first, or of each of `KIND,KIND`."""
    if "," in kind and "/" not in kind:
        return [one for word in kind.split(",") for one in asked_for(word, names)]
    first_word, slash, first_name = kind.partition("/")
    found: dict[str, tuple[str, list[str]]] = {}
    for word, name in [(first_word, first_name), *(name_of(given, first_word) for given in names)]:
        plural = listed(word)
        if slash and not name:
            fail(f"{kind!r}: a name is missing behind the /")
        _, wanted = found.setdefault(f"{plural} {word if plural == 'volumes' else ''}", (word, []))
        wanted += [name] if name else []
    return [Wanted(listed(word), word.lower(), tuple(dict.fromkeys(wanted))) for word, wanted in found.values()]


def name_of(given: str, first_word: str) -> tuple[str, str]:
    """(kind, name) of a further argument."""
    word, slash, name = given.partition("/")
    return (word, name) if slash else (first_word, given)


def listed(word: str) -> str:
    """The plural of a kind that `get` lists."""
    lower = word.lower()
    if lower == PENDING or lower in OF_RECORD:
        return OF_RECORD.get(lower, PENDING)
    found = ALIASES.get(lower.partition(".")[0])
    if found is None:
        near = did_you_mean(lower, (*ALIASES, *OF_RECORD, PENDING))
        fail(
            f"unknown kind {word!r}{near}: use nodes, jobs (podgroups, pg), tasks (pods), queues, volumes (pv, pvc), "
            "pending, markers, gaps or clusters"
        )
    return found


# --- rows ---------------------------------------------------------------------------------------------------------


def rows_of(question: Question, wanted: Wanted) -> tuple[list[Row], str]:
    """The rows of a kind that were asked for, and ' at position N' where they are of a moment."""
    if wanted.plural in set(OF_RECORD.values()):
        return only_named(of_record(question, wanted.plural), wanted, ""), ""
    ledger = question.ledger
    cluster = ledger.cluster(question.cluster)
    moment = moment_at(ledger, question.at, cluster)
    if question.at is not None and question.tables:
        typer.echo(f"at {moment_text(ledger, moment.position, cluster)}", err=True)
    where = f" at position {moment.position}"
    read = waiting if wanted.plural == PENDING else of_cache
    rows, further = read(question, wanted, cluster, moment)
    if wanted.plural in NAMESPACED and question.scope is not None:
        hint = f" in namespace {question.scope}{where}; -A looks in all namespaces"
    else:
        hint = where
    return only_named(in_scope(rows, question), wanted, hint, lambda: in_scope(further(), question)), where


def in_scope(rows: Sequence[Row], question: Question) -> list[Row]:
    """The rows of the namespace that was asked for; what has none is always in it."""
    scope = question.scope
    return [row for row in rows if scope is None or row.get("namespace", scope) == scope]


def nothing_further() -> list[Row]:
    """No rows beside those that are listed."""
    return []


def of_cache(
    question: Question, wanted: Wanted, cluster: str, moment: Moment
) -> tuple[list[Row], Callable[[], list[Row]]]:
    """The rows of a kind of the cache; and those that only their name brings up."""
    from vcledger import listing, views

    ledger = question.ledger
    model, config = ways(ledger, cluster, question.model, question.scheduler_args)
    cache = ledger.cache(moment.position, cluster=cluster, model=model.value, config=config)
    if wanted.plural == "jobs":
        state = listing.State(ledger, cache, cluster, moment.position)
        return listing.jobs(state), lambda: listing.groupless_jobs(state)
    if wanted.plural != "volumes":
        rows: list[Row] = getattr(views, wanted.plural)(cache)
        return rows, nothing_further
    only_claims, only_volumes = wanted.word.startswith(("pvc", "persistentvolumec")), wanted.word in PV_WORDS
    volumes = [] if only_claims else views.volumes(cache)
    return [*volumes, *([] if only_volumes else views.claims(cache))], nothing_further


def waiting(
    question: Question, wanted: Wanted, cluster: str, moment: Moment
) -> tuple[list[Row], Callable[[], list[Row]]]:
    """Everything that waits, with its verdict. On a terminal a count on stderr shows how far it has got."""
    from vcledger import listing

    model, config = ways(question.ledger, cluster, question.model, question.scheduler_args)
    rows = listing.pending(
        question.ledger,
        namespace=question.scope,
        names=wanted.names,
        position=moment.position,
        cluster=cluster,
        model=model.value,
        config=config,
        asked_at=moment.asked,
    )
    found: list[Row] = []
    for row in rows:
        found.append(row)
        render.status(f"{len(found)} waiting ...")
    render.status("")
    return found, nothing_further


def of_record(question: Question, plural: str) -> list[Row]:
    """Markers, gaps or clusters: of all clusters unless one is named."""
    from vcledger import gaps, listing

    ledger, at = question.ledger, question.at
    names = [ledger.cluster(question.cluster)] if question.cluster or at else ledger.clusters()
    if plural == "clusters":
        if at is not None:
            fail("the clusters are those of the whole ledger: leave --at out")
        return [row for row in listing.clusters(ledger) if row["name"] in names]
    rows: list[Row] = []
    for name in names:
        moment = gaps.moment(ledger, at, name) if at is not None else None
        if plural == "markers":
            rows += listing.markers(ledger, name, moment.position if moment is not None else None)
        else:
            rows += listing.recorded_gaps(ledger, name, moment.time if moment is not None else None)
    return rows


def only_named(
    rows: list[Row], wanted: Wanted, where: str, further: Callable[[], list[Row]] = nothing_further
) -> list[Row]:
    """The rows of the names that were asked for, in their order; misuse when there is none of a name."""
    return [row for name in wanted.names for row in named(rows, name, wanted, where, further)] if wanted.names else rows


def named(rows: list[Row], name: str, wanted: Wanted, where: str, further: Callable[[], list[Row]]) -> list[Row]:
    """The rows of that name: of a job also by the Volcano Job that it belongs to, of a marker also by label or file."""
    found = [row for row in rows if row["name"] == name]
    for key in ("owners", "job", "at", "label"):
        if not found:
            found = [row for row in rows if matches(row, key, name, wanted.plural)]
    if not found:
        found = [row for row in further() if row["name"] == name]
    if not found:
        names = (str(word) for row in rows for word in (row["name"], *row.get("owners", ())))
        fail(f"{wanted.plural.removesuffix('s')} {name!r} not found{did_you_mean(name, names)}{where}")
    return found


def matches(row: Row, key: str, name: str, plural: str) -> bool:
    """Whether a row goes by that name under one of its other keys."""
    if key in ("owners", "job"):
        return plural == "jobs" and (name in row["owners"] if key == "owners" else row["job"] == name)
    return plural == "markers" and row[key] == name


# --- the way out --------------------------------------------------------------------------------------------------


def render_data(rows: list[Row], output: Output) -> None:
    """Prints rows as data or as names."""
    if output is not Output.name:
        render.data(rows, output)
        return
    for row in rows:  # several markers may have one name; `at` tells them apart, and is what --at takes
        typer.echo(f"{row['kind']}/{row.get('at') or row['name']}")


def show(rows: list[Row], plural: str, *, wide: bool, namespaced: bool) -> None:
    """Prints rows as a table."""
    columns = COLUMNS[plural](rows, wide)
    if namespaced and any("namespace" in row for row in rows):
        columns = [("NAMESPACE", lambda row: str(row.get("namespace", ""))), *columns]
    if len({row["cluster"] for row in rows if "cluster" in row}) > 1:
        columns = [("CLUSTER", lambda row: str(row["cluster"])), *columns]
    render.table([header for header, _ in columns], [[cell(row) for _, cell in columns] for row in rows])
