"""Go's readings of the small texts that stand in labels and annotations: booleans, numbers and durations.

Owns these grammars. Must not know which annotation a text comes from. Called by the modules of `projections.cache`.

Source: Go's strconv.ParseBool, ParseInt, ParseFloat and time.ParseDuration.
"""

from __future__ import annotations

import math
import re

_BOOLS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True)
_BOOLS.update(dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False))
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_DURATION = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_bool(text: str) -> bool | None:
    """True or False, None for a text that is neither."""
    return _BOOLS.get(text)


def parse_int32(text: str) -> int | None:
    """A decimal int32, None for anything else."""
    if not _INTEGER.match(text) or len(text) > 16:
        return None
    number = int(text)
    return number if -(2**31) <= number < 2**31 else None


def parse_float(text: str) -> float:
    """A finite number, 0 for anything else (Volcano ignores the error)."""
    if "_" in text or text != text.strip():
        return 0.0
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def parse_duration_seconds(text: str) -> float | None:
    """A Go duration such as 1h2m, in seconds; None for a text that is none."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    seconds, end = 0.0, 0
    while end < len(body):
        part = _DURATION.match(body, end)
        if part is None:
            return None
        seconds += float(part[1]) * _UNIT_SECONDS[part[2]]
        end = part.end()
    if end == 0:
        return None
    return -seconds if text[0] == "-" else seconds


__all__ = ["parse_bool", "parse_duration_seconds", "parse_float", "parse_int32"]
