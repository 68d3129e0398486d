from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.script.zero_weight_losses import zero_weight_loss_facts
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.script import DeviceEvent
from perfdoctor.wire.events.training import ModuleCallsEvent
from perfdoctor.wire.events.zero_weight_losses import ZeroWeightLossEvent
from tests.support.records import source_of

S = 10**9
SPAN = MeasuredSpan(0, 100 * S, 100, np.array([100 * S]))
SOURCES = Sources(source_of(train="features = encoder(x)\nextra = decoder(features)"))
LINE = {"file": "/home/me/train.py", "line": 2, "function": "main"}
LOOKS = (2, 4, 8, 16, 32, 64)  # one a second


def zeros(*looks, seconds=0.2, called_s=0.4, **told):
    return [
        ZeroWeightLossEvent(
            **{
                "look": look,
                "module": "Decoder",
                "calls": 1,
                "seconds": seconds,
                "called_s": called_s,
                "at": LINE,
            }
            | told
        )
        for look in looks
    ]


def facts(events, trained_on=()):
    looks = [ModuleCallsEvent(look=n, seconds=1.0, t_ns=at * S) for n, at in enumerate(LOOKS, 1)]
    return zero_weight_loss_facts(list(trained_on), events, looks, SPAN, SOURCES)


def test_the_part_of_the_run_begins_between_two_sampled_steps():
    found = facts(zeros(4, 5, 6))
    assert (found.module, found.zeros, found.samples) == ("Decoder", 3, 6)
    assert (found.share, found.of_called) == pytest.approx((0.2, 0.5))
    part = (found.part.low, found.part.likely, found.part.high)
    assert part == pytest.approx((0.84, 1 - (0.08 * 0.16) ** 0.5, 0.92))  # seconds 8 to 16
    assert found.at[0].text == "extra = decoder(features)"


def test_it_is_the_whole_run_where_all_sampled_steps_show_it():
    found = facts(zeros(1, 2, 3, 4, 5, 6))
    assert (found.part.low, found.part.high) == pytest.approx((0.98, 1.0))


def test_calls_of_several_lines_are_added_up_and_the_costliest_comes_first():
    other = {**LINE, "line": 1}
    found = facts([*zeros(5, 6, seconds=0.1, module="Head", at=other), *zeros(5, 6)])
    assert (found.module, [at.line for at in found.at]) == ("Decoder", [2, 1])
    assert found.share == pytest.approx(0.3)


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param((), id="none"),
        pytest.param((1, 2), id="at-the-beginning-only"),
        pytest.param((6,), id="in-the-last-one-only"),
        pytest.param((1, 2, 3, 4), id="no-longer"),
    ],
)
def test_what_gets_gradients_in_the_end_is_nothing_to_leave_out(looks):
    assert facts(zeros(*looks)) is None


def test_too_few_sampled_steps_tell_nothing():
    looks = [ModuleCallsEvent(look=n, seconds=1.0) for n in (1, 2)]
    assert zero_weight_loss_facts([], zeros(1, 2), looks, SPAN, SOURCES) is None


def test_on_a_device_the_reason_is_given():
    trained_on = DeviceEvent(backend="cuda", name="Tesla V100")
    assert isinstance(facts([], [trained_on]), Missing)
