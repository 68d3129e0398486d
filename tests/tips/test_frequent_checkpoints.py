from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.interval import Interval
from perfdoctor.model.measured import Location, Phase
from perfdoctor.tips.frequent_checkpoints import frequent_checkpoints as tip
from tests.support import facts
from tests.support.facts import saves, step

SLOW = step(forward=2, backward=3, checkpoint=5)


def test_names_size_interval_and_cost():
    advice = tip(SLOW, saves(count=50, each=50, between=10))
    assert advice is not None
    assert advice.because == (
        "saving takes 50% of the training time",
        "a checkpoint of 4.0 MB every 10 steps, 50 ms each",
    )
    assert advice.at[0].line == 70
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.45))
    assert facts.gain(advice).high == pytest.approx(2.0)
    assert "step % 100 == 0" in (advice.code or "")


@pytest.mark.parametrize(
    ("of_step", "of_saves"),
    [
        pytest.param(step(forward=9.71, checkpoint=0.29), saves(), id="just-under-the-threshold"),
        pytest.param(SLOW, saves(count=1), id="saved-once"),
    ],
)
def test_is_silent(of_step, of_saves):
    assert tip(of_step, of_saves) is None


def test_fires_just_above_the_threshold():
    assert tip(step(forward=9.69, checkpoint=0.31), saves()) is not None


@pytest.mark.parametrize(("goes_on", "rest"), [(False, 1 / 3), (True, 1 / 10)])
def test_of_few_checkpoints_one_stays_unless_the_script_saves_on(goes_on, rest):
    found = replace(saves(count=3, each=500, between=100), goes_on=goes_on)
    change = tip(SLOW, found).change
    assert change.pauses.likely == pytest.approx(0.5 * (1 - rest))
    assert change.pauses.low == pytest.approx(0.25)


def test_copying_and_writing_around_a_save_is_part_of_it():
    advice = tip(step(forward=9.9, checkpoint=0.1), replace(saves(count=50, between=10), beside_share=0.2))
    assert advice is not None
    assert advice.because[0] == "saving takes 21% of the training time"


def test_the_lines_that_save_most_come_first_and_no_other_finding_is_about_them():
    write, save = (Location("train.py", line, "main", "save(net)") for line in (71, 70))
    found = replace(saves(between=10), at=save, beside_share=0.4, beside=(write, save), only_reported=True)
    advice = tip(step(forward=9.9, checkpoint=0.1), found)
    assert advice is not None
    assert [at.line for at in advice.at] == [71, 70]
    assert (advice.phase, advice.code) == (
        None,
        "if step % 100 == 0:\n    ...  # the lines that save, and nothing else",
    )
    alone = tip(SLOW, replace(found, beside=(save,)))
    assert alone is not None
    assert [at.line for at in alone.at] == [70]
    assert alone.phase is Phase.CHECKPOINT


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("torch.save(net, 'last.pt')", "if step % 100 == 0:\n    torch.save(net, 'last.pt')"),
        ("trainer.fit(model, data)", "ModelCheckpoint(every_n_train_steps=100)"),
        ("trainer.train()", "TrainingArguments(save_steps=100)"),
    ],
)
def test_the_cure_is_written_for_the_line(text, code):
    at = Location("train.py", 70, "main", text)
    advice = tip(SLOW, replace(saves(between=10), at=at))
    assert advice is not None
    assert advice.code == code


def test_a_line_that_does_more_than_save_is_not_skipped_as_a_whole():
    text = "best = save_if_better(model, best)"
    at = Location("train.py", 70, "main", text)
    advice = tip(SLOW, replace(saves(between=10), at=at, only_reported=False))
    assert advice is not None
    assert text not in (advice.code or "")


@pytest.mark.parametrize(
    ("interval", "code"),
    [
        (Interval("epoch", of_updates=False), "if epoch % 10 == 0:\n    torch.save(state, path)"),
        (Interval("it", counted="(it + 1)", period="every"), "if (it + 1) % (10 * every) == 0:"),
        (Interval("epoch", False, is_in_caller=True), "if epoch % 10 == 0:\n    ...  # the lines that save"),
    ],
)
def test_the_longer_interval_is_one_of_the_loop_around_the_line(interval, code):
    assert code in tip(SLOW, replace(saves(between=50), interval=interval)).code


def test_a_statement_of_several_lines_is_named():
    at = Location("train.py", 70, None, "torch.save(", f"torch.save([{'weights, ' * 20}], path)")
    found = replace(saves(count=50, each=50, between=10), at=at, only_reported=True)
    assert tip(SLOW, found).code == "if step % 100 == 0:\n    ...  # all of the statement at line 70"
