"""Fixtures that all tests share, and how much the property tests look at."""

from tests import ledgers
from tests.postgres import postgres_server, postgres_url
from vcledger.testing import profiles

profiles.register()
ledgers.install()

__all__ = ["postgres_server", "postgres_url"]
