"""The snapshots of the cache that an import makes.

Owns the choice between a second process beside a long import and a quick fold after a short one. Must not know what a
snapshot is made of. Called by `vcledger.sources.pipeline`.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

from eventstore.types import EventStoreError
from vcledger.errors import VcledgerError
from vcledger.ledger import Ledger, cache_projection
from vcledger.snapshotter import SnapshotProcess, catch_up
from vcledger.sources.report import ImportReport

WORTH_A_PROCESS = 20_000
"""Events stored before a second process is started: its start takes as long as folding that many."""


def location(ledger: Ledger) -> str:
    """Where the ledger is, as `open_store` takes it: a path, or a URL with its password."""
    backend = ledger.store.backend
    return backend.where if backend.name == "sqlite" else backend.engine.url.render_as_string(hide_password=False)


class Snapshots:
    """Makes the snapshots of one import. A context manager: whatever is unfinished at its end is given up."""

    def __init__(self, ledger: Ledger, cluster: str, wanted: bool) -> None:
        self.ledger, self.cluster, self.wanted = ledger, cluster, wanted
        self._process: SnapshotProcess | None = None

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.close()

    def begin_when_worth_it(self, stored: int) -> None:
        """Starts the second process once the import has turned out to be a long one."""
        if self.wanted and self._process is None and stored >= WORTH_A_PROCESS:
            with suppress(OSError):  # no more processes: `finish` folds in this one
                self._process = SnapshotProcess(location(self.ledger), self.cluster, cache_projection())

    def finish(self, report: ImportReport) -> int | None:
        """Brings the snapshots up to the end; how many were made, None when none were wanted. A failure is noted: the
        ledger is whole without them."""
        if not self.wanted:
            return None
        try:
            if self._process is not None:
                process, self._process = self._process, None
                progress = process.finish()
            else:
                if not report.stored:
                    return 0
                progress = catch_up(self.ledger, self.cluster)
        except (VcledgerError, EventStoreError) as error:
            report.note(f"no snapshots were made ({error}); reads of the past take longer without them")
            return 0
        return progress.whole + progress.changes
