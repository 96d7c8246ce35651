"""`vcledger why NS/POD`: why a pod was pending at a moment, with the proof.

Owns the options and the colours. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from cli import complete, render
from cli.common import (
    AtOption,
    ClusterOption,
    DbOption,
    ModelOption,
    NamespaceOption,
    Output,
    OutputOption,
    SchedulerArgsOption,
    Target,
    fail,
    opened,
    parse_target,
    ways,
)

if TYPE_CHECKING:
    from projections.diagnosis.model import Explanation, NodeRow
    from projections.diagnosis.text import Line
    from projections.timeline import StoryLine

STYLES: dict[str, str] = {
    "head": "bold",
    "verdict": "bold red",
    "cause": "",
    "message": "italic",
    "also": "yellow",
    "node": "",
    "said": "cyan",
    "disagreement": "magenta",
    "change": "bold green",
    "gap": "bold yellow",
    "record": "bold yellow",
    "proof": "dim",
    "story": "",
    "note": "dim",
}
"""A role's colour on a terminal."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("why")(why)


def why(
    target: Annotated[
        str,
        typer.Argument(
            metavar="NS/POD",
            help="NS/POD, POD, pod/POD, job/JOB, pg/PODGROUP or NS/JOB",
            autocompletion=complete.pod_or_job,
        ),
    ],
    namespace: NamespaceOption = None,
    at: AtOption = None,
    full: Annotated[bool, typer.Option("--full", help="Everything that was said, every proof, and the story")] = False,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    output: OutputOption = Output.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Why a pod was pending at a moment: the verdict, the chain of causes, node by node, what was said, and the
    proof."""
    from vcledger.gaps import moment
    from vcledger.why import pod_story, why_job
    from vcledger.why import why as why_pod

    wanted = parse_target(target)
    where = namespace_of(wanted, namespace)
    ask = why_job if wanted.kind == "jobs" else why_pod
    with opened(db) as ledger:
        chosen = ledger.cluster(cluster)
        when = moment(ledger, at, chosen)
        how, config = ways(ledger, chosen, model, scheduler_args)
        answer = ask(
            ledger,
            where,
            wanted.name,
            position=when.position,
            asked_at=when.asked,
            cluster=chosen,
            model=how.value,
            config=config,
        )
        story = pod_story(ledger, answer, cluster=chosen) if full else []
    show(answer, story, output, full=full)


def namespace_of(target: Target, namespace: str | None) -> str:
    """The namespace that the target or -n names; `default` without either."""
    if target.kind not in {None, "tasks", "jobs"}:
        fail(f"why speaks of pods and jobs: give NS/POD, pod/NAME or job/NAME, not {target.kind}")
    if target.namespace is not None and namespace is not None and target.namespace != namespace:
        fail(f"the target names namespace {target.namespace}, -n names {namespace}: give one of them")
    return target.namespace or namespace or "default"


def show(answer: Explanation, story: list[StoryLine], output: Output, *, full: bool) -> None:
    """Prints the answer in the form that was asked for."""
    if output is Output.name:
        kind, _, _ = answer.subject.partition(" ")
        typer.echo(f"{kind.lower()}/{answer.name}")
        return
    if output in {Output.json, Output.yaml}:
        data: dict[str, Any] = msgspec.to_builtins(answer)
        if full:
            data["story"] = msgspec.to_builtins(story)
        render.data(data, output)
        return
    from projections.diagnosis.text import lines

    write([*lines(answer, full=full), *story_lines(story)])
    if output is Output.wide and answer.nodes:
        typer.echo()
        render.table(
            ("NODE", "FITS", "REASONS"),
            [(row.node, fits(row), "; ".join(row.reasons) or "-") for row in answer.nodes],
        )


def fits(row: NodeRow) -> str:
    """yes, no, or `later` where it would once pods that are ending are gone."""
    return "yes" if row.fits else "later" if row.fits_after_release else "no"


def story_lines(story: list[StoryLine]) -> list[Line]:
    """The story as lines: time, position, how known where it is not recorded, what happened to what."""
    from projections.diagnosis.text import Line

    found = []
    for one in story:
        marks = [word for word in (one.known if one.known != "recorded" else "", "late" if one.late else "") if word]
        mark = f" ({', '.join(marks)})" if marks else ""
        times = f" (x{one.count}, to {render.moment(one.last_time)})" if one.count > 1 else ""
        found.append(Line("story", f"{render.moment(one.time)} {one.position:>7} {one.about}: {one.text}{times}{mark}"))
    return found


def write(found: list[Line]) -> None:
    """The lines with their labels; in colour on a terminal."""
    from projections.diagnosis.text import WIDTH, labelled

    rows = [(role, label, render.printable(text)) for role, label, text in labelled(found)]
    if not sys.stdout.isatty():
        for role, label, text in rows:
            typer.echo(text if role == "head" else f"{label:<{WIDTH}}  {text}".rstrip())
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console()
    for role, label, text in rows:
        if role == "head":
            console.print(Text(text, style=STYLES["head"]))
            continue
        console.print(Text(f"{label:<{WIDTH}}", style="bold"), end="")
        body = Text(text, style=STYLES.get(role, ""))
        first, *rest = body.wrap(console, max(20, console.width - WIDTH - 2))
        console.print(Text("  ") + first)
        for line in rest:
            console.print(Padding(line, (0, 0, 0, WIDTH + 2)))
