"""List and watch of one kind, as a state machine: what to ask next, and what each answer says.

Owns what follows from a list, a watch line, a refusal and the end of a watch; the table of states is
`vcledger.sources.listwatch_table`. Pure: must not know transports (they stand behind `vcledger.runtime.port`), the log,
time or random, which come in as values. Called by the recorder (`vcledger.record.feed`), the scheduler's informers, the
simulated feeds and the scenario runner, which carry out `Step.ask` and put what was answered back in.

Where it goes on from (`ListWatch.version`) is the version of a list, of a bookmark or of the last watch line, never
that of a list's item and never that of a Status. 410, as the answer to the watch or as an ERROR line in it, means a new
list; so do several watches in a row that end at once without a line (a stale watch of Events answers 200 with nothing),
and several that fail. What a list proves is worked out by `vcledger.sources.lists`. Back-off as in client-go's
reflector: 800 ms doubling up to 30 s, up to twice as long by `luck`, a number in [0, 1) that the caller draws; never
shorter than the server asks for, and at once a minute where it has no such resource, or gives no right to it.
"""

from __future__ import annotations

import msgspec

from vcledger.codec import OPAQUE, resource_version_key
from vcledger.errors import VcledgerError
from vcledger.sources.lists import CHANGED, NEW, Known, LastSeen, Outage, Relist, Watches
from vcledger.sources.listwatch_answers import (
    NO_VERSIONS,
    PAGES,
    Failure,
    Meta,
    ObjectHead,
    Page,
    failure,
    object_head,
    version_of,
)
from vcledger.sources.listwatch_table import TRANSITIONS, Said, State
from vcledger.sources.listwatch_words import (
    CHANGES,
    Answered,
    AskList,
    AskRelist,
    AskWatch,
    Change,
    Closed,
    Due,
    Inferred,
    Input,
    Line,
    Output,
    Refused,
    Resume,
    Start,
    Step,
    Stop,
    Tell,
)
from volcano.events.observation import Bookmark, GapRecorded, ListCompleted, WatchExpired, WatchFailed, WatchStarted
from volcano.objects.kinds import BY_NAME

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


class NotNow(VcledgerError):
    """An input that the machine's state has no step for: its driver is broken. The machine is as it was."""


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

    def _read(self, heard: Input, now: int) -> tuple[Said, Failure | Page | ObjectHead | None]:
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

    def _read_answer(self, heard: Answered) -> tuple[Said, Failure | Page | None]:
        ok = heard.code is not None and 200 <= heard.code < 300
        if self.state is not State.LISTING:
            if ok:
                return Said.OPENED, None
            return self._watch_ended(failure(heard.code, heard.body))
        if not ok:
            refused = failure(heard.code, heard.body)
            return (Said.LIST_EXPIRED if refused.expired else Said.LIST_FAILED), refused
        try:
            page = PAGES.decode(heard.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Said.LIST_FAILED, Failure(0, f"the list cannot be read: {error}", False)
        if page.kind == "Status" or page.metadata is None:
            return Said.LIST_FAILED, failure(None, heard.body)
        if page.metadata.continue_:
            return Said.PAGE, page
        if (page.metadata.resource_version or "") in NO_VERSIONS:
            return Said.LIST_FAILED, Failure(0, "the list has no resourceVersion to watch from", False)
        return Said.LAST_PAGE, page

    def _read_line(self, line: Line) -> tuple[Said, Failure | ObjectHead | None]:
        if line.type == "ERROR":
            return self._watch_ended(failure(None, line.object))
        if line.type == "BOOKMARK":
            return (Said.BOOKMARK if version_of(line.object) else Said.UNUSABLE), None
        if line.type not in CHANGES:
            return Said.UNUSABLE, None
        found = object_head(line.object)
        return (Said.CHANGE, found) if found is not None else (Said.UNUSABLE, None)

    def _watch_ended(self, refused: Failure) -> tuple[Said, Failure]:
        if refused.expired:
            return Said.EXPIRED, refused
        if self.version in NO_VERSIONS:
            return Said.LOST, refused
        often = refused.code not in PASSING and self._failed + 1 >= FAILED_MAX
        return (Said.FAILED_OFTEN if often else Said.FAILED), refused

    # --- what follows ---------------------------------------------------------------------------------------------

    def _outputs(self, said: Said, heard: Input, told: Failure | Page | ObjectHead | None, now: int) -> list[Output]:
        if isinstance(told, Page):
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

    def _line(self, said: Said, line: Line, found: ObjectHead | None, now: int) -> list[Output]:
        if said is not Said.UNUSABLE:
            self._lines += 1
            self._empty = self._failed = self._tries = 0
            self._watches.resumed(self.kind)
        if said is Said.BOOKMARK:
            self._heard(version_of(line.object), now)
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

    def _page(self, page: Page, now: int, *, last: bool) -> list[Output]:
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
        found = object_head(data)
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

    def _as_known(self, meta: Meta) -> Known:
        version = resource_version_key(meta.resource_version)
        return Known(meta.namespace or "", meta.name or "", meta.uid or "", version, 0)

    def _delay(self, heard: Input, told: Failure | Page | ObjectHead | None, luck: float) -> int:
        """Microseconds until the next try; the longest only grows until something works again."""
        delay = min(DELAY_MIN << min(self._tries, 16), DELAY_MAX)
        self._tries += 1
        if isinstance(told, Failure) and told.code in ABSENT:
            delay = max(delay, self._absent) if self.state is State.LIST_LATER else delay
        asked = heard.retry_after if isinstance(heard, Answered) else 0
        return int(max(delay, asked) * (1 + luck))

    def _ask(self, before: State, said: Said, told: Failure | Page | ObjectHead | None) -> AskList | AskWatch | None:
        if self.state is State.LISTING:
            if said is Said.PAGE and isinstance(told, Page) and told.metadata is not None:
                return AskList(self.limit, told.metadata.continue_ or "")
            self._give_up_list()
            return AskList(self.limit)
        if self.state is State.OPENING and before is not State.OPENING:
            return AskWatch(self.version)
        return None


__all__ = [
    "DELAY_ABSENT",
    "NO_VERSIONS",
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
