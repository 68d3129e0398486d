from __future__ import annotations

import pytest

from perfdoctor.tips.logging_every_step import logging_every_step as tip
from tests.support import facts
from tests.support.facts import line, run, stacks, step

SLOW = step(other=5, forward=2, backward=3)


def test_names_the_share_and_the_line():
    advice = tip(run(), SLOW, stacks(line(0.3, 50, "logging", text="print(loss)"), line(0.1, 51, "logging")))
    assert advice is not None
    assert advice.because == (
        "40% of each step (4.00 ms) goes into logging",
        "line 50 takes the most, 30% of the step: `print(loss)`",
    )
    assert advice.at[0].line == 50
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.4 * 0.98))
    assert facts.gain(advice).high == pytest.approx(1 / 0.6)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((line(0.0299, kind="logging"),), id="just-under-the-threshold"),
        pytest.param((line(0.3, kind="logging", samples=4),), id="too-few-samples"),
        pytest.param((line(0.5, kind="data"), line(0.2)), id="other-work"),
    ],
)
def test_is_silent(lines):
    assert tip(run(), SLOW, stacks(*lines)) is None


def test_fires_just_above_the_threshold():
    assert tip(run(), SLOW, stacks(line(0.0301, kind="logging"))) is not None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("print(loss)", "if step % 50 == 0:\n    print(loss)"),
        ('self.log("loss", loss)', 'if self.global_step % 50 == 0:\n    self.log("loss", loss)'),
        ("for x, y in tqdm(loader):", "tqdm(..., mininterval=1)  # redraw once a second"),
        ("pbar.update(1)", "tqdm(..., mininterval=1)  # redraw once a second"),
        ("trainer.fit(model, data)", "Trainer(log_every_n_steps=50)  # and enable_progress_bar=False"),
        ("Trainer(model, args).train()", "TrainingArguments(logging_steps=50)"),
    ],
)
def test_the_cure_is_written_for_the_line(text, code):
    advice = tip(run(), SLOW, stacks(line(0.3, kind="logging", text=text)))
    assert advice is not None
    assert advice.code == code


def test_a_line_that_training_may_need_is_not_skipped():
    text = "loss = train_and_log(batch)"
    advice = tip(run(), SLOW, stacks(line(0.3, kind="logging", text=text, only_reported=False)))
    assert advice is not None
    assert text not in (advice.code or "")


def test_on_a_device_a_line_that_reads_a_tensor_waits_and_others_may_run_beside_it():
    on_device = run(device="Tesla V100")
    lines = stacks(
        line(0.5, 50, "logging", text="bar.set_postfix(loss=loss.item())"), line(0.1, 51, "logging")
    )
    advice = tip(on_device, SLOW, lines)
    assert [at.line for at in advice.at] == [51]
    assert facts.gain(advice).low == 1.0
    assert tip(run(), SLOW, lines).at[0].line == 50
