"""The cache against a plain model of a cluster, and the invariants over every history that the machine makes."""

from __future__ import annotations

from vcledger.testing import profiles
from vcledger.testing.invariants import check_events
from vcledger.testing.machines import CacheMachine, ExactCache


class OwnCache(CacheMachine):
    """The fold under `exact`."""

    def teardown(self) -> None:
        tested = getattr(self, "tested", None)
        if isinstance(tested, ExactCache):
            assert [one for one in check_events(tested.events) if one.broken] == []


TestOwnCache = OwnCache.TestCase
TestOwnCache.settings = profiles.machine(60)
