"""The parts that all API objects share: metadata, label selectors, object references.

Owns the base class of every partial struct. Must not know any kind. Called by the modules of the kinds.

A partial struct names only the fields that a scheduler or a person asking "why" reads; all others are skipped by the
decoder without being built. A Go slice, map or pointer may arrive as null, so every such field is optional, and
readers write `x or ()`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Quantity: TypeAlias = str | int | float
"""A resource quantity as JSON carries it: a string such as '100m', or a bare number."""

ResourceMap: TypeAlias = dict[str, Quantity]
"""Resource name to quantity, as in `requests`, `allocatable`, `hard`."""


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True):
    """Base of every partial struct: immutable, camelCase on the wire, unknown fields skipped."""


class OwnerReference(Part, frozen=True):
    """meta/v1 OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Part, frozen=True):
    """meta/v1 ObjectMeta without managedFields."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class LabelSelectorRequirement(Part, frozen=True):
    """meta/v1 LabelSelectorRequirement; operator is In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Part, frozen=True):
    """meta/v1 LabelSelector: all of match_labels and match_expressions must hold; an empty one selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class ObjectReference(Part, frozen=True):
    """core/v1 ObjectReference: what an Event, a claimRef or a Binding's target speaks of."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""
