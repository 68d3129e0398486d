from __future__ import annotations

import pytest

from perfdoctor.facts.script.repeated_copies import CopyingLine, RepeatedCopyFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import LineCost, Location, Phase
from perfdoctor.tips.large_copies_every_step import IN_PLACE
from perfdoctor.tips.large_copies_every_step import large_copies_every_step as tip
from tests.support.facts import step

STEP = step(forward=4, backward=3, optimizer=1, other=2)


def copying(number=30, share=0.2, names=("clone",), text="best = copy.deepcopy(model)", **seen):
    return CopyingLine(Location("train.py", number, "main", text), share, 15e6, 12.0, names, **seen)


LINES = (copying(),)


def copies(likely=0.2, size=15.4e6, lines=LINES):
    return RepeatedCopyFacts(Estimate(likely / 2, likely, min(1.0, likely * 1.5)), size, lines, 4)


def test_says_how_much_is_copied_by_which_line_and_with_what():
    advice = tip(STEP, copies(lines=(copying(), copying(31, 0.01))))
    assert advice.because == (
        "20% of each step (2.0 ms) copies 15.4 MB that the step before copied too, in 4 sampled steps",
        "line 30 copies the most, 15 MB (`clone`): `best = copy.deepcopy(model)`",
    )
    assert [at.line for at in advice.at] == [30, 31]


def test_a_line_without_its_text_is_still_named():
    assert tip(STEP, copies(lines=(copying(text=None),))).because[1].endswith("15 MB (`clone`)")


def test_half_of_it_is_sure_to_go_and_at_most_what_the_sampled_steps_spent():
    share = tip(STEP, copies()).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.05, 0.2, 0.3))


def test_stack_samples_see_what_python_adds_to_the_calls():
    seen = LineCost(Location("train.py", 30), 0.45, 90)
    advice = tip(STEP, copies(lines=(copying(phase=Phase.OTHER, cost=seen), copying(31, 0.05))))
    assert advice.change.step.high == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("kind", "bottleneck"),
    [
        ("data", Bottleneck.DATA),
        ("queue", Bottleneck.DATA),
        ("compute", Bottleneck.COMPUTE),
        (None, Bottleneck.HOST),
    ],
)
def test_it_belongs_to_the_class_that_the_lines_time_is_charged_to(kind, bottleneck):
    seen = LineCost(Location("train.py", 30), 0.2, 90, kind=kind)
    assert tip(STEP, copies(lines=(copying(phase=Phase.OTHER, cost=seen),))).bottleneck is bottleneck


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("clone", "copy_"),
        ("__deepcopy__", "copy_"),
        ("cat", "torch.empty(capacity"),
        ("double", "data.float()"),
    ],
)
def test_the_cure_is_that_of_the_function(name, code):
    advice = tip(STEP, copies(lines=(copying(names=(name,)),)))
    assert code in advice.code
    assert f"(`{name.strip('_')}`)" in advice.because[1]


@pytest.mark.parametrize("name", ["clone", "float", "cat"])
def test_weights_that_an_update_may_need_are_copied_into_the_same_memory_for_a_part_of_the_gain(name):
    advice = tip(STEP, copies(lines=(copying(names=(name,), weights=True),)))
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.0, 0.2 * IN_PLACE, 0.3))
    assert "an update may need the old weights" in advice.because[2]
    assert ("out=flat" if name == "cat" else "kept.copy_(new.detach())") in advice.code
    assert not any(form in advice.code for form in ("step %", "capacity", "data.float()"))


@pytest.mark.parametrize(("name", "code"), [("cat", "out=flat"), ("clone", "kept.copy_(weight.grad)")])
def test_gradients_are_no_items_of_a_buffer(name, code):
    advice = tip(STEP, copies(lines=(copying(names=(name,), gradients=True),)))
    assert advice.change.step.likely == pytest.approx(0.2 * IN_PLACE)
    assert advice.because[2].startswith("an update may need the old gradients")
    assert code in advice.code
    assert "weight.grad" in advice.code
    assert not any(form in advice.code for form in ("step %", "capacity", "data.float()"))
    rarely = tip(STEP, copies(lines=(copying(names=(name,), gradients=True, reported=True),)))
    assert rarely.change.step.likely == pytest.approx(0.2)
    assert rarely.code.startswith("if step % 100 == 0:")
    assert "weight.grad" in rarely.code


@pytest.mark.parametrize("name", ["clone", "float", "cat", "copy_"])
def test_weights_that_are_only_reported_may_be_copied_rarely(name):
    advice = tip(STEP, copies(lines=(copying(names=(name,), weights=True, reported=True),)))
    assert advice.change.step.likely == pytest.approx(0.2)
    assert advice.code.startswith("if step % 100 == 0:")
    assert not any(form in advice.code for form in ("capacity", "data.float()"))
    assert len(advice.because) == 2


def test_weights_that_an_update_may_need_and_that_are_copied_in_place_already_are_left_alone():
    in_place = copying(names=("copy_",), share=0.15, weights=True)
    assert tip(STEP, copies(lines=(in_place,))) is None
    assert tip(STEP, copies(0.2, lines=(in_place, copying(31, 0.05)))) is None
    advice = tip(STEP, copies(0.6, lines=(in_place, copying(31, 0.05))))
    assert [at.line for at in advice.at] == [31]
    assert advice.change.step.likely == pytest.approx(0.15)


def test_of_several_lines_each_brings_its_own_part():
    advice = tip(STEP, copies(lines=(copying(share=0.15), copying(31, 0.05, weights=True))))
    share = advice.change.step
    assert share.low == pytest.approx(0.5 * 0.1 * 0.75)
    assert share.likely == pytest.approx(0.15 + 0.05 * IN_PLACE)


def test_fires_at_the_thresholds_and_is_silent_just_under_them_or_without_a_line():
    assert tip(STEP, copies(0.1001)) is not None
    assert tip(STEP, copies(0.0999)) is None
    assert tip(STEP, copies(size=4.1e6)) is not None
    assert tip(STEP, copies(size=3.9e6)) is None
    assert tip(STEP, copies(lines=())) is None
