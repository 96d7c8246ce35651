"""In-tree volumes as their CSI drivers see them: every plugin, every way to name a zone, and what can't be told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.diagnosis.build import claim, obj, volume
from volcano.objects import intree
from volcano.objects.intree import PLUGINS, Untranslatable, translated

ALL = frozenset(plugin.name for plugin in PLUGINS)
ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
EBS_KEY = "topology.ebs.csi.aws.com/zone"

SOURCES: dict[str, dict[str, Any]] = {
    "kubernetes.io/aws-ebs": {"awsElasticBlockStore": {"volumeID": "aws://us-west-2a/vol-0a1"}},
    "kubernetes.io/gce-pd": {"gcePersistentDisk": {"pdName": "disk-1"}},
    "kubernetes.io/azure-disk": {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s/disks/d"}},
    "kubernetes.io/cinder": {"cinder": {"volumeID": "c-1"}},
    "kubernetes.io/portworx-volume": {"portworxVolume": {"volumeID": "p-1"}},
    "kubernetes.io/azure-file": {"azureFile": {"shareName": "s", "secretName": "azure-storage-account-acc-secret"}},
    "kubernetes.io/vsphere-volume": {"vsphereVolume": {"volumePath": "[ds] a.vmdk"}},
}
HANDLES = {
    "kubernetes.io/aws-ebs": ("ebs.csi.aws.com", "vol-0a1"),
    "kubernetes.io/gce-pd": ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-1"),
    "kubernetes.io/azure-disk": ("disk.csi.azure.com", "/subscriptions/s/disks/d"),
    "kubernetes.io/cinder": ("cinder.csi.openstack.org", "c-1"),
    "kubernetes.io/portworx-volume": ("pxd.portworx.com", "p-1"),
}
ZONE_KEYS = {
    "kubernetes.io/aws-ebs": EBS_KEY,
    "kubernetes.io/gce-pd": "topology.gke.io/zone",
    "kubernetes.io/cinder": "topology.cinder.csi.openstack.org/zone",
}


def affinity(*terms: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in term.items()]}
                    for term in terms
                ]
            }
        }
    }


def terms_of(pv: Any) -> list[dict[str, list[str]]]:
    required = pv.spec.node_affinity.required if pv.spec.node_affinity is not None else None
    terms = required.node_selector_terms if required is not None else []
    return [{one.key: one.values for one in term.match_expressions or ()} for term in terms]


def of(plugin: str, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    return volume("v", labels=labels or {}, spec={**SOURCES[plugin], **spec})


@pytest.mark.parametrize("plugin", list(SOURCES))
def test_every_plugin_of_the_table(plugin: str) -> None:
    pv = of(plugin)
    found = intree.plugin_of(pv.spec)
    assert found is not None
    assert found.name == plugin
    assert intree.driver_of(plugin) == found.driver
    seen = translated(pv, ALL)
    if plugin in HANDLES:
        assert (seen.spec.csi.driver, seen.spec.csi.volume_handle) == HANDLES[plugin]
        assert intree.plugin_of(seen.spec) is None
    else:
        assert seen is pv


def test_the_table_has_no_plugin_that_is_not_tested() -> None:
    assert [plugin.name for plugin in PLUGINS] == list(SOURCES)


def test_handles_of_plugins_that_the_scheduler_passes_over() -> None:
    by = intree.BY_PLUGIN
    for name, handle in (("kubernetes.io/azure-file", "group#acc#s#"), ("kubernetes.io/vsphere-volume", "[ds] a.vmdk")):
        source = getattr(of(name).spec, by[name].source)
        assert by[name].handle(source, {}, {"kubernetes.io/azure-file-resource-group": "group"}) == handle
    plain = obj("PersistentVolume", spec={"azureFile": {"shareName": "s", "secretName": "mine"}})
    assert by["kubernetes.io/azure-file"].handle(plain.spec.azure_file, {}, {}) == "#mine#s#"


def test_only_what_the_node_has_given_over_is_translated() -> None:
    pv = of("kubernetes.io/aws-ebs", {ZONE: "a"})
    assert translated(pv, intree.NO_PLUGINS) is pv
    assert translated(pv, frozenset({"kubernetes.io/gce-pd"})) is pv
    csi = volume("v", spec={"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}, labels={ZONE: "a"})
    assert translated(csi, ALL) is csi
    local = volume("v", host="n1")
    assert translated(local, ALL) is local


@pytest.mark.parametrize("plugin", list(ZONE_KEYS))
@pytest.mark.parametrize("label", [ZONE, BETA_ZONE])
def test_the_zone_of_an_affinity_or_else_of_the_label(plugin: str, label: str) -> None:
    key = ZONE_KEYS[plugin]
    named = translated(of(plugin, {label: "other-1-z"}, **affinity({label: ["x"], "disk": ["ssd"]})), ALL)
    assert terms_of(named) == [{key: ["x"], "disk": ["ssd"]}]
    labelled = translated(of(plugin, {label: "eu-west1-b"}, **affinity({"disk": ["ssd"]}, {"disk": ["hdd"]})), ALL)
    assert terms_of(labelled) == [{"disk": ["ssd"], key: ["eu-west1-b"]}, {"disk": ["hdd"], key: ["eu-west1-b"]}]
    alone = translated(of(plugin, {label: "eu-west1-b"}), ALL)
    assert terms_of(alone) == [{key: ["eu-west1-b"]}]
    assert terms_of(translated(of(plugin), ALL)) == []


def test_several_zones_and_regions() -> None:
    many = translated(of("kubernetes.io/gce-pd", {BETA_ZONE: "us-central1-b__us-central1-a"}), ALL)
    assert many.spec.csi is not None
    assert many.spec.csi.volume_handle == "projects/UNSPECIFIED/regions/us-central1/disks/disk-1"
    assert terms_of(many) == [{"topology.gke.io/zone": ["us-central1-a", "us-central1-b"]}]
    beta = translated(of("kubernetes.io/aws-ebs", **affinity({BETA_ZONE: ["a"], BETA_REGION: ["r"]})), ALL)
    assert terms_of(beta) == [{EBS_KEY: ["a"], REGION: ["r"]}]
    stable = translated(of("kubernetes.io/aws-ebs", **affinity({ZONE: ["a"], REGION: ["r"], BETA_ZONE: ["b"]})), ALL)
    assert terms_of(stable) == [{EBS_KEY: ["a"], REGION: ["r"], BETA_ZONE: ["b"]}]
    blank = translated(of("kubernetes.io/aws-ebs", {ZONE: " __"}), ALL)
    assert terms_of(blank) == []


@pytest.mark.parametrize(
    ("plugin", "labels", "spec", "words"),
    [
        ("kubernetes.io/aws-ebs", {}, {"awsElasticBlockStore": {"volumeID": "aws://a/snap-1"}}, "Invalid format"),
        ("kubernetes.io/aws-ebs", {}, {"awsElasticBlockStore": {"volumeID": "aws://vol-1"}}, "Invalid format"),
        ("kubernetes.io/gce-pd", {ZONE: "a__b"}, {}, "zone in unexpected format"),
        ("kubernetes.io/gce-pd", {ZONE: "us-east1-a__us-west1-b"}, {}, "multiple or no regions"),
    ],
)
def test_what_cannot_be_translated(plugin: str, labels: dict[str, str], spec: dict[str, Any], words: str) -> None:
    with pytest.raises(Untranslatable, match=words):
        translated(of(plugin, labels, **spec), ALL)


@pytest.mark.parametrize(
    ("given", "handle"), [("vol-1", "vol-1"), ("aws:///vol-1", "vol-1"), ("aws://us-west-2a/vol-1", "vol-1")]
)
def test_the_ways_to_name_an_ebs_volume(given: str, handle: str) -> None:
    pv = of("kubernetes.io/aws-ebs", awsElasticBlockStore={"volumeID": given})
    seen = translated(pv, ALL).spec.csi
    assert seen is not None
    assert seen.volume_handle == handle


def test_what_a_csi_node_says() -> None:
    def node(**annotations: str) -> Any:
        return obj("CSINode", metadata={"name": "n", "annotations": annotations or None})

    assert intree.migrated_plugins(None) == intree.migrated_plugins(node()) == frozenset()
    both = node(**{intree.MIGRATED_PLUGINS: "kubernetes.io/aws-ebs,kubernetes.io/cinder"})
    assert intree.migrated_plugins(both) == {"kubernetes.io/aws-ebs", "kubernetes.io/cinder"}


def test_who_makes_a_volume() -> None:
    assert intree.provisioner_of(claim("c"), "kubernetes.io/aws-ebs") == "kubernetes.io/aws-ebs"
    asked = claim("c", annotations={intree.STORAGE_PROVISIONER: "ebs.csi.aws.com"})
    assert intree.provisioner_of(asked, "kubernetes.io/aws-ebs") == "ebs.csi.aws.com"
    old = claim("c", annotations={"volume.beta.kubernetes.io/storage-provisioner": "kubernetes.io/cinder"})
    assert intree.provisioner_of(old, "x") == "kubernetes.io/cinder"
    moved = claim("c", annotations={intree.STORAGE_PROVISIONER: "kubernetes.io/cinder", intree.MIGRATED_TO: "cinder.x"})
    assert intree.provisioner_of(moved, "kubernetes.io/cinder") == "cinder.x"


def test_a_pods_own_volume() -> None:
    def own(**source: Any) -> Any:
        return obj("Pod", spec={"volumes": [{"name": "v", **source}]}).spec.volumes[0]

    ebs = intree.inline_attachment(own(awsElasticBlockStore={"volumeID": "vol-1"}))
    assert ebs == ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "vol-1")
    assert intree.inline_attachment(own(emptyDir={})) is None
    assert intree.inline_attachment(own(vsphereVolume={"volumePath": "p"})) is None
    assert intree.inline_attachment(own(awsElasticBlockStore={"volumeID": "aws://a/b"})) is None
