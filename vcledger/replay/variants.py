"""Several replays in one call: variants, seeds and traces, as a list of jobs in a fixed order.

Owns the notation of a variant and of seeds, the names of the jobs, and what a job is. Must not know where a job is
carried out. Called by `cli.replay`, `vcledger.replay.workers` and users' code. docs/whatif.md has the notation.

A variant begins where the base run stands: its changes come on top, and its configuration and seed take the place of
the base's. For each trace, and in it for each seed, the base comes first and then the variants as they were given.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from eventstore.types import EventStoreError, LedgerMissing
from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger
from vcledger.plugins import PluginUnusable
from vcledger.replay.deciding import session_decider
from vcledger.replay.engine import Progress, ReplayPlan, ReplayResult, run_replay
from vcledger.replay.freely import StoppedReading
from vcledger.replay.result import ResultExists
from vcledger.replay.whatif import ChangeInvalid, WhatIf
from vcledger.replay.whatif_text import read_changes
from vcledger.scheduler.session.conf import ConfInvalid

BASE = "base"
SEEDS_MAX = 10_000
SEED_END = 2**63

_LABEL = re.compile(r"[\w.+-]+( [\w.+-]+)*\Z")
_CHANGES = {"--add-nodes": "add", "--remove-node": "remove", "--set": "set_", "--scale-requests": "scale"}
_ONCE = ("--config", "--seed")


class VariantInvalid(VcledgerError):
    """A variant, or a list of seeds, that cannot be read."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What a variant changes in the base run. `conf` and `seed` None: the base's."""

    name: str
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    conf: str | None = None
    seed: int | None = None


def read_variant(text: str, read_file: Callable[[str], str]) -> Variant:
    """`NAME: --add-nodes 10:cpu=16,memory=64Gi --seed 3`: options as on a command line. `read_file` gives the text of
    the file of --config. VariantInvalid; ChangeInvalid where a change is no good."""
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not colon:
        raise VariantInvalid(f"--variant {text}: give it a name first, as in 'more nodes: --add-nodes 10:cpu=16'")
    if not _LABEL.match(name) or name == BASE:
        raise VariantInvalid(f"--variant {text}: {name!r} is no name for a variant")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise VariantInvalid(f"--variant {name}: {str(error).lower()}") from None
    options = _options(name, words)
    if not options:
        raise VariantInvalid(f"--variant {name}: it changes nothing; it takes {_known()}")
    seed = read_seed(options["--seed"][0]) if "--seed" in options else None
    conf = read_file(options["--config"][0]) if "--config" in options else None
    changes = {word: tuple(given) for word, given in options.items() if word in _CHANGES}
    read_changes(**{_CHANGES[word]: given for word, given in changes.items()})
    return Variant(name, changes, conf, seed)


def _options(name: str, words: Sequence[str]) -> dict[str, list[str]]:
    """Option to its values, in the order given."""
    options: dict[str, list[str]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option not in _CHANGES and option not in _ONCE:
            raise VariantInvalid(f"--variant {name}: {option} is none of {_known()}")
        if not equals:
            if not rest:
                raise VariantInvalid(f"--variant {name}: {option} needs a value")
            value = rest.pop(0)
        if option in _ONCE and option in options:
            raise VariantInvalid(f"--variant {name}: {option} is given twice")
        options.setdefault(option, []).append(value)
    return options


def _known() -> str:
    return ", ".join((*_CHANGES, *_ONCE))


def read_seed(text: str) -> int:
    """A seed: a whole number of up to 63 bits. VariantInvalid."""
    if not re.fullmatch(r"\d{1,19}", text) or int(text) >= SEED_END:
        raise VariantInvalid(f"--seed {text}: want a whole number from 0 to 2^63 - 1")
    return int(text)


def read_seeds(text: str) -> tuple[int, ...]:
    """`1..5` or `1,2,7`, also mixed; in that order. VariantInvalid."""
    seeds: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,18})\s*(?:\.\.\s*(\d{1,18})\s*)?", part)
        if found is None:
            raise VariantInvalid(f"--seeds {text}: want numbers, as in 1..5 or 1,2,7")
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last:
            raise VariantInvalid(f"--seeds {text}: {first}..{last} goes backwards")
        if len(seeds) + last - first >= SEEDS_MAX:
            raise VariantInvalid(f"--seeds {text}: more than {SEEDS_MAX}")
        seeds.extend(range(first, last + 1))
    if len(set(seeds)) < len(seeds):
        raise VariantInvalid(f"--seeds {text}: a seed is given twice")
    return tuple(seeds)


# --- jobs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trace:
    """A ledger to replay, and the part of it that the plan is about."""

    db: str
    cluster: str
    from_position: int = 0
    to_position: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One replay, as it is sent to whoever carries it out. `trace` is the trace's name, '' when it is the only one,
    `out` the place of its result ledger, None: none is kept. With `resume` it goes on where that one ends. `keep` is as
    in `run_replay`."""

    label: str
    variant: str
    trace: str
    db: str
    plan: ReplayPlan
    out: str | None = None
    resume: bool = False
    keep: str | None = None


def make_jobs(
    plan: ReplayPlan,
    options: dict[str, tuple[str, ...]],
    variants: Sequence[Variant],
    traces: Sequence[Trace],
    *,
    seeds: Sequence[int] = (),
    out: str | None = None,
    resume: bool = False,
) -> list[Job]:
    """Every job, in the order in which results are given out. `options` are the base run's changes by option; `out` is
    a folder where there are several. VariantInvalid where two have one name; ChangeInvalid where the changes of base
    and variant do not go together."""
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise VariantInvalid(f"two variants are called {name!r}")
    jobs = []
    labels = trace_names([trace.db for trace in traces])
    for trace, trace_name in zip(traces, labels, strict=True):
        for seed in seeds or (plan.seed,):
            for variant in (Variant(BASE), *variants):
                own_seed = seed if variant.seed is None else variant.seed
                words = (trace_name, variant.name, f"seed {own_seed}" if seeds else "")
                label = " ".join(word for word in words if word)
                of_job = replace(
                    plan,
                    cluster=trace.cluster,
                    from_position=trace.from_position,
                    to_position=trace.to_position,
                    conf=plan.conf if variant.conf is None else variant.conf,
                    seed=own_seed,
                    changes=changes_of(options, variant),
                    name=label,
                )
                jobs.append(Job(label, variant.name, trace_name, trace.db, of_job, None, resume))
    once: dict[tuple[str, str, int], Job] = {}
    for job in jobs:  # a variant with a seed of its own is one job, not one for each of the seeds
        once.setdefault((job.trace, job.variant, job.plan.seed), job)
    return _placed(list(once.values()), out)


def _placed(jobs: Sequence[Job], out: str | None) -> list[Job]:
    """The jobs with the places of their result ledgers."""
    if len(jobs) > 1 and out is not None and "://" in out:
        raise VariantInvalid(f"--out {_safe(out)}: of {len(jobs)} replays the results are files: name a folder")
    places: dict[str, Job] = {}
    for job in jobs:
        other = places.setdefault(place_of("", job.label, alone=False) or "", job)
        if other is not job:
            raise VariantInvalid(f"{other.label!r} and {job.label!r} would be one file: give other names")
    return [replace(job, out=place_of(out, job.label, alone=len(jobs) == 1)) for job in jobs]


def changes_of(options: dict[str, tuple[str, ...]], variant: Variant) -> tuple[WhatIf, ...]:
    """The base's changes with the variant's on top."""
    both = {option: (*options.get(option, ()), *variant.options.get(option, ())) for option in _CHANGES}
    try:
        return read_changes(**{_CHANGES[option]: given for option, given in both.items()})
    except ChangeInvalid as error:
        raise ChangeInvalid(f"{variant.name}: {error}" if variant.name != BASE else str(error)) from None


def trace_names(dbs: Sequence[str]) -> list[str]:
    """A short name for each ledger: '' for the only one, else its file's or database's name; two that are alike are
    named whole."""
    if len(dbs) == 1:
        return [""]
    stems = [Path(db.partition("?")[0]).stem for db in dbs]
    return [stem if stem and stems.count(stem) == 1 else _safe(db) for stem, db in zip(stems, dbs, strict=True)]


def _safe(db: str) -> str:
    """A URL without its password."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", db)


def place_of(out: str | None, label: str, *, alone: bool) -> str | None:
    """Where a job's result ledger is: `out` itself, or a file in it, named after the job."""
    if out is None or alone:
        return out
    return str(Path(out) / (re.sub(r"[^\w.+-]+", "-", label) + ".db"))


# --- carrying one out ----------------------------------------------------------------------------------------------


class Ran(msgspec.Struct, frozen=True):
    """What became of a job: its result, or the one line that says why there is none; neither where it was told to stop
    before it began."""

    label: str
    result: ReplayResult | None = None
    error: str = ""


def refuse_held(jobs: Sequence[Job]) -> None:
    """Raises ResultExists where a result ledger is there already and is not to be gone on with. Asked before any job is
    begun: what is found later was left by a process that died."""
    for job in jobs:
        if job.out is not None and not job.resume:
            with suppress(LedgerMissing), Ledger.open(job.out, read_only=True) as held:
                if held.store.head():
                    raise ResultExists(f"{job.out} holds a ledger already: name another --out, or go on with --resume")


def refuse_confs(jobs: Sequence[Job]) -> None:
    """Raises ConfInvalid or PluginUnusable, with the variant's name, where a job's configuration is no good. Asked
    before any job is begun, as each may take long."""
    good: set[str] = set()
    for job in jobs:
        if job.plan.conf not in good:
            try:
                session_decider(job.plan.conf, job.plan.seed, job.plan.sampling)
            except (ConfInvalid, PluginUnusable) as error:
                raise type(error)(str(error) if job.variant == BASE else f"{job.variant}: {error}") from None
            good.add(job.plan.conf)


def tried_again(job: Job) -> Job:
    """A job as it is tried again after the process that had it died. A free replay goes on with the result ledger that
    was left, a shadow replay begins anew: what it had begun to write is taken away."""
    if job.out is None or job.resume:
        return job
    if job.plan.mode == "free":
        return replace(job, resume=True)
    if "://" not in job.out:
        for ending in ("", "-wal", "-shm"):
            Path(job.out + ending).unlink(missing_ok=True)
    return job


def perform(
    job: Job, progress: Callable[[Progress], None] | None, stop: Callable[[], bool] | None, sharing: int = 1
) -> Ran:
    """Carries a job out, in this process; up to `sharing` more of them share a long shadow replay. Errors that concern
    the job alone come back as its line."""
    try:
        with Ledger.open(job.db, read_only=True) as source:
            result = run_replay(
                source, job.plan, out=job.out, resume=job.resume, keep=job.keep, progress=progress, stop=stop,
                workers=sharing,
            )  # fmt: skip
    except StoppedReading:
        return Ran(job.label)
    except (VcledgerError, EventStoreError, OSError) as error:
        return Ran(job.label, None, " ".join(str(error).split()) or type(error).__name__)
    return Ran(job.label, result)


__all__ = [
    "BASE",
    "Job",
    "Ran",
    "Trace",
    "Variant",
    "VariantInvalid",
    "changes_of",
    "make_jobs",
    "perform",
    "read_seed",
    "read_seeds",
    "read_variant",
    "refuse_confs",
    "refuse_held",
    "tried_again",
]
