"""Volcano's configuration: actions, tiers of plugins with their switches and arguments, arguments of actions.

Owns its shape and its reading. Must not know what a plugin does: each says itself which arguments it knows (`Argument`,
in its ARGUMENTS). Called by `vcledger.scheduler.session.run`, `vcledger.replay`.

Nothing is passed over in silence: what is unknown, of the wrong type, or known to Volcano but not acted on here, is
refused with one line that says where it stands. Volcano itself ignores an unknown argument, and one of a wrong type.

Source: Volcano's pkg/scheduler/conf (SchedulerConfiguration, Tier, PluginOption, Configuration), scheduler/util.go
(UnmarshalSchedulerConf, DefaultSchedulerConf) and framework/arguments.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from vcledger.errors import VcledgerError
from vcledger.scheduler.session.sampling import DEFAULT_SAMPLING, Sampling

SWITCHES: dict[str, str] = {
    "enableJobOrder": "enableJobOrder",
    "enableJobReady": "enableJobReady",
    "enableJobPipelined": "enableJobPipelined",
    "enableTaskOrder": "enableTaskOrder",
    "enablePreemptable": "enablePreemptable",
    "enableReclaimable": "enableReclaimable",
    "enablePreemptive": "enablePreemptive",
    "enableQueueOrder": "enableQueueOrder",
    "enablePredicate": "enablePredicate",
    "enableNodeOrder": "enableNodeOrder",
    "enableJobEnqueued": "enableJobEnqueued",
    "enableJobStarving": "enableJobStarving",
    "enabledOverused": "enableOverused",
    "enableOverused": "enableOverused",
    "enabledAllocatable": "enableAllocatable",
    "enableAllocatable": "enableAllocatable",
    "enableHierarchy": "enableHierarchy",
}
"""A switch as the file has it (Volcano spells two of them with enabled) to its name in `PluginConf.enabled`."""

SWITCHES_WITHOUT_EFFECT = (
    "enableBestNode", "enableTargetJob", "enableReservedNodes", "enabledVictim", "enabledClusterOrder",
    "enabledHyperNodeOrder", "enabledHyperNodeGradient", "enabledSubJobOrder", "enabledSubJobReady",
    "enabledSubJobPipelined",
)  # fmt: skip
"""Switches of extension points at which no plugin here has anything to say, so that either value is right."""

ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim")
ACTIONS_OF_VOLCANO = ("shuffle", "elect", "reserve", "gangpreempt", "gangreclaim", "dequeue")
PLUGINS_OF_VOLCANO = (
    "cdp", "deviceshare", "extender", "networktopologyaware", "network-topology-aware", "nodegroup", "numaaware",
    "numa-aware", "pdb", "rescheduling", "resource-strategy-fit", "sla", "task-topology", "tdm",
    "usage",
)  # fmt: skip
"""Names that Volcano knows and this session does not."""

DEFAULT_CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""What Volcano runs with when it is given no configuration."""

PLAIN_CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
"""Gangs on nodes that will do, and nothing that depends on what others hold: no queue has a share, and no gate holds a
job back. Scenarios and the test kit run with it unless they have a configuration of their own."""

CONF_KEY = "volcano-scheduler.conf"


class ConfInvalid(VcledgerError):
    """A scheduler configuration that this session can't run; the text says where and why."""


class ConfUnreadable(ConfInvalid):
    """No YAML, or not of the shape of a configuration."""


class UnknownAction(ConfInvalid):
    """An action that Volcano doesn't have."""


class UnknownPlugin(ConfInvalid):
    """A plugin that neither this session nor the user has."""


class UnknownSwitch(ConfInvalid):
    """A key of a plugin that is no switch."""


class UnknownArgument(ConfInvalid):
    """An argument that its plugin or action doesn't have."""


class WrongValue(ConfInvalid):
    """A value of the wrong type, or one that makes no sense there."""


class NotSupported(ConfInvalid):
    """Volcano knows it, and this session does not."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a plugin or action. `name` ending in `*` stands for all that begin so. `kind` is int, float, bool
    or str; an int will do for a float. `least` is the smallest number that makes sense. With `only`, other values are
    not supported, for the reason in `why`."""

    name: str
    kind: type
    least: float | None = None
    only: tuple[object, ...] | None = None
    why: str = ""

    def covers(self, name: str) -> bool:
        """Whether an argument of that name is this one."""
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name


_CACHE = Argument("predicateErrorCacheEnable", bool)
_TOPOLOGY = "preemption here goes node by node, in the order of the scores"
ACTION_ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "allocate": (_CACHE,),
    "backfill": (_CACHE,),
    "preempt": (_CACHE, Argument("enableTopologyAwarePreemption", bool, only=(False,), why=_TOPOLOGY)),
    "reclaim": (_CACHE,),
}
"""What may stand under `configurations`. The error cache only saves Volcano work, so that either value is right."""


@dataclass(frozen=True, slots=True)
class PluginConf:
    """One plugin of a tier. `enabled` has only the switches that the file states; one that it does not state is on."""

    name: str
    enabled: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def is_on(self, switch: str) -> bool:
        """Whether the plugin takes part where `switch` (such as enableJobOrder) says."""
        return self.enabled.get(switch, switch != "enableHierarchy")


@dataclass(frozen=True, slots=True)
class SessionConf:
    """The file. `configurations` are the arguments of actions, by their name. `text` is the file as it was read.
    `sampling` is not in it, but on the scheduler's command line."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConf, ...], ...]
    configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    text: str = ""
    sampling: Sampling = DEFAULT_SAMPLING

    def plugins(self) -> list[PluginConf]:
        """All plugins in the order of their tiers."""
        return [plugin for tier in self.tiers for plugin in tier]


def default_conf() -> SessionConf:
    """What Volcano runs with when it is given no configuration."""
    return read_conf(DEFAULT_CONF)


@lru_cache(maxsize=1)
def plain_conf() -> SessionConf:
    """That of PLAIN_CONF."""
    return read_conf(PLAIN_CONF)


def read_conf(
    text: str,
    known_plugins: Mapping[str, Any] | None = None,
    known_actions: Collection[str] = ACTIONS,
) -> SessionConf:
    """A configuration from its YAML: the value of volcano-scheduler.conf, or a ConfigMap that has it under data.
    `known_plugins` are factories by name, `BUILTIN` unless given; one that has ARGUMENTS is held to them. Raises a kind
    of ConfInvalid."""
    if known_plugins is None:
        from vcledger.scheduler.session.plugins import BUILTIN

        known_plugins = BUILTIN
    return _Reader(known_plugins, known_actions).read(text)


# --- reading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Value:
    """A YAML value with the line on which it begins (from 1). Values of a mapping and of a list are values again."""

    value: Any
    line: int


def _parse(text: str) -> _Value:
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        return _Value(None, 1) if node is None else _value(loader, node, 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise ConfUnreadable(f"scheduler configuration: {where}not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfUnreadable(f"scheduler configuration: not YAML: {str(error).splitlines()[0]}") from error


def _value(loader: yaml.SafeLoader, node: yaml.Node, depth: int) -> _Value:
    line = node.start_mark.line + 1
    if depth > 20:
        raise ConfUnreadable(f"scheduler configuration: line {line}: nested too deeply")
    if isinstance(node, yaml.MappingNode):
        made: dict[str, _Value] = {}
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node, deep=True))
            if key in made:
                here = key_node.start_mark.line + 1
                raise ConfUnreadable(f"scheduler configuration: line {here}: {key} is given a second time")
            made[key] = _value(loader, value_node, depth + 1)
        return _Value(made, line)
    if isinstance(node, yaml.SequenceNode):
        return _Value([_value(loader, item, depth + 1) for item in node.value], line)
    return _Value(loader.construct_object(node), line)


_KINDS = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return _KINDS[type(value)]
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return repr(value)


class _Reader:
    def __init__(self, plugins: Mapping[str, Any], actions: Collection[str]) -> None:
        self.known_plugins, self.known_actions = plugins, actions

    def read(self, text: str) -> SessionConf:
        whole = self.need(_parse(text), dict, "the file")
        data = whole.get("data")
        if data is not None or "kind" in whole:
            held = self.need(data, dict, "data of the ConfigMap") if data is not None else {}
            inner = held.get(CONF_KEY)
            if inner is None:
                raise ConfUnreadable(f"scheduler configuration: no {CONF_KEY} under data of the ConfigMap")
            text = self.need(inner, str, CONF_KEY)
            whole = self.need(_parse(text), dict, CONF_KEY)
        for key, value in whole.items():
            if key == "metrics":
                raise NotSupported(f"{_at(value)}metrics: only the usage plugin reads them, and it is not supported")
            if key not in {"actions", "tiers", "configurations"}:
                raise ConfUnreadable(f"{_at(value)}{key}: unknown; known are actions, tiers, configurations")
        actions = self.actions(whole.get("actions"))
        tiers = self.tiers(whole.get("tiers"))
        return SessionConf(actions, tiers, self.configurations(whole.get("configurations")), text)

    def need(self, value: _Value | None, kind: type, where: str) -> Any:
        """The value if it is of the kind; WrongValue or, of the file's own shape, ConfUnreadable otherwise."""
        if value is None:
            raise ConfUnreadable(f"scheduler configuration: {where} is missing")
        if not _is(value.value, kind):
            raise WrongValue(f"{_at(value)}{where}: must be {_KINDS[kind]}, not {_shown(value.value)}")
        return value.value

    def actions(self, value: _Value | None) -> tuple[str, ...]:
        text: str = self.need(value, str, "actions")
        names = tuple(name.strip() for name in text.split(","))
        for name in names:
            if name in self.known_actions:
                continue
            known = ", ".join(self.known_actions)
            if name in ACTIONS_OF_VOLCANO:
                raise NotSupported(f"{_at(value)}actions: {name} is not supported; known are {known}")
            raise UnknownAction(f"{_at(value)}actions: unknown action {name!r}; known are {known}")
        return names

    def tiers(self, value: _Value | None) -> tuple[tuple[PluginConf, ...], ...]:
        made: list[tuple[PluginConf, ...]] = []
        seen: dict[str, int] = {}
        for number, tier in enumerate(self.need(value, list, "tiers"), 1):
            where = f"tier {number}"
            keys: dict[str, _Value] = self.need(tier, dict, where)
            for key, other in keys.items():
                if key != "plugins":
                    raise ConfUnreadable(f"{_at(other)}{where}: unknown key {key}; a tier has plugins")
            plugins = []
            for one in self.need(keys.get("plugins"), list, f"plugins of {where}"):
                plugin = self.plugin(one, where)
                if plugin.name in seen:
                    raise WrongValue(
                        f"{_at(one)}{where}: plugin {plugin.name} stands in tier {seen[plugin.name]} already"
                    )
                seen[plugin.name] = number
                plugins.append(plugin)
            made.append(tuple(plugins))
        return tuple(made)

    def plugin(self, value: _Value, tier: str) -> PluginConf:
        keys: dict[str, _Value] = self.need(value, dict, f"{tier}: a plugin")
        name: str = self.need(keys.get("name"), str, f"name of a plugin of {tier}")
        where = f"{tier}: plugin {name}"
        factory = self.known_plugins.get(name)
        if factory is None:
            known = ", ".join(self.known_plugins)
            if name in PLUGINS_OF_VOLCANO:
                raise NotSupported(f"{_at(value)}{where} is not supported; known are {known}")
            raise UnknownPlugin(f"{_at(value)}{where} is unknown; known are {known}")
        enabled: dict[str, bool] = {}
        for key, other in keys.items():
            if key in {"name", "arguments"}:
                continue
            if key not in SWITCHES and key not in SWITCHES_WITHOUT_EFFECT:
                raise UnknownSwitch(f"{_at(other)}{where}: unknown switch {key}; known are {', '.join(SWITCHES)}")
            on: bool = self.need(other, bool, f"{where}: {key}")
            if key == "enableHierarchy" and on and not getattr(factory, "HIERARCHY", False):
                raise NotSupported(f"{_at(other)}{where}: enableHierarchy: not supported for this plugin")
            if key in SWITCHES:
                enabled[SWITCHES[key]] = on
        arguments = keys.get("arguments")
        known_arguments = getattr(factory, "ARGUMENTS", None)
        return PluginConf(name, enabled, self.arguments(arguments, known_arguments, where))

    def arguments(self, value: _Value | None, known: Collection[Argument] | None, where: str) -> dict[str, Any]:
        """`known` None: any will do, as of a user's plugin that says nothing about them."""
        made: dict[str, Any] = {}
        if value is None or value.value is None:
            return made
        for name, other in self.need(value, dict, f"{where}: arguments").items():
            if known is None:
                made[name] = _plain(other)
                continue
            argument = next((one for one in known if one.covers(name)), None)
            if argument is None:
                names = ", ".join(one.name for one in known) or "none"
                raise UnknownArgument(f"{_at(other)}{where}: unknown argument {name}; known are {names}")
            made[name] = self.argument(argument, name, other, where)
        return made

    def argument(self, argument: Argument, name: str, value: _Value, where: str) -> Any:
        found = self.need(value, argument.kind, f"{where}: {name}")
        if argument.only is not None and found not in argument.only:
            raise NotSupported(f"{_at(value)}{where}: {name}: {_shown(found)} is not supported: {argument.why}")
        if argument.least is not None and found < argument.least:
            raise WrongValue(f"{_at(value)}{where}: {name}: must be {argument.least:g} or more, not {found}")
        return found

    def configurations(self, value: _Value | None) -> dict[str, dict[str, Any]]:
        made: dict[str, dict[str, Any]] = {}
        if value is None or value.value is None:
            return made
        for one in self.need(value, list, "configurations"):
            keys: dict[str, _Value] = self.need(one, dict, "an entry of configurations")
            name: str = self.need(keys.get("name"), str, "name of an entry of configurations")
            where = f"configurations: action {name}"
            if name not in self.known_actions:
                raise UnknownAction(f"{_at(one)}{where} is unknown; known are {', '.join(self.known_actions)}")
            for key, other in keys.items():
                if key not in {"name", "arguments"}:
                    raise ConfUnreadable(f"{_at(other)}{where}: unknown key {key}; known are name, arguments")
            known = ACTION_ARGUMENTS.get(name, ())
            made[name] = self.arguments(keys.get("arguments"), known, where)
        return made


def _at(value: _Value | None) -> str:
    return f"scheduler configuration, line {value.line}: " if value is not None else "scheduler configuration: "


def _plain(value: _Value) -> Any:
    if isinstance(value.value, dict):
        return {name: _plain(one) for name, one in value.value.items()}
    if isinstance(value.value, list):
        return [_plain(one) for one in value.value]
    return value.value


__all__ = [
    "ACTIONS",
    "DEFAULT_CONF",
    "PLAIN_CONF",
    "SWITCHES",
    "Argument",
    "ConfInvalid",
    "ConfUnreadable",
    "NotSupported",
    "PluginConf",
    "SessionConf",
    "UnknownAction",
    "UnknownArgument",
    "UnknownPlugin",
    "UnknownSwitch",
    "WrongValue",
    "default_conf",
    "plain_conf",
    "read_conf",
]
