"""Runs pytest in fresh processes, quickly: other people's libraries are imported once, ours anew in each.

Owns the forking, the time limit, the end of a run with all that it has started. Must not import a module that mutants
change. Started by `tests.mutants.runner`, one a copy: it reads a request a line, and answers with a line.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time

MEMORY_BYTES = 6 * 1024**3
LIBRARIES = ("pytest", "hypothesis.stateful", "_hypothesis_pytestplugin", "sqlalchemy.dialects.sqlite",
             "alembic.command", "msgspec", "zstandard", "yaml", "typer.testing", "rich.table")  # fmt: skip


def _run(arguments: list[str], output: str) -> None:
    """In the forked process: never comes back."""
    code = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for number in (1, 2):
            os.dup2(target, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        import pytest

        code = int(pytest.main(arguments))
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> int | None:
    """The exit code, negative for a signal; None when the time is over. Nothing of the run is left."""
    until = time.monotonic() + seconds
    done, status = 0, 0
    while not done and time.monotonic() < until:
        time.sleep(0.02)
        done, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not done:
        os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        arguments, output, seconds = json.loads(line)
        child = os.fork()
        if not child:
            _run(arguments, output)
        print(json.dumps(_wait(child, seconds)), flush=True)


if __name__ == "__main__":
    main()
