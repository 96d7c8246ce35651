"""The pytest plugin that comes with vcledger: fixtures for whoever tests a scheduler, or a cache, with it.

Owns the fixtures and the option. Loaded by pytest through the entry point `vcledger`; must import nothing heavy until
one is used.

    def test_mine(sim_cluster, invariants):
        sim_cluster.create("Node", {...})
        sim_cluster.run(seconds=10)
        invariants.check()        # fails with each invariant that is broken, and where

With `vcledger_profiles = true` among pytest's options the hypothesis profiles dev, ci and nightly are registered, and
the one that the environment chooses is loaded (`vcledger.testing.profiles`).

ledger       a new, empty `vcledger.ledger.Ledger` in the test's temporary folder, closed at the end
sim_cluster  a simulated cluster with the scheduler in it, on `ledger` (`vcledger.testing.cluster.SimCluster`)
invariants   checks the ledger's invariants when asked to (`check`), and again at the end of a test that passed
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vcledger.ledger import Ledger
    from vcledger.testing.cluster import SimCluster
    from vcledger.testing.invariants import Verdict


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's one option."""
    parser.addini("vcledger_profiles", "register vcledger's hypothesis profiles: dev, ci, nightly", "bool", False)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before hypothesis' own plugin loads the profile that --hypothesis-profile names."""
    if config.getini("vcledger_profiles"):
        from vcledger.testing import profiles

        profiles.register()


class Invariants:
    """Checks of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told = False

    def verdicts(self) -> list[Verdict]:
        """What came of each invariant, cluster by cluster."""
        from vcledger.testing.invariants import check_ledger

        return [one for name in self._ledger.clusters() for one in check_ledger(self._ledger, cluster=name)]

    def check(self) -> None:
        """Fails the test with one line for each invariant that is broken; once, as the end of the test checks again."""
        broken = [
            f"{one.invariant.name} is broken at position {one.position}: {one.text}"
            for one in self.verdicts()
            if one.broken
        ]
        if broken and not self._told:
            self._told = True
            pytest.fail("\n".join(broken), pytrace=False)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A new, empty ledger."""
    from vcledger.ledger import Ledger

    with Ledger.open(str(tmp_path / "vcledger.db"), create=True) as opened:
        yield opened


@pytest.fixture
def sim_cluster(ledger: Ledger) -> SimCluster:
    """A simulated cluster, empty but for the queue `default`, and the scheduler."""
    from vcledger.testing.cluster import SimCluster

    return SimCluster(ledger)


@pytest.fixture
def invariants(ledger: Ledger) -> Iterator[Invariants]:
    """The invariants of `ledger`: checked when the test asks, and once more at its end."""
    checks = Invariants(ledger)
    yield checks
    checks.check()
