"""Requests to an API server and its answers, as values.

Owns their shapes and their path. Must not know who carries them out. Called by the deciders, which make them, and by
`vcledger.runtime.port` and the servers behind it.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from volcano.objects.kinds import BY_NAME


def path_of(kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """The URL path of an object or collection: `/api/v1/namespaces/default/pods/p1/binding`."""
    path = _collection(kind, namespace)
    if name:
        path = f"{path}/{name}"
    return f"{path}/{subresource}" if subresource else path


@lru_cache(maxsize=4_096)
def _collection(kind: str, namespace: str) -> str:
    found = BY_NAME[kind]
    group = f"/apis/{found.group}/{found.versions[0]}" if found.group else f"/api/{found.versions[0]}"
    where = f"/namespaces/{namespace}" if found.namespaced and namespace else ""
    return f"{group}{where}/{found.resource}"


class Request(msgspec.Struct, frozen=True, tag=True):
    """Base of all requests. `verb` is HTTP's, `path` the URL's path."""

    @property
    def verb(self) -> str:
        raise NotImplementedError

    @property
    def path(self) -> str:
        raise NotImplementedError


class Get(Request, frozen=True):
    kind: str
    namespace: str
    name: str

    @property
    def verb(self) -> str:
        return "GET"

    @property
    def path(self) -> str:
        return path_of(self.kind, self.namespace, self.name)


class Update(Request, frozen=True):
    """PUT of a whole object (JSON in `body`); its metadata.resourceVersion makes it conditional."""

    kind: str
    namespace: str
    name: str
    body: bytes
    subresource: str = ""

    @property
    def verb(self) -> str:
        return "PUT"

    @property
    def path(self) -> str:
        return path_of(self.kind, self.namespace, self.name, self.subresource)


class Patch(Request, frozen=True):
    """Merge patch (JSON in `body`) of an object or its status: a strategic one, or with `plain` JSON's own (RFC 7386),
    which is the only one that custom resources take. `uid` in the patch is a precondition, `resourceVersion` too."""

    kind: str
    namespace: str
    name: str
    body: bytes
    subresource: str = ""
    plain: bool = False

    @property
    def verb(self) -> str:
        return "PATCH"

    @property
    def path(self) -> str:
        return path_of(self.kind, self.namespace, self.name, self.subresource)


class Create(Request, frozen=True):
    """POST of a new object (JSON in `body`)."""

    kind: str
    namespace: str
    body: bytes

    @property
    def verb(self) -> str:
        return "POST"

    @property
    def path(self) -> str:
        return path_of(self.kind, self.namespace)


class Bind(Request, frozen=True):
    """POST pods/binding with the pod's namespace, name, UID and annotations, the node as target (Volcano's Binder)."""

    namespace: str
    name: str
    uid: str
    node: str
    annotations: dict[str, str] = {}

    @property
    def verb(self) -> str:
        return "POST"

    @property
    def path(self) -> str:
        return path_of("Pod", self.namespace, self.name, "binding")


class Delete(Request, frozen=True):
    """DELETE with an optional UID precondition; an eviction is a delete of a pod with its grace period."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    grace_seconds: int | None = None

    @property
    def verb(self) -> str:
        return "DELETE"

    @property
    def path(self) -> str:
        return path_of(self.kind, self.namespace, self.name)


class CallHandler(Request, frozen=True):
    """No request to the API server: the call of a task's own bind error handler by its name. Whoever carries effects
    out answers 200 when the handler returned, and any other code with the error's text as body when it failed."""

    handler: str
    namespace: str
    name: str
    uid: str
    node: str

    @property
    def verb(self) -> str:
        return "CALL"

    @property
    def path(self) -> str:
        return f"handlers/{self.handler}"


class Answer(msgspec.Struct, frozen=True):
    """`code`: HTTP status, None when no answer came. `body`: the JSON answered, an object, a list or a Status; where no
    answer came, the reason in words, if it is known. `retry_after_seconds`: how long the server asks to be left alone
    (its header Retry-After), 0 when it does not."""

    code: int | None
    body: bytes = b""
    retry_after_seconds: int = 0

    @property
    def ok(self) -> bool:
        return self.code is not None and 200 <= self.code < 300
