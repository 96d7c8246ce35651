"""python -m tests.mutants: runs the mutants and says which survived.

Owns the options, the order, and what is printed. Must not know any mutant. Called by `make mutants`.

Exits with 1 when a mutant survived without an explanation, does not apply any more, or could not be judged.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.mutants import report
from tests.mutants.model import Mutant
from tests.mutants.runner import KILLED, ROOT, Bench, Copy, Result, committed, killers, load, problem, save
from tests.mutants.table import MUTANTS, named

RESULTS = ROOT / ".cache" / "mutants.json"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Bugs on purpose, one at a time.")
    parser.add_argument("--only", action="append", metavar="ID", help="this mutant; may be given several times")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once, each in a copy of its own")
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    parser.add_argument("--head", action="store_true", help="of what is committed, not of the files as they lie here")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md and which test killed which")
    parser.add_argument("--near", action="store_true", help="run the nearest suite only: quick, and no last word")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    return parser.parse_args(arguments)


class Campaign:
    """A run over some mutants, in as many copies as jobs; each result is saved when it is there."""

    def __init__(self, folder: Path, source: Path, jobs: int, results: dict[str, Result], near: bool) -> None:
        self.results, self.failing = results, set[str]()
        known = killers(source)
        self.benches = [
            Bench(Copy(folder / f"copy-{number}", source), known, self.failing, near=near) for number in range(jobs)
        ]

    def run(self, chosen: Sequence[Mutant]) -> None:
        """Tries those that are not known to be dead; then looks at the killers, and tries again those whose killer
        fails without them."""
        first = self.benches[0]
        self._try([one for one in chosen if not self._known(first, one)])
        dead = {one.id: self.results[one.id] for one in chosen if self.results[one.id].outcome == KILLED}
        while fail := first.fail_anyway(result.by for result in dead.values()):
            print(f"  fails without a mutant: {', '.join(sorted(fail))}", flush=True)
            self.failing |= fail
            again = [one for one in chosen if one.id in dead and dead[one.id].by in fail]
            self._try(again)
            dead = {one.id: self.results[one.id] for one in again if self.results[one.id].outcome == KILLED}

    def close(self) -> None:
        for bench in self.benches:
            bench.copy.close()

    def _known(self, bench: Bench, mutant: Mutant) -> bool:
        earlier = self.results.get(mutant.id)
        return earlier is not None and earlier.dead and earlier.key == bench.copy.key(mutant, earlier.by)

    def _try(self, mutants: Sequence[Mutant]) -> None:
        free: SimpleQueue[Bench] = SimpleQueue()
        for bench in self.benches:
            free.put(bench)

        def one(mutant: Mutant) -> tuple[Mutant, Result]:
            bench = free.get()
            try:
                return mutant, bench.try_out(mutant)
            finally:
                free.put(bench)

        with ThreadPoolExecutor(len(self.benches)) as pool:
            for done in as_completed([pool.submit(one, mutant) for mutant in mutants]):
                mutant, result = done.result()
                self.results[mutant.id] = result
                save(RESULTS, self.results.values())
                mark = "!" if problem(mutant, result) else " "
                print(f"{mark} {mutant.id:36} {result.outcome:10} {result.seconds:6.1f} s  {result.by}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        chosen = [named(id_) for id_ in options.only] if options.only else list(MUTANTS)
    except KeyError as error:
        print(f"no mutant {error.args[0]}; --list prints them", file=sys.stderr)
        return 2
    if options.list:
        for mutant in chosen:
            print(f"{mutant.id:36} {mutant.file:40} {mutant.breaks}")
        return 0
    results = {} if options.fresh else load(RESULTS)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        source = committed(Path(folder)) if options.head else ROOT
        campaign = Campaign(Path(folder), source, max(1, options.jobs), results, options.near)
        campaign.run(chosen)
        campaign.close()
    found = [results[mutant.id] for mutant in chosen]
    wrong = [(mutant, text) for mutant in chosen if (text := problem(mutant, results[mutant.id]))]
    print(report.figures(found))
    if options.write:
        report.write(chosen, results)
    for mutant, text in wrong:
        print(f"{mutant.id} ({mutant.file}): {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
