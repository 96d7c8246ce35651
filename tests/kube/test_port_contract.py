"""The API port's contract on a real kube-apiserver: what the simulated server claims is what the real one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("vcledger.testing.port", "vcledger.testing.port_contract")

from tests.kube.control_plane import ControlPlane  # noqa: E402
from vcledger.runtime.port import ApiPort  # noqa: E402
from vcledger.testing.port_contract import ApiPortContract  # noqa: E402


class TestReal(ApiPortContract):
    @pytest.fixture
    def port(self, control_plane: ControlPlane) -> Iterator[ApiPort]:
        self.plane = control_plane
        port = control_plane.connect()
        yield port
        port.close()

    def compact(self, port: ApiPort) -> None:
        """The API server keeps recent changes of most kinds itself, whatever etcd has forgotten, so it starts anew."""
        self.plane.compact()
        self.plane.restart_api()

    def drop_watches(self, port: ApiPort, kind: str) -> None:
        self.plane.restart_api()
