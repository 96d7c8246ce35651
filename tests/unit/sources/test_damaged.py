"""Compressed files that are damaged or cut off: said so, with the place, and what comes before is stored.

Owns that. Must not test broken lines (test_bad_input).
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
import zstandard

from tests.unit.sources.given import events, imported, pod, watch_line, written
from vcledger.sources import NothingToImport
from vcledger.sources.compress import CutOff, decompressed


def lines(count: int = 3_000) -> bytes:
    """Watch lines that do not compress to nothing: some hundred kilobytes of both compressions."""
    drawn = random.Random(7)
    return b"".join(
        watch_line("ADDED", pod(f"p{n}", n + 1, annotations={"a": drawn.randbytes(100).hex()})) for n in range(count)
    )


PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_a_file_that_is_cut_off(tmp_path: Path, packing: str, share: float) -> None:
    packed = PACK[packing](lines())
    size = int(len(packed) * share)
    report = imported(tmp_path, written(tmp_path, "w", packed[:size]))
    assert report.broken_count == 1
    reason = report.broken[0].reason
    assert reason.startswith(f"the file is cut off: its {packing} data stop at byte {size:,}, before their end mark")
    assert reason.endswith(f"{report.read:,} lines or objects were read before that")
    assert report.stored == len(events(tmp_path)) > 3_000 * share - 700


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_one_bit_wrong_in_gzip(tmp_path: Path, share: float) -> None:
    packed = bytearray(PACK["gzip"](lines()))
    packed[int(len(packed) * share)] ^= 0x10
    report = imported(tmp_path, written(tmp_path, "w", bytes(packed)))
    assert "the gzip data are damaged, at about byte " in report.broken[0].reason, "before what the damage broke"
    assert report.stored > 3_000 * share - 100


def test_one_bit_wrong_in_zstd(tmp_path: Path) -> None:
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(lines()))
    packed[-1] ^= 1  # of the checksum: all blocks before it are whole
    report = imported(tmp_path, written(tmp_path, "w", bytes(packed)))
    assert report.broken[0].reason.startswith("the zstd data are damaged, at about byte ")
    assert report.stored > 2_500


@pytest.mark.parametrize("packing", PACK)
def test_nothing_before_the_damage(tmp_path: Path, packing: str) -> None:
    packed = PACK[packing](watch_line("ADDED", pod()))
    with pytest.raises(NothingToImport, match=rf"w: the file is cut off: its {packing} data stop at byte "):
        imported(tmp_path, written(tmp_path, "w", packed[: len(packed) // 2][:30]))
    damaged = bytearray(packed)
    damaged[6 if packing == "zstd" else 12] ^= 0xFF
    with pytest.raises(NothingToImport, match=f"w: the (file is cut off|{packing} data are damaged)"):
        imported(tmp_path, written(tmp_path, "w", bytes(damaged)))


def test_a_good_file_beside_a_damaged_one_is_imported(tmp_path: Path) -> None:
    packed = gzip.compress(watch_line("ADDED", pod()))[:20]
    report = imported(
        tmp_path, written(tmp_path, "a.gz", packed), written(tmp_path, "b", watch_line("ADDED", pod("b", 2)))
    )
    assert (report.stored, report.broken_count, report.files[0].format) == (1, 1, "damaged")


def test_all_that_stands_before_the_damage_is_given_out() -> None:
    """Whatever the size of the pieces that the bytes come in."""
    plain = lines(400)
    packed = bytearray(gzip.compress(plain, 1))
    packed[len(packed) // 2] ^= 0x40

    def got(size: int) -> bytes:
        found = bytearray()
        with pytest.raises(CutOff) as raised:
            for chunk in decompressed(iter([bytes(packed[at : at + size]) for at in range(0, len(packed), size)])):
                found += chunk
        assert raised.value.damaged
        return bytes(found)

    assert got(1 << 20) == got(100)
    assert plain.startswith(got(1 << 20)[: len(plain) // 2 - 1_000])
