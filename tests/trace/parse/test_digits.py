"""Numbers parsed by the million equal the same numbers parsed one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.trace.parse import digits


def parsed(words: list[str], parse=digits.nanoseconds) -> tuple[list[int], list[bool]]:
    """What `parse` makes of words that stand one behind the other, parted by commas."""
    text, begin, end = "x" * 16, [], []
    for word in words:
        begin.append(len(text))
        text += word
        end.append(len(text))
        text += ","
    value, good = parse(np.frombuffer(text.encode(), np.uint8), np.array(begin), np.array(end))
    return value.tolist(), good.tolist()


@given(st.lists(st.tuples(st.integers(0, 2**62 // 1000 - 1), st.none() | st.integers(0, 999)), min_size=1))
def test_microseconds_become_exact_nanoseconds(numbers: list[tuple[int, int | None]]) -> None:
    words = [f"{whole}" if part is None else f"{whole}.{part:03}" for whole, part in numbers]
    value, good = parsed(words)
    assert value == [whole * 1000 + (part or 0) for whole, part in numbers]
    assert all(good)


@pytest.mark.parametrize(
    "word",
    ["", "-5", "1e3", "12x4", "1.5", "1.23456", "1.2.3", ".500", "12345678901234567", "9999999999999999"],
)
def test_what_is_no_such_number_is_not_good(word: str) -> None:
    assert parsed([word])[1] == [False]


@given(st.lists(st.integers(0, 10**16 - 1), min_size=1))
def test_whole_numbers_of_up_to_16_digits(numbers: list[int]) -> None:
    assert parsed([str(number) for number in numbers], digits.whole) == (numbers, [True] * len(numbers))
