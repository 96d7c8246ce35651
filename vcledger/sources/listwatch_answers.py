"""What list and watch read of the API server's answers: pages of lists, the metadata of objects, and why something
failed.

Owns these partial structs and their decoders. Must not know the machine. Errors: bytes that cannot be read are None, an
empty version or a `Failure` that says so, never an exception. Called by `vcledger.sources.listwatch`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

GONE = 410
EXPIRED_REASONS = frozenset({"Expired", "Gone"})

NO_VERSIONS = frozenset({"", "0", "None", "null"})
"""What is no version to go on from: 0 means "any", and the words are what empty ones become on the way."""


class Meta(msgspec.Struct, rename="camel", gc=False):
    """The metadata of an object, or of a list, as far as it is looked at."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class ObjectHead(msgspec.Struct, gc=False):
    """An object without its content."""

    kind: str | None = None
    metadata: Meta | None = None


class Page(msgspec.Struct, rename="camel"):
    """A page of a list; its items are left as they stand there."""

    kind: str | None = None
    metadata: Meta | None = None
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct, rename="camel"):
    code: int | None = None
    reason: str | None = None
    message: str | None = None


_object = msgspec.json.Decoder(ObjectHead)
PAGES = msgspec.json.Decoder(Page)
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


def object_head(data: bytes | msgspec.Raw) -> ObjectHead | None:
    """An object's metadata; None when the bytes are no object with a name and a uid."""
    try:
        found = _object.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    meta = found.metadata
    return found if meta is not None and meta.name and meta.uid and found.kind != "Status" else None


def version_of(data: bytes) -> str:
    """The resourceVersion of a bookmark, '' when there is none that could be gone on from."""
    try:
        meta = _object.decode(data).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    version = (meta.resource_version if meta is not None else None) or ""
    return "" if version in NO_VERSIONS else version
