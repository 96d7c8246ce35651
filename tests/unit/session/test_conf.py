"""Volcano's configuration: what is read, and the one line that says why something is not."""

from __future__ import annotations

import pytest

from tests import data
from vcledger.scheduler.session.conf import (
    DEFAULT_CONF,
    ConfInvalid,
    ConfUnreadable,
    NotSupported,
    UnknownAction,
    UnknownArgument,
    UnknownPlugin,
    UnknownSwitch,
    WrongValue,
    default_conf,
    read_conf,
)

RECORDINGS = [folder / "scheduler-conf.yaml" for folder in data.recordings()]

ONE = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
    enabledOverused: false
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 2
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1, overcommit-factor.cpu: 1.5}
configurations:
- name: allocate
  arguments: {predicateErrorCacheEnable: false}
"""


def test_actions_tiers_switches_and_arguments_are_read() -> None:
    conf = read_conf(ONE)
    assert conf.actions == ("enqueue", "allocate")
    assert [[plugin.name for plugin in tier] for tier in conf.tiers] == [["gang", "binpack"], ["overcommit"]]
    gang, binpack, overcommit = conf.plugins()
    assert gang.enabled == {"enablePreemptable": False, "enableOverused": False}
    assert not gang.is_on("enablePreemptable")
    assert gang.is_on("enableJobOrder")
    assert not gang.is_on("enableHierarchy")
    assert binpack.arguments["binpack.resources.nvidia.com/gpu"] == 2
    assert overcommit.arguments == {"overcommit-factor": 1, "overcommit-factor.cpu": 1.5}
    assert conf.configurations == {"allocate": {"predicateErrorCacheEnable": False}}
    assert conf.text == ONE


def test_a_whole_configmap_is_read() -> None:
    indented = "".join(f"    {line}\n" for line in ONE.splitlines())
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata:\n  volcano-scheduler.conf: |\n{indented}"
    assert read_conf(text) == read_conf(ONE)


def test_the_default_is_volcanos() -> None:
    conf = default_conf()
    assert conf.actions == ("enqueue", "allocate", "backfill")
    assert [plugin.name for plugin in conf.tiers[0]] == ["priority", "gang", "conformance"]
    assert conf.text == DEFAULT_CONF


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.parent.name)
def test_the_configuration_of_every_recording_is_read(path) -> None:  # type: ignore[no-untyped-def]
    conf = read_conf(path.read_text())
    assert conf.actions[:2] == ("enqueue", "allocate")
    assert {"gang", "drf", "predicates", "proportion"} <= {plugin.name for plugin in conf.plugins()}


def _with(old: str, new: str) -> str:
    assert old in ONE
    return ONE.replace(old, new, 1)


REFUSED = [
    (ConfUnreadable, "actions: [", "line 1: not YAML"),
    (ConfUnreadable, "", "must be a mapping"),
    (ConfUnreadable, "a: 1\na: 2\n", "line 2: a is given a second time"),
    (ConfUnreadable, 'actions: "allocate"\n', "tiers is missing"),
    (ConfUnreadable, "kind: ConfigMap\ndata: {x: y}\n", "no volcano-scheduler.conf under data"),
    (ConfUnreadable, ONE + "policies: []\n", "line 18: policies: unknown; known are actions, tiers, configurations"),
    (NotSupported, ONE + "metrics: {type: prometheus}\n", "metrics: only the usage plugin reads them"),
    (
        UnknownAction,
        _with("enqueue,", "enque,"),
        "line 1: actions: unknown action 'enque'; known are enqueue, allocate",
    ),
    (NotSupported, _with("enqueue,", "shuffle,"), "line 1: actions: shuffle is not supported"),
    (UnknownPlugin, _with("name: gang", "name: gangs"), "line 4: tier 1: plugin gangs is unknown; known are priority"),
    (NotSupported, _with("name: gang", "name: sla"), "line 4: tier 1: plugin sla is not supported"),
    (
        WrongValue,
        _with("- name: overcommit", "- name: gang\n  - name: overcommit"),
        "tier 2: plugin gang stands in tier 1 already",
    ),
    (UnknownSwitch, _with("enablePreemptable", "enablePreemptible"), "line 5: tier 1: plugin gang: unknown switch"),
    (WrongValue, _with("enablePreemptable: false", "enablePreemptable: 0"), "must be true or false, not 0"),
    (
        NotSupported,
        _with("enablePreemptable: false", "enableHierarchy: true"),
        "plugin gang: enableHierarchy: not supported for this plugin",
    ),
    (UnknownArgument, _with("binpack.weight", "binpack.wait"), "line 9: tier 1: plugin binpack: unknown argument"),
    (WrongValue, _with("binpack.weight: 10", "binpack.weight: ten"), "must be a whole number, not 'ten'"),
    (WrongValue, _with("overcommit-factor: 1,", "overcommit-factor: 0.5,"), "must be 1 or more, not 0.5"),
    (UnknownAction, _with("- name: allocate", "- name: alocate"), "configurations: action alocate is unknown"),
    (UnknownArgument, _with("predicateErrorCacheEnable", "cache"), "action allocate: unknown argument cache"),
]


@pytest.mark.parametrize(("kind", "text", "words"), REFUSED, ids=[words[:40] for _, _, words in REFUSED])
def test_what_is_not_understood_is_refused_with_one_line(kind: type[ConfInvalid], text: str, words: str) -> None:
    with pytest.raises(ConfInvalid) as caught:
        read_conf(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert kind is ConfUnreadable or isinstance(caught.value, kind)


def test_an_argument_that_volcano_has_and_we_do_not_is_named() -> None:
    text = DEFAULT_CONF.replace(
        "  - name: predicates\n", "  - name: predicates\n    arguments: {predicate.GPUSharingEnable: true}\n"
    )
    with pytest.raises(NotSupported, match=r"predicate\.GPUSharingEnable: true is not supported: GPUs are counted"):
        read_conf(text)
    assert read_conf(text.replace("true", "false")).plugins()[5].arguments == {"predicate.GPUSharingEnable": False}


def test_a_plugin_of_the_users_own_may_have_any_argument() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: mine\n    arguments: {a: [1, {b: c}]}\n"
    conf = read_conf(text, {"mine": object()})
    assert conf.plugins()[0].arguments == {"a": [1, {"b": "c"}]}
