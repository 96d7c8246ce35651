"""`vcledger why NS/POD`: why a pod was pending at a moment, with the proof.

Owns the options and the colours. Must not hold logic. Called by `cli.main`.
"""

from __future__ import annotations

import sys
from pathlib import Path
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
from cli.naming import SecondWord, joined

if TYPE_CHECKING:
    from projections.diagnosis.history import History
    from projections.diagnosis.holders import NodeAnswer, QueueAnswer
    from projections.diagnosis.lines import Line
    from projections.diagnosis.model import Explanation, NodeRow
    from projections.diagnosis.views import Rules
    from projections.timeline import StoryLine
    from vcledger.ledger import Ledger

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
    "numbers": "",
    "member": "",
    "victims": "",
    "state": "",
    "holder": "",
    "try": "",
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
            help="NS/POD, POD, pod/POD, job/JOB, job/NS/JOB, pg/PODGROUP, NS/JOB, queue/QUEUE or node/NODE",
            autocompletion=complete.pod_or_job,
        ),
    ],
    name: SecondWord = None,
    namespace: NamespaceOption = None,
    at: AtOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Everything: every change, the queue, the gang, preemption, history, proofs")
    ] = False,
    model: ModelOption = None,
    scheduler_args: SchedulerArgsOption = None,
    conf: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The scheduler's configuration (volcano-scheduler.conf)"),
    ] = None,
    output: OutputOption = Output.table,
    db: DbOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Why a pod was pending at a moment: the verdict, the chain of causes, node by node, what was said, the smallest
    change that would have let it run, and the proof. Of a queue: who holds it; of a node: why nothing goes there."""
    from vcledger.gaps import moment

    wanted = parse_target(joined(target, name))
    where = namespace_of(wanted, namespace)
    written = conf.read_text(encoding="utf-8", errors="replace") if conf is not None else None
    rules = rules_in(written)
    with opened(db) as ledger:
        chosen = ledger.cluster(cluster)
        when = moment(ledger, at, chosen)
        how, config = ways(ledger, chosen, model, scheduler_args)
        asked = {"position": when.position, "asked_at": when.asked, "cluster": chosen}
        same = {"model": how.value, "config": config, "rules": rules}
        if wanted.kind in {"queues", "nodes"}:
            tell_other(ledger, wanted, {**asked, **same}, output, full)
            return
        proof = {"conf": written, "sessions": True if full or written is not None else None}
        tell(ledger, wanted, where, asked, same, proof, output, full)


def tell(
    ledger: Ledger,
    wanted: Target,
    where: str,
    asked: dict[str, Any],
    same: dict[str, Any],
    proof: dict[str, Any],
    output: Output,
    full: bool,
) -> None:
    """The answer about a pod or job. `asked`, `same` and `proof` are arguments of `vcledger.why.why`: when, how, and
    how changes are proven."""
    from projections.diagnosis.text import SETTLED
    from vcledger.why import pod_story, why_job
    from vcledger.why import why as why_pod
    from vcledger.why_history import history

    ask = why_job if wanted.kind == "jobs" else why_pod
    answer = ask(ledger, where, wanted.name, **asked, **same, **proof)
    told = full or output in {Output.json, Output.yaml} or answer.verdict in SETTLED
    past = history(ledger, answer, cluster=asked["cluster"], evaluate=full, **same) if told else None
    story = pod_story(ledger, answer, cluster=asked["cluster"]) if full else []
    show(answer, story, output, full=full, past=past)


def tell_other(ledger: Ledger, wanted: Target, ways_asked: dict[str, Any], output: Output, full: bool) -> None:
    """The answer about a queue or a node."""
    from projections.diagnosis.holders import node_lines, queue_lines
    from vcledger.why_node import why_node
    from vcledger.why_queue import why_queue

    if output is Output.name:
        typer.echo(f"{'queue' if wanted.kind == 'queues' else 'node'}/{wanted.name}")
        return
    answer: QueueAnswer | NodeAnswer
    if wanted.kind == "queues":
        answer = of_queue = why_queue(ledger, wanted.name, **ways_asked)
        found = queue_lines(of_queue, full=full)
    else:
        answer = of_node = why_node(ledger, wanted.name, **ways_asked)
        found = node_lines(of_node, full=full)
    if output in {Output.json, Output.yaml}:
        render.data(msgspec.to_builtins(answer), output)
        return
    write(found)


def rules_in(conf: str | None) -> Rules | None:
    """The rules of a scheduler's configuration."""
    if conf is None:
        return None
    from vcledger.why_conf import rules_of

    return rules_of(conf)


def namespace_of(target: Target, namespace: str | None) -> str:
    """The namespace that the target or -n names; `default` without either."""
    if target.kind not in {None, "tasks", "jobs", "queues", "nodes"}:
        fail(
            f"why speaks of pods, jobs, queues and nodes: give NS/POD, job/NAME, queue/NAME or node/NAME, "
            f"not {target.kind}"
        )
    if target.kind in {"queues", "nodes"} and (target.namespace is not None or namespace is not None):
        fail(f"{target.kind} are in no namespace: give {target.kind.removesuffix('s')}/NAME alone")
    if target.namespace is not None and namespace is not None and target.namespace != namespace:
        fail(f"the target names namespace {target.namespace}, -n names {namespace}: give one of them")
    return target.namespace or namespace or "default"


def show(
    answer: Explanation, story: list[StoryLine], output: Output, *, full: bool, past: History | None = None
) -> None:
    """Prints the answer in the form that was asked for."""
    if output is Output.name:
        kind, _, _ = answer.subject.partition(" ")
        typer.echo(f"{kind.lower()}/{answer.name}")
        return
    if output in {Output.json, Output.yaml}:
        data: dict[str, Any] = msgspec.to_builtins(answer)
        if past is not None:
            data["history"] = msgspec.to_builtins(past)
            data["time_in_state_seconds"] = data["history"].pop("time_in_state_seconds")
        if full:
            data["story"] = msgspec.to_builtins(story)
        render.data(data, output)
        return
    from projections.diagnosis.details import history_lines, waited_line
    from projections.diagnosis.text import lines

    waited = waited_line(past) if past is not None and not full else []
    told = history_lines(past) if past is not None and full else []
    write([*lines(answer, full=full, waited=waited), *told, *story_lines(story)])
    if (full or output is Output.wide) and answer.nodes:
        typer.echo(f"\npredicates asked: {', '.join(answer.nodes[0].predicates)}\n")
        render.table(
            ("NODE", "FITS", "REFUSED BY", "REASONS"),
            [(row.node, fits(row), refused_by(row), "; ".join(row.reasons) or "-") for row in answer.nodes],
        )


def fits(row: NodeRow) -> str:
    """yes, no, or `later` where it would once pods that are ending are gone."""
    return "yes" if row.fits else "later" if row.fits_after_release else "no"


def refused_by(row: NodeRow) -> str:
    """The predicates that refuse the pod there."""
    return ", ".join(name for name, passes in row.predicates.items() if not passes) or "-"


def story_lines(story: list[StoryLine]) -> list[Line]:
    """The story as lines: time, position, how known where it is not recorded, what happened to what."""
    from projections.diagnosis.lines import Line

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
