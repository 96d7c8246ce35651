"""Strategic merge patch, as far as the kinds here need it, and JSON's own (RFC 7386).

Owns the merging of JSON values. Must not know the server. Called by `vcledger.sim.writes`.

After apimachinery's pkg/util/strategicpatch and the patch tags of core/v1: lists with a merge key are merged item by
item, some lists of plain values are united, everything else is replaced; null removes; `$patch` replaces or deletes.
"""

from __future__ import annotations

from typing import Any

MERGE_KEYS: dict[str, str] = {
    "status.conditions": "type",
    "metadata.ownerReferences": "uid",
    "spec.containers": "name",
    "spec.initContainers": "name",
    "spec.volumes": "name",
    "spec.schedulingGates": "name",
    "spec.imagePullSecrets": "name",
    "spec.hostAliases": "ip",
    "spec.topologySpreadConstraints": "topologyKey",
    "spec.taints": "key",
    "status.addresses": "type",
}
"""Path of a list to the field by which its items are told apart."""

UNITED: tuple[str, ...] = ("metadata.finalizers",)
"""Paths of lists of plain values that a patch adds to."""

_DIRECTIVES = ("$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys")


class BadPatch(ValueError):
    """The patch is not an object, or an item of a merged list lacks its merge key."""


def merged(before: Any, patch: Any, path: str = "") -> Any:
    """What a value becomes by a patch; `before` is left as it was."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(before, dict) or patch.get("$patch") == "replace":
        before = {}
    after = dict(before)
    for name, value in patch.items():
        if name == "$patch":
            continue
        if name.startswith(_DIRECTIVES):
            _directive(after, name, value)
            continue
        where = f"{path}.{name}" if path else name
        if value is None:
            after.pop(name, None)
        elif isinstance(value, list) and where in MERGE_KEYS:
            old = after.get(name) or []
            after[name] = _ordered(_by_key(old, value, MERGE_KEYS[where], where), old, value, MERGE_KEYS[where])
        elif isinstance(value, list) and where in UNITED:
            old = after.get(name) or []
            after[name] = _ordered([*old, *(item for item in value if item not in old)], old, value)
        elif isinstance(value, dict):
            if value.get("$patch") == "delete":
                after.pop(name, None)
            else:
                after[name] = merged(after.get(name) or {}, value, where)
        else:
            after[name] = value
    return after


def plainly_merged(before: Any, patch: Any) -> Any:
    """What a value becomes by a merge patch of RFC 7386: null removes, lists are replaced whole; `before` is left as it
    was."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = plainly_merged(after.get(name), value)
    return after


def _directive(after: dict[str, Any], name: str, value: Any) -> None:
    """The directives that change lists of plain values, or drop keys; the order of merged items is kept as it is."""
    if name.startswith("$deleteFromPrimitiveList/"):
        field = name.partition("/")[2]
        if isinstance(after.get(field), list):
            after[field] = [item for item in after[field] if item not in value]
    elif name == "$retainKeys":
        for key in [key for key in after if key not in value]:
            del after[key]


def _by_key(before: list[Any], patch: list[Any], key: str, path: str) -> list[Any]:
    after = list(before)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise BadPatch(f"map: {_go(item)} does not contain declared merge key: {key}")
        found = next((at for at, old in enumerate(after) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if found is not None:
                del after[found]
        elif found is None:
            after.append(merged({}, item, f"{path}[]"))
        else:
            after[found] = merged(after[found], item, f"{path}[]")
    return after


def _ordered(items: list[Any], before: list[Any], patch: list[Any], key: str = "") -> list[Any]:
    """The items of a merged list in the real one's order (strategicpatch's normalizeElementOrder): those of the patch
    as the patch has them; the others as they were, each before the first of the patch's that it stood before, and
    behind all those that are new or that it did not."""

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    was = {name(item): at for at, item in reversed(list(enumerate(before)))}
    wanted = {name(item): at for at, item in reversed(list(enumerate(patch)))}
    theirs = sorted((item for item in items if name(item) in wanted), key=lambda item: wanted[name(item)])
    others = [item for item in items if name(item) not in wanted]
    after: list[Any] = []
    for item in theirs:
        while others and name(item) in was and was[name(others[0])] < was[name(item)]:
            after.append(others.pop(0))
        after.append(item)
    return [*after, *others]


def _go(item: Any) -> str:
    """A map as Go prints it."""
    return f"map[{' '.join(f'{name}:{item[name]}' for name in sorted(item))}]" if isinstance(item, dict) else str(item)
