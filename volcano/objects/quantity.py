"""Kubernetes resource.Quantity: parsing, the two int64 readings that a scheduler uses, and the canonical text.

Owns the grammar and the rounding. Must not know which resource a quantity belongs to. Called by
`volcano.objects.resource` and by whoever prints a quantity.

Semantics are those of k8s.io/apimachinery pkg/api/resource (ParseQuantity, Value, MilliValue, CanonicalizeBytes) of the
Kubernetes 1.30 era, which Volcano 1.10 and 1.11 are built with; vectors 008 to 011 pin them. Go keeps small numbers as
int64 * 10^scale and others as a big decimal; the two overflow differently, so both forms are kept apart here too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from volcano.objects.meta import Quantity

DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"

INT64_MAX = 2**63 - 1

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_NAMES = {exponent: suffix for suffix, exponent in _BINARY.items()}
_NANO = -9
_INT64_DIGITS = 18
_EXPONENT_MAX = 2**31 - 1
_HUGE = 64
"""Decimal exponents beyond this are far outside int64; they are answered without building the number."""


class QuantityInvalid(ValueError):
    """A text that the API server refuses as a quantity."""


class ParsedQuantity(NamedTuple):
    """mantissa * 10**scale. `big` says that Go holds it as a big decimal, which overflows in another way than the
    int64 form; `format` is the family of its suffix, kept for printing."""

    mantissa: int
    scale: int
    format: str
    big: bool


def parse(quantity: Quantity) -> ParsedQuantity:
    """The parts of a quantity as JSON carries it. Raises QuantityInvalid.

    >>> parse("1.5Gi").mantissa * 10**9 // 10**9
    1610612736000000000
    """
    return _parse(quantity if isinstance(quantity, str) else repr(quantity))


@lru_cache(maxsize=65536)
def _parse(text: str) -> ParsedQuantity:
    text = text.strip()
    shape = _SHAPE.match(text) if text else None
    if shape is None:
        raise QuantityInvalid(
            f"{text[:40]!r} is no quantity: want a number with an optional suffix, such as 100m or 2Gi"
        )
    sign, number, fraction, suffix = shape.groups()
    number, fraction = number.lstrip("0") or "0", fraction or ""
    base, exponent, form = _suffix(text, suffix)
    negative = sign == "-"
    small = _small(number, fraction, base, exponent)
    if small is not None:
        mantissa, scale = small
        return ParsedQuantity(-mantissa if negative else mantissa, scale, form, False)
    mantissa, scale = _nano(int(number + fraction), len(fraction), base, exponent)
    if form == BINARY_SI:
        if mantissa > INT64_MAX * 10**9:
            mantissa = INT64_MAX * 10**9
        elif 0 < mantissa < 10**9:
            form = DECIMAL_SI
    return ParsedQuantity(-mantissa if negative else mantissa, scale, form, True)


def _suffix(text: str, suffix: str) -> tuple[int, int, str]:
    """Base, exponent and format of a suffix."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE":
        try:
            exponent = int(suffix[1:])
        except ValueError:
            exponent = _EXPONENT_MAX + 1
        if abs(exponent) <= _EXPONENT_MAX:
            return 10, exponent, DECIMAL_EXPONENT
    raise QuantityInvalid(f"{text[:40]!r} is no quantity: the suffix {suffix[:20]!r} is not known")


def _small(number: str, fraction: str, base: int, exponent: int) -> tuple[int, int] | None:
    """Mantissa and scale where Go uses its int64 form, else None."""
    if base == 2:
        if fraction or 15 - len(number) - exponent * 3 // 10 - 1 < 0:
            return None
        mantissa, scale = int(number) << exponent, 0
    else:
        scale = exponent - len(fraction)
        if len(number) + len(fraction) > _INT64_DIGITS or scale < _NANO:
            return None
        mantissa = int(number + fraction)
    return (mantissa, scale) if mantissa <= INT64_MAX else None


def _nano(unscaled: int, places: int, base: int, exponent: int) -> tuple[int, int]:
    """The number as Go's big decimal: scaled to nano, rounded away from zero."""
    if base == 2:
        unscaled <<= exponent
    else:
        places -= exponent
    if unscaled == 0:
        return 0, _NANO
    shift = places + _NANO
    if shift > _HUGE * 2 or 10**shift > unscaled:
        return 1, _NANO
    if shift > 0:
        return -(-unscaled // _power(shift)), _NANO
    if -shift > _HUGE:
        return unscaled, -places
    return unscaled * _power(-shift), _NANO


def _wrap(value: int) -> int:
    """An int as Go's int64 holds it after an overflow."""
    return (value + 2**63) % 2**64 - 2**63


def _scaled(parsed: ParsedQuantity, scale: int) -> int:
    """Go's ScaledValue: at 10**scale, rounded up, int64 overflow included."""
    shift = parsed.scale - scale
    mantissa = parsed.mantissa
    if shift == 0:
        return _wrap(mantissa)
    if shift < 0:
        return _scaled_down(mantissa, -shift, parsed.big)
    if parsed.big:
        return _wrap(mantissa * 10**shift) if shift < _HUGE else 0
    if shift in (1, 2, 3, 6, 9):
        return _wrap(mantissa * 10**shift)
    if shift > _HUGE or not -(2**63) <= mantissa * 10**shift <= INT64_MAX:
        return 0
    return mantissa * _power(shift)


def _power(exponent: int) -> int:
    """10**exponent; beyond any quantity's digits a larger one makes no difference as a divisor."""
    power: int = 10 ** min(exponent, _HUGE * 2)
    return power


def _scaled_down(mantissa: int, places: int, big: bool) -> int:
    divisor = _power(places)
    if not big:
        away = -(-abs(mantissa) // divisor)
        return -away if mantissa < 0 else away
    quotient, rest = divmod(mantissa, divisor)
    if rest and mantissa < 0 and mantissa > -(2**63) and places < 19:
        quotient += 1
    return _wrap(quotient + (1 if rest else 0))


@lru_cache(maxsize=65536)
def _value(text: str) -> int:
    return _scaled(_parse(text), 0)


@lru_cache(maxsize=65536)
def _milli_value(text: str) -> int:
    return _scaled(_parse(text), -3)


def value(quantity: Quantity) -> int:
    """Quantity.Value(): whole units, rounded up, as an int64. Raises QuantityInvalid.

    >>> value("1500m"), value("1Ki"), value("0.1Ki")
    (2, 1024, 103)
    """
    return _value(quantity if isinstance(quantity, str) else repr(quantity))


def milli_value(quantity: Quantity) -> int:
    """Quantity.MilliValue(): thousandths, rounded up, as an int64. Raises QuantityInvalid.

    >>> milli_value("100u"), milli_value(2), milli_value("2.5e-1")
    (1, 2000, 250)
    """
    return _milli_value(quantity if isinstance(quantity, str) else repr(quantity))


def exact_value(quantity: Quantity, scale: int = 0) -> int:
    """The same at 10**scale without int64's overflow: what is out of range saturates. Raises QuantityInvalid."""
    parsed = parse(quantity)
    shift = parsed.scale - scale
    if shift > _HUGE:
        limit = INT64_MAX * 10**3
        return 0 if parsed.mantissa == 0 else limit if parsed.mantissa > 0 else -limit
    if shift >= 0:
        return parsed.mantissa * _power(shift)
    divisor = _power(-shift)
    away = -(-abs(parsed.mantissa) // divisor)
    return -away if parsed.mantissa < 0 else away


def canonical(quantity: Quantity) -> str:
    """The text that the API server would store: no fraction, the largest suffix, the suffix family kept.

    >>> canonical("0.5"), canonical("1024Mi"), canonical("1000k"), canonical(12)
    ('500m', '1Gi', '1M', '12')
    """
    parsed = parse(quantity)
    mantissa, scale, form = parsed.mantissa, parsed.scale, parsed.format
    if mantissa == 0:
        return "0"
    if form == BINARY_SI:
        whole, rest = (mantissa * 10**scale, 0) if scale >= 0 else divmod(mantissa, 10**-scale)
        if rest == 0 and not -1024 < whole < 1024:
            exponent = 0
            while whole % 1024 == 0 and exponent < 60:
                whole //= 1024
                exponent += 10
            return f"{whole}{_BINARY_NAMES.get(exponent, '')}"
        form = DECIMAL_SI
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    while scale % 3:
        mantissa *= 10
        scale -= 1
    if form == DECIMAL_SI and scale in _DECIMAL_NAMES:
        return f"{mantissa}{_DECIMAL_NAMES[scale]}"
    return f"{mantissa}e{scale}" if scale else str(mantissa)


__all__ = [
    "BINARY_SI",
    "DECIMAL_EXPONENT",
    "DECIMAL_SI",
    "ParsedQuantity",
    "QuantityInvalid",
    "canonical",
    "exact_value",
    "milli_value",
    "parse",
    "value",
]
