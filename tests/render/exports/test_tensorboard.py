from __future__ import annotations

import struct

import pytest

from perfdoctor.render.exports.tensorboard import crc32c, tensorboard
from tests.support.recorded import NOTHING, RECORDED


def bitwise(data):
    """The checksum, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = bitwise(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(file):
    while file:
        (length,) = struct.unpack_from("<Q", file)
        (of_length,) = struct.unpack_from("<I", file, 8)
        event, (of_event,) = file[12 : 12 + length], struct.unpack_from("<I", file, 12 + length)
        assert of_length == masked(file[:8])
        assert of_event == masked(event)
        yield event
        file = file[16 + length :]


def fields(message):
    """(number, value) of each field of a protobuf message."""
    place = 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        raw, place = message[place : place + size], place + size
        assert len(raw) == size
        layout = {1: "<d", 5: "<f"}.get(key & 7)
        yield key >> 3, struct.unpack(layout, raw)[0] if layout else raw


def scalars(event):
    told = dict(fields(event))
    values = [dict(fields(value)) for number, value in fields(told[5]) if number == 1]
    return told[1], told[2], {value[1].decode(): value[2] for value in values}


def test_the_checksum_is_the_published_one():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_each_step_is_an_event_with_its_loss_length_and_phases():
    version, first, second = framed(tensorboard(RECORDED))
    assert dict(fields(version)) == {1: 1_700_000_000.0, 3: b"brain.Event:2"}
    at_s, step, values = scalars(first)
    assert (at_s, step) == (1_700_000_001.5, 0)
    assert values["loss"] == 2.5
    assert values["step/seconds"] == 0.5
    assert values["phase/data_wait_seconds"] == pytest.approx(0.2)
    _, step, values = scalars(second)
    assert step == 1
    assert "loss" not in values


def test_a_run_without_steps_names_its_version_only():
    assert len(list(framed(tensorboard(NOTHING)))) == 1
