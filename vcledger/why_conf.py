"""What `why` takes from the scheduler's configuration, which is not in the log: which actions run, which plugins judge.

Owns that choice. Must not know verdicts. Called by `cli.why`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.diagnosis.views import Rules

if TYPE_CHECKING:
    from vcledger.scheduler.session.conf import SessionConf


def _gates_by_quota(conf: SessionConf) -> bool:
    found = next((plugin for plugin in conf.plugins() if plugin.name == "resourcequota"), None)
    return found is not None and found.is_on("enableJobEnqueued") and "enqueue" in conf.actions


def rules_of(text: str) -> Rules:
    """The rules of a volcano-scheduler.conf (or of the ConfigMap that has it), which may name plugins of one's own.
    Raises ConfInvalid of `vcledger.scheduler.session.conf` for what no session could run with, PluginUnusable."""
    from vcledger.plugins import all_plugins  # numpy, which most answers do without
    from vcledger.scheduler.session.conf import read_conf

    conf = read_conf(text, all_plugins())
    plugins = {plugin.name: plugin for plugin in conf.plugins()}
    overcommit = plugins.get("overcommit")
    admits = overcommit is not None and overcommit.is_on("enableJobEnqueued")
    factor = float(overcommit.arguments.get("overcommit-factor", 1.2)) if overcommit is not None and admits else None
    return Rules(
        actions=tuple(conf.actions),
        overcommit=factor if "enqueue" in conf.actions else None,
        quota=_gates_by_quota(conf),
        share=next((name for name in ("proportion", "capacity") if name in plugins), ""),
        keepers=tuple(name for name in Rules().keepers if name in plugins and plugins[name].is_on("enablePreemptable")),
        reclaim_keepers=tuple(
            name for name in Rules().reclaim_keepers if name in plugins and plugins[name].is_on("enableReclaimable")
        ),
    )
