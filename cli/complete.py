"""What shell completion offers: clusters, moments, namespaces and names that the ledger has.

Owns the choice of candidates. Must never fail, print or write: no ledger, no candidates. Called by the option parser
through `cli.common` and the commands' modules, and by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from vcledger.ledger import Ledger

PROTOCOL = "__complete"
"""The hidden command that the shells' scripts and kubectl call."""

SHOWN_MAX = 1_000
"""Candidates that are offered at most; a shell asks before it shows so many anyway."""

KINDS = ("nodes", "jobs", "tasks", "queues", "volumes", "pv", "pvc", "pending", "markers", "gaps", "clusters")
"""What `vcledger get` lists."""

LOG_KINDS: dict[str, tuple[str, ...]] = {
    "nodes": ("Node",),
    "jobs": ("VolcanoJob", "PodGroup"),
    "tasks": ("Pod",),
    "queues": ("Queue",),
    "volumes": ("PersistentVolume", "PersistentVolumeClaim"),
}
"""The kinds of the log whose live objects have the names of a kind of `get`."""

NAMESPACED = ("Pod", "PodGroup", "VolcanoJob")


def from_ledger(context: typer.Context, incomplete: str, find: Callable[[Ledger], Iterable[str]]) -> list[str]:
    """The candidates that begin with what was typed, each once, in order; none where anything goes wrong."""
    from cli.common import opened

    try:
        with opened(context.params.get("db"), read_only=True) as ledger:
            found = dict.fromkeys(word for word in find(ledger) if word.startswith(incomplete))
    except Exception:  # a completion has no place to say what is wrong
        return []
    return sorted(found)[:SHOWN_MAX]


def clusters_meant(context: typer.Context, ledger: Ledger) -> list[str]:
    """The cluster of --cluster, else all there are."""
    named = context.params.get("cluster")
    return [name for name in ledger.clusters() if named in (None, name)]


# --- options ------------------------------------------------------------------------------------------------------


def cluster(ctx: typer.Context, incomplete: str) -> list[str]:
    """--cluster: the clusters of the ledger."""
    return from_ledger(ctx, incomplete, lambda ledger: ledger.clusters())


def moment(ctx: typer.Context, incomplete: str) -> list[str]:
    """--at, --from, --to: the markers, by label and by file; nothing for a position, a time or an offset."""
    if not incomplete.startswith("marker:"):
        return ["marker:"] if "marker:".startswith(incomplete) else []

    def find(ledger: Ledger) -> Iterator[str]:
        from vcledger.ledger import label_of

        for name in clusters_meant(ctx, ledger):
            for _, marker in ledger.markers(name):
                words = [word for word in (label_of(marker), marker.file) if word] or [marker.name]
                yield from (f"marker:{word}" for word in words)

    return from_ledger(ctx, incomplete, find)


def namespace(ctx: typer.Context, incomplete: str) -> list[str]:
    """--namespace: those that have pods, PodGroups or Volcano Jobs."""
    return from_ledger(ctx, incomplete, lambda ledger: (space for space, _ in live(ctx, ledger, NAMESPACED)))


def event_type(ctx: typer.Context, incomplete: str) -> list[str]:
    """--type: the names of the events."""
    from volcano.events.catalog import TYPES

    return [entry.name for entry in TYPES if entry.name.lower().startswith(incomplete.lower())]


# --- names --------------------------------------------------------------------------------------------------------


def live(context: typer.Context, ledger: Ledger, kinds: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(namespace, name) of the objects of some kinds of the log that are not gone at its end."""
    for name in clusters_meant(context, ledger):
        for kind in kinds:
            for head in ledger.store.live(name, kind):
                if head.stream.name:
                    yield head.stream.namespace, head.stream.name


def names(context: typer.Context, plural: str) -> Callable[[Ledger], Iterator[str]]:
    """What finds the names of a kind of `get`, in the namespace of -n, or everywhere with -A."""
    scope = None if context.params.get("all_namespaces") else context.params.get("namespace") or "default"

    def find(ledger: Ledger) -> Iterator[str]:
        for space, name in live(context, ledger, LOG_KINDS.get(plural, ())):
            if not space or scope in (None, space):
                yield name

    return find


def kind_or_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """`get`'s first argument: a kind, or KIND/NAME once the slash is there."""
    word, slash, _ = incomplete.partition("/")
    return prefixed(ctx, incomplete, word) if slash else [kind for kind in KINDS if kind.startswith(incomplete)]


def further_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """`get`'s further arguments: names of the kind that stands first, or KIND/NAME."""
    word, slash, _ = str(ctx.params.get("kind") or "").partition("/")
    if slash or "/" in incomplete:
        return kind_or_name(ctx, incomplete)
    plural = plural_of(word)
    return from_ledger(ctx, incomplete, names(ctx, plural)) if plural else []


def pod_or_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """`why`'s argument: a pod's name, NS/POD, pod/NAME, job/NAME, queue/NAME or node/NAME."""
    word, slash, _ = incomplete.partition("/")
    if not slash:
        kinds = begun(incomplete, ("pod/", "job/", "queue/", "node/"))
        return from_ledger(ctx, incomplete, names(ctx, "tasks")) + kinds
    if plural_of(word):
        return prefixed(ctx, incomplete, word)
    return from_ledger(
        ctx, incomplete, lambda ledger: (f"{space}/{name}" for space, name in live(ctx, ledger, ("Pod",)))
    )


def second_word(ctx: typer.Context, incomplete: str) -> list[str]:
    """The name behind a kind that stands alone: `why pod NAME`."""
    plural = plural_of(str(ctx.params.get("target") or ""))
    return from_ledger(ctx, incomplete, names(ctx, plural)) if plural else []


def log_target(ctx: typer.Context, incomplete: str) -> list[str]:
    """`log`'s argument: KIND/NAME, or NS/POD."""
    if "/" not in incomplete:
        return begun(incomplete, ("pod/", "node/", "job/", "pg/", "queue/", "pvc/", "pv/"))
    return pod_or_job(ctx, incomplete)


def prefixed(context: typer.Context, incomplete: str, word: str) -> list[str]:
    """KIND/NAME for what begins with KIND/."""
    find = names(context, plural_of(word))
    return from_ledger(context, incomplete, lambda ledger: (f"{word}/{name}" for name in find(ledger)))


def plural_of(word: str) -> str:
    """The kind of `get` that a word means; '' for none."""
    from cli.common import ALIASES

    return ALIASES.get(word.lower(), "")


def begun(incomplete: str, words: Iterable[str]) -> list[str]:
    """Those of some words that begin with what was typed."""
    return [word for word in words if word.startswith(incomplete)]


def kind_of_cache(ctx: typer.Context, incomplete: str) -> list[str]:
    """`diff`'s argument: a kind of the cache, or KIND/NAME once the slash is there."""
    word, slash, _ = incomplete.partition("/")
    return prefixed(ctx, incomplete, word) if slash else begun(incomplete, LOG_KINDS)
