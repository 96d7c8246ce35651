"""The manifests of deploy/ on a real API server: it takes them, and their roles allow what is used and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from typer.main import get_group

from cli.main import app
from projections.cache import CACHE_KINDS
from tests.kube.control_plane import ControlPlane
from tests.kube.manifests import PARTS, applied, installed, objects
from vcledger.scheduler.requests import Bind, CallHandler, Create, Delete, Get, Patch, Request, Update
from vcledger.sim.port import FaultyPort
from vcledger.sim.simulate import simulate
from volcano.objects.kinds import BY_NAME, KINDS

READS = ("get", "list", "watch")
Use = tuple[str, str, str, str]
"""Verb, API group, resource, subresource."""


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """With the namespace, the accounts and the roles of the manifests."""
    with installed(control_plane):
        yield control_plane


@pytest.mark.parametrize("part", [*PARTS, "crds"])
def test_the_api_server_takes_the_manifests(plane: ControlPlane, part: str) -> None:
    for item in objects(part):
        assert applied(plane, item, dry=True)["kind"] == item["kind"]


@pytest.mark.parametrize("part", PARTS)
def test_their_pods_are_within_the_restricted_standard(plane: ControlPlane, part: str) -> None:
    (deployment,) = [item for item in objects(part) if item["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    path = "/api/v1/namespaces/vcledger/pods?dryRun=All&fieldValidation=Strict"
    plane.request("POST", path, {"metadata": {"name": "tried"}, "spec": spec}, code=201)
    spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    refused = plane.request("POST", path, {"metadata": {"name": "tried"}, "spec": spec}, code=403)
    assert "violates PodSecurity" in refused["message"]


@pytest.mark.parametrize("part", PARTS)
def test_their_arguments_are_what_the_command_takes(part: str) -> None:
    (deployment,) = [item for item in objects(part) if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    name, *arguments = container["args"]
    command: Any = get_group(app).get_command(None, name)
    found = command.make_context(name, [text.replace("$(CLUSTER)", "blue") for text in arguments])
    assert (found.params["cluster"], found.params["listen"]) == ("blue", "0.0.0.0:8080")
    assert [one["name"] for one in container["env"]] == ["CLUSTER", "VCLEDGER_DB"]
    probes = [container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")]
    assert probes == ["/healthz", "/healthz", "/readyz"]


def allowed(plane: ControlPlane, part: str, use: Use, namespace: str = "team-a", name: str = "") -> bool:
    """Whether the part's service account may do this."""
    verb, group, resource, subresource = use
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    attributes |= {"namespace": namespace, "name": name}
    user = f"system:serviceaccount:vcledger:vcledger-{part}"
    groups = ["system:serviceaccounts", "system:serviceaccounts:vcledger", "system:authenticated"]
    spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(plane.request("POST", path, review, code=201)["status"]["allowed"])


def role_of(part: str, kind: str = "ClusterRole") -> list[Use]:
    """What a part's role says, one by one."""
    found = []
    for role in (item for item in objects(part) if item["kind"] == kind):
        for rule in role["rules"]:
            assert set(rule) <= {"apiGroups", "resources", "verbs", "resourceNames"}
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    name, _, subresource = resource.partition("/")
                    found += [(verb, group, name, subresource) for verb in rule["verbs"]]
    assert len(found) == len(dict.fromkeys(found)), "nothing is allowed twice"
    return found


VERBS: dict[type[Request], str] = {Get: "get", Create: "create", Update: "update", Patch: "patch", Delete: "delete"}


def use_of(request: Request) -> Use:
    """What a request asks of the roles."""
    if isinstance(request, Bind):
        return ("create", "", "pods", "binding")
    assert isinstance(request, Get | Create | Update | Patch | Delete)
    kind = BY_NAME[request.kind]
    return (VERBS[type(request)], kind.group, kind.resource, getattr(request, "subresource", ""))


@pytest.fixture(scope="module")
def asked() -> list[Use]:
    """What the bind flow asked for in some simulated worlds."""
    found: dict[Use, None] = {}
    do = FaultyPort.do

    def recorded(port: FaultyPort, request: Request) -> Any:
        if not isinstance(request, CallHandler):
            found[use_of(request)] = None
        return do(port, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FaultyPort, "do", recorded)
        for seed in SEEDS:
            assert simulate(seed, twice=False, shrink=False).ok
        assert simulate(CROWDED_SEED, twice=False, shrink=False, crowd=True).ok
    return list(found)


SEEDS = (1, 2)
CROWDED_SEED = 7

RECORDER: list[Use] = [
    (verb, kind.group, kind.resource, "") for kind in KINDS if kind.group != "events.k8s.io" for verb in READS
]

SCHEDULER_READS: list[Use] = [
    (verb, BY_NAME[name].group, BY_NAME[name].resource, "") for name in CACHE_KINDS for verb in READS
]


def test_the_recorder_may_look_at_what_it_records(plane: ControlPlane) -> None:
    assert sorted(role_of("recorder")) == sorted(RECORDER)
    assert [use for use in RECORDER if not allowed(plane, "recorder", use)] == []


def test_the_scheduler_may_do_what_the_bind_flow_does(plane: ControlPlane, asked: list[Use]) -> None:
    wanted = list(dict.fromkeys([*SCHEDULER_READS, *asked]))
    assert ("create", "", "pods", "binding") in wanted and ("update", "", "persistentvolumeclaims", "") in wanted
    assert ("delete", "", "pods", "") in wanted
    assert [use for use in wanted if not allowed(plane, "scheduler", use)] == []
    assert sorted(dict.fromkeys(role_of("scheduler"))) == sorted(wanted)


EVERY_VERB = (*READS, "create", "update", "patch", "delete", "deletecollection")
OTHERS: tuple[tuple[str, str, str], ...] = (
    ("", "secrets", ""),
    ("", "configmaps", ""),
    ("", "serviceaccounts", "token"),
    ("", "pods", "exec"),
    ("", "pods", "log"),
    ("", "pods", "eviction"),
    ("", "nodes", "status"),
    ("", "nodes", "proxy"),
    ("", "namespaces", ""),
    ("apps", "deployments", ""),
    ("rbac.authorization.k8s.io", "clusterroles", ""),
    ("coordination.k8s.io", "leases", ""),
)


@pytest.mark.parametrize("part", PARTS)
def test_nothing_else_is_allowed(plane: ControlPlane, part: str) -> None:
    said = dict.fromkeys(role_of(part))
    things = [*OTHERS, *((kind.group, kind.resource, "") for kind in KINDS)]
    things += [(kind.group, kind.resource, "status") for kind in KINDS] + [("", "pods", "binding")]
    uses = [(verb, *thing) for thing in things for verb in EVERY_VERB if (verb, *thing) not in said]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda use: allowed(plane, part, use), uses))
    assert [use for use, may in zip(uses, answers, strict=True) if may] == []


def test_the_scheduler_has_its_lock_and_no_other(plane: ControlPlane) -> None:
    lease = ("coordination.k8s.io", "leases", "")
    assert sorted(role_of("scheduler", "Role")) == sorted((verb, *lease) for verb in ("get", "create", "update"))
    for verb, name, may in (
        ("create", "", True),
        ("get", "vcledger-scheduler", True),
        ("update", "vcledger-scheduler", True),
        ("get", "kube-scheduler", False),
        ("update", "kube-scheduler", False),
        ("delete", "vcledger-scheduler", False),
    ):
        assert allowed(plane, "scheduler", (verb, *lease), "vcledger", name) is may, (verb, name)
        assert not allowed(plane, "scheduler", (verb, *lease), "kube-system", name)


@pytest.mark.parametrize("part", PARTS)
def test_the_roles_are_bound_to_the_account_that_runs(part: str) -> None:
    account = f"vcledger-{part}"
    every = objects(part)
    (made,) = [item["metadata"] for item in every if item["kind"] == "ServiceAccount"]
    assert (made["namespace"], made["name"]) == ("vcledger", account)
    bindings = [item for item in every if item["kind"].endswith("RoleBinding")]
    roles = [item["metadata"]["name"] for item in every if item["kind"] in ("ClusterRole", "Role")]
    assert bindings and [one["roleRef"]["name"] for one in bindings] == roles == [account] * len(roles)
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["kind"], subject["namespace"], subject["name"]) == ("ServiceAccount", "vcledger", account)
    (deployment,) = [item for item in every if item["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == account
