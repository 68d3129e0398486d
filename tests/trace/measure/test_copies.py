from __future__ import annotations

import pytest

from perfdoctor.trace.measure.copies import copies, parse
from tests.support.traces import Recording


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("HtoD", "pageable")),
        ("Memcpy DtoH (Device -> Pinned)", ("DtoH", "pinned")),
        ("Memcpy DtoD (Device -> Device)", ("DtoD", None)),
        ("Memcpy PtoP (Device -> Device)", ("PtoP", None)),
        ("Memcpy HtoD (Host -> Device)", ("HtoD", None)),  # ROCm
        ("Memcpy HtoH (Pinned -> Pinned)", ("HtoH", "pinned")),
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", ("HtoD", None)),  # XPU
        ("Memcpy D2M (DEVICE -> MEMORY(Unknown))", ("DtoH", None)),
        ("Memcpy D2D (DEVICE -> DEVICE)", ("DtoD", None)),
        ("CopyHostToDevice", ("HtoD", None)),
        ("CopyDeviceToDevice", ("DtoD", None)),
        ("CopyImage", ("unknown", None)),
    ],
)
def test_a_name_says_direction_and_memory(name: str, expected: tuple[str, str | None]) -> None:
    assert parse(name) == expected


def test_copies_of_a_kind_are_added_up_longest_first() -> None:
    made = Recording()
    made.copy("Memcpy DtoD (Device -> Device)", 0, 1, bytes=100)
    made.copy("Memcpy HtoD (Pageable -> Device)", 2, 6, bytes=4000)
    made.copy("Memcpy HtoD (Pageable -> Device)", 7, 11, bytes=8000)
    first, second = copies(made.trace())
    assert (first.direction, first.count, first.bytes, first.us, first.gb_per_s) == (
        "HtoD",
        2,
        12000,
        8.0,
        1.5,
    )
    assert second.direction == "DtoD"


def test_bytes_that_any_copy_does_not_say_are_unknown() -> None:
    made = Recording()
    made.copy("Memcpy DtoD (Device -> Device)", 0, 1, bytes=100)
    made.copy("Memcpy DtoD (Device -> Device)", 2, 3)
    (use,) = copies(made.trace())
    assert (use.bytes, use.gb_per_s) == (None, None)
