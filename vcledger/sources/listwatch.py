"""List and watch of one kind, as a state machine: what to ask next, and what each answer says.

Owns the table of states and what follows from a list, a watch line, a refusal and the end of a watch. Pure: must not
know transports (they stand behind `vcledger.runtime.port`), the log, time or random, which come in as values. Called by
the scenario runner and made for the live recorder, which carry out `Step.ask` and put what was answered back in.

Where it goes on from (`ListWatch.version`) is the version of a list, of a bookmark or of the last watch line, never
that of a list's item and never that of a Status. 410, as the answer to the watch or as an ERROR line in it, means a new
list; so do several watches in a row that end at once without a line (a stale watch of Events answers 200 with nothing),
and several that fail. What a list proves is worked out by `vcledger.sources.lists`. Back-off as in client-go's
reflector: 800 ms doubling up to 30 s, up to twice as long by `luck`, a number in [0, 1) that the caller draws; never
shorter than the server asks for, and at once a minute where it has no such resource, or gives no right to it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from vcledger.codec import OPAQUE, resource_version_key
from vcledger.errors import VcledgerError
from vcledger.sources.lists import CHANGED, NEW, Known, LastSeen, Outage, Relist, Watches
from volcano.events.base import DomainEvent
from volcano.events.observation import Bookmark, GapRecorded, ListCompleted, WatchExpired, WatchFailed, WatchStarted
from volcano.objects.kinds import BY_NAME

GONE = 410
EXPIRED_REASONS = frozenset({"Expired", "Gone"})
NO_VERSIONS = frozenset({"", "0", "None", "null"})
"""What is no version to go on from: 0 means "any", and the words are what empty ones become on the way."""

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})

DELAY_MIN, DELAY_MAX = 800_000, 30_000_000
"""Microseconds before the first and at most before any later try."""

DELAY_ABSENT = 60_000_000
"""Microseconds before a kind is looked for again that the server doesn't have (404), or doesn't show us (403)."""

ABSENT = frozenset({403, 404})

PASSING = frozenset({0, 401, 403, 429, 502, 503, 504})
"""Codes that say nothing against the version that was asked for: the server is away, busy, or doesn't know us. However
often they come, the watch is tried again from where it was."""

SHORT_WATCH = 1_000_000
"""Microseconds: a watch that ends sooner and without a line counts as an empty one."""

EMPTY_MAX, FAILED_MAX = 2, 5
"""So many empty watches, or failed ones, in a row from one version lead to a new list."""


class State(StrEnum):
    """Where the machine stands; the last two are waits for `ListWatch.due`."""

    STOPPED = "stopped"
    LISTING = "listing"
    OPENING = "opening"
    WATCHING = "watching"
    LIST_LATER = "list later"
    WATCH_LATER = "watch later"


class Said(StrEnum):
    """What an input comes to."""

    START = "start"
    RESUME = "go on from a version"
    RELIST = "relist asked for"
    STOP = "stop"
    DUE = "due"
    PAGE = "a page, more to come"
    LAST_PAGE = "the last page"
    LIST_EXPIRED = "the list's 410"
    LIST_FAILED = "the list failed"
    OPENED = "the watch opened"
    CHANGE = "a changed object"
    BOOKMARK = "a bookmark"
    UNUSABLE = "a line that says nothing"
    EXPIRED = "the watch's 410"
    FAILED = "the watch failed"
    FAILED_OFTEN = "the watch failed once too often"
    CLOSED = "the watch ended"
    EMPTY = "the watch ended at once, without a line"
    EMPTY_AGAIN = "and once too often"
    LOST = "the watch ended, and there is no version to go on from"


_S, _I = State, Said

TRANSITIONS: dict[tuple[State, Said], State] = {
    (_S.STOPPED, _I.START): _S.LISTING,
    (_S.STOPPED, _I.RESUME): _S.OPENING,
    (_S.LISTING, _I.PAGE): _S.LISTING,
    (_S.LISTING, _I.LAST_PAGE): _S.OPENING,
    (_S.LISTING, _I.LIST_EXPIRED): _S.LIST_LATER,
    (_S.LISTING, _I.LIST_FAILED): _S.LIST_LATER,
    (_S.OPENING, _I.OPENED): _S.WATCHING,
    (_S.OPENING, _I.EXPIRED): _S.LISTING,
    (_S.OPENING, _I.FAILED): _S.WATCH_LATER,
    (_S.OPENING, _I.FAILED_OFTEN): _S.LIST_LATER,
    (_S.WATCHING, _I.CHANGE): _S.WATCHING,
    (_S.WATCHING, _I.BOOKMARK): _S.WATCHING,
    (_S.WATCHING, _I.UNUSABLE): _S.WATCHING,
    (_S.WATCHING, _I.EXPIRED): _S.LISTING,
    (_S.WATCHING, _I.FAILED): _S.WATCH_LATER,
    (_S.WATCHING, _I.FAILED_OFTEN): _S.LIST_LATER,
    (_S.WATCHING, _I.CLOSED): _S.OPENING,
    (_S.WATCHING, _I.EMPTY): _S.WATCH_LATER,
    (_S.WATCHING, _I.EMPTY_AGAIN): _S.LISTING,
    (_S.WATCHING, _I.LOST): _S.LISTING,
    (_S.LIST_LATER, _I.DUE): _S.LISTING,
    (_S.WATCH_LATER, _I.DUE): _S.OPENING,
    **{(state, _I.RELIST): _S.LISTING for state in _S if state is not _S.STOPPED},
    **{(state, _I.STOP): _S.STOPPED for state in _S},
}
"""Every step there is. What is not in it is refused, and leaves the machine as it was."""


class NotNow(VcledgerError):
    """An input that the machine's state has no step for: its driver is broken. The machine is as it was."""


# --- inputs and outputs -------------------------------------------------------------------------------------------


class Start(NamedTuple):
    """Begin, with a list. `since`: the last sign of life that the log has of an earlier watch; from then on until this
    list nobody was looking."""

    since: LastSeen | None = None


class Resume(NamedTuple):
    """Begin with a watch, from the version that an earlier one had got to. `since`: its last sign of life."""

    since: LastSeen


class AskRelist(NamedTuple):
    """Somebody doubts what is known: list anew."""

    reason: str = "a relist was asked for"


class Stop(NamedTuple):
    """End; an answer that is still to come must not be put in any more."""


class Due(NamedTuple):
    """The time that `ListWatch.due` names has come."""


class Answered(NamedTuple):
    """An HTTP answer to `Step.ask`: `code` None when none came, or when what was open is broken; `body` may say why. To
    a watch, 200 means that it is open. `retry_after` is the wait that the server asks for, in microseconds."""

    code: int | None
    body: bytes = b""
    retry_after: int = 0


class Line(NamedTuple):
    """A line of the watch."""

    type: str
    object: bytes


class Closed(NamedTuple):
    """The server ended the watch, as it does after a while. A connection that was lost is `Answered` without a code."""


Input: TypeAlias = Start | Resume | AskRelist | Stop | Due | Answered | Line | Closed


class AskList(NamedTuple):
    """GET the collection. `continue_`: the next page of the list that is in progress."""

    limit: int
    continue_: str = ""


class AskWatch(NamedTuple):
    """GET the collection with watch=1, allowWatchBookmarks=1 and this resourceVersion."""

    resource_version: str


class Change(NamedTuple):
    """An observation: `type` ADDED, MODIFIED or DELETED, and the object's JSON. `overtaken`: a state of the object from
    before the one that is known already, such as a watch shows that goes on from an earlier version."""

    type: str
    object: bytes
    overtaken: bool = False


class Inferred(NamedTuple):
    """An object that the list proves to be gone. Its last state is what the log has of it."""

    known: Known


class Tell(NamedTuple):
    """An event about the kind as a whole."""

    event: DomainEvent


class Refused(NamedTuple):
    """What could not be used, and why: to be counted and kept aside, never stored as an object."""

    reason: str
    data: bytes


Output: TypeAlias = Change | Inferred | Tell | Refused


class Step(NamedTuple):
    """What an input led to, in order, and what is to be asked now (None: nothing new; wait for lines or `due`)."""

    outputs: list[Output]
    ask: AskList | AskWatch | None = None


# --- what is read of the answers ----------------------------------------------------------------------------------


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Object(msgspec.Struct, gc=False):
    kind: str | None = None
    metadata: _Meta | None = None


class _List(msgspec.Struct, rename="camel"):
    kind: str | None = None
    metadata: _Meta | None = None
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct, rename="camel"):
    code: int | None = None
    reason: str | None = None
    message: str | None = None


_object = msgspec.json.Decoder(_Object)
_list = msgspec.json.Decoder(_List)
_status = msgspec.json.Decoder(_Status)


class Failure(NamedTuple):
    """A refusal in the machine's words: `code` 0 when no answer came."""

    code: int
    message: str
    expired: bool


def failure(code: int | None, body: bytes) -> Failure:
    """What an answer other than a success, or an ERROR line's Status, says."""
    try:
        status = _status.decode(body) if body else _Status()
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(message=body[:200].decode("utf-8", "replace").strip())
    number = code if code is not None and code != 200 else (status.code or 0)
    message = status.message or status.reason or ("no answer came" if not number else "")
    return Failure(number, message, number == GONE or status.reason in EXPIRED_REASONS)


def _decoded(data: bytes | msgspec.Raw) -> _Object | None:
    """An object's metadata; None when the bytes are no object with a name and a uid."""
    try:
        found = _object.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    meta = found.metadata
    return found if meta is not None and meta.name and meta.uid and found.kind != "Status" else None


def _version_of(data: bytes) -> str:
    """The resourceVersion of a bookmark, '' when there is none that could be gone on from."""
    try:
        meta = _object.decode(data).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    version = (meta.resource_version if meta is not None else None) or ""
    return "" if version in NO_VERSIONS else version


def newer(known: Known | None, seen: Known) -> bool:
    """Whether what is known of an object is a later state of it than the one seen. Versions that are no numbers say
    nothing of that."""
    if known is None or known.version is None or seen.version is None:
        return False
    return seen.version < known.version < OPAQUE


# --- the machine --------------------------------------------------------------------------------------------------


class ListWatch:
    """List and watch of `kind` (our name). `known`: what the log has of the kind, when one goes on from it. Begin with
    Start or Resume, or, where a watch at `version` is open already, with `watching`. `absent`: microseconds before a
    kind is looked for again that the server doesn't have.

    state, version, due   where it stands, what it would watch from, when its wait ends (microseconds, None: no wait)
    """

    def __init__(
        self, kind: str, *, limit: int = 500, known: list[Known] | None = None, absent: int = DELAY_ABSENT
    ) -> None:
        self.kind, self.limit, self._absent = kind, limit, absent
        self.resource = BY_NAME[kind].full_resource
        self.state = State.STOPPED
        self.version = ""
        self.due: int | None = None
        self._known = {one.uid: one for one in known or ()}
        self._watches = Watches()
        self._last: LastSeen | None = None
        self._relist: Relist | None = None
        self._outage: Outage | None = None
        self._found = [0, 0, 0]
        self._items = self._tries = self._empty = self._failed = 0
        self._opened_at = 0
        self._lines = 0
        self._listed_before = bool(self._known)

    def watching(self, version: str, now: int) -> None:
        """Takes over a watch that is open already, from `version` ('' when that is not known)."""
        self.state, self.version = State.WATCHING, version
        self._opened_at, self._last, self._lines = now, LastSeen(now, version), 1
        self._listed_before = True

    @property
    def known(self) -> dict[str, Known]:
        """The objects that are there, by uid, as the machine last heard of them."""
        return self._known

    def take(self, heard: Input, now: int, luck: float = 0.0) -> Step:
        """One input at a time (microseconds). NotNow, the machine unchanged, when the state has no step for it."""
        said, told = self._read(heard, now)
        after = TRANSITIONS.get((self.state, said))
        if after is None:
            raise NotNow(f"{self.kind}: {said.value!r} while {self.state.value!r}")
        before, self.state, self.due = self.state, after, None
        outputs = self._outputs(said, heard, told, now)
        if after in (State.LIST_LATER, State.WATCH_LATER):
            self.due = now + self._delay(heard, told, luck)
        return Step(outputs, self._ask(before, said, told))

    # --- what an input says ---------------------------------------------------------------------------------------

    def _read(self, heard: Input, now: int) -> tuple[Said, Failure | _List | _Object | None]:
        if isinstance(heard, Line):
            return self._read_line(heard)
        if isinstance(heard, Answered):
            return self._read_answer(heard)
        if isinstance(heard, Closed):
            if self.version in NO_VERSIONS:
                return Said.LOST, None
            if self._lines or now - self._opened_at >= SHORT_WATCH:
                return Said.CLOSED, None
            return (Said.EMPTY if self._empty + 1 < EMPTY_MAX else Said.EMPTY_AGAIN), None
        plain = {Start: Said.START, Resume: Said.RESUME, AskRelist: Said.RELIST, Stop: Said.STOP, Due: Said.DUE}
        return plain[type(heard)], None

    def _read_answer(self, heard: Answered) -> tuple[Said, Failure | _List | None]:
        ok = heard.code is not None and 200 <= heard.code < 300
        if self.state is not State.LISTING:
            if ok:
                return Said.OPENED, None
            return self._watch_ended(failure(heard.code, heard.body))
        if not ok:
            refused = failure(heard.code, heard.body)
            return (Said.LIST_EXPIRED if refused.expired else Said.LIST_FAILED), refused
        try:
            page = _list.decode(heard.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Said.LIST_FAILED, Failure(0, f"the list cannot be read: {error}", False)
        if page.kind == "Status" or page.metadata is None:
            return Said.LIST_FAILED, failure(None, heard.body)
        if page.metadata.continue_:
            return Said.PAGE, page
        if (page.metadata.resource_version or "") in NO_VERSIONS:
            return Said.LIST_FAILED, Failure(0, "the list has no resourceVersion to watch from", False)
        return Said.LAST_PAGE, page

    def _read_line(self, line: Line) -> tuple[Said, Failure | _Object | None]:
        if line.type == "ERROR":
            return self._watch_ended(failure(None, line.object))
        if line.type == "BOOKMARK":
            return (Said.BOOKMARK if _version_of(line.object) else Said.UNUSABLE), None
        if line.type not in CHANGES:
            return Said.UNUSABLE, None
        found = _decoded(line.object)
        return (Said.CHANGE, found) if found is not None else (Said.UNUSABLE, None)

    def _watch_ended(self, refused: Failure) -> tuple[Said, Failure]:
        if refused.expired:
            return Said.EXPIRED, refused
        if self.version in NO_VERSIONS:
            return Said.LOST, refused
        often = refused.code not in PASSING and self._failed + 1 >= FAILED_MAX
        return (Said.FAILED_OFTEN if often else Said.FAILED), refused

    # --- what follows ---------------------------------------------------------------------------------------------

    def _outputs(self, said: Said, heard: Input, told: Failure | _List | _Object | None, now: int) -> list[Output]:
        if isinstance(told, _List):
            return self._page(told, now, last=said is Said.LAST_PAGE)
        if isinstance(told, Failure):
            return self._failure(said, told, now)
        if isinstance(heard, Line):
            return self._line(said, heard, told, now)
        if said is Said.OPENED:
            # No sign of life: a server also opens a watch from a version it has lost; its first line says so.
            self._opened_at, self._lines = now, 0
            return [Tell(WatchStarted(resource=self.resource, resource_version=self.version))]
        if isinstance(heard, Start | Resume) and heard.since is not None:
            self._last, self.version, self._listed_before = heard.since, heard.since.version, True
            self._broke("the recorder was started again")
        if isinstance(heard, AskRelist):
            self._broke(heard.reason)
        if said is Said.CLOSED:
            self._last = LastSeen(now, self.version)  # it was open until now, so all that happened was sent
        if said is Said.EMPTY:
            self._empty += 1
            return [self._failed_with(200, said.value)]
        if said is Said.EMPTY_AGAIN:
            self._empty = 0
            reason = f"{EMPTY_MAX} watches in a row ended at once, without a line"
            self._broke(reason)
            return [self._failed_with(200, reason)]
        if said is Said.LOST:
            self._broke(said.value)
        return []

    def _failed_with(self, code: int, message: str) -> Tell:
        return Tell(WatchFailed(resource=self.resource, code=code, message=message))

    def _line(self, said: Said, line: Line, found: _Object | None, now: int) -> list[Output]:
        if said is not Said.UNUSABLE:
            self._lines += 1
            self._empty = self._failed = self._tries = 0
            self._watches.resumed(self.kind)
        if said is Said.BOOKMARK:
            self._heard(_version_of(line.object), now)
            return [Tell(Bookmark(resource=self.resource, resource_version=self.version))]
        if found is None or found.metadata is None:
            return [Refused(f"a {line.type} line of {self.resource} without a usable object", line.object)]
        meta = found.metadata
        one = self._as_known(meta)
        overtaken = newer(self._known.get(one.uid), one)
        if not overtaken and line.type == "DELETED":
            self._known.pop(one.uid, None)
        elif not overtaken:
            self._known[one.uid] = one
        self._heard(meta.resource_version or "", now)
        return [Change(line.type, line.object, overtaken)]

    def _heard(self, version: str, now: int) -> None:
        """A sign of life with a version; one that is none changes nothing about where to go on from."""
        if version not in NO_VERSIONS:
            self.version = version
        self._last = LastSeen(now, self.version)

    def _failure(self, said: Said, refused: Failure, now: int) -> list[Output]:
        if said in (Said.LIST_EXPIRED, Said.LIST_FAILED):
            return [self._failed_with(refused.code, refused.message)]
        self._broke(f"{refused.code or 'error'}: {refused.message}")
        if said is Said.EXPIRED:
            return [Tell(WatchExpired(resource=self.resource, resource_version=self.version, message=refused.message))]
        if said is Said.FAILED_OFTEN:
            self._failed = 0
        elif refused.code not in PASSING:
            self._failed += 1
        return [self._failed_with(refused.code, refused.message)]

    def _broke(self, reason: str) -> None:
        if self._last is not None:
            self._watches.broke(self.kind, self._last, reason)

    def _page(self, page: _List, now: int, *, last: bool) -> list[Output]:
        """A page of a list, and what the whole list proves once it is the last."""
        if self._relist is None:
            self._relist, self._items = Relist(self._known.values()), 0
            if self._outage is None:
                self._outage = self._watches.listed(self.kind, self._last, self._listed_before)
        outputs: list[Output] = []
        for raw in page.items or ():
            outputs += self._item(self._relist, bytes(raw))
        if not last:
            return outputs
        relist, self._relist = self._relist, None
        for gone in relist.missing():
            self._known.pop(gone.uid, None)
            outputs.append(Inferred(gone))
        version = (page.metadata.resource_version if page.metadata is not None else None) or ""
        if self._outage is not None:
            outputs.append(Tell(self._gap(self._outage, version, relist, now)))
        outputs.append(
            Tell(
                ListCompleted(
                    resource=self.resource, resource_version=version, items=self._items, relist=self._listed_before
                )
            )
        )
        self.version, self._last = version, LastSeen(now, version)
        self._listed_before, self._tries, self._failed, self._outage = True, 0, 0, None
        self._found = [0, 0, 0]
        return outputs

    def _give_up_list(self) -> None:
        """A list that was cut off is begun anew; what it had found is part of what the gap turns out to be."""
        if self._relist is not None:
            counts = self._relist.added, self._relist.changed, self._relist.deleted
            self._found = [sum(pair) for pair in zip(self._found, counts, strict=True)]
        self._relist = None

    def _item(self, relist: Relist, data: bytes) -> list[Output]:
        self._items += 1
        found = _decoded(data)
        if found is None or found.metadata is None:
            return [Refused(f"an item of the list of {self.resource} without a usable object", data)]
        one = self._as_known(found.metadata)
        change = relist.item(one.namespace, one.name, one.uid, one.version)
        outputs: list[Output] = []
        if change.replaced is not None:
            self._known.pop(change.replaced.uid, None)
            outputs.append(Inferred(change.replaced))
        self._known[one.uid] = one
        if change.change in (NEW, CHANGED):
            outputs.append(Change("ADDED" if change.change == NEW else "MODIFIED", data))
        return outputs

    def _gap(self, outage: Outage, version: str, relist: Relist, now: int) -> GapRecorded:
        return GapRecorded(
            resource=self.resource,
            from_time=outage.since.time,
            to_time=now,
            from_resource_version=outage.since.version,
            to_resource_version=version,
            added=relist.added + self._found[0],
            modified=relist.changed + self._found[1],
            deleted=relist.deleted + self._found[2],
            reason=outage.reason,
        )

    def _as_known(self, meta: _Meta) -> Known:
        version = resource_version_key(meta.resource_version)
        return Known(meta.namespace or "", meta.name or "", meta.uid or "", version, 0)

    def _delay(self, heard: Input, told: Failure | _List | _Object | None, luck: float) -> int:
        """Microseconds until the next try; the longest only grows until something works again."""
        delay = min(DELAY_MIN << min(self._tries, 16), DELAY_MAX)
        self._tries += 1
        if isinstance(told, Failure) and told.code in ABSENT:
            delay = max(delay, self._absent) if self.state is State.LIST_LATER else delay
        asked = heard.retry_after if isinstance(heard, Answered) else 0
        return int(max(delay, asked) * (1 + luck))

    def _ask(self, before: State, said: Said, told: Failure | _List | _Object | None) -> AskList | AskWatch | None:
        if self.state is State.LISTING:
            if said is Said.PAGE and isinstance(told, _List) and told.metadata is not None:
                return AskList(self.limit, told.metadata.continue_ or "")
            self._give_up_list()
            return AskList(self.limit)
        if self.state is State.OPENING and before is not State.OPENING:
            return AskWatch(self.version)
        return None


__all__ = [
    "TRANSITIONS",
    "Answered",
    "AskList",
    "AskRelist",
    "AskWatch",
    "Change",
    "Closed",
    "Due",
    "Inferred",
    "Input",
    "Line",
    "ListWatch",
    "NotNow",
    "Output",
    "Refused",
    "Resume",
    "Said",
    "Start",
    "State",
    "Step",
    "Stop",
    "Tell",
]
