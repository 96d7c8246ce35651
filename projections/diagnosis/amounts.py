"""Arithmetic and wording of amounts of resources.

Owns the comparison with Volcano's epsilon and how an amount is shown to people. Must not know nodes or pods. Called by
the predicates and by the queue checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from projections.diagnosis.views import Amounts

EPSILON = 0.1
"""Volcano's minResource: `a <= b` is `a < b or |a - b| < 0.1` (vector 091)."""

ALWAYS = ("cpu", "memory")
"""Resources that every comparison looks at, asked or not."""

UNITS = ("pods",)
UNIT_PREFIXES = ("attachable-volumes-",)
_BINARY = (("Ei", 1 << 60), ("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def less_equal(left: float, right: float) -> bool:
    """`left <= right` up to Volcano's epsilon."""
    return left < right or abs(left - right) < EPSILON


def exceeding(asked: Mapping[str, float], available: Mapping[str, float]) -> list[str]:
    """The resources of which more is asked than there is, in the scheduler's order: cpu, memory, then the others by
    name (Volcano goes through a map there). As in Resource.LessEqualWithResourcesName, cpu and memory are compared even
    when nothing of them is asked, so a node in debt refuses every pod; other resources only when asked."""
    have, want = available.get, asked.get
    names = [name for name in ALWAYS if want(name, 0.0) - have(name, 0.0) >= EPSILON]
    others = [name for name, amount in asked.items() if amount - have(name, 0.0) >= EPSILON and name not in ALWAYS]
    return names + sorted(others) if others else names


def covers(asked: Mapping[str, float], available: Mapping[str, float]) -> bool:
    """Whether nothing is `exceeding`, for whoever does not ask what is."""
    have = available.get
    for name, amount in asked.items():
        if amount - have(name, 0.0) >= EPSILON:
            return False
    return not [name for name in ALWAYS if name not in asked and -have(name, 0.0) >= EPSILON]


def exceeding_asked(total: Mapping[str, float], limit: Mapping[str, float], asked: Mapping[str, float]) -> list[str]:
    """The resources that are asked and of which `total` is over `limit` (LessEqualWithDimensionAndResourcesName)."""
    ordered = [name for name in ("cpu", "memory") if asked.get(name, 0.0) > 0]
    ordered += [name for name in sorted(asked) if name not in {"cpu", "memory"} and asked[name] > 0]
    return [name for name in ordered if not less_equal(total.get(name, 0.0), limit.get(name, 0.0))]


def add(left: Mapping[str, float], right: Mapping[str, float]) -> Amounts:
    """The sum, resource by resource."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0.0) + amount
    return total


def subtract(left: Mapping[str, float], right: Mapping[str, float]) -> Amounts:
    """The difference, resource by resource; it may be negative."""
    rest = dict(left)
    for name, amount in right.items():
        rest[name] = rest.get(name, 0.0) - amount
    return rest


def total(parts: Iterable[Mapping[str, float]]) -> Amounts:
    """The sum of many."""
    result: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = result.get(name, 0.0) + amount
    return result


@lru_cache(maxsize=16_384)
def show(name: str, amount: float) -> str:
    """An amount as people write it: cpu in cores (`6`, `500m`), memory in the largest binary unit that leaves few
    digits (`200Gi`), others as counts."""
    if name == "cpu":
        return _short(amount / 1000) if _is_round(amount / 1000) or abs(amount) >= 10_000 else f"{_short(amount)}m"
    if name == "memory":
        return show_bytes(amount)
    if name in UNITS or name.startswith(UNIT_PREFIXES):
        return _short(amount)
    if name == "ephemeral-storage" or name.startswith("hugepages-"):
        return show_bytes(amount / 1000)
    return _short(amount / 1000)


def show_bytes(amount: float) -> str:
    """Bytes in the largest binary unit in which they are at least 1."""
    for unit, size in _BINARY:
        if abs(amount) >= size:
            return f"{_short(amount / size)}{unit}"
    return _short(amount)


def _is_round(number: float) -> bool:
    return abs(number * 10 - round(number * 10)) < 1e-9


def _short(number: float) -> str:
    """Up to two decimals, without trailing zeros."""
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def counted(number: int, thing: str, things: str = "") -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"
