"""The Status objects with which an API server refuses or confirms.

Owns their shapes and texts, which are the real server's, so that code that reads them meets what it will meet outside
(k8s.io/apimachinery pkg/api/errors, apiserver pkg/registry and pkg/storage). Must not know who was refused or why.
Called by every module of the simulated server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from vcledger.runtime.port import Answer
from volcano.objects.kinds import Kind

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""The optimistic lock's text (genericregistry.OptimisticLockErrorMsg)."""


class Refused(Exception):
    """A request that the server refuses: the Status it answers with, and the code."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status["message"])
        self.status = status
        self.code: int = status["code"]

    @property
    def answer(self) -> Answer:
        return Answer(self.code, msgspec.json.encode(self.status))


def failure(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A Status of a failed request."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details:
        status["details"] = details
    status["code"] = code
    return status


def qualified(resource: str, group: str) -> str:
    """`pods`, or `podgroups.scheduling.volcano.sh`: a GroupResource as texts show it."""
    return f"{resource}.{group}" if group else resource


def _details(kind: Kind, name: str, shown: str = "") -> dict[str, Any]:
    details: dict[str, Any] = {"name": name}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = shown or kind.resource
    return details


def not_found(kind: Kind, name: str) -> Refused:
    """404: there is no object of that name."""
    text = f'{qualified(kind.resource, kind.group)} "{name}" not found'
    return Refused(failure(404, "NotFound", text, _details(kind, name)))


def already_exists(kind: Kind, name: str, *, going: bool = False) -> Refused:
    """409 on a create: the name is taken; `going`: by one that is being deleted."""
    text = f'{qualified(kind.resource, kind.group)} "{name}" already exists'
    text = f"object is being deleted: {text}" if going else text
    return Refused(failure(409, "AlreadyExists", text, _details(kind, name)))


def conflict(kind: Kind, name: str, why: str, *, shown: str = "") -> Refused:
    """409: the write is based on what is no longer so. `shown`: the resource as the text shows it, such as
    `pods/binding` where a binding is refused."""
    shown = shown or kind.resource
    text = f'Operation cannot be fulfilled on {qualified(shown, kind.group)} "{name}": {why}'
    return Refused(failure(409, "Conflict", text, _details(kind, name, shown)))


def uid_precondition(kind: Kind, key: str, name: str, wanted: str, found: str) -> Refused:
    """409: the object of that name is another one (storage.Preconditions, checked in etcd's transaction)."""
    storage = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{_stored_as(kind)}/{key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return conflict(kind, name, storage)


def _stored_as(kind: Kind) -> str:
    """Where etcd has a kind: custom resources under their group, nodes under the name that they had at first."""
    if kind.name == "Node":
        return "minions"
    return f"{kind.group}/{kind.resource}" if kind.group.endswith("volcano.sh") else kind.resource


def uid_of_delete(kind: Kind, name: str, wanted: str, found: str) -> Refused:
    """409 on a delete with a UID (rest.BeforeDelete, which names the kind where others name the resource)."""
    why = (
        f"the UID in the precondition ({wanted}) does not match the UID in record ({found}). "
        "The object might have been deleted and then recreated"
    )
    return conflict(kind, name, why, shown=kind.api_kind)


def invalid(kind: Kind, name: str, field: str, why: str, *, reason: str = "FieldValueInvalid") -> Refused:
    """422: a field may not be as it is, or may not change."""
    return all_invalid(kind, name, [(field, why, reason)])


def all_invalid(kind: Kind, name: str, found: Sequence[tuple[str, str, str]]) -> Refused:
    """422 for one or several fields, each with why and the reason as one word."""
    causes = [{"reason": reason, "message": why, "field": field} for field, why, reason in found]
    details = {"name": name, "group": kind.group, "kind": kind.api_kind, "causes": causes}
    if not kind.group:
        del details["group"]
    said = ", ".join(f"{field}: {why}" for field, why, _ in found)
    said = f"[{said}]" if len(found) > 1 else said
    return Refused(
        failure(422, "Invalid", f'{qualified(kind.api_kind, kind.group)} "{name}" is invalid: {said}', details)
    )


def no_version(kind: Kind, name: str) -> Refused:
    """422: a custom resource can't be updated blindly. The text names the resource, where others name the kind."""
    field, why = "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
    details = {**_details(kind, name), "causes": [{"reason": "FieldValueInvalid", "message": why, "field": field}]}
    return Refused(
        failure(422, "Invalid", f'{qualified(kind.resource, kind.group)} "{name}" is invalid: {field}: {why}', details)
    )


def bad_request(message: str) -> Refused:
    """400."""
    return Refused(failure(400, "BadRequest", message))


def unknown_path() -> Refused:
    """404 for a path that the server has not."""
    return Refused({**failure(404, "NotFound", "the server could not find the requested resource"), "details": {}})


def nameless(message: str) -> Refused:
    """500 of an error that the server has no word for: the Status has a message and no reason."""
    status = failure(500, "", message)
    del status["reason"]
    return Refused(status)


def unsupported_patch() -> Refused:
    """415: custom resources take no strategic merge patch."""
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )
    return Refused(failure(415, "UnsupportedMediaType", text))


def expired(message: str, continue_: str = "") -> dict[str, Any]:
    """410 Expired, as an answer's body or as a watch's ERROR line; with the token to go on with, if there is one."""
    status = failure(410, "Expired", message)
    if continue_:
        status["metadata"] = {"continue": continue_}
    return status


def too_old_watch(version: int, oldest: int) -> dict[str, Any]:
    """A watch from before what the server still has (the watch cache's text)."""
    return expired(f"too old resource version: {version} ({oldest})")


def throttled(seconds: int) -> dict[str, Any]:
    """429 with the wait that the server asks for."""
    text = "the server has received too many requests and has asked us to try again later"
    return failure(429, "TooManyRequests", text, {"retryAfterSeconds": seconds})


def internal(message: str) -> dict[str, Any]:
    """500."""
    return failure(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def success(code: int, details: dict[str, Any] | None = None) -> Answer:
    """A Status of success, with which deletes and bindings are answered."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code != 200:
        status["code"] = code
    return Answer(code, msgspec.json.encode(status))
