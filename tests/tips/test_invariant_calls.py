from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.invariant_calls import InvariantCall, InvariantCallFacts
from perfdoctor.model.change import NOTHING, Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.invariant_calls import invariant_calls as tip
from tests.support.facts import gain

AT = Location("/home/me/teacher.py", 33, "follow", "theirs = encoder.state_dict()[name]")
CALL = InvariantCall(AT, "encoder.state_dict()", 31, 0.4, 0.0, 40, Bottleneck.HOST)


def said(*calls):
    advice = tip(InvariantCallFacts(calls))
    assert advice is not None
    return advice


def test_names_the_call_and_its_loop():
    advice = said(CALL)
    same = "where `encoder.state_dict()` is the same at each turn of the loop at line 31"
    assert advice.because == (
        f"40% of each step goes into line 33, {same}: `theirs = encoder.state_dict()[name]`",
    )
    assert (advice.at, advice.bottleneck) == ((AT,), Bottleneck.HOST)
    assert advice.code == "same = encoder.state_dict()  # once, before the loop at line 31"
    assert gain(advice).low == pytest.approx(1 / 0.8)
    assert gain(advice).likely == pytest.approx(1 / 0.62)
    assert gain(advice).high == pytest.approx(1 / 0.6)


def test_what_a_module_lists_one_by_one_is_kept_as_a_list():
    code = said(replace(CALL, call="model.named_parameters(recurse=False)")).code or ""
    assert code.startswith("same = list(model.named_parameters(recurse=False))  #")


def test_several_calls_are_told_together_and_those_that_hardly_matter_left_out():
    calls = [replace(CALL, at=replace(AT, line=line), share=share) for line, share in ((40, 0.2), (50, 0.01))]
    advice = said(CALL, *calls)
    assert [at.line for at in advice.at] == [33, 40]
    assert gain(advice).high == pytest.approx(1 / 0.39)


def test_what_loaders_wait_for_is_a_part_of_the_batch():
    advice = said(replace(CALL, of_batch=0.8, bottleneck=Bottleneck.DATA))
    assert advice.change.batch == Estimate(pytest.approx(0.4), pytest.approx(0.76), pytest.approx(0.8))
    assert advice.change.step == NOTHING


@pytest.mark.parametrize("call", [{"share": 0.04}, {"samples": 4}])
def test_is_silent(call):
    assert tip(InvariantCallFacts((replace(CALL, **call),))) is None
    assert tip(InvariantCallFacts()) is None
