"""Files come as blocks of plain bytes, whatever holds them."""

from __future__ import annotations

import gzip
import os
import tarfile
import threading
from pathlib import Path
from typing import Literal

import pytest

from perfdoctor.errors import NotATrace
from perfdoctor.trace.parse import source as source_module
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


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_of_traces_is_not_read_as_one_of_them(tmp_path: Path, mode: Literal["w", "w:gz"]) -> None:
    inside = tmp_path / "rank0.json"
    inside.write_bytes(b'{"traceEvents": []}')
    with tarfile.open(tmp_path / "traces.tar", mode) as archive:
        archive.add(inside, "rank0.json")
    with pytest.raises(NotATrace, match="is a tar archive"):
        list(TraceSource(tmp_path / "traces.tar", 10**9))


@pytest.mark.parametrize(
    "data", [TEXT, gzip.compress(TEXT, 1), b"[", b""], ids=["plain", "gzip", "short", "none"]
)
def test_a_pipe_is_read_once_somebody_writes_to_it(tmp_path: Path, data: bytes) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Timer(0.1, (tmp_path / "pipe").write_bytes, [data])
    writer.start()
    if data:
        assert b"".join(TraceSource(tmp_path / "pipe", 10**9)) in (TEXT, data)
    else:
        with pytest.raises(NotATrace, match="is empty"):
            list(TraceSource(tmp_path / "pipe", 10**9))
    writer.join()


def test_a_pipe_that_is_open_for_writing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "WRITER_S", 0.0)
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    later = threading.Timer(0.2, lambda: (os.write(writer, TEXT[:999]), os.close(writer)))
    later.start()
    assert b"".join(TraceSource(tmp_path / "pipe", 10**9)) == TEXT[:999]
    later.join()


@pytest.mark.shows("hostile-files")
def test_a_pipe_that_nobody_writes_to_and_a_device_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "WRITER_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a pipe that nobody writes to"), (Path("/dev/zero"), "a device")):
        with pytest.raises(NotATrace, match=what):
            list(TraceSource(path, 10**9))


@pytest.mark.shows("hostile-files")
def test_what_unpacks_to_far_more_than_a_trace_does_is_refused(tmp_path: Path) -> None:
    found = source(tmp_path, gzip.compress(b" " * (64 << 20), 1) * 4)
    with pytest.raises(NotATrace, match="200 times its size"):
        list(found)
    assert found.bytes < 64 << 20


def test_blanks_before_a_list_of_events_are_passed_over_once(tmp_path: Path) -> None:
    found = source(tmp_path, b" " * (3 * BLOCK_BYTES) + b'[\n {"ph": "X"}]')
    assert found.up_to_events(iter(found)) == (b"", b"[", b'\n {"ph": "X"}]')


def test_a_key_across_two_blocks_opens_the_list(tmp_path: Path) -> None:
    for place in range(-20, 5):
        head = b'{"a": "'.ljust(4 * BLOCK_BYTES + place, b"x") + b'", '
        found = source(tmp_path, head + b'"traceEvents": [{}]}')
        blocks = iter(found)
        before, opening, rest = found.up_to_events(blocks)
        assert (before, opening) == (head, b'"traceEvents": [')
        assert rest + b"".join(blocks) == b"{}]}"
