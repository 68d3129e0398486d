"""An event file of TensorBoard, encoded by hand: loss, step and phases as scalars of each step.

A file is a row of records: length, checksum of the length, an `Event` of protobuf, checksum of that.
Checksums are CRC-32C, rotated and offset as TFRecord asks for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache

from perfdoctor.model.recorded import Recorded, RecordedStep

VERSION = "brain.Event:2"
MASK_DELTA = 0xA282EAD8
POLYNOMIAL = 0x82F63B78  # of CRC-32C, bits reversed
VARINT, EIGHT_BYTES, TEXT, FOUR_BYTES = 0, 1, 2, 5  # wire types of protobuf


def tensorboard(record: Recorded) -> bytes:
    """The whole file."""
    return b"".join(_framed(event) for event in _events(record))


def file_name(record: Recorded) -> str:
    """What the file is called: the same for the same run, so that writing it again replaces it."""
    return f"events.out.tfevents.{int(record.started_epoch_s)}.perfdoctor.rank{record.rank}"


def _events(record: Recorded) -> Iterator[bytes]:
    yield _double(1, record.started_epoch_s) + _bytes(3, VERSION.encode())
    for step in record.steps:
        values = b"".join(_bytes(1, _bytes(1, tag) + _float(2, value)) for tag, value in _scalars(step))
        time_s = record.started_epoch_s + step.begin_s + step.seconds
        yield _double(1, time_s) + _tag(2, VARINT) + _varint(step.number) + _bytes(5, values)


def _scalars(step: RecordedStep) -> Iterator[tuple[bytes, float]]:
    if step.loss is not None:
        yield b"loss", step.loss
    yield b"step/seconds", step.seconds
    for phase, value_s in step.phases.items():
        yield f"phase/{phase.value}_seconds".encode(), value_s


def _framed(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + struct.pack("<I", _masked(length)) + event + struct.pack("<I", _masked(event))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum, by a table of bytes."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    return tuple(_of_byte(byte) for byte in range(256))


def _of_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc


# ---------------------------------------------------------------- protobuf


def _tag(field: int, kind: int) -> bytes:
    return bytes([field << 3 | kind])


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _bytes(field: int, value: bytes) -> bytes:
    return _tag(field, TEXT) + _varint(len(value)) + value


def _double(field: int, value: float) -> bytes:
    return _tag(field, EIGHT_BYTES) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    """A 32-bit float; what is beyond them becomes infinite instead of failing."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _tag(field, FOUR_BYTES) + packed
