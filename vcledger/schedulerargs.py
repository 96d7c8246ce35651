"""The scheduler's own command line, as far as it decides what its cache holds.

Owns the reading of those flags. Must not know where the text came from. Called by `cli`.

Source: cmd/scheduler/app/options of Volcano: --scheduler-name and --node-selector may be repeated, --default-queue,
and --ignored-provisioners, a comma-separated list that Volcano adds to the two it always ignores.
"""

from __future__ import annotations

import shlex

from projections.cache import CacheConfig
from vcledger.errors import VcledgerError

DEFAULTS = CacheConfig()


class BadSchedulerArgs(VcledgerError):
    """The text is no command line, or a flag that the cache depends on has no value."""


_LISTS = {
    "scheduler-name": "scheduler_names",
    "node-selector": "node_selectors",
    "ignored-provisioners": "ignored_provisioners",
}


def config_of(text: str) -> CacheConfig:
    """The cache's configuration under a command line: `--flag=value` or `--flag value`, on one line or several. Flags
    that the cache does not depend on are passed over."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise BadSchedulerArgs(f"not a command line: {error}") from error
    lists: dict[str, list[str]] = {name: [] for name in _LISTS.values()}
    queue = DEFAULTS.default_queue
    flags = iter(words)
    for word in flags:
        flag, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or flag not in (*_LISTS, "default-queue"):
            continue
        if not equals:
            value = next(flags, "")
        if not value:
            raise BadSchedulerArgs(f"--{flag} has no value")
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
