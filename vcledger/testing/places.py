"""JSON with places: the value of a text, and the line on which each key and element stands.

Owns this small reader, so that an unknown key can be named with its line. Must not know what is read. Called by
`vcledger.testing.scenario_lines` and `vcledger.testing.scenario_expected`.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the top to a value: ("facts", 3, "idle")."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DEEPEST = 200


class NotJSON(ValueError):
    """The text is no JSON; the message names the line."""


class Located:
    """`value` is the text's value, `lines[path]` the line, from 1, on which it begins (for a key's value: that of the
    key). NotJSON on bad text, and on a key that stands twice in one object."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.lines: dict[Path, int] = {}
        self._scan = json.JSONDecoder().raw_decode
        end = self._skip(0)
        self.value, end = self._value(end, ())
        if self._skip(end) != len(text):
            raise NotJSON(f"line {self._line(end)}: something follows after the value")

    def line(self, path: Path) -> int:
        """The line of a path, or of the nearest thing around it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found is not None else at

    def _value(self, at: int, path: Path) -> tuple[Any, int]:
        self.lines.setdefault(path, self._line(at))
        if len(path) > _DEEPEST:
            raise NotJSON(f"line {self._line(at)}: nested too deeply")
        begin = self._text[at : at + 1]
        if begin == "{":
            return self._object(at + 1, path)
        if begin == "[":
            return self._array(at + 1, path)
        try:
            return self._scan(self._text, at)
        except ValueError as error:
            raise NotJSON(f"line {self._line(at)}: no JSON value") from error

    def _object(self, at: int, path: Path) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = self._skip(at)
        if self._text[at : at + 1] == "}":
            return found, at + 1
        while True:
            if self._text[at : at + 1] != '"':
                raise NotJSON(f"line {self._line(at)}: a key is expected")
            line = self._line(at)
            try:
                key, at = self._scan(self._text, at)
            except ValueError as error:
                raise NotJSON(f"line {line}: a text without an end") from error
            if key in found:
                raise NotJSON(f"line {line}: the key {key!r} stands twice")
            self.lines[(*path, key)] = line
            at = self._skip(self._expect(self._skip(at), ":"))
            found[key], at = self._value(at, (*path, key))
            at = self._skip(at)
            if self._text[at : at + 1] == "}":
                return found, at + 1
            at = self._skip(self._expect(at, ","))

    def _array(self, at: int, path: Path) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self._skip(at)
        if self._text[at : at + 1] == "]":
            return found, at + 1
        while True:
            value, at = self._value(at, (*path, len(found)))
            found.append(value)
            at = self._skip(at)
            if self._text[at : at + 1] == "]":
                return found, at + 1
            at = self._skip(self._expect(at, ","))

    def _expect(self, at: int, mark: str) -> int:
        if self._text[at : at + 1] != mark:
            raise NotJSON(f"line {self._line(at)}: {mark!r} is expected")
        return at + 1


__all__ = ["Located", "NotJSON", "Path"]
