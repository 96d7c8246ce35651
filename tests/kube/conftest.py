"""The control plane that these tests share: one for all of them, in whatever process they run.

All tests of this folder are in one group of pytest-xdist, so that they run in one process, on one server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube import things
from tests.kube.control_plane import BUILT, ControlPlane, MissingProgram, running_control_plane
from tests.kube.proxy import Proxy, running_proxy

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kube)
            item.add_marker(pytest.mark.xdist_group("kube"))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The control plane, as the tests before have left it. Its logs are in .cache/kube/logs afterwards."""
    try:
        with running_control_plane(BUILT / "logs") as plane:
            yield plane
    except MissingProgram as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture
def clean_plane(control_plane: ControlPlane) -> ControlPlane:
    """The control plane without any object of the kinds that the ledger knows."""
    control_plane.wipe()
    return control_plane


@pytest.fixture
def plane(clean_plane: ControlPlane) -> ControlPlane:
    """The same with the default queue; some files have a control plane of their own."""
    things.queue(clean_plane)
    return clean_plane


@pytest.fixture
def proxy(plane: ControlPlane, tmp_path: Path) -> Iterator[Proxy]:
    """What a test puts between a scheduler and the control plane."""
    with running_proxy(plane, tmp_path / "proxy-kubeconfig") as one:
        yield one


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A new namespace."""
    return control_plane.namespace()
