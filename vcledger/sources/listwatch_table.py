"""The table of list and watch: the states of one kind, what an input comes to in each, and where that leads.

Owns the states, the words for inputs and the transitions; the exhaustive test goes through this table. Must not know
what is asked, stored or waited for. Called by `vcledger.sources.listwatch`.
"""

from __future__ import annotations

from enum import StrEnum


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
