"""What every API server behind the port must do, as a pytest class to subclass.

Owns the sum of the tests, which stand by subject in `vcledger.testing.port`. Must not know which server it is. Called
by this project's own tests, once for the simulated server and once for a real kube-apiserver, and by whoever brings a
server of their own:

    class TestMyServer(ApiPortContract):
        @pytest.fixture
        def port(self):
            yield connect()

Nobody else may write to the server meanwhile: no controllers, no kubelet. Objects get names of their own in each test,
so one server may serve them all; it serves Volcano's kinds too. `compact` and `drop_watches` are for servers that a
test can make do so; where they raise NotImplementedError those tests are skipped. It needs pytest, which `vcledger`
itself does not.
"""

from __future__ import annotations

from vcledger.testing.port.base import Object, PortBase, a_name, claim, event, group, node, pod, volcano_queue, volume
from vcledger.testing.port.bindings import Bindings
from vcledger.testing.port.custom import CustomResources
from vcledger.testing.port.deletions import Deletions
from vcledger.testing.port.reads import Creates, Reads
from vcledger.testing.port.updates import Updates
from vcledger.testing.port.watches import WatchesOfPort


class ApiPortContract(Reads, Creates, Updates, CustomResources, Bindings, Deletions, WatchesOfPort):
    """All of it."""


__all__ = [
    "ApiPortContract",
    "Bindings",
    "Creates",
    "CustomResources",
    "Deletions",
    "Object",
    "PortBase",
    "Reads",
    "Updates",
    "WatchesOfPort",
    "a_name",
    "claim",
    "event",
    "group",
    "node",
    "pod",
    "volcano_queue",
    "volume",
]
