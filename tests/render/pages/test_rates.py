from __future__ import annotations

import pytest

from perfdoctor.model.rates import TrainingRates
from perfdoctor.render.pages import rates

KNOWN = TrainingRates(1000.0, 128_000.0, 128.0, 4e12, 41e12, 312e12, 0.131, ("tokens: seen",), ())


def test_what_is_known_stands_in_a_line():
    assert rates.line(KNOWN) == "rates: 128,000 tokens/s, 41 TFLOP/s, MFU 13% of 312 TFLOP/s"


def test_what_is_not_known_is_said():
    nothing = TrainingRates(1000.0, None, None, None, None, None, None, (), ("FLOP: no window",))
    assert rates.line(nothing) == "rates: FLOP/s not known, MFU not known"
    assert rates.explained(nothing) == ("not known: FLOP: no window",)
    assert not nothing.is_told
    assert KNOWN.is_told


@pytest.mark.parametrize(
    ("count", "shown"), [(2e15, "2 PFLOP"), (4.2e12, "4.2 TFLOP"), (999.0, "999 FLOP"), (0.0, "0 FLOP")]
)
def test_operations_are_counted_in_the_unit_that_fits(count, shown):
    assert rates.flops(count) == shown
