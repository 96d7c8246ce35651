"""The scheduler's own command line, as far as it decides what its cache holds and at which nodes its sessions look.

Owns the reading of those flags. Must not know where the text came from. Called by `cli` and `vcledger.proof`.

Source: cmd/scheduler/app/options of Volcano: --scheduler-name and --node-selector may be repeated, --default-queue,
and --ignored-provisioners, a comma-separated list that Volcano adds to the two it always ignores. The last one counts
of --minimum-feasible-nodes, --minimum-percentage-nodes-to-find and --percentage-nodes-to-find.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from projections.cache import CacheConfig
from vcledger.errors import VcledgerError

if TYPE_CHECKING:
    from vcledger.scheduler.session.sampling import Sampling

DEFAULTS = CacheConfig()


class BadSchedulerArgs(VcledgerError):
    """The text is no command line, or a flag that counts here has no value, or a wrong one."""


_LISTS = {
    "scheduler-name": "scheduler_names",
    "node-selector": "node_selectors",
    "ignored-provisioners": "ignored_provisioners",
}

_SAMPLING = {
    "minimum-feasible-nodes": "minimum",
    "minimum-percentage-nodes-to-find": "minimum_percentage",
    "percentage-nodes-to-find": "percentage",
}


def config_of(text: str) -> CacheConfig:
    """The cache's configuration under a command line: `--flag=value` or `--flag value`, on one line or several. Flags
    that the cache does not depend on are passed over."""
    lists: dict[str, list[str]] = {name: [] for name in _LISTS.values()}
    queue = DEFAULTS.default_queue
    for flag, value in _flags(text, (*_LISTS, "default-queue")):
        if flag == "default-queue":
            queue = value
        else:
            lists[_LISTS[flag]] += [part for part in value.split(",") if part]
    return CacheConfig(
        scheduler_names=tuple(lists["scheduler_names"]) or DEFAULTS.scheduler_names,
        default_queue=queue,
        node_selectors=tuple(lists["node_selectors"]),
        ignored_provisioners=tuple(dict.fromkeys((*DEFAULTS.ignored_provisioners, *lists["ignored_provisioners"]))),
    )


def sampling_of(text: str) -> Sampling:
    """At how many nodes its sessions look, under the same command line."""
    from vcledger.scheduler.session.sampling import Sampling  # numpy, which most commands do without

    given: dict[str, int] = {}
    for flag, value in _flags(text, tuple(_SAMPLING)):
        try:
            given[_SAMPLING[flag]] = int(value)
        except ValueError as error:
            raise BadSchedulerArgs(f"--{flag} {value}: not a whole number") from error
    return Sampling(**given)


def _flags(text: str, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Those of some flags that a command line has, each with its value, in their order."""
    try:
        words = iter(shlex.split(text, comments=True))
    except ValueError as error:
        raise BadSchedulerArgs(f"not a command line: {error}") from error
    for word in words:
        flag, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or flag not in wanted:
            continue
        if not equals:
            value = next(words, "")
        if not value:
            raise BadSchedulerArgs(f"--{flag} has no value")
        yield flag, value


__all__ = ["DEFAULTS", "BadSchedulerArgs", "config_of", "sampling_of"]
