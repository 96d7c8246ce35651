"""What must hold of appends: atomic, versioned, stored once, unchanged, or refused whole.

Owns these tests. Must not know a database. Called by `eventstore.testing`, as part of `EventStoreConformance`.
"""

from __future__ import annotations

import pytest

from eventstore.testing.build import SECOND, START, Opener, observation, payload_like
from eventstore.types import (
    INFERRED,
    KEYED,
    RECOMPUTED,
    RETURNED,
    InvalidEvent,
    LogMoved,
    NewEvent,
    StreamId,
    WrongExpectedVersion,
)


class AppendConformance:
    """Needs the fixture `opener`."""

    def test_all_columns_come_back(self, opener: Opener) -> None:
        store = opener()
        stream = StreamId("east", "Event", "team-ä", "über.17", "u-1")
        first = NewEvent(
            stream, "ObjectAdded", "observation", START, b'{"a":1}', 1, INFERRED, 17, False, False, "pod-uid"
        )
        second = NewEvent(
            stream, "TaskAllocated", "scheduling", START + 5, b"\x00\xff{}", 3, RECOMPUTED, causation=1, cycle=9
        )
        third = NewEvent(stream, "ObjectDeleted", "observation", START + 5, b"", 1, resource_version=18, gone=True)
        result = store.append([first, second, third])
        assert result == ([1, 2, 3], 3, 0, 0)
        for version, (new, stored) in enumerate(zip([first, second, third], store.read(), strict=True), start=1):
            assert stored.stream == new.stream
            for column in ("type", "family", "schema", "observed_at", "payload", "known", "resource_version", "gone",
                           "late", "about", "causation", "cycle"):  # fmt: skip
                assert getattr(stored, column) == getattr(new, column), column
            assert stored.version == stored.position == version
            assert stored.appended_at > 0
        assert store.verify().ok

    def test_positions_go_on_over_batches_and_reopening(self, opener: Opener) -> None:
        store = opener()
        assert store.head() == 0
        assert store.append([]).positions == []
        assert store.append([observation(revision=1), observation(revision=2)]).positions == [1, 2]
        assert store.append([observation(revision=3)]).positions == [3]
        again = opener()
        assert again.append([observation(revision=4)]).positions == [4]
        assert store.append([observation(revision=5)]).positions == [5]
        assert [event.version for event in again.read()] == [1, 2, 3, 4, 5]
        assert store.head() == again.head() == 5

    def test_an_observation_is_stored_once_whatever_its_type_says(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(revision=7, type_="ObjectModified"), observation(revision=8)])
        twice = observation(revision=9)
        result = store.append([observation(revision=7, type_="ObjectAdded", at=START), twice, twice])
        assert result == ([1, 3, 3], 1, 2, 0)
        assert opener().append([twice, observation(revision=8)]) == ([3, 2], 0, 2, 0)
        assert store.head() == 3

    def test_gone_is_another_observation_than_the_one_of_the_same_version(self, opener: Opener) -> None:
        store = opener()
        result = store.append([observation(revision=7), observation(revision=7, gone=True)])
        assert result == ([1, 2], 2, 0, 0)
        assert store.append([observation(revision=7, gone=True), observation(revision=7)]).positions == [2, 1]

    def test_same_version_in_other_streams_is_another_observation(self, opener: Opener) -> None:
        store = opener()
        same = [observation(), observation(cluster="two"), observation(kind="Node"), observation(namespace="x"),
                observation(uid="other"), observation(name="pod-1", uid="uid-of-pod-0")]  # fmt: skip
        assert store.append(same).stored == len(same)
        assert opener().append(same).positions == [1, 2, 3, 4, 5, 6]

    def test_an_older_version_that_was_never_seen_is_stored(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(revision=9, at=START), observation(revision=12, at=START)])
        assert store.append([observation(revision=10, at=START)]) == ([3], 1, 0, 0)

    def test_events_that_are_no_observations_are_stored_each_time(self, opener: Opener) -> None:
        store = opener()
        assert store.append([observation(revision=None), observation(revision=None)]).stored == 2
        assert store.append([observation(revision=None)]).positions == [3]

    def test_a_keyed_event_is_stored_once_and_says_nothing_of_the_object(self, opener: Opener) -> None:
        store = opener()
        stream, at = observation().stream, START + 9 * SECOND
        bind = observation(revision=KEYED | 17, at=at, type_="BindSucceeded")
        store.append([observation(revision=5)])
        assert store.append([bind, bind]) == ([2, 2], 1, 1, 0)
        assert opener().append([bind]).positions == [2]
        assert store.stream_head(stream) == (stream, 2, 1, 5, False)
        store.append(
            [observation(revision=6, gone=True, at=at), bind._replace(resource_version=KEYED | 18, gone=False)]
        )
        assert store.stream_head(stream) == (stream, 4, 3, 6, True)
        assert store.live("one", "Pod") == []
        assert opener().append([observation(revision=7, at=at)]).positions == [5]
        assert [head.position for head in store.live("one", "Pod")] == [5]
        alone = observation("a-marker", KEYED, at=at, gone=True)
        store.append([alone])
        assert store.stream_head(alone.stream) == (alone.stream, 1, 0, None, False)
        assert store.verify().ok

    def test_causes_in_the_same_append(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(revision=1), observation("pod-1", KEYED, at=START + SECOND)])
        events = [
            observation("pod-1", KEYED, at=START),
            observation("pod-1", KEYED + 1, at=START)._replace(causation=-1),
            observation("pod-2", 3, at=START + SECOND)._replace(causation=1),
            observation("pod-2", 4)._replace(causation=-3),
            observation("pod-2", 4)._replace(causation=-2),
            observation("pod-2", 5)._replace(causation=-5),
        ]
        events = [event._replace(observed_at=START + 9 * SECOND) for event in events]
        result = store.append(events, token="once")
        assert result == ([2, 3, 4, 5, 5, 6], 4, 2, 0)
        assert [event.causation for event in store.read(after=2)] == [2, 1, 4, 5]
        assert opener().append(events, token="once") == result
        for wrong in (-1, -2, 7, 8, 2**63):
            with pytest.raises(InvalidEvent, match="causation"):
                store.append([observation("pod-3")._replace(causation=wrong)])
        assert store.head() == 6
        assert store.verify().ok

    def test_expected_versions(self, opener: Opener) -> None:
        store, other = opener(), opener()
        stream = observation().stream
        store.append([observation(revision=1)], expected={stream: 0})
        other.append([observation(revision=2)], expected={stream: 1})
        with pytest.raises(WrongExpectedVersion, match="version 2, not 1"):
            store.append([observation(revision=3), observation("pod-1")], expected={stream: 1})
        with pytest.raises(WrongExpectedVersion):
            store.append([observation("pod-1")], expected={stream: 2, observation("pod-9").stream: 1})
        assert store.head() == 2
        assert store.append([observation(revision=3)], expected={stream: 2, observation("x").stream: 0}).positions == [
            3
        ]

    def test_a_batch_that_must_begin_at_a_position(self, opener: Opener) -> None:
        store, other = opener(), opener()
        assert store.append([observation(revision=1)], first=1).positions == [1]
        other.append([observation("pod-1", 2)])
        for wrong in (1, 2, 4):
            with pytest.raises(LogMoved, match="the log ends at 2"):
                store.append([observation(revision=3), observation(revision=4)], first=wrong)
        assert store.head() == 2
        assert store.append([observation(revision=3), observation(revision=4)], first=3).positions == [3, 4]
        assert store.verify().ok

    def test_a_batch_sent_again_with_its_token_is_stored_once(self, opener: Opener) -> None:
        store = opener()
        stream = observation().stream
        batch = [observation(revision=revision, at=START) for revision in (None, 4, None)]
        first = store.append(batch, token="t-1", expected={stream: 0})
        assert first == ([1, 2, 3], 3, 0, 0)
        assert store.append(batch, token="t-1", expected={stream: 0}) == first
        assert opener().append(batch, token="t-1") == first
        mixed = [observation(revision=4), observation(revision=5), observation(revision=4)]
        second = store.append(mixed, token="t-2")
        assert second == ([2, 4, 2], 1, 2, 0)
        assert opener().append(mixed, token="t-2") == second
        nothing = store.append([observation(revision=5)], token="t-3")
        assert opener().append([observation(revision=6)], token="t-3") == nothing == ([4], 0, 1, 0)
        assert store.head() == 4

    @pytest.mark.parametrize("bad", ["a\0b", "\ud800", "x" * 100_000])
    def test_text_that_cannot_be_kept_is_refused_whole(self, opener: Opener, bad: str) -> None:
        store = opener()
        store.append([observation(revision=1)])
        for column in ("cluster", "kind", "namespace", "name", "uid", "type", "family", "about"):
            event = observation("pod-1", revision=2)
            if column in StreamId._fields:
                event = event._replace(stream=event.stream._replace(**{column: bad}))
            else:
                event = event._replace(**{column: bad})  # type: ignore[arg-type]
            with pytest.raises(InvalidEvent, match=column) as caught:
                store.append([observation(revision=3), event])
            assert "\n" not in str(caught.value)
            assert store.head() == 1
        with pytest.raises(InvalidEvent, match="token"):
            store.append([observation(revision=3)], token=bad)
        assert store.append([observation(revision=3)]) == ([2], 1, 0, 0)
        assert [event.version for event in store.read()] == [1, 2]
        assert store.verify().ok

    def test_values_that_cannot_be_kept_are_refused_whole(self, opener: Opener) -> None:
        store = opener()
        wrongs: list[dict[str, object]] = [
            {"observed_at": 2**63},
            {"observed_at": None},
            {"observed_at": 1.5},
            {"resource_version": 2**63},
            {"resource_version": -1},
            {"causation": -(2**63) - 1},
            {"causation": -2},
            {"causation": 0},
            {"causation": 2},
            {"causation": "1"},
            {"cycle": "3"},
            {"known": 3},
            {"schema": 0},
            {"schema": 2**31},
            {"payload": "text"},
            {"payload": None},
            {"stream": ("a", "b", "c", "d", "e")},
            {"about": None},
        ]
        for wrong in wrongs:
            with pytest.raises(InvalidEvent) as caught:
                store.append([observation("pod-1"), observation()._replace(**wrong)])  # type: ignore[arg-type]
            assert "\n" not in str(caught.value)
            assert store.head() == 0
            assert store.clusters() == []
        assert store.append([observation("pod-1")]).positions == [1]

    def test_payloads_come_back_unchanged(self, opener: Opener) -> None:
        store = opener()
        payloads = [
            b"",
            b"\x00",
            b"\x00" * 4_000,
            bytes(range(256)) * 3,
            b'{"name":"\\ud800","also":"\\u0000","at":"2026-01-02T03:04:05.678901234+05:45"}',
            "ünï©ödé 🚀".encode(),
            b"\xff\xfe not utf-8",
            b"(\xb5/\xfd looks like a zstd frame",
            payload_like(1, 5_000_000),
            bytes(i * 7919 % 251 for i in range(100_000)),
        ]
        store.append([observation(f"p-{i}", revision=1, payload=payload) for i, payload in enumerate(payloads)])
        assert [event.payload for event in store.read()] == payloads
        assert [row[-1] for rows in opener().read_raw() for row in rows] == payloads
        assert store.verify().ok

    def test_payloads_before_and_after_a_dictionary_is_trained_come_back(self, opener: Opener) -> None:
        store = opener()
        events = [observation(f"p-{i}", revision=1, at=START + i, payload=payload_like(i)) for i in range(4_000)]
        for start in range(0, 900, 100):
            store.append(events[start : start + 100])
        store.append(events[900:1700])
        store.append(events[1700:])
        stats = store.stats()
        assert stats.dictionaries >= 1
        assert stats.payload_size == sum(len(event.payload) for event in events)
        assert stats.payload_stored < stats.payload_size / 4
        again = opener()
        assert [event.payload for event in again.read()] == [event.payload for event in events]
        assert again.append([observation("more", payload=payload_like(5_000), at=START + SECOND)]).stored == 1
        assert again.verify().ok

    def test_a_new_dictionary_is_trained_when_objects_change(self, opener: Opener) -> None:
        store = opener()
        old = [observation(f"p-{i}", at=START + i, payload=payload_like(i)) for i in range(4_000)]
        new = [
            observation(f"n-{i}", kind="Node", at=START + SECOND + i,
                        payload=f'{{"node":{i},"status":"{i * 7919 % 4099}-of-another-kind-{i % 3}"}}'.encode() * 2)
            for i in range(9_000)
        ]  # fmt: skip
        for start in range(0, 4_000, 1_000):
            store.append(old[start : start + 1_000])
        before = store.stats().dictionaries
        for start in range(0, 9_000, 1_000):
            store.append(new[start : start + 1_000])
        assert 1 <= before <= 2  # the first, and perhaps a better one when the ledger had grown
        assert store.stats().dictionaries > before
        again = opener()
        assert [event.payload for event in again.read(batch=1_000)] == [event.payload for event in old + new]
        assert again.verify().ok

    def test_late_events_are_kept_and_move_nothing(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(revision=10, at=START + 10), observation("pod-1", revision=11, at=START + 20)])
        result = store.append([observation(revision=5, at=START + 19), observation(revision=12, at=START + 20)])
        assert result == ([3, 4], 2, 0, 1)
        assert [event.late for event in store.read()] == [False, False, True, False]
        assert store.append([observation(revision=20, at=START + 30, late=True)]).late == 1
        head = store.stream_head(observation().stream)
        assert head is not None
        assert (head.version, head.position, head.resource_version, head.gone) == (4, 4, 12, False)
        assert store.high_water("one") == START + 20
        assert opener().append([observation(revision=5, at=START)]) == ([3], 0, 1, 0)
        assert store.append([observation("x", cluster="two", at=START)]).late == 0
        assert store.verify().ok

    def test_who_sees_the_present_is_lifted_to_the_mark_instead_of_late(self, opener: Opener) -> None:
        store = opener()
        store.append([observation(revision=10, at=START + 10)])
        times = [(7, False), (12, False), (11, False), (3, True), (12, False)]
        batch = [observation(f"p-{i}", at=START + at, late=late) for i, (at, late) in enumerate(times)]
        assert opener().append(batch, lift=True).late == 1
        assert [(e.observed_at - START, e.late) for e in store.read(after=1)] == [
            (10, False), (12, False), (12, False), (3, True), (12, False)]  # fmt: skip
        assert store.append([observation("q", cluster="two", at=START)], lift=True).late == 0
        assert store.verify().ok

    def test_who_sees_the_present_sees_an_object_that_is_there_again(self, opener: Opener) -> None:
        """A list had missed it, twice; then it is there at the version at which it was taken to have gone."""
        store = opener()
        seen, missed = observation(revision=10, payload=b'{"v":10}'), observation(revision=10, gone=True)
        store.append([observation(revision=9), seen, missed])
        assert store.append([seen]) == ([2], 0, 1, 0)
        assert opener().append([observation(revision=9), seen], lift=True) == ([1, 4], 1, 1, 0)
        back = store.stream_head(seen.stream)
        assert back is not None and (back.position, back.gone) == (4, False)
        assert [(event.payload, event.resource_version) for event in store.get([4])] == [(b'{"v":10}', RETURNED + 4)]
        assert store.append([seen], lift=True) == ([2], 0, 1, 0)
        store.append([missed._replace(resource_version=back.resource_version)], lift=True)
        assert store.live("one", "Pod") == []
        assert store.append([seen], lift=True).positions == [6]
        assert [head.position for head in store.live("one", "Pod")] == [6]
        assert store.append([observation(revision=11)], lift=True).positions == [7]
        assert store.verify().ok

    def test_time_never_goes_back_within_a_batch_either(self, opener: Opener) -> None:
        store = opener()
        times = [5, 3, 5, 8, 7, 9]
        store.append([observation(f"p-{i}", at=START + time) for i, time in enumerate(times)])
        kept = [event.observed_at - START for event in store.read(late=False)]
        assert kept == [5, 5, 8, 9]
        assert [event.observed_at - START for event in store.read(late=True)] == [3, 7]
