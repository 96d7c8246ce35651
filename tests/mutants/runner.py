"""Runs the mutants: each alone, in a copy of the tree, under the tests that should notice it.

Owns copies, processes, time limits, results. Must not know any mutant. Called by `python -m tests.mutants`.

Of a mutant the test that killed it last time is run first, then its suites one after the other until a test fails. In
the end all tests that killed one are run together on the tree as it is: one that fails there too has killed nothing,
and its mutants are tried again without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutants.model import Mutant, NotApplicable, mutated
from tests.mutants.reporter import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("eventstore", "volcano", "projections", "vcledger", "cli", "migrations", "tests", "docs", "examples")
FILES = ("pyproject.toml", "README.md")
KILLERS = "tests/mutants/killers.json"

KILLED, TIMED_OUT, SURVIVED, STALE, BROKEN = "killed", "timed out", "survived", "not applicable", "broken"
"""What came of a mutant. BROKEN: its tests cannot say, as they cannot be collected or fail without it too."""

TEST_SECONDS, SUITE_SECONDS = 300, 1200
"""How long a run may take on the clock; of processor time see the reporter."""
COLLECTING = "collecting "
SEED = 11


class Result(NamedTuple):
    """What came of one mutant: `by` the test, or what went wrong; how long it took; `key` of what was run."""

    id: str
    outcome: str
    by: str = ""
    seconds: float = 0.0
    key: str = ""

    @property
    def dead(self) -> bool:
        return self.outcome in (KILLED, TIMED_OUT)


class Run(NamedTuple):
    """What a pytest process said: its exit code (None: its time was over), the tests that failed, and the last one that
    was begun."""

    code: int | None
    failed: list[str]
    last: str


class Copy:
    """A copy of the tree in which one mutant at a time stands."""

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.folder, self.root = folder, folder / "tree"
        skip = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis", "mutants.json")
        for part in PARTS:
            if (source / part).is_dir():
                shutil.copytree(source / part, self.root / part, ignore=skip)
        for name in FILES:
            if (source / name).is_file():
                shutil.copy(source / name, self.root / name)
        if source != ROOT:
            shutil.copytree(ROOT / "tests/mutants", self.root / "tests/mutants", ignore=skip, dirs_exist_ok=True)
        # By the source's hash, not its date: a mutant may be as old and as long as what it replaces.
        mode = ["--invalidation-mode", "checked-hash", "-q", str(self.root)]
        subprocess.run([sys.executable, "-m", "compileall", *mode], check=True)
        environment = {
            **os.environ,
            VARIABLE: str(folder / "report"),
            "PYTHONPATH": str(self.root),
            "PYTHONHASHSEED": "0",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.child"], cwd=self.root, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def key(self, mutant: Mutant, test: str) -> str:
        """What a death is of: the mutant, its file, and the file of the test that killed it."""
        digest = hashlib.sha256(repr(mutant).encode())
        for name in (mutant.file, test.partition("::")[0]):
            path = self.root / name
            digest.update(path.read_bytes() if path.is_file() else b"")
        return digest.hexdigest()[:16]

    def said(self) -> str:
        """The last line of what the last process wrote."""
        lines = (self.folder / "output").read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")

    def pytest(self, tests: Sequence[str], seconds: float, *, without: Iterable[str] = (), whole: bool = False) -> Run:
        """pytest in a process of its own, until the first failure or over all of them."""
        report, running = self.folder / "report", self.folder / "report.running"
        for path in (report, running):
            path.unlink(missing_ok=True)
        arguments = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutants.reporter",
                     f"--hypothesis-seed={SEED}", "--basetemp", str(self.folder / "tmp"),
                     "-m", "not slow and not postgres", *([] if whole else ["-x"]),
                     *(f"--deselect={test}" for test in without), *tests]  # fmt: skip
        pipes = self._server.stdin, self._server.stdout
        assert pipes[0] is not None and pipes[1] is not None
        print(json.dumps([arguments, str(self.folder / "output"), seconds]), file=pipes[0], flush=True)
        code: int | None = json.loads(pipes[1].readline())
        failed = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
        return Run(code, failed, running.read_text(encoding="utf-8") if running.exists() else "")

    def close(self) -> None:
        """Ends its process."""
        self._server.communicate()


class Bench:
    """Tries mutants in one copy. `failing`: tests that fail without any; `near`: only a mutant's nearest suite is run,
    which says little of one that survives."""

    def __init__(
        self, copy: Copy, killers: dict[str, str], failing: set[str] | None = None, *, near: bool = False
    ) -> None:
        self.copy, self.killers, self.near = copy, killers, near
        self.failing: set[str] = failing if failing is not None else set()

    def try_out(self, mutant: Mutant) -> Result:
        """Applies one and finds the test that notices. One whose survival is explained is only tried on its nearest
        suite."""
        path = self.copy.root / mutant.file
        try:
            made = mutated(mutant, path.read_text(encoding="utf-8") if path.is_file() else "")
        except NotApplicable as error:
            return Result(mutant.id, STALE, str(error))
        suites = tuple(dict.fromkeys(mutant.suites))
        if mutant.survives or self.near:
            suites = suites[:1]
        result = self.try_text(mutant.id, mutant.file, made, suites)
        return result._replace(key=self.copy.key(mutant, result.by))

    def try_text(self, id_: str, file: str, made: str, suites: Sequence[str]) -> Result:
        """The same of a file's new text."""
        began = time.monotonic()
        path = self.copy.root / file
        whole = path.read_bytes()
        path.write_text(made, encoding="utf-8")
        try:
            outcome, by = self._hunt(self.killers.get(id_), suites)
        finally:
            path.write_bytes(whole)
        return Result(id_, outcome, by, round(time.monotonic() - began, 1))

    def _hunt(self, last: str | None, suites: Sequence[str]) -> tuple[str, str]:
        tries = [(last, TEST_SECONDS)] if last is not None and last not in self.failing else []
        tries += [(suite, SUITE_SECONDS) for suite in suites]
        for tests, seconds in tries:
            run = self.copy.pytest([tests], seconds, without=sorted(self.failing))
            if run.code in (None, -signal.SIGPROF):
                return TIMED_OUT, run.last
            if run.failed and run.failed[0].startswith(COLLECTING):
                return BROKEN, run.failed[0]
            if run.code == 1 and run.failed:
                return KILLED, run.failed[0]
            if run.code is not None and run.code < 0:
                return KILLED, run.last
            if run.code not in (0, 5) and tests != last:
                return BROKEN, f"pytest ended with {run.code} on {tests}: {self.copy.said()}"
        return SURVIVED, ""

    def fail_anyway(self, tests: Iterable[str]) -> set[str]:
        """Those of the tests that fail on the tree as it is."""
        asked = sorted(set(tests))
        if not asked:
            return set()
        run = self.copy.pytest(asked, SUITE_SECONDS, whole=True)
        return set(asked) if run.code not in (0, 1) else set(run.failed)


def committed(folder: Path) -> Path:
    """The tree as it is committed, in a folder below the given one."""
    source = folder / "head"
    source.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", str(source)], input=archive, check=True)
    return source


def killers(root: Path = ROOT) -> dict[str, str]:
    """The test that killed each mutant last time."""
    path = root / KILLERS
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def load(path: Path) -> dict[str, Result]:
    """Results of an earlier run."""
    if not path.is_file():
        return {}
    return {row[0]: Result(*row) for row in json.loads(path.read_text(encoding="utf-8"))}


def save(path: Path, results: Iterable[Result]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = sorted((tuple(one) for one in results), key=lambda row: str(row[0]))
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
    whole.replace(path)


def problem(mutant: Mutant, result: Result) -> str:
    """Why a result is not as it should be, '' when it is: dead, or alive for a reason that the table gives."""
    if result.outcome in (STALE, BROKEN):
        return f"{result.outcome}: {result.by}"
    if result.dead and mutant.survives:
        return f"the table explains why it survives, but it is {result.outcome} by {result.by}"
    if not result.dead and not mutant.survives:
        return f"survived: {mutant.breaks} No test notices."
    return ""
