"""Events to test with, and an opener that closes what it opened.

Owns their making. Must not know a store's inside. Called by the modules of the suite, and by tests beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from eventstore.store import EventStore
from eventstore.types import NewEvent, StreamId

START = 1_760_000_000_000_000
"""A moment in 2025, in microseconds."""
SECOND = 1_000_000


class Opener:
    """Opens one ledger again and again, and closes all of them at the end."""

    def __init__(self, open_one: Callable[[], EventStore]) -> None:
        self._open_one = open_one
        self._opened: list[EventStore] = []

    def __call__(self) -> EventStore:
        store = self._open_one()
        self._opened.append(store)
        return store

    def __enter__(self) -> Opener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for store in self._opened:
            store.close()


def observation(
    name: str = "pod-0",
    revision: int | None = 1,
    *,
    at: int | None = None,
    kind: str = "Pod",
    cluster: str = "one",
    namespace: str = "default",
    uid: str | None = None,
    type_: str = "ObjectModified",
    payload: bytes = b'{"kind":"Pod"}',
    gone: bool = False,
    late: bool = False,
    about: str = "",
    schema: int = 1,
    known: int = 0,
) -> NewEvent:
    """An observation of an object, by default at as many seconds after START as its resource version says."""
    stream = StreamId(cluster, kind, namespace, name, f"uid-of-{name}" if uid is None else uid)
    observed_at = START + (revision or 0) * SECOND if at is None else at
    return NewEvent(
        stream,
        type_,
        "observation",
        observed_at,
        payload,
        schema=schema,
        known=known,
        resource_version=revision,
        gone=gone,
        late=late,
        about=about,
    )


def payload_like(number: int, size: int = 700) -> bytes:
    """JSON that resembles its neighbours as the objects of one kind do, about `size` bytes long."""
    head = (
        f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"worker-{number}","namespace":"team-{number % 7}",'
        f'"resourceVersion":"{1000 + number * 3}","uid":"{number * 2654435761 % 2**32:08x}-1111-2222-3333"}},'
        f'"spec":{{"schedulerName":"volcano","nodeName":"node-{number % 13}","containers":['
    )
    container = (
        f'{{"name":"main","image":"registry.example/train:{number % 5}","resources":{{"requests":{{'
        f'"cpu":"{number % 8}","memory":"{number % 64}Gi"}}}}}}'
    )
    count = max(1, (size - len(head)) // (len(container) + 1))
    return (head + ",".join([container] * count) + "]}}").encode()
