"""python -m tests.mutants.more: a sample of the mutants that cosmic-ray makes of the pure parts.

Owns the files and the draw. Must not know how a mutant is run. Called by `make mutants-more`.

cosmic-ray only makes the changes here; they run on the bench that the hand-written ones run on, which is many times
faster than its own loop. A change that touches nothing but annotations is not one, nor one that cannot be told apart
from the line as it is (`is` and `==` of an enum).
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tests.mutants.eventstore import LOG
from tests.mutants.projections import CACHE
from tests.mutants.runner import BROKEN, COLLECTING, KILLED, ROOT, SURVIVED, Bench, Copy, Result, committed
from tests.mutants.scheduler import FLOW
from tests.mutants.survivors import EXPLAINED

SCHEDULER = ("decide", "binder", "volume_binder", "checks", "queues", "transitions", "resyncer", "housekeeping",
             "assumed", "charges", "fold", "fold_tasks", "fold_cycle", "fold_volumes", "fold_binding", "fold_resync",
             "fold_upkeep", "fold_recovery")  # fmt: skip
FILES: dict[str, tuple[str, ...]] = {
    **{f"vcledger/scheduler/{name}.py": FLOW[:4] for name in SCHEDULER},
    **{
        f"projections/cache/{name}.py": CACHE[:5]
        for name in ("accounting", "actions", "fold", "jobs", "nodes", "pods", "queues", "retries", "tasks", "volumes")
    },
    **{f"eventstore/{name}.py": LOG[:4] for name in ("append", "accept", "chain")},
}
"""Each file that is mutated, with the suites that should notice."""
NEAREST = {
    "checks": "checks",
    "volume_binder": "volumes",
    "assumed": "volumes",
    "queues": "queues",
    "transitions": "transitions",
    "resyncer": "binding",
    "housekeeping": "housekeeping",
    "binder": "binding",
    "charges": "binding",
}
EDGES = {
    "vcledger": "tests/unit/scheduler/test_edges.py",
    "projections": "tests/unit/projections/test_cache_edges.py",
    "eventstore": "tests/unit/eventstore/test_edges.py",
}
IMPORT = "its import"
KEPT = re.compile(
    r"(ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Add|FloorDiv_Mul|LShift_RShift|BitAnd_BitOr|BitOr_BitAnd)"
    r"|ReplaceComparisonOperator_(?!Is_Eq|Eq_Is|IsNot_NotEq|NotEq_IsNot)\w+|AddNot|ReplaceUnaryOperator_Delete_Not"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceBreakWithContinue"
    r"|ReplaceContinueWithBreak|ZeroIterationForLoop)\Z"
)
"""Operators that make what could be a mistake. The others (a shift for a sum, another limit) mostly fail at once, or
cannot be noticed."""


class Change(NamedTuple):
    """A generated mutant: where, and the line before and after."""

    file: str
    line: int
    operator: str
    text: str
    before: str
    after: str

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line} {self.before.strip()} -> {self.after.strip()}"

    @property
    def known(self) -> tuple[str, str, str]:
        """What names it in `EXPLAINED`: its number of line may change."""
        return self.file, self.before.strip(), self.after.strip()


class _Bare(ast.NodeTransformer):
    """Takes annotations and texts that only a reader sees out of a tree."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        made = ast.Assign(targets=[node.target], value=node.value)
        return self.generic_visit(ast.copy_location(made, node))


def bare(text: str) -> str | None:
    """What a program does, None where it is no Python."""
    try:
        return ast.dump(_Bare().visit(ast.parse(text)))
    except SyntaxError:
        return None


def operators() -> list[tuple[str, object]]:
    """cosmic-ray's operators that need no arguments."""
    found = []
    for name in sorted(cosmic_ray.plugins.operator_names()):
        made = cosmic_ray.plugins.get_operator(name)
        if KEPT.match(name.rpartition("/")[2]):
            found.append((name, made()))
    return found


Place = tuple[str, int, str, int]
"""(file, line, operator, occurrence) of a change that can be made."""


def places(file: str, text: str) -> Iterator[Place]:
    """Each change that can be made, operator by operator."""
    tree = get_ast(text)
    nodes = list(ast_nodes(tree))
    for name, operator in operators():
        occurrence = 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):  # type: ignore[attr-defined]
                yield file, start[0], name, occurrence
                occurrence += 1


def lots(texts: Mapping[str, str], seed: int) -> list[Place]:
    """All places in the order in which they are drawn. Each has a lot of its own, by seed, file, the line's text and
    operator: a change elsewhere in the tree leaves the order of the others as it was."""
    drawn: list[tuple[bytes, Place]] = []
    for file, text in texts.items():
        lines, seen = text.split("\n"), Counter[tuple[str, str]]()
        for place in places(file, text):
            what = lines[place[1] - 1].strip(), place[2]
            seen[what] += 1
            drawn.append((hashlib.sha256(repr((seed, file, *what, seen[what])).encode()).digest(), place))
    return [place for _, place in sorted(drawn)]


def draw(root: Path, count: int, seed: int) -> list[Change]:
    """A sample, at most one change a line, in the order drawn, so that the beginning of it is a sample too."""
    texts = {file: (root / file).read_text(encoding="utf-8") for file in FILES}
    all_places = lots(texts, seed)
    made_of = dict(operators())
    lines: set[tuple[str, int]] = set()
    found: list[Change] = []
    for file, line, name, occurrence in all_places:
        if len(found) == count:
            break
        if (file, line) in lines:
            continue
        text = texts[file]
        made = mutate_code(text, made_of[name], occurrence)
        if made is None or bare(made) in (None, bare(text)):
            continue
        lines.add((file, line))
        pair = next(
            ((one, other) for one, other in zip(text.split("\n"), made.split("\n"), strict=False) if one != other),
            ("", ""),
        )
        found.append(Change(file, line, name, made, *pair))
    return found


def suites(file: str) -> Sequence[str]:
    """The suites for a file, nearest first: its own, what earlier mutants had tests written for, its package's."""
    near = NEAREST.get(Path(file).stem) if file.startswith("vcledger/") else None
    first = [f"tests/unit/scheduler/test_{near}.py"] if near else []
    return [*first, EDGES[file.partition("/")[0]], *FILES[file]]


def at_import(result: Result) -> Result:
    """A change with which the module can't even be imported is one that every test notices."""
    if result.outcome == BROKEN and result.by.startswith((COLLECTING, "pytest ended with 4")):
        return result._replace(outcome=KILLED, by=IMPORT)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.more", description="Generated mutants, a sample.")
    parser.add_argument("--sample", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30, help="stop after so long")
    parser.add_argument("--head", action="store_true", help="of what is committed, not of the files as they lie here")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}")
    began = time.monotonic()
    results: list[tuple[Change, Result]] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder) / "copy", committed(Path(folder)) if options.head else ROOT)
        bench = Bench(copy, {})
        for change in draw(copy.root, options.sample, options.seed):
            if time.monotonic() - began > options.minutes * 60:
                break
            result = at_import(bench.try_text(change.id, change.file, change.text, suites(change.file)))
            results.append((change, result))
            print(f"{result.outcome:10} {result.seconds:6.1f} s  {change.id}  {result.by}", flush=True)
        wrong = bench.fail_anyway(one.by for _, one in results if one.outcome == KILLED and one.by != IMPORT)
        copy.close()
    alive = [change for change, result in results if result.outcome == SURVIVED]
    unknown = [change for change in alive if change.known not in EXPLAINED]
    dead = len(results) - len(alive)
    print(f"{len(results)} of {options.sample} drawn (seed {options.seed}): {dead} killed, {len(alive)} survived, "
          f"{len(alive) - len(unknown)} of them explained; {time.monotonic() - began:.0f} s")  # fmt: skip
    for change in unknown:
        print(f"not explained: {change.id} ({change.operator})", file=sys.stderr)
    for test in sorted(wrong):
        print(f"fails without a mutant: {test}", file=sys.stderr)
    return 1 if unknown or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
