from __future__ import annotations

import pytest

from perfdoctor.diagnosis.calibration import BEYOND, PartialGain
from perfdoctor.diagnosis.gains import calibrated
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Bottleneck, Gain

HOST = Bottleneck.HOST
FREE = dict.fromkeys(Bottleneck, 2.0)  # of what each class takes


def told(gain, takes=None):
    part = PartialGain(HOST, gain, is_setting=False)
    return calibrated(gain, [part], FREE, {}, checked=Checked.SCRIPTS, takes=takes)


def test_a_gain_reaches_no_further_than_all_that_it_is_about():
    gain = Gain(1.02, 1.20, 1.25)
    free, held = told(gain), told(gain, takes=0.1)
    assert free.likely > 1 / 0.9
    assert held.likely == pytest.approx(1 / 0.9)
    assert held.high == pytest.approx((1 / 0.9) ** BEYOND)


@pytest.mark.parametrize("takes", [None, 1.0, 0.9])
def test_what_takes_more_than_its_class_is_held_by_the_class_alone(takes):
    gain = Gain(1.1, 1.3, 1.4)
    assert told(gain, takes) == told(gain)
