"""Snapshots of the flow: whole replay = any snapshot + tail, and a recovery from one is one from the whole log."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import pytest
import zstandard

from eventstore import EventStore, open_store
from eventstore.types import NewEvent, Snapshot, StoredEvent
from projections.cache import CacheConfig
from vcledger import codec
from vcledger.ledger import Ledger
from vcledger.runtime.loop import Loop
from vcledger.scheduler.inputs import Effect
from vcledger.scheduler.snapshot import VERSION, FlowProjection, Image, SnapshotInvalid, dump, load, projection_of
from vcledger.scheduler.state import Flow, FlowConfig
from vcledger.sim import plan as plans
from vcledger.sim.faults import FAULTS
from vcledger.sim.memory import MemoryLog
from vcledger.sim.simulate import come_to_rest
from vcledger.sim.world import CLUSTER, Simulation
from vcledger.verify import verify

SEEDS = (3, 11, 242)
CONFIG = Simulation(plans.draw(1, 0, ()), cast(EventStore, MemoryLog())).config


def world_log(seed: int, steps: int = 25) -> MemoryLog:
    """The log of a world with every fault, crashes among them."""
    log = MemoryLog()
    world = Simulation(plans.draw(seed, steps, tuple(FAULTS)), cast(EventStore, log))
    world.run()
    come_to_rest(world)
    assert not world.broken, world.broken
    return log


def folded(log: Any, flow: Flow, after: int, to: int) -> Flow:
    projection = FlowProjection(CONFIG)
    for one in codec.fold_stream(log, CLUSTER, after, to, decoders=projection.decoders):
        flow = projection.evolve(flow, one)
    return flow


def image_of(flow: Flow) -> Any:
    """What a snapshot says, but for the cache's bytes, which depend on the order of its dicts."""
    return msgspec.structs.replace(msgspec.msgpack.decode(dump(flow), type=Image), cache=b"")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flow_that_is_saved_and_loaded_after_each_event_goes_the_same_way(seed: int) -> None:
    """So every position is one at which a snapshot was taken, and gone on from."""
    log = world_log(seed)
    through, again = Flow(CONFIG), Flow(CONFIG)
    for position in range(1, log.head() + 1):
        through, again = folded(log, through, position - 1, position), folded(log, again, position - 1, position)
        again = load(Flow(CONFIG), dump(again))
        if position % 25 == 0 or position == log.head():
            assert again.digest() == through.digest(), position
            assert image_of(again) == image_of(through), position


def batches_of(log: MemoryLog) -> list[int]:
    """Positions at which a process can have died: the ends of appends. One moment has one, or more of them."""
    events = list(log.read())
    return [
        one.position
        for one, after in zip(events, [*events[1:], None], strict=True)
        if after is None or after.observed_at != one.observed_at
    ]


def fresh(events: list[StoredEvent], store: Any) -> Any:
    """The events in a store of their own."""
    store.append(
        [
            NewEvent(
                stream=one.stream,
                type=one.type,
                family=one.family,
                schema=one.schema,
                observed_at=one.observed_at,
                payload=one.payload,
                known=one.known,
                resource_version=one.resource_version,
                gone=one.gone,
                late=one.late,
                about=one.about,
                causation=one.causation,
                cycle=one.cycle,
            )
            for one in events
        ]
    )
    return store


def after_recovery(store: Any, now: int, *, snapshot_at: int | None) -> tuple[list[Any], list[Effect], str]:
    """What a process does that begins here: the events it appends in its first seconds, its effects, its state.
    `snapshot_at`: a snapshot stands there."""
    sent: list[Effect] = []
    loop = Loop(store, CLUSTER, carry_out=sent.append, config=CONFIG, snapshot_every=0)
    head = store.head()
    if snapshot_at is not None:
        projection = loop.projection
        payload = projection.dump(folded(store, Flow(CONFIG), 0, snapshot_at))
        store.save_snapshot(Snapshot(projection.name, projection.version, CLUSTER, snapshot_at, None, payload))
    assert loop.recover(now)
    assert loop.recovered_from == snapshot_at
    for wait in (1, 20_000, 1_000_000, 5_000_000):
        now += wait
        loop.step(now)
    events = []
    for stored in store.read(cluster=CLUSTER, after=head):
        event = (
            codec.recorded(stored)._replace(event=None) if stored.type == "RecoveryStarted" else codec.recorded(stored)
        )
        events.append(event)
    assert loop.rebuild().digest() == loop.rebuild(snapshots=False).digest() == loop.flow.digest()
    return events, sent, loop.flow.digest()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_process_that_dies_anywhere_goes_on_from_a_snapshot_as_from_the_whole_log(seed: int) -> None:
    events = list(world_log(seed).read())
    ends, chance = batches_of(fresh(events, MemoryLog())), Random(seed)
    for died in chance.sample(ends, min(40, len(ends))):
        before = events[:died]
        now = before[-1].observed_at + chance.randint(0, 3_000_000)
        whole = after_recovery(fresh(before, MemoryLog()), now, snapshot_at=None)
        saved = after_recovery(fresh(before, MemoryLog()), now, snapshot_at=chance.randint(1, died))
        assert saved == whole, died


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], EventStore]]:
    url = str(tmp_path / "f.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    stores: list[EventStore] = []

    def again() -> EventStore:
        stores.append(open_store(url, create=not stores))
        return stores[-1]

    yield again
    for store in stores:
        store.close()


def test_on_both_stores(opened: Callable[[], EventStore]) -> None:
    events = list(world_log(SEEDS[0]).read())
    died = batches_of(fresh(events, MemoryLog()))[-20]
    before, now = events[:died], events[died - 1].observed_at + 10
    in_memory = after_recovery(fresh(before, MemoryLog()), now, snapshot_at=None)
    on_disk = after_recovery(fresh(before, opened()), now, snapshot_at=died // 2)
    assert on_disk == in_memory
    again = Loop(opened(), CLUSTER, carry_out=lambda _: None, config=CONFIG)
    assert again.rebuild().digest() == again.rebuild(snapshots=False).digest() == in_memory[2]


def test_snapshots_that_are_no_good_are_passed_over(opened: Callable[[], EventStore]) -> None:
    events = list(world_log(SEEDS[0], 5).read())
    store = fresh(events, opened())
    loop = Loop(store, CLUSTER, carry_out=lambda _: None, config=CONFIG)
    name, version = loop.projection.name, loop.projection.version
    good = loop.projection.dump(folded(store, Flow(CONFIG), 0, 10))
    for position, payload, of in (
        (10, good, version),
        (20, b"nonsense", version),
        (30, good[:-9], version),
        (40, good, 1),
    ):
        store.save_snapshot(Snapshot(name, of, CLUSTER, position, None, payload))
    assert loop.recover(events[-1].observed_at)
    assert loop.recovered_from == 10
    assert loop.rebuild().digest() == loop.rebuild(snapshots=False).digest() == loop.flow.digest()


def test_what_is_no_snapshot_is_refused() -> None:
    for data in (b"", b"\x00", b"[]", msgspec.msgpack.encode({"cache": b""})):
        with pytest.raises(SnapshotInvalid):
            load(Flow(CONFIG), data)
    with pytest.raises(SnapshotInvalid):
        FlowProjection(CONFIG).load([])


def test_options_of_the_cache_are_part_of_a_snapshot() -> None:
    others = FlowConfig(cache=CacheConfig(default_queue="other"))
    mine, theirs = FlowProjection(), FlowProjection(others)
    assert mine.name == "flow" != theirs.name
    data = theirs.dump(theirs.initial())
    assert projection_of(data).name == theirs.name
    with pytest.raises(SnapshotInvalid, match="other options"):
        mine.load([data])
    with pytest.raises(SnapshotInvalid):
        projection_of(b"x")


@pytest.mark.parametrize("config", [CONFIG, msgspec.structs.replace(CONFIG, cache=CacheConfig(default_queue="other"))])
def test_a_pruned_ledger_is_gone_on_from_at_its_cut_and_its_snapshots_verify(
    tmp_path: Path, config: FlowConfig
) -> None:
    log = world_log(SEEDS[1], 10)
    events = list(log.read())
    with Ledger.open(str(tmp_path / "f.db"), create=True) as ledger:
        for end in range(0, len(events), 40):
            fresh(events[end : end + 40], ledger.store)
        loop = Loop(ledger.store, CLUSTER, carry_out=lambda _: None, config=config, snapshot_every=50)
        assert loop.recover(events[-1].observed_at)
        whole = loop.rebuild(snapshots=False).digest()
        ledger.prune(len(events) // 2)
        assert ledger.store.first() > 1
        assert loop.rebuild(snapshots=False).digest() == loop.rebuild().digest() == whole
        again = Loop(ledger.store, CLUSTER, carry_out=lambda _: None, config=config)
        assert again.recover(events[-1].observed_at)
        assert again.recovered_from
        report = verify(ledger, every_snapshot=True)
        assert report.ok and report.void == 0
        assert [check.ok for check in report.checks if check.projection.startswith("flow")] == [True, True]
        bad = again.projection.dump(folded(ledger.store, Flow(config), 0, 0))
        again.store.save_snapshot(
            Snapshot(again.projection.name, again.projection.version, CLUSTER, ledger.store.head() - 1, None, bad)
        )
        assert [check.problem for check in verify(ledger).checks if not check.ok] == [
            "the snapshot is not what the events give"
        ]


FROZEN = Path(__file__).parent.parent / "golden" / "snapshots" / "flow.json"


def test_the_frozen_snapshot_is_still_read_as_it_was() -> None:
    """A failure says: raise `vcledger.scheduler.snapshot.VERSION`, then run `python -m tests.golden.snapshots.flow`."""
    frozen = msgspec.json.decode(FROZEN.read_bytes())
    assert frozen["version"] == VERSION
    flow = FlowProjection(CONFIG).load([zstandard.decompress(base64.b64decode(frozen["snapshot"]))])
    assert flow.digest() == frozen["digest"]
    assert flow.tasks and flow.volumes.assumed and flow.claims.assumed and flow.intents and flow.waiting
