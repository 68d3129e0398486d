"""Ranges of predicted gains are widened to what measured gains ask for."""

import math
import random

import pytest

from bench import ranges
from perfdoctor.diagnosis import calibration
from perfdoctor.diagnosis.calibration import (
    Case,
    PartialGain,
    corrected,
    fit,
    fit_powers,
    fitted_here,
    least,
    power_of,
    raised,
    settings_on,
    widen,
    widening,
)
from perfdoctor.model.change import Effort
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.widening import MachineRanges, Widening
from tests.support.paths import ROOT

DATA, TRANSFER = Bottleneck.DATA, Bottleneck.TRANSFER
MEASURED, UNMEASURED = Checked.SCRIPTS, Checked.CPU_SCRIPTS
MODULE = ROOT / "perfdoctor" / "diagnosis" / "calibration.py"


def case(measured, kind=DATA, cause="a", effort=Effort.FLAG):
    return Case(kind, effort, cause, Gain(1.5, 2.0, 2.5), measured)


@pytest.mark.parametrize(
    ("measured", "below", "above"),
    [(1.5, 0, 0), (2.5, 0, 0), (1.5 / 1.2, math.log(1.2), 0), (2.5 * 1.3, 0, math.log(1.3))],
)
def test_a_miss_is_how_far_outside_the_range_the_gain_lies(measured, below, above):
    assert (case(measured).below, case(measured).above) == (pytest.approx(below), pytest.approx(above))


def test_each_end_moves_by_the_smallest_miss_that_holds_nine_of_ten_with_one_to_come():
    misses = [1 + 0.01 * number for number in range(19)]
    everything, kinds = fit([case(2.5 * miss) for miss in misses])
    assert kinds == {DATA: everything}
    assert (everything.cases, everything.below) == (19, 0.0)
    assert everything.above == pytest.approx(math.log(1.17))  # the eighteenth


def test_the_likely_gain_stays():
    assert widen(Gain(1.2, 1.5, 1.8), Widening(9, math.log(1.2), math.log(1.1))) == Gain(
        pytest.approx(1.0), 1.5, pytest.approx(1.8 * 1.1)
    )


def test_measured_gains_raise_those_predicted_by_class_of_time():
    powers = (1.0, 1.1, 1.2, 1.3, 1.3, 1.3, 1.4, 1.5, 2.0)
    data = [case(2.0**power) for power in powers]
    fitted = fit_powers([*data, *(case(3.0, kind=Bottleneck.HOST) for _ in range(8))])
    assert fitted == {DATA: pytest.approx(1.3)}  # of the others, there are too few
    assert case(2.0).raised(fitted).predicted.likely == pytest.approx(2.0**1.3)
    assert case(2.0, kind=Bottleneck.HOST).raised(fitted).predicted.likely == 2.0


def test_predictions_of_next_to_nothing_tell_nothing_of_powers():
    assert fit_powers([Case(DATA, Effort.FLAG, "a", Gain(1.0, 1.01, 1.1), 1.5)] * 20) == {}


def test_a_slowdown_and_what_was_never_measured_are_not_raised():
    assert raised(Gain(0.9, 1.0, 2.0), 2.0) == Gain(0.9, 1.0, 4.0)
    gain = Gain(1.5, 2.0, 2.5)
    assert corrected(gain, [PartialGain(DATA, gain, False)], {}, UNMEASURED).likely == 2.0
    power = calibration.POWERS[DATA]
    assert power > 1
    assert corrected(gain, [PartialGain(DATA, gain, False)], {}, MEASURED).likely == pytest.approx(2.0**power)


def test_of_changes_made_together_each_counts_as_its_gain():
    large, small = Gain(1.0, 4.0, 5.0), Gain(1.0, 2.0, 5.0)
    assert power_of([PartialGain(DATA, large, False), PartialGain(TRANSFER, small, False)]) == pytest.approx(
        (2 * calibration.POWERS[DATA] + 1) / 3
    )
    assert power_of([PartialGain(DATA, Gain(), False)]) == 1
    assert power_of([PartialGain(DATA, large, True)]) == 1


def test_what_the_step_model_plays_through_is_not_raised():
    played = Case(DATA, Effort.FLAG, "a", Gain(1.5, 2.0, 2.5), 3.0, is_setting=True)
    assert played.raised({DATA: 1.3}) == played
    assert fit_powers([played] * 20) == {}


def test_new_cases_lie_within_as_often_as_promised():
    draw = random.Random(1).gauss
    held = []
    for _ in range(400):
        seen = [case(2.0 * math.exp(draw(0, 0.4))) for _ in range(19)]
        gain = widen(Gain(1.5, 2.0, 2.5), fit(seen)[0])
        held.append(gain.low <= 2.0 * math.exp(draw(0, 0.4)) <= gain.high)
    assert 0.76 <= sum(held) / len(held) <= 0.90  # 16 of 20, and the scatter of 400


def test_the_widest_of_several_kinds_counts():
    kinds = [kind for kind, by in calibration.BY_KIND.items() if by.is_known]
    by = widening(kinds, MEASURED)
    assert by.below == max(calibration.BY_KIND[kind].below for kind in kinds)
    assert by.above == max(calibration.BY_KIND[kind].above for kind in kinds)


@pytest.mark.parametrize(
    ("kinds", "checked"),
    [((TRANSFER,), MEASURED), ((DATA, TRANSFER), MEASURED)]
    + [((DATA,), checked) for checked in Checked if checked is not MEASURED],
)
def test_what_was_hardly_measured_gets_a_wide_range(kinds, checked):
    by = widening(kinds, checked)
    assert not by.is_known
    assert by.below >= calibration.UNKNOWN_KIND * calibration.ALL_KINDS.below > 0
    assert by.above >= calibration.UNKNOWN_KIND * calibration.ALL_KINDS.above > 0
    assert by.below >= max(each.below for each in calibration.BY_KIND.values() if each.is_known)
    assert by.above >= max(each.above for each in calibration.BY_KIND.values() if each.is_known)


@pytest.mark.parametrize("device", ["cpu", "NVIDIA H100"])
def test_what_a_machines_own_trials_ask_for_stands_in_place_of_all_other_cases(device):
    gain, own = Gain(1.5, 2.0, 2.5), {DATA: Widening(10, math.log(1.5), math.log(2.0))}
    checked = settings_on(device)
    by_own = Gain(pytest.approx(1.0), 2.0, pytest.approx(5.0))
    assert corrected(gain, [PartialGain(DATA, gain, False)], own, checked) == by_own
    other = [PartialGain(TRANSFER, gain, False)]
    assert corrected(gain, other, own, checked) == corrected(gain, other, {}, checked)


def test_a_machines_trials_tell_of_settings_only():
    machine = MachineRanges("cpu", {DATA: Widening(10, 0.1, 0.1)})
    assert fitted_here([Effort.FLAG, Effort.FLAG], machine) == machine.by_kind
    assert fitted_here([Effort.FLAG, Effort.LINES], machine) == {}
    assert fitted_here([], machine) == {}


def test_changes_made_together_were_held_against_no_more_than_the_one_least_checked():
    assert least([Checked.SCRIPTS, Checked.SCRIPTS]) is Checked.SCRIPTS
    assert least([Checked.SCRIPTS, Checked.FACTS, Checked.TRACES]) is Checked.FACTS
    assert least([]) is Checked.FACTS


def test_the_table_is_what_the_measured_gains_say():
    written = MODULE.read_text(encoding="utf-8").partition(ranges.BEGIN)[2].partition(ranges.END)[0]
    assert written == ranges.table(ranges.read(ranges.CASES))


def test_causes_left_out_in_turn_are_held_by_the_others():
    judged = ranges.left_out(ranges.read(ranges.CASES))
    held = [gain.low <= each.measured <= gain.high for each, gain in judged]
    assert sum(held) / len(held) >= ranges.PROMISED


def test_a_gain_that_is_like_those_of_another_class_is_corrected_as_they_are():
    gain = Gain(1.2, 1.3, 1.4)

    def told(*part):
        return corrected(gain, [PartialGain(*part)], {}, Checked.SCRIPTS)

    like = told(Bottleneck.NETWORK, gain, False, Bottleneck.COMPUTE)
    assert like == told(Bottleneck.COMPUTE, gain, False)
    assert like != told(Bottleneck.NETWORK, gain, False)
