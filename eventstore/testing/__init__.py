"""The conformance suite: what every event store must do, as pytest classes to subclass.

Owns the tests. Must not know a database. Called by this project's own tests, once for SQLite and once for PostgreSQL,
and by whoever brings a store of their own:

    class TestMyStore(EventStoreConformance):
        @pytest.fixture
        def opener(self, tmp_path):
            with Opener(lambda: my_open(tmp_path / "ledger")) as opener:
                yield opener

`opener()` must open the same ledger each time, new and empty in each test. It needs pytest, which `eventstore`
itself does not.
"""

import pytest

pytest.register_assert_rewrite(
    "eventstore.testing.appending",
    "eventstore.testing.concurrency",
    "eventstore.testing.leases",
    "eventstore.testing.reading",
    "eventstore.testing.retention",
    "eventstore.testing.snapshots",
)

from eventstore.testing.appending import AppendConformance  # noqa: E402
from eventstore.testing.build import SECOND, START, Opener, observation, payload_like  # noqa: E402
from eventstore.testing.concurrency import ConcurrencyConformance  # noqa: E402
from eventstore.testing.leases import LeaseConformance  # noqa: E402
from eventstore.testing.reading import ReadConformance  # noqa: E402
from eventstore.testing.retention import RetentionConformance  # noqa: E402
from eventstore.testing.snapshots import SnapshotConformance  # noqa: E402


class EventStoreConformance(
    AppendConformance,
    ReadConformance,
    ConcurrencyConformance,
    LeaseConformance,
    SnapshotConformance,
    RetentionConformance,
):
    """All of it."""


__all__ = [
    "SECOND",
    "START",
    "AppendConformance",
    "ConcurrencyConformance",
    "EventStoreConformance",
    "LeaseConformance",
    "Opener",
    "ReadConformance",
    "RetentionConformance",
    "SnapshotConformance",
    "observation",
    "payload_like",
]
