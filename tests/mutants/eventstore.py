"""Mutants of the log.

Owns this part of the table. Must not know the runner. Called by `tests.mutants.table`.
"""

from __future__ import annotations

from tests.mutants.model import Mutant

LOG = (
    "tests/unit/eventstore",
    "tests/contract/test_eventstore.py::TestSQLite",
    "tests/contract/test_eventstore_golden.py",
    "tests/stateful/test_log_machine.py",
    "tests/contract/test_eventstore_sqlite.py",
    "tests/unit/vcledger/test_retention_and_verify.py",
    "tests/unit/vcledger/test_ledger.py",
)


def _first(*names: str) -> tuple[str, ...]:
    return (*(f"{LOG[1]}::test_{name}" for name in names), *LOG)


RUNS = ("tests/unit/eventstore/test_runs.py", *LOG)
CHAIN = ("tests/unit/eventstore/test_chain.py", "tests/contract/test_eventstore_golden.py",
         "tests/contract/test_eventstore_sqlite.py::TestTampering", *LOG)  # fmt: skip
SQLITE = ("tests/contract/test_eventstore_sqlite.py", *LOG)
UPCAST = ("tests/unit/eventstore/test_upcast.py", "tests/unit/events", *LOG)
VERIFY = ("tests/contract/test_eventstore_sqlite.py::TestTampering", *SQLITE)

_ACCEPT = "eventstore/accept.py"
_APPEND = "eventstore/append.py"
_CHAIN = "eventstore/chain.py"
_CODEC = "eventstore/codec.py"
_FOLLOW = "eventstore/follow.py"
_POSITIONS = "eventstore/positions.py"
_READ = "eventstore/read.py"
_RETENTION = "eventstore/retention.py"
_SNAPSHOTS = "eventstore/snapshots.py"
_SQLITE = "eventstore/sqlite.py"
_UPCAST = "eventstore/upcast.py"
_VERIFY = "eventstore/verify.py"
_WORDS = "eventstore/words.py"

MUTANTS: tuple[Mutant, ...] = (
    # --- the chain ---
    Mutant(
        "chain-not-chained",
        _CHAIN,
        "        previous,\n",
        "        GENESIS,\n",
        "A batch's hash does not cover the one before.",
        CHAIN[1:],
    ),
    Mutant(
        "payloads-not-hashed",
        _CHAIN,
        "    parts.extend(payloads)",
        "    parts.extend(())",
        "A payload may be changed, and the chain still holds.",
        CHAIN,
    ),
    Mutant(
        "words-not-hashed",
        _CHAIN,
        "    parts.extend(digests)",
        "    parts.extend(())",
        "A stream may be given another name, and the chain still holds.",
        CHAIN,
    ),
    Mutant(
        "words-run-together",
        _CHAIN,
        'return text_digest("\\0".join((*map(str, words), "")).encode("utf-8"))',
        'return text_digest("".join((*map(str, words), "")).encode("utf-8"))',
        "ab/c and a/bc have one digest.",
        CHAIN,
    ),
    Mutant(
        "missing-numbers-alike",
        _CHAIN,
        "return SOME + bytes(value is not None for value in column) + _packed(",
        "return SOME + _packed(",
        "It does not matter to the hash which event of a batch has a number.",
        CHAIN,
    ),
    Mutant(
        "hash-not-verified",
        _VERIFY,
        "        if found != bytes(batch.hash):",
        "        if False:",
        "verify walks the chain and looks at nothing.",
        VERIFY,
    ),
    Mutant(
        "versions-not-verified",
        _VERIFY,
        "            if version != life.version + 1:",
        "            if version <= life.version:",
        "verify does not find a hole in a stream's versions.",
        VERIFY,
    ),
    Mutant(
        "marks-not-verified",
        _VERIFY,
        "if first is not None and found != self._marks:",
        "if False:",
        "verify does not find that a time mark was moved.",
        VERIFY,
    ),
    Mutant(
        "kept-rows-not-verified",
        _VERIFY,
        "if found != bytes(last.hash) or self._kept != last.kept:",
        "if self._kept != last.kept:",
        "What retention kept may be changed, and verify does not find it.",
        ("tests/contract/test_eventstore_sqlite.py::TestPrunedTampering", *SQLITE),
    ),
    # --- appending ---
    Mutant(
        "dedup-key-lost",
        _ACCEPT,
        "            self._there = self._find(list(doubtful))",
        "            self._there = {}",
        "An observation that the log has is stored again.",
        LOG,
    ),
    Mutant(
        "dedup-within-the-batch-lost",
        _ACCEPT,
        "return self._there.get(key) or self._own.get(key)",
        "return self._there.get(key)",
        "An observation that stands twice in a batch is stored twice.",
        LOG,
    ),
    Mutant(
        "dedup-without-gone",
        _ACCEPT,
        "there = self._seen((head.id, revision, gone))",
        "there = self._seen((head.id, revision, False))",
        "A deletion is taken for the observation of the same version.",
        LOG,
    ),
    Mutant(
        "dedup-off-by-one",
        _ACCEPT,
        "            if revision <= head.highest:\n                there",
        "            if revision < head.highest:\n                there",
        "The newest observation of an object is stored again.",
        LOG,
    ),
    Mutant(
        "expected-version-ignored",
        _APPEND,
        "        check_expected(words.heads, expected)",
        "        pass",
        "An append that expects another version goes through.",
        LOG,
    ),
    Mutant(
        "expected-version-at-least",
        _APPEND,
        "        if actual != version:",
        "        if actual < version:",
        "An append that has not seen the newest version goes through.",
        LOG,
    ),
    Mutant(
        "token-ignored",
        _APPEND,
        "            if earlier is not None:",
        "            if False:",
        "A batch that is sent again with its token is stored again.",
        LOG,
    ),
    Mutant(
        "token-not-remembered",
        _APPEND,
        "            remember_result(connection, token, self._batch_id if accepted else None, result)",
        "            pass",
        "A token is never known again.",
        LOG,
    ),
    Mutant(
        "late-not-marked",
        _ACCEPT,
        "            flags = known | schema.LATE",
        "            flags = known",
        "What comes late is stored as if it came in time.",
        LOG,
    ),
    Mutant(
        "late-off-by-one",
        _ACCEPT,
        "observed_at < cluster.high_water):",
        "observed_at <= cluster.high_water):",
        "Of two events observed at one moment the second is late.",
        LOG,
    ),
    Mutant(
        "high-water-not-moved",
        _ACCEPT,
        "            cluster.high_water = observed_at",
        "            pass",
        "Nothing is ever late.",
        LOG,
    ),
    Mutant(
        "late-moves-the-head",
        _ACCEPT,
        "        if flags < schema.LATE and (gone if revision is None else revision < KEYED):",
        "        if (gone if revision is None else revision < KEYED):",
        "A late observation becomes its stream's head.",
        LOG,
    ),
    Mutant(
        "keyed-event-moves-the-head",
        _ACCEPT,
        "        if flags < schema.LATE and (gone if revision is None else revision < KEYED):",
        "        if flags < schema.LATE and (gone or revision is not None):",
        "An event that only has a key says that the object is there.",
        LOG,
    ),
    Mutant(
        "versions-with-holes",
        _ACCEPT,
        "        head.version += 1",
        "        head.version += 2",
        "A stream's versions are 2, 4, 6.",
        LOG,
    ),
    Mutant(
        "run-takes-what-is-there",
        _ACCEPT,
        "            if revision <= head.highest:\n                break",
        "            if False:\n                break",
        "A run of events stores observations that the log has.",
        RUNS,
    ),
    Mutant(
        "run-is-never-late",
        _ACCEPT,
        "if cluster.high_water is None or run.observed[0] >= cluster.high_water:",
        "if True:",
        "A run of events from before the high-water mark is stored as if it came in time.",
        RUNS,
    ),
    Mutant(
        "run-moves-no-mark",
        _ACCEPT,
        "cluster.high_water, cluster.position = run.observed[count - 1], position - 1",
        "cluster.high_water, cluster.position = run.observed[0], position - 1",
        "The time mark after a run of events is that of its first.",
        RUNS,
    ),
    Mutant(
        "caused-by-itself",
        _ACCEPT,
        "        if -cause >= len(positions):",
        "        if -cause > len(positions):",
        "An event may be its own cause.",
        LOG,
    ),
    Mutant(
        "other-writers-unnoticed",
        _APPEND,
        "        if batch_id == self._batch_id:",
        "        if self._batch_id >= 0:",
        "A writer gives out positions that another has given out.",
        LOG,
    ),
    Mutant(
        "failed-append-remembered",
        _APPEND,
        "            except BaseException:\n                self._batch_id = -1",
        "            except BaseException:\n                pass",
        "After a failed append the writer goes on from what was never stored.",
        SQLITE,
    ),
    Mutant(
        "batches-overlap",
        _APPEND,
        "        self._position = last\n",
        "        self._position = last - 1\n",
        "The next batch begins at the last position of this one.",
        LOG,
    ),
    Mutant(
        "marks-said-again",
        _WORDS,
        "            one.position = None",
        "            pass",
        "A batch leaves a time mark for a cluster that it has no event of.",
        SQLITE,
    ),
    Mutant(
        "short-form-of-its-own-byte",
        _CODEC,
        "    if UID in payload or NAME in payload or VERSION in payload:",
        "    if UID in payload or NAME in payload:",
        "A payload with a byte of the short form comes back changed.",
        ("tests/unit/eventstore/test_codec.py", *LOG),
    ),
    Mutant(
        "short-form-undone-in-order",
        _CODEC,
        "return payload.replace(NAME, known[1], 1).replace(UID, known[0], 1)",
        "return payload.replace(UID, known[0], 1).replace(NAME, known[1], 1)",
        "A uid that holds a byte of the short form comes back changed.",
        ("tests/unit/eventstore/test_codec.py", *LOG),
    ),
    # --- reading ---
    Mutant(
        "after-included",
        _READ,
        "statement = statement.where(e.position > after, e.position <= to)",
        "statement = statement.where(e.position >= after, e.position <= to)",
        "A read gives the event after which it should begin.",
        _first("following_gives_what_is_there_and_what_comes", "the_fast_path_says_the_same"),
    ),
    Mutant(
        "raw-gives-late",
        _READ,
        "                if flags >= schema.LATE and not late:",
        "                if False:",
        "The folds' fast path gives late events.",
        _first("the_fast_path_says_the_same"),
    ),
    Mutant(
        "raw-gives-all-clusters",
        _READ,
        "                if cluster is not None and stream.cluster != cluster:",
        "                if False:",
        "The fold of one cluster gets the events of all.",
        _first("the_fast_path_says_the_same"),
    ),
    Mutant(
        "position-at-before",
        _POSITIONS,
        "        elif row.high_water <= observed_at:",
        "        elif row.high_water < observed_at:",
        "A moment is looked for one batch too early.",
        LOG,
    ),
    Mutant(
        "position-at-late",
        _POSITIONS,
        "            e.flags < schema.LATE,\n            s.cluster_id == cluster_id,",
        "            e.flags < schema.LATE + schema.LATE,\n            s.cluster_id == cluster_id,",
        "A late event is taken for the last one before a moment.",
        _first("position_at_is_the_last_one_in_time"),
    ),
    Mutant(
        "follower-misses-one",
        _FOLLOW,
        "            after = head",
        "            after = head + 1",
        "A follower misses an event each time that it has caught up.",
        _first("following_gives_what_is_there_and_what_comes"),
    ),
    Mutant(
        "follower-sees-twice",
        _FOLLOW,
        "            after = head",
        "            after = head - 1",
        "A follower is given the last event again and again.",
        _first("following_gives_what_is_there_and_what_comes"),
    ),
    # --- snapshots and retention ---
    Mutant(
        "snapshot-of-another-version",
        _SNAPSHOTS,
        "return t.projection == projection, t.version == version, t.cluster == cluster",
        "return t.projection == projection, t.version <= version, t.cluster == cluster",
        "A snapshot of an older version of the projection is loaded.",
        _first("another_version_projection_or_cluster_has_none"),
    ),
    Mutant(
        "snapshot-after-the-moment",
        _SNAPSHOTS,
        "t.position <= at)",
        "t.position <= at + 1)",
        "A snapshot from after the moment is loaded.",
        _first("a_chain_is_loaded_from_its_whole_one_on"),
    ),
    Mutant(
        "snapshots-newest-first",
        _SNAPSHOTS,
        "            return links[::-1]",
        "            return links",
        "A chain of snapshots is applied in the wrong order.",
        _first("a_chain_is_loaded_from_its_whole_one_on"),
    ),
    Mutant(
        "changed-snapshot-accepted",
        _SNAPSHOTS,
        "    if snapshot_hash(snapshot) != bytes(row.hash):",
        "    if False:",
        "A snapshot that somebody changed is loaded.",
        VERIFY,
    ),
    Mutant(
        "pruned-at-the-position",
        _RETENTION,
        "min(wanted - 1, head_position(connection))",
        "min(wanted, head_position(connection))",
        "The event at the position up to which may be pruned goes too.",
        _first("what_goes_and_what_stays"),
    ),
    Mutant(
        "pruned-below-an-uncovered-cut",
        _RETENTION,
        "        cut = min(cut, covered(connection, name, wanted, projections))",
        "        cut = max(cut, covered(connection, name, wanted, projections))",
        "Events go that no snapshot of their cluster covers.",
        _first("all_clusters_must_be_covered"),
    ),
    Mutant(
        "pruned-when-one-covers",
        _RETENTION,
        "return max(ends.values()) if projections is None else min(ends.values())",
        "return max(ends.values())",
        "Events go that one of the projections asked for has no snapshot of.",
        _first("what_goes_and_what_stays", "all_clusters_must_be_covered"),
    ),
    Mutant(
        "pruned-unverified",
        _RETENTION,
        "        vouch(backend, connection, cut)",
        "        pass",
        "A ledger that was changed is pruned, and then nobody can tell any more.",
        SQLITE,
    ),
    Mutant(
        "covering-snapshot-dropped",
        _RETENTION,
        "        if position >= cut or (*key, position) in needed:",
        "        if position > cut or (*key, position) in needed:",
        "The snapshot at the cut goes, with which the rest could be folded.",
        _first("what_goes_and_what_stays"),
    ),
    # --- upcasters ---
    Mutant(
        "upcaster-skipped",
        _UPCAST,
        "        while (upcast := self._table.get((type_, schema))) is not None:",
        "        if (upcast := self._table.get((type_, schema))) is not None:",
        "An old payload passes through one upcaster only.",
        UPCAST,
    ),
    Mutant(
        "old-schema-handed-on",
        _UPCAST,
        "        if schema < self._current.get(type_, schema):",
        "        if False:",
        "A payload that no upcaster brings to today's schema is handed on.",
        UPCAST,
    ),
    # --- the database ---
    Mutant(
        "not-durable",
        _SQLITE,
        'connection.execute("PRAGMA synchronous=FULL")',
        'connection.execute("PRAGMA synchronous=OFF")',
        "What append acknowledged may be lost when the power fails.",
        SQLITE,
    ),
    Mutant(
        "reads-then-writes",
        _SQLITE,
        '"BEGIN IMMEDIATE" if writer else "BEGIN"',
        '"BEGIN" if writer else "BEGIN"',
        "A writer that read first fails at once when another wrote in between.",
        ("tests/contract/test_eventstore_sqlite.py::TestBusy", *SQLITE),
    ),
)
