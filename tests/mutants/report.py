"""The table of docs/mutants.md.

Owns that part of the page, and which test killed which. Must not know how mutants are run. Called by
`python -m tests.mutants --write`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from tests.mutants.model import Mutant
from tests.mutants.runner import KILLED, KILLERS, ROOT, SURVIVED, TIMED_OUT, Result, killers

PAGE = ROOT / "docs" / "mutants.md"
BEGIN, END = "<!-- begin: written by `make mutants` -->", "<!-- end -->"


def figures(results: Sequence[Result]) -> str:
    """How many of each, in one line, and how long all of them took together."""
    counts = Counter(one.outcome for one in results)
    seconds = sum(one.seconds for one in results)
    parts = [f"{counts[outcome]} {outcome}" for outcome in (KILLED, TIMED_OUT, SURVIVED)]
    parts += [f"{count} {outcome}" for outcome, count in sorted(counts.items()) if outcome not in
              (KILLED, TIMED_OUT, SURVIVED)]  # fmt: skip
    return f"{len(results)} mutants: {', '.join(parts)}; {seconds:.0f} s on the clock"


def _short(test: str) -> str:
    return test.removeprefix("tests/").replace("|", "\\|")


def _rows(mutants: Sequence[Mutant], results: Mapping[str, Result]) -> list[str]:
    lines = ["| mutant | file | what it breaks | killed by |", "|---|---|---|---|"]
    for mutant in mutants:
        result = results[mutant.id]
        by = f"`{_short(result.by)}`" if result.dead else f"**{result.outcome}**"
        if result.outcome == TIMED_OUT:
            by += " (out of time)"
        lines.append(f"| {mutant.id} | `{mutant.file}` | {mutant.breaks} | {by} |")
    return lines


def section(mutants: Sequence[Mutant], results: Mapping[str, Result]) -> str:
    """The part of the page between its two marks."""
    day = datetime.now(timezone.utc).date().isoformat()  # noqa: UP017
    found = [results[mutant.id] for mutant in mutants]
    lines = [BEGIN, "", f"{day}: {figures(found)}.", "", *_rows(mutants, results)]
    alive = [mutant for mutant in mutants if not results[mutant.id].dead]
    if alive:
        lines += ["", "Survivors:", ""]
        lines += [f"- {mutant.id}: {mutant.survives or 'not explained.'}" for mutant in alive]
    return "\n".join([*lines, "", END])


def write(mutants: Sequence[Mutant], results: Mapping[str, Result]) -> None:
    """Writes the page's table, and the killers that the next run tries first."""
    known = killers()
    known.update({one.id: one.by for one in results.values() if one.dead})
    ids = {mutant.id for mutant in mutants} | set(known)
    (ROOT / KILLERS).write_text(
        json.dumps({id_: known[id_] for id_ in sorted(ids) if id_ in known}, indent=1) + "\n", encoding="utf-8"
    )
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + section(mutants, results) + tail, encoding="utf-8")
