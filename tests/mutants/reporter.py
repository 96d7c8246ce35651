"""The pytest plugin of a mutant's run: writes down which tests failed.

Owns that file. Must not know the mutant. Loaded with `-p tests.mutants.reporter` by the runner. Hypothesis does not
shrink here: that a test fails is all that is asked. A test that computes for too long ends the process; the limit is
processor time, so that it is the same on a busy machine.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import Phase, settings

VARIABLE = "MUTANTS_REPORT"
LONG = ("tests/stateful/", "tests/simulation/")
LONG_SECONDS, SECONDS = 90, 15
"""Processor time that one test may take, of those in LONG and of the others."""

if VARIABLE in os.environ:
    settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), deadline=None)
    settings.load_profile("mutants")


def _tell(what: str) -> None:
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as report:
        report.write(f"{what}\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    """For a run that is ended by its time limit: what was running then."""
    Path(os.environ[VARIABLE] + ".running").write_text(nodeid, encoding="utf-8")
    # Its signal, which nobody handles, ends the process.
    signal.setitimer(signal.ITIMER_PROF, LONG_SECONDS if nodeid.startswith(LONG) else SECONDS)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _tell(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _tell(f"collecting {report.nodeid}")
