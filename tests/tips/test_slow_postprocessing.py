from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.slow_postprocessing import slow_postprocessing as tip
from tests.support.facts import gain, run, step
from tests.support.host_facts import between

STEP = step(forward=6, backward=3, other=1)
GPU = run(device="Tesla V100")


def test_names_the_line_of_the_loop_and_the_hottest_line_inside():
    advice = tip(run(), STEP, between(0.2, text="stats.update(net)", inside=41))
    assert advice is not None
    assert advice.because == (
        "20% of each step (2.00 ms) goes into work that training does not need",
        "line 30 takes 20% of the step: `stats.update(net)`, most of it at line 41",
    )
    assert [at.line for at in advice.at] == [30, 41]
    assert advice.code == "if step % 10 == 0:\n    stats.update(net)"
    assert gain(advice).low == pytest.approx(1 / 0.9)
    assert gain(advice).likely == pytest.approx(1 / 0.82)
    assert gain(advice).high == pytest.approx(1 / 0.8)


def test_the_line_that_nearly_all_of_it_goes_into_comes_first():
    found = between(0.2, text="stats.update(net)", inside=41)
    (line,) = found.lines
    inner = replace(line, inner=line.inside)
    advice = tip(run(), STEP, replace(found, lines=(inner,)))
    assert ([at.line for at in advice.at], advice.leading) == ([41, 30], (line.at,))
    where_read = replace(inner, test="step % 40 == 0")
    assert [at.line for at in tip(run(), STEP, replace(found, lines=(where_read,))).at] == [30, 41]


def test_what_later_lines_may_need_is_not_guarded_alone():
    first = between(0.1, text="ok = y != 255")
    (line,) = first.lines
    assert tip(run(), STEP, first).code == "if step % 10 == 0:\n    ok = y != 255  # and what uses its result"
    other = replace(line, at=replace(line.at, line=31, text="confusion += counts(y[ok])"))
    advice = tip(run(), STEP, replace(first, lines=(line, other)))
    assert advice.code == "if step % 10 == 0:\n    ...  # lines 30 and 31, and what only they need"


@pytest.mark.parametrize("text", ["stats.update(a=net)", "total += norm(net)", "assert a == check(b)"])
def test_what_binds_nothing_stands_as_it_is(text):
    assert tip(run(), STEP, between(0.2, text=text)).code == f"if step % 10 == 0:\n    {text}"


def test_a_metric_belongs_into_validation():
    advice = tip(run(), STEP, between(0.2, text="f1 = f1_score(y, out.argmax(1))"))
    assert advice is not None
    assert "validation" in (advice.code or "")


@pytest.mark.parametrize(
    "text", ["previous = flatten(net)", "various = stats(net)", "auctions = bids(recall)"]
)
def test_a_word_that_only_holds_a_metrics_name_is_none(text):
    assert "validation" not in tip(run(), STEP, between(0.2, text=text)).code


def test_what_is_read_every_so_many_steps_is_done_then():
    found = between(0.2, text="self.latest = self.table.score(state)")
    (line,) = found.lines
    advice = tip(run(), STEP, replace(found, lines=(replace(line, test="state.step % self.every == 0"),)))
    assert advice is not None
    assert advice.code == (
        "if state.step % self.every == 0:  # where its result is read\n    self.latest = self.table.score(state)"
    )


def test_on_a_device_it_may_be_hidden():
    assert gain(tip(GPU, STEP, between(0.2, text="stats.update(net)"))).low == pytest.approx(1.0)


@pytest.mark.parametrize(
    "text",
    [
        "best = copy.deepcopy(net.state_dict())",
        "gc.collect()",
        "if torch.isnan(loss):",
    ],
)
def test_lines_of_other_findings_and_copies_of_the_state_are_left_out(text):
    assert tip(run(), STEP, between(0.2, text=text)) is None


def test_on_a_device_a_line_that_reads_a_tensor_waits_for_it():
    text = "hits += (out.argmax(1) == y).sum().item()"
    assert tip(GPU, STEP, between(0.2, text=text)) is None
    assert tip(run(), STEP, between(0.2, text=text)) is not None


def test_fires_just_above_the_threshold_and_is_silent_just_under_it():
    assert tip(run(), STEP, between(0.051)) is not None
    assert tip(run(), STEP, between(0.049)) is None
    assert tip(run(), STEP, between(0.5, samples=4)) is None
