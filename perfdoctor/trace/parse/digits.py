"""Decimal numbers in text, parsed by the million: eight digits at a time in one 64-bit word."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfdoctor.trace.parse.columns import Flags, Ints

Bytes = npt.NDArray[np.uint8]

WORD = 8
WIDTH = 2 * WORD  # digits at most: whole microseconds since 1970 have 16
DECIMALS = 3  # digits after the point: nanoseconds of a number of microseconds
LARGEST = 2**62 // 10**DECIMALS  # of microseconds: the year 2116 in nanoseconds, and sums still fit
ZEROS = np.uint64(0x3030303030303030)
NOT_A_DIGIT = np.uint64(0x8080808080808080)
# By the number of digits in a word: where they are, from the highest byte down, the order of the text.
USED = np.array([2**64 - 2 ** (8 * (WORD - digits)) for digits in range(WORD + 1)], np.uint64)


def nanoseconds(text: Bytes, begin: Ints, end: Ints) -> tuple[Ints, Flags]:
    """Numbers of microseconds at text[begin:end], as (n,) int64 nanoseconds, and (n,) whether each is good.

    Good is what has 1 to 16 digits and then either no decimals or exactly three. `begin` is at least 16.
    """
    point = text[end - (DECIMALS + 1)] == ord(".")
    point &= end - begin > DECIMALS + 1
    value, good = whole(text, begin, end - (DECIMALS + 1) * point)
    good &= value < LARGEST
    value *= 10**DECIMALS
    if point.any():
        decimals = np.zeros(len(end), np.int64)
        for place in range(DECIMALS, 0, -1):
            digit = text[end - place] - np.uint8(ord("0"))
            good &= (digit <= 9) | ~point
            decimals = decimals * 10 + digit
        value += decimals * point
    return value, good


def whole(text: Bytes, begin: Ints, end: Ints) -> tuple[Ints, Flags]:
    """Whole numbers of 1 to 16 digits at text[begin:end], as (n,) int64, and (n,) whether each is good."""
    length = end - begin
    good = (length > 0) & (length <= WIDTH)
    low, low_good = _word(text, end - WORD, length.clip(0, WORD))
    high, high_good = _word(text, end - WIDTH, (length - WORD).clip(0, WORD))
    good &= low_good & high_good
    return (high * np.uint64(10**WORD) + low).astype(np.int64), good


def _word(text: Bytes, at: Ints, digits: Ints) -> tuple[npt.NDArray[np.uint64], Flags]:
    """The last `digits` of the eight bytes at text[at:], as a number, and whether they are digits."""
    words = np.ndarray((len(text) - WORD + 1,), "<u8", text.data, 0, (1,))[at]  # any byte may begin a word
    used = USED[digits]
    words = (words & used) | (ZEROS & ~used)
    good = ((words + np.uint64(0x4646464646464646)) | (words - ZEROS)) & NOT_A_DIGIT == 0
    # Neighbours are joined three times, each multiplication shifting one half onto the other.
    words -= ZEROS
    words = words * np.uint64(10) + (words >> np.uint64(8))
    pairs = np.uint64(0x000000FF000000FF)
    first = (words & pairs) * np.uint64(0x000F424000000064)
    second = ((words >> np.uint64(16)) & pairs) * np.uint64(0x0000271000000001)
    return (first + second) >> np.uint64(32), good
