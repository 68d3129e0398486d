from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.compiling import CompiledAgain, CompilingFacts
from perfdoctor.model.measured import Location, Phase
from perfdoctor.tips.recompilations import recompilations as tip
from tests.support.facts import gain

LINE = Location("train.py", 9, "forward", "self.calls += 1")
FUNCTION = Location("train.py", 8, "forward", "def forward(self, x):")
CALL = Location("train.py", 30, "main", "model = torch.compile(net, mode='default')")
VALUE = CompiledAgain(
    FUNCTION, "forward", 4, 20.0, 0.0, False, ("self.calls",), LINE, ((Phase.FORWARD, 0.2),)
)
SIZE = replace(VALUE, broken=("tensor 'x' size mismatch at index 0",), at=None)


def taking(seconds, phase=Phase.FORWARD):
    """Of 100 seconds."""
    return replace(VALUE, seconds=seconds, shares=((phase, seconds / 100),))


def facts(*again, span_s=100.0, calls=(CALL,)):
    return CompilingFacts(5, 30.0, again, (), calls, span_s)


def test_says_what_changed_where_and_what_compiling_again_took():
    advice = tip(facts(VALUE))
    assert advice.because[:2] == (
        "`forward` was compiled 5 times",
        "each time because something changed: self.calls",
    )
    assert advice.because[-1] == (
        "compiling again took 20.0 s, 20.0% of the time from first step to last, in forward"
    )
    assert advice.at == (LINE, FUNCTION)
    assert advice.code is None
    assert gain(advice).likely == pytest.approx(1 / 0.85)  # one of the four allows for what changes


def test_sizes_are_mended_where_torch_compile_is_called():
    advice = tip(facts(SIZE))
    assert advice.at == (CALL, FUNCTION)
    assert advice.code == "model = torch.compile(net, mode='default', dynamic=True)"
    assert tip(facts(SIZE, calls=())).code == "model = torch.compile(model, dynamic=True)"


def test_giving_up_is_told_however_little_time_it_took():
    given_up = replace(taking(0.1), given_up=True)
    advice = tip(facts(given_up))
    assert "then torch gave up: it runs uncompiled since" in advice.because
    assert advice.about == "risk"


def test_fires_at_the_threshold_and_is_silent_just_under_it():
    assert tip(facts(taking(2.0))) is not None
    assert tip(facts(taking(1.99))) is None


def test_a_second_compilation_is_usual():
    assert tip(facts(replace(VALUE, times=1))) is None
    assert tip(facts()) is None


def test_the_one_that_was_given_up_is_named_first():
    advice = tip(facts(replace(VALUE, name="slow", seconds=30.0), replace(VALUE, name="lost", given_up=True)))
    assert advice.because[0] == "`lost` was compiled 5 times"
    assert "of 2 pieces of code" in advice.because[-1]


def test_what_the_next_start_finds_in_the_compilers_cache_is_only_possible_to_gain():
    change = tip(facts(replace(VALUE, kept_s=16.0))).change
    assert change.is_once
    assert (change.step.low, change.step.likely, change.step.high) == pytest.approx((0.015, 0.03, 0.2))
    advice = tip(facts(replace(VALUE, kept_s=19.0)))
    assert (advice.about, advice.start_s) == ("start", 20.0)
    assert advice.because[-1].endswith(
        "to last, in forward; the next start finds 19.0 s of it in the compiler's cache"
    )


def test_no_more_goes_than_the_phases_in_which_it_was_compiled_took_for_it():
    short = replace(VALUE, shares=((Phase.FORWARD, 0.08), (Phase.BACKWARD, 0.04)))  # the rest is of no step
    advice = tip(facts(short))
    assert advice.change.step.high == pytest.approx(0.12)
    assert advice.change.step.likely == pytest.approx(0.09)
    assert advice.because[-1].endswith("20.0% of the time from first step to last, in forward and backward")
    assert tip(facts(replace(VALUE, shares=()))) is None


def test_what_is_compiled_in_validation_goes_from_the_pauses():
    change = tip(facts(taking(12.0, Phase.VALIDATION), taking(4.0))).change
    assert (change.pauses.likely, change.pauses.high) == pytest.approx((0.09, 0.12))
    assert (change.step.likely, change.step.high) == pytest.approx((0.03, 0.04))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "net = DDP(torch.compile(net), device_ids=[0])",
            "net = DDP(torch.compile(net, dynamic=True), device_ids=[0])",
        ),
        ("net = torch.compile(net).to(device)", "net = torch.compile(net, dynamic=True).to(device)"),
        ("größe = torch.compile(net,)", "größe = torch.compile(net, dynamic=True)"),
        ("net = torch.compile(net, **options)", "model = torch.compile(model, dynamic=True)"),
        ("net = torch.compile(", "model = torch.compile(model, dynamic=True)"),
        ("net = build(net)", "model = torch.compile(model, dynamic=True)"),
    ],
)
def test_the_call_that_compiles_is_told_of_sizes(text, code):
    assert tip(facts(SIZE, calls=(replace(CALL, text=text),))).code == code


def test_a_call_of_several_lines_is_mended_as_one():
    call = replace(CALL, text="net = torch.compile(", whole="net = torch.compile(net, mode=None)")
    assert tip(facts(SIZE, calls=(call,))).code == "net = torch.compile(net, mode=None, dynamic=True)"
