"""Claims that one pod at a time may use, and the order in which problems of claims are found."""

from __future__ import annotations

from typing import Any

from projections.diagnosis.claims import pod_claims
from projections.diagnosis.nodes import Evaluation, refuses
from projections.diagnosis.reasons import ACCESS_MODE, scheduler_reasons
from projections.diagnosis.views import ClusterView
from tests.unit.diagnosis.build import claim, cluster, node, placed, pod, storage_class, task, volume

ALONE = ["ReadWriteOncePod"]


def uses(*names: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}


def world(modes: list[str], namespace: str = "default", **more: Any) -> ClusterView:
    """Claim c of these modes, bound to v, and a pod on n1 that uses a claim of that name."""
    return cluster(
        [node("n1"), node("n2")],
        pods=[placed(pod("first", namespace=namespace, **uses("c")), "n1")],
        claims={"default/c": claim("c", volume="v", modes=modes)},
        volumes={"v": volume("v", phase="Bound", modes=modes)},
        **more,
    )


def refusals(where: ClusterView, subject: Any) -> dict[str, list[str]]:
    return {name: scheduler_reasons(found) for name, found in Evaluation(task(subject), subject, where).table().items()}


def test_a_claim_for_one_pod_is_taken_on_every_node() -> None:
    subject = pod(**uses("c"))
    where = world(ALONE)
    assert refusals(where, subject) == {"n1": [ACCESS_MODE], "n2": [ACCESS_MODE]}
    [reason] = Evaluation(task(subject), subject, where).on(where.nodes[1])
    assert reason.detail == "claim c is used by default/first on n1"
    assert not reason.final, "the scheduler goes on to the next predicate, and names what that says too"


def test_other_access_modes_and_other_namespaces_do_not_count() -> None:
    subject = pod(**uses("c"))
    assert refusals(world(["ReadWriteOnce"]), subject) == {"n1": [], "n2": []}
    assert refusals(world(ALONE, namespace="other"), subject) == {"n1": [], "n2": []}


def test_the_pod_itself_is_no_second_user() -> None:
    assert refusals(world(ALONE), pod("first", **uses("c"))) == {"n1": [], "n2": []}


def test_a_pod_that_is_placed_on_trial_takes_it() -> None:
    where, subject = world(ALONE), pod(**uses("c"))
    where.pods = ()
    extra = [placed(pod("other", **uses("c")), "n2")]
    found = Evaluation(task(subject), subject, where, extra).on(where.nodes[0])
    assert scheduler_reasons(found) == [ACCESS_MODE]


def test_volcano_only_has_it_shown() -> None:
    subject = pod(**uses("c"))
    found = Evaluation(task(subject), subject, world(ALONE, ignores_access_modes=True)).on(node("n2"))
    assert [reason.text for reason in found] == [ACCESS_MODE]
    assert not refuses(found)


EPHEMERAL = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def problems(subject: Any, claims: list[Any], **more: Any) -> list[str]:
    where = cluster([node("n1")], claims={f"default/{one.metadata.name}": one for one in claims}, **more)
    return [problem.text for problem in pod_claims(subject, where).problems]


def test_an_ephemeral_claim_is_looked_at_by_volume_binding_only() -> None:
    subject = pod(volumes=[EPHEMERAL])
    step = "plugin VolumeBinding pre-predicates failed "
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"'
    assert problems(subject, []) == [step + waiting]
    foreign = claim("p-data", meta={"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "another"}]})
    assert problems(subject, [foreign]) == [
        f"{step}PVC default/p-data was not created for pod default/p (pod is not owner)"
    ]
    own = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p"}]}
    classes = {"now": storage_class("now", volumeBindingMode="Immediate")}
    immediate = claim("p-data", "now", meta=own)
    assert problems(subject, [immediate], classes=classes) == [
        f"{step}pod has unbound immediate PersistentVolumeClaims"
    ]


def test_problems_of_an_earlier_step_come_first_whatever_the_order_of_the_volumes() -> None:
    subject = pod(volumes=[EPHEMERAL, *uses("gone", "lost")["volumes"]])
    lost = claim("lost", volume="v", phase="Lost")
    assert problems(subject, [lost], volumes={"v": volume("v")}) == [
        'plugin VolumeZone pre-predicates failed persistentvolumeclaim "gone" not found',
        "plugin VolumeBinding pre-predicates failed waiting for ephemeral volume controller to create the "
        'persistentvolumeclaim "p-data"',
        'plugin VolumeBinding pre-predicates failed persistentvolumeclaim "lost" bound to non-existent '
        'persistentvolume "v"',
    ]


def test_a_lost_claim_whose_volume_is_gone_is_found_by_the_step_that_looks_for_the_volume() -> None:
    lost = claim("lost", volume="v", phase="Lost")
    assert problems(pod(**uses("lost")), [lost]) == [
        'plugin VolumeZone pre-predicates failed persistentvolume "v" not found'
    ]
