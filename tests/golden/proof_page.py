"""The tables of docs/proof.md, computed from the recordings.

Owns which ledgers and configurations they rest on. Called by `tests.golden.test_proof_recordings`, and by whoever has
changed what they say:

    python -m tests.golden.proof_page          writes the tables into the page
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.data import recordings
from vcledger.ledger import DEFAULT_MODEL, Ledger
from vcledger.proof import TABLES, Proof, proof, word_table
from vcledger.proof_forced import run_forced
from vcledger.proof_log import cycles
from vcledger.proof_pending import Waiting, waiting_pods, waiting_table
from vcledger.proof_trial import TrialSpeaker
from vcledger.proof_words import compare_words
from vcledger.replay.engine import ReplayPlan, run_replay
from vcledger.replay.report import Counts
from vcledger.scheduler.session.conf import read_conf
from vcledger.schedulerargs import config_of
from vcledger.sources import import_paths

PAGE = Path(__file__).parent.parent.parent / "docs" / "proof.md"
CLUSTER = "recorded"
NAMES = [folder.name.partition("-")[0] for folder in recordings()]
REPLAYED = ("02", "06")
_TABLE = re.compile(r"(?<=<!-- table: )(\w+)( -->\n\n)((?:\|.*\n)+)")


class Recording:
    """One recording as a ledger in a folder, and what is asked of it, worked out when first asked for."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.source = next(one for one in recordings() if one.name.startswith(f"{name}-"))
        self.conf = (self.source / "scheduler-conf.yaml").read_text(encoding="utf-8")
        self.config = config_of((self.source / "scheduler-args.txt").read_text(encoding="utf-8"))

    @cached_property
    def ledger(self) -> str:
        """The path of its ledger."""
        path = str(self.folder / f"{self.name}.db")
        with Ledger.open(path, create=True) as ledger:
            import_paths(ledger, [self.source / "watch.jsonl.zst", self.source / "audit.jsonl.zst"], cluster=CLUSTER)
        return path

    @cached_property
    def proof(self) -> Proof:
        """Its binds, and its sentences as whole sessions say them."""
        with Ledger.open(self.ledger, read_only=True) as ledger:
            return proof(ledger, config=self.config, conf=read_conf(self.conf))

    @cached_property
    def alone(self) -> Proof:
        """Its sentences as `why` says them, each group alone."""
        with Ledger.open(self.ledger, read_only=True) as ledger:
            parts = cycles(ledger, CLUSTER, self.config)
            return Proof(sentences=compare_words(ledger, CLUSTER, parts, DEFAULT_MODEL, self.config, TrialSpeaker))

    @cached_property
    def shadow(self) -> Counts:
        """What a session under its own configuration says at each recorded decision."""
        with Ledger.open(self.ledger, read_only=True) as ledger:
            return run_replay(ledger, ReplayPlan(mode="shadow", conf=self.conf, options=self.config)).counts

    @cached_property
    def freely(self) -> str:
        """The path of what a free replay under its own configuration gives."""
        out = str(self.folder / f"{self.name}-free.db")
        with Ledger.open(self.ledger, read_only=True) as record:
            run_replay(record, ReplayPlan(mode="free", conf=self.conf, options=self.config), out=out)
        return out

    @cached_property
    def forced(self) -> list[Waiting]:
        """Which pods wait in such a replay where it is held to the record's nodes."""
        out = str(self.folder / f"{self.name}-forced.db")
        plan = ReplayPlan(mode="free", conf=self.conf, options=self.config)
        with Ledger.open(self.ledger, read_only=True) as record:
            run_forced(record, plan, out)
            with Ledger.open(out, read_only=True) as replay:
                return waiting_pods(record, replay, cluster=CLUSTER)

    @cached_property
    def waiting(self) -> list[Waiting]:
        """Which pods wait in that replay."""
        with Ledger.open(self.ledger, read_only=True) as record, Ledger.open(self.freely, read_only=True) as replay:
            return waiting_pods(record, replay, cluster=CLUSTER)


def computed(found: Mapping[str, Recording]) -> dict[str, list[str]]:
    """Every table of the page by its name."""
    proofs = {name: found[name].proof for name in NAMES}
    tables = {name: make(proofs) for name, make in TABLES.items()}
    tables["shadow"] = shadow_table({name: found[name].shadow for name in NAMES})
    tables["alone"] = word_table({name: found[name].alone for name in NAMES})
    waiting = {name: found[name].waiting for name in REPLAYED}
    tables["waiting"] = waiting_table(waiting | {f"{name}, its nodes": found[name].forced for name in REPLAYED})
    return tables


def shadow_table(counts: Mapping[str, Counts]) -> list[str]:
    """How the sessions' answers at the recorded decisions compare with what was decided, as lines of Markdown."""
    columns = ("same_node", "other_node", "infeasible", "only_there", "only_here")
    rows = [[name, *(getattr(one, column) for column in columns)] for name, one in counts.items()]
    rows.append(["all", *(sum(row[at] for row in rows) for at in range(1, len(columns) + 1))])
    head = ["record", "same node", "another that fits", "its node refused", "no node here", "a node only here"]
    return [f"| {' | '.join(map(str, row))} |" for row in [head, ["---", *["---:"] * len(columns)], *rows]]


def on_the_page() -> dict[str, list[str]]:
    """The tables that the page has."""
    text = PAGE.read_text(encoding="utf-8")
    return {name: body.splitlines() for name, _, body in _TABLE.findall(text)}


def write() -> None:
    """Puts what is computed in place of what the page has."""
    with TemporaryDirectory(prefix="proof-") as folder:
        tables = computed({name: Recording(name, Path(folder)) for name in NAMES})
    text = PAGE.read_text(encoding="utf-8")
    text = _TABLE.sub(lambda one: f"{one.group(1)}{one.group(2)}" + "\n".join(tables[one.group(1)]) + "\n", text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()


__all__ = ["CLUSTER", "NAMES", "REPLAYED", "Recording", "computed", "on_the_page"]
