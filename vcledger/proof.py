"""The proof against a real scheduler: how much of what it did and wrote in a record our evaluation arrives at too.

Owns the questions, their counts and the tables of docs/proof.md. Must not know predicates nor sentences. Called by the
tests over the recordings, and by anybody on a ledger of their own, with the scheduler's own configuration file:

    python -m vcledger.proof LEDGER [--cluster C] [--conf FILE] [--scheduler-args FILE] [--period SECONDS]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from eventstore.types import EventStoreError
from projections.cache.state import CacheConfig
from vcledger.errors import VcledgerError
from vcledger.ledger import DEFAULT_CONFIG, DEFAULT_MODEL, Ledger
from vcledger.proof_binds import HOWS as BIND_HOWS
from vcledger.proof_binds import REFUSED, UNSEEN, Judged, judge_binds
from vcledger.proof_choices import COULD, NOT_SEEN, Choice, judge_choices
from vcledger.proof_choices import HOWS as CHOICE_HOWS
from vcledger.proof_log import PERIOD_MICROS, cycles
from vcledger.proof_session import session_speaker
from vcledger.proof_trial import TrialSpeaker
from vcledger.proof_words import ANSWER, KINDS, MISSED, WORD_FOR_WORD, Compared, Speaks, compare_words
from vcledger.proof_words import HOWS as WORD_HOWS
from vcledger.scheduler.session.conf import SessionConf, read_conf
from vcledger.schedulerargs import config_of, sampling_of

TOTAL = "all"

Row: TypeAlias = list[str | int]


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of one record: each bind judged, what its node was to a session (with a configuration only), each
    sentence compared."""

    binds: Sequence[Judged] = ()
    sentences: Sequence[Compared] = ()
    choices: Sequence[Choice] = ()

    @property
    def bind_counts(self) -> Mapping[str, int]:
        """How many binds came out how."""
        return Counter(one.how for one in self.binds)

    @property
    def choice_counts(self) -> Mapping[str, int]:
        """How many nodes of binds were what to a session."""
        return Counter(one.how for one in self.choices)

    @property
    def could(self) -> int:
        """How many of them the scheduler could have taken, by the session's scores."""
        return sum(one.how in COULD for one in self.choices)

    @property
    def word_counts(self) -> Mapping[str, int]:
        """How many sentences compare how."""
        return Counter(one.how for one in self.sentences)

    @property
    def kind_counts(self) -> Mapping[tuple[str, str], int]:
        """The same by kind of sentence."""
        return Counter((one.kind, one.how) for one in self.sentences)

    @property
    def refused(self) -> list[Judged]:
        """The binds of the real scheduler that our predicates refuse; there should be none."""
        return [one for one in self.binds if one.how == REFUSED]

    @property
    def differing(self) -> list[Compared]:
        """The sentences that did not come out."""
        return [one for one in self.sentences if one.how in MISSED]

    @property
    def nodeless(self) -> list[Compared]:
        """Those of the sentences that could have come out which name no node: luck has no part in their words."""
        return [one for one in self.sentences if one.how != ANSWER and not one.names_a_node]

    @property
    def made(self) -> int:
        """How many sentences could have come out: all but those that repeat an answer which the record lacks."""
        return len(self.sentences) - self.word_counts.get(ANSWER, 0)

    @property
    def equal(self) -> int:
        """How many did, every character: at once, for the dice thrown, or with the binds in flight."""
        return self.made - len(self.differing)


def proof(
    ledger: Ledger,
    *,
    cluster: str | None = None,
    model: str = DEFAULT_MODEL,
    config: CacheConfig = DEFAULT_CONFIG,
    period_micros: int = PERIOD_MICROS,
    conf: SessionConf | None = None,
) -> Proof:
    """Judges all binds and sentences of a cluster's scheduler. `conf` is its configuration: sentences are then those of
    a whole session, else those of `why`, each group alone. `period_micros` is its --schedule-period. Raises what
    `Ledger.cluster` does."""
    name = ledger.cluster(cluster)
    speaks: Speaks = session_speaker(conf) if conf is not None else TrialSpeaker
    parts = cycles(ledger, name, config, period_micros)
    binds = judge_binds(ledger, name, parts, model, config, period_micros)
    choices = judge_choices(ledger, name, parts, model, config, conf) if conf is not None else []
    return Proof(
        binds=binds,
        sentences=compare_words(ledger, name, parts, model, config, speaks),
        choices=[
            choice._replace(how=NOT_SEEN) if bind.how == UNSEEN else choice
            for bind, choice in zip(binds if choices else [], choices, strict=True)
        ],
    )


# --- tables -------------------------------------------------------------------------------------------------------


def bind_table(proofs: Mapping[str, Proof]) -> list[str]:
    """The binds of each record by how they came out, as lines of Markdown."""
    rows: list[Row] = [
        [name, len(one.binds), *(one.bind_counts.get(how, 0) for how in BIND_HOWS)] for name, one in proofs.items()
    ]
    return _markdown(["record", "binds", *BIND_HOWS], _with_sums(rows))


def choice_table(proofs: Mapping[str, Proof]) -> list[str]:
    """The nodes of the binds by what they were to a session. `of 100`: those that the scheduler could have taken, of
    those that it can be said of."""
    rows: list[Row] = [
        [name, len(one.choices), *(one.choice_counts.get(how, 0) for how in CHOICE_HOWS)]
        for name, one in proofs.items()
    ]
    together = Proof(choices=[choice for one in proofs.values() for choice in one.choices])
    every = zip(_with_sums(rows), [*proofs.values(), together], strict=False)
    filled: list[Row] = [
        [*row, _share(one.could, len(one.choices) - one.choice_counts.get(NOT_SEEN, 0))] for row, one in every
    ]
    return _markdown(["record", "binds", *CHOICE_HOWS, "of 100"], filled)


def word_table(proofs: Mapping[str, Proof]) -> list[str]:
    """The sentences of each record by how they compare. `of 100`: those that came out, of those that could; `of 100,
    unseen too`: of all, those with an unseen answer among them; `nodeless of 100`: those word for word, of those that
    name no node."""
    rows: list[Row] = [
        [name, len(one.sentences), *(one.word_counts.get(how, 0) for how in WORD_HOWS)] for name, one in proofs.items()
    ]
    together = Proof(sentences=[sentence for one in proofs.values() for sentence in one.sentences])
    every = zip(_with_sums(rows), [*proofs.values(), together], strict=False)
    filled: list[Row] = [
        [*row, _share(one.equal, one.made), _share(one.equal, len(one.sentences)), _word_for_word(one.nodeless)]
        for row, one in every
    ]
    return _markdown(["record", "sentences", *WORD_HOWS, "of 100", "of 100, unseen too", "nodeless of 100"], filled)


def _word_for_word(sentences: Sequence[Compared]) -> str:
    return _share(sum(one.how == WORD_FOR_WORD for one in sentences), len(sentences))


def kind_table(proofs: Mapping[str, Proof]) -> list[str]:
    """The sentences of all records by kind."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in proofs.values():
        counts.update(one.kind_counts)
    kinds = [*(name for name, _ in KINDS), "other"]
    rows: list[Row] = [[kind, *(counts.get((kind, how), 0) for how in WORD_HOWS)] for kind in kinds]
    return _markdown(["sentence", *WORD_HOWS], [row for row in rows if any(row[1:])])


TABLES: dict[str, Callable[[Mapping[str, Proof]], list[str]]] = {
    "binds": bind_table,
    "choices": choice_table,
    "sentences": word_table,
    "kinds": kind_table,
}
"""The tables of docs/proof.md by the name that stands above each there."""


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else ""


def _with_sums(rows: list[Row]) -> list[Row]:
    """And their sums, where there are several."""
    return [*rows, _sums(rows)] if len(rows) > 1 else rows


def _sums(rows: Sequence[Row]) -> Row:
    columns = list(zip(*rows, strict=True))[1:]
    return [TOTAL, *(sum(cell for cell in column if isinstance(cell, int)) for column in columns)]


def _markdown(head: Sequence[str], rows: Iterable[Row]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]


HEADS = {
    "binds": "Binds: is a node that was bound to let through by our predicates?",
    "choices": "Choices: is it one that the scheduler could have taken, by a session's scores?",
    "sentences": "Sentences of pods' and PodGroups' conditions, made again from the record",
    "kinds": "The same by kind",
}
_SHOWN = 10


def _told(found: Proof, configured: bool) -> Iterator[str]:
    """The tables under their heads, and what is refused or differs, each with its position in the log."""
    for name, make in TABLES.items():
        if name != "choices" or configured:
            yield from (f"## {HEADS[name]}", "", *make({"ledger": found}), "")
    if not found.binds and not found.sentences:
        yield "nothing to prove: no pod of the scheduler got a node, and no condition of it changed"
    for bind in found.refused:
        where = f"{bind.placement.position} {bind.placement.key} on {bind.placement.node}"
        yield f"refused: {where}: {'; '.join(bind.reasons)}"
    for one in found.differing[:_SHOWN]:
        yield f"{one.how}: {one.written.position} {one.written.kind} {one.written.key}: {one.written.message}"
        yield f"    ours: {' | '.join(text or 'none' for text in one.ours)}"
    if len(found.differing) > _SHOWN:
        yield f"... and {len(found.differing) - _SHOWN} more sentences that differ"


def _seconds(text: str) -> float:
    """A positive number of seconds, with or without its `s`. Raises ValueError."""
    found = float(text.removesuffix("s"))
    if not 0.001 <= found <= 86_400:
        raise ValueError(text)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables of a ledger; 1 when a bind was refused, 2 when something can't be read."""
    parser = argparse.ArgumentParser(prog="python -m vcledger.proof", description=__doc__.splitlines()[0])
    parser.add_argument("ledger", help="a path or a URL")
    parser.add_argument("--cluster", help="which, of several in the ledger")
    parser.add_argument("--conf", type=Path, help="the scheduler's configuration file, for whole sessions")
    parser.add_argument("--scheduler-args", type=Path, help="its command line, as far as its cache depends on it")
    parser.add_argument("--period", type=_seconds, default=1.0, help="its --schedule-period in seconds; 1 unless given")
    asked = parser.parse_args(arguments)
    try:
        conf = read_conf(asked.conf.read_text(encoding="utf-8")) if asked.conf is not None else None
        config = DEFAULT_CONFIG
        if asked.scheduler_args is not None:
            text = asked.scheduler_args.read_text(encoding="utf-8")
            config = config_of(text)
            conf = replace(conf, sampling=sampling_of(text)) if conf is not None else None
        with Ledger.open(asked.ledger, read_only=True) as ledger:
            found = proof(
                ledger,
                cluster=asked.cluster,
                config=config,
                conf=conf,
                period_micros=round(asked.period * 1_000_000),
            )
    except (VcledgerError, EventStoreError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("\n".join([*_told(found, conf is not None), ""]))
    missing = [
        name for name, given in (("--conf", asked.conf), ("--scheduler-args", asked.scheduler_args)) if not given
    ]
    if missing and found.differing:
        sys.stderr.write(
            f"made without {' and '.join(missing)}: what the scheduler was told there may make the difference\n"
        )
    return 1 if found.refused else 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = ["TABLES", "Proof", "bind_table", "choice_table", "kind_table", "main", "proof", "word_table"]
