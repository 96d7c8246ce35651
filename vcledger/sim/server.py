"""The simulated API server: the real one's semantics, in process, on simulated time.

Owns the reads, lists and watches; writes are in `vcledger.sim.writes`. Must not know faults nor who asks. Called by the
loop's effects, by list+watch feeds and by the simulated controllers, all through the port.

What it claims is in `vcledger.testing.port_contract`, which runs on any server behind the port.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from vcledger.runtime.port import Answer, WatchLine
from vcledger.scheduler.requests import Bind, Create, Delete, Get, Patch, Request, Update
from vcledger.sim import status
from vcledger.sim.clock import START
from vcledger.sim.mvcc import Compacted, Object, Stored, VersionedStore
from vcledger.sim.scope import WHOLE, Scope, scope
from vcledger.sim.writes import Writes, is_custom, key_of
from volcano.objects.kinds import BY_NAME, Kind

CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

LIST_EXPIRED = "The resourceVersion for the provided list is too old."

FIRST_VERSION = 100
"""A young cluster's version; the real one's is never 0 either, as 0 means 'any'."""


class SimulatedApi:
    """An API server behind the port. `clock` gives the time in microseconds since 1970. `calls` counts the requests by
    (verb, path), lists and watches apart."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self.store = VersionedStore(FIRST_VERSION)
        self.clock = clock or (lambda: START)
        self.calls: dict[tuple[str, str], int] = {}
        self._uids = 0
        self._writes = Writes(self.store, self.clock, self._uid)
        self._watches: list[SimulatedWatch] = []

    # --- the port -------------------------------------------------------------------------------------------------

    def do(self, request: Request) -> Answer:
        """Carries out one request."""
        call = (request.verb, request.path)
        self.calls[call] = self.calls.get(call, 0) + 1
        try:
            return self._done(request)
        except status.Refused as refused:
            return refused.answer

    def _done(self, request: Request) -> Answer:
        match request:
            case Get():
                return self._get(request)
            case Create():
                return self._writes.create(request)
            case Update():
                return self._writes.update(request)
            case Patch():
                return self._writes.patch(request)
            case Bind():
                return self._writes.bind(request)
            case Delete():
                return self._writes.delete(request)
        raise TypeError(f"no such request: {type(request).__name__}")

    def _get(self, request: Get) -> Answer:
        kind = BY_NAME[request.kind]
        stored = self.store.get(kind.name, key_of(kind, request.namespace, request.name))
        if stored is None:
            raise status.not_found(kind, request.name)
        return Answer(200, stored.body)

    def list(
        self,
        kind: str,
        *,
        limit: int | None = None,
        continue_: str = "",
        resource_version: str = "",
        namespace: str = "",
        selector: str = "",
    ) -> Answer:
        """A list, sorted by key. With `limit` in pages, all of them as of the first one's version; a token older than
        the compaction answers 410, with one that goes on inconsistently. `resource_version` "" and "0": the newest."""
        found = BY_NAME[kind]
        try:
            wanted = scope(namespace, selector)
            if continue_:
                if resource_version not in ("", "0"):
                    raise status.bad_request("specifying resource version is not allowed when using continue")
                version, start = _token(continue_)
                return self._page(found, version if version >= 0 else self.store.version, start, limit, wanted)
            version = _version(resource_version, listing=True)
            if version > self.store.version:
                return Answer(504, msgspec.json.encode(_too_large(version, self.store.version)))
            return self._page(found, self.store.version, "", limit, wanted)
        except status.Refused as refused:
            return refused.answer

    def list_at(self, kind: str, version: int) -> Answer:
        """A list as a server that lags behind would give it, as of an earlier version (a list with "0" may be that)."""
        return self._page(BY_NAME[kind], max(version, self.store.compacted), "", None)

    def get_at(self, request: Get, version: int) -> Answer:
        """A read as a server that lags behind would answer it: the object as it was at an earlier version, the same
        object though; as it is now where that can't be known any more."""
        kind = BY_NAME[request.kind]
        key = key_of(kind, request.namespace, request.name)
        now = self.store.get(kind.name, key)
        try:
            then = dict(self.store.at(kind.name, max(version, self.store.compacted))).get(key)
        except Compacted:
            then = None
        if now is None or then is None or then.object["metadata"]["uid"] != now.object["metadata"]["uid"]:
            return self.do(request)
        return Answer(200, then.body)

    def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        bookmarks: bool = True,
        namespace: str = "",
        selector: str = "",
        timeout_seconds: int = 0,
    ) -> Answer | SimulatedWatch:
        """The changes after a version. "" or "0": first what there is, as ADDED. One from before the compaction opens,
        and its first line is an ERROR with 410, as the real server does. Its end after `timeout_seconds` is up to who
        has a real clock: see `drop_watches`."""
        try:
            version, wanted = _version(resource_version, listing=False), scope(namespace, selector)
        except status.Refused as refused:
            return refused.answer
        watch = SimulatedWatch(self.store, BY_NAME[kind], version, bookmarks, wanted)
        self._watches = [other for other in self._watches if not other.closed]
        self._watches.append(watch)
        return watch

    # --- the server's own doings ----------------------------------------------------------------------------------

    def send_bookmarks(self) -> None:
        """Each open watch that wants bookmarks gets one (the real server: each minute)."""
        for watch in self._watches:
            watch.bookmark()

    def drop_watches(self, kind: str) -> None:
        """Ends the watches of a kind, as a time-out or a restart of the server does."""
        for watch in self._watches:
            if watch.kind.name == kind:
                watch.drop()

    def compact(self, version: int | None = None) -> None:
        """Forgets the history up to a version, by default all of it."""
        self.store.compact(self.store.version if version is None else version)

    # --- for actors and tests -------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the last write."""
        return self.store.version

    def object(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object as it is now; not to be changed in place."""
        stored = self.store.get(kind, key_of(BY_NAME[kind], namespace, name))
        return stored.object if stored else None

    def objects(self, kind: str) -> Sequence[Object]:
        """All of a kind, sorted by key; not to be changed in place."""
        return [stored.object for _, stored in self.store.items(kind)]

    def create(self, kind: str, item: Object) -> Object:
        """Creates an object as given, of the kind said, and returns it as stored; for building a cluster. Raises on a
        refusal."""
        found = BY_NAME[kind]
        namespace = item["metadata"].get("namespace", "default") if found.namespaced else ""
        item = {"kind": found.api_kind, "apiVersion": _api_version(found), **item}
        answer = self.do(Create(kind, namespace, msgspec.json.encode(item)))
        if not answer.ok:
            raise ValueError(f"{kind} {item['metadata'].get('name')}: {answer.body.decode()}")
        made: Object = msgspec.json.decode(answer.body)
        return made

    def _uid(self) -> str:
        self._uids += 1
        return f"00000000-0000-4000-8000-{self._uids:012x}"

    def _page(self, kind: Kind, version: int, start: str, limit: int | None, wanted: Scope = WHOLE) -> Answer:
        try:
            items = [item for item in self.store.at(kind.name, version) if wanted.has(item[1].object)]
        except Compacted:
            if not start:
                return Answer(410, msgspec.json.encode(status.expired(LIST_EXPIRED)))
            return Answer(410, msgspec.json.encode(status.expired(CONTINUE_EXPIRED, _make_token(-1, start))))
        left = [item for item in items if item[0] >= start] if start else items
        page = left[:limit] if limit else left
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if len(page) < len(left):
            meta["continue"] = _make_token(version, left[len(page)][0])
            if not wanted.labels:
                meta["remainingItemCount"] = len(left) - len(page)
        return Answer(200, _list_body(kind, meta, [stored for _, stored in page]))


class SimulatedWatch:
    """An open watch: it gives what was written since it was last asked. One that asks too late gets 410."""

    def __init__(self, store: VersionedStore, kind: Kind, version: int, bookmarks: bool, wanted: Scope = WHOLE) -> None:
        self.kind = kind
        self.bookmarks = bookmarks
        self._wanted = wanted
        self._store = store
        self._seen = version
        self._waiting: list[WatchLine] = []
        self._dropped = False
        self._ended = False
        if version == 0:
            self._seen = store.version
            found = (stored for _, stored in store.items(kind.name) if wanted.has(stored.object))
            self._waiting = [WatchLine("ADDED", stored.body) for stored in found]

    @property
    def closed(self) -> bool:
        """The server ended the stream and all its lines have been taken."""
        return self._ended or (self._dropped and not self._waiting)

    def take(self) -> list[WatchLine]:
        """The lines since the last call."""
        lines = self._news()
        if self._dropped:
            self._ended = True
        return lines

    def bookmark(self) -> None:
        """Says up to which version everything has been sent."""
        if self.bookmarks and not self._dropped and not self._ended:
            self._waiting = self._news()
            if not self._ended:
                self._waiting.append(WatchLine("BOOKMARK", _bookmark_body(self.kind, self._seen)))

    def drop(self) -> None:
        """Ends the stream; what was written before is still in it, what comes later is not."""
        if not self._dropped and not self._ended:
            self._waiting = self._news()
            self._dropped = True

    def _news(self) -> list[WatchLine]:
        lines, self._waiting = self._waiting, []
        if self._dropped or self._ended:
            return lines
        try:
            revisions = self._store.since(self.kind.name, self._seen)
        except Compacted as gone:
            if self._seen < self._store.compacted:
                error = status.too_old_watch(gone.version, gone.oldest)
                lines.append(WatchLine("ERROR", msgspec.json.encode(error)))
                self._ended = True
                return lines
            raise
        told = filter(None, map(self._wanted.told, revisions))
        lines.extend(WatchLine(change, body) for change, body in told)
        self._seen = self._store.version
        return lines


def _version(text: str, *, listing: bool) -> int:
    """A version as a request gives it; a list refuses what is none with 400, a watch with 500."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise status.bad_request(f"invalid resource version: {why}") if listing else status.nameless(why)
    return int(text)


def _too_large(version: int, current: int) -> Object:
    text = f"Timeout: Too large resource version: {version}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return status.failure(504, "Timeout", text, {"causes": causes, "retryAfterSeconds": 1})


def _make_token(version: int, start: str) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _token(text: str) -> tuple[int, str]:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return int(token["rv"]), str(token["start"])
    except (ValueError, KeyError, TypeError) as error:
        raise status.bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def _api_version(kind: Kind) -> str:
    return f"{kind.group}/{kind.versions[0]}" if kind.group else kind.versions[0]


def _list_body(kind: Kind, meta: Object, items: list[Stored]) -> bytes:
    """A list's JSON. Items of built-in kinds say neither kind nor apiVersion, those of custom resources do."""
    if is_custom(kind):
        whole: list[Any] = [msgspec.Raw(stored.body) for stored in items]
    else:
        whole = [{k: v for k, v in stored.object.items() if k not in ("kind", "apiVersion")} for stored in items]
    body = {"kind": f"{kind.api_kind}List", "apiVersion": _api_version(kind), "metadata": meta, "items": whole}
    return msgspec.json.encode(body)


def _bookmark_body(kind: Kind, version: int) -> bytes:
    """An object of the kind with nothing but a version and what is never left out, whose containers are null, as the
    real server sends it."""
    body: Object = {"kind": kind.api_kind, "apiVersion": _api_version(kind)}
    body["metadata"] = {"resourceVersion": str(version)}
    if kind.name == "Pod":
        body |= {"spec": {"containers": None}, "status": {}}
    elif kind.name in ("PersistentVolume", "ResourceQuota"):
        body |= {"spec": {}, "status": {}}
    return msgspec.json.encode(body)
