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


@given(st.lists(st.tuples(st.integers(0, 2**62 // 1000 - 1), st.from_regex(r"\A[0-9]{0,3}\Z")), min_size=1))
def test_microseconds_become_exact_nanoseconds(numbers: list[tuple[int, str]]) -> None:
    words = [f"{whole}.{part}" if part else f"{whole}" for whole, part in numbers]
    value, good = parsed(words)
    assert value == [whole * 1000 + int(f"{part:0<3}") for whole, part in numbers]
    assert all(good)


@given(st.lists(st.from_regex(r"\A[0-9.]{0,20}\Z"), min_size=1), st.sampled_from(", }\ne"))
def test_a_number_ends_before_the_first_other_letter(words: list[str], behind: str) -> None:
    text, begin = "x" * 16, []
    for word in words:
        begin.append(len(text))
        text += word + behind
    ends = digits.ends(np.frombuffer((text + " " * digits.LONGEST).encode(), np.uint8), np.array(begin))
    assert ends.tolist() == [at + len(word) for at, word in zip(begin, words, strict=True)]


@pytest.mark.parametrize(
    "word",
    [
        "",
        "-5",
        "1e3",
        "12x4",
        "1.23456",
        "1.2.3",
        "1..3",
        "12..3",
        "1.",
        ".500",
        "12345678901234567",
        "9999999999999999",
    ],
)
def test_what_is_no_such_number_is_not_good(word: str) -> None:
    assert parsed([word])[1] == [False]


@given(st.lists(st.integers(0, 10**16 - 1), min_size=1))
def test_whole_numbers_of_up_to_16_digits(numbers: list[int]) -> None:
    assert parsed([str(number) for number in numbers], digits.whole) == (numbers, [True] * len(numbers))
