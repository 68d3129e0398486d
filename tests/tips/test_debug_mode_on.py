from __future__ import annotations

import pytest

from perfdoctor.model.measured import Location, Phase
from perfdoctor.tips.debug_mode_on import debug_mode_on as tip
from tests.support.facts import gain, line, run, step
from tests.support.host_facts import debug

STEP = step(forward=4, backward=4, optimizer=2)
GPU = run(device="Tesla V100")
AT = Location("train.py", 9, "main", "torch.autograd.set_detect_anomaly(True)")


def test_names_the_mode_and_the_line_that_turned_it_on():
    advice = tip(run(), STEP, debug(anomaly=AT))
    assert advice is not None
    assert advice.because == (
        "anomaly detection is on, in 100% of the sampled steps",
        "forward and backward are 80% of the step",
    )
    assert advice.at == (AT,)
    assert advice.tweak == "--no-debug"
    assert advice.code == "torch.autograd.set_detect_anomaly(False)"
    assert advice.same_result
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.24))
    assert gain(advice).high == pytest.approx(1 / (1 - 0.60))


def test_a_weighed_graph_replaces_the_known_range():
    forward_s, backward_s = (STEP.seconds[phase] for phase in (Phase.FORWARD, Phase.BACKWARD))
    advice = tip(run(), STEP, debug(anomaly=AT, anomaly_s=(forward_s / 2, backward_s / 4)))
    traced, checked = STEP.share(Phase.FORWARD) / 2, STEP.share(Phase.BACKWARD) / 4
    assert gain(advice).low == pytest.approx(1 / (1 - traced))
    assert gain(advice).likely == pytest.approx(1 / (1 - traced - checked))
    assert gain(advice).high == pytest.approx(1 / (1 - 1.3 * (traced + checked)))


def test_what_was_weighed_never_takes_all_of_a_phase():
    advice = tip(run(), STEP, debug(anomaly=AT, anomaly_s=(9.0, 9.0)))
    computing = STEP.share(Phase.FORWARD) + STEP.share(Phase.BACKWARD)
    assert gain(advice).likely == gain(advice).high == pytest.approx(1 / (1 - 0.95 * computing))


def test_launches_that_wait_cost_no_more_than_the_shorter_of_host_and_device():
    advice = tip(GPU, STEP, debug(blocking=None, busy=0.7))
    assert advice is not None
    assert gain(advice).high == pytest.approx(1 / (1 - 0.3))
    assert advice.at == ()
    assert advice.code == "unset CUDA_LAUNCH_BLOCKING"


def test_several_modes_do_not_add():
    alone = gain(tip(GPU, STEP, debug(deterministic=AT)))
    both = gain(tip(GPU, STEP, debug(deterministic=AT, blocking=None)))
    assert alone.likely == pytest.approx(1 / 0.9)
    assert both.likely == pytest.approx(1 / (0.9 * 0.8))


def test_deterministic_algorithms_give_other_results_when_they_are_off():
    advice = tip(GPU, STEP, debug(deterministic=AT))
    assert advice is not None
    assert not advice.same_result
    assert advice.tweak is None  # they make results repeatable, and the tweak leaves them on


def test_the_tweak_takes_out_what_stands_beside_deterministic_algorithms():
    advice = tip(GPU, STEP, debug(deterministic=AT, blocking=None))
    assert advice is not None
    assert advice.tweak == "--no-debug"


def test_lines_that_look_for_nan_are_measured():
    check = line(0.10, 30, text="if torch.isnan(p.grad).any():")
    advice = tip(run(), STEP, debug(check))
    assert advice is not None
    assert advice.because == ("lines that check for NaN take 10.0% of the step",)
    assert advice.at == (check.at,)
    assert advice.tweak is None
    assert gain(advice).likely == pytest.approx(1 / 0.9)
    assert tip(GPU, STEP, debug(check)) is None  # there it waits for the work before it


@pytest.mark.parametrize(
    ("of_run", "of_step", "of_debug"),
    [
        pytest.param(run(), STEP, debug(deterministic=AT), id="deterministic-on-the-cpu"),
        pytest.param(GPU, STEP, debug(sync=AT), id="warnings-of-synchronisations"),
        pytest.param(
            run(), step(forward=0.3, backward=0.3, data_wait=9.4), debug(anomaly=AT), id="no-compute"
        ),
        pytest.param(run(), STEP, debug(line(0.019, text="isnan(x)")), id="cheap-check"),
    ],
)
def test_is_silent(of_run, of_step, of_debug):
    assert tip(of_run, of_step, of_debug) is None


def test_a_block_is_taken_out():
    block = Location("train.py", 9, "main", "with torch.autograd.detect_anomaly():")
    advice = tip(run(), STEP, debug(anomaly=block))
    assert advice is not None
    assert advice.code == "# remove: with torch.autograd.detect_anomaly():"
