"""The volume family: what was assumed for a pod's claims, each API update for it, the wait, and how it ended.

Owns these events. Must not know the volume binder. Called through `volcano.events.catalog`.

PVUpdate* stand in the PersistentVolume's stream and PVCUpdate* in the claim's, each naming the pod; the others stand in
the pod's. A claim is named `namespace/name`. A Requested event is an intent: it is in the log before the request goes
out. Its outcome names it by position (`intent`), None only where both come out of one audit line.
The steps are those of the seed's BindPodVolumes, bindAPIUpdate and checkBindings.
"""

from __future__ import annotations

from volcano.events.base import DomainEvent, TaskRef, Value


class StaticBinding(Value, frozen=True):
    """A claim that is to be bound to a volume that exists."""

    volume: str
    claim: str
    volume_uid: str = ""
    claim_uid: str = ""


class Provision(Value, frozen=True):
    """A claim for which a volume is to be made, on the node that its selected-node annotation names."""

    claim: str
    claim_uid: str = ""
    storage_class: str = ""
    provisioner: str = ""


class SharedClaim(Value, frozen=True):
    """A claim that another pod's binding, under way, is to bind: to `volume`, or '' where one is to be made."""

    claim: str
    claim_uid: str = ""
    volume: str = ""


class VolumeWait(Value, frozen=True):
    """One thing that is not there yet. `kind` and `name` say of which object (a claim as namespace/name)."""

    kind: str
    name: str
    why: str


class VolumesAssumed(DomainEvent, frozen=True):
    """The cache now holds these claims and volumes as if bound for the pod on `node`. `shared` are waited for, but are
    another pod's to write and to revert. `all_bound`: there was nothing to assume nor to wait for."""

    node: str
    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    all_bound: bool = False
    shared: tuple[SharedClaim, ...] = ()


class PVUpdateRequested(DomainEvent, frozen=True):
    """Intent: PUT of the volume with its claimRef set. `sent_resource_version` is the one it was based on."""

    pod: TaskRef
    claim: str
    claim_uid: str = ""
    sent_resource_version: str = ""
    attempt: int = 1


class PVUpdateSucceeded(DomainEvent, frozen=True):
    """`new_resource_version`: what the API server answered; checks wait until the cache has seen it."""

    pod: TaskRef
    claim: str
    new_resource_version: str = ""
    intent: int | None = None


class PVUpdateFailed(DomainEvent, frozen=True):
    """`code` 0: no answer came (`answer_lost`), so the update may have happened."""

    pod: TaskRef
    claim: str
    code: int
    reason: str = ""
    message: str = ""
    answer_lost: bool = False
    intent: int | None = None


class PVCUpdateRequested(DomainEvent, frozen=True):
    """Intent: PUT of the claim with its selected-node annotation set to `node`."""

    pod: TaskRef
    node: str
    sent_resource_version: str = ""
    attempt: int = 1


class PVCUpdateSucceeded(DomainEvent, frozen=True):
    """`new_resource_version`: what the API server answered; checks wait until the cache has seen it."""

    pod: TaskRef
    node: str
    new_resource_version: str = ""
    intent: int | None = None


class PVCUpdateFailed(DomainEvent, frozen=True):
    """`code` 0: no answer came (`answer_lost`), so the update may have happened."""

    pod: TaskRef
    node: str
    code: int
    reason: str = ""
    message: str = ""
    answer_lost: bool = False
    intent: int | None = None


class BindingChecked(DomainEvent, frozen=True):
    """One look at whether the pod's claims are bound. `waiting` with what for; `check` counts from 1 within the
    attempt, `waited_seconds` since its start, and the attempt ends at `timeout_seconds`."""

    node: str
    waiting: bool
    waits: tuple[VolumeWait, ...] = ()
    check: int = 1
    waited_seconds: float = 0.0
    timeout_seconds: float = 0.0


class VolumesBound(DomainEvent, frozen=True):
    """Every claim that was worked on is bound; the pod can be bound to its node."""

    node: str
    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    checks: int = 0
    waited_seconds: float = 0.0


class VolumesReverted(DomainEvent, frozen=True):
    """The assumptions on these volumes and claims were dropped. `written` are those of them, `kind/name`, that the API
    server had already taken: dropped here, but it still holds them."""

    reason: str
    message: str = ""
    node: str = ""
    volumes: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


class VolumeBindingFailed(DomainEvent, frozen=True):
    """The attempt to bind the pod's volumes ended without success. `kind` and `name` are the object that broke it,
    `code` the API server's when it was a refusal; `timed_out`: only time ran out, nothing else broke."""

    node: str
    reason: str
    message: str = ""
    timed_out: bool = False
    kind: str = ""
    name: str = ""
    code: int = 0
    attempt: int = 1
    waited_seconds: float = 0.0
