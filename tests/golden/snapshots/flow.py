"""Freezes a snapshot of a flow: `python -m tests.golden.snapshots.flow`.

To be run once for each `vcledger.scheduler.snapshot.VERSION`; one of the version that is there is never made again.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import zstandard

from tests.stateful.test_flow_snapshots import CONFIG, FROZEN, folded, world_log
from vcledger.scheduler.snapshot import VERSION, FlowProjection
from vcledger.scheduler.state import Flow


def main() -> None:
    """The first moment of a world at which tasks, assumed volumes and requests are all under way."""
    if FROZEN.exists() and json.loads(FROZEN.read_text())["version"] == VERSION:
        sys.exit(f"{Path(FROZEN).name} of version {VERSION} is there already: raise VERSION before you make a new one")
    log, flow = world_log(7), Flow(CONFIG)
    for position in range(1, log.head() + 1):
        flow = folded(log, flow, position - 1, position)
        if flow.volumes.assumed and flow.claims.assumed and flow.intents and flow.waiting:
            break
    else:
        sys.exit("this world never has so much under way: take another seed")
    data = base64.b64encode(zstandard.compress(FlowProjection(CONFIG).dump(flow), 19)).decode()
    FROZEN.write_text(json.dumps({"version": VERSION, "digest": flow.digest(), "snapshot": data}, indent=1) + "\n")


if __name__ == "__main__":
    main()
