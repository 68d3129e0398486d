"""Files come as blocks of plain bytes, whatever holds them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from perfdoctor.errors import NotATrace
from perfdoctor.trace.parse.source import BLOCK_BYTES, TraceSource

TEXT = bytes(range(32, 127)) * (3 * BLOCK_BYTES // 95)


def source(tmp_path: Path, data: bytes) -> TraceSource:
    path = tmp_path / "file"
    path.write_bytes(data)
    return TraceSource(path, 10**9)


@pytest.mark.parametrize(
    "packed",
    [TEXT, gzip.compress(TEXT, 1), gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:], 1), gzip.compress(TEXT, 1) + b"\0" * 512],
    ids=["plain", "gzip", "gzip of two members", "gzip and padding"],
)  # fmt: skip
def test_blocks_add_up_to_the_text(tmp_path: Path, packed: bytes) -> None:
    found = source(tmp_path, packed)
    blocks = list(found)
    assert b"".join(blocks) == TEXT
    assert max(map(len, blocks)) <= BLOCK_BYTES
    assert found.cut is None


def test_a_cut_gzip_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT, 1)
    found = source(tmp_path, packed[: len(packed) // 2])
    assert TEXT.startswith(b"".join(found))
    assert found.cut == "its compressed data is cut short"


def test_a_damaged_gzip_gives_what_comes_before_the_damage(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT, 0))
    packed[BLOCK_BYTES : BLOCK_BYTES + 70_000] = b"\xff" * 70_000
    found = source(tmp_path, bytes(packed))
    assert TEXT.startswith(b"".join(found)[: BLOCK_BYTES // 2])
    assert found.cut == "its compressed data is damaged"


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert b"".join(source(tmp_path, b"\xef\xbb\xbf[]")) == b"[]"


@pytest.mark.parametrize(
    "data", [b"PK\x03\x04zip", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"\xff\xfe{\x00", b""]
)
def test_other_containers_are_named(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NotATrace) as caught:
        list(source(tmp_path, data))
    assert caught.value.hint
