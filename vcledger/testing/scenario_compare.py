"""Comparing what a fact found with what is expected.

Owns the comparisons, one a key where plain equality will not do: quantities as numbers, lists of names without their
order, times as moments. Must not know where anything is found. Called by `vcledger.testing.scenario_facts`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from vcledger.sources.times import micros_or_none
from volcano.objects import quantity
from volcano.objects.meta import Quantity

ABSENT = "absent"
"""What a fact finds where the object that it is about does not exist."""


def differ(name: str, key: str, found: Any, wanted: Any) -> list[str]:
    """What is not so of one key, each as `name: key is X, expected Y`; nothing where all is."""
    check = _CHECKS.get(key, _equal)
    return [f"{name}: {text}" for text in check(key, found, wanted)]


def _equal(key: str, found: Any, wanted: Any) -> list[str]:
    if isinstance(found, list) and isinstance(wanted, list):
        found, wanted = sorted(map(str, found)), sorted(map(str, wanted))
    same = found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
    return [] if same else [f"{key} is {found!r}, expected {wanted!r}"]


def _amounts(key: str, found: Any, wanted: Any) -> list[str]:
    """Only the resources named."""
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return _equal(key, found, wanted)
    wrong = []
    for name, amount in wanted.items():
        has = found.get(name, Fraction(0))
        if has != exactly(amount):
            wrong.append(f"{key} of {name} is {_number(has)}, expected {amount}")
    return wrong


def exactly(amount: Quantity) -> Fraction:
    """A quantity without any rounding."""
    parsed = quantity.parse(amount)
    return Fraction(parsed.mantissa) * Fraction(10) ** parsed.scale


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else str(float(value))


def _at_most(key: str, found: Any, wanted: Any) -> list[str]:
    return [] if found <= wanted else [f"{key}: there were {found}, at most {wanted} are expected"]


def _all_in(key: str, found: Any, wanted: Any) -> list[str]:
    return [f"{key}: {text!r} is not in {found!r}" for text in wanted if text not in found]


def _none_in(key: str, found: Any, wanted: Any) -> list[str]:
    return [f"{key}: {text!r} is in {found!r}" for text in wanted if text in found]


def _each_in(key: str, found: Any, wanted: Any) -> list[str]:
    wrong = []
    for node, text in wanted.items():
        reasons = found.get(node, [])
        if not any(text in reason for reason in reasons):
            wrong.append(f"{key}: nothing of {node} says {text!r}: {reasons!r}")
    return wrong


def _within(key: str, found: Any, wanted: Any) -> list[str]:
    return [f"{key}: one took {seconds} s, at most {wanted} are expected" for seconds in found if not seconds <= wanted]


def _each(key: str, found: Any, wanted: Any) -> list[str]:
    """Of each name that is expected, and no other must be there."""
    if not isinstance(wanted, dict):
        return _equal(key, found, wanted)
    names, uids = found
    use = names if set(wanted) <= set(names) else uids
    extra = [name for name in use if name not in wanted]
    wrong = [f"{key} of {name} is {use.get(name, ABSENT)!r}, expected {count!r}" for name, count in wanted.items()
             if use.get(name) != count]  # fmt: skip
    return wrong + [f"{key}: {name} is not expected" for name in extra]


def _moment(key: str, found: Any, wanted: Any) -> list[str]:
    same = micros_or_none(found) == micros_or_none(wanted)
    return [] if same else [f"{key} is {found!r}, expected {wanted!r}"]


def _count_or_list(key: str, found: list[str], wanted: Any) -> list[str]:
    return _equal(key, found if isinstance(wanted, list) else len(found), wanted)


def _broken(key: str, found: Any, wanted: Any) -> list[str]:
    """Each thing that is broken, where none is expected to be."""
    if not wanted:
        return [f"broken: {text}" for text in found]
    if wanted is True:
        return [] if found else ["broken is nothing, expected something"]
    return _equal(key, found, wanted)


def _truth_or_count(key: str, found: Any, wanted: Any) -> list[str]:
    return _equal(key, found[0] if isinstance(wanted, bool) else found[1], wanted)


_CHECKS: dict[str, Callable[[str, Any, Any], list[str]]] = {
    "idle": _amounts,
    "used": _amounts,
    "requests": _amounts,
    "min_resources": _amounts,
    "max_calls": _at_most,
    "must_mention": _all_in,
    "must_not_mention": _none_in,
    "never": _none_in,
    "annotations_kept": _all_in,
    "first_cause": lambda key, found, wanted: _all_in(key, found, [wanted]),
    "per_node": _each_in,
    "each_ended_within_seconds": _within,
    "counts": _each,
    "first": _moment,
    "last": _moment,
    "incarnations": _count_or_list,
    "deleted": _count_or_list,
    "changes": _count_or_list,
    "ready": _truth_or_count,
    "broken": _broken,
}
