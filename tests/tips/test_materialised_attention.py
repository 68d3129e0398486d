from __future__ import annotations

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.tips.materialised_attention import materialised_attention as tip
from tests.support import facts
from tests.support.rank_traces import attention

LINE = Location("model.py", 31, "attend", "weights = scores.softmax(-1)")


def test_says_what_handling_the_scores_costs_and_for_which_sizes():
    advice = tip(facts.attention(attention(), attention(25, 20, backward=True, sizes=None), at=(LINE,)))
    assert advice.because == (
        "15.0% of the time goes into the scores between the two matrix products of attention",
        "the matrix products themselves take 14.0%",
        "60 times forward: 96 heads, 512 queries, 512 keys",
        "the softmax is at line 31 (`weights = scores.softmax(-1)`)",
    )
    assert advice.at == (LINE,)


def test_a_module_that_returns_unused_weights_is_told_not_to() -> None:
    line = Location("model.py", 9, "forward", "h, _ = self.attention(h, h, h)")
    advice = tip(facts.attention(attention(), at=(line,), unused_weights=True))
    assert advice.because[-1] == (
        "a call that returns weights which nothing uses is at line 9 (`h, _ = self.attention(h, h, h)`)"
    )
    assert "need_weights=False" in advice.code


def test_the_scores_go_and_half_of_the_products_at_best():
    gain = facts.gain(tip(facts.attention(attention(50, 50))))
    assert (gain.low, gain.likely, gain.high) == pytest.approx((1 / 0.95, 1 / 0.9, 1 / 0.85))


@pytest.mark.parametrize(
    "uses",
    [
        pytest.param((attention(24.9, 400),), id="scores-are-cheap"),
        pytest.param((), id="none"),
    ],
)
def test_is_silent(uses):
    assert tip(facts.attention(*uses)) is None
