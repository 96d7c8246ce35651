"""Access to an API server: its address, its connections and who we are there.

Owns how these are found (a kubeconfig's context, or a pod's service account) and how a token is renewed. Must not know
requests. Called by `vcledger.runtime.wire`, and by the commands that speak to a cluster.

The `kubernetes` client does the reading: kubeconfigs with several files, client certificates, tokens, exec plugins,
OIDC, proxies. It takes half a second to import, so it is imported when an access is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3

from vcledger.errors import VcledgerError

CONNECTIONS = 32
"""Connections kept for the next request; more are opened when they are needed."""


class NoAccess(VcledgerError):
    """There is no configuration, or none that can be used."""


class Access:
    """The way to one API server. `load` fills a `kubernetes.client.Configuration`; it runs again when the server no
    longer takes what it gave (`renew`). `cluster`: what a kubeconfig calls the cluster, '' where none does. Threads may
    share it."""

    def __init__(self, load: Callable[[Any], None], cluster: str = "") -> None:
        self.cluster = cluster
        self._load = load
        self._lock = threading.Lock()
        self._configuration, self._pool = self._loaded()

    @property
    def host(self) -> str:
        """`https://10.0.0.1:6443`, without a slash at the end."""
        return str(self._configuration.host).rstrip("/")

    @property
    def pool(self) -> urllib3.PoolManager:
        """The connections."""
        return self._pool

    def headers(self) -> dict[str, str]:
        """The header that says who we are; the client renews tokens here whose end it knows."""
        with self._lock:
            settings = self._configuration.auth_settings().values()
        return {one["key"].title(): one["value"] for one in settings if one["in"] == "header" and one["value"]}

    def renew(self) -> None:
        """Reads the configuration again: the server has refused what we said we are. One that can't be read any more
        leaves all as it was."""
        try:
            fresh = self._loaded()
        except NoAccess:
            return
        with self._lock:
            self._configuration, self._pool = fresh

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        self._pool.clear()

    def _loaded(self) -> tuple[Any, urllib3.PoolManager]:
        from kubernetes.client import Configuration
        from kubernetes.client.rest import RESTClientObject
        from kubernetes.config import ConfigException

        configuration = Configuration()
        configuration.connection_pool_maxsize = CONNECTIONS
        try:
            self._load(configuration)
            pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
            raise NoAccess(f"no access to an API server: {error}") from error
        return configuration, pool


def from_kubeconfig(path: str | Path | None = None, context: str | None = None) -> Access:
    """By a kubeconfig: `path`, else KUBECONFIG, else ~/.kube/config; `context`: its current one."""

    def load(configuration: Any) -> None:
        from kubernetes import config

        read: Callable[..., None] = config.load_kube_config
        read(config_file=_named(path), context=context, client_configuration=configuration, persist_config=False)

    return Access(load, _cluster_of(path, context))


def _named(path: str | Path | None) -> str:
    """The kubeconfig's path, or several with colons between. The client itself reads KUBECONFIG when it is imported."""
    return str(path or os.environ.get("KUBECONFIG") or "~/.kube/config")


def _cluster_of(path: str | Path | None, context: str | None) -> str:
    """What the context calls its cluster."""
    import yaml
    from kubernetes import config

    contexts: Callable[..., Any] = config.list_kube_config_contexts
    named = _named(path)
    if not any(Path(part).expanduser().exists() for part in named.split(os.pathsep) if part):
        raise NoAccess(f"there is no kubeconfig at {named}")
    try:
        every, current = contexts(config_file=named)
    except (config.ConfigException, OSError) as error:
        raise NoAccess(f"no kubeconfig that can be used: {error}") from error
    except yaml.YAMLError as error:
        raise NoAccess(f"{named} is no kubeconfig: {error}") from error
    except (
        UnicodeDecodeError,
        TypeError,
        AttributeError,
        KeyError,
    ) as error:  # YAML, or not even text, of another kind
        raise NoAccess(f"{named} is no kubeconfig") from error
    found = next((one for one in every if one["name"] == context), None) if context else current
    if found is None:
        raise NoAccess(f"no context is named {context}; there are {', '.join(sorted(one['name'] for one in every))}")
    return str(found["context"].get("cluster", ""))


def from_service_account() -> Access:
    """By the service account of the pod that we run in; its token's file is read again each minute."""

    def load(configuration: Any) -> None:
        from kubernetes import config

        read: Callable[..., None] = config.load_incluster_config
        read(client_configuration=configuration)

    return Access(load)


def find_access(path: str | Path | None = None, context: str | None = None) -> Access:
    """As kubectl does: what is named, else a kubeconfig that is there, else the pod's service account."""
    named = path or context or os.environ.get("KUBECONFIG")
    if not named and os.environ.get("KUBERNETES_SERVICE_HOST") and not (Path.home() / ".kube" / "config").exists():
        return from_service_account()
    return from_kubeconfig(path, context)


__all__ = ["Access", "NoAccess", "find_access", "from_kubeconfig", "from_service_account"]
