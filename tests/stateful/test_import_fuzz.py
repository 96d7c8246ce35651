"""Any bytes at all, in any chunks: never an exception, every piece counted, and good lines are stored whatever stands
beside them.

Owns the importers' fuzzing. Must not look at what a format means.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sources.given import NOW, clock, compact, imported, pod, watch_line, watch_of
from vcledger.sources.compress import CutOff, decompressed
from vcledger.sources.detect import Format
from vcledger.sources.framing import Piece, line_batches, values
from vcledger.sources.items import Item
from vcledger.sources.moments import Moments
from vcledger.sources.observe import Observer
from vcledger.sources.reader import Reader
from vcledger.sources.redact import StorageOptions
from vcledger.sources.report import FileReport, ImportReport, Tally
from vcledger.sources.shape import Clock

LIMIT = 1 << 16
LINES = [line for line in watch_of("07").splitlines() if len(line) < 8_000][::23]
PRETTY = [json.dumps(json.loads(line), indent=2).encode() for line in LINES if b'"marker"' not in line]
PACKED = [gzip.compress(b"\n".join(LINES)), zstandard.ZstdCompressor().compress(b"\n".join(LINES))]
SOURCES = [LINES, PRETTY, PACKED]
QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOKENS = [b'"', b"\\", b"{", b"}", b"[", b"]", b"null", b"1e999", b"\\ud800", b"\n", b"\r"]


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The bytes in chunks of these sizes, over and over."""
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        yield data[at : at + size]
        at, turn = at + size, turn + 1


def read(data: bytes, sizes: list[int], format_: Format | None = None) -> tuple[list[Item], ImportReport]:
    """Everything that a reader makes of the bytes."""
    report = ImportReport()
    tally, moments = Tally(report, FileReport("fuzz", "")), Moments(Clock(), clock, NOW)
    reader = Reader("fuzz", Observer("c", StorageOptions()), tally, LIMIT, moments)
    chunks = reader.open(cut(data, sizes))
    if format_ is not None:
        reader.format = format_
    return list(reader.items(chunks)), report


sizes = st.lists(st.integers(1, 4096), min_size=1, max_size=4)


def one_of(source: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of them, by its number: the strategy's text stays short."""
    return st.integers(0, len(source) - 1).map(source.__getitem__)


lines = st.lists(one_of(LINES), min_size=1, max_size=8)


@st.composite
def mutated(draw: st.DrawFn, which: int) -> bytes:
    """A real line with bytes changed, left out, doubled, or cut off."""
    line = bytearray(draw(one_of(SOURCES[which])))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(line) - 1)))
        match draw(st.sampled_from(["change", "cut", "remove", "insert", "token"])):
            case "change" if line:
                line[at] = draw(st.integers(0, 255))
            case "cut":
                del line[at:]
            case "remove":
                del line[at : at + draw(st.integers(1, 40))]
            case "insert":
                line[at:at] = draw(st.binary(max_size=12))
            case _:
                line[at:at] = draw(st.sampled_from(TOKENS))
    return bytes(line)


@QUICK
@given(parts=st.lists(mutated(0), max_size=6), sizes=sizes, format_=st.sampled_from([None, *Format]))
def testmutated_lines_never_raise(parts: list[bytes], sizes: list[int], format_: Format | None) -> None:
    items, report = read(b"\n".join(parts), sizes, format_)
    assert report.broken_count <= report.read
    assert all(item.observed_at >= 0 for item in items)


@QUICK
@given(data=st.binary(max_size=4096), sizes=sizes, format_=st.sampled_from([None, *Format]))
def test_random_bytes_never_raise(data: bytes, sizes: list[int], format_: Format | None) -> None:
    read(data, sizes, format_)


@pytest.mark.slow
@QUICK
@given(data=st.text(max_size=2000), sizes=sizes)
def test_random_yaml_never_raises(data: str, sizes: list[int]) -> None:
    read(b"kind: Pod\n" + data.encode("utf-8", "surrogatepass"), sizes, Format.yaml)


@QUICK
@given(before=mutated(0), after=mutated(0), sizes=sizes)
def test_a_good_line_between_bad_ones_is_read(before: bytes, after: bytes, sizes: list[int]) -> None:
    good = compact(
        {"recordedAt": "2026-11-29T14:00:00Z", "resource": "pods", "type": "ADDED", "object": pod("good", 987654)}
    )
    items, _ = read(b"\n".join([LINES[0], before, good, after]), sizes, Format.recording)
    assert any(getattr(item, "resource_version", None) == 987654 for item in items)


@QUICK
@given(wanted=lines, sizes=sizes)
def test_lines_do_not_depend_on_the_chunks(wanted: list[bytes], sizes: list[int]) -> None:
    data = b"\n".join(wanted)
    found = [line for _, batch in line_batches(cut(data, sizes), LIMIT, unwelcome) for line in batch]
    assert found == wanted


@QUICK
@given(
    wanted=st.lists(one_of(PRETTY), max_size=5),
    between=st.sampled_from([b"", b"\n", b"\r\n", b" \n\n "]),
    sizes=sizes,
)
def test_pretty_values_do_not_depend_on_the_chunks(wanted: list[bytes], between: bytes, sizes: list[int]) -> None:
    found = list(values(cut(between.join(wanted), sizes), LIMIT, unwelcome))
    assert [piece.data for piece in found] == wanted


@QUICK
@given(parts=st.lists(mutated(1), max_size=4), one=sizes, other=sizes)
def test_broken_values_do_not_depend_on_the_chunks(parts: list[bytes], one: list[int], other: list[int]) -> None:
    def found(sizes: list[int]) -> tuple[list[Piece], list[tuple[int, str]]]:
        complaints: list[tuple[int, str]] = []
        pieces = list(
            values(cut(b"\n".join(parts), sizes), LIMIT, lambda line, reason, _: complaints.append((line, reason)))
        )
        return pieces, complaints

    assert found(one) == found(other)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.slow
@QUICK
@given(
    value=st.dictionaries(st.text(max_size=6), json_values, max_size=4),
    where=st.sampled_from(["spec", "status", "metadata"]),
    indent=st.sampled_from([None, 1]),
)
def test_odd_objects_are_kept_as_they_are_or_refused(value: dict[str, Any], where: str, indent: int | None) -> None:
    body = pod("p", 5)
    body[where] = value | (body[where] if where == "metadata" else {})
    text = json.dumps(body, separators=(",", ":"))
    items, report = read(f'{{"type":"ADDED","object":{text}}}'.encode(), [4096])
    assert len(items) + report.broken_count == 1
    if items:
        assert items[0].payload.decode() == text  # type: ignore[union-attr]


def unwelcome(line: int, reason: str, data: bytes) -> None:
    raise AssertionError(f"line {line}: {reason}: {data[:80]!r}")


@QUICK
@given(data=mutated(2), sizes=sizes)
def test_damaged_compressed_data_give_what_they_can(data: bytes, sizes: list[int]) -> None:
    try:
        for _ in decompressed(cut(data, sizes)):
            pass
    except CutOff as error:
        assert "\n" not in str(error)


@pytest.mark.slow
@settings(QUICK, max_examples=25)
@given(parts=st.lists(mutated(0) | one_of(LINES), min_size=1, max_size=6))
def test_importing_anything_twice_stores_it_once(tmp_path_factory: Any, parts: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path = Path(folder) / "w"
    path.write_bytes(watch_line("ADDED", pod("anchor", 1)) + b"\n".join(parts))
    first = imported(folder, path)
    again = imported(folder, path)
    assert first.stored >= 1 and again.stored == 0
    assert first.read == again.read and first.broken_count == again.broken_count


def test_the_fuzz_has_something_to_chew_on() -> None:
    assert len(LINES) > 25 and len(PRETTY) > 15
