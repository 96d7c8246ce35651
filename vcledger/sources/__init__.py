"""Where facts come from: an importer for each format of file that people have.

Owns formats, framing, redaction and the import. Must not know how state is folded from events. Called by `cli` and by
users' programs:

    with Ledger.open("vcledger.db", create=True) as ledger:
        report = import_paths(ledger, ["watch.jsonl", "audit.log"], cluster="prod")

What it takes to import is loaded on first use: most commands import nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vcledger.sources.options import ImportOptions, NoSuchInput, NothingToImport, refuse_missing
    from vcledger.sources.pipeline import import_paths
    from vcledger.sources.redact import StorageOptions
    from vcledger.sources.report import Broken, FileReport, Gap, ImportReport

__all__ = [
    "Broken",
    "FileReport",
    "Gap",
    "ImportOptions",
    "ImportReport",
    "NoSuchInput",
    "NothingToImport",
    "StorageOptions",
    "import_paths",
    "refuse_missing",
]

_HOME = {
    **dict.fromkeys(("ImportOptions", "NoSuchInput", "NothingToImport", "refuse_missing"), "options"),
    "import_paths": "pipeline",
    "StorageOptions": "redact",
    **dict.fromkeys(("Broken", "FileReport", "Gap", "ImportReport"), "report"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
