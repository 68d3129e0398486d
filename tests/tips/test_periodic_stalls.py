from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location, Phase
from perfdoctor.tips.periodic_stalls import periodic_stalls as tip
from tests.support.facts import gain, run
from tests.support.host_facts import stalling


def test_says_how_often_and_how_long_and_where():
    advice = tip(run(), stalling())
    assert advice is not None
    assert advice.because == (
        "every 50 steps a step takes 60.0 ms, the others 10.0 ms",
        "10 such steps take 20% of the training time beyond that",
        "90% of it lies in `other`",
        "what runs then is line 40: `refresh(pool)`",
    )
    assert advice.at[0].line == 40
    assert advice.code == "if step % 500 == 0:\n    refresh(pool)"
    assert gain(advice).likely == pytest.approx(1 / 0.82)
    assert gain(advice).low == pytest.approx(1 / 0.9)


def test_the_line_that_nearly_all_of_it_goes_into_comes_first():
    found = stalling()
    inner = Location("/home/me/pool.py", 7, "refresh", "hardest = rank(people)")
    advice = tip(run(), replace(found, line=replace(found.line, inner=inner)))
    assert advice.because[-1] == "nearly all of that is line 7 of pool.py: `hardest = rank(people)`"
    assert ([at.line for at in advice.at], advice.leading) == ([7, 40], (found.line.at,))
    assert advice.code == "if step % 500 == 0:\n    refresh(pool)"


def test_an_interval_in_seconds_is_told_with_the_line_that_keeps_it():
    advice = tip(run(), stalling(every=None))
    assert advice.because[0].startswith("every 5.0 s a step takes")
    assert advice.code is None


def test_time_goes_to_the_class_of_the_phase_or_of_its_line():
    assert tip(run(), stalling()).bottleneck is Bottleneck.HOST
    assert tip(run(), stalling(kind="compute")).bottleneck is Bottleneck.COMPUTE
    assert tip(run(), stalling(phase=Phase.FORWARD)).bottleneck is Bottleneck.COMPUTE


def test_a_line_of_no_kind_may_call_what_computes():
    assert tip(run(), stalling()).also == (Bottleneck.COMPUTE,)
    assert tip(run(), stalling(kind="host")).also == ()
    assert tip(run(), stalling(text=None)).also == ()


def test_steps_alone_are_enough_to_tell_an_interval_in_steps():
    advice = tip(run(), stalling(text=None))
    assert (advice.at, len(advice.because)) == ((), 3)
    assert advice.code == "if step % 500 == 0:\n    ...  # what runs every 50 steps now"


def test_a_rollout_for_the_steps_that_follow_is_the_methods_own():
    assert tip(run(), replace(stalling(text=None), collects=True)) is None


@pytest.mark.parametrize(
    ("facts", "device"),
    [
        pytest.param(stalling(share=0.049), "cpu", id="not-worth-it"),
        pytest.param(stalling(every=None, text=None), "cpu", id="may-come-from-outside"),
        pytest.param(stalling(text=None), "NVIDIA A100", id="may-wait-for-the-device"),
        pytest.param(stalling(text="lossf = loss.item()"), "NVIDIA A100", id="waits-for-the-device"),
        pytest.param(stalling(text=None, phase=Phase.FORWARD), "cpu", id="passes-may-be-the-methods-own"),
    ],
)
def test_is_silent(facts, device):
    assert tip(run(device=device), facts) is None


def test_on_a_device_a_line_that_hands_a_tensor_to_its_logger_waits():
    stalls = stalling(text='wandb.log({"loss": loss})', kind="logging")
    handed = replace(stalls, line=replace(stalls.line, reads_tensor=True))
    assert tip(run(device="NVIDIA A100"), stalls) is not None
    assert tip(run(device="NVIDIA A100"), handed) is None
    assert tip(run(), handed) is not None


def test_fires_at_the_threshold():
    assert tip(run(), stalling(share=0.05)) is not None
