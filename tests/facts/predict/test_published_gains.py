"""What published benchmarks say of a change: ranges by kind of model."""

from dataclasses import astuple
from itertools import pairwise

import pytest

from perfdoctor.facts.predict import published_gains
from perfdoctor.facts.predict.published_gains import (
    MainWork,
    ModelKind,
    change,
    channels_last,
    compiled,
    mixed_precision,
)
from perfdoctor.model.change import Estimate
from perfdoctor.model.concluded import Gain

KINDS = [ModelKind(None), *(ModelKind(work) for work in MainWork), ModelKind(MainWork.GROUPED, 24.0)]
WIDTHS = [1, 4, 8, 12, 16, 24, 32, 48, 64, 128, 512]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_has_a_range_around_what_is_likely(kind):
    gains = [channels_last(kind), *(mixed_precision(kind, tf32) for tf32 in (False, True))]
    gains += [compiled(kind, fusible) for fusible in (None, 0.0, 0.3, 0.9, 1.0)]
    for gain in gains:
        assert 0.0 < gain.low <= gain.likely <= gain.high


def test_channels_last_brings_less_the_wider_the_groups_and_then_slows_down():
    gains = [channels_last(ModelKind(MainWork.GROUPED, width)) for width in WIDTHS]
    for narrower, wider in pairwise(gains):
        assert all(b <= a for a, b in zip(astuple(narrower), astuple(wider), strict=True))
    assert gains[0].likely > 1.0 > gains[0].low
    assert gains[-1].high < 1.0
    assert channels_last(ModelKind(MainWork.DEPTHWISE)).likely > 1.1


def test_what_is_not_known_is_as_wide_as_all_that_it_may_be():
    unknown = channels_last(ModelKind(None))
    for known in (ModelKind(MainWork.CONVOLUTIONS), ModelKind(MainWork.GROUPED, 64.0)):
        assert unknown.low <= channels_last(known).low
        assert unknown.high >= channels_last(known).high
    assert channels_last(ModelKind(MainWork.GROUPED)) == channels_last(ModelKind(MainWork.UNSHAPED))


def test_groups_do_not_matter_to_precision_and_convolutions_are_compiled_as_convolutions_are():
    unshaped = ModelKind(MainWork.UNSHAPED)
    assert mixed_precision(unshaped, tf32=True) == mixed_precision(
        ModelKind(MainWork.CONVOLUTIONS), tf32=True
    )
    assert compiled(unshaped, 0.5).high < compiled(ModelKind(None), 0.5).high


def test_compiling_brings_more_the_more_can_be_fused_and_nothing_without():
    gains = [compiled(ModelKind(MainWork.MATRICES), fusible / 10) for fusible in range(11)]
    for fewer, more in pairwise(gains):
        assert all(b >= a for a, b in zip(astuple(fewer), astuple(more), strict=True))
    assert gains[0] == Gain()
    assert gains[-1].high <= published_gains.COMPILED[MainWork.MATRICES].gain.high


def test_without_any_products_more_may_go_than_from_any_published_model():
    chain = compiled(ModelKind(None), 0.99)
    assert chain.likely < 8.8 < chain.high  # measured
    assert chain.high > published_gains.COMPILED[MainWork.MATRICES].gain.high
    assert compiled(ModelKind(None), 0.0) == Gain()


def test_tf32_leaves_less_to_gain_from_16_bits():
    for work in (MainWork.MATRICES, MainWork.CONVOLUTIONS):
        kind = ModelKind(work)
        assert mixed_precision(kind, tf32=True).likely < mixed_precision(kind, tf32=False).likely


def test_a_model_with_few_products_gains_in_proportion_and_a_slowdown_adds_time():
    gain = Gain(0.5, 2.0, 4.0)
    assert change(gain, 0.8, 0.7).step == Estimate(-0.8, 0.4, pytest.approx(0.6))
    assert change(gain, 0.8, 0.7).is_published
    assert change(gain, 0.8, 0.1).step == Estimate(-0.2, 0.1, pytest.approx(0.15))
