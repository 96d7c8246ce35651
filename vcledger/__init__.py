"""A flight recorder and an event-sourced scheduler cache for Volcano: the library.

Owns the names that other projects import. Must not know the commands. Called by `cli` and by users' programs.

Open a ledger that `vcledger import` has filled, and ask it for any moment of the past:

    >>> from vcledger import Ledger, why
    >>> with Ledger.open("demo.db", read_only=True) as ledger:
    ...     cache = ledger.cache("marker:many-pending", cluster="capacity")
    ...     cache.nodes["cpu-1"].idle.milli_cpu
    ...     at = ledger.position("marker:many-pending", "capacity")
    ...     why(ledger, "default", "gang-12x6-w-1", position=at, cluster="capacity").verdict
    3000.0
    'gang-short'

`Ledger` is the facade: clusters, positions, the cache, decoded events, objects as they were. `why` answers about a pod,
`why_job` about a Volcano Job or PodGroup, `import_paths` reads files into a ledger. Every error is a `VcledgerError` or
an `EventStoreError` and says in one line what to do. More is in the modules: `vcledger.views` and `vcledger.listing`
(rows of nodes, jobs, tasks), `vcledger.diff`, `vcledger.compare`, `vcledger.drift`, `vcledger.gaps`.

Names are loaded when they are first used. `vcledger.why` is the module and the function at once: calling it asks.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventstore.types import EventStoreError
    from vcledger.errors import VcledgerError
    from vcledger.ledger import Ledger
    from vcledger.sources import ImportOptions, ImportReport, import_paths
    from vcledger.why import why, why_job

    __version__: str

_HOMES = {
    "EventStoreError": "eventstore.types",
    "ImportOptions": "vcledger.sources",
    "ImportReport": "vcledger.sources",
    "Ledger": "vcledger.ledger",
    "VcledgerError": "vcledger.errors",
    "import_paths": "vcledger.sources",
    "why_job": "vcledger.why",
}

__all__ = [
    "EventStoreError",
    "ImportOptions",
    "ImportReport",
    "Ledger",
    "VcledgerError",
    "__version__",
    "import_paths",
    "why",
    "why_job",
]


class _Asked(ModuleType):
    """The module `vcledger.why` as what `from vcledger import why` gives: calling it calls its function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.why(*args, **options)


class _Package(ModuleType):
    """This package. The import of `vcledger.why` puts the module under that name; it is made callable then."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "why" and isinstance(value, ModuleType):
            value.__class__ = _Asked
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """The re-exports, loaded when they are asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("vcledger")
    if name == "why":
        return import_module("vcledger.why")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
