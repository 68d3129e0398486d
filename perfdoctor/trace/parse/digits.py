"""Decimal numbers in text, parsed by the million: eight digits at a time in one 64-bit word."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfdoctor.trace.parse.columns import Flags, Ints

Bytes = npt.NDArray[np.uint8]

WORD = 8
WIDTH = 2 * WORD  # digits at most: whole microseconds since 1970 have 16
DECIMALS = 3  # digits after the point at most: nanoseconds of a number of microseconds
MISSING = 10 ** np.arange(DECIMALS, -1, -1)  # by the number of decimals: nanoseconds of the last
LONGEST = 24  # letters in which a number has ended
FIRST_LETTER, LETTERS = np.uint8(ord(".")), np.uint8(ord("9") - ord("."))  # of numbers: digits and the point
LARGEST = 2**62 // 10**DECIMALS  # of microseconds: the year 2116 in nanoseconds, and sums still fit
ZEROS = np.uint64(0x3030303030303030)
NOT_A_DIGIT = np.uint64(0x8080808080808080)
# By the number of digits in a word: where they are, from the highest byte down, the order of the text.
USED = np.array([2**64 - 2 ** (8 * (WORD - digits)) for digits in range(WORD + 1)], np.uint64)


def ends(text: Bytes, begin: Ints) -> Ints:
    """Where the numbers end that begin at text[begin:]; where one is longer than any of ours, its begin."""
    window = np.lib.stride_tricks.sliding_window_view(text, LONGEST)[begin]
    end: Ints = begin + ((window - FIRST_LETTER) > LETTERS).argmax(axis=1)
    return end


def nanoseconds(text: Bytes, begin: Ints, end: Ints) -> tuple[Ints, Flags]:
    """Numbers of microseconds at text[begin:end], as (n,) int64 nanoseconds, and (n,) whether each is good.

    Good is what has 1 to 16 digits, and either no decimals or up to three. `begin` is at least 16.
    """
    last = words_at(text, end - WORD)
    decimals = np.zeros(len(end), np.int64)
    for count in range(1, DECIMALS + 1):
        letter = (last >> np.uint64(8 * (WORD - count - 1))) & np.uint64(0xFF)
        decimals += count * ((letter == ord(".")) & (end - begin > count + 1))
    good = decimals <= DECIMALS  # more is two points
    decimals = decimals.clip(0, DECIMALS)
    value, whole_good = whole(text, begin, end - decimals - (decimals > 0))
    good &= whole_good & (value < LARGEST)
    value *= 10**DECIMALS
    if decimals.any():
        part, part_good = _word(text, end - WORD, decimals)
        good &= part_good
        value += part.astype(np.int64) * MISSING[decimals]
    return value, good


def whole(text: Bytes, begin: Ints, end: Ints) -> tuple[Ints, Flags]:
    """Whole numbers of 1 to 16 digits at text[begin:end], as (n,) int64, and (n,) whether each is good."""
    length = end - begin
    good = (length > 0) & (length <= WIDTH)
    low, low_good = _word(text, end - WORD, length.clip(0, WORD))
    high, high_good = _word(text, end - WIDTH, (length - WORD).clip(0, WORD))
    good &= low_good & high_good
    return (high * np.uint64(10**WORD) + low).astype(np.int64), good


def words_at(text: Bytes, at: Ints) -> npt.NDArray[np.uint64]:
    """The eight bytes at text[at:] as a number, the first one lowest, for each place."""
    words: npt.NDArray[np.uint64] = np.ndarray((len(text) - WORD + 1,), "<u8", text.data, 0, (1,))[at]
    return words


def _word(text: Bytes, at: Ints, digits: Ints) -> tuple[npt.NDArray[np.uint64], Flags]:
    """The last `digits` of the eight bytes at text[at:], as a number, and whether they are digits."""
    words = words_at(text, at)
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
