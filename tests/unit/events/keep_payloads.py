"""Adds the events and schemas that payloads.json does not have yet, and never changes one that it has.

Run it by hand after adding an event or raising a schema: python -m tests.unit.events.keep_payloads
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from tests.unit.events import samples
from volcano.events import catalog

PAYLOADS = Path(__file__).with_name("payloads.json")


def main() -> None:
    kept = json.loads(PAYLOADS.read_text()) if PAYLOADS.exists() else {}
    for event in catalog.CATALOG.values():
        label = f"{event.name}/{event.schema}"
        if event.carries_object or label in kept:
            continue
        made = samples.full(event)
        kept[label] = {
            "payload": json.loads(catalog.encode(made).payload),
            "reads_as": msgspec.to_builtins(made),
        }
    PAYLOADS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
