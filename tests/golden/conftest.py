"""The recording of 300 nodes takes seconds wherever it is read: such a test is `slow`, its neighbours are not."""

from __future__ import annotations

import pytest

LARGE = "06-"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and f"{call.id}-".startswith(LARGE) and "golden" in item.path.parts:
            item.add_marker(pytest.mark.slow)
