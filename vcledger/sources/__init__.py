"""Where facts come from: an importer for each format of file that people have.

Owns formats, framing, redaction and the import. Must not know how state is folded from events. Called by `cli` and by
users' programs:

    with Ledger.open("vcledger.db", create=True) as ledger:
        report = import_paths(ledger, ["watch.jsonl", "audit.log"], cluster="prod")
"""

from vcledger.sources.pipeline import ImportOptions, NoSuchInput, NothingToImport, import_paths, refuse_missing
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
