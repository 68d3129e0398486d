from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.repeated_calls import RepeatedFunction, RepeatedFunctionFacts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.repeated_calls import repeated_calls as tip
from tests.support.facts import gain, step

AT = Location("/home/me/train.py", 16, "fit", "rows = encode(text)")
CALL = RepeatedFunction(AT, "encode", 0.4, 40, Bottleneck.DATA, seen=64, arguments=56, in_all=144)
STEP = step(other=60, forward=40)


def said(*calls):
    advice = tip(STEP, RepeatedFunctionFacts(calls))
    assert advice is not None
    return advice


def test_names_the_line_and_how_many_results_there_are():
    advice = said(CALL)
    came = "by how often the arguments of `encode` came again in 64 calls, there are about 144 different ones"
    assert advice.because == (
        "40% of each step (40.0 ms) goes into calls that gave the same before",
        f"line 16 takes 40%: {came}: `rows = encode(text)`",
    )
    assert (advice.at, advice.bottleneck) == ((AT,), Bottleneck.DATA)
    assert advice.code == "functools.lru_cache(...)(encode)  # gives again what it gave before"
    assert gain(advice).low == pytest.approx(1 / 0.68)
    assert gain(advice).likely == pytest.approx(1 / 0.6)
    assert gain(advice).high == pytest.approx(1 / 0.58)


def test_what_is_the_same_in_each_step_is_done_once():
    advice = said(replace(CALL, arguments=1, in_all=None))
    assert "all 64 calls of `encode` looked at had the same arguments and result" in advice.because[1]
    assert advice.code == "result = encode(...)  # once, before the loop"


def test_lines_that_hardly_matter_are_not_named():
    other = replace(CALL, at=replace(AT, line=20), share=0.03)
    assert [at.line for at in said(CALL, other).at] == [16]


@pytest.mark.parametrize("call", [{"share": 0.04}, {"samples": 4}])
def test_is_silent(call):
    assert tip(STEP, RepeatedFunctionFacts((replace(CALL, **call),))) is None
    assert tip(STEP, RepeatedFunctionFacts()) is None
