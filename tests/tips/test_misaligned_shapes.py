from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.misaligned_shapes import misaligned_shapes as tip
from perfdoctor.trace.results import DevicePeak
from tests.support import facts
from tests.support.rank_traces import A100, matrix

ODD = matrix(512, 30_522, 768, 30, multiple=2)
EVEN = matrix(512, 30_528, 768, 30, multiple=64)


def test_names_shapes_and_the_size_that_is_off():
    advice = tip(facts.matrices(ODD, share=0.3))
    assert advice.because == (
        "30.0% of the time goes into 16-bit products of sizes that are not multiples of 8",
        "aten::mm, m=512 n=30522 k=768 in float16: 30.0% of the time (n misaligned)",
    )


def test_of_numbers_of_32_bits_four_fill_what_is_loaded_at_once():
    odd = matrix(512, 30_522, 768, 30, dtype="tf32", multiple=2)
    assert tip(facts.matrices(odd, share=0.3)).because == (
        "30.0% of the time goes into TF32 products of sizes that are not multiples of 4",
        "aten::mm, m=512 n=30522 k=768 in tf32: 30.0% of the time (n misaligned)",
    )
    assert tip(facts.matrices(matrix(512, 30_524, 768, 30, dtype="tf32", multiple=4), share=0.3)) is None


def test_only_the_misaligned_part_counts():
    gain = facts.gain(tip(facts.matrices(ODD, EVEN, share=0.4)))
    assert gain.high == pytest.approx(1 / (1 - 0.2 * 0.75))


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(EVEN, id="aligned"),
        pytest.param(matrix(511, 511, 511, 30, dtype="float32"), id="in-32-bits"),
    ],
)
def test_is_silent(use):
    assert tip(facts.matrices(use)) is None


def test_is_silent_where_they_take_little():
    assert tip(facts.matrices(ODD, share=0.02)) is None


H200 = DevicePeak("H200", {"bfloat16": 989e12}, 4.8e12, "-")


def test_where_the_rate_is_known_an_aligned_product_tells_the_gain():
    # As many classes as GPT-2 has words, on an H200: 11 and 7 times the minimum, and 4.3 times as fast padded.
    uses = (
        matrix(4096, 50_257, 1024, 13.6, dtype="bfloat16", count=3),
        matrix(50_257, 1024, 4096, 9.06, dtype="bfloat16", count=3),
    )
    gain = facts.gain(tip(facts.matrices(*uses, share=0.905, peak=H200)))
    assert gain.likely == pytest.approx(4.0, abs=0.1)
    assert gain.low < 4.34 < gain.high < 8


def test_a_product_that_is_near_the_rate_gains_as_much_as_elsewhere_and_never_more_than_the_rate_allows():
    near = matrix(4096, 50_257, 1024, 13.6 / 8, dtype="bfloat16", count=3)
    gain = facts.gain(tip(facts.matrices(near, share=0.9, peak=H200)))
    assert gain.likely == pytest.approx(1 / (1 - 0.9 * (1 - 1 / 1.3)))
    assert gain.high < 1.4


@pytest.mark.parametrize(
    "small",
    [
        pytest.param(replace(matrix(4, 4, 4, 5), batch=1 << 20), id="smaller-than-a-tile"),
        pytest.param(matrix(129, 127, 65, 0.06), id="as-short-as-a-launch"),
    ],
)
def test_small_products_gain_no_more_for_a_known_rate(small):
    known, unknown = (facts.gain(tip(facts.matrices(small, peak=peak))) for peak in (A100, None))
    assert known.likely == unknown.likely
