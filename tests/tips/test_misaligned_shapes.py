from __future__ import annotations

import pytest

from perfdoctor.tips.misaligned_shapes import misaligned_shapes as tip
from tests.support import facts
from tests.support.rank_traces import matrix

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
