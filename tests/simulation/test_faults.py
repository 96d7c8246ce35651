"""Plans and faults: drawn from a seed, kept as values, and what each fault on a request does to the server."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from vcledger.scheduler.requests import Bind, CallHandler, Delete, Get, Patch, Request, Update
from vcledger.sim import plan as plans
from vcledger.sim.clock import SECOND
from vcledger.sim.faults import FAULTS, REQUEST_FAULTS, WATCH_FAULTS, Fault, UnknownFault, drawn, named
from vcledger.sim.port import FOREIGN, FaultyPort
from vcledger.sim.server import SimulatedApi

Object = dict[str, Any]


class TestPlans:
    def test_a_plan_is_its_seeds(self) -> None:
        assert plans.draw(3) == plans.draw(3) != plans.draw(4)
        assert plans.encode(plans.draw(3)) == plans.encode(plans.draw(3))

    @pytest.mark.parametrize("seed", range(20))
    def test_a_plan_survives_its_json(self, seed: int) -> None:
        plan = plans.draw(seed)
        assert plans.decode(plans.encode(plan)) == plan

    @pytest.mark.parametrize("seed", range(20))
    def test_a_plan_is_in_order_and_ends_in_time(self, seed: int) -> None:
        plan = plans.draw(seed, 60)
        for times in ([doing.at for doing in plan.doings], [fault.at for fault in plan.faults]):
            assert times == sorted(times) and times[-1] < plan.safety
        assert len(plan.faults) == 30

    @pytest.mark.parametrize("seed", range(20))
    def test_there_is_room_for_all(self, seed: int) -> None:
        """In a roomy world on every node, in a tight one for each gang at once; what a claim needs is there."""
        plan = plans.draw(seed, 80)
        gangs: dict[str, int] = {}
        classes = dict.fromkeys(doing.name for doing in plan.doings if doing.kind == "StorageClass")
        for doing in plan.doings:
            item = doing.object or {}
            if doing.do == "run":
                milli = int(item["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1])
                group = item["metadata"]["annotations"][plans.GROUP]
                gangs[group] = gangs.get(group, 0) + milli
                assert ("nodeSelector" in item["spec"]) <= ("volumes" not in item["spec"])
            elif doing.kind == "PersistentVolumeClaim" and doing.do == "create":
                assert item["spec"]["storageClassName"] in classes
        nodes = [doing for doing in plan.doings if doing.kind == "Node" and doing.do == "create"]
        assert max(gangs.values()) <= 4000 * len(nodes)
        if not plan.tight:
            assert sum(gangs.values()) <= 32_000

    def test_without_faults_there_are_none(self) -> None:
        assert plans.draw(1, 40, ()).faults == ()

    def test_both_kinds_of_worlds_are_drawn(self) -> None:
        assert {plans.draw(seed).tight for seed in range(20)} == {True, False}


class TestNames:
    def test_groups_and_names(self) -> None:
        assert named("all") == tuple(FAULTS)
        assert named("none") == ()
        assert named("watch") == tuple(WATCH_FAULTS)
        assert named("crash, request") == (*REQUEST_FAULTS, "crash")

    def test_an_unknown_name_says_which_there_are(self) -> None:
        with pytest.raises(UnknownFault, match="no fault 'crahs'; there are: all, none"):
            named("conflict,crahs")

    def test_every_fault_is_drawn_some_time(self) -> None:
        found = [fault.fault for fault in drawn(Random(1), tuple(FAULTS), 600, 60 * SECOND)]
        assert sorted(dict.fromkeys(found)) == sorted(FAULTS)


class TestRequests:
    """Each fault on a request: the answer is the real server's, and what is not answered may have been done."""

    @pytest.fixture
    def port(self) -> FaultyPort:
        api = SimulatedApi()
        for name in ("n1", "n2"):
            api.create("Node", {"metadata": {"name": name}})
        return FaultyPort(api, Random(1))

    def pod(self, port: FaultyPort, name: str = "p") -> Object:
        spec = {"containers": [{"name": "main"}]}
        return port.api.create("Pod", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def node_of(self, port: FaultyPort, name: str = "p") -> str:
        return str((port.api.object("Pod", "default", name) or {})["spec"].get("nodeName", ""))

    def bind(self, pod: Object) -> Request:
        return Bind("default", pod["metadata"]["name"], pod["metadata"]["uid"], "n1")

    @pytest.mark.parametrize(
        ("fault", "code", "node"),
        [
            ("timeout-before", None, ""),
            ("timeout-after", None, "n1"),
            ("server-error", 500, ""),
            ("error-after", 500, "n1"),
            ("throttled", 429, ""),
            ("lost-to-another", 409, "n2"),
        ],
    )
    def test_a_bind(self, port: FaultyPort, fault: str, code: int | None, node: str) -> None:
        request = self.bind(self.pod(port))
        port.arm(Fault(0, fault, "POST", "Pod", pick=1))
        assert port.do(request).code == code
        assert self.node_of(port) == node
        assert port.hits == {fault: 1} and port.armed == []

    def test_a_pod_gone_before_its_bind(self, port: FaultyPort) -> None:
        request = self.bind(self.pod(port))
        port.arm(Fault(0, "gone-before", "POST", "Pod"))
        assert port.do(request).code == 404
        assert port.api.object("Pod", "default", "p") is None

    def test_a_conflict_is_a_strangers_edit(self, port: FaultyPort) -> None:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": []}
        volume = port.api.create("PersistentVolume", {"metadata": {"name": "pv"}, "spec": spec})
        port.arm(Fault(0, "conflict", "PUT", "PersistentVolume"))
        answer = port.do(Update("PersistentVolume", "", "pv", msgspec.json.encode(volume)))
        assert answer.code == 409 and b"the object has been modified" in answer.body
        assert FOREIGN in (port.api.object("PersistentVolume", "", "pv") or {})["metadata"]["annotations"]

    def test_a_stale_read_is_of_the_same_object(self, port: FaultyPort) -> None:
        """As it was some writes ago, but never before it was there; one that is gone is gone."""
        pod = self.pod(port)
        port.api.do(self.bind(pod))
        for lag, node in ((0, ""), (5, "n1")):
            port.arm(Fault(0, "read-stale", "GET", "Pod", pick=lag))
            answer = port.do(Get("Pod", "default", "p"))
            assert (answer.code, msgspec.json.decode(answer.body)["spec"].get("nodeName", "")) == (200, node)
        port.api.do(Delete("Pod", "default", "p", grace_seconds=0))
        self.pod(port)
        port.arm(Fault(0, "read-stale", "GET", "Pod", pick=1))
        assert (
            msgspec.json.decode(port.do(Get("Pod", "default", "p")).body)["metadata"]["uid"] != pod["metadata"]["uid"]
        )
        port.api.compact()
        port.arm(Fault(0, "read-stale", "GET", "Pod", pick=3))
        assert port.do(Get("Pod", "default", "p")).code == 200

    def test_a_fault_hits_what_it_is_for_and_as_often_as_it_says(self, port: FaultyPort) -> None:
        self.pod(port)
        port.arm(Fault(0, "server-error", "GET", "Pod", count=2))
        patch = Patch("Pod", "default", "p", b'{"metadata":{"labels":{"a":"1"}}}')
        assert port.do(patch).code == 200
        assert port.do(Get("Node", "", "n1")).code == 200
        assert [port.do(Get("Pod", "default", "p")).code for _ in range(3)] == [500, 500, 200]

    def test_a_handler_is_called_without_the_server(self, port: FaultyPort) -> None:
        assert port.do(CallHandler("h", "default", "p", "u", "n1")).code == 200
        assert port.api.calls.get(("CALL", "handlers/h")) is None
