"""How answers look: tables as kubectl prints them, JSON, YAML, and moments.

Owns the layout. Must not know what the columns mean. Called by the modules of the commands.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import typer

from vcledger.quantities import PRESENT, Change, human_value

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

GAP = 3
"""Spaces between columns, as kubectl leaves them."""


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns padded to their widest cell, headers first; nothing is cut."""
    lines = [list(map(str, headers)), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        padded = (cell.ljust(width + GAP) for cell, width in zip(line, widths, strict=True))
        typer.echo(printable("".join(padded).rstrip()))


def printable(text: str) -> str:
    """The text with control characters as escapes: what stands in a cluster's objects must not steer a terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def data(value: Any, output: str) -> None:
    """A value as YAML, or else as JSON; floats that are whole are written as integers."""
    value = plain(value)
    if output == "yaml":
        import yaml  # a tenth of a short command's time, so only where it is used

        typer.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def json_line(value: Any) -> None:
    """A value as one line of JSON."""
    typer.echo(json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")))


def plain(value: Any) -> Any:
    """The same value with whole floats as integers, all the way down."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def moment(microseconds: int | None) -> str:
    """A time in UTC as RFC 3339 with milliseconds; '-' for none."""
    if microseconds is None:
        return "-"
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:03d}Z"


def nothing_found(what: str) -> None:
    """kubectl's line for an empty answer, which goes to stderr."""
    typer.echo(what, err=True)


def size(count: int) -> str:
    """Bytes for people: 1.5 MB."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def on_terminal() -> bool:
    """Whether a person is watching stderr."""
    return sys.stderr.isatty()


def status(text: str) -> None:
    """Shows on a terminal how far it has got, in the place of what was shown before; '' takes it away."""
    if on_terminal():
        typer.echo(f"\r\x1b[K{text}", nl=False, err=True)


def so_far(what: str, done: int, of: int) -> None:
    """`events: 12,000 of 29,412` on a terminal."""
    status(f"{what}: {done:,} of {of:,}")


# --- changes of quantities ----------------------------------------------------------------------------------------


def change(found: Change, before: str = "before", after: str = "after") -> dict[str, object]:
    """A change as data. The side on which a number or a yes is missing has 0 or false, which it means."""
    entity = found.entity
    sides = (found.before, found.after)
    old, new = (_nothing_like(other) if side is None else side for side, other in zip(sides, sides[::-1], strict=True))
    return {
        "kind": entity.kind,
        "name": entity.label or entity.key,
        **({"uid": entity.key} if entity.label else {}),
        "quantity": found.quantity,
        before: old,
        after: new,
    }


def _nothing_like(value: str | float | bool | None) -> float | bool | None:
    """What a missing value is where the other side has this one."""
    if isinstance(value, bool):
        return False
    return 0 if isinstance(value, int | float) else None


def changes(found: Sequence[Change], before: str, after: str, *, present: tuple[str, str]) -> None:
    """Changes as a table. `present` are the words for what only the second and what only the first side has."""
    if found:
        table(("KIND", "NAME", "QUANTITY", before, after), change_rows(found, present=present))


def change_rows(found: Sequence[Change], *, present: tuple[str, str]) -> list[tuple[str, ...]]:
    """The cells of each change: kind, name, quantity, before, after."""
    rows: list[tuple[str, ...]] = []
    for item in found:
        head = (item.entity.kind, item.entity.label or item.entity.key)
        if item.quantity == PRESENT:
            rows.append((*head, present[0] if item.after else present[1], "", ""))
        else:
            shown = (human_value(item.quantity, value) for value in (item.before, item.after))
            rows.append((*head, item.quantity, *shown))
    return rows


def count(items: Sequence[object], word: str, several: str = "") -> str:
    """'1 task', '2 tasks'."""
    return plural(len(items), word, several)


def plural(number: int, word: str, several: str = "") -> str:
    """A number with its word."""
    return f"{number} {word if number == 1 else several or word + 's'}"
