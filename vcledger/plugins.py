"""Plugins of the session: those that are built in, and the user's own, found by entry points.

Owns the finding. Must not know what a plugin does. Called by whoever runs sessions: `vcledger.replay`, the commands.

A package of one's own declares in its pyproject.toml

    [project.entry-points."vcledger.session_plugins"]
    evenly = "evenly:Evenly"

and a configuration may then name `evenly`. It is loaded when it is named, so that a broken package stands in nobody
else's way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from vcledger.errors import VcledgerError
from vcledger.scheduler.session.framework import PluginFactory
from vcledger.scheduler.session.plugins import BUILTIN

GROUP = "vcledger.session_plugins"


class PluginUnusable(VcledgerError):
    """A package declares a session plugin that can't be loaded, isn't callable, or has a name that is taken."""


class Plugins(Mapping[str, PluginFactory]):
    """Factories by name: those built in, then the user's in the order of their names."""

    def __init__(self, found: Mapping[str, list[EntryPoint]]) -> None:
        self._found = dict(sorted(found.items()))
        self._loaded: dict[str, PluginFactory] = dict(BUILTIN)

    def __getitem__(self, name: str) -> PluginFactory:
        loaded = self._loaded.get(name)
        if loaded is None:
            loaded = self._loaded[name] = _load(name, self._found[name])
        return loaded

    def __iter__(self) -> Iterator[str]:
        yield from BUILTIN
        yield from (name for name in self._found if name not in BUILTIN)

    def __len__(self) -> int:
        return len(list(iter(self)))


def all_plugins() -> Mapping[str, PluginFactory]:
    """Every plugin that a configuration may name. Raises PluginUnusable for a package's plugin under the name of one
    that is built in, and later, when a name is looked up, for one that can't be loaded."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        if point.name in BUILTIN:
            raise PluginUnusable(f"{_whose(point)}: session plugin {point.name}: the name of one that is built in")
        found.setdefault(point.name, []).append(point)
    return Plugins(found)


def _load(name: str, points: list[EntryPoint]) -> PluginFactory:
    values = sorted({point.value for point in points})
    if len(values) > 1:
        raise PluginUnusable(f"session plugin {name}: several packages have one: {', '.join(values)}")
    point = points[0]
    try:
        factory: PluginFactory = point.load()
    except Exception as error:  # whatever a package's import may raise
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise PluginUnusable(
            f"{_whose(point)}: session plugin {name}: {point.value} can't be loaded: {said}"
        ) from error
    if not callable(factory):
        raise PluginUnusable(f"{_whose(point)}: session plugin {name}: {point.value} is no class and no function")
    return factory


def _whose(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "a package"


__all__ = ["GROUP", "PluginUnusable", "Plugins", "all_plugins"]
