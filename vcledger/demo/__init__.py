"""The example recordings, and the walk through them that `vcledger demo` takes.

Owns the recordings' files (watch lines, audit log, one cache dump of the real Volcano each) and the list of commands.
Must not know how a command is carried out. Called by `cli.demo` and by tests.

The recordings were taken from a real control plane under the real Volcano scheduler, one cluster each.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "recordings"

CLUSTERS: tuple[tuple[str, str], ...] = (
    ("capacity", "02-unschedulable"),
    ("volumes", "03-volumes"),
    ("faults", "05-bind-faults"),
)
"""Cluster name in the demo's ledger, and the recording's folder."""

CAPACITY_DUMP = "volcano-cache-dump-1-many-pending.json"


class Step(NamedTuple):
    """A command line (without the program's name and --db) and what it shows."""

    says: str
    command: tuple[str, ...]


def steps() -> list[Step]:
    """The whole walk. The last three ask why three pods were pending whose causes differ."""
    capacity, moment = FOLDER / CLUSTERS[0][1], f"marker:{CAPACITY_DUMP}"
    here = ("--cluster", "capacity", "--at", moment)
    imports = [
        Step(
            f"Import cluster {cluster!r}: a watch, an audit log, a dump of Volcano's cache.",
            ("import", str(FOLDER / folder), "--cluster", cluster),
        )
        for cluster, folder in CLUSTERS
    ]
    return [
        *imports,
        Step("The nodes as Volcano's cache held them at a past moment.", ("get", "nodes", *here)),
        Step(
            "Is that really what Volcano held? Its own dump of that moment says so.",
            ("compare", str(capacity / f"{CAPACITY_DUMP}.zst"), *here),
        ),
        Step("Everything that waited then, each with its verdict.", ("get", "pending", *here)),
        Step(
            "A pod of a gang: Volcano only said that the pod group is not ready.",
            ("why", "default/gang-12x6-w-1", *here),
        ),
        Step(
            "A pod whose volume cannot be had.",
            ("why", "default/pv-wrong-node", "--cluster", "volumes", "--at", "marker:bound-and-pending"),
        ),
        Step(
            "A pod that the API server refused to bind.",
            ("why", "default/fforever-w-0", "--cluster", "faults", "--at", "marker:bind-always-fails"),
        ),
    ]
